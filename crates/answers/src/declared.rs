//! What `linemate check --recording` writes: the groups that types declare, against what a
//! recording shows.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::report::Share;

/// The groups of members that types declare (`__cacheline_group_begin`), against a recording and
/// its costs on a machine. Cycles are those of accesses that left their core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DeclaredDocument {
    /// The schema's name and version.
    pub schema: Cow<'static, str>,
    /// The version of linemate.
    pub tool: String,
    /// The recording's description: kernel, command, CPUs, seed, …
    pub recording: BTreeMap<String, String>,
    /// Of the recording; null if it is truncated.
    pub checksum: Option<String>,
    /// The machine's name, as its description has it.
    pub machine: String,
    /// Bytes of a line, 64 or 128.
    pub line_bytes: u64,
    /// Cycles of everything in the recording; null if no such type is accessed, and nothing was
    /// replayed.
    pub whole_cycles: Option<u64>,
    /// The types that declare groups and are accessed, most cycles first.
    pub types: Vec<DeclaredType>,
    /// Types that declare groups and are not accessed, by name.
    pub absent: Vec<String>,
    /// Members that are used otherwise than their group says, most cycles first. Those without a
    /// cost are left out.
    pub findings: Vec<MisplacedMember>,
    /// How many findings have no cost on the machine.
    pub free: usize,
}

impl DeclaredDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.groups/1";
}

/// A type that declares groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DeclaredType {
    /// The name, as the kernel declares it.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The type's size in bytes.
    pub size: u64,
    /// Its cycles, wherever its objects are.
    pub cycles: u64,
    /// Functions that set up whole objects: they write at least a quarter of the type's accessed
    /// members. Their accesses are in no count; what they cost is in the cycles.
    pub set_up: Vec<String>,
    /// Its groups, by their place.
    pub groups: Vec<GroupUse>,
}

/// A group that a type declares, and what the recording shows of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GroupUse {
    /// The name, as the kernel declares it.
    pub name: String,
    /// The group's first byte, from the type's start.
    pub offset: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// Members that are accessed.
    pub members: usize,
    /// Accesses that only read.
    pub loads: u64,
    /// Accesses that write, atomic ones included.
    pub writes: u64,
    /// Cycles of the accesses that leave their core.
    pub cycles: u64,
    /// The functions with most accesses.
    pub functions: Vec<Share>,
}

/// What is wrong with a member's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Misplacement {
    /// It is in a group for reading, and is written.
    Written,
    /// It is in a group of one direction, tx or rx, and most of its accesses are by functions that
    /// otherwise use groups of the other direction (docs/guide/check.md).
    OtherDirection,
    /// It is in no group.
    Outside,
}

impl Misplacement {
    /// As tables show it.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Misplacement::Written => "read group, written",
            Misplacement::OtherDirection => "other direction",
            Misplacement::Outside => "in no group",
        }
    }
}

/// A member that is used otherwise than its group says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MisplacedMember {
    /// The type's name, as `--type` takes it.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The member's path from the type on.
    pub member: String,
    /// Its first accessed byte.
    pub offset: u64,
    /// Its group; null for none.
    pub group: Option<String>,
    /// What is wrong with its place.
    pub kind: Misplacement,
    /// Accesses that only read.
    pub loads: u64,
    /// Accesses that write, those included that are known to have left memory unchanged.
    pub writes: u64,
    /// Of those, the known ones that left memory unchanged.
    pub silent: u64,
    /// CPUs that read one of its fields, the most.
    pub readers: u32,
    /// CPUs that write one of its fields, the most.
    pub writers: u32,
    /// Cycles of the accesses to this member.
    pub cycles: u64,
    /// For a member that is written: cycles of false sharing of the other members of its lines, in
    /// the proportion that its writes have of all writes there.
    pub neighbours: u64,
    /// The functions with most accesses.
    pub functions: Vec<Share>,
}

impl MisplacedMember {
    /// What a better place can save at most.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cycles + self.neighbours
    }
}

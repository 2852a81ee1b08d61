//! What `linemate layout` writes, and the layouts that other documents hold.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// Where the members of a type are, in one kernel or in several. Offsets and sizes are bytes unless
/// stated otherwise; lines are counted from 0 and start where the type starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LayoutDocument {
    /// The schema's name and version.
    pub schema: Cow<'static, str>,
    /// The type as given.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Bytes of a line, 64 or 128.
    pub line: u64,
    /// One per `--kernel` or `--program`, in that order; with `-i` that of the recording.
    pub kernels: Vec<KernelLayout>,
}

impl LayoutDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.layout/2";
}

/// A kernel or program, and its layout of the type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct KernelLayout {
    /// The file that was read.
    pub path: String,
    /// `uname -r` of the kernel; null if the file does not say (raw BTF), and for a program.
    pub release: Option<String>,
    /// `x86_64`, `aarch64`, `ppc64`, …; null if the file does not say, and for a program.
    pub arch: Option<Cow<'static, str>>,
    /// Null if this kernel or program has no such type (an error if none has).
    pub layout: Option<TypeLayout>,
}

/// The layout of a type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TypeLayout {
    /// The type's size in bytes, as `sizeof` gives it.
    pub size: u64,
    /// Lines that it touches if it starts at the start of one.
    pub lines: u64,
    /// Gaps between direct members.
    pub holes: u32,
    /// The unused bytes in those.
    pub hole_bytes: u64,
    /// The number of gaps between bit-fields.
    pub bit_holes: u32,
    /// Unused bytes at the end.
    pub padding: u64,
    /// Unused bits of the last bit-field's storage unit.
    pub bit_padding: u64,
    /// The alignment that the declaration seems to force, 0 for none. Inferred for kernels, because
    /// BTF has no alignment attributes; for programs the declaration's.
    pub forced_alignment: u64,
    /// The named members in declaration order, Rust's by offset; members of anonymous structs and
    /// unions and of C++ bases in their place.
    pub members: Vec<MemberEntry>,
    /// The field paths down to scalars, in declaration order: the names in `linemate report`.
    pub fields: Vec<FieldPlace>,
}

/// A member of a type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MemberEntry {
    /// The member's name, as the type declares it.
    pub name: String,
    /// The member's type, as C declares it.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Its first byte; for a bit-field, its storage unit's.
    pub offset: u64,
    /// The member's size in bytes, likewise.
    pub size: u64,
    /// The bits of a bit-field, in its storage unit.
    pub bits: Option<BitRange>,
    /// The line of its first byte.
    pub line: u32,
    /// Unused bytes after it.
    pub hole: u64,
    /// Unused bits after it.
    pub bit_hole: u64,
    /// The alignment that its declaration seems to force, 0 for none.
    pub forced_alignment: u64,
    /// With `-i`: how often the recording accesses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Heat"))]
    pub heat: Option<Heat>,
}

/// Accesses to all bytes of a member. Members of a union share theirs, as do bit-fields of one
/// storage unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Heat {
    /// Accesses that only read.
    pub loads: u64,
    /// Accesses that only write.
    pub stores: u64,
    /// The number of atomic read-modify-writes.
    pub rmws: u64,
}

/// A type's fields, accessed or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FieldMap {
    /// The type's `sizeof`, in bytes.
    pub size: u64,
    /// In declaration order of the recorded kernel.
    pub fields: Vec<FieldPlace>,
}

/// Where a field is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FieldPlace {
    /// Names from the outermost type on; `[]` for each array dimension, because every element has
    /// the same fields: `cpupri.pri_to_cpu[].count`. Locks and structs that wrap one scalar
    /// (`atomic_t`) are not unfolded.
    pub path: String,
    /// Its C type; for an array, that of one element.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Its first byte, in first elements of arrays.
    pub offset: u64,
    /// Its bytes; for a bit-field, those that its bits touch.
    pub size: u64,
    /// Only for a bit-field: its bits in the byte at `offset`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "BitRange"))]
    pub bits: Option<BitRange>,
    /// Only for a field in arrays: the enclosing arrays, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrays: Vec<ArrayExtent>,
}

impl FieldPlace {
    /// The end of the last element; for a flexible array, which has no bytes in the type, its
    /// start.
    #[must_use]
    pub fn end(&self) -> u64 {
        if self.arrays.iter().any(|array| array.count == 0) {
            return self.offset;
        }
        let beyond = |end: u64, array: &ArrayExtent| {
            end.saturating_add(array.stride.saturating_mul(array.count.saturating_sub(1)))
        };
        let first = self.offset.saturating_add(self.size);
        self.arrays.iter().fold(first, beyond)
    }
}

/// The bits of a bit-field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BitRange {
    /// The first of them.
    pub start: u64,
    /// The number of bits.
    pub width: u32,
}

/// An array around a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ArrayExtent {
    /// Bytes from element to element.
    pub stride: u64,
    /// The number of elements; 0 for a flexible array.
    pub count: u64,
}

/// A type before and after edits, both as in a kernel built for lines of that size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LayoutChange {
    /// The type's name, as `--type` takes it.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Bytes of a line.
    pub line_bytes: u64,
    /// The type's fields without the edits.
    pub before: FieldMap,
    /// With them, without removed fields.
    pub after: FieldMap,
    /// Members whose line start the new layout keeps or ends, although the types do not show
    /// whether they ask for it; absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub line_starts: Vec<KeptLineStart>,
}

/// A member that starts a line, although the types do not show whether the source asks for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct KeptLineStart {
    /// The member's name, as the type declares it.
    pub member: String,
    /// Whether it does so in the new layout, too; false if an edit moved it off.
    pub kept: bool,
    /// The edit that requests the opposite.
    pub otherwise: String,
}

//! The loads that the addresses of accesses come from.

use std::ops::Range;

use linemate_units::GuestAddr;
use rustc_hash::FxHashMap;

/// The loads that the addresses of accesses come from, by instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependences {
    by_instruction: FxHashMap<GuestAddr, Dependence>,
}

/// The loads that an instruction's addresses come from, directly or through other loads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependence {
    /// The loads of these instructions.
    pub loads: Box<[GuestAddr]>,
    /// Also all loads outside this code, its function's callers included, if something comes from
    /// the arguments.
    pub not_in: Option<Range<GuestAddr>>,
}

impl Dependence {
    /// Whether it depends on a load by that instruction.
    #[inline]
    pub fn is_on(&self, load: GuestAddr) -> bool {
        let outside = |code: &Range<GuestAddr>| !code.contains(&load);
        self.loads.contains(&load) || self.not_in.as_ref().is_some_and(outside)
    }
}

impl Dependences {
    /// Where the addresses that `instruction` accesses come from: from every load, if nothing is
    /// known of the instruction.
    pub fn insert(&mut self, instruction: GuestAddr, dependence: Dependence) {
        self.by_instruction.insert(instruction, dependence);
    }

    /// What is known of an instruction.
    #[inline]
    pub fn of(&self, instruction: GuestAddr) -> Option<&Dependence> {
        self.by_instruction.get(&instruction)
    }

    /// The number of instructions that something is known of.
    pub fn len(&self) -> usize {
        self.by_instruction.len()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.by_instruction.is_empty()
    }
}

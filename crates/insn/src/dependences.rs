//! From which loads the addresses of accesses come.

use std::ops::Range;

use linemate_units::GuestAddr;
use rustc_hash::FxHashMap;

/// From which loads the addresses of accesses come, by instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependences {
    by_instruction: FxHashMap<GuestAddr, Dependence>,
}

/// From which loads an instruction's addresses come, directly or through other loads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependence {
    /// From those of these instructions.
    pub loads: Box<[GuestAddr]>,
    /// And from all that are not in this code: the function's, if something comes from its arguments.
    pub not_in: Option<Range<GuestAddr>>,
}

impl Dependence {
    /// Whether it is on a load by that instruction.
    #[inline]
    pub fn is_on(&self, load: GuestAddr) -> bool {
        let outside = |code: &Range<GuestAddr>| !code.contains(&load);
        self.loads.contains(&load) || self.not_in.as_ref().is_some_and(outside)
    }
}

impl Dependences {
    /// Where the addresses that `instruction` accesses come from. Of an instruction that nothing was said of, they come from every load.
    pub fn insert(&mut self, instruction: GuestAddr, dependence: Dependence) {
        self.by_instruction.insert(instruction, dependence);
    }

    /// What was said of an instruction.
    #[inline]
    pub fn of(&self, instruction: GuestAddr) -> Option<&Dependence> {
        self.by_instruction.get(&instruction)
    }

    /// The number of instructions of which something was said.
    pub fn len(&self) -> usize {
        self.by_instruction.len()
    }

    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.by_instruction.is_empty()
    }
}

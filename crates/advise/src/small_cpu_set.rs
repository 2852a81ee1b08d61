//! Sets of recorded CPUs, in a word each: the search copies one for each event.

/// A [`linemate_attribution::tally::CpuSet`] of a recording with at most [`crate::trace::CPUS_MAX`] CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SmallCpuSet(u64);

impl SmallCpuSet {
    /// Adds a CPU.
    #[inline]
    pub fn insert(&mut self, cpu: u8) {
        // Recordings with more CPUs are refused before.
        self.0 |= 1 << (cpu % 64);
    }

    /// Adds all of another set.
    pub fn extend(&mut self, other: SmallCpuSet) {
        self.0 |= other.0;
    }

    /// How many there are.
    pub fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

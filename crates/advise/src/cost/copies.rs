//! Which cores have a copy of a line.

/// The number of a core among those in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Core(pub(super) u16);

impl Core {
    #[inline]
    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The cores that have a copy of one line.
pub(super) trait Copies {
    /// Of no core. `cores`: how many are in use.
    fn none(cores: usize) -> Self;
    /// Whether the core has one.
    fn has(&self, core: Core) -> bool;
    /// How many have one.
    fn count(&self) -> u32;
    /// The core gets one; it has none.
    fn give(&mut self, core: Core);
    /// Takes all away.
    fn clear(&mut self);
}

/// A bit for each of at most 64 cores. Of the events of a search five in six ask no more than this,
/// so it has to stay in a register.
#[derive(Clone, Copy, Debug)]
pub(super) struct FewCopies(u64);

/// The number of cores that [`FewCopies`] has bits for.
pub(super) const FEW_CORES: usize = u64::BITS as usize;

impl Copies for FewCopies {
    fn none(_: usize) -> FewCopies {
        FewCopies(0)
    }

    #[inline]
    fn has(&self, core: Core) -> bool {
        self.0 >> core.0 & 1 != 0
    }

    #[inline]
    fn count(&self) -> u32 {
        self.0.count_ones()
    }

    #[inline]
    fn give(&mut self, core: Core) {
        self.0 |= 1 << core.0;
    }

    #[inline]
    fn clear(&mut self) {
        self.0 = 0;
    }
}

/// By age, for any number of cores: a new age takes every copy away at once.
#[derive(Clone, Debug)]
pub(super) struct ManyCopies {
    /// How often all copies were taken away, from 1.
    age: u32,
    count: u32,
    /// By core: the age at which it got a copy.
    given: Vec<u32>,
}

impl Copies for ManyCopies {
    fn none(cores: usize) -> ManyCopies {
        ManyCopies {
            // Not 0, which is never.
            age: 1,
            count: 0,
            given: vec![0; cores],
        }
    }

    #[inline]
    fn has(&self, core: Core) -> bool {
        self.given[core.index()] == self.age
    }

    #[inline]
    fn count(&self) -> u32 {
        self.count
    }

    #[inline]
    fn give(&mut self, core: Core) {
        self.given[core.index()] = self.age;
        self.count += 1;
    }

    #[inline]
    fn clear(&mut self) {
        // A trace has fewer events than fit 32 bits, and each is run twice at most.
        self.age += 1;
        self.count = 0;
    }
}

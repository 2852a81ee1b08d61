//! When lines were used, to compare the notes of two replays.

/// The largest tie of an access ([`crate::Item::tie`]). Copying a page by the byte makes 8192
/// accesses at one instruction; of more, a timeline does not know the order.
pub const TIE_MAX: u16 = (1 << Stamp::TIE_BITS) - 1;

/// When a line was used in the replay of the recorded layout, to compare the notes of two replays:
/// cycles; the number of the slice in its round; the access's tie ([`crate::Item::tie`]); which use
/// within the access. Slices count because threads of a core use its caches in the same cycle: of
/// those that are due at the same time the first acts first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(u64);

impl Stamp {
    const TIE_BITS: u32 = 14;
    /// The line itself; [`Stamp::AFTER`], what falls back or is written back to make room for it;
    /// [`Stamp::PAIR`], its pair's other line.
    const USE_BITS: u32 = 3;
    /// Twice as many as `record` takes CPUs; beyond, slices have equal numbers.
    const SLICE_BITS: u32 = 10;
    const BITS: u32 = Stamp::SLICE_BITS + Stamp::TIE_BITS + Stamp::USE_BITS;
    /// 137 billion: the cycles from which on all stamps have the same time.
    pub(crate) const CYCLES: u64 = 1 << (u64::BITS - Stamp::BITS);
    const AFTER: u64 = 1;
    const PAIR: u64 = 2;

    /// The first use within an access.
    #[inline]
    pub(crate) fn new(cycles: u64, slice: usize, tie: u16) -> Stamp {
        let cycles = cycles.min(Stamp::CYCLES - 1);
        let slice = (slice as u64).min((1 << Stamp::SLICE_BITS) - 1);
        let within = slice << Stamp::TIE_BITS | u64::from(tie);
        Stamp(cycles << Stamp::BITS | within << Stamp::USE_BITS)
    }

    /// The stamp of making room for the line with this stamp.
    pub(crate) fn after(self) -> Stamp {
        Stamp(self.0 | Stamp::AFTER)
    }

    /// Of the pair's other line.
    pub(crate) fn pair(self) -> Stamp {
        Stamp(self.0 | Stamp::PAIR)
    }

    /// Whether it is of the line itself.
    pub(crate) fn is_first(self) -> bool {
        self.0 & (Stamp::AFTER | Stamp::PAIR) == 0
    }

    /// Whether it belongs to the pair's other line, or to making room for it.
    pub(crate) fn is_pair(self) -> bool {
        self.0 & Stamp::PAIR != 0
    }

    pub(crate) fn cycles(self) -> u64 {
        self.0 >> Stamp::BITS
    }

    /// The input with which [`Stamp::with_rest`] restores it.
    pub(crate) fn rest(self) -> u64 {
        self.0 & ((1 << Stamp::BITS) - 1)
    }

    /// From [`Stamp::cycles`] and [`Stamp::rest`].
    pub(crate) fn with_rest(cycles: u64, rest: u64) -> Stamp {
        Stamp(cycles << Stamp::BITS | rest & ((1 << Stamp::BITS) - 1))
    }

    /// Which use within its access it is.
    pub(crate) fn within(self) -> u64 {
        self.0 & ((1 << Stamp::USE_BITS) - 1)
    }

    /// Of the same access, that use.
    pub(crate) fn with_within(self, within: u64) -> Stamp {
        let mask = (1 << Stamp::USE_BITS) - 1;
        Stamp(self.0 & !mask | within & mask)
    }
}

/// A line was evicted from a full set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evicted {
    /// Its number in the cache, from 0.
    pub(crate) set: u32,
    /// When the line was last used. Under least-recently-used replacement everything used before it
    /// is gone, and everything used after it is here: this one number decides for any line whether
    /// the set still had room for it.
    pub(crate) used: Stamp,
    /// When it was evicted.
    pub(crate) now: Stamp,
}

//! How a recording is cut into slices and rounds: the one rule for everything that replays
//! accesses, filters them or lays them side by side.
//!
//! In a deterministic recording one CPU runs at a time. A *slice* is a CPU's turn, from its first
//! instruction to the last before another CPU's; a *round* is a run of consecutive slices in which
//! no CPU occurs twice. The interleaver (`interleaver`) puts the pieces side by side.
//!
//! Older recordings do not say where turns start ([`Slicer::turn`]): there a slice is a run of
//! consecutive accesses of one CPU, and what the CPU executed before the first and after the last
//! of them, mostly in programs, is lost.

use linemate_recording::{CpuId, VirtualTime};

/// Accesses through the caches after which a round is closed even though no CPU has occurred twice:
/// bounds memory when one CPU runs alone.
pub const ROUND_ACCESSES_MAX: usize = 1 << 16;

/// What an access starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// Nothing: its slice continues.
    Nothing,
    /// A slice of the current round.
    Slice,
    /// A slice, which is the first one of a round.
    Round,
}

/// Where an access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Whether a slice or a round begins with it.
    pub begins: Begins,
    /// Instructions from its slice's start; never less than the previous one's in the slice.
    pub offset: u32,
}

/// Where a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turned {
    /// Instructions of the slice that it ends.
    pub ended: Option<u32>,
    /// Whether a slice or a round starts with it.
    pub begins: Begins,
}

/// Cuts a recording. Pass every access and every turn, in order.
#[derive(Clone, Debug)]
pub struct Slicer {
    /// Recorded CPUs that have a slice in the current round.
    in_round: Vec<bool>,
    /// Accesses of the current round that go through the caches.
    cached: usize,
    slice: Option<OpenSlice>,
}

#[derive(Clone, Copy, Debug)]
struct OpenSlice {
    cpu: CpuId,
    start: u64,
    span: u32,
}

impl Slicer {
    /// For a recording with that many CPUs. Accesses by others must not be passed.
    pub fn new(cpus: usize) -> Slicer {
        Slicer {
            in_round: vec![false; cpus],
            cached: 0,
            slice: None,
        }
    }

    /// The next access; `cached` says whether it goes through the caches.
    #[inline]
    pub fn cut(&mut self, cpu: CpuId, time: VirtualTime, cached: bool) -> Cut {
        let full = self.cached >= ROUND_ACCESSES_MAX;
        let cut = match self
            .slice
            .as_mut()
            .filter(|slice| slice.cpu == cpu && !full)
        {
            Some(slice) => match u32::try_from(time.0.saturating_sub(slice.start)) {
                Ok(offset) => {
                    // Never less than before, whatever the file says: the interleaver assumes a
                    // slice's accesses in the order of their offsets.
                    slice.span = slice.span.max(offset);
                    Cut {
                        begins: Begins::Nothing,
                        offset: slice.span,
                    }
                }
                // More than 2^32 instructions in one turn: offsets have 32 bits, so a slice of the
                // next round starts.
                Err(_) => self.begin(cpu, time, full),
            },
            None => self.begin(cpu, time, full),
        };
        self.cached += usize::from(cached);
        cut
    }

    /// A CPU's turn begins.
    pub fn turn(&mut self, cpu: CpuId, time: VirtualTime) -> Turned {
        let ended = self.slice.map(|slice| {
            let length = time.0.saturating_sub(slice.start);
            u32::try_from(length).unwrap_or(u32::MAX).max(slice.span)
        });
        let full = self.cached >= ROUND_ACCESSES_MAX;
        Turned {
            ended,
            begins: self.begin(cpu, time, full).begins,
        }
    }

    fn begin(&mut self, cpu: CpuId, time: VirtualTime, full: bool) -> Cut {
        let at = usize::from(cpu.0);
        // A CPU that comes up again cannot run in parallel with itself: that bounds a round.
        let again = self.slice.is_none() || self.in_round[at] || full;
        if again {
            self.in_round.fill(false);
            self.cached = 0;
        }
        self.in_round[at] = true;
        self.slice = Some(OpenSlice {
            cpu,
            start: time.0,
            span: 0,
        });
        Cut {
            begins: if again { Begins::Round } else { Begins::Slice },
            offset: 0,
        }
    }
}

/// A slice of a round, as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceHead {
    /// The recorded CPU whose turn it is.
    pub cpu: CpuId,
    /// Instructions from its start to its end; to its last access if the end is not recorded.
    pub span: u32,
    /// Instructions for which the CPU takes part in the round: to the end, if that is recorded;
    /// else to the last access through the caches, and `None` if it has none.
    pub last: Option<u32>,
}

impl SliceHead {
    /// A slice that begins.
    pub fn new(cpu: CpuId) -> SliceHead {
        SliceHead {
            cpu,
            span: 0,
            last: None,
        }
    }

    /// Its turn ends after that many instructions.
    pub fn end(&mut self, span: u32) {
        self.span = span;
        self.last = Some(span);
    }

    /// Notes its next access.
    #[inline]
    pub fn extend(&mut self, offset: u32, cached: bool) {
        self.span = offset;
        if cached {
            self.last = Some(offset);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: CpuId = CpuId(0);
    const ONE: CpuId = CpuId(1);

    #[test]
    fn a_turn_lasts_from_its_mark_to_the_next() {
        let mut slicer = Slicer::new(2);
        let first = slicer.turn(ZERO, VirtualTime(100));
        assert_eq!((first.ended, first.begins), (None, Begins::Round));
        // 30 instructions before the first access.
        let cut = slicer.cut(ZERO, VirtualTime(130), true);
        assert_eq!((cut.begins, cut.offset), (Begins::Nothing, 30));
        let second = slicer.turn(ONE, VirtualTime(200));
        assert_eq!((second.ended, second.begins), (Some(100), Begins::Slice));
        // Without an access; and CPU 0 again is another round.
        let third = slicer.turn(ZERO, VirtualTime(250));
        assert_eq!((third.ended, third.begins), (Some(50), Begins::Round));
    }

    #[test]
    fn without_turns_a_slice_lasts_from_its_first_access() {
        let mut slicer = Slicer::new(2);
        let cut = slicer.cut(ZERO, VirtualTime(130), true);
        assert_eq!((cut.begins, cut.offset), (Begins::Round, 0));
        let cut = slicer.cut(ZERO, VirtualTime(140), true);
        assert_eq!((cut.begins, cut.offset), (Begins::Nothing, 10));
        let cut = slicer.cut(ONE, VirtualTime(150), true);
        assert_eq!((cut.begins, cut.offset), (Begins::Slice, 0));
    }

    #[test]
    fn a_slice_that_ends_keeps_its_cpu_to_the_end() {
        let mut head = SliceHead::new(ZERO);
        head.extend(10, true);
        head.extend(20, false);
        assert_eq!((head.span, head.last), (20, Some(10)));
        head.end(50);
        assert_eq!((head.span, head.last), (50, Some(50)));
    }
}

//! Virtual time from counted instructions.
//!
//! A block's instructions are counted when the block is entered. An instruction's own time is the count less the
//! instructions from itself to the block's end. A block that is left early by a fault was counted whole, so time may
//! run ahead of the instructions by less than a block per fault; it never runs back.

use std::sync::atomic::{AtomicU64, Ordering};

use linemate_recording::VirtualTime;

/// Instructions in all blocks that were entered: by all CPUs together if they share a thread, else by each.
#[derive(Debug)]
pub(crate) struct Counters {
    /// One per thread, a line apart. Each is changed by one thread only, so no addition needs to be atomic.
    counts: Box<[Count]>,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Count(AtomicU64);

impl Counters {
    /// For `lanes` threads.
    pub(crate) fn new(lanes: usize) -> Self {
        Self {
            counts: (0..lanes).map(|_| Count::default()).collect(),
        }
    }

    #[inline]
    fn count(&self, cpu: u32) -> Option<&AtomicU64> {
        let shared = self.counts.len() == 1;
        self.counts
            .get(if shared { 0 } else { cpu as usize })
            .map(|count| &count.0)
    }

    /// `cpu` enters a block of so many instructions.
    #[inline]
    pub(crate) fn add(&self, cpu: u32, instructions: u64) {
        if let Some(count) = self.count(cpu) {
            count.store(
                count.load(Ordering::Relaxed) + instructions,
                Ordering::Relaxed,
            );
        }
    }

    /// The count that holds for `cpu`.
    #[inline]
    pub(crate) fn of(&self, cpu: u16) -> u64 {
        self.count(u32::from(cpu))
            .map_or(0, |count| count.load(Ordering::Relaxed))
    }
}

/// The clock of one lane.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// The count when recording started.
    origin: u64,
    /// The latest time given out.
    last: u64,
}

impl Clock {
    /// Time is zero when the count stands at `origin`.
    pub(crate) fn start(&mut self, origin: u64) {
        *self = Self { origin, last: 0 };
    }

    /// The time of an instruction that is `back` instructions before the end of its block (itself included), with
    /// the count at `count`.
    #[inline]
    pub(crate) fn at(&mut self, count: u64, back: u32) -> VirtualTime {
        let elapsed = count.saturating_sub(self.origin + u64::from(back));
        self.last = self.last.max(elapsed);
        VirtualTime(self.last)
    }

    /// The latest time given out.
    pub(crate) fn now(&self) -> VirtualTime {
        VirtualTime(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_the_instructions_before_this_one() {
        let counters = Counters::new(1);
        let mut clock = Clock::default();
        counters.add(0, 100);
        clock.start(counters.of(0));
        // CPU 0 enters a block of 10, then CPU 1 one of 5: they share the clock.
        counters.add(0, 10);
        assert_eq!(clock.at(counters.of(0), 10), VirtualTime(0));
        assert_eq!(clock.at(counters.of(0), 7), VirtualTime(3));
        counters.add(1, 5);
        assert_eq!(clock.at(counters.of(1), 5), VirtualTime(10));
        assert_eq!(clock.now(), VirtualTime(10));
    }

    #[test]
    fn lanes_of_their_own_have_counts_of_their_own() {
        let counters = Counters::new(3);
        counters.add(1, 7);
        counters.add(2, 9);
        counters.add(3, 1);
        assert_eq!([0, 1, 2, 3].map(|cpu| counters.of(cpu)), [0, 7, 9, 0]);
    }

    #[test]
    fn a_faulting_block_never_turns_time_back() {
        let mut clock = Clock::default();
        clock.start(0);
        assert_eq!(clock.at(10, 2), VirtualTime(8));
        // An instruction restarted outside a counted block.
        assert_eq!(clock.at(10, 9), VirtualTime(8));
        assert_eq!(clock.at(12, 2), VirtualTime(10));
    }
}

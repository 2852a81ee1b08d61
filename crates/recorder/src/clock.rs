//! Virtual time from counted instructions.
//!
//! A block's instructions are counted when the block is entered. An instruction's own time is the count less the
//! instructions from itself to the block's end. A block that is left early by a fault was counted whole, so time may
//! run ahead of the instructions by less than a block per fault; it never runs back.

use std::sync::atomic::{AtomicU64, Ordering};

use linemate_recording::VirtualTime;

/// Instructions in all blocks that were entered by the CPUs of one lane.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Nothing yet.
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// A block of so many instructions is entered. Only one thread adds, so that the addition need not be atomic.
    #[inline]
    pub(crate) fn add(&self, instructions: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed) + instructions,
            Ordering::Relaxed,
        );
    }

    /// How many there were.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
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
        let count = Count::new();
        let mut clock = Clock::default();
        count.add(100);
        clock.start(count.get());
        // A block of 10 instructions, then one of 5.
        count.add(10);
        assert_eq!(clock.at(count.get(), 10), VirtualTime(0));
        assert_eq!(clock.at(count.get(), 7), VirtualTime(3));
        count.add(5);
        assert_eq!(clock.at(count.get(), 5), VirtualTime(10));
        assert_eq!(clock.now(), VirtualTime(10));
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

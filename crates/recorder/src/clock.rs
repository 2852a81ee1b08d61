//! Virtual time from QEMU's instruction counters.
//!
//! QEMU adds a block's instructions to its CPU's counter when the block is entered. An instruction's own time is
//! that counter less the instructions from itself to the block's end; the guest's time is the sum over all CPUs.
//! A block that is left early by a fault was counted whole, so time may run ahead of the instructions by less
//! than a block per fault; it never runs back.

use linemate_recording::VirtualTime;

/// The clock of one lane.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// Instructions of all other CPUs of the lane since their counters began.
    others: u64,
    /// All CPUs' instructions when recording started.
    origin: u64,
    /// The latest time given out.
    last: u64,
}

impl Clock {
    /// Starts at zero when all counters together stand at `origin`.
    pub(crate) fn start(&mut self, origin: u64) {
        *self = Self {
            others: 0,
            origin,
            last: 0,
        };
    }

    /// Takes in what the other CPUs have done; they stand still while this one runs.
    pub(crate) fn set_others(&mut self, others: u64) {
        self.others = others;
    }

    /// The time of an instruction that is `back` instructions before the end of its block (itself included), on a
    /// CPU whose counter stands at `own`.
    #[inline]
    pub(crate) fn at(&mut self, own: u64, back: u32) -> VirtualTime {
        let elapsed = (own + self.others).saturating_sub(self.origin + u64::from(back));
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
    fn time_is_the_instructions_before_this_one_on_all_cpus() {
        let mut clock = Clock::default();
        clock.start(100);
        // CPU 0 stands at 40, the others at 60: recording starts. CPU 0 enters a block of 10.
        clock.set_others(60);
        assert_eq!(clock.at(50, 10), VirtualTime(0));
        assert_eq!(clock.at(50, 7), VirtualTime(3));
        // CPU 1 (at 60) enters a block of 5; CPU 0's 50 are the others now.
        clock.set_others(50);
        assert_eq!(clock.at(65, 5), VirtualTime(10));
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

//! Virtual time from counted instructions.
//!
//! A block's instructions are counted when the block is entered. An instruction's own time is the
//! count minus the instructions from itself to the block's end. A block that is left early by a
//! fault was counted whole, so time may run ahead of the instructions by less than a block per
//! fault; it never runs back.

use linemate_recording::VirtualTime;

/// Instructions in all blocks that the CPUs of one lane have entered, minus those of the last block
/// from a certain one (inclusive) on. Negative only in the very first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InstructionCount(pub(crate) i64);

/// When an event happened, and on which CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct When {
    pub(crate) count: InstructionCount,
    pub(crate) cpu: u16,
}

/// The clock of one lane.
#[derive(Debug)]
pub(crate) struct Clock {
    /// The count when recording started.
    origin: InstructionCount,
    /// The latest time returned.
    last: u64,
}

impl Clock {
    /// Time is zero when the count is at `origin`.
    pub(crate) fn new(origin: InstructionCount) -> Self {
        Self { origin, last: 0 }
    }

    /// The time of an instruction.
    #[inline]
    pub(crate) fn at(&mut self, count: InstructionCount) -> VirtualTime {
        let elapsed = u64::try_from(count.0 - self.origin.0).unwrap_or(0);
        // Readers rely on ascending time within a lane; a fault in a block would otherwise set it
        // back.
        self.last = self.last.max(elapsed);
        VirtualTime(self.last)
    }

    /// The latest time returned.
    pub(crate) fn now(&self) -> VirtualTime {
        VirtualTime(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_the_instructions_before_this_one() {
        let mut clock = Clock::new(InstructionCount(100));
        // A block of 10 instructions, then one of 5.
        assert_eq!(clock.at(InstructionCount(110 - 10)), VirtualTime(0));
        assert_eq!(clock.at(InstructionCount(110 - 7)), VirtualTime(3));
        assert_eq!(clock.at(InstructionCount(115 - 5)), VirtualTime(10));
        assert_eq!(clock.now(), VirtualTime(10));
    }

    #[test]
    fn a_faulting_block_never_turns_time_back() {
        let mut clock = Clock::new(InstructionCount(0));
        assert_eq!(clock.at(InstructionCount(-3)), VirtualTime(0));
        assert_eq!(clock.at(InstructionCount(8)), VirtualTime(8));
        // An instruction restarted outside a counted block.
        assert_eq!(clock.at(InstructionCount(1)), VirtualTime(8));
        assert_eq!(clock.at(InstructionCount(10)), VirtualTime(10));
    }
}

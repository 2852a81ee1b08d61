//! How long the CPUs' turns are, if the recorder ends them.
//!
//! QEMU shares the time to the guest's next timer among its CPUs, so a program's thread runs for
//! hundreds of thousands of instructions on end, and after each timer every CPU gets a smaller
//! share than the one before it. The recorder therefore ends turns itself, after a number of
//! instructions that is the same for all CPUs.

/// A CPU that runs alone gets turns of up to this many times the length: each end goes through all
/// halted CPUs.
const ALONE: u32 = 16;

/// The turns of one lane.
#[derive(Debug)]
pub(crate) struct Turns {
    /// Instructions of a turn.
    length: u32,
    /// Of the next one.
    next: u32,
}

impl Turns {
    pub(crate) fn new(length: u32) -> Self {
        Self {
            length,
            next: length,
        }
    }

    /// Another CPU runs: instructions until its turn is to be ended.
    pub(crate) fn changed(&mut self) -> u32 {
        self.next = self.length;
        self.next
    }

    /// The running CPU's turn is over: instructions until the next end, unless another CPU runs
    /// before.
    pub(crate) fn over(&mut self) -> u32 {
        let over = self.next;
        self.next = (2 * self.next).min(ALONE * self.length);
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_equal_while_cpus_alternate() {
        let mut turns = Turns::new(1000);
        for _ in 0..10 {
            assert_eq!(turns.changed(), 1000);
            // The turn's end, at which the next CPU takes over.
            turns.over();
        }
    }

    #[test]
    fn a_cpu_that_runs_alone_is_interrupted_less_and_less_up_to_a_bound() {
        let mut turns = Turns::new(1000);
        let alone: Vec<u32> = (0..7).map(|_| turns.over()).collect();
        assert_eq!(alone, [1000, 2000, 4000, 8000, 16_000, 16_000, 16_000]);
        assert_eq!(turns.changed(), 1000, "another CPU woke up");
    }
}

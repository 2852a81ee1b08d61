//! How far a question is.

use linemate_recording::Accesses;

/// A number of parts of a step, all of about equal size: of what is up to the step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepParts(pub u64);

impl StepParts {
    /// All parts of as many repetitions of what has these.
    #[must_use]
    pub fn times(self, repetitions: usize) -> StepParts {
        StepParts(self.0 * StepParts::from(repetitions).0)
    }
}

impl From<usize> for StepParts {
    fn from(count: usize) -> StepParts {
        StepParts(count as u64)
    }
}

/// Of steps that go through accesses.
impl From<Accesses> for StepParts {
    fn from(count: Accesses) -> StepParts {
        StepParts(count.0)
    }
}

/// Receives a question's progress. Called from several threads, some thousand times in all.
pub trait Progress: Send + Sync {
    /// A step begins, with that many parts.
    fn begin(&self, step: Step, parts: StepParts);
    /// That many more parts of it are done.
    fn advance(&self, parts: StepParts);
}

/// The steps of a question, in order; what is kept needs no step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The recording's checksums are compared.
    Checking,
    /// Objects are identified by calls.
    Naming,
    /// Accesses are counted by field and instruction.
    Counting,
    /// What replays need is picked out.
    Choosing,
    /// Replays run on the machine.
    Replaying,
}

/// For questions whose progress nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: Step, _: StepParts) {}
    fn advance(&self, _: StepParts) {}
}

/// Reports one of several readings of the same parts as of a share of them.
pub struct OneOf<'p> {
    progress: &'p dyn Progress,
    readings: usize,
    /// Parts of this reading that are done.
    done: StepParts,
}

impl<'p> OneOf<'p> {
    pub fn new(progress: &'p dyn Progress, readings: usize) -> OneOf<'p> {
        OneOf {
            progress,
            readings,
            done: StepParts::default(),
        }
    }

    pub fn advance(&mut self, parts: StepParts) {
        // The difference of two quotients, so that rounding never loses a part: after all readings
        // the sum is exact.
        let reported = self.share();
        self.done.0 += parts.0;
        self.progress.advance(StepParts(self.share() - reported));
    }

    /// What this reading has done of the parts of all readings.
    fn share(&self) -> u64 {
        self.done.0 / StepParts::from(self.readings.max(1)).0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Default)]
    struct Sum(AtomicU64);

    impl Progress for Sum {
        fn begin(&self, _: Step, _: StepParts) {}
        fn advance(&self, parts: StepParts) {
            self.0.fetch_add(parts.0, Ordering::Relaxed);
        }
    }

    #[test]
    fn several_readings_are_reported_as_one() {
        for (readings, told) in [(1, 10), (2, 10), (3, 9)] {
            let sum = Sum::default();
            for _ in 0..readings {
                let mut reading = OneOf::new(&sum, readings);
                for parts in [3, 3, 4] {
                    reading.advance(StepParts(parts));
                }
            }
            assert_eq!(sum.0.into_inner(), told, "of 10 in {readings} readings");
        }
    }
}

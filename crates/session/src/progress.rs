//! How far a question is.

/// Receives a question's progress. Called from several threads, some thousand times in all.
pub trait Progress: Send + Sync {
    /// A step begins, with that many parts of about equal size.
    fn begin(&self, step: Step, parts: u64);
    /// That many more parts of it are done.
    fn advance(&self, parts: u64);
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
    fn begin(&self, _: Step, _: u64) {}
    fn advance(&self, _: u64) {}
}

/// Reports one of several readings of the same parts as of a share of them.
pub struct OneOf<'p> {
    progress: &'p dyn Progress,
    readings: u64,
    /// Parts of this reading that are done.
    done: u64,
}

impl<'p> OneOf<'p> {
    pub fn new(progress: &'p dyn Progress, readings: usize) -> OneOf<'p> {
        OneOf {
            progress,
            readings: readings.max(1) as u64,
            done: 0,
        }
    }

    pub fn advance(&mut self, parts: u64) {
        // The difference of two quotients, so that rounding never loses a part: after all readings
        // the sum is exact.
        let told = self.done / self.readings;
        self.done += parts;
        self.progress.advance(self.done / self.readings - told);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Default)]
    struct Sum(AtomicU64);

    impl Progress for Sum {
        fn begin(&self, _: Step, _: u64) {}
        fn advance(&self, parts: u64) {
            self.0.fetch_add(parts, Ordering::Relaxed);
        }
    }

    #[test]
    fn several_readings_are_reported_as_one() {
        for (readings, told) in [(1, 10), (2, 10), (3, 9)] {
            let sum = Sum::default();
            for _ in 0..readings {
                let mut reading = OneOf::new(&sum, readings);
                for parts in [3, 3, 4] {
                    reading.advance(parts);
                }
            }
            assert_eq!(sum.0.into_inner(), told, "of 10 in {readings} readings");
        }
    }
}

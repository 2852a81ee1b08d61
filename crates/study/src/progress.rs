//! How far a question is.

/// Is told how far a question is. Called from several threads, some thousand times in all.
pub trait Progress: Send + Sync {
    /// A step begins, which has so many parts of about the same size.
    fn begin(&self, step: Step, parts: u64);
    /// So many more parts of it are done.
    fn advance(&self, parts: u64);
}

/// The steps of a question, in order; what is kept needs no step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Objects are told from calls.
    Naming,
    /// Accesses are counted.
    Counting,
    /// What replays need is picked out.
    Choosing,
    /// Replays run.
    Replaying,
}

/// Nobody asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: Step, _: u64) {}
    fn advance(&self, _: u64) {}
}

/// Tells of one of several readings of the same parts as of a share of them.
pub(crate) struct OneOf<'p> {
    progress: &'p dyn Progress,
    readings: u64,
    /// Parts of this reading that are done.
    done: u64,
}

impl<'p> OneOf<'p> {
    pub(crate) fn new(progress: &'p dyn Progress, readings: usize) -> OneOf<'p> {
        OneOf {
            progress,
            readings: readings.max(1) as u64,
            done: 0,
        }
    }

    pub(crate) fn advance(&mut self, parts: u64) {
        let told = self.done / self.readings;
        self.done += parts;
        self.progress.advance(self.done / self.readings - told);
    }
}

//! What a verb returns to the command line.

/// How a verb ended, when it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing to complain about: exit code 0.
    Fine,
    /// The verb has findings (a broken recording, a failed self-test): exit code 1.
    Findings,
}

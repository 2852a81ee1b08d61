//! Where what was worked out about a recording is kept between questions.

use std::fmt;

use linemate_machine::LineSize;

/// A part of what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Subjects, counts, objects.
    Counts,
    /// The accesses that replays on machines with such lines need.
    Stream(LineSize),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Counts => f.write_str("counts"),
            Part::Stream(line) => write!(f, "stream{}", line.bytes()),
        }
    }
}

/// Keeps parts of one recording. What it gives was stored by the same analysis of the same recording, whole and unchanged: the
/// implementer checks that, and gives nothing where it does not hold. Whatever fails is as if nothing were kept.
pub trait Shelf: Send + Sync {
    /// What was stored, if it is there.
    fn load(&self, part: Part) -> Option<Vec<u8>>;
    /// Keeps it for later.
    fn store(&self, part: Part, bytes: &[u8]);
}

/// Keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Shelf for Nothing {
    fn load(&self, _: Part) -> Option<Vec<u8>> {
        None
    }
    fn store(&self, _: Part, _: &[u8]) {}
}

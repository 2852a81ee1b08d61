//! What goes into the machine and what comes out: one access to one line, and its result.

use linemate_machine::LogicalCpu;
use linemate_recording::AccessKind;

use crate::accounts::counts::{Cause, Source};
use crate::cache::directory::Slot;

/// A core's copy of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineState {
    /// The only copy, and newer than memory.
    Modified,
    /// The only copy, as in memory.
    Exclusive,
    /// One of several copies, and the one that answers requests from other domains.
    Forward,
    /// One of several copies.
    Shared,
    /// The core has no copy.
    Invalid,
}

/// One access to one line.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// The line's number: address divided by the line size.
    pub line: u64,
    /// The words touched: bit i is the i-th sixty-fourth of the line (1 byte of 64, 2 bytes of
    /// 128).
    pub words: u64,
    /// Load, store or atomic.
    pub kind: AccessKind,
}

/// The result of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Where it was served from.
    pub source: Source,
    /// Why it left the core: `None` for a private hit, and for a coherence miss that is still
    /// [`undecided`](Verdict::undecided).
    pub cause: Option<Cause>,
    /// A coherence miss whose class depends on later accesses: see
    /// [`System::open`](crate::System::open).
    pub undecided: bool,
    /// Latency in cycles, including waiting and the atomic's own cost.
    pub cycles: u64,
    /// The part of `cycles` spent waiting for the line.
    pub waited: u64,
    /// For a modified copy of another core: the CPU that wrote last.
    pub writer: Option<LogicalCpu>,
    /// The line's entry in the directory, for [`System::open`](crate::System::open).
    pub(crate) slot: Slot,
    /// What prefetchers see of it.
    pub(crate) asked: Asked,
}

/// What an access means to the prefetchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Nothing: a hit in L1.
    Nothing,
    /// The first hit in L1 to a line that was fetched ahead.
    FirstUse,
    /// L1 did not have the line.
    Request,
}

impl Verdict {
    pub(crate) fn private(source: Source, cycles: u64, slot: Slot) -> Verdict {
        Verdict {
            source,
            cause: None,
            undecided: false,
            cycles,
            waited: 0,
            writer: None,
            slot,
            asked: Asked::Nothing,
        }
    }
}

/// Words that other cores wrote, when a core gets the line again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// No word is pending: no touch can decide the lifetime.
    Nothing,
    /// Some, and the access touches one of them.
    Taken,
    /// Some, and the access touches none of them.
    Left,
}

/// Where the data of a missing line comes from.
pub(crate) struct LineSource {
    pub(crate) source: Source,
    pub(crate) latency: u64,
    /// The line changes hands as a whole: nobody else is served meanwhile.
    pub(crate) exclusive: bool,
    pub(crate) writer: Option<LogicalCpu>,
}

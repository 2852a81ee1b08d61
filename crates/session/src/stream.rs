//! The accesses that replays need, stored: the recording's rounds without what always hits in L1,
//! but with every access to an object that has a type, because an edit may move it.
//!
//! An access is a row of the tally (its instruction, subject, offset, kind and size), an address, a
//! time and what was left out after it. `pack` writes those as what a guess from the accesses
//! before gets wrong; the rest is zstd's.

mod guess;
mod pack;
mod packed;
#[cfg(test)]
mod tests;
mod unpack;

use linemate_attribution::tally::Key;
use linemate_attribution::{Analysis, Tally};
use linemate_machine::LineSize;
use linemate_recording::{Access, Accesses};
use linemate_replay::{Fate, L1s};

use crate::error::SessionError;
use crate::ownership::Ownership;
use crate::progress::{self, Progress, StepParts};
use crate::recorded::recorded_cpus;
use crate::rounds::{Cutter, Rounds};
use crate::steps;

use pack::Packer;
pub use packed::Stream;
pub use unpack::{Reader, Tables, Wanted};

/// How many steps are packed together.
const BLOCK: usize = 1 << 16;

/// A recording whose accesses have been counted and have names.
pub struct Named<'r> {
    pub analysis: &'r Analysis<'r>,
    pub ownership: &'r Ownership,
    /// The tally's rows, in order.
    pub rows: &'r [Key],
    pub tally: &'r Tally,
    pub progress: &'r dyn Progress,
}

/// Packs those steps of a recording's rounds that are followed.
pub struct FollowedPacker<'r> {
    packer: Packer<'r>,
    rounds: Rounds,
}

impl<'r> FollowedPacker<'r> {
    pub fn new(cpus: usize, rows: &'r [Key], line: LineSize) -> FollowedPacker<'r> {
        FollowedPacker {
            packer: Packer::new(cpus, rows, line),
            rounds: Rounds::default(),
        }
    }

    /// The next rounds, all slices of which stay.
    pub fn add(&mut self, rounds: &Rounds) -> Result<(), SessionError> {
        rounds.followed(&mut self.rounds);
        self.packer.add(&self.rounds)
    }

    pub fn finish(self) -> Result<Stream, SessionError> {
        self.packer.finish_alone()
    }
}

/// What replays with these L1s need: reads the recording once.
pub fn make(named: &Named<'_>, l1s: &L1s) -> Result<Stream, SessionError> {
    let Named {
        analysis,
        ownership,
        ..
    } = *named;
    let cpus = recorded_cpus(analysis)?;
    let names = analysis.names()?;
    let name = |access: &Access| ownership.step(&names, access);
    let typed = ownership.typed();
    // Everything with a type stays, because which types an edit will move is not known yet.
    let mut cutter = Cutter::new(cpus, Some(l1s.clone()), &typed);
    let mut packer = Packer::new(cpus, named.rows, l1s.line());
    let mut rounds = Rounds::default();
    let accesses = named.tally.ledger().total();
    named
        .progress
        .begin(progress::Step::Choosing, StepParts(accesses));
    steps::for_each(analysis.recording(), &name, |block| {
        named.progress.advance(block.size().into());
        cutter.take(block, &mut rounds)?;
        if rounds.size() >= BLOCK {
            packer.add(&rounds)?;
            rounds.clear();
        }
        Ok::<(), SessionError>(())
    })?;
    let uncached = cutter.finish(&mut rounds).uncached;
    packer.add(&rounds)?;
    let cached = |key: &Key| ownership.fate(key.subject) == Fate::Cached;
    let rows = named.tally.rows();
    let counts = rows.iter().map(|(key, count)| match cached(key) {
        // Devices' accesses are in `uncached`, not among the rows' hits.
        true => Accesses(count.count),
        false => Accesses::ZERO,
    });
    packer.finish(counts, uncached)
}

//! Replays of the recorded layout, stored for the next question: mostly one with other edits, on
//! the same machine.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};

use linemate_attribution::FieldRef;
use linemate_replay::Outcome;
use linemate_session::Session;
use linemate_session::shelf::{self, Digest, Part};
use xxhash_rust::xxh3::Xxh3;

use crate::conditions::Seed;
use crate::scene::KeyName;
use crate::setup::Experiment;
use crate::variant::Unedited;

/// How many outcomes are kept together: as many interleavings as most questions have.
pub(crate) const OUTCOMES_MAX: usize = 16;

/// What was found by replaying the layout without edits, by the interleaving's seed.
pub(crate) struct KnownOutcomes<'s> {
    session: &'s Session<'s>,
    part: Option<Part>,
    outcomes: BTreeMap<Seed, Outcome>,
    grown: bool,
}

impl<'s> KnownOutcomes<'s> {
    /// Of a layout without edits. An exact replay asks for nothing that was kept, nor does one to
    /// which other recordings belong.
    pub(crate) fn of(experiment: &Experiment<'s>, layout: Unedited) -> KnownOutcomes<'s> {
        let session = experiment.scene.session;
        let part = experiment.kept_as(&layout).map(Part::Outcomes);
        let kept = part.and_then(|part| session.shelf().load(part));
        let outcomes: Option<BTreeMap<Seed, Outcome>> =
            kept.and_then(|bytes| shelf::unpack(&bytes));
        let (keys, sites) = (experiment.scene.keys.len(), experiment.scene.sites.len());
        let twice = 1 + usize::from(experiment.under.is_some());
        // A digest of 64 bits can collide, and what is loaded is indexed by key afterwards.
        let fits = |o: &Outcome| o.keys.len() <= twice * keys && o.sites.len() <= twice * sites;
        let outcomes = outcomes.filter(|all| all.values().all(fits));
        KnownOutcomes {
            session,
            part,
            outcomes: outcomes.unwrap_or_default(),
            grown: false,
        }
    }

    /// The outcome under that seed's interleaving.
    pub(crate) fn get(&self, seed: Seed) -> Option<&Outcome> {
        self.outcomes.get(&seed)
    }

    /// The same, without a copy of it.
    pub(crate) fn take(&mut self, seed: Seed) -> Option<Outcome> {
        self.outcomes.remove(&seed)
    }

    /// One that was not known.
    pub(crate) fn add(&mut self, seed: Seed, outcome: &Outcome) {
        if self.part.is_some() && self.outcomes.len() < OUTCOMES_MAX {
            self.outcomes.insert(seed, outcome.clone());
            self.grown = true;
        }
    }

    /// Keeps one that was not known; gives it back.
    pub(crate) fn keep_with(mut self, seed: Seed, outcome: Outcome) -> Outcome {
        if self.part.is_none() || self.outcomes.len() >= OUTCOMES_MAX {
            return outcome;
        }
        // Moved in and out, not copied: with the view of lines it can have hundreds of megabytes.
        self.outcomes.insert(seed, outcome);
        self.grown = true;
        self.keep();
        self.outcomes.remove(&seed).unwrap_or_default()
    }

    /// Keeps what is new for the next question.
    pub(crate) fn keep(&self) {
        let Some(part) = self.part.filter(|_| self.grown) else {
            return;
        };
        if let Some(packed) = shelf::pack(&self.outcomes) {
            self.session.shelf().store(part, &packed);
        }
    }
}

impl Experiment<'_> {
    /// A digest of all that decides what a replay without edits finds, but for the recording, the
    /// seed, and what the caller gives: under it such a result may be kept. `None` for an exact
    /// replay, which exists to check what is otherwise left out or cached, and for one to which
    /// other recordings belong, which are not in the digest.
    pub fn kept_as(&self, more: &impl Debug) -> Option<Digest> {
        let alone = !self.conditions.exact && self.scene.session.growth().is_none();
        alone.then(|| question(self, &self.scene.keys, more))
    }
}

/// A digest of the experiment, without recording and seed, of what accesses count for, and of
/// `more`.
fn question(experiment: &Experiment<'_>, keys: &[KeyName], more: &impl Debug) -> Digest {
    let mut digest = Digester(Xxh3::new());
    let Experiment {
        scene,
        machine,
        cpus,
        conditions,
        lines,
        under,
        memory: _,
        whole: _,
    } = experiment;
    let under = under.map(|under| under.question);
    // The kernel's code decides nothing else.
    let code = machine.overlap.and_then(|_| scene.session.code_digest());
    // Writing to a digest cannot fail.
    let _ = write!(
        digest,
        // By debug formatting, which has every field: one that is added later is part of the
        // question without a line here. `memory` decides only how many replays run at a time,
        // and `whole` nothing about a layout without edits.
        "{more:?} {machine:?} {code:?} {cpus:?} {conditions:?} {lines} {under:?} {keys:?} {:?} {:?}",
        scene.sites, scene.sources
    );
    Digest(digest.0.digest())
}

/// The same of the layout as recorded by these fields, whatever keys a scene has.
pub(crate) fn question_of_recorded(experiment: &Experiment<'_>, fields: &[FieldRef]) -> Digest {
    question(experiment, &[], &fields)
}

/// The same for what edits of these subjects are put on top of.
pub(crate) fn question_of_moved(experiment: &Experiment<'_>, moved: &[bool]) -> Digest {
    let mut digest = Digester(Xxh3::new());
    let recorded = question(experiment, &experiment.scene.keys, &Unedited::AsRecorded);
    // Writing to a digest cannot fail.
    let _ = write!(digest, "{recorded:x} {moved:?}");
    Digest(digest.0.digest())
}

/// Digests what is written to it.
struct Digester(Xxh3);

impl Write for Digester {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

//! What goes in and what comes out: options, advice, errors.

use linemate_machine::Machine;
use linemate_recording::Error as RecordingError;
use linemate_study::stats::Measure;
use linemate_study::whatif::INTERLEAVINGS_MIN;
use linemate_study::{Conditions, ExperimentError};
use serde::{Deserialize, Serialize};

/// How to look for remedies.
#[derive(Clone, Debug)]
pub struct RemedyOptions {
    /// The machine that costs and effects are of.
    pub machine: Machine,
    /// CPUs and caches of the replays.
    pub conditions: Conditions,
    /// The first interleaving's seed; the others count up from it.
    pub seed: u64,
    /// How many interleavings a predicted effect is a mean of.
    pub interleavings: usize,
    /// How many remedies of each kind to list.
    pub per_kind: usize,
    /// How many remedies to try by replay; the best of each kind come first.
    pub trials: usize,
    /// Only what concerns this type or variable; `None`: all.
    pub focus: Option<String>,
}

impl RemedyOptions {
    /// The usual ones for a machine: 8 interleavings from seed 1, eight remedies of each kind, six tried.
    #[must_use]
    pub fn new(machine: Machine) -> RemedyOptions {
        RemedyOptions {
            machine,
            conditions: Conditions::default(),
            seed: 1,
            interleavings: INTERLEAVINGS_MIN,
            per_kind: 8,
            trials: 6,
            focus: None,
        }
    }
}

/// Why there is no advice.
#[derive(Debug, thiserror::Error)]
pub enum RemedyError {
    /// The recording.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The replays.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// Too few for a confidence interval.
    #[error(
        "{0} interleavings are too few for a 95 % confidence interval: at least {INTERLEAVINGS_MIN}"
    )]
    Interleavings(usize),
    /// Nothing of that name was touched.
    #[error("the recording has no access to any type or variable `{0}`")]
    Absent(String),
}

/// A kind of advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemedyKind {
    /// Stores that leave memory as it was take the line from others all the same: test first.
    SkipSilentStores,
    /// An atomic's result is available when its field is loaded again.
    ReuseResult,
    /// A counter is written whenever a bitmap is: it can be derived.
    Derive,
    /// Every CPU counts in one object: give each its own.
    SplitPerCpu,
    /// Objects of two types belong together one by one: allocate them as one.
    CoAllocate,
    /// A field that is written all the time takes its neighbours' line away.
    OwnLine,
    /// Neighbours in an array are different CPUs': pad them to lines.
    PadElements,
    /// What an allocator gave out side by side is different CPUs': allocate it on lines of its own.
    AllocateApart,
    /// Objects meet in few sets of a cache: allocate them elsewhere.
    SpreadOverSets,
    /// Words that are really exchanged: no layout helps.
    WriteLess,
}

impl RemedyKind {
    /// All kinds.
    pub const ALL: [RemedyKind; 10] = [
        RemedyKind::SkipSilentStores,
        RemedyKind::ReuseResult,
        RemedyKind::Derive,
        RemedyKind::SplitPerCpu,
        RemedyKind::CoAllocate,
        RemedyKind::OwnLine,
        RemedyKind::PadElements,
        RemedyKind::AllocateApart,
        RemedyKind::SpreadOverSets,
        RemedyKind::WriteLess,
    ];

    /// What it advises, in a few words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RemedyKind::SkipSilentStores => "skip silent stores",
            RemedyKind::ReuseResult => "reuse an atomic's result",
            RemedyKind::Derive => "derive instead of count",
            RemedyKind::SplitPerCpu => "split per CPU",
            RemedyKind::CoAllocate => "allocate together",
            RemedyKind::OwnLine => "give a line of its own",
            RemedyKind::PadElements => "pad array elements",
            RemedyKind::AllocateApart => "allocate apart",
            RemedyKind::SpreadOverSets => "spread over the cache's sets",
            RemedyKind::WriteLess => "write less often",
        }
    }
}

/// What a remedy is about, in the replay without edits: accesses that left their core. What it could gain at most, except for what follows
/// elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stake {
    /// Accesses that left their core, under the first interleaving.
    pub misses: u64,
    /// Their cycles.
    pub cycles: u64,
}

/// A function's part in a remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionUse {
    /// Its symbol, without what the compiler appended.
    pub name: String,
    /// Its accesses.
    pub accesses: u64,
    /// Those that left their core.
    pub misses: u64,
    /// Their cycles.
    pub cycles: u64,
}

/// Why a remedy is advised.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reasons {
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Of those, the ones that left memory as it was.
    pub silent_stores: u64,
    /// Atomic read-modify-writes.
    pub rmws: u64,
    /// CPUs that read.
    pub readers: u32,
    /// CPUs that write.
    pub writers: u32,
    /// The functions that pay most.
    pub functions: Vec<FunctionUse>,
    /// What else the rule went by.
    pub notes: Vec<String>,
}

/// A predicted effect.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// Interleavings replayed: fewer than allowed if their figures are narrow enough.
    pub interleavings: usize,
    /// Cycles of the concerned types' accesses that left their core.
    pub types: Measure,
    /// How many such accesses.
    pub misses: Measure,
    /// Cycles of all accesses that left their core.
    pub whole: Measure,
    /// Recorded accesses that did not happen.
    pub skipped: u64,
}

/// What replay says of edits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemedyEffect {
    /// Nothing: others were tried first ([`RemedyOptions::trials`]).
    NotTried,
    /// The edits cannot be applied to this recording.
    Refused {
        /// Why.
        why: String,
    },
    /// A prediction.
    Tried(Gain),
}

impl RemedyEffect {
    /// Cycles that the concerned types gain, if that is beyond the confidence interval.
    #[must_use]
    pub fn gain(&self) -> Option<f64> {
        match self {
            RemedyEffect::Tried(gain) if gain.types.significant && gain.types.difference < 0.0 => {
                Some(-gain.types.difference)
            }
            _ => None,
        }
    }
}

/// Edits that stand for a remedy in a replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// In the edit language (docs/reference/edits.md).
    pub edits: String,
    /// What replay says.
    pub effect: RemedyEffect,
}

/// One piece of advice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remedy {
    /// Its kind.
    pub kind: RemedyKind,
    /// What it is about: `TYPE.FIELD`, or types.
    pub subject: String,
    /// The advice.
    pub advice: String,
    /// The types and variables concerned.
    pub concerns: Vec<String>,
    /// What it is about in cycles.
    pub stake: Stake,
    /// Why.
    pub reasons: Reasons,
    /// Edits that stand for it, and what they would gain; none where no edit can.
    pub trials: Vec<Trial>,
}

impl Remedy {
    /// The largest gain of its trials.
    #[must_use]
    pub fn gain(&self) -> Option<f64> {
        let gains = self.trials.iter().filter_map(|trial| trial.effect.gain());
        gains.max_by(f64::total_cmp)
    }
}

/// All advice for a recording on a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemedyList {
    /// The machine's name.
    pub machine: String,
    /// Bytes of a line.
    pub line_bytes: u64,
    /// CPUs replayed.
    pub cpus: usize,
    /// CPUs recorded.
    pub recorded_cpus: usize,
    /// The first seed.
    pub seed: u64,
    /// The most interleavings of a trial.
    pub interleavings: usize,
    /// Accesses in the recording.
    pub accesses: u64,
    /// What everything costs, without edits, under the first interleaving.
    pub whole: Stake,
    /// The advice: what gains most first, then what was not shown to gain, by what is at stake.
    pub remedies: Vec<Remedy>,
    /// Candidates beyond [`RemedyOptions::per_kind`], by kind; with no less than `floor` at stake.
    pub left_out: Vec<(RemedyKind, usize)>,
    /// Cycles that a remedy has at stake to be listed: 0.05 % of what everything costs, or of what the type costs that is asked about.
    #[serde(default)]
    pub floor: u64,
    /// Candidates with less at stake.
    #[serde(default)]
    pub below_floor: usize,
}

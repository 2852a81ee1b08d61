//! Advice other than reordering members, part of both documents of `linemate advise`.

use serde::{Deserialize, Serialize};

use crate::measure::Measure;

/// Advice other than reordering members (docs/model/remedies.md).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RemedyList {
    /// The machine's name, as its description has it.
    pub machine: String,
    /// Bytes of a line.
    pub line_bytes: u64,
    /// The number of CPUs replayed.
    pub cpus: usize,
    /// The number of CPUs recorded.
    pub recorded_cpus: usize,
    /// The first interleaving's seed.
    pub seed: u64,
    /// The maximum number of interleavings of a trial.
    pub interleavings: usize,
    /// Accesses in the recording.
    pub accesses: u64,
    /// The total cost, without edits, under the first interleaving.
    pub whole: Stake,
    /// The largest gain first, then those without a confirmed gain, by what is at stake.
    pub remedies: Vec<Remedy>,
    /// How many more were found than are listed, by kind.
    pub left_out: Vec<(RemedyKind, usize)>,
    /// Cycles that a remedy must have at stake to be listed, and gain if it gains at all: 0.05 % of
    /// `whole`, or of the cost of the type given with `--type`.
    #[serde(default)]
    pub floor: u64,
    /// How many have less.
    #[serde(default)]
    pub below_floor: usize,
}

/// A piece of advice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Remedy {
    /// What is to be done.
    pub kind: RemedyKind,
    /// What it is about: `TYPE.FIELD`, or types.
    pub subject: String,
    /// The advice in words.
    pub advice: String,
    /// The types and variables concerned.
    pub concerns: Vec<String>,
    /// What it is about in cycles.
    pub stake: Stake,
    /// The evidence in the recording.
    pub reasons: Reasons,
    /// Edits with the same effect, and their predicted gain; none if no edit can.
    pub trials: Vec<Trial>,
}

impl Remedy {
    /// The largest gain of its trials.
    #[must_use]
    pub fn gain(&self) -> Option<f64> {
        let gains = self.trials.iter().filter_map(|trial| trial.effect.gain());
        gains.max_by(f64::total_cmp)
    }

    /// Whether it was tried, and no trial showed a gain.
    #[must_use]
    pub fn is_refuted(&self) -> bool {
        let mut effects = self.trials.iter().map(|trial| &trial.effect);
        let tried = effects.any(|effect| matches!(effect, RemedyEffect::Tried(_)));
        tried && self.gain().is_none()
    }
}

/// A kind of advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RemedyKind {
    /// Stores that leave memory unchanged still take the line from others: test first.
    SkipSilentStores,
    /// An atomic's result is available when its field is loaded again.
    ReuseResult,
    /// A counter is written whenever a bitmap is: it can be derived.
    Derive,
    /// Every CPU counts in one object: give each its own.
    SplitPerCpu,
    /// Objects of two types belong together one to one: allocate them as one.
    CoAllocate,
    /// A field that is constantly written takes its neighbours' line away.
    OwnLine,
    /// Neighbours in an array belong to different CPUs: pad them to lines.
    PadElements,
    /// Adjacent allocations belong to different CPUs: allocate them on lines of their own.
    AllocateApart,
    /// Objects collide in few sets of a cache: allocate them elsewhere.
    SpreadOverSets,
    /// Words that really are exchanged: no layout helps.
    WriteLess,
}

impl RemedyKind {
    /// All kinds, in the order of the document.
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

    /// The advice in a few words.
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

/// Accesses that left their core, in the first interleaving without edits: the most that a remedy
/// could gain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Stake {
    /// How many such accesses.
    pub misses: u64,
    /// The cycles of those.
    pub cycles: u64,
}

/// The evidence for a remedy in the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Reasons {
    /// The number of loads.
    pub loads: u64,
    /// The number of stores.
    pub stores: u64,
    /// Of those, the ones that left memory unchanged.
    pub silent_stores: u64,
    /// The number of atomic read-modify-writes.
    pub rmws: u64,
    /// The number of CPUs that read.
    pub readers: u32,
    /// The number of CPUs that write.
    pub writers: u32,
    /// The functions that pay most.
    pub functions: Vec<FunctionUse>,
    /// Further evidence, a sentence each.
    pub notes: Vec<String>,
}

/// A function's part in a remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FunctionUse {
    /// Its symbol, without suffixes added by the compiler.
    pub name: String,
    /// The number of its accesses.
    pub accesses: u64,
    /// Those that left their core.
    pub misses: u64,
    /// The cycles of those.
    pub cycles: u64,
}

/// Edits, and their predicted gain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Trial {
    /// The edits as text (docs/reference/edits.md).
    pub edits: String,
    /// The result of the replay.
    pub effect: RemedyEffect,
}

impl Trial {
    /// The edits as `-e` takes them.
    #[must_use]
    pub fn edits_in_a_line(&self) -> String {
        self.edits.trim_end().replace('\n', "; ")
    }
}

/// The outcome of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RemedyEffect {
    /// Other trials came first.
    NotTried,
    /// The edits cannot be applied to this recording.
    Refused {
        /// Why the remedy was not tried.
        why: String,
    },
    /// What a replay of the remedy gains.
    Tried(Gain),
}

impl RemedyEffect {
    /// Cycles that everything gains, or the affected types where nothing is shown of everything,
    /// if that is beyond the confidence interval: others on the same lines gain or lose, too.
    #[must_use]
    pub fn gain(&self) -> Option<f64> {
        let RemedyEffect::Tried(gain) = self else {
            return None;
        };
        let measure = match gain.whole.significant {
            true => &gain.whole,
            false => &gain.types,
        };
        let gains = measure.significant && measure.difference < 0.0;
        gains.then_some(-measure.difference)
    }
}

/// The effect of edits, by replay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Gain {
    /// Number of interleavings replayed.
    pub interleavings: usize,
    /// Cycles of the affected types' accesses that left their core.
    pub types: Measure,
    /// The number of such accesses.
    pub misses: Measure,
    /// Cycles of all accesses that left their core.
    pub whole: Measure,
    /// Recorded accesses that did not happen.
    pub skipped: u64,
    /// Objects that start a line only because of the edits, where lines are fetched in pairs: every
    /// second interleaving has them in the other half of a pair.
    #[serde(default)]
    pub in_either_half: usize,
}

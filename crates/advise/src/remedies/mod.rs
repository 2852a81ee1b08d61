//! Advice that is no reorder of members: what to do less often, not at all, or elsewhere.
//!
//! ```text
//! pass 1  evidence   uses by instruction; types used in turn; counters dirtied beside bitmaps     (all threads, sums)
//! pass 2  scene      objects with their users                                                      (all threads, sums)
//! pass 3  costs      one replay without edits: cost by field, act and function; where pointers led (in order)
//!         rules      one module per kind of advice: candidates with what is at stake
//! pass 4+ trial      replays with and without the best candidates: predicted effect, error bars
//! ```
//!
//! A rule says that the code does something needless or that data lie where they cost; it does not know what the program means.
//! `docs/remedies.md` has each rule with its constants and their reasons, and what it got wrong. No rule writes a patch.

mod bitmap;
mod costs;
mod derivable;
mod evidence;
mod fields;
mod links;
mod locks;
mod own_line;
mod partners;
mod percpu;
mod reuse;
mod sharing;
mod silent;
mod text;
mod trial;

use linemate_attribution::Analysis;
use linemate_layout::scene::{Scene, Watch};
use linemate_layout::stats::Measure;
use linemate_layout::whatif::INTERLEAVINGS_MIN;
use linemate_layout::{Edit, EditFile, Section, Statement, Subject};
use linemate_machine::Machine;
use linemate_recording::Error as RecordingError;
use linemate_replay::{COPIES_MAX, ReplayError};
use serde::Serialize;

use bitmap::Bitmaps;
use costs::{Cost, Costs, CostsError};
use evidence::Evidence;
use fields::{Field, FieldId, Fields};
use trial::{Pair, Trials};

/// How to look for remedies.
#[derive(Clone, Debug)]
pub struct Options {
    /// The machine that costs and effects are of.
    pub machine: Machine,
    /// How many CPUs to replay; `None`: as many as were recorded.
    pub cpus: Option<usize>,
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

impl Options {
    /// The usual ones for a machine: 8 interleavings from seed 1, eight remedies of each kind, six tried.
    #[must_use]
    pub fn new(machine: Machine) -> Options {
        Options {
            machine,
            cpus: None,
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
    /// The replay.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The recording does not say how many CPUs it has.
    #[error("the recording does not tell its number of CPUs")]
    NoCpus,
    /// A number of CPUs that cloning cannot give.
    #[error(
        "{wanted} CPUs are no multiple of the {recorded} recorded ones, or more than {COPIES_MAX} times as many"
    )]
    Cpus {
        /// What was asked for.
        wanted: usize,
        /// Recorded CPUs.
        recorded: usize,
    },
    /// No error bar from so few.
    #[error("{0} interleavings give no error bar: {INTERLEAVINGS_MIN} at least")]
    Interleavings(usize),
    /// Nothing of that name was touched.
    #[error("the recording has no access to any type or variable `{0}`")]
    Absent(String),
}

impl From<CostsError> for RemedyError {
    fn from(error: CostsError) -> RemedyError {
        match error {
            CostsError::Recording(error) => RemedyError::Recording(error),
            CostsError::Replay(error) => RemedyError::Replay(error),
        }
    }
}

/// A kind of advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Stores that leave memory as it was take the line from others all the same: test first.
    SkipSilentStores,
    /// An atomic's result is at hand when its field is loaded again.
    ReuseResult,
    /// A counter is written whenever a bitmap is: it can be derived.
    Derive,
    /// Every CPU counts in one object: give each its own.
    SplitPerCpu,
    /// Objects of two types belong together one by one: allocate them as one.
    CoAllocate,
    /// A field that is written all the time takes its neighbours' line away.
    OwnLine,
    /// Words that are really exchanged: no layout helps.
    WriteLess,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 7] = [
        Kind::SkipSilentStores,
        Kind::ReuseResult,
        Kind::Derive,
        Kind::SplitPerCpu,
        Kind::CoAllocate,
        Kind::OwnLine,
        Kind::WriteLess,
    ];

    /// What it advises, in a few words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Kind::SkipSilentStores => "skip silent stores",
            Kind::ReuseResult => "reuse an atomic's result",
            Kind::Derive => "derive instead of count",
            Kind::SplitPerCpu => "split per CPU",
            Kind::CoAllocate => "allocate together",
            Kind::OwnLine => "give a line of its own",
            Kind::WriteLess => "write less often",
        }
    }
}

/// What a remedy is about, in the replay without edits: accesses that left their core. What it could gain at most, but for what follows
/// elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stake {
    /// Accesses that left their core, under the first interleaving.
    pub fetches: u64,
    /// Their cycles.
    pub cycles: u64,
}

/// A function's part in a remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionUse {
    /// Its symbol, without what the compiler appended.
    pub name: String,
    /// Its accesses.
    pub accesses: u64,
    /// Those that left their core.
    pub fetches: u64,
    /// Their cycles.
    pub cycles: u64,
}

/// Why a remedy is advised.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// Cycles of the concerned types' accesses that left their core.
    pub types: Measure,
    /// How many such accesses.
    pub fetches: Measure,
    /// Cycles of all accesses that left their core.
    pub whole: Measure,
    /// Recorded accesses that did not happen.
    pub skipped: u64,
}

/// What replay says of edits.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing: others were tried first ([`Options::trials`]).
    NotTried,
    /// The edits cannot be applied to this recording.
    Refused {
        /// Why.
        why: String,
    },
    /// A prediction.
    Tried(Gain),
}

impl Effect {
    /// Cycles that the concerned types gain, if that is beyond the error bar.
    #[must_use]
    pub fn gain(&self) -> Option<f64> {
        match self {
            Effect::Tried(gain) if gain.types.measurable && gain.types.difference < 0.0 => {
                Some(-gain.types.difference)
            }
            _ => None,
        }
    }
}

/// Edits that stand for a remedy in a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// In the edit language (docs/edits.md).
    pub edits: String,
    /// What replay says.
    pub effect: Effect,
}

/// One piece of advice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Remedy {
    /// Its kind.
    pub kind: Kind,
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
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
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
    /// Interleavings of each trial.
    pub interleavings: usize,
    /// Accesses in the recording.
    pub accesses: u64,
    /// What everything costs, without edits, under the first interleaving.
    pub whole: Stake,
    /// The advice: what gains most first, then what was not shown to gain, by what is at stake.
    pub remedies: Vec<Remedy>,
    /// Candidates beyond [`Options::per_kind`], by kind.
    pub left_out: Vec<(Kind, usize)>,
}

/// Looks for remedies.
///
/// # Errors
/// Options that cannot be, a focus that nothing touched, a damaged recording.
pub fn find(analysis: &Analysis<'_>, options: &Options) -> Result<Found, RemedyError> {
    if options.interleavings < INTERLEAVINGS_MIN {
        return Err(RemedyError::Interleavings(options.interleavings));
    }
    let recorded = recorded_cpus(analysis)?;
    let copies = copies(recorded, options.cpus)?;
    let bitmaps = Bitmaps::new(analysis);
    let evidence = Evidence::collect(analysis, &bitmaps)?;
    let fields = Fields::new(analysis, &evidence.tally, options.machine.line.bytes());
    if let Some(focus) = &options.focus
        && fields.iter().all(|(_, field)| field.owner != *focus)
    {
        return Err(RemedyError::Absent(focus.clone()));
    }
    let questions = links::questions(analysis, &evidence, &fields, options.focus.as_deref());
    let mut scene = Scene::new(analysis, recorded, &Watch::default())?;
    let base = costs::replay(&options.machine, recorded, copies, options.seed)?;
    let costs = Costs::measure(analysis, &scene, &fields, &questions, base)?;
    let answers = partners::answers(analysis, &fields, &costs, &questions);
    // `colocate` pairs by these counts: what pointers tell is better than who is touched next to whom.
    scene.neighbours = answers.iter().map(partners::Answer::neighbours).collect();
    let pairs: Vec<Pair> = answers.iter().map(|answer| answer.pair.clone()).collect();
    let context = Context {
        analysis,
        options,
        bitmaps: &bitmaps,
        evidence: &evidence,
        fields: &fields,
        scene: &scene,
        costs: &costs,
        answers: &answers,
        recorded,
    };
    let (mut remedies, left_out) = context.candidates();
    let trials = Trials {
        analysis,
        scene: &scene,
        pairs: &pairs,
        options,
        recorded,
        copies,
    };
    try_best(&mut remedies, &trials)?;
    rank(&mut remedies);
    Ok(Found {
        machine: options.machine.name.clone(),
        line_bytes: options.machine.line.bytes(),
        cpus: recorded * usize::from(copies),
        recorded_cpus: recorded,
        seed: options.seed,
        interleavings: options.interleavings,
        accesses: scene.accesses,
        whole: stake(&costs.whole),
        remedies,
        left_out,
    })
}

/// All that the rules go by.
struct Context<'a> {
    analysis: &'a Analysis<'a>,
    options: &'a Options,
    bitmaps: &'a Bitmaps,
    evidence: &'a Evidence,
    fields: &'a Fields,
    scene: &'a Scene<'a>,
    costs: &'a Costs,
    answers: &'a [partners::Answer],
    recorded: usize,
}

impl Context<'_> {
    /// The most that is at stake first, in each kind; and how many more there were.
    fn candidates(&self) -> (Vec<Remedy>, Vec<(Kind, usize)>) {
        let (mut all, mut left_out) = (Vec::new(), Vec::new());
        for kind in Kind::ALL {
            let mut found = match kind {
                Kind::SkipSilentStores => silent::find(self),
                Kind::ReuseResult => reuse::find(self),
                Kind::Derive => derivable::find(self),
                Kind::SplitPerCpu => percpu::find(self),
                Kind::CoAllocate => partners::find(self),
                Kind::OwnLine => own_line::find(self),
                Kind::WriteLess => sharing::find(self),
            };
            if let Some(focus) = &self.options.focus {
                found.retain(|remedy| remedy.concerns.contains(focus));
            }
            found.sort_by(by_stake);
            let more = found.len().saturating_sub(self.options.per_kind);
            if more > 0 {
                left_out.push((kind, more));
            }
            found.truncate(self.options.per_kind);
            all.extend(found);
        }
        (all, left_out)
    }

    /// The uses of some fields together, with the functions that pay most for `acts`.
    fn reasons(&self, ids: &[FieldId], wanted: impl Fn(costs::Act) -> bool) -> Reasons {
        let mut reasons = Reasons::default();
        let (mut readers, mut writers) = Default::default();
        let mut functions: std::collections::BTreeMap<u32, Cost> = Default::default();
        for id in ids {
            let used = &self.fields.get(*id).used;
            reasons.loads += used.loads;
            reasons.stores += used.stores;
            reasons.silent_stores += used.silent_stores;
            reasons.rmws += used.rmws;
            merge(&mut readers, &used.readers);
            merge(&mut writers, &used.writers);
            for (act, function, cost) in self.costs.of(*id) {
                if wanted(act) {
                    functions.entry(function).or_default().add(cost);
                }
            }
        }
        reasons.readers = readers.len();
        reasons.writers = writers.len();
        reasons.functions = self.top_functions(&functions);
        reasons
    }

    fn top_functions(&self, costs: &std::collections::BTreeMap<u32, Cost>) -> Vec<FunctionUse> {
        let mut functions: Vec<FunctionUse> = costs
            .iter()
            .map(|(site, cost)| FunctionUse {
                name: self.function(*site).to_owned(),
                accesses: cost.accesses,
                fetches: cost.fetches,
                cycles: cost.cycles,
            })
            .collect();
        let key = |f: &FunctionUse| std::cmp::Reverse((f.cycles, f.accesses));
        functions.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name)));
        functions.truncate(FUNCTIONS_NAMED);
        functions
    }

    fn function(&self, site: u32) -> &str {
        self.scene
            .sites
            .get(site as usize)
            .map_or("", String::as_str)
    }
}

fn merge(
    into: &mut linemate_attribution::tally::CpuSet,
    other: &linemate_attribution::tally::CpuSet,
) {
    into.merge(other);
}

/// How many functions a remedy names.
const FUNCTIONS_NAMED: usize = 4;

fn stake(cost: &Cost) -> Stake {
    Stake {
        fetches: cost.fetches,
        cycles: cost.cycles,
    }
}

fn by_stake(a: &Remedy, b: &Remedy) -> std::cmp::Ordering {
    let key = |r: &Remedy| std::cmp::Reverse((r.stake.cycles, r.stake.fetches));
    key(a).cmp(&key(b)).then_with(|| a.subject.cmp(&b.subject))
}

/// The best of each kind are tried, then the second best, until there have been enough.
fn try_best(remedies: &mut [Remedy], trials: &Trials<'_>) -> Result<(), RemedyError> {
    let mut chosen: Vec<usize> = Vec::new();
    for rank in 0..trials.options.per_kind {
        for kind in Kind::ALL {
            let of_kind = remedies.iter().enumerate().filter(|(_, r)| r.kind == kind);
            let found = of_kind.map(|(number, _)| number).nth(rank);
            chosen.extend(found.filter(|number| !remedies[*number].trials.is_empty()));
        }
    }
    chosen.truncate(trials.options.trials);
    let texts: Vec<String> = chosen
        .iter()
        .flat_map(|number| remedies[*number].trials.iter().map(|t| t.edits.clone()))
        .collect();
    if texts.is_empty() {
        return Ok(());
    }
    let mut effects = trials.run(&texts)?.into_iter();
    for number in chosen {
        for trial in &mut remedies[number].trials {
            trial.effect = effects.next().unwrap_or(Effect::NotTried);
        }
    }
    Ok(())
}

/// What gains most first; then by what is at stake.
fn rank(remedies: &mut [Remedy]) {
    remedies.sort_by(|a, b| {
        let gain = |r: &Remedy| r.gain().unwrap_or(0.0);
        gain(b).total_cmp(&gain(a)).then_with(|| by_stake(a, b))
    });
}

/// A trial of edits of one type, or of edits that name theirs.
fn trial(subject: Option<&Subject>, edits: Vec<Edit>) -> Trial {
    let statement = |edit| Statement {
        edit,
        at: linemate_layout::Position::default(),
    };
    let file = EditFile {
        sections: vec![Section {
            subject: subject.cloned(),
            statements: edits.into_iter().map(statement).collect(),
        }],
    };
    Trial {
        edits: file.to_string(),
        effect: Effect::NotTried,
    }
}

/// `part` of `whole` in percent.
fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        100.0 * part as f64 / whole as f64
    }
}

/// The number of CPUs that the recording's description tells.
fn recorded_cpus(analysis: &Analysis<'_>) -> Result<usize, RemedyError> {
    let told = analysis.recording().metadata().get("cpus");
    let told = told.and_then(|text| text.parse().ok());
    told.filter(|cpus| *cpus > 0).ok_or(RemedyError::NoCpus)
}

fn copies(recorded: usize, wanted: Option<usize>) -> Result<u16, RemedyError> {
    let wanted = wanted.unwrap_or(recorded);
    let copies = u16::try_from(wanted / recorded).unwrap_or(u16::MAX);
    if copies == 0 || usize::from(copies) * recorded != wanted || copies > COPIES_MAX {
        return Err(RemedyError::Cpus { wanted, recorded });
    }
    Ok(copies)
}

/// Whether a field's outermost type has a tag or its variable a name: what nobody can find needs no advice.
fn is_named(field: &Field) -> bool {
    !field.owner.is_empty()
}

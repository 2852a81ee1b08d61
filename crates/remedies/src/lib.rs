//! Advice other than reordering members: what to do less often, not at all, or elsewhere.
//!
//! ```text
//! pass 1  evidence   uses by instruction; types used in turn; counters dirtied beside bitmaps     (all threads, sums)
//! pass 2  scene      objects with their users                                                      (all threads, sums)
//! pass 3  costs      one replay without edits: cost by field, act and function; where pointers led (in order)
//!         rules      one module per kind of advice: candidates with what is at stake
//! pass 4+ trials     replays with and without the best candidates: predicted effect, confidence intervals
//! ```
//!
//! A rule says that the code does something needless or that data are where they cost; it does not know what the program means.
//! `docs/model/remedies.md` has each rule with its constants and their reasons, `evidence/remedies.md` what it got wrong. No rule
//! writes a patch.

mod apart;
mod bitmap;
mod collide;
mod costs;
mod derivable;
mod elements;
mod evidence;
mod fields;
mod focus;
mod links;
mod locks;
mod model;
mod own_line;
mod partners;
mod percpu;
mod reuse;
mod sharing;
mod silent;
mod trials;

use std::collections::BTreeMap;

use linemate_answers::{
    FunctionUse, Reasons, Remedy, RemedyEffect, RemedyKind, RemedyList, Stake, Trial,
};
use linemate_attribution::schema::TypeIndex;
use linemate_attribution::tally::CpuSet;
use linemate_attribution::{Analysis, Tally};
use linemate_layout::{Edit, EditFile, EditSubject, Section, Statement};
use linemate_study::scene::{Scene, Watch};
use linemate_study::whatif::INTERLEAVINGS_MIN;
use linemate_study::{Cpus, Experiment, Session};

pub use apart::allocated_apart;
pub use model::{RemedyError, RemedyOptions};

use apart::Neighbours;
use bitmap::Bitmaps;
use collide::Collisions;
use costs::{Classes, Cost, Costs};
use evidence::Evidence;
use fields::{Field, FieldId, Fields};
use focus::Focus;
use links::Follower;
use trials::{Pair, Trials};

/// Looks for remedies.
///
/// # Errors
/// Options that cannot be, a focus that nothing touched, a damaged recording.
pub fn find(session: &Session<'_>, options: &RemedyOptions) -> Result<RemedyList, RemedyError> {
    if options.interleavings < INTERLEAVINGS_MIN {
        return Err(RemedyError::Interleavings(options.interleavings));
    }
    let analysis = session.analysis();
    let cpus = Cpus::new(analysis, options.conditions.cpus)?;
    let bitmaps = Bitmaps::new(analysis);
    let evidence = Evidence::collect(analysis, &bitmaps)?;
    let fields = Fields::new(
        analysis,
        &session.counted().tally,
        options.machine.line.bytes(),
    );
    let absent = |name: &str| RemedyError::Absent(name.to_owned());
    let focus = options.focus.as_deref();
    let focus = focus.map(|name| Focus::new(analysis, &fields, name).ok_or_else(|| absent(name)));
    let focus = focus.transpose()?;
    let questions = links::questions(analysis, &evidence, &fields, focus.as_ref());
    let mut scene = Scene::new(session, &Watch::default())?;
    let experiment = Experiment::new(&scene, &options.machine, options.conditions)?;
    let neighbours = Neighbours::new(analysis, &scene, options.machine.line.bytes());
    let classes = Classes::new(
        &fields,
        Follower::new(analysis, &fields, &questions),
        &neighbours,
    );
    let costs = Costs::measure(&experiment, classes, options.seed)?;
    let collisions = Collisions::new(analysis, &experiment)?;
    let answers = partners::answers(analysis, &fields, &costs, &questions);
    // `colocate` pairs by these counts: what pointers tell is better than who is touched next to whom.
    scene.neighbours = answers.iter().map(partners::Answer::neighbours).collect();
    let pairs: Vec<Pair> = answers.iter().map(|answer| answer.pair.clone()).collect();
    let context = Context {
        analysis,
        options,
        bitmaps: &bitmaps,
        tally: &session.counted().tally,
        evidence: &evidence,
        fields: &fields,
        scene: &scene,
        costs: &costs,
        answers: &answers,
        collisions: &collisions,
        neighbours: &neighbours,
        recorded: cpus.recorded,
        focus: focus.as_ref(),
    };
    let Candidates {
        mut remedies,
        left_out,
        floor,
        below_floor,
    } = context.candidates();
    let trials = Trials {
        analysis,
        scene: &scene,
        pairs: &pairs,
        options,
        cpus,
    };
    try_best(&mut remedies, &trials)?;
    rank(&mut remedies);
    Ok(RemedyList {
        machine: options.machine.name.clone(),
        line_bytes: options.machine.line.bytes(),
        cpus: cpus.replayed(),
        recorded_cpus: cpus.recorded,
        seed: options.seed,
        interleavings: options.interleavings,
        accesses: scene.accesses,
        whole: stake(&costs.whole),
        remedies,
        left_out,
        floor,
        below_floor,
    })
}

/// All that the rules go by.
struct Context<'a> {
    analysis: &'a Analysis<'a>,
    options: &'a RemedyOptions,
    bitmaps: &'a Bitmaps,
    tally: &'a Tally,
    evidence: &'a Evidence,
    fields: &'a Fields,
    scene: &'a Scene<'a>,
    costs: &'a Costs,
    answers: &'a [partners::Answer],
    collisions: &'a Collisions,
    neighbours: &'a Neighbours,
    recorded: usize,
    focus: Option<&'a Focus>,
}

/// What the rules found.
struct Candidates {
    /// To list.
    remedies: Vec<Remedy>,
    /// More with as much at stake as is listed, by kind.
    left_out: Vec<(RemedyKind, usize)>,
    /// Cycles that have to be at stake.
    floor: u64,
    /// How many have less.
    below_floor: usize,
}

impl Context<'_> {
    /// The fields of a type outside of per-CPU memory, and what they cost together.
    fn fields_of(&self, ty: TypeIndex) -> (Vec<FieldId>, Cost) {
        let fields = self.fields.iter();
        let ids: Vec<FieldId> = fields
            .filter(|(_, field)| field.outer == Some(ty) && !field.owned && is_named(field))
            .map(|(id, _)| id)
            .collect();
        let mut cost = Cost::default();
        for id in &ids {
            cost.add(&self.costs.sum(*id, |_| true));
        }
        (ids, cost)
    }

    /// The fewest cycles at stake that are worth a word: [`FLOOR_SHARE`] of what everything costs, or the type that is asked about.
    fn floor(&self) -> u64 {
        let of = |focus: &Focus| -> u64 {
            let fields = focus.fields.iter();
            fields.map(|id| self.costs.sum(*id, |_| true).cycles).sum()
        };
        let cycles = self.focus.map_or(self.costs.whole.cycles, of);
        cycles.div_ceil(FLOOR_SHARE).max(1)
    }

    /// The most that is at stake first, in each kind.
    fn candidates(&self) -> Candidates {
        let mut all = Candidates {
            remedies: Vec::new(),
            left_out: Vec::new(),
            floor: self.floor(),
            below_floor: 0,
        };
        for kind in RemedyKind::ALL {
            let mut found = match kind {
                RemedyKind::SkipSilentStores => silent::find(self),
                RemedyKind::ReuseResult => reuse::find(self),
                RemedyKind::Derive => derivable::find(self),
                RemedyKind::SplitPerCpu => percpu::find(self),
                RemedyKind::CoAllocate => partners::find(self),
                RemedyKind::OwnLine => own_line::find(self),
                RemedyKind::PadElements => {
                    let mut found = apart::elements(self);
                    found.extend(elements::find(self));
                    found
                }
                RemedyKind::AllocateApart => apart::blocks(self),
                RemedyKind::SpreadOverSets => collide::find(self),
                RemedyKind::WriteLess => sharing::find(self),
            };
            if let Some(focus) = self.focus {
                found.retain(|remedy| focus.concerns(remedy));
            }
            let before = found.len();
            found.retain(|remedy| remedy.stake.cycles >= all.floor);
            all.below_floor += before - found.len();
            found.sort_by(by_stake);
            let more = found.len().saturating_sub(self.options.per_kind);
            if more > 0 {
                all.left_out.push((kind, more));
            }
            found.truncate(self.options.per_kind);
            all.remedies.extend(found);
        }
        all
    }

    /// The uses of some fields together, with the functions that pay most for `acts`.
    fn reasons(&self, ids: &[FieldId], wanted: impl Fn(costs::Act) -> bool) -> Reasons {
        let mut reasons = Reasons::default();
        let (mut readers, mut writers) = (CpuSet::default(), CpuSet::default());
        let mut functions: BTreeMap<u32, Cost> = BTreeMap::new();
        for id in ids {
            let used = &self.fields.get(*id).used;
            reasons.loads += used.loads;
            reasons.stores += used.stores;
            reasons.silent_stores += used.silent_stores;
            reasons.rmws += used.rmws;
            readers.merge(&used.readers);
            writers.merge(&used.writers);
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

    fn top_functions(&self, costs: &BTreeMap<u32, Cost>) -> Vec<FunctionUse> {
        let mut functions: Vec<FunctionUse> = costs
            .iter()
            .map(|(site, cost)| FunctionUse {
                name: self.function(*site).to_owned(),
                accesses: cost.accesses,
                misses: cost.misses,
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
            .map_or("", |site| &site.function)
    }
}

/// What has less than this part at stake is not listed: half of a thousandth, which tables show as 0.0 %.
const FLOOR_SHARE: u64 = 2000;

/// How many functions a remedy names.
const FUNCTIONS_NAMED: usize = 4;

fn stake(cost: &Cost) -> Stake {
    Stake {
        misses: cost.misses,
        cycles: cost.cycles,
    }
}

fn by_stake(a: &Remedy, b: &Remedy) -> std::cmp::Ordering {
    let key = |r: &Remedy| std::cmp::Reverse((r.stake.cycles, r.stake.misses));
    key(a).cmp(&key(b)).then_with(|| a.subject.cmp(&b.subject))
}

/// The best of each kind are tried, then the second best, until there have been enough.
fn try_best(remedies: &mut [Remedy], trials: &Trials<'_>) -> Result<(), RemedyError> {
    let mut chosen: Vec<usize> = Vec::new();
    for rank in 0..trials.options.per_kind {
        let of_rank = |kind: RemedyKind| {
            let of_kind = remedies.iter().enumerate().filter(|(_, r)| r.kind == kind);
            of_kind.map(|(number, _)| number).nth(rank)
        };
        let mut best: Vec<usize> = RemedyKind::ALL.into_iter().filter_map(of_rank).collect();
        best.retain(|number| !remedies[*number].trials.is_empty());
        best.sort_by(|a, b| by_stake(&remedies[*a], &remedies[*b]));
        chosen.extend(best);
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
            trial.effect = effects.next().unwrap_or(RemedyEffect::NotTried);
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
fn trial(subject: Option<&EditSubject>, edits: Vec<Edit>) -> Trial {
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
        effect: RemedyEffect::NotTried,
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

/// Whether a field's outermost type has a tag or its variable a name: what nobody can find needs no advice.
fn is_named(field: &Field) -> bool {
    !field.owner.is_empty()
}

//! What a recording costs on a machine, as it is: by type, field, function, pair of CPUs and line.
//!
//! One replay under one interleaving, everything where it was recorded. *Cost* is cycles of accesses that left their core, as in
//! [`crate::effect`]. No edits, and no confidence intervals: those belong to differences.

mod groups;
mod lines;

use std::collections::BTreeMap;

use linemate_attribution::Analysis;
use linemate_machine::Machine;
use linemate_recording::TimeGrid;
use linemate_replay::{Cause, Counts, Mixing, Outcome, Source, WarmUp};
use serde::{Deserialize, Serialize};

use crate::calls::Balance;
use crate::effect::Potential;
use crate::experiment::{Conditions, Cpus, Experiment};
use crate::scene::{KeyName, Scene, Watch};
use crate::session::Session;
use crate::sets::TypeSets;
use crate::under::{Cycles, Under, UnderCounts};
use crate::variant::Variant;
use linemate_layout::edit::EditSubject;
use linemate_layout::plan::{resolve, subject_name};

use crate::whatif::WhatIfError;

pub use groups::{GroupCosts, LockCost};
pub use linemate_replay::MachinePlaces;
pub use lines::{CellCost, LineCost, LinePair};

/// Where and how to replay.
#[derive(Clone, Copy, Debug)]
pub struct CostRun<'m> {
    /// The machine.
    pub machine: &'m Machine,
    /// CPUs, caches.
    pub conditions: Conditions,
    /// The interleaving's seed.
    pub seed: u64,
    /// Whether costs are also told by line of programs' source.
    pub sources: bool,
}

/// How often something was accessed and what the accesses that left their core cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Type, field or function.
    pub name: String,
    /// Loads, of all CPUs replayed; for functions only those that left their core, as all that follows.
    pub loads: u64,
    /// Stores and atomic read-modify-writes.
    pub stores: u64,
    /// Accesses that left their core.
    pub misses: u64,
    /// Their cycles.
    pub cycles: u64,
    /// The part of the cycles spent waiting until others had done with the line.
    pub waited: u64,
    /// Modified lines fetched from a core of the domain, of the socket, of another socket.
    pub hitm: [u64; 3],
    /// Permission to write asked for.
    pub upgrades: u64,
    /// Lines from memory.
    pub dram: u64,
    /// Cycles by cause.
    pub causes: Causes,
}

/// Cycles by the reason why an access left its core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Causes {
    /// The core never had the line.
    pub cold: u64,
    /// Its caches had no room for it.
    pub capacity: u64,
    /// Words are exchanged.
    pub true_sharing: u64,
    /// Only the line is.
    pub false_sharing: u64,
    /// Permission asked for without another holder.
    pub unshared: u64,
}

/// Modified lines that one CPU took from another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairCost {
    /// Who wrote last: the recorded CPU, and which of its copies.
    pub from: (usize, usize),
    /// Who took it.
    pub to: (usize, usize),
    /// How many modified lines.
    pub hitm: u64,
    /// Cycles.
    pub cycles: u64,
}

/// Where something costs most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotPlace {
    /// The type, variable or whatever it is that costs.
    pub name: String,
    /// The function with the most cycles of it.
    pub function: String,
    /// Of its instruction with the most: the line of a program's source, with the functions there; none where no lines are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl HotPlace {
    /// The line, or where none is known the function.
    pub fn at(&self) -> &str {
        self.source.as_deref().unwrap_or(&self.function)
    }
}

/// What a recording costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// The machine's name.
    pub machine: String,
    /// Bytes of a line.
    pub line_bytes: u64,
    /// CPUs replayed.
    pub cpus: usize,
    /// CPUs recorded.
    pub recorded_cpus: usize,
    /// The interleaving's seed.
    pub seed: u64,
    /// Accesses in the recording.
    pub accesses: u64,
    /// Of those, the ones to device registers, which no cache holds: they are in no row.
    pub device_accesses: u64,
    /// What filled the caches before counting began; none: they were empty.
    pub warm_up: Option<WarmUp>,
    /// The machine's mechanisms that were replayed, by their keys in a description.
    pub mechanisms: Vec<String>,
    /// Cycles that no CPU waited because misses overlapped. They are in no row.
    pub overlapped: u64,
    /// Cycles from the replay's start to its end.
    pub duration: u64,
    /// What a layout can change of the type's cost, or of everything's if no type was asked for.
    pub potential: Potential,
    /// The cost of everything.
    pub whole: Cost,
    /// Where what costs most, or the type that was asked for, costs most: the place of accesses to lines that went between cores; none if there are
    /// none, or a function was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hottest: Option<HotPlace>,
    /// How the lines of the type that was asked for fall into the caches' sets; `None` if none was.
    pub sets: Option<TypeSets>,
    /// By type and variable, and all that is neither; most cycles first, as everywhere.
    pub types: Vec<Cost>,
    /// By field: those of the type that was asked for, or of all.
    pub fields: Vec<Cost>,
    /// By function.
    pub functions: Vec<Cost>,
    /// By line of programs' source, and by function where no lines are known; empty unless asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Cost>,
    /// By pair of CPUs.
    pub pairs: Vec<PairCost>,
    /// What the pairs of a line are numbers of.
    #[serde(default)]
    pub pairs_by: MachinePlaces,
    /// What counts over time are kept for.
    #[serde(default)]
    pub time: TimeGrid,
    /// By line: those of the type that was asked for, or all. A type's lines add up to the type.
    pub lines: Vec<LineCost>,
    /// With more CPUs than were recorded: what groups of CPUs do together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<GroupCosts>,
    /// The function that was asked for. Types, fields, functions and the potential are then those of what it and everything that it calls accessed;
    /// pairs and lines are empty, and there are no sets.
    #[serde(default)]
    pub under: Option<UnderCost>,
}

/// What a function and everything that it calls cost: while it is on the stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UnderCost {
    /// Its accesses that left their core, in the way of all rows; its name.
    pub cost: Cost,
    /// How often it came onto a stack that it was not on.
    pub entered: u64,
    /// Cycles while it is on the stack.
    pub cycles: Cycles,
    /// All cycles of the recording.
    pub all_cycles: Cycles,
    /// How well the calls and returns of the recording fit.
    pub balance: Balance,
}

/// Replays a recording as it is. `subject` narrows fields and lines to one type.
///
/// # Errors
/// CPUs that cannot be, a type that does not exist or that nothing touched, a damaged recording.
pub fn costs(
    session: &Session<'_>,
    subject: Option<&EditSubject>,
    run: CostRun<'_>,
) -> Result<Costs, WhatIfError> {
    let mut found = costs_of(session, &[subject], run)?;
    Ok(found.remove(0))
}

/// The same narrowed in several ways, of one replay.
///
/// # Errors
/// As [`costs`].
pub fn costs_of(
    session: &Session<'_>,
    subjects: &[Option<&EditSubject>],
    run: CostRun<'_>,
) -> Result<Vec<Costs>, WhatIfError> {
    let watch = Watch {
        every: true,
        sources: run.sources,
        ..Watch::default()
    };
    let scene = Scene::new(session, &watch)?;
    for subject in subjects.iter().flatten() {
        known(session.analysis(), &scene, &subject_name(subject), subject)?;
    }
    let experiment = Experiment {
        lines: true,
        ..Experiment::new(&scene, run.machine, run.conditions)?
    };
    let outcome = experiment.as_recorded(run.seed)?;
    let narrowed = |subject: &Option<&EditSubject>| {
        let only = subject.map(subject_name);
        told(&experiment, &outcome, None, only.as_deref(), run)
    };
    subjects.iter().map(narrowed).collect()
}

/// Replays a recording as it is, and narrows types, fields and functions to what is accessed while a function is on the stack. Lines, pairs of CPUs
/// and sets, which are of all accesses to a line, are then left out.
///
/// # Errors
/// As [`costs`].
pub fn costs_under(
    session: &Session<'_>,
    subject: Option<&EditSubject>,
    run: CostRun<'_>,
    under: &Under,
) -> Result<Costs, WhatIfError> {
    let watch = Watch {
        every: true,
        sources: run.sources,
        ..Watch::default()
    };
    let scene = Scene::new(session, &watch)?;
    let only = subject.map(subject_name);
    if let (Some(name), Some(subject)) = (&only, subject) {
        known(session.analysis(), &scene, name, subject)?;
    }
    let experiment = Experiment {
        under: Some(under),
        ..Experiment::new(&scene, run.machine, run.conditions)?
    };
    let mut outcome = experiment.as_recorded(run.seed)?;
    let counts = UnderCounts::take(&mut outcome, &scene);
    told(&experiment, &outcome, Some(&counts), only.as_deref(), run)
}

/// What an outcome says about everything, or about one type; or of that what a function did, given its counts.
fn told(
    experiment: &Experiment<'_>,
    outcome: &Outcome,
    part: Option<&UnderCounts>,
    only: Option<&str>,
    run: CostRun<'_>,
) -> Result<Costs, WhatIfError> {
    let (scene, cpus) = (experiment.scene, experiment.cpus);
    let mixing = experiment.conditions.groups.mixing;
    let session = scene.session;
    let book = Book {
        analysis: session.analysis(),
        scene,
        outcome,
        keys: part.map_or(&outcome.keys, |part| &part.keys),
        sites: part.map_or(&outcome.sites, |part| &part.sites),
        only,
        grid: session.time_grid(),
    };
    let fields = book.fields();
    if let (Some(name), true) = (only, fields.is_empty()) {
        return Err(absent(name, experiment.under));
    }
    let under = experiment.under.zip(part);
    let under = under.map(|(under, part)| under_cost(under, part, outcome, (run.machine, cpus)));
    let whole = cost("everything".to_owned(), &outcome.totals);
    let asked = only
        .is_some()
        .then(|| fields.iter().fold(Cost::default(), Cost::plus));
    let types = book.types();
    let costliest = only.or(types.first().map(|row| row.name.as_str()));
    Ok(Costs {
        hottest: costliest.and_then(|name| lines::hottest(&book, name)),
        machine: run.machine.name.clone(),
        line_bytes: run.machine.line.bytes(),
        cpus: cpus.replayed(),
        recorded_cpus: cpus.recorded,
        seed: run.seed,
        accesses: scene.accesses,
        device_accesses: outcome.uncached,
        warm_up: outcome.warm_up,
        mechanisms: run.machine.mechanisms(),
        overlapped: outcome.overlapped,
        duration: outcome.cycles,
        potential: asked
            .as_ref()
            .or(under.as_ref().map(|under| &under.cost))
            .unwrap_or(&whole)
            .potential(),
        sets: sets(experiment, only.filter(|_| under.is_none()))?,
        types,
        functions: book.functions(),
        sources: book.sources(),
        pairs: match under {
            Some(_) => Vec::new(),
            None => pairs(outcome, run.machine, (cpus, mixing)),
        },
        pairs_by: outcome.transfers.places,
        time: session.time_grid(),
        lines: lines::lines(&book),
        groups: GroupCosts::new(scene, outcome, (cpus, mixing)),
        fields,
        whole,
        under,
    })
}

/// Why nothing is told about a type.
fn absent(name: &str, under: Option<&Under>) -> WhatIfError {
    match under {
        None => WhatIfError::Absent(name.to_owned()),
        Some(under) => WhatIfError::AbsentUnder {
            name: name.to_owned(),
            function: under.function.clone(),
        },
    }
}

/// What a function costs, given its counts and those of everything.
fn under_cost(
    under: &Under,
    part: &UnderCounts,
    all: &Outcome,
    (machine, cpus): (&Machine, Cpus),
) -> UnderCost {
    let total = part.total();
    UnderCost {
        cost: cost(under.function.clone(), &total),
        entered: under.entered,
        cycles: under.cycles(machine, cpus, &total),
        all_cycles: under.all_cycles(machine, cpus, &all.totals),
        balance: under.balance,
    }
}

/// The sets that the lines of the type of that name reach.
fn sets(experiment: &Experiment<'_>, only: Option<&str>) -> Result<Option<TypeSets>, WhatIfError> {
    let Some(only) = only else { return Ok(None) };
    let scene = experiment.scene;
    let keys = scene.keys.iter();
    let type_of: Vec<Option<usize>> = keys.map(|key| (owner(key) == only).then_some(0)).collect();
    let variant = Variant::as_recorded(scene);
    let found = experiment.sets(&[&variant], 1, &type_of)?;
    Ok(found.into_iter().flatten().flatten().next())
}

/// Refuses a name that neither a type has nor a variable of a struct without a tag that was touched.
fn known(
    analysis: &Analysis<'_>,
    scene: &Scene<'_>,
    name: &str,
    subject: &EditSubject,
) -> Result<(), WhatIfError> {
    let touched = |key: &KeyName| key.place.is_some() && owner(key) == name;
    match resolve(analysis.model(), subject) {
        Err(reason) if !scene.keys.iter().any(touched) => Err(WhatIfError::Type {
            name: name.to_owned(),
            reason,
        }),
        _ => Ok(()),
    }
}

impl Cost {
    fn plus(mut self, other: &Cost) -> Cost {
        self.add(other);
        self
    }

    fn add(&mut self, other: &Cost) {
        self.loads += other.loads;
        self.stores += other.stores;
        self.misses += other.misses;
        self.cycles += other.cycles;
        self.waited += other.waited;
        self.upgrades += other.upgrades;
        self.dram += other.dram;
        for (mine, theirs) in self.hitm.iter_mut().zip(other.hitm) {
            *mine += theirs;
        }
        let (mine, theirs) = (&mut self.causes, &other.causes);
        mine.cold += theirs.cold;
        mine.capacity += theirs.capacity;
        mine.true_sharing += theirs.true_sharing;
        mine.false_sharing += theirs.false_sharing;
        mine.unshared += theirs.unshared;
    }

    fn potential(&self) -> Potential {
        Potential::new(self.cycles as f64, |cause| match cause {
            Cause::Cold => self.causes.cold as f64,
            Cause::Capacity => self.causes.capacity as f64,
            Cause::TrueSharing => self.causes.true_sharing as f64,
            Cause::FalseSharing => self.causes.false_sharing as f64,
            Cause::Unshared => self.causes.unshared as f64,
        })
    }
}

fn cost(name: String, counts: &Counts) -> Cost {
    let cycles = |cause| counts.cause(cause).cycles;
    let count = |source| counts.source(source).count;
    Cost {
        name,
        loads: counts.loads,
        stores: counts.stores + counts.rmws,
        misses: counts.left_core().count,
        cycles: counts.left_core().cycles,
        waited: counts.waited,
        hitm: [Source::HitmDomain, Source::HitmSocket, Source::HitmRemote].map(count),
        upgrades: count(Source::Upgrade),
        dram: count(Source::DramLocal) + count(Source::DramRemote),
        causes: Causes {
            cold: cycles(Cause::Cold),
            capacity: cycles(Cause::Capacity),
            true_sharing: cycles(Cause::TrueSharing),
            false_sharing: cycles(Cause::FalseSharing),
            unshared: cycles(Cause::Unshared),
        },
    }
}

/// Sums by name, the most cycles first, then by name; without what was never touched.
fn ranked(costs: impl Iterator<Item = Cost>) -> Vec<Cost> {
    let mut sums: BTreeMap<String, Cost> = BTreeMap::new();
    for cost in costs.filter(|cost| cost.loads + cost.stores > 0) {
        match sums.get_mut(&cost.name) {
            Some(sum) => sum.add(&cost),
            None => {
                sums.insert(cost.name.clone(), cost);
            }
        }
    }
    let mut rows: Vec<Cost> = sums.into_values().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.cycles));
    rows
}

fn pairs(outcome: &Outcome, machine: &Machine, (cpus, mixing): (Cpus, Mixing)) -> Vec<PairCost> {
    let copies = usize::from(cpus.copies);
    let spread = cpus.places(machine, mixing).unwrap_or_default();
    let place = |cpu| {
        let number = spread.iter().position(|at| *at == cpu).unwrap_or(0);
        (number / copies, number % copies)
    };
    let mut pairs: Vec<PairCost> = outcome
        .pairs
        .iter()
        .map(|pair| PairCost {
            from: place(pair.from),
            to: place(pair.to),
            hitm: pair.tally.count,
            cycles: pair.tally.cycles,
        })
        .collect();
    pairs.sort_by_key(|pair| (std::cmp::Reverse(pair.cycles), pair.from, pair.to));
    pairs
}

/// An outcome with what its numbers mean.
struct Book<'b> {
    analysis: &'b Analysis<'b>,
    scene: &'b Scene<'b>,
    outcome: &'b Outcome,
    /// By key and by site, of what is asked about.
    keys: &'b [Counts],
    sites: &'b [Counts],
    only: Option<&'b str>,
    grid: TimeGrid,
}

impl Book<'_> {
    fn keys(&self) -> impl Iterator<Item = (&KeyName, &Counts)> {
        self.scene.keys.iter().zip(self.keys)
    }

    fn types(&self) -> Vec<Cost> {
        ranked(
            self.keys()
                .map(|(key, counts)| cost(owner(key).to_owned(), counts)),
        )
    }

    fn fields(&self) -> Vec<Cost> {
        let wanted = |key: &KeyName| self.only.is_none_or(|only| owner(key) == only);
        let keys = self.keys().filter(|(key, _)| wanted(key));
        ranked(keys.map(|(key, counts)| cost(key.path.clone(), counts)))
    }

    fn functions(&self) -> Vec<Cost> {
        let sites = self.scene.sites.iter().zip(self.sites);
        ranked(sites.map(|(name, counts)| cost(name.clone(), counts)))
    }

    fn sources(&self) -> Vec<Cost> {
        let sites = self.scene.sources.iter().zip(self.sites);
        ranked(sites.map(|(name, counts)| cost(name.clone(), counts)))
    }
}

/// The type or variable of a key.
fn owner(key: &KeyName) -> &str {
    key.place
        .as_ref()
        .map_or(&key.path, |place| &place.type_name)
}

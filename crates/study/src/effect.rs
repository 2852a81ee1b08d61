//! The answer of a what-if, as plain figures: what a report prints and JSON holds.
//!
//! *Cost* is cycles of accesses that left their core: hits in L1 and L2 are what every layout has. Sums over all interleavings'
//! means; differences are paired (see [`crate::stats`]).

use std::collections::BTreeMap;

use linemate_machine::Machine;
use linemate_recording::AccessKind;
use linemate_replay::{Cause, Counts, Outcome, Source, WarmUp};
use linemate_types::{LineSize, TypeId, TypeModel};
use serde::{Deserialize, Serialize};

use crate::experiment::{Conditions, Cpus};
use crate::scene::Scene;
use crate::sets::SetsChange;
use crate::stats::{Measure, paired};
use crate::under::Under;
use crate::variant::{Followed, Paired, Variant};

/// Why a type costs what it does without edits: shares of its cost. A layout changes all of them, true sharing only where words that are
/// exchanged together share a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Potential {
    /// Cycles.
    pub cost: f64,
    /// Words that are really exchanged between cores. Only writing less, or fetching several of them with one line, helps.
    pub true_sharing: f64,
    /// Lines that are taken away though no word is exchanged.
    pub false_sharing: f64,
    /// Lines fetched for the first time: fewer lines, fewer of them.
    pub cold: f64,
    /// Lines that did not fit the caches, likewise.
    pub capacity: f64,
    /// Permission to write asked for without another holder.
    pub unshared: f64,
}

impl Potential {
    /// Of that many cycles, which have the causes `cycles`.
    pub(crate) fn new(cost: f64, cycles: impl Fn(Cause) -> f64) -> Potential {
        let share = |cause| {
            if cost > 0.0 {
                cycles(cause) / cost
            } else {
                0.0
            }
        };
        Potential {
            cost,
            true_sharing: share(Cause::TrueSharing),
            false_sharing: share(Cause::FalseSharing),
            cold: share(Cause::Cold),
            capacity: share(Cause::Capacity),
            unshared: share(Cause::Unshared),
        }
    }
}

/// Size of a type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// The type.
    pub name: String,
    /// Bytes in the recorded kernel.
    pub recorded_bytes: u64,
    /// Bytes without edits, built for the machine's lines.
    pub without_bytes: u64,
    /// Bytes with edits.
    pub with_bytes: u64,
    /// Lines without edits, of an object that starts a line.
    pub without_lines: u64,
    /// Lines with edits.
    pub with_lines: u64,
}

/// A figure that changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The field, cause, source or function.
    pub name: String,
    /// How often, per interleaving.
    pub count: Measure,
    /// Cycles of it.
    pub cycles: Measure,
}

/// What an edit did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ablation {
    /// The edit, as it is written.
    pub edit: String,
    /// Cost of the reported types with this edit alone, against none. `None`: it needs others.
    pub alone: Option<Measure>,
    /// Cost of the reported types with all edits, against all but this one. `None`: others need it.
    pub last: Option<Measure>,
    /// Why there is no figure.
    pub why_not: Option<String>,
}

/// Accesses that the last-level cache of their core's domain could not serve, nor a core of that domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LlcMisses {
    /// Of the reported types.
    pub types: Measure,
    /// Of everything that was recorded.
    pub whole: Measure,
    /// Of the kernel's code: everything but what programs' own code accessed, whether its functions have names or not.
    pub kernel: Measure,
    /// Of those, loads: what processors' counters of load misses count.
    pub kernel_loads: Measure,
    /// Stores.
    pub kernel_stores: Measure,
    /// Atomic read-modify-writes.
    pub kernel_rmws: Measure,
    /// Loads of programs' own code.
    pub user_loads: Measure,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WhatIf {
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
    /// Interleavings replayed: fewer than allowed if their figures are narrow enough.
    pub interleavings: usize,
    /// The most allowed.
    pub interleavings_max: usize,
    /// Accesses in the recording.
    pub accesses: u64,
    /// The reported types' potential.
    pub potential: Potential,
    /// The reported types' sizes.
    pub sizes: Vec<Size>,
    /// How the reported types' lines fall into the caches' sets.
    pub sets: Vec<SetsChange>,
    /// Cost of the reported types together.
    pub types: Measure,
    /// Cost of everything.
    pub whole: Measure,
    /// Misses of the last-level caches.
    pub llc_misses: LlcMisses,
    /// Whether each of them had only the share of the CPUs replayed on it.
    pub llc_share: bool,
    /// What filled the caches before counting began, of the recorded layout; none: they were empty.
    pub warm_up: Option<WarmUp>,
    /// The machine's mechanisms that were replayed, by their keys in a description.
    pub mechanisms: Vec<String>,
    /// Wall-clock cycles from the start to the end of the replay.
    pub duration: Measure,
    /// The reported types' accesses by why they left their core.
    pub causes: Vec<Row>,
    /// And by where they were served from.
    pub sources: Vec<Row>,
    /// By field, largest change first.
    pub fields: Vec<Row>,
    /// All accesses by function, largest change first.
    pub functions: Vec<Row>,
    /// Each edit's share.
    pub ablation: Vec<Ablation>,
    /// Objects that got new addresses.
    pub relocated: usize,
    /// Accesses to the reported types as recorded: all that have a name, whether they left their core or not.
    #[serde(default)]
    pub types_accesses: u64,
    /// Accesses to the edited types on programs' stacks, which no edit moves.
    #[serde(default)]
    pub on_stacks: u64,
    /// What each `colocate` paired.
    pub paired: Vec<Paired>,
    /// What each `skip array` found.
    pub followed: Vec<Followed>,
    /// Accesses that did not happen, of all interleavings' first.
    pub skipped: u64,
    /// The function that was asked for.
    #[serde(default)]
    pub under: Option<UnderChange>,
}

/// What changes while a function is on the stack: of it and of everything that it calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UnderChange {
    /// The function.
    pub function: String,
    /// How often it came onto a stack that it was not on.
    pub entered: u64,
    /// Cycles of accesses that left their core.
    pub cost: Measure,
    /// Misses of the last-level caches.
    pub llc_misses: Measure,
    /// All its cycles: one for each instruction, and the waiting.
    pub cycles: Measure,
    /// The same of the whole recording.
    pub all_cycles: Measure,
}

/// How to run a study.
#[derive(Clone, Debug)]
pub struct Run {
    /// The machine.
    pub machine: Machine,
    /// CPUs, caches.
    pub conditions: Conditions,
    /// The first interleaving's seed; the others count up from it.
    pub seed: u64,
    /// The most interleavings.
    pub interleavings: usize,
    /// Whether to replay all of them, also where the figures of fewer are narrow enough: so that means of several answers are over the same.
    pub all_interleavings: bool,
    /// Whether to replay each edit alone, and all but it.
    pub ablate: bool,
}

/// Which edits a variant has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariantKind {
    /// Without edits.
    Without,
    /// With all.
    All,
    /// With one alone, by its number.
    Alone(usize),
    /// With all but one.
    AllBut(usize),
}

/// What an answer is made of.
pub(crate) struct Facts<'f> {
    pub(crate) model: &'f TypeModel,
    pub(crate) scene: &'f Scene<'f>,
    /// The reported types, each with its variants.
    pub(crate) types: &'f [(String, Vec<TypeId>)],
    /// The edits as they are written, in order.
    pub(crate) statements: Vec<String>,
    pub(crate) run: &'f Run,
    pub(crate) cpus: Cpus,
    pub(crate) line: LineSize,
    /// Sizes of the reported types: without edits, with all.
    pub(crate) layouts: Vec<Vec<u64>>,
    /// The sets that the reported types' lines reach.
    pub(crate) sets: Vec<SetsChange>,
    pub(crate) variants: &'f [(VariantKind, Result<Variant, String>)],
    /// The reported types' keys, by their numbers in the scene.
    pub(crate) watched: Vec<usize>,
    /// Accesses to the edited types on programs' stacks.
    pub(crate) on_stacks: u64,
    /// By variant that could be built, then by interleaving; of the keys those of `watched`, in its order.
    pub(crate) outcomes: Vec<Vec<Outcome>>,
    /// A function, and the counts while it was on the stack, in the order of `outcomes`.
    pub(crate) under: Option<(&'f Under, Vec<Vec<Counts>>)>,
}

/// Cycles of accesses that left their core.
fn cost(counts: &Counts) -> u64 {
    counts.left_core().cycles
}

/// The cost of the reported types, whose keys alone an outcome has.
pub(crate) fn types_cost(outcome: &Outcome) -> f64 {
    sum(outcome, &cost) as f64
}

/// The cost while a function was on the stack.
pub(crate) fn under_cost(counts: &Counts) -> f64 {
    cost(counts) as f64
}

/// The cost of everything.
pub(crate) fn whole_cost(outcome: &Outcome) -> f64 {
    cost(&outcome.totals) as f64
}

fn left(counts: &Counts) -> u64 {
    counts.left_core().count
}

/// Accesses that missed the last-level cache of their domain.
fn missed(counts: &Counts) -> u64 {
    counts.llc_misses.iter().sum()
}

impl Facts<'_> {
    /// The outcomes of a variant; empty when it could not be built.
    fn of(&self, kind: VariantKind) -> &[Outcome] {
        let built = self.variants.iter().filter(|(_, variant)| variant.is_ok());
        let at = built.map(|(kind, _)| *kind).position(|known| known == kind);
        at.and_then(|at| self.outcomes.get(at))
            .map_or(&[], Vec::as_slice)
    }

    /// The counts of a variant while a function was on the stack.
    fn counts_under<'s>(&self, counts: &'s [Vec<Counts>], kind: VariantKind) -> &'s [Counts] {
        let built = self.variants.iter().filter(|(_, variant)| variant.is_ok());
        let at = built.map(|(kind, _)| *kind).position(|known| known == kind);
        at.and_then(|at| counts.get(at)).map_or(&[], Vec::as_slice)
    }

    fn under(&self) -> Option<UnderChange> {
        let (under, counts) = self.under.as_ref()?;
        let (machine, cpus) = (&self.run.machine, self.cpus);
        let of = |kind, figure: &dyn Fn(&Counts) -> u64| -> Vec<f64> {
            let counts = self.counts_under(counts, kind).iter();
            counts.map(|counts| figure(counts) as f64).collect()
        };
        let measure = |figure: &dyn Fn(&Counts) -> u64| {
            let without = of(VariantKind::Without, figure);
            paired(&without, &of(VariantKind::All, figure))
        };
        let pair = (VariantKind::Without, VariantKind::All);
        Some(UnderChange {
            function: under.function.clone(),
            entered: under.entered,
            cost: measure(&cost),
            llc_misses: measure(&missed),
            cycles: measure(&|counts| under.cycles(machine, cpus, counts).sum()),
            all_cycles: self.measure(pair, &|o| under.all_cycles(machine, cpus, &o.totals).sum()),
        })
    }

    fn measure(
        &self,
        pair: (VariantKind, VariantKind),
        figure: &dyn Fn(&Outcome) -> u64,
    ) -> Measure {
        let series =
            |kind| -> Vec<f64> { self.of(kind).iter().map(|o| figure(o) as f64).collect() };
        paired(&series(pair.0), &series(pair.1))
    }

    /// The cost of the reported types.
    fn types(&self, pair: (VariantKind, VariantKind)) -> Measure {
        self.measure(pair, &|o| sum(o, &cost))
    }

    fn llc_misses(&self) -> LlcMisses {
        let pair = (VariantKind::Without, VariantKind::All);
        let of_user = |o: &Outcome| self.scene.llc_misses_of_programs(o);
        let of_kernel = |o: &Outcome| {
            let mut misses = o.totals.llc_misses;
            let user = of_user(o);
            misses.iter_mut().zip(user).for_each(|(all, of)| *all -= of);
            misses
        };
        let kernel = |kind| self.measure(pair, &|o| of_kernel(o)[kind as usize]);
        LlcMisses {
            types: self.measure(pair, &|o| sum(o, &missed)),
            whole: self.measure(pair, &|o| missed(&o.totals)),
            kernel: self.measure(pair, &|o| of_kernel(o).iter().sum()),
            kernel_loads: kernel(AccessKind::Load),
            kernel_stores: kernel(AccessKind::Store),
            kernel_rmws: kernel(AccessKind::Rmw),
            user_loads: self.measure(pair, &|o| of_user(o)[AccessKind::Load as usize]),
        }
    }

    fn rows(&self, names: impl Iterator<Item = (String, Figure)>) -> Vec<Row> {
        let pair = (VariantKind::Without, VariantKind::All);
        let row = |(name, figure): (String, Figure)| Row {
            name,
            count: self.measure(pair, &|o| figure(o).0),
            cycles: self.measure(pair, &|o| figure(o).1),
        };
        let mut rows: Vec<Row> = names.map(row).collect();
        rows.retain(|row| row.count.without > 0.0 || row.count.with > 0.0);
        rows
    }

    fn fields(&self) -> Vec<Row> {
        let several = self.types.len() > 1;
        let names = self.watched.iter().enumerate().map(|(number, key)| {
            let key = &self.scene.keys[*key];
            let owner = key
                .watched
                .and_then(|t| self.types.get(t))
                .map_or("", |t| &t.0);
            let name = if several {
                format!("{owner}.{}", key.path)
            } else {
                key.path.clone()
            };
            let figure: Figure = Box::new(move |o| {
                o.keys
                    .get(number)
                    .map_or((0, 0), |counts| (left(counts), cost(counts)))
            });
            (name, figure)
        });
        let mut rows = self.rows(names);
        by_change(&mut rows);
        rows
    }

    fn functions(&self) -> Vec<Row> {
        let mut sites: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, site) in self.scene.sites.iter().enumerate() {
            sites.entry(&site.function).or_default().push(number);
        }
        let names = sites.into_iter().map(|(name, numbers)| {
            let figure: Figure = Box::new(move |o| {
                let counts = numbers.iter().filter_map(|number| o.sites.get(*number));
                counts.fold((0, 0), |(count, cycles), of| {
                    (count + left(of), cycles + cost(of))
                })
            });
            (name.to_owned(), figure)
        });
        let mut rows = self.rows(names);
        by_change(&mut rows);
        rows
    }

    fn causes(&self) -> Vec<Row> {
        let names = Cause::ALL.into_iter().map(|cause| {
            let figure: Figure = Box::new(move |o| {
                let count = sum(o, &|c| c.cause(cause).count);
                (count, sum(o, &|c| c.cause(cause).cycles))
            });
            (cause.name().to_owned(), figure)
        });
        self.rows(names)
    }

    fn sources(&self) -> Vec<Row> {
        let names = Source::ALL.into_iter().map(|source| {
            let figure: Figure = Box::new(move |o| {
                let count = sum(o, &|c| c.source(source).count);
                (count, sum(o, &|c| c.source(source).cycles))
            });
            (source.name().to_owned(), figure)
        });
        self.rows(names)
    }

    fn potential(&self, causes: &[Row], cost: f64) -> Potential {
        Potential::new(cost, |cause| {
            let row = causes.iter().find(|row| row.name == cause.name());
            row.map_or(0.0, |row| row.cycles.without)
        })
    }

    fn sizes(&self) -> Vec<Size> {
        let lines = |bytes: u64| bytes.div_ceil(self.line.bytes());
        let of = |kind: usize, number: usize| {
            self.layouts
                .get(kind)
                .and_then(|l| l.get(number))
                .copied()
                .unwrap_or(0)
        };
        let size = |(number, (name, ids)): (usize, &(String, Vec<TypeId>))| Size {
            name: name.clone(),
            recorded_bytes: ids
                .first()
                .and_then(|id| self.model.size_of(*id))
                .unwrap_or(0),
            without_bytes: of(0, number),
            with_bytes: of(1, number),
            without_lines: lines(of(0, number)),
            with_lines: lines(of(1, number)),
        };
        self.types.iter().enumerate().map(size).collect()
    }

    fn ablation(&self) -> Vec<Ablation> {
        let built = |kind: VariantKind| {
            self.variants
                .iter()
                .find(|(known, _)| *known == kind)
                .map(|(_, variant)| variant)
        };
        let one = |(number, statement): (usize, String)| {
            let (alone, last) = (
                built(VariantKind::Alone(number))?,
                built(VariantKind::AllBut(number))?,
            );
            let why_not = alone.as_ref().err().or(last.as_ref().err()).cloned();
            Some(Ablation {
                edit: statement,
                alone: alone
                    .is_ok()
                    .then(|| self.types((VariantKind::Without, VariantKind::Alone(number)))),
                last: last
                    .is_ok()
                    .then(|| self.types((VariantKind::AllBut(number), VariantKind::All))),
                why_not,
            })
        };
        let statements = self.statements.iter().cloned();
        statements.enumerate().filter_map(one).collect()
    }
}

/// Count and cycles of an outcome.
type Figure = Box<dyn Fn(&Outcome) -> (u64, u64)>;

/// Over the reported types.
fn sum(outcome: &Outcome, figure: &dyn Fn(&Counts) -> u64) -> u64 {
    outcome.keys.iter().map(figure).sum()
}

/// Largest change in cycles first, then by name.
fn by_change(rows: &mut [Row]) {
    rows.sort_by(|a, b| {
        let change = |row: &Row| row.cycles.difference.abs();
        change(b)
            .total_cmp(&change(a))
            .then_with(|| a.name.cmp(&b.name))
    });
}

/// Makes the answer.
pub(crate) fn whatif(facts: &Facts<'_>) -> WhatIf {
    let run = facts.run;
    let pair = (VariantKind::Without, VariantKind::All);
    let types = facts.types(pair);
    let causes = facts.causes();
    let all = facts
        .variants
        .iter()
        .find(|(kind, _)| *kind == VariantKind::All)
        .and_then(|(_, variant)| variant.as_ref().ok());
    WhatIf {
        machine: run.machine.name.clone(),
        line_bytes: facts.line.bytes(),
        cpus: facts.cpus.replayed(),
        recorded_cpus: facts.cpus.recorded,
        seed: run.seed,
        interleavings: facts.outcomes.first().map_or(0, Vec::len),
        interleavings_max: run.interleavings,
        accesses: facts.scene.accesses,
        potential: facts.potential(&causes, types.without),
        sizes: facts.sizes(),
        sets: facts.sets.clone(),
        types,
        whole: facts.measure(pair, &|o| cost(&o.totals)),
        llc_misses: facts.llc_misses(),
        llc_share: run.conditions.llc_share,
        warm_up: facts
            .of(VariantKind::Without)
            .first()
            .and_then(|o| o.warm_up),
        mechanisms: run.machine.mechanisms(),
        duration: facts.measure(pair, &|o| o.cycles),
        causes,
        sources: facts.sources(),
        fields: facts.fields(),
        functions: facts.functions(),
        ablation: facts.ablation(),
        relocated: all.map_or(0, |variant| variant.relocated),
        types_accesses: facts.scene.watched_accesses(),
        on_stacks: facts.on_stacks,
        paired: all.map_or_else(Vec::new, |variant| variant.paired.clone()),
        followed: all.map_or_else(Vec::new, |variant| variant.followed.clone()),
        skipped: facts.of(VariantKind::All).first().map_or(0, |o| o.skipped),
        under: facts.under(),
    }
}

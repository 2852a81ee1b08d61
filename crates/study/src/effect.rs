//! The answer of a what-if, as plain figures: what a report prints and JSON holds.
//!
//! *Cost* is cycles of accesses that left their core: hits in L1 and L2 are what every layout has.
//! Sums over all interleavings' means; differences are paired (see [`linemate_stats`]).

use std::collections::BTreeMap;
use std::iter::Sum;

use linemate_answers::{
    Ablation, LlcMisses, Measure, MeasuredRow, Potential, SetsChange, TypeSize, UnderChange,
    WhatIf, WorkTime,
};
use linemate_experiment::scene::Scene;
use linemate_experiment::under::Under;
use linemate_experiment::variant::Variant;
use linemate_experiment::{Conditions, Cpus, Seed};
use linemate_machine::Machine;
use linemate_recording::{AccessKind, Accesses, Cycles};
use linemate_replay::{Cause, Counts, Outcome, Source};
use linemate_types::{ByteSize, LineSize, TypeId, TypeModel};

use crate::border;
use crate::closed_queue::{Worked, work_time};
use crate::compare::{in_either_half, measure};

/// The potential of that many cycles, which have the causes `cycles`.
pub(crate) fn potential(cost: f64, cycles: impl Fn(Cause) -> f64) -> Potential {
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

/// How to run a study.
#[derive(Clone, Debug)]
pub struct Run {
    pub machine: Machine,
    pub conditions: Conditions,
    /// The first interleaving's seed; the others count up from it.
    pub seed: Seed,
    /// The most interleavings to replay; fewer where the intervals are narrow before.
    pub interleavings: usize,
    /// Whether to replay all of them, also where the figures of fewer are narrow enough: so that
    /// means of several answers are over the same.
    pub all_interleavings: bool,
    /// Whether to replay each edit alone, and all but it.
    pub ablate: bool,
}

/// Which edits a variant has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariantKind {
    Without,
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
    /// Variables and allocations of programs, reported as a whole; they are numbered after the
    /// types.
    pub(crate) memory: &'f [String],
    /// The edits as written, in order.
    pub(crate) statements: Vec<String>,
    pub(crate) run: &'f Run,
    pub(crate) cpus: Cpus,
    pub(crate) line: LineSize,
    /// Sizes of what is reported, types first: without edits, with all.
    pub(crate) layouts: Vec<Vec<ByteSize>>,
    /// The sets that the reported types' lines reach.
    pub(crate) sets: Vec<SetsChange>,
    pub(crate) variants: &'f [(VariantKind, Result<Variant, String>)],
    /// The reported types' keys, by their numbers in the scene.
    pub(crate) watched: Vec<usize>,
    /// Accesses to the edited types on programs' stacks.
    pub(crate) on_stacks: Accesses,
    /// By variant that could be built, then by interleaving; of the keys those of `watched`, in its
    /// order.
    pub(crate) outcomes: Vec<Vec<Outcome>>,
    /// The time of each, in the same order.
    pub(crate) worked: Vec<Vec<Worked>>,
    /// A function, and the counts while it was on the stack, in the order of `outcomes`.
    pub(crate) under: Option<(&'f Under, Vec<Vec<Counts>>)>,
}

/// Cycles of accesses that left their core.
pub(crate) fn cost(counts: &Counts) -> Cycles {
    counts.left_core().cycles
}

/// The cost of the reported types, whose keys alone an outcome has.
pub(crate) fn types_cost(outcome: &Outcome) -> Cycles {
    sum(outcome, cost)
}

fn left(counts: &Counts) -> Accesses {
    counts.left_core().count
}

/// Accesses that missed the last-level cache of their domain.
fn missed(counts: &Counts) -> Accesses {
    counts.llc_misses.iter().sum()
}

impl Facts<'_> {
    /// The outcomes of a variant; empty when it could not be built.
    fn of(&self, kind: VariantKind) -> &[Outcome] {
        self.of_variant(&self.outcomes, kind)
    }

    /// What a list of all variants that could be built has of this one.
    fn of_variant<'s, T>(&self, all: &'s [Vec<T>], kind: VariantKind) -> &'s [T] {
        let built = self.variants.iter().filter(|(_, variant)| variant.is_ok());
        let at = built.map(|(kind, _)| *kind).position(|known| known == kind);
        at.and_then(|at| all.get(at)).map_or(&[], Vec::as_slice)
    }

    fn time(&self) -> WorkTime {
        let of = |kind| self.of_variant(&self.worked, kind);
        work_time(of(VariantKind::Without), of(VariantKind::All))
    }

    /// Whether every outcome with edits is a whole one's with a difference on top.
    fn by_difference(&self) -> bool {
        let with = self.of(VariantKind::All);
        !with.is_empty() && with.iter().all(|outcome| outcome.by_difference)
    }

    fn under(&self) -> Option<UnderChange> {
        let (under, counts) = self.under.as_ref()?;
        let (machine, cpus) = (&self.run.machine, self.cpus);
        let of = |kind| self.of_variant(counts, kind);
        let (without, with) = (of(VariantKind::Without), of(VariantKind::All));
        let pair = (VariantKind::Without, VariantKind::All);
        Some(UnderChange {
            function: under.function.clone(),
            entered: under.entered,
            cost: measure(without, with, cost),
            llc_misses: measure(without, with, missed),
            cycles: measure(without, with, |counts| under.cycles(machine, cpus, counts)),
            all_cycles: self.measure(pair, |o| under.all_cycles(machine, cpus, &o.totals)),
        })
    }

    fn measure<F: Into<f64>>(
        &self,
        pair: (VariantKind, VariantKind),
        figure: impl Fn(&Outcome) -> F,
    ) -> Measure {
        measure(self.of(pair.0), self.of(pair.1), figure)
    }

    /// The cost of the reported types.
    fn types(&self, pair: (VariantKind, VariantKind)) -> Measure {
        self.measure(pair, |o| sum(o, cost))
    }

    fn llc_misses(&self) -> LlcMisses {
        let pair = (VariantKind::Without, VariantKind::All);
        let of_user = |o: &Outcome| self.scene.llc_misses_of_programs(o);
        // The kernel's as the rest: sites of programs are the fewer, and what the filter left out
        // misses nothing.
        let of_kernel = |o: &Outcome| {
            let mut misses = o.totals.llc_misses;
            let user = of_user(o);
            misses.iter_mut().zip(user).for_each(|(all, of)| *all -= of);
            misses
        };
        let kernel = |kind| self.measure(pair, |o| of_kernel(o)[kind as usize]);
        LlcMisses {
            types: self.measure(pair, |o| sum(o, missed)),
            whole: self.measure(pair, |o| missed(&o.totals)),
            kernel: self.measure(pair, |o| of_kernel(o).iter().sum::<Accesses>()),
            kernel_loads: kernel(AccessKind::Load),
            kernel_stores: kernel(AccessKind::Store),
            kernel_rmws: kernel(AccessKind::Rmw),
            user_loads: self.measure(pair, |o| of_user(o)[AccessKind::Load as usize]),
        }
    }

    fn rows(&self, names: impl Iterator<Item = (String, OutcomeFigure)>) -> Vec<MeasuredRow> {
        let pair = (VariantKind::Without, VariantKind::All);
        let row = |(name, figure): (String, OutcomeFigure)| MeasuredRow {
            name,
            count: self.measure(pair, |o| figure(o).0),
            cycles: self.measure(pair, |o| figure(o).1),
        };
        let mut rows: Vec<MeasuredRow> = names.map(row).collect();
        // Fields that neither side misses have nothing to compare; most of a type's are such.
        rows.retain(|row| row.count.without > 0.0 || row.count.with > 0.0);
        rows
    }

    fn fields(&self) -> Vec<MeasuredRow> {
        let several = self.types.len() + self.memory.len() > 1;
        // Several blocks of one name are one row.
        let mut keys: BTreeMap<(usize, &str), Vec<usize>> = BTreeMap::new();
        for (number, key) in self.watched.iter().enumerate() {
            let key = &self.scene.keys[*key];
            let of = (key.watched.unwrap_or_default(), key.path.as_str());
            keys.entry(of).or_default().push(number);
        }
        let names = keys.into_iter().map(|((owner, path), numbers)| {
            let name = match self.types.get(owner) {
                Some((owner, _)) if several => format!("{owner}.{path}"),
                _ => path.to_owned(),
            };
            let figure: OutcomeFigure = Box::new(move |o| {
                let counts = numbers.iter().filter_map(|number| o.keys.get(*number));
                total(counts)
            });
            (name, figure)
        });
        let mut rows = self.rows(names);
        by_change(&mut rows);
        rows
    }

    fn functions(&self) -> Vec<MeasuredRow> {
        let mut sites: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, site) in self.scene.sites.iter().enumerate() {
            sites.entry(&site.function).or_default().push(number);
        }
        let names = sites.into_iter().map(|(name, numbers)| {
            let figure: OutcomeFigure = Box::new(move |o| {
                let counts = numbers.iter().filter_map(|number| o.sites.get(*number));
                total(counts)
            });
            (name.to_owned(), figure)
        });
        let mut rows = self.rows(names);
        by_change(&mut rows);
        rows
    }

    fn causes(&self) -> Vec<MeasuredRow> {
        let names = Cause::ALL.into_iter().map(|cause| {
            let figure: OutcomeFigure = Box::new(move |o| {
                let count = sum(o, |c| c.cause(cause).count);
                (count, sum(o, |c| c.cause(cause).cycles))
            });
            (cause.name().to_owned(), figure)
        });
        self.rows(names)
    }

    fn sources(&self) -> Vec<MeasuredRow> {
        let names = Source::ALL.into_iter().map(|source| {
            let figure: OutcomeFigure = Box::new(move |o| {
                let count = sum(o, |c| c.source(source).count);
                (count, sum(o, |c| c.source(source).cycles))
            });
            (source.name().to_owned(), figure)
        });
        self.rows(names)
    }

    fn potential(&self, causes: &[MeasuredRow], cost: f64) -> Potential {
        potential(cost, |cause| {
            let row = causes.iter().find(|row| row.name == cause.name());
            row.map_or(0.0, |row| row.cycles.without)
        })
    }

    fn sizes(&self) -> Vec<TypeSize> {
        let lines = |bytes: ByteSize| bytes.lines(self.line);
        let of = |kind: usize, number: usize| {
            self.layouts
                .get(kind)
                .and_then(|l| l.get(number))
                .copied()
                .unwrap_or_default()
        };
        let size = |number: usize, name: &String| TypeSize {
            name: name.clone(),
            recorded_bytes: of(0, number).0,
            without_bytes: of(0, number).0,
            with_bytes: of(1, number).0,
            without_lines: lines(of(0, number)),
            with_lines: lines(of(1, number)),
            memory: number >= self.types.len(),
        };
        let types = self.types.iter().enumerate();
        let types = types.map(|(number, (name, ids))| {
            let recorded = ids.first().and_then(|id| self.model.size_of(*id));
            TypeSize {
                recorded_bytes: recorded.unwrap_or(0),
                ..size(number, name)
            }
        });
        let memory = (self.types.len()..).zip(self.memory);
        types
            .chain(memory.map(|(number, name)| size(number, name)))
            .collect()
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
                // Two shares of an edit: alone it is compared with nothing edited, as the last one
                // with all others. They differ where edits need or replace each other.
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
type OutcomeFigure = Box<dyn Fn(&Outcome) -> (Accesses, Cycles)>;

/// How many accesses left their core, and their cycles.
fn total<'c>(counts: impl Iterator<Item = &'c Counts>) -> (Accesses, Cycles) {
    counts.fold(Default::default(), |(count, cycles), of| {
        (count + left(of), cycles + cost(of))
    })
}

/// Over the reported types.
fn sum<F: Sum>(outcome: &Outcome, figure: impl Fn(&Counts) -> F) -> F {
    outcome.keys.iter().map(figure).sum()
}

/// Largest change in cycles first, then by name.
fn by_change(rows: &mut [MeasuredRow]) {
    rows.sort_by(|a, b| {
        let change = |row: &MeasuredRow| row.cycles.difference.abs();
        change(b)
            .total_cmp(&change(a))
            .then_with(|| a.name.cmp(&b.name))
    });
}

/// The document of what was found.
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
        prediction_error: facts.cpus.prediction_error(facts.scene.session),
        seed: run.seed.0,
        interleavings: facts.outcomes.first().map_or(0, Vec::len),
        interleavings_max: run.interleavings,
        by_difference: facts.by_difference(),
        accesses: facts.scene.accesses.0,
        potential: facts.potential(&causes, types.without),
        sizes: facts.sizes(),
        sets: facts.sets.clone(),
        types,
        whole: facts.measure(pair, |o| cost(&o.totals)),
        llc_misses: facts.llc_misses(),
        llc_share: run.conditions.llc_share,
        warm_up: facts
            .of(VariantKind::Without)
            .first()
            .and_then(|o| o.warm_up)
            .map(border::warm_up),
        mechanisms: run.machine.mechanisms(),
        duration: facts.measure(pair, |o| o.cycles),
        time: facts.time(),
        causes,
        sources: facts.sources(),
        fields: facts.fields(),
        functions: facts.functions(),
        ablation: facts.ablation(),
        relocated: all.map_or(0, |variant| variant.relocated),
        in_either_half: all.map_or(0, |variant| in_either_half(&run.machine, variant)),
        types_accesses: facts.scene.watched_accesses().0,
        on_stacks: facts.on_stacks.0,
        paired: all.map_or_else(Vec::new, |variant| variant.paired.clone()),
        followed: all.map_or_else(Vec::new, |variant| variant.followed.clone()),
        skipped: facts
            .of(VariantKind::All)
            .first()
            .map_or(0, |o| o.skipped.0),
        under: facts.under(),
    }
}

//! What a recorded layout costs on a machine: by type, field, function, pair of CPUs and line.
//!
//! One replay under one interleaving, everything where it was recorded. *Cost* is cycles of
//! accesses that left their core, as in [`crate::effect`]. No edits, and no confidence intervals:
//! those belong to differences.

mod groups;
mod lines;
mod narrow;
mod row;

use linemate_answers::{Cost, Costs, CpuPlace, PairCost, TypeSets, UnderCost};
use linemate_attribution::Analysis;
use linemate_experiment::scene::{KeyName, Scene, Watch};
use linemate_experiment::under::{Under, UnderCounts};
use linemate_experiment::variant::Variant;
use linemate_experiment::{Conditions, Cpus, Experiment, Seed};
use linemate_layout::edit::EditSubject;
use linemate_layout::plan::{resolve, subject_name};
use linemate_machine::Machine;
use linemate_recording::{Recording, TimeGrid};
use linemate_replay::{Counts, Outcome};
use linemate_session::{Session, recorded_threads};

use crate::border;

use crate::whatif::WhatIfError;

use groups::{group_costs, lock_costs};
use narrow::{InType, Narrowed};
use row::{cost_of, potential_of, ranked, ranked_by};

/// Where and how to replay.
#[derive(Clone, Copy, Debug)]
pub struct CostRun<'m> {
    pub machine: &'m Machine,
    pub conditions: Conditions,
    /// The seed of the one interleaving that is replayed.
    pub seed: Seed,
    /// Whether costs are also reported by line of programs' source.
    pub sources: bool,
}

/// Replays the recorded layout. `subject` narrows fields and lines to one type.
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
    // One replay of every type serves all subjects: narrowing only picks keys.
    let narrowed = |subject: &Option<&EditSubject>| {
        let only = subject.map(|subject| Narrowed::new(&scene, subject));
        report(&experiment, &outcome, None, only.as_ref(), run)
    };
    subjects.iter().map(narrowed).collect()
}

/// Replays the recorded layout, and narrows types, fields and functions to what is accessed while a
/// function is on the stack. Lines, pairs of CPUs and sets, which are of all accesses to a line,
/// are then left out.
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
    if let Some(subject) = subject {
        known(session.analysis(), &scene, &subject_name(subject), subject)?;
    }
    let only = subject.map(|subject| Narrowed::new(&scene, subject));
    let experiment = Experiment {
        under: Some(under),
        ..Experiment::new(&scene, run.machine, run.conditions)?
    };
    let mut outcome = experiment.as_recorded(run.seed)?;
    let counts = UnderCounts::take(&mut outcome, &scene);
    report(&experiment, &outcome, Some(&counts), only.as_ref(), run)
}

/// What an outcome says about everything, or about one type; or of that what a function did, given
/// its counts.
fn report(
    experiment: &Experiment<'_>,
    outcome: &Outcome,
    part: Option<&UnderCounts>,
    only: Option<&Narrowed>,
    run: CostRun<'_>,
) -> Result<Costs, WhatIfError> {
    let (scene, cpus) = (experiment.scene, experiment.cpus);
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
    if let (Some(only), true) = (only, fields.is_empty()) {
        return Err(absent(&only.name, experiment.under));
    }
    let under = experiment.under.zip(part);
    let under = under.map(|(under, part)| under_cost(under, part, experiment, outcome));
    let whole = cost_of("everything".to_owned(), &outcome.totals);
    let asked = only.map(|only| Cost::sum(&only.name, &fields));
    let types = book.types();
    let costliest = only.map(|only| &only.name);
    let costliest = costliest.or(types.first().map(|row| &row.name));
    Ok(Costs {
        // Lines are known of everything, not of what a function did.
        hottest: costliest
            .filter(|_| under.is_none())
            .and_then(|name| lines::hottest(&book, name)),
        machine: run.machine.name.clone(),
        line_bytes: run.machine.line.bytes(),
        cpus: cpus.replayed(),
        recorded_cpus: cpus.recorded,
        seed: run.seed.0,
        interleavings: 1,
        accesses: scene.accesses.0,
        device_accesses: outcome.uncached.0,
        warm_up: outcome.warm_up.map(border::warm_up),
        mechanisms: run.machine.mechanisms(),
        overlapped: outcome.overlapped.0,
        duration: outcome.cycles.0,
        potential: potential_of(
            asked
                .as_ref()
                .or(under.as_ref().map(|under| &under.cost))
                .unwrap_or(&whole),
        ),
        sets: sets(experiment, only.filter(|_| under.is_none()))?,
        types,
        places: book.places(),
        functions: book.functions(),
        sources: book.sources(),
        pairs: match under {
            Some(_) => Vec::new(),
            None => pairs(experiment, outcome),
        },
        pairs_by: border::places(outcome.transfers.places),
        time: border::time_grid(session.time_grid()),
        lines: lines::lines(&book),
        lock_waits: match outcome.scaled {
            None => lock_costs(scene, outcome),
            Some(_) => Vec::new(),
        },
        groups: group_costs(experiment, outcome),
        prediction_error: cpus.prediction_error(session),
        fields,
        whole,
        under,
    })
}

/// Why a type has no answer.
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
    experiment: &Experiment<'_>,
    all: &Outcome,
) -> UnderCost {
    let (machine, cpus) = (experiment.machine, experiment.cpus);
    let total = part.total();
    UnderCost {
        cost: cost_of(under.function.clone(), &total),
        entered: under.entered,
        cycles: under.cycles(machine, cpus, &total),
        all_cycles: under.all_cycles(machine, cpus, &all.totals),
        balance: under.balance,
    }
}

/// The sets that the type's lines reach.
fn sets(
    experiment: &Experiment<'_>,
    only: Option<&Narrowed>,
) -> Result<Option<TypeSets>, WhatIfError> {
    let Some(only) = only else { return Ok(None) };
    let scene = experiment.scene;
    let keys = 0..scene.keys.len();
    let type_of: Vec<Option<usize>> = keys.map(|key| only.of(key).map(|_| 0)).collect();
    let variant = Variant::as_recorded(scene);
    let found = experiment.sets(&[&variant], 1, &type_of)?;
    Ok(found.into_iter().flatten().flatten().next())
}

/// Refuses a name that neither a type has nor a variable of a struct without a tag that was
/// touched.
fn known(
    analysis: &Analysis<'_>,
    scene: &Scene<'_>,
    name: &str,
    subject: &EditSubject,
) -> Result<(), WhatIfError> {
    // `nohz` is such a variable: its struct has no tag, so the model has no type of that name.
    let touched = |key: &KeyName| key.place.is_some() && owner(key) == name;
    match resolve(analysis.model(), subject) {
        Err(reason) if !scene.keys.iter().any(touched) => Err(WhatIfError::Type {
            name: name.to_owned(),
            reason,
        }),
        _ => Ok(()),
    }
}

fn pairs(experiment: &Experiment<'_>, outcome: &Outcome) -> Vec<PairCost> {
    let cpus = experiment.cpus;
    let copies = usize::from(cpus.copies);
    let mixing = experiment.conditions.groups.mixing;
    let spread = cpus.places(experiment.machine, mixing).unwrap_or_default();
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
            hitm: pair.tally.count.0,
            cycles: pair.tally.cycles.0,
        })
        .collect();
    pairs.sort_by_key(|pair| (std::cmp::Reverse(pair.cycles), pair.from, pair.to));
    pairs
}

/// Where each CPU that `costs` are of is on `machine`, in the order of the recorded CPUs and then
/// their copies.
#[must_use]
pub fn cpu_places(machine: &Machine, recording: &Recording, costs: &Costs) -> Vec<CpuPlace> {
    let copies = (costs.cpus / costs.recorded_cpus.max(1)).max(1);
    let cpus = Cpus {
        recorded: costs.recorded_cpus,
        threads: recorded_threads(recording),
        copies: u16::try_from(copies).unwrap_or(u16::MAX),
    };
    let mixing = costs.groups.as_ref().map(|groups| groups.mixing);
    let mixing = border::replayed_mixing(mixing.unwrap_or_default());
    let spread = cpus.places(machine, mixing).unwrap_or_default();
    let places = spread.into_iter().enumerate().filter_map(|(number, cpu)| {
        let place = machine.topology.place(cpu)?;
        Some(CpuPlace {
            cpu: (number / copies, number % copies),
            domain: place.domain.0,
            socket: place.socket.0,
        })
    });
    places.collect()
}

/// An outcome with what its numbers mean.
struct Book<'b> {
    analysis: &'b Analysis<'b>,
    scene: &'b Scene<'b>,
    outcome: &'b Outcome,
    /// By key and by site, of the requested subjects.
    keys: &'b [Counts],
    sites: &'b [Counts],
    only: Option<&'b Narrowed>,
    grid: TimeGrid,
}

impl Book<'_> {
    fn keys(&self) -> impl Iterator<Item = (&KeyName, &Counts)> {
        self.scene.keys.iter().zip(self.keys)
    }

    fn types(&self) -> Vec<Cost> {
        ranked_by(self.keys().map(|(key, counts)| {
            let name = owner(key);
            // Typed or not is part of the key: a cache may have the name of a struct
            // (`task_struct`), and their rows are not one.
            ((name, key.is_typed()), cost_of(name.to_owned(), counts))
        }))
    }

    fn fields(&self) -> Vec<Cost> {
        match self.only {
            Some(only) => self.narrowed(only, |place| place.field.clone()),
            None => ranked(
                self.keys()
                    .map(|(key, counts)| cost_of(key.path.clone(), counts)),
            ),
        }
    }

    /// Where the requested type is.
    fn places(&self) -> Vec<Cost> {
        let place = |only: &Narrowed| {
            let name = |place: &InType| place.within.as_ref().unwrap_or(&only.name).clone();
            self.narrowed(only, name)
        };
        self.only.map_or_else(Vec::new, place)
    }

    /// What is of the type, by the names that `name` gives.
    fn narrowed(&self, only: &Narrowed, name: impl Fn(&InType) -> String) -> Vec<Cost> {
        ranked(self.keys.iter().enumerate().filter_map(|(key, counts)| {
            let place = only.of(key)?;
            Some(cost_of(name(place), counts))
        }))
    }

    fn functions(&self) -> Vec<Cost> {
        let sites = self.scene.sites.iter().zip(self.sites);
        ranked(sites.map(|(site, counts)| cost_of(site.function.clone(), counts)))
    }

    fn sources(&self) -> Vec<Cost> {
        let sites = self.scene.sources.iter().zip(self.sites);
        ranked(sites.map(|(name, counts)| cost_of(name.clone(), counts)))
    }
}

/// The type or variable of a key.
fn owner(key: &KeyName) -> &str {
    key.place
        .as_ref()
        .map_or(&key.path, |place| &place.type_name)
}

//! Two recordings field by field, matched by path: counts as recorded, and costs where a machine is
//! given.
//!
//! The recordings can be of different kernels: a field that only one of them has shows up as such.
//! Counts are per recording, not per work done: comparing is fair when both ran the same command.

use std::collections::BTreeMap;

use linemate_answers::{DiffFigures, DiffSide};
use linemate_experiment::scene::{Scene, Watch};
use linemate_experiment::under::{Under, UnderCounts};
use linemate_experiment::{Conditions, Cpus, Experiment, Seed};
use linemate_layout::edit::EditSubject;
use linemate_layout::plan::{resolve, subject_name};
use linemate_replay::{Cause, Counts};
use linemate_session::Session;

use crate::whatif::WhatIfError;

/// Where and how to replay.
#[derive(Clone, Copy, Debug)]
pub struct On<'m> {
    pub machine: &'m linemate_machine::Machine,
    /// The seed of the one interleaving that is replayed.
    pub seed: Seed,
    /// CPUs, caches. Accesses are counted as recorded all the same.
    pub conditions: Conditions,
    /// A function: accesses and costs are then those while it is on the stack, on the replayed
    /// CPUs.
    pub under: Option<&'m Under>,
}

/// The fields of a type in a recording, or of every type if none is named; with a machine also what
/// they cost there; with an event how often it happened.
///
/// # Errors
/// A type that does not exist or that nothing touched, a damaged recording, CPUs that cannot be, an
/// event whose calls were not counted.
pub fn fields(
    session: &Session<'_>,
    subject: Option<&EditSubject>,
    on: Option<On<'_>>,
    event: Option<&str>,
) -> Result<DiffSide, WhatIfError> {
    let event = event.map(|function| session.event(function)).transpose()?;
    let name = subject.map_or_else(|| "type".to_owned(), subject_name);
    let model = session.analysis().model();
    let ids = subject.map_or(Ok(Vec::new()), |subject| resolve(model, subject));
    let ids = ids.map_err(|reason| WhatIfError::Type {
        name: name.clone(),
        reason,
    })?;
    let cpus = Cpus::new(session.analysis(), on.and_then(|on| on.conditions.cpus))?;
    let bytes = ids.first().and_then(|id| model.size_of(*id)).unwrap_or(0);
    let watch = Watch {
        types: vec![ids],
        every: subject.is_none(),
        ..Watch::default()
    };
    let scene = Scene::new(session, &watch)?;
    if scene.keys.iter().all(|key| key.watched.is_none()) {
        return Err(WhatIfError::Absent(name));
    }
    // From the recording's counts, not from the replay: a replay of more CPUs counts clones, and
    // counts without a machine must be the same.
    let mut counts = count(&scene);
    if let Some(on) = on {
        let experiment = Experiment::new(&scene, on.machine, on.conditions)?;
        let experiment = Experiment {
            under: on.under,
            ..experiment
        };
        let mut outcome = experiment.as_recorded(on.seed)?;
        if on.under.is_some() {
            let part = UnderCounts::take(&mut outcome, &scene);
            counts = part.keys.iter().map(replayed).collect();
            outcome.keys = part.keys;
        }
        for (figures, costs) in counts.iter_mut().zip(&outcome.keys) {
            add_cost(figures, costs);
        }
    }
    let watched = scene.keys.iter().zip(counts);
    let mut fields: BTreeMap<String, DiffFigures> = BTreeMap::new();
    for (key, figures) in watched.filter(|(key, _)| key.watched.is_some()) {
        add_figures(fields.entry(key.path.clone()).or_default(), &figures);
    }
    // All variables without a type are keys, most of them never touched.
    fields.retain(|_, figures| figures.loads + figures.stores > 0);
    if let (Some(under), true) = (on.and_then(|on| on.under), fields.is_empty()) {
        let function = under.function.clone();
        return Err(WhatIfError::AbsentUnder { name, function });
    }
    Ok(DiffSide {
        bytes,
        cpus: cpus.replayed(),
        prediction_error: cpus.prediction_error(session),
        accesses: scene.accesses.0,
        event,
        fields,
    })
}

fn add_figures(figures: &mut DiffFigures, other: &DiffFigures) {
    figures.loads += other.loads;
    figures.stores += other.stores;
    figures.misses += other.misses;
    figures.cycles += other.cycles;
    figures.sharing_misses += other.sharing_misses;
    figures.sharing_cycles += other.sharing_cycles;
}

fn add_cost(figures: &mut DiffFigures, costs: &Counts) {
    let left = costs.left_core();
    figures.misses += left.count.0;
    figures.cycles += left.cycles.0;
    for cause in [Cause::TrueSharing, Cause::FalseSharing] {
        let tally = costs.cause(cause);
        figures.sharing_misses += tally.count.0;
        figures.sharing_cycles += tally.cycles.0;
    }
}

/// The accesses of a replay's counts.
fn replayed(counts: &Counts) -> DiffFigures {
    DiffFigures {
        loads: counts.loads.0,
        stores: (counts.stores + counts.rmws).0,
        ..DiffFigures::default()
    }
}

/// Accesses as recorded, by key.
fn count(scene: &Scene<'_>) -> Vec<DiffFigures> {
    let mut counts = vec![DiffFigures::default(); scene.keys.len()];
    for (field, [loads, stores, rmws]) in scene.counts() {
        if let Some(figures) = counts.get_mut(scene.key(field).0 as usize) {
            figures.loads += loads.0;
            figures.stores += (stores + rmws).0;
        }
    }
    counts
}

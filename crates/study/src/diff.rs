//! Two recordings field by field, matched by path: counts as recorded, and costs where a machine is given.
//!
//! The recordings can be of different kernels: a field that only one of them has shows up as such. Counts are per recording, not
//! per work done: comparing is fair when both ran the same command.

use std::collections::BTreeMap;

use linemate_replay::{Cause, Counts};
use serde::{Deserialize, Serialize};

use crate::event::EventCount;
use crate::experiment::{Conditions, Cpus, Experiment};
use crate::scene::{Scene, Watch};
use crate::session::Session;
use crate::whatif::WhatIfError;
use linemate_layout::edit::EditSubject;
use linemate_layout::plan::{resolve, subject_name};

/// The figures of a field in one recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Loads.
    pub loads: u64,
    /// Stores and atomic read-modify-writes.
    pub stores: u64,
    /// Accesses that left their core; 0 without a machine.
    pub misses: u64,
    /// Their cycles.
    pub cycles: u64,
    /// Those of them that happened because another core had taken the line.
    pub sharing_misses: u64,
    /// Their cycles.
    pub sharing_cycles: u64,
}

/// A field in both recordings; `None` where the type has no such field or nothing touched it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Its path.
    pub path: String,
    /// In the first recording.
    pub a: Option<Figures>,
    /// In the second.
    pub b: Option<Figures>,
}

/// One side of a comparison: a type's fields in a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fields {
    /// Bytes of the type; 0 if it is every type.
    pub bytes: u64,
    /// CPUs: the replayed ones, or the recorded ones without a machine.
    pub cpus: usize,
    /// All accesses of the recording.
    pub accesses: u64,
    /// What figures are told per, if an event was asked for.
    pub event: Option<EventCount>,
    /// By path.
    pub fields: BTreeMap<String, Figures>,
}

/// Where and how to replay.
#[derive(Clone, Copy, Debug)]
pub struct On<'m> {
    /// The machine.
    pub machine: &'m linemate_machine::Machine,
    /// The interleaving's seed.
    pub seed: u64,
    /// CPUs, caches. Accesses are counted as recorded all the same.
    pub conditions: Conditions,
}

/// The fields of a type in a recording, or of every type if none is named; with a machine also what they cost there; with an event how
/// often it happened.
///
/// # Errors
/// A type that does not exist or that nothing touched, a damaged recording, CPUs that cannot be, an event whose calls were not counted.
pub fn fields(
    session: &Session<'_>,
    subject: Option<&EditSubject>,
    on: Option<On<'_>>,
    event: Option<&str>,
) -> Result<Fields, WhatIfError> {
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
    let mut counts = count(&scene);
    if let Some(on) = on {
        let experiment = Experiment::new(&scene, on.machine, on.conditions)?;
        let outcome = experiment.as_recorded(on.seed)?;
        for (figures, costs) in counts.iter_mut().zip(&outcome.keys) {
            figures.cost(costs);
        }
    }
    let watched = scene.keys.iter().zip(counts);
    let mut fields: BTreeMap<String, Figures> = BTreeMap::new();
    for (key, figures) in watched.filter(|(key, _)| key.watched.is_some()) {
        fields.entry(key.path.clone()).or_default().add(&figures);
    }
    // All variables without a type are keys, most of them never touched.
    fields.retain(|_, figures| figures.loads + figures.stores > 0);
    Ok(Fields {
        bytes,
        cpus: cpus.replayed(),
        accesses: scene.accesses,
        event,
        fields,
    })
}

impl Figures {
    fn add(&mut self, other: &Figures) {
        self.loads += other.loads;
        self.stores += other.stores;
        self.misses += other.misses;
        self.cycles += other.cycles;
        self.sharing_misses += other.sharing_misses;
        self.sharing_cycles += other.sharing_cycles;
    }

    fn cost(&mut self, costs: &Counts) {
        let left = costs.left_core();
        self.misses += left.count;
        self.cycles += left.cycles;
        for cause in [Cause::TrueSharing, Cause::FalseSharing] {
            let tally = costs.cause(cause);
            self.sharing_misses += tally.count;
            self.sharing_cycles += tally.cycles;
        }
    }
}

/// Accesses as recorded, by key.
fn count(scene: &Scene<'_>) -> Vec<Figures> {
    let mut counts = vec![Figures::default(); scene.keys.len()];
    for (field, [loads, stores, rmws]) in scene.counts() {
        if let Some(figures) = counts.get_mut(scene.key(field).0 as usize) {
            figures.loads += loads;
            figures.stores += stores + rmws;
        }
    }
    counts
}

/// The fields of both sides, largest change first: in cycles if there are any, else in accesses; then by path.
pub fn compare(a: &Fields, b: &Fields) -> Vec<Row> {
    let mut rows: BTreeMap<&String, Row> = BTreeMap::new();
    for (path, figures) in &a.fields {
        rows.entry(path).or_default().a = Some(*figures);
    }
    for (path, figures) in &b.fields {
        rows.entry(path).or_default().b = Some(*figures);
    }
    let mut rows: Vec<Row> = rows
        .into_iter()
        .map(|(path, row)| Row {
            path: path.clone(),
            ..row
        })
        .collect();
    let change = |row: &Row| {
        let (a, b) = (row.a.unwrap_or_default(), row.b.unwrap_or_default());
        let accesses = (a.loads + a.stores).abs_diff(b.loads + b.stores);
        (a.cycles.abs_diff(b.cycles), accesses)
    };
    // Stable: ties stay in the order of their paths.
    rows.sort_by_key(|row| std::cmp::Reverse(change(row)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(fields: &[(&str, u64, u64)]) -> Fields {
        let figures = |loads, cycles| Figures {
            loads,
            cycles,
            ..Figures::default()
        };
        let fields = fields
            .iter()
            .map(|(path, l, c)| ((*path).to_owned(), figures(*l, *c)));
        Fields {
            bytes: 0,
            cpus: 1,
            accesses: 0,
            event: None,
            fields: fields.collect(),
        }
    }

    #[test]
    fn fields_are_matched_by_path_and_sorted_by_change() {
        let a = side(&[("same", 5, 9), ("gone", 7, 0), ("cheaper", 1, 100)]);
        let b = side(&[("same", 5, 9), ("new", 7, 0), ("cheaper", 1, 10)]);
        let rows = compare(&a, &b);
        let paths: Vec<_> = rows
            .iter()
            .map(|row| (row.path.as_str(), row.a.is_some(), row.b.is_some()))
            .collect();
        assert_eq!(
            paths,
            [
                ("cheaper", true, true),
                ("gone", true, false),
                ("new", false, true),
                ("same", true, true)
            ]
        );
    }
}

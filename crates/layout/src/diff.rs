//! Two recordings field by field, matched by path: counts as recorded, and costs where a machine is given.
//!
//! The recordings can be of different kernels: a field that only one of them has shows up as such. Counts are per recording, not
//! per work done: comparing is fair when both ran the same command.

use std::collections::BTreeMap;

use linemate_attribution::Analysis;
use linemate_recording::{Access, AccessKind, Call, Decoder, Marker, Return, Visitor};
use linemate_replay::{
    AsRecorded, Cause, Clones, Config, Interleaving, KeyId, Placed, Replay, Sharing, SiteId,
};
use serde::Serialize;

use crate::edit::Subject;
use crate::plan::{resolve, subject_name};
use crate::scene::{Scene, Step, Watch};
use crate::whatif::{WhatIfError, recorded_cpus};

/// The figures of a field in one recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Loads.
    pub loads: u64,
    /// Stores and atomic read-modify-writes.
    pub stores: u64,
    /// Accesses that left their core; 0 without a machine.
    pub fetches: u64,
    /// Their cycles.
    pub cycles: u64,
}

/// A field in both recordings; `None` where the type has no such field or nothing touched it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its path.
    pub path: String,
    /// In the first recording.
    pub a: Option<Figures>,
    /// In the second.
    pub b: Option<Figures>,
}

/// One side of a comparison: a type's fields in a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fields {
    /// Bytes of the type.
    pub bytes: u64,
    /// All accesses of the recording.
    pub accesses: u64,
    /// By path.
    pub fields: BTreeMap<String, Figures>,
}

/// The fields of a type in a recording; with a machine also what they cost there, under the interleaving of `seed`.
///
/// # Errors
/// A type that does not exist or that nothing touched, a damaged recording, a machine that is too small.
pub fn fields(
    analysis: &Analysis<'_>,
    subject: &Subject,
    machine: Option<&linemate_machine::Machine>,
    seed: u64,
) -> Result<Fields, WhatIfError> {
    let name = subject_name(subject);
    let model = analysis.model();
    let ids = resolve(model, subject).map_err(|reason| WhatIfError::Type {
        name: name.clone(),
        reason,
    })?;
    let cpus = recorded_cpus(analysis)?;
    let bytes = ids.first().and_then(|id| model.size_of(*id)).unwrap_or(0);
    let scene = Scene::new(
        analysis,
        cpus,
        &Watch {
            types: vec![ids],
            pairs: Vec::new(),
        },
    )?;
    if scene.keys.iter().all(|key| key.watched.is_none()) {
        return Err(WhatIfError::Absent(name));
    }
    let config = Config {
        recorded_cpus: cpus,
        cpus: None,
        interleaving: Interleaving::Seeded(seed),
        lines: false,
    };
    let mut replay = match machine {
        Some(machine) => Some(Replay::new(
            machine,
            &config,
            AsRecorded,
            Clones { copies: 1 },
        )?),
        None => None,
    };
    let mut counter = Counter {
        scene: &scene,
        counts: vec![Figures::default(); scene.keys.len()],
        steps: Vec::new(),
        keep: replay.is_some(),
    };
    let mut decoder = Decoder::new();
    for chunk in analysis.recording().chunks() {
        counter.steps.clear();
        analysis
            .recording()
            .visit(chunk, &mut decoder, &mut counter)?;
        if let Some(replay) = &mut replay {
            for step in &counter.steps {
                replay.push_placed(&step.access, placed(step))?;
            }
        }
    }
    let mut counts = counter.counts;
    if let Some(replay) = replay {
        let (outcome, _) = replay.finish();
        for (figures, costs) in counts.iter_mut().zip(&outcome.keys) {
            figures.fetches = Cause::ALL
                .into_iter()
                .map(|cause| costs.cause(cause).count)
                .sum();
            figures.cycles = Cause::ALL
                .into_iter()
                .map(|cause| costs.cause(cause).cycles)
                .sum();
        }
    }
    let watched = scene
        .keys
        .iter()
        .zip(counts)
        .filter(|(key, _)| key.watched.is_some());
    let fields = watched
        .map(|(key, figures)| (key.path.clone(), figures))
        .collect();
    Ok(Fields {
        bytes,
        accesses: scene.accesses,
        fields,
    })
}

fn placed(step: &Step) -> Placed {
    let KeyId(key) = step.key;
    Placed {
        addr: step.access.addr,
        key: KeyId(key),
        site: SiteId(0),
        sharing: Sharing::Shared,
        skip: false,
    }
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

struct Counter<'s> {
    scene: &'s Scene<'s>,
    counts: Vec<Figures>,
    steps: Vec<Step>,
    keep: bool,
}

impl Visitor for Counter<'_> {
    #[inline]
    fn access(&mut self, access: &Access) {
        let step = self.scene.step(access);
        if let Some(figures) = self.counts.get_mut(step.key.0 as usize) {
            match access.kind {
                AccessKind::Load => figures.loads += 1,
                AccessKind::Store | AccessKind::Rmw => figures.stores += 1,
            }
        }
        if self.keep {
            self.steps.push(step);
        }
    }
    fn call(&mut self, _: &Call) {}
    fn ret(&mut self, _: &Return) {}
    fn marker(&mut self, _: &Marker) {}
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
            accesses: 0,
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

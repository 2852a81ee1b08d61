//! Two recordings field by field, matched by path: counts as recorded, and costs where a machine is given.
//!
//! The recordings can be of different kernels: a field that only one of them has shows up as such. Counts are per recording, not
//! per work done: comparing is fair when both ran the same command.

use std::collections::BTreeMap;

use linemate_attribution::Analysis;
use linemate_recording::{Access, AccessKind, Call, Decoder, Marker, Return, Visitor};
use linemate_replay::{
    AsRecorded, Cause, Clones, Config, Counts, Interleaving, Placed, Replay, ReplayError, SiteId,
};
use serde::Serialize;

use crate::edit::Subject;
use crate::plan::{resolve, subject_name};
use crate::scene::{Scene, Step, Watch};
use crate::whatif::{WhatIfError, copies, recorded_cpus};

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
    /// Those of them that happened because another core had taken the line.
    pub sharing: u64,
    /// Their cycles.
    pub sharing_cycles: u64,
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
    /// Bytes of the type; 0 if it is every type.
    pub bytes: u64,
    /// CPUs: the replayed ones, or the recorded ones without a machine.
    pub cpus: usize,
    /// All accesses of the recording.
    pub accesses: u64,
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
    /// How many CPUs to replay; `None`: as many as were recorded. Accesses are counted as recorded all the same.
    pub cpus: Option<usize>,
}

/// The fields of a type in a recording, or of every type if none is named; with a machine also what they cost there.
///
/// # Errors
/// A type that does not exist or that nothing touched, a damaged recording, CPUs that cannot be.
pub fn fields(
    analysis: &Analysis<'_>,
    subject: Option<&Subject>,
    on: Option<On<'_>>,
) -> Result<Fields, WhatIfError> {
    let name = subject.map_or_else(|| "type".to_owned(), subject_name);
    let model = analysis.model();
    let ids = subject.map_or(Ok(Vec::new()), |subject| resolve(model, subject));
    let ids = ids.map_err(|reason| WhatIfError::Type {
        name: name.clone(),
        reason,
    })?;
    let cpus = recorded_cpus(analysis)?;
    let copies = copies(cpus, on.and_then(|on| on.cpus))?;
    let bytes = ids.first().and_then(|id| model.size_of(*id)).unwrap_or(0);
    let watch = Watch {
        types: vec![ids],
        every: subject.is_none(),
        ..Watch::default()
    };
    let scene = Scene::new(analysis, cpus, &watch)?;
    if scene.keys.iter().all(|key| key.watched.is_none()) {
        return Err(WhatIfError::Absent(name));
    }
    let replay = on.map(|on| start(on, cpus, copies)).transpose()?;
    let counts = count(analysis, &scene, replay)?;
    let watched = scene.keys.iter().zip(counts);
    let mut fields: BTreeMap<String, Figures> = BTreeMap::new();
    for (key, figures) in watched.filter(|(key, _)| key.watched.is_some()) {
        fields.entry(key.path.clone()).or_default().add(&figures);
    }
    // All variables without a type are keys, most of them never touched.
    fields.retain(|_, figures| figures.loads + figures.stores > 0);
    Ok(Fields {
        bytes,
        cpus: cpus * usize::from(copies),
        accesses: scene.accesses,
        fields,
    })
}

fn start(on: On<'_>, cpus: usize, copies: u16) -> Result<Replay<AsRecorded, Clones>, ReplayError> {
    let config = Config {
        recorded_cpus: cpus,
        cpus: None,
        interleaving: Interleaving::Seeded(on.seed),
        lines: false,
    };
    Replay::new(on.machine, &config, AsRecorded, Clones { copies })
}

impl Figures {
    fn add(&mut self, other: &Figures) {
        self.loads += other.loads;
        self.stores += other.stores;
        self.fetches += other.fetches;
        self.cycles += other.cycles;
        self.sharing += other.sharing;
        self.sharing_cycles += other.sharing_cycles;
    }

    fn cost(&mut self, costs: &Counts) {
        let left = costs.left_core();
        self.fetches += left.count;
        self.cycles += left.cycles;
        for cause in [Cause::TrueSharing, Cause::FalseSharing] {
            let tally = costs.cause(cause);
            self.sharing += tally.count;
            self.sharing_cycles += tally.cycles;
        }
    }
}

/// Figures by key.
fn count(
    analysis: &Analysis<'_>,
    scene: &Scene<'_>,
    mut replay: Option<Replay<AsRecorded, Clones>>,
) -> Result<Vec<Figures>, WhatIfError> {
    let mut counter = Counter {
        scene,
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
                let placed = Placed {
                    site: SiteId(0),
                    ..step.placed()
                };
                replay.push_placed(&step.access, placed)?;
            }
        }
    }
    let mut counts = counter.counts;
    if let Some(replay) = replay {
        let (outcome, _) = replay.finish();
        for (figures, costs) in counts.iter_mut().zip(&outcome.keys) {
            figures.cost(costs);
        }
    }
    Ok(counts)
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
            cpus: 1,
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

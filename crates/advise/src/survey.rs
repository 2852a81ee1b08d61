//! For which types a layout can win most: a replay gives the cost and cause of each, a short search
//! the possible gain.
//!
//! Two figures per type. Everything that is *not true sharing*, by the replay of the recorded
//! layout. *Estimate*: the gain of the best layout that a short search finds without growth, by the
//! fast model, unconfirmed. The first does not bound the second: if several words are exchanged
//! together, each on a line of its own is a transfer, and all on one line are one.

use std::collections::BTreeMap;

use linemate_answers::{Estimate, SurveyRow};
use linemate_experiment::scene::{Scene, Watch};
use linemate_experiment::{Conditions, Experiment, Seed};
use linemate_layout::nesting::embeds;
use linemate_machine::{LineSize, Machine};
use linemate_recording::{Accesses, Cycles};
use linemate_replay::{Cause, Counts};
use linemate_session::Session;
use linemate_types::{ByteSize, TypeId};

use crate::advise::{limits, metrics, models, shape};
use crate::error::AdviseError;
use crate::objective::Objective;
use crate::sample::rated;
use crate::search::Search;
use crate::shape::StructShape;
use crate::trace::{EVENTS_MAX, Trace};

/// Why a row that is called after a variable is not searched.
const UNNAMED: &str = "its struct has no name";

/// Why a type is not searched over several recordings.
const ELSEWHERE: &str = "it is not in all recordings, or differs between them";

/// Ranks the types of recordings on machines by the larger of the estimate and the cycles of false
/// sharing. The `searched` types with most cycles of causes other than true sharing, false sharing
/// counted twice, are searched.
///
/// # Errors
/// A machine that is too small, a damaged recording.
pub fn survey(
    analyses: &[&Session<'_>],
    machines: &[Machine],
    conditions: Conditions,
    seed: Seed,
    searched: usize,
) -> Result<Vec<SurveyRow>, AdviseError> {
    let mut scenes = Vec::new();
    let mut sums: BTreeMap<String, CyclesByCause> = BTreeMap::new();
    let mut whole = Cycles::ZERO;
    for analysis in analyses {
        let watch = Watch {
            every: true,
            ..Watch::default()
        };
        let scene = Scene::new(analysis, &watch)?;
        for machine in machines {
            // One interleaving: the ranking has no intervals, and each worthwhile type is confirmed
            // by its own question.
            let outcome = Experiment::new(&scene, machine, conditions)?.as_recorded(seed)?;
            whole += CyclesByCause::of(&outcome.totals).all();
            for (key, counts) in scene.keys.iter().zip(&outcome.keys) {
                // Whole subjects have no place.
                let Some(place) = &key.place else { continue };
                let sum = sums.entry(place.type_name.clone()).or_default();
                sum.add(CyclesByCause::of(counts));
            }
        }
        scenes.push(scene);
    }
    let mut rows: Vec<SurveyRow> = sums
        .into_iter()
        .map(|(name, sums)| survey_row(name, sums, whole))
        .filter(|row| row.cost > 0.0)
        .collect();
    rows.sort_by(|a, b| {
        most(b)
            .total_cmp(&most(a))
            .then_with(|| a.name.cmp(&b.name))
    });
    let searched = searched.min(rows.len());
    let recordings = Recordings {
        sessions: analyses,
        scenes: &scenes,
        machines,
        seed,
    };
    recordings.estimate(&mut rows[..searched])?;
    rank(&mut rows);
    Ok(rows)
}

/// The largest possible gain first.
fn rank(rows: &mut [SurveyRow]) {
    rows.sort_by(|a, b| {
        worth(b)
            .total_cmp(&worth(a))
            .then_with(|| most(b).total_cmp(&most(a)))
            .then_with(|| a.name.cmp(&b.name))
    });
}

fn survey_row(name: String, cycles: CyclesByCause, whole: Cycles) -> SurveyRow {
    let cost = cycles.all();
    let part = |cycles: Cycles| cycles.share_of(cost);
    SurveyRow {
        name,
        cost: cost.into(),
        share: cost.share_of(whole),
        true_sharing: part(cycles.true_sharing),
        false_sharing: part(cycles.false_sharing),
        other_misses: part(cycles.unshared + cycles.capacity),
        capacity: part(cycles.capacity),
        estimate: None,
        why_not: None,
    }
}

/// What a short search finds for a type.
struct Found {
    /// The share of the fast model's part of its cost, which its best layout saves.
    saved: f64,
    moves: usize,
    rated: usize,
    sampled_from: usize,
}

impl Found {
    /// The gain in a type's cost: the fast model has the cycles of coherence, not those of caches
    /// without room.
    fn estimate(&self, row: &SurveyRow) -> Estimate {
        let share = self.saved * (1.0 - row.capacity);
        Estimate {
            gain: share * row.cost,
            share,
            moves: self.moves,
            rated: self.rated,
            sampled_from: self.sampled_from,
        }
    }
}

/// The cycles that are not true sharing, false sharing counted twice: a layout ends that most
/// reliably.
fn most(row: &SurveyRow) -> f64 {
    row.cost * (2.0 * row.false_sharing + row.other_misses)
}

/// The larger of the search's gain and of false sharing. No order of members ends what neighbours
/// in an array, or adjacent objects, do to each other, but padding does.
fn worth(row: &SurveyRow) -> f64 {
    let found = row.estimate.map_or(0.0, |estimate| estimate.gain);
    found.max(row.cost * row.false_sharing)
}

/// Cycles of accesses that left their core, by cause.
#[derive(Clone, Copy, Debug, Default)]
struct CyclesByCause {
    true_sharing: Cycles,
    false_sharing: Cycles,
    unshared: Cycles,
    /// Of cold and capacity misses.
    capacity: Cycles,
}

impl CyclesByCause {
    fn of(counts: &Counts) -> CyclesByCause {
        let of = |cause| counts.cause(cause).cycles;
        CyclesByCause {
            true_sharing: of(Cause::TrueSharing),
            false_sharing: of(Cause::FalseSharing),
            unshared: of(Cause::Unshared),
            capacity: of(Cause::Cold) + of(Cause::Capacity),
        }
    }

    fn add(&mut self, other: CyclesByCause) {
        self.true_sharing += other.true_sharing;
        self.false_sharing += other.false_sharing;
        self.unshared += other.unshared;
        self.capacity += other.capacity;
    }

    fn all(&self) -> Cycles {
        self.true_sharing + self.false_sharing + self.unshared + self.capacity
    }
}

/// What types are searched on.
struct Recordings<'a> {
    sessions: &'a [&'a Session<'a>],
    /// And the CPUs of each.
    scenes: &'a [Scene<'a>],
    machines: &'a [Machine],
    seed: Seed,
}

impl Recordings<'_> {
    /// Searches the types of these rows; as many at a time as memory allows, because each batch
    /// unpacks the stored data of all recordings.
    fn estimate(&self, rows: &mut [SurveyRow]) -> Result<(), AdviseError> {
        let mut waiting: Vec<(&mut SurveyRow, StructShape)> = Vec::new();
        for row in rows {
            match self.shape(&row.name) {
                Ok(shape) => waiting.push((row, shape)),
                // A variable's: edits have no name for its struct.
                Err(AdviseError::NoType { .. }) => row.why_not = Some(UNNAMED.to_owned()),
                Err(AdviseError::Type { why, .. }) => row.why_not = Some(why),
                Err(AdviseError::Kernels { .. }) => row.why_not = Some(ELSEWHERE.to_owned()),
                Err(error) => return Err(error),
            }
        }
        let mut waiting = waiting.as_mut_slice();
        while !waiting.is_empty() {
            let (now, later) = waiting.split_at_mut(self.at_once(waiting));
            waiting = later;
            let shapes: Vec<&StructShape> = now.iter().map(|(_, shape)| shape).collect();
            let traces = self.traces(&shapes)?;
            for ((row, shape), traces) in now.iter_mut().zip(traces) {
                match self.search(shape, &traces) {
                    Ok(found) => row.estimate = Some(found.estimate(row)),
                    Err(AdviseError::Absent(_)) => row.why_not = Some(ELSEWHERE.to_owned()),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// The type as all recordings' kernels have it.
    fn shape(&self, name: &str) -> Result<StructShape, AdviseError> {
        let mut shapes = self.sessions.iter().map(|session| {
            let (shape, _) = shape(session.analysis(), name, &[])?;
            Ok::<StructShape, AdviseError>(shape)
        });
        let first = shapes.next().ok_or(AdviseError::Nothing("recording"))??;
        for other in shapes {
            let other = other?;
            let differs = other.names != first.names || other.origin != first.origin;
            if differs || other.ids != first.ids {
                return Err(AdviseError::Kernels { name: name.into() });
            }
        }
        Ok(first)
    }

    /// How many of the types, at least one, have together at most as many accesses as one may have
    /// events.
    fn at_once(&self, waiting: &[(&mut SurveyRow, StructShape)]) -> usize {
        let mut sum = Accesses::ZERO;
        let fits = |(_, shape): &&(&mut SurveyRow, StructShape)| {
            sum += self.accesses(shape);
            // All their traces are in memory at once: together they get the memory that one type's
            // may take.
            sum <= Accesses(EVENTS_MAX as u64)
        };
        waiting.iter().take_while(fits).count().max(1)
    }

    /// Accesses to objects of the type, and to objects with one inside, in all recordings.
    fn accesses(&self, shape: &StructShape) -> Accesses {
        let of = |(session, scene): (&&Session<'_>, &Scene<'_>)| -> Accesses {
            let model = session.analysis().model();
            let has = |id: &TypeId| embeds(model, *id, &shape.ids);
            let holds: Vec<bool> = scene
                .types
                .iter()
                .map(|id| id.as_ref().is_some_and(has))
                .collect();
            let counts = scene.counts();
            // An upper bound of the events: it counts all accesses to the outer object, not only
            // those to the part.
            let inside = counts.filter(|(field, _)| holds[field.subject.index()]);
            inside.flat_map(|(_, kinds)| kinds).sum()
        };
        self.sessions.iter().zip(self.scenes).map(of).sum()
    }

    /// By shape, then by recording.
    fn traces(&self, shapes: &[&StructShape]) -> Result<Vec<Vec<Trace>>, AdviseError> {
        let line = self
            .machines
            .first()
            .map_or(LineSize::B64, |machine| machine.line);
        let mut by_shape: Vec<Vec<Trace>> = shapes.iter().map(|_| Vec::new()).collect();
        for (session, scene) in self.sessions.iter().zip(self.scenes) {
            let model = session.analysis().model();
            let traces = Trace::extract(scene, model, shapes, self.seed, line)?;
            for (all, trace) in by_shape.iter_mut().zip(traces) {
                all.push(trace);
            }
        }
        Ok(by_shape)
    }

    fn search(&self, shape: &StructShape, traces: &[Trace]) -> Result<Found, AdviseError> {
        let first = self
            .sessions
            .first()
            .ok_or(AdviseError::Nothing("recording"))?;
        let by_line = metrics(first.analysis().model(), shape)?;
        let rated = rated(traces);
        let models = models(&rated, self.machines, &by_line, shape)?;
        let objective = Objective::of_original(&models, shape);
        // Without growth: the ranking must not favour types for which lines were bought.
        let limits = limits(&models, &by_line, ByteSize::ZERO);
        let search = Search::new(shape, &objective, &limits);
        let best = search.run().into_iter().next();
        Ok(Found {
            saved: best
                .as_ref()
                .map_or(0.0, |best| (1.0 - best.cost.share()).max(0.0)),
            moves: best.map_or(0, |best| best.candidate.moves()),
            rated: rated.iter().map(|trace| trace.events()).sum(),
            sampled_from: traces.iter().map(Trace::events).sum(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_a_share_of_what_the_fast_model_has() {
        let cycles = CyclesByCause {
            true_sharing: Cycles(300),
            false_sharing: Cycles(200),
            unshared: Cycles(100),
            capacity: Cycles(400),
        };
        let row = survey_row("file".into(), cycles, Cycles(4000));
        assert_eq!((row.cost, row.share), (1000.0, 0.25));
        assert_eq!((row.other_misses, row.capacity), (0.5, 0.4));
        // Half of 600 cycles: capacity misses are unchanged.
        let found = |saved| Found {
            saved,
            moves: 3,
            rated: 10,
            sampled_from: 20,
        };
        let half = found(0.5).estimate(&row);
        assert_eq!((half.gain, half.share, half.moves), (300.0, 0.3, 3));
        assert!(found(1.0).estimate(&row).gain <= 600.0);
    }

    #[test]
    fn false_sharing_that_no_order_ends_counts_as_much_as_an_order_that_gains() {
        let of = |name: &str, cost: f64, false_sharing: f64, gain: Option<f64>| SurveyRow {
            name: name.into(),
            cost,
            false_sharing,
            other_misses: 1.0 - false_sharing,
            estimate: gain.map(|gain| Estimate {
                gain,
                share: gain / cost,
                moves: 1,
                rated: 10,
                sampled_from: 10,
            }),
            ..SurveyRow::default()
        };
        let mut rows = [
            of("cold", 5000.0, 0.0, None),
            of("reordered", 1000.0, 0.1, Some(300.0)),
            of("array", 2000.0, 0.9, Some(0.0)),
            of("unsearched", 500.0, 0.8, None),
        ];
        rank(&mut rows);
        let names = rows.map(|row| row.name);
        assert_eq!(names, ["array", "unsearched", "reordered", "cold"]);
    }
}

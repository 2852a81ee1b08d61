//! For which types a layout can win most: a replay gives the cost and cause of each, a short search
//! the possible gain.
//!
//! Two figures per type. Everything that is *not true sharing*, by the replay of the recorded
//! layout. *Estimate*: the gain of the best layout that a short search finds without growth, by the
//! fast model, unconfirmed. The first does not bound the second: if several words are exchanged
//! together, each on a line of its own is a transfer, and all on one line are one.
//!
//! A type can have most of its cost in a struct by value (`sock` in `udp_sock`), which its own
//! order moves as a whole. That struct is searched as well, and the better of both is the row's.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use linemate_answers::{Estimate, SurveyRow};
use linemate_attribution::Analysis;
use linemate_experiment::scene::{Place, Scene, Watch};
use linemate_experiment::{Conditions, Experiment, Seed};
use linemate_layout::nesting::{embeds, enclosing};
use linemate_machine::{LineSize, Machine};
use linemate_recording::{Accesses, Cycles};
use linemate_replay::{Cause, Counts};
use linemate_session::Session;
use linemate_types::{ByteOffset, ByteSize, CompositeKind, TypeId};

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
    let mut sums: BTreeMap<String, TypeCycles> = BTreeMap::new();
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
                let cycles = CyclesByCause::of(counts);
                sum.all.add(cycles);
                for inside in structs_at(analysis.analysis(), place) {
                    sum.inside.entry(inside).or_default().add(cycles);
                }
            }
        }
        scenes.push(scene);
    }
    let mut rows: Vec<SurveyRow> = sums
        .iter()
        .map(|(name, sums)| survey_row(name.clone(), sums.all, whole))
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
    recordings.estimate(&mut rows[..searched], &sums)?;
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
        inside: None,
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
    /// The gain in a type's cost, of a search of what has `part` of its cycles: the fast model has
    /// the cycles of coherence, not those of caches without room.
    fn estimate(&self, row: &SurveyRow, part: CyclesByCause) -> Estimate {
        let gain = self.saved * (f64::from(part.all()) - f64::from(part.capacity));
        Estimate {
            gain,
            share: gain / row.cost,
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

/// What a type costs.
#[derive(Clone, Debug, Default)]
struct TypeCycles {
    all: CyclesByCause,
    /// By the name of a struct by value inside it.
    inside: BTreeMap<String, CyclesByCause>,
}

/// The part of a type's cycles from which on a struct inside it is searched, too: a choice.
const INSIDE_MIN: f64 = 0.5;

/// The structs by value inside the place's type that the place is in, by their names.
fn structs_at(analysis: &Analysis<'_>, place: &Place) -> BTreeSet<String> {
    let model = analysis.model();
    let Some(outer) = analysis.schema().get(place.ty) else {
        return BTreeSet::new();
    };
    let found = RefCell::new(BTreeSet::new());
    let visit = |id: TypeId| {
        let Some(composite) = model.composite(id) else {
            return false;
        };
        // Which of a union's alternatives is used is not known.
        if composite.kind == CompositeKind::Union {
            return true;
        }
        if !composite.name.is_empty() && id != model.strip(outer.id) {
            found.borrow_mut().insert(composite.name.to_string());
        }
        false
    };
    let _ = enclosing(model, outer.id, ByteOffset::from(place.offset), &visit);
    found.into_inner()
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

    /// As [`most`] of a row.
    fn most(&self) -> f64 {
        f64::from(self.false_sharing + self.false_sharing + self.unshared + self.capacity)
    }
}

/// Makes the estimate the row's if it is larger than the one that it has; of equal ones the
/// type's own is it.
fn take_better(row: &mut SurveyRow, estimate: Estimate, searched: &Searched) {
    let before = row.estimate.as_ref();
    let is_better = |before: &Estimate| match searched.inside {
        Some(_) => before.gain < estimate.gain,
        None => before.gain <= estimate.gain,
    };
    if before.is_none_or(is_better) {
        row.estimate = Some(estimate);
        row.inside.clone_from(&searched.inside);
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

/// A struct that is searched for a row.
struct Searched {
    /// The row's number.
    row: usize,
    shape: StructShape,
    /// The row's cycles in it.
    part: CyclesByCause,
    /// Its name, if it is inside the row's type.
    inside: Option<String>,
}

impl Recordings<'_> {
    /// Searches the types of these rows, given what all types cost; as many at a time as memory
    /// allows, because each batch unpacks the stored data of all recordings.
    fn estimate(
        &self,
        rows: &mut [SurveyRow],
        sums: &BTreeMap<String, TypeCycles>,
    ) -> Result<(), AdviseError> {
        let mut waiting: Vec<Searched> = Vec::new();
        for (number, row) in rows.iter_mut().enumerate() {
            let Some(cycles) = sums.get(&row.name) else {
                continue;
            };
            waiting.extend(self.inside(number, cycles));
            match self.shape(&row.name) {
                Ok(shape) => waiting.push(Searched {
                    row: number,
                    shape,
                    part: cycles.all,
                    inside: None,
                }),
                // A variable's: edits have no name for its struct.
                Err(AdviseError::NoType { .. }) => row.why_not = Some(UNNAMED.to_owned()),
                Err(AdviseError::Type { why, .. }) => row.why_not = Some(why),
                Err(AdviseError::Kernels { .. }) => row.why_not = Some(ELSEWHERE.to_owned()),
                Err(error) => return Err(error),
            }
        }
        let mut waiting = waiting.as_slice();
        while !waiting.is_empty() {
            let (now, later) = waiting.split_at(self.at_once(waiting));
            waiting = later;
            let shapes: Vec<&StructShape> = now.iter().map(|searched| &searched.shape).collect();
            let traces = self.traces(&shapes)?;
            for (searched, traces) in now.iter().zip(traces) {
                let row = &mut rows[searched.row];
                match self.search(&searched.shape, &traces) {
                    Ok(found) => take_better(row, found.estimate(row, searched.part), searched),
                    Err(AdviseError::Absent(_)) if searched.inside.is_none() => {
                        row.why_not = Some(ELSEWHERE.to_owned());
                    }
                    Err(AdviseError::Absent(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        for row in rows.iter_mut().filter(|row| row.estimate.is_some()) {
            row.why_not = None;
        }
        Ok(())
    }

    /// The smallest struct inside a row's type that has most of its cycles and is larger than a
    /// line.
    fn inside(&self, row: usize, cycles: &TypeCycles) -> Option<Searched> {
        let line = self.machines.first().map_or(LineSize::B64, |m| m.line);
        let enough = INSIDE_MIN * cycles.all.most();
        let most = cycles.inside.iter();
        let most = most.filter(|(_, part)| part.most() > 0.0 && part.most() >= enough);
        let searched = most.filter_map(|(name, part)| {
            let shape = self.shape(name).ok()?;
            (shape.origin.size.0 > line.bytes()).then(|| Searched {
                row,
                shape,
                part: *part,
                inside: Some(name.clone()),
            })
        });
        searched.min_by_key(|searched| searched.shape.origin.size)
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
    fn at_once(&self, waiting: &[Searched]) -> usize {
        let mut sum = Accesses::ZERO;
        let fits = |searched: &&Searched| {
            sum += self.accesses(&searched.shape);
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
        let half = found(0.5).estimate(&row, cycles);
        assert_eq!((half.gain, half.share, half.moves), (300.0, 0.3, 3));
        assert!(found(1.0).estimate(&row, cycles).gain <= 600.0);
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

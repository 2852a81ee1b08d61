//! From recordings and machines to a recommendation: extract, search, confirm.

use std::borrow::Cow;
use std::collections::BTreeMap;

use linemate_answers::{FootprintChange, GroupReasons, LayoutEffect};
use linemate_attribution::Analysis;
use linemate_experiment::scene::{Scene, Watch};
use linemate_experiment::{Conditions, Cpus, Experiment, INTERLEAVINGS_MIN, Seed, Under};
use linemate_layout::origin::BUILT_LINE;
use linemate_layout::plan::resolve;
use linemate_layout::{EditFile, EditSubject, Layouts, Plan, Slot};
use linemate_machine::Machine;
use linemate_recording::Accesses;
use linemate_session::Session;
use linemate_study::{Interleavings, Precision, WhatIfError};
use linemate_types::{BitOffset, ByteAlign, ByteSize, LineSize, Symbols, TypeId, TypeModel};

use crate::alternatives::{Aligned, Grown, LINES_MORE_MAX, is_worth_a_line, offered};
use crate::candidate::Candidate;
use crate::choice::{Choice, Point, finalists, points, recommended};
use crate::confirm::{confirm, is_confirmed, relative};
use crate::cost::CostModel;
use crate::error::AdviseError;
use crate::footprint::footprint;
use crate::objective::Objective;
use crate::reasons::Knowledge;
use crate::sample::rated;
use crate::search::{Limit, MOVE_WORTH, Scored, Search, cheapest};
use crate::shape::{Metrics, StructShape, UnitLayout};
use crate::trace::Trace;

/// The maximum and minimum number of different candidates that are replayed.
// Three are what `finalists` asks for: the best, and the fewest moves with 90 and 95 % of its gain.
// Two, however long a replay takes, because the fast model is a few per cent off and its best need
// not be the best by replay.
const CANDIDATES_MAX: usize = 3;
const CANDIDATES_MIN: usize = 2;
/// The maximum number of accesses in all replays of the candidates together: bounds the time, but
/// not the quality of the result below 100 M accesses.
const REPLAYED_MAX: Accesses = Accesses(2_400_000_000);

/// A type, the machines to search it for, and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// The type, as it was requested.
    pub type_name: String,
    /// The machines, whose costs count equally.
    pub machines: Vec<Machine>,
    /// Members that stay where they are, by name.
    pub pins: Vec<String>,
    /// Bytes by which the type may grow beyond its lines.
    pub max_growth: ByteSize,
    /// CPUs and caches of the replays. The fast model searches with the recorded CPUs.
    pub conditions: Conditions,
    /// The first interleaving's seed.
    pub seed: Seed,
    /// Interleavings that a candidate is replayed under.
    pub interleavings: usize,
    /// How moves are weighed against gain.
    pub choice: Choice,
    /// Whether all interleavings are replayed, even if fewer give narrow intervals.
    pub all_interleavings: bool,
    /// A function of the kernel: what each layout changes while it is on the stack is measured,
    /// too. It does not affect the choice: the fast model does not know stacks.
    pub under: Option<String>,
}

/// A candidate that was replayed.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The fast model's prediction.
    pub scored: Scored,
    /// The layout as an edit of the type.
    pub edits: EditFile,
    /// By recording and then machine.
    pub effects: Vec<Vec<LayoutEffect>>,
    /// Its size and lines, for lines of 64 and of 128 bytes.
    pub footprints: Vec<FootprintChange>,
    /// Its groups, with reasons.
    pub groups: Vec<GroupReasons>,
}

impl Tried {
    /// Whether replay confirms a gain: measurably better somewhere, measurably worse nowhere,
    /// neither for the type nor in total.
    pub fn confirmed(&self) -> bool {
        is_confirmed(&self.effects)
    }

    /// The most valuable one first.
    pub(crate) fn by_worth(&self, other: &Tried) -> std::cmp::Ordering {
        self.worth().total_cmp(&other.worth())
    }

    /// Whether objects of `shape` start lines with it, but need not in the recording: then part of
    /// the gain can come from that, whatever the order of members.
    pub fn starts_lines(&self, shape: &StructShape) -> bool {
        let line = ByteAlign::from(LineSize::B64);
        let slots = self.scored.candidate.slots(shape);
        let asks = |slot: &Slot| slot.group.is_some() || slot.align(LineSize::B64) >= line;
        shape.origin.align < line && slots.iter().any(asks)
    }

    /// Its value: its cost by replay, plus what its moves have to be worth.
    fn worth(&self) -> f64 {
        self.relative() + MOVE_WORTH.share() * self.moves() as f64
    }

    /// Members that leave their position, and groups.
    pub fn moves(&self) -> usize {
        self.scored.candidate.moves()
    }

    /// The mean over recordings and machines of the type's cost relative to that without the edit.
    pub fn relative(&self) -> f64 {
        relative(&self.effects)
    }
}

/// The outcome of a search.
#[derive(Clone, Debug)]
pub struct Advice {
    /// The members of the type.
    pub shape: StructShape,
    /// Why the first member stays, if it was not pinned.
    pub first_stays: Option<String>,
    /// Everything that was replayed, best first.
    pub tried: Vec<Tried>,
    /// How many layouts the search found.
    pub found: usize,
    /// Events that layouts were rated on, by recording.
    pub events: Vec<usize>,
    /// Events of which those are a sample, by recording; as many where all were used.
    pub sampled_from: Vec<usize>,
    /// Whether a recording had more than are stored.
    pub cut: bool,
    /// Moves against gain, the fewest moves first.
    pub front: Vec<Point>,
    /// The gain of more lines, if the size was to stay and the gain is confirmed to be noticeably
    /// larger.
    pub grown: Option<Grown>,
    /// The gain of objects that start lines, if the recorded ones do not and it is confirmed.
    pub aligned: Option<Aligned>,
    /// What was asked for.
    pub choice: Choice,
}

impl Advice {
    /// The layout to recommend: among those that replay confirmed, the one that was requested.
    pub fn recommended(&self) -> Option<&Tried> {
        recommended(&self.tried, self.choice)
    }
}

/// Searches the layout of a type.
///
/// # Errors
/// An unknown or unsuitable type, an unknown pin, a recording without it, a machine that is too
/// small, a damaged recording.
pub fn advise(analyses: &[&Session<'_>], request: &Request) -> Result<Advice, AdviseError> {
    let first = analyses.first().ok_or(AdviseError::Nothing("recording"))?;
    if request.machines.is_empty() {
        return Err(AdviseError::Nothing("machine"));
    }
    // The search takes minutes: whatever the following replays would refuse is refused before it.
    if request.interleavings < INTERLEAVINGS_MIN {
        return Err(WhatIfError::Interleavings(request.interleavings).into());
    }
    for analysis in analyses {
        Cpus::new(analysis.analysis(), request.conditions.cpus)?;
    }
    // The first recording's kernel decides names, edits and limits; `scene` refuses recordings of
    // kernels that lay out the type differently.
    let (shape, ids) = shape(first.analysis(), &request.type_name, &request.pins)?;
    let scenes = analyses.iter().map(|analysis| {
        let function = request.under.as_ref();
        let under = function.map(|function| Under::new(analysis, function));
        Ok((scene(analysis, &shape, &ids)?, under.transpose()?))
    });
    let scenes = scenes.collect::<Result<Vec<_>, AdviseError>>()?;
    let traces = traces(
        analyses,
        scenes.iter().map(|(scene, _)| scene),
        request,
        &shape,
    )?;
    let rated = rated(&traces);
    let proposer = Proposer::new(analyses, request, &shape, &traces, &rated)?;
    let Proposal {
        found,
        front,
        mut tried,
    } = proposer.within(request.max_growth, usize::MAX)?;
    // More layouts in addition to the search's own, which may propose none of them: sizes are to
    // stay, and no order of members makes objects start lines.
    let mut grown = proposer.with_more_lines(&front)?;
    let composite = proposer.model.composite(shape.id);
    let language = composite.and_then(|ty| ty.language);
    let mut aligned = Aligned::of(request, &shape, &traces, language);
    {
        // All at once: the replays of the recorded layout are then made once per recording and
        // machine, and every layout is compared with the same ones.
        let of_layouts = tried
            .iter_mut()
            .chain(grown.iter_mut().map(|g| &mut g.tried));
        let mut all: Vec<_> = of_layouts.map(|t| (&t.edits, &mut t.effects)).collect();
        all.extend(aligned.iter_mut().map(|a| (&a.edits, &mut a.effects)));
        confirm_on_all(&scenes, request, all)?;
    }
    tried.sort_by(Tried::by_worth);
    let without = recommended(&tried, request.choice).map_or(0.0, |best| 1.0 - best.relative());
    Ok(Advice {
        grown: offered(grown, request, without),
        aligned: aligned.filter(Aligned::confirmed),
        first_stays: shape.first_stays.clone(),
        sampled_from: traces.iter().map(Trace::events).collect(),
        events: rated.iter().map(|trace| trace.events()).collect(),
        cut: traces.iter().any(|t| t.cut),
        front: points(&front, &tried),
        choice: request.choice,
        found,
        tried,
        shape,
    })
}

/// The accesses to the type, by recording.
fn traces<'s>(
    analyses: &[&Session<'_>],
    scenes: impl IntoIterator<Item = &'s Scene<'s>>,
    request: &Request,
    shape: &StructShape,
) -> Result<Vec<Trace>, AdviseError> {
    // Any line size would give the same events: that of a replayed machine finds its stream cached
    // or leaves it for the replays.
    let line = request.machines[0].line;
    let mut traces = Vec::new();
    for (session, scene) in analyses.iter().zip(scenes) {
        let model = session.analysis().model();
        traces.extend(Trace::extract(scene, model, &[shape], request.seed, line)?);
    }
    if traces.iter().any(|t| t.accesses == Accesses::ZERO) {
        return Err(AdviseError::Absent(request.type_name.clone()));
    }
    Ok(traces)
}

/// What the fast model proposes.
struct Proposal {
    /// How many layouts the search found.
    found: usize,
    /// Those that no other one beats with as few moves.
    front: Vec<Scored>,
    /// Those that are worth a replay.
    tried: Vec<Tried>,
}

/// Searches with the fast model.
struct Proposer<'a, 't> {
    request: &'a Request,
    model: &'a TypeModel,
    shape: &'a StructShape,
    /// With the symbols of each recording's kernel.
    traces: Vec<(&'t Trace, &'a Symbols)>,
    by_line: Vec<Metrics>,
    models: Vec<CostModel<'t>>,
}

impl<'a, 't> Proposer<'a, 't> {
    fn new(
        analyses: &[&'a Session<'_>],
        request: &'a Request,
        shape: &'a StructShape,
        traces: &'t [Trace],
        rated: &'t [Cow<'t, Trace>],
    ) -> Result<Proposer<'a, 't>, AdviseError> {
        let model = analyses
            .first()
            .map(|a| a.analysis().model())
            .ok_or(AdviseError::Nothing("recording"))?;
        let by_line = metrics(model, shape)?;
        let symbols = analyses.iter().map(|a| a.analysis().symbols());
        Ok(Proposer {
            request,
            model,
            shape,
            models: models(rated, &request.machines, &by_line, shape)?,
            traces: traces.iter().zip(symbols).collect(),
            by_line,
        })
    }

    /// Layouts that take at most `growth` bytes more than the recorded one has room for, at most
    /// `most` of them to be replayed.
    fn within(&self, growth: ByteSize, most: usize) -> Result<Proposal, AdviseError> {
        let objective = Objective::of_original(&self.models, self.shape);
        let limits = limits(&self.models, &self.by_line, growth);
        let search = Search::new(self.shape, &objective, &limits);
        let found = search.run();
        let front = search.front(&found);
        let knowledge = Knowledge {
            shape: self.shape,
            traces: self.traces.clone(),
            models: &self.models,
            originals: &objective.originals,
            hot: search.hot(),
        };
        let accesses: Accesses = self.traces.iter().map(|(trace, _)| trace.all).sum();
        // Every candidate is replayed on each machine.
        let accesses = accesses.times(self.request.machines.len());
        let count = replayed(accesses, self.request.interleavings).min(most);
        let mut tried = Vec::new();
        for scored in finalists(&found, &front, self.request.choice, count) {
            tried.extend(self.tried(&knowledge, scored)?);
        }
        Ok(Proposal {
            found: found.len(),
            front,
            tried,
        })
    }

    /// A layout to replay; `None` if its edit does not do what the search says.
    fn tried(
        &self,
        knowledge: &Knowledge<'_, '_>,
        scored: Scored,
    ) -> Result<Option<Tried>, AdviseError> {
        let (shape, candidate) = (self.shape, &scored.candidate);
        let names = knowledge.group_names(candidate);
        let subject = EditSubject::Named(self.request.type_name.clone());
        let edits = candidate.edits(&subject, shape, &names);
        // The fast layout has to agree with the edit. A layout whose edit comes out differently is
        // dropped silently: there are others, and it would not be the one that was rated.
        if !agrees(self.model, &edits, candidate, shape, &self.by_line)? {
            return Ok(None);
        }
        let (before, after) = (
            Candidate::original(shape).slots(shape),
            candidate.slots(shape),
        );
        let traces = || self.traces.iter().map(|(trace, _)| *trace);
        let change = |metrics: &Metrics| FootprintChange {
            line_bytes: metrics.line.bytes(),
            before: footprint(shape, metrics, &before, traces()),
            after: footprint(shape, metrics, &after, traces()),
        };
        Ok(Some(Tried {
            edits,
            effects: Vec::new(),
            footprints: self.by_line.iter().map(change).collect(),
            groups: knowledge.reasons(candidate, &names),
            scored,
        }))
    }

    /// By how many bytes the type grows to take `lines` lines more: by what its last line lacks,
    /// too, if its objects do not start lines. Lines are the longest of the machines.
    fn growth(&self, lines: u32) -> ByteSize {
        let metrics = self.models.iter().map(CostModel::metrics);
        let bytes = metrics.clone().map(|m| m.line.bytes()).max();
        let line = bytes.unwrap_or(BUILT_LINE.bytes());
        let lacks = |metrics: &Metrics| {
            let original = metrics.original;
            original.0.next_multiple_of(line) - original.0
        };
        let aligned = self.models.iter().all(CostModel::line_aligned);
        let lacks = metrics.map(lacks).max().filter(|_| !aligned);
        ByteSize(line) * lines.into() + ByteSize(lacks.unwrap_or(0))
    }

    /// Layouts with more lines to replay: none if growth was allowed; of each number of lines those
    /// that gain enough more than with a line less, by the fast model.
    fn with_more_lines(&self, without: &[Scored]) -> Result<Vec<Grown>, AdviseError> {
        let mut grown = Vec::new();
        if self.request.max_growth > ByteSize::ZERO {
            return Ok(grown);
        }
        let gain = |front: &[Scored]| {
            let best = cheapest(front, usize::MAX);
            best.map_or(0.0, |best| 1.0 - best.cost.share())
        };
        let mut before = gain(without);
        for lines in 1..=LINES_MORE_MAX {
            let bytes = self.growth(lines);
            let Proposal { front, tried, .. } = self.within(bytes, CANDIDATES_MIN)?;
            // Before the replays, which take most of the time: if the model sees no gain, another
            // line is not searched for one.
            if !is_worth_a_line(before, gain(&front)) {
                break;
            }
            before = gain(&front);
            grown.extend(tried.into_iter().map(|tried| Grown { bytes, tried }));
        }
        Ok(grown)
    }
}

/// Replays layouts on all recordings and machines, and stores the effects of each.
fn confirm_on_all(
    scenes: &[(Scene<'_>, Option<Under>)],
    request: &Request,
    mut layouts: Vec<(&EditFile, &mut Vec<Vec<LayoutEffect>>)>,
) -> Result<(), AdviseError> {
    if layouts.is_empty() {
        return Ok(());
    }
    let edits: Vec<EditFile> = layouts.iter().map(|(edits, _)| (*edits).clone()).collect();
    let until = (!request.all_interleavings).then_some(Precision::NARROW);
    let interleavings = Interleavings::new(request.seed, request.interleavings, until);
    for (scene, under) in scenes {
        let on = |machine| {
            let experiment = Experiment {
                under: under.as_ref(),
                ..Experiment::new(scene, machine, request.conditions)?
            };
            confirm(&experiment, &edits, &interleavings)
        };
        let by_machine = request.machines.iter().map(on);
        let by_machine: Vec<Vec<LayoutEffect>> = by_machine.collect::<Result<_, _>>()?;
        for (number, (_, into)) in layouts.iter_mut().enumerate() {
            let effects = by_machine.iter().map(|effects| effects[number].clone());
            into.push(effects.collect());
        }
    }
    Ok(())
}

/// A type prepared for the search, and its ids.
pub(crate) fn shape(
    analysis: &Analysis<'_>,
    name: &str,
    pins: &[String],
) -> Result<(StructShape, Vec<TypeId>), AdviseError> {
    let model = analysis.model();
    let subject = EditSubject::Named(name.to_owned());
    let ids = resolve(model, &subject).map_err(|reason| AdviseError::NoType {
        name: name.to_owned(),
        reason,
    })?;
    let mut layouts = Layouts::new(model, BUILT_LINE);
    Ok((StructShape::new(&mut layouts, name, &ids, pins)?, ids))
}

/// A recording's data about the type, which its kernel must lay out as the first one's does.
fn scene<'a>(
    session: &'a Session<'_>,
    wanted: &StructShape,
    ids: &[TypeId],
) -> Result<Scene<'a>, AdviseError> {
    let analysis = session.analysis();
    let (other, of_other) = shape(analysis, &wanted.name, &[])?;
    // Ids too: a scene's types are found by them, and traces of several recordings are costed with
    // one shape.
    if other.names != wanted.names || other.origin != wanted.origin || of_other != ids {
        return Err(AdviseError::Kernels {
            name: wanted.name.clone(),
        });
    }
    let watch = Watch {
        types: vec![of_other],
        ..Watch::default()
    };
    Ok(Scene::new(session, &watch)?)
}

/// The placement that units require, for lines of 64 and of 128 bytes.
pub(crate) fn metrics(model: &TypeModel, shape: &StructShape) -> Result<Vec<Metrics>, AdviseError> {
    let of = |line| Metrics::new(&mut Layouts::new(model, line), shape);
    Ok(vec![of(LineSize::B64)?, of(LineSize::B128)?])
}

pub(crate) fn models<'t>(
    rated: &'t [Cow<'t, Trace>],
    machines: &[Machine],
    by_line: &[Metrics],
    shape: &StructShape,
) -> Result<Vec<CostModel<'t>>, AdviseError> {
    let mut models = Vec::new();
    for trace in rated {
        for machine in machines {
            let metrics = by_line
                .iter()
                .find(|m| m.line.bytes() == machine.line.bytes());
            let metrics = metrics.unwrap_or(&by_line[0]).clone();
            models.push(CostModel::new(trace, machine, metrics, shape)?);
        }
    }
    Ok(models)
}

/// How large a layout may be: as many lines as the original, if all objects start lines; else as
/// many bytes.
pub(crate) fn limits(
    models: &[CostModel<'_>],
    by_line: &[Metrics],
    max_growth: ByteSize,
) -> Vec<Limit> {
    let aligned = models.iter().all(CostModel::line_aligned);
    let limit = |metrics: &Metrics| {
        // The end of the last line is free if every object starts a line: no neighbour can be
        // there.
        let room = if aligned {
            metrics.original.align_up(metrics.line.into())
        } else {
            metrics.original
        };
        Limit {
            metrics: metrics.clone(),
            bytes: ByteSize(room.0.saturating_add(max_growth.0)),
        }
    };
    let on = |line: LineSize| models.iter().any(|m| m.metrics().line == line);
    let used = by_line
        .iter()
        // Always the 64-byte kernel: it was recorded and the edit is written for it, so it must not
        // grow there even if only 128-byte machines are requested.
        .filter(|m| m.line == LineSize::B64 || on(m.line));
    let mut limits: Vec<Limit> = used.map(limit).collect();
    // Groups are made to fit the first one's lines.
    let first = models.first().map_or(BUILT_LINE, |m| m.metrics().line);
    limits.sort_by_key(|limit| limit.metrics.line != first);
    limits
}

/// How many candidates are replayed.
fn replayed(accesses: Accesses, interleavings: usize) -> usize {
    let all = accesses.max(Accesses::ONE).times(interleavings.max(1));
    let replays = REPLAYED_MAX.0 / all.0;
    // One of the replays is that of the recorded layout.
    (replays.saturating_sub(1) as usize).clamp(CANDIDATES_MIN, CANDIDATES_MAX)
}

/// Whether the edit, read back and laid out by the layout crate, puts every unit where the search
/// put it.
fn agrees(
    model: &TypeModel,
    edits: &EditFile,
    candidate: &Candidate,
    shape: &StructShape,
    by_line: &[Metrics],
) -> Result<bool, AdviseError> {
    let slots = candidate.slots(shape);
    let composite = model.composite(shape.id);
    for metrics in by_line {
        let mut plan = Plan::new(model, metrics.line, edits, &BTreeMap::new())?;
        let layout = plan.layouts.of(shape.id)?;
        let mut placed = UnitLayout::default();
        metrics.place(&slots, &mut placed);
        let same = shape.units().iter().enumerate().all(|(number, unit)| {
            let Some((member, composite)) = unit.members.first().zip(composite) else {
                return false;
            };
            // In bits, because a unit may start with a bit-field that does not start its storage.
            let within = composite.members[*member].offset.0 - unit.start.bit().0;
            let bit = placed.start(number).bit().0 + within;
            layout.offsets[*member] == Some(BitOffset(bit))
        });
        if !same || layout.size != placed.size {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use linemate_answers::Measure;
    use linemate_units::Millionths;

    use super::*;

    /// By 100 cycles of 1000, with that interval.
    fn measure(difference: f64, ci95: f64) -> Measure {
        Measure {
            without: 1000.0,
            with: 1000.0 + difference,
            difference,
            ci95,
            significant: difference.abs() > ci95,
        }
    }

    fn tried(effects: &[(Measure, Measure)]) -> Tried {
        let effect = |(types, whole): &(Measure, Measure)| LayoutEffect {
            interleavings: 8,
            types: *types,
            whole: *whole,
            duration: *whole,
            under: None,
            in_either_half: 0,
        };
        Tried {
            scored: Scored {
                score: Millionths(0),
                cost: Millionths(0),
                candidate: Candidate {
                    rest: Vec::new(),
                    at: 0,
                    segments: Vec::new(),
                    open: false,
                },
            },
            edits: EditFile::default(),
            effects: vec![effects.iter().map(effect).collect()],
            footprints: Vec::new(),
            groups: Vec::new(),
        }
    }

    #[test]
    fn only_a_gain_beyond_the_bar_is_confirmed_and_no_loss_elsewhere() {
        let (gain, loss) = (measure(-100.0, 10.0), measure(100.0, 10.0));
        let (maybe, none) = (measure(-100.0, 200.0), measure(0.0, 0.0));
        assert!(tried(&[(gain, gain)]).confirmed());
        assert!(tried(&[(gain, none), (none, none)]).confirmed());
        assert!(!tried(&[(maybe, maybe)]).confirmed(), "within the interval");
        assert!(!tried(&[(none, none)]).confirmed(), "nothing gained");
        assert!(!tried(&[(gain, gain), (loss, none)]).confirmed());
        assert!(!tried(&[(gain, loss)]).confirmed(), "others pay for it");
        assert!(!tried(&[]).confirmed());
        assert_eq!(tried(&[(gain, gain), (none, none)]).relative(), 0.95);
    }

    /// A layout with that many moves (groups of one member each, in order) and a gain out of 1000
    /// cycles.
    fn layout(moves: usize, gain: f64) -> Tried {
        let measure = measure(-gain, 1.0);
        let mut tried = tried(&[(measure, measure)]);
        tried.scored.candidate.segments = (0..moves).map(|unit| vec![unit]).collect();
        tried
    }

    #[test]
    fn the_fewest_moves_with_nine_tenths_of_the_best_gain_are_recommended() {
        let tried = [
            layout(30, 410.0),
            layout(20, 395.0),
            layout(12, 370.0),
            layout(8, 345.0),
        ];
        let moves = |choice| recommended(&tried, choice).map(Tried::moves);
        assert_eq!(moves(Choice::Fewest), Some(12));
        assert_eq!(moves(Choice::Moves(11)), Some(8));
        assert_eq!(moves(Choice::Moves(25)), Some(20));
        assert_eq!(moves(Choice::Moves(7)), None);
        assert_eq!(moves(Choice::All), Some(30), "the first by worth");
    }
}

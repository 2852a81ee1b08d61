//! Edits replayed by what they change.
//!
//! ```text
//!   stream ─┬► layout as recorded, whole ──► outcome, timeline        by interleaving: `baseline`
//!           │ accesses to lines that the edits may change
//!           ▼
//!        followed ─► partial replays with the timeline ─┬─ without edits
//!                                                       └─ with ─► difference, on top of the outcome
//! ```
//!
//! An edit moves a few percent of the accesses; a whole replay of each variant would do all others
//! again ([`linemate_replay::Partial`] says what is exact and what is not). Where the difference
//! cannot be put on top, the variant is replayed whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use linemate_machine::LineSize;
use linemate_recording::{Accesses, GuestAddr};
use linemate_replay::{Drift, L1s, Outcome, Partial, ReplayError, Timeline, TimelineReader};
use linemate_session::LONG;
use linemate_session::rounds::{Rounds, read_ahead};
use linemate_session::shelf::{self, Part};
use linemate_session::step::Step;
use linemate_session::stream::{FollowedPacker, Reader, Stream, Tables, Wanted};
use linemate_types::{ByteOffset, ByteSize};
use rayon::prelude::*;
use rustc_hash::FxHashSet;

use crate::baseline::Baselines;
use crate::conditions::Seed;
use crate::error::ExperimentError;
use crate::known::{OUTCOMES_MAX, question_of_moved};
use crate::runner::{FILLING, Job};
use crate::setup::Experiment;
use crate::supply::{Batches, Supply};
use crate::variant::{Memory, Unedited, Variant};

/// Of the accesses, the share from which on it is not worth it: the partial replays, which are one
/// more a variant, take as long as the whole ones then.
const SHARE_MAX: f64 = 0.3;

/// By which share of their time slices may be early or late: beyond it, a variant is replayed
/// whole. Interleavings start slices up to an eighth of the round's longest late
/// ([`linemate_replay::Interleaving`]) and are averaged over; less than half of that is taken.
const DRIFT_MAX: f64 = 0.05;

/// The largest object all of whose lines are followed, accessed or not: an edit moves members into
/// lines of their object that nothing accessed. Of a larger one (a table that is one variable) only
/// lines that are accessed are.
const OBJECT_MAX: ByteSize = ByteSize(1 << 16);

/// Of how many variants the caches are filled at a time: `advise` asks about dozens, and each holds
/// its lines until it has counted.
const VARIANTS_AT_ONCE: usize = 8;

/// Two lines that are fetched together, by their address in pairs of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PairNumber(u64);

/// The last of `size` bytes, 1 at least, from `first` on.
fn last_byte(first: GuestAddr, size: ByteSize) -> GuestAddr {
    GuestAddr(first.0.saturating_add(size.0 - 1))
}

/// Bytes of an access; one of none counts as of one.
fn size_of_access(step: &Step) -> ByteSize {
    ByteSize::from(step.access.size.max(1))
}

/// Lines that edits may change.
#[derive(Debug)]
pub(crate) struct EditedLines {
    line: LineSize,
    /// By subject: whether an edit changes where its accesses go.
    moved: Vec<bool>,
    /// Both lines of each pair: one is fetched with the other.
    pairs: FxHashSet<PairNumber>,
}

impl EditedLines {
    fn new(line: LineSize, moved: Vec<bool>) -> EditedLines {
        EditedLines {
            line,
            moved,
            pairs: FxHashSet::default(),
        }
    }

    fn pair(&self, addr: GuestAddr) -> PairNumber {
        PairNumber(addr.0 >> (self.line.shift() + 1))
    }

    /// `size`: 1 byte at least.
    fn add_bytes(&mut self, first: GuestAddr, size: ByteSize) {
        let (first, last) = (self.pair(first), self.pair(last_byte(first, size)));
        self.pairs.extend((first.0..=last.0).map(PairNumber));
    }

    /// Whether the access is to one of them.
    #[inline]
    fn have(&self, step: &Step) -> bool {
        if self.moved[step.subject.index()] {
            return true;
        }
        let addr = step.access.addr;
        let last = last_byte(addr, size_of_access(step));
        let (first, last) = (self.pair(addr), self.pair(last));
        self.pairs.contains(&first) || (last != first && self.pairs.contains(&last))
    }

    fn mark(&self, rounds: &mut Rounds) {
        for step in &mut rounds.steps {
            step.followed = self.have(step);
        }
    }
}

/// What a question's variants are put on top of.
pub(crate) struct Difference {
    supply: Supply,
    l1s: L1s,
    lines: EditedLines,
    tables: Tables,
    baselines: Baselines,
    part: Part,
    /// The accesses that are followed.
    followed: Option<Stream>,
    /// By seed: what the partial replay without edits finds.
    partials: BTreeMap<Seed, Outcome>,
    /// Whether there is more than what was kept.
    grown: bool,
}

/// What could be found by differences, and what could not.
pub(crate) struct Differences {
    pub(crate) outcomes: Vec<(Job, Outcome)>,
    /// To be replayed whole.
    pub(crate) whole: Vec<Job>,
}

/// The accesses that are followed, and what they count for.
#[derive(Clone, Copy)]
struct Followed<'f> {
    stream: &'f Stream,
    tables: &'f Tables,
}

/// What a partial replay found.
struct Found {
    job: Job,
    outcome: Outcome,
    drift: Drift,
}

/// A partial replay of a variant.
#[derive(Clone)]
struct PartialRunner<'s> {
    variant: &'s Variant,
    /// Whether nothing moves what hits in L1 whatever the interleaving.
    unedited: bool,
    memory: Memory,
    partial: Partial,
    timeline: TimelineReader,
}

impl<'s> PartialRunner<'s> {
    fn take(&mut self, rounds: &Rounds) -> Result<(), ReplayError> {
        let PartialRunner {
            variant,
            unedited,
            memory,
            partial,
            timeline,
        } = self;
        for round in rounds.iter() {
            for (head, steps) in round {
                partial.begin_slice(head)?;
                for step in steps {
                    if *unedited && !step.needed {
                        partial.add_hit(step.access.kind, step.placed())?;
                        continue;
                    }
                    partial.begin_step(step.at, step.tie, step.needed);
                    variant.apply(step, memory, |item, placed| partial.add(item, placed))?;
                }
            }
            partial.end_round(timeline)?;
        }
        Ok(())
    }

    fn counting(mut self, timeline: &Arc<Timeline>) -> PartialRunner<'s> {
        self.partial.begin_counting();
        self.timeline = TimelineReader::new(Arc::clone(timeline));
        self
    }
}

impl<'a> Experiment<'a> {
    /// Whether what an access costs depends on accesses to its own line alone, and on evictions:
    /// only then can edits be replayed by the lines that they change.
    pub(crate) fn replays_by_line(&self) -> bool {
        let machine = self.machine;
        // What prefetchers fetch, what of misses overlaps, and who waits for a lock depends on
        // accesses to all lines.
        let by_line = !self.waits_for_locks()
            && machine.overlap.is_none()
            && machine.l2_streamer.is_none()
            && machine.l1_stride.is_none();
        let plain = !self.conditions.exact && !self.conditions.cold && self.cpus.copies == 1;
        // By the recording alone: how much memory there is must not decide how a figure is found.
        // Differences of 1.24 billion accesses of 240 CPUs had taken 9.9 GB when they were stopped
        // (evidence/scaling.md).
        let long = self.scene.accesses > LONG;
        let whole =
            self.whole || long || self.lines || self.under.is_some() || self.filter().is_none();
        by_line && plain && !whole
    }

    /// By subject: whether one of the variants moves its accesses; `None` where edits are replayed
    /// whole.
    fn moved_few(&self, variants: &[&Variant]) -> Option<Vec<bool>> {
        let (first, edited) = variants.split_first()?;
        if !self.replays_by_line() || edited.is_empty() {
            return None;
        }
        if first.unedited() != Some(Unedited::AsRecorded) {
            return None;
        }
        let subjects = 0..self.scene.types.len();
        let moved: Vec<bool> = subjects
            .map(|subject| edited.iter().any(|variant| variant.edits(subject)))
            .collect();
        let typed = moved
            .iter()
            .zip(self.scene.types)
            .all(|(moved, ty)| !moved || ty.is_some());
        let counts = self.scene.counts();
        let touched = counts.filter(|(field, _)| moved[field.subject.index()]);
        let touched: Accesses = touched.flat_map(|(_, kinds)| kinds).sum();
        let few = f64::from(touched) < SHARE_MAX * f64::from(self.scene.accesses);
        (typed && few).then_some(moved)
    }

    /// Ready to replay differences, where these variants can be replayed so.
    pub(crate) fn difference(
        &self,
        variants: &[&Variant],
        batches: Batches,
    ) -> Result<Option<Difference>, ExperimentError> {
        let (Some(moved), Some(l1s)) = (self.moved_few(variants), self.filter()) else {
            return Ok(None);
        };
        let baselines = self.baselines();
        let by_field = self.by_field(&baselines);
        let shelf = self.scene.session.shelf();
        let part = Part::Differences(question_of_moved(self, &moved));
        let partials = shelf.load(part).and_then(|bytes| shelf::unpack(&bytes));
        Ok(Some(Difference {
            supply: self.supply_of(moved.clone(), batches, 1, by_field)?,
            part,
            followed: self.scene.session.followed(&l1s, &moved),
            lines: EditedLines::new(self.machine.line, moved),
            l1s,
            tables: self.scene.tables(),
            baselines,
            partials: partials.unwrap_or_default(),
            grown: false,
        }))
    }

    /// Keeps what is new for the next question.
    pub(crate) fn keep_differences(&self, difference: &mut Difference) {
        self.keep_baselines(&mut difference.baselines);
        if difference.grown {
            let partials = difference.partials.iter().take(OUTCOMES_MAX);
            let partials: BTreeMap<&Seed, &Outcome> = partials.collect();
            if let Some(packed) = shelf::pack(&partials) {
                self.scene.session.shelf().store(difference.part, &packed);
            }
        }
    }

    /// The outcomes of these jobs, as far as a difference can be put on top.
    pub(crate) fn differences(
        &self,
        difference: &mut Difference,
        variants: &[&Variant],
        jobs: &[Job],
    ) -> Result<Differences, ExperimentError> {
        let seeds: BTreeSet<Seed> = jobs.iter().map(|job| job.seed).collect();
        let unknown = |seed: &Seed| !difference.baselines.has(*seed);
        let new: Vec<Seed> = seeds.iter().copied().filter(unknown).collect();
        self.prepare(difference, variants[0], &new)?;
        let mut partials: Vec<Job> = jobs.iter().copied().filter(|job| job.variant > 0).collect();
        for seed in &seeds {
            let seed = *seed;
            if !difference.partials.contains_key(&seed) && partials.iter().any(|j| j.seed == seed) {
                partials.push(Job { variant: 0, seed });
            }
        }
        partials.sort_unstable();
        let found = self.replay_partial(difference, variants, &partials)?;
        let (recorded, found): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|found| found.job.variant == 0);
        for found in recorded {
            difference.partials.insert(found.job.seed, found.outcome);
            difference.grown = true;
        }
        let outcomes = seeds.iter().filter_map(|seed| {
            let outcome = difference.baselines.outcome(self.scene, *seed)?;
            Some((*seed, outcome))
        });
        let recorded: BTreeMap<Seed, Outcome> = outcomes.collect();
        let mut outcomes = Vec::with_capacity(jobs.len());
        let mut whole = Vec::new();
        for job in jobs.iter().filter(|job| job.variant == 0) {
            let outcome = recorded.get(&job.seed);
            outcomes.extend(outcome.map(|outcome| (*job, outcome.clone())));
        }
        for Found {
            job,
            outcome,
            drift,
        } in found
        {
            let recorded = recorded.get(&job.seed);
            let near = recorded.filter(|_| drift.share() <= DRIFT_MAX);
            let changed = near.and_then(|recorded| {
                let before = difference.partials.get(&job.seed)?;
                recorded.changed(before, &outcome)
            });
            match changed {
                Some(outcome) => outcomes.push((job, outcome)),
                None => whole.push(job),
            }
        }
        Ok(Differences { outcomes, whole })
    }

    /// Replays the layout as recorded under these seeds' interleavings, and chooses what is
    /// followed, as far as that is to be done.
    fn prepare(
        &self,
        difference: &mut Difference,
        recorded: &Variant,
        new: &[Seed],
    ) -> Result<(), ExperimentError> {
        let Difference {
            supply,
            l1s,
            lines,
            baselines,
            followed,
            ..
        } = difference;
        let mut follower = None;
        if followed.is_none() {
            self.find_lines(l1s, lines)?;
            let rows = self.scene.session.rows();
            let packer = FollowedPacker::new(self.cpus.recorded, rows, self.machine.line);
            follower = Some(packer);
        }
        let mut follow = |rounds: &mut Rounds| {
            if let Some(packer) = &mut follower {
                lines.mark(rounds);
                packer.add(rounds)?;
            }
            Ok(())
        };
        let fills = !new.is_empty() && !baselines.are_filled();
        if fills {
            self.fill(baselines, supply, recorded, follow)?;
        } else if followed.is_none() {
            // The same pass over the stream, with no replay in it.
            self.read_stream(supply, &mut follow)?;
        }
        if let Some(packer) = follower {
            let stream = packer.finish()?;
            let session = self.scene.session;
            session.keep_followed(l1s, &lines.moved, &stream);
            *followed = Some(stream);
        }
        match new {
            [] => Ok(()),
            new => self.replay_recorded(baselines, supply, recorded, new),
        }
    }

    /// The lines of all moved objects: by the recording's counts, which have every object that was
    /// accessed, and by the stream where more than the objects was.
    fn find_lines(&self, l1s: &L1s, lines: &mut EditedLines) -> Result<(), ExperimentError> {
        for (subject, objects) in self.scene.objects.iter().enumerate() {
            let moved = lines.moved.get(subject) == Some(&true);
            if let Some(size) = self.followed_size(subject).filter(|_| moved) {
                let bases = objects.keys().copied();
                bases.for_each(|base| lines.add_bytes(base, size));
            }
        }
        let beyond = self.accessed_beyond(lines);
        if !beyond.contains(&true) {
            return Ok(());
        }
        let stream = self.scene.session.stream(l1s)?;
        let tables = self.scene.tables();
        let wanted = Wanted::Only(&beyond);
        let mut reader = Reader::new(&stream, self.scene.ownership, &tables, wanted);
        let mut rounds = Rounds::default();
        while reader.next(&mut rounds)? {
            for step in &rounds.steps {
                lines.add_bytes(step.access.addr, size_of_access(step));
            }
        }
        Ok(())
    }

    /// The size of a subject's objects where all of their lines are followed.
    fn followed_size(&self, subject: usize) -> Option<ByteSize> {
        let ty = self.scene.types.get(subject).copied().flatten()?;
        let model = self.scene.session.analysis().model();
        let size = ByteSize(model.size_of(ty)?);
        (ByteSize(1)..=OBJECT_MAX).contains(&size).then_some(size)
    }

    /// By subject: whether it is moved, and more was accessed than those lines: elements of a
    /// flexible array, or an object of which not all lines are followed.
    fn accessed_beyond(&self, lines: &EditedLines) -> Vec<bool> {
        let mut beyond = vec![false; lines.moved.len()];
        for row in self.scene.session.rows() {
            let subject = row.subject.index();
            let end = ByteOffset::from(row.offset) + row.size.max(1).into();
            let inside = self
                .followed_size(subject)
                .is_some_and(|size| end <= size.end());
            beyond[subject] |= lines.moved[subject] && !inside;
        }
        beyond
    }

    fn replay_partial(
        &self,
        difference: &Difference,
        variants: &[&Variant],
        jobs: &[Job],
    ) -> Result<Vec<Found>, ExperimentError> {
        let followed = difference.followed.as_ref().filter(|_| !jobs.is_empty());
        let Some((followed, filling)) = followed.zip(difference.baselines.filling()) else {
            return Ok(Vec::new());
        };
        let mut found = Vec::with_capacity(jobs.len());
        let mut rest = jobs;
        while !rest.is_empty() {
            let mut variant = None;
            let mut begun = 0;
            let several = rest.iter().position(|job| {
                begun += usize::from(variant.replace(job.variant) != Some(job.variant));
                begun > VARIANTS_AT_ONCE
            });
            let (now, later) = rest.split_at(several.unwrap_or(rest.len()));
            rest = later;
            let read = Followed {
                stream: followed,
                tables: &difference.tables,
            };
            let filled = self.fill_partial(read, filling, variants, now)?;
            let sizes = filled
                .values()
                .map(|runner| runner.partial.size_in_memory());
            let size = sizes.max().unwrap_or(0);
            for part in difference.supply.parts(now, |job| job.variant, size) {
                self.count_partial(read, &difference.baselines, &filled, part, &mut found)?;
            }
        }
        Ok(found)
    }

    /// Partial replays of the jobs' variants, their caches filled.
    fn fill_partial<'s>(
        &self,
        followed: Followed<'_>,
        filling: &Arc<Timeline>,
        variants: &[&'s Variant],
        jobs: &[Job],
    ) -> Result<BTreeMap<usize, PartialRunner<'s>>, ExperimentError> {
        let numbers: BTreeSet<usize> = jobs.iter().map(|job| job.variant).collect();
        let filled = numbers.iter().map(|number| {
            Ok(PartialRunner {
                variant: variants[*number],
                unedited: variants[*number].unedited() == Some(Unedited::AsRecorded),
                memory: Memory::default(),
                partial: Partial::new(self.replay(FILLING)?),
                timeline: TimelineReader::new(Arc::clone(filling)),
            })
        });
        let mut filled: Vec<PartialRunner<'s>> = filled.collect::<Result<_, ExperimentError>>()?;
        self.feed_partial(&mut filled, followed)?;
        Ok(numbers.into_iter().zip(filled).collect())
    }

    /// Counts these jobs, each from a copy of its variant's filled one.
    fn count_partial(
        &self,
        followed: Followed<'_>,
        baselines: &Baselines,
        filled: &BTreeMap<usize, PartialRunner<'_>>,
        jobs: &[Job],
        found: &mut Vec<Found>,
    ) -> Result<(), ExperimentError> {
        let mut runners = Vec::with_capacity(jobs.len());
        for job in jobs {
            let runner = filled.get(&job.variant).cloned();
            let runner = runner.zip(baselines.timeline(job.seed));
            runners.extend(runner.map(|(runner, timeline)| runner.counting(timeline)));
        }
        self.feed_partial(&mut runners, followed)?;
        let outcomes = jobs.par_iter().zip(runners);
        found.par_extend(outcomes.map(|(job, runner)| Found {
            job: *job,
            drift: runner.partial.drift(),
            outcome: runner.partial.finish(),
        }));
        Ok(())
    }

    fn feed_partial(
        &self,
        runners: &mut [PartialRunner<'_>],
        followed: Followed<'_>,
    ) -> Result<(), ExperimentError> {
        let Followed { stream, tables } = followed;
        let all = vec![true; self.scene.types.len()];
        let wanted = Wanted::Only(&all);
        let mut reader = Reader::new(stream, self.scene.ownership, tables, wanted);
        let take = |rounds: &mut Rounds| {
            let runners = runners.par_iter_mut();
            Ok(runners.try_for_each(|runner| runner.take(rounds))?)
        };
        read_ahead(|into| Ok(reader.next(into)?), take)
    }
}

//! The one road from a recording to outcomes: a scene's variants, each under several interleavings,
//! on one machine.
//!
//! ```text
//!   stream, kept ─► rounds, without what no replay needs (one thread)
//!                                  │
//!      variant × interleaving: each replay takes every round (all threads)
//!                                  │
//!   recording ─► steps, named (all threads) ─► rounds (one thread), where everything is to be replayed
//! ```
//!
//! Each variant is replayed once to fill the caches, its slices aligned; from the machine as that
//! leaves it, all of its interleavings are replayed and counted. Warming each interleaving by
//! itself would take twice the time for the same caches: what they hold at the end depends little
//! on the order inside of rounds.
//!
//! Where edits move few accesses, only the layout as recorded goes this way, and the variants are
//! replayed by what they change (`difference`).
//!
//! Results do not depend on the number of threads.

use std::collections::{BTreeMap, BTreeSet};

use linemate_recording::Access;
use linemate_replay::{AsRecorded, Config, Interleaving, L1s, NoClones, Outcome, Replay};
use linemate_session::progress::{self, OneOf, StepParts};
use linemate_session::rounds::{Cutter, LeftOut, Rounds, read_ahead};
use linemate_session::steps;
use linemate_session::stream::{Reader, Tables, Wanted};
use rayon::prelude::*;

use crate::conditions::Seed;
use crate::cpus::Cpus;
use crate::difference::Difference;
use crate::error::ExperimentError;
use crate::known::KnownOutcomes;
use crate::locks;
use crate::runner::{FILLING, HalfTurns, Job, Runner, counting, take_all};
use crate::setup::Experiment;
use crate::supply::{Batches, Replays, StepSource, Supply};
use crate::under::UnderMarker;
use crate::variant::{Unedited, Variant};

/// After how many interleavings their figures are tested for narrow intervals: three give intervals
/// half as wide again (Student's t), and more are wasted where four are enough. Not measured.
pub const INTERLEAVINGS_AT_ONCE: usize = 4;

/// How many steps are gathered before the replays take them: waking threads for fewer costs more
/// than it gains.
const STEPS_AT_ONCE: usize = 1 << 18;

/// Where the outcomes of a question come from.
struct Outcomes<'v, 'a> {
    variants: &'v [&'v Variant],
    batches: usize,
    /// By variant; none of a variant with edits.
    known: Vec<Option<KnownOutcomes<'a>>>,
    difference: Option<Difference>,
    supply: Option<Supply>,
}

impl Outcomes<'_, '_> {
    fn known(&self, job: Job) -> Option<&Outcome> {
        self.known[job.variant].as_ref()?.get(job.seed)
    }

    fn add(&mut self, job: Job, outcome: &Outcome) {
        if let Some(known) = &mut self.known[job.variant] {
            known.add(job.seed, outcome);
        }
    }
}

impl<'a> Experiment<'a> {
    /// Replays variants under the seeds' interleavings, [`INTERLEAVINGS_AT_ONCE`] at a time: each
    /// until `enough`, given what the first one and it have and its number, says so, the first as
    /// long as another one needs more. `keep` takes from an outcome what is wanted, given the
    /// variant's number: outcomes are large. Gives that by variant, then by seed.
    ///
    /// # Errors
    /// CPUs that do not fit the machine, a damaged recording.
    pub fn run<T>(
        &self,
        variants: &[&Variant],
        seeds: &[Seed],
        mut keep: impl FnMut(usize, Outcome) -> T,
        enough: impl Fn(&[T], &[T], usize) -> bool,
    ) -> Result<Vec<Vec<T>>, ExperimentError> {
        let others = self.in_other_halves(variants);
        let turns = HalfTurns::new(variants.len(), others.iter().map(|(number, _)| *number));
        let others = others.iter().map(|(_, variant)| variant);
        let all: Vec<&Variant> = variants.iter().copied().chain(others).collect();
        let known = all.iter().map(|variant| {
            let unedited = variant.unedited();
            unedited.map(|unedited| KnownOutcomes::of(self, unedited))
        });
        let batches = seeds.chunks(INTERLEAVINGS_AT_ONCE);
        let count = batches.len();
        let replays = INTERLEAVINGS_AT_ONCE.min(seeds.len());
        let mut outcomes = Outcomes {
            variants: &all,
            batches: count,
            known: known.collect(),
            difference: self.difference(&all, Batches { count, replays })?,
            supply: None,
        };
        let mut kept: Vec<Vec<T>> = variants.iter().map(|_| Vec::new()).collect();
        let mut wanted: Vec<usize> = (0..variants.len()).collect();
        let mut keep = |number, outcome| keep(turns.variant(number), outcome);
        for batch in batches {
            let found = self.batch(&mut outcomes, &turns.jobs(&wanted, batch), &mut keep)?;
            // In the order of seeds: differences are paired by place.
            let answers = found.into_iter().map(|(job, answer)| {
                let variant = turns.variant(job.variant);
                (Job { variant, ..job }, answer)
            });
            let answers: BTreeMap<Job, T> = answers.collect();
            for (job, answer) in answers {
                kept[job.variant].push(answer);
            }
            let (first, others) = wanted.split_first().unwrap_or((&0, &[]));
            let more = |number: &&usize| !enough(&kept[*first], &kept[**number], **number);
            let more: Vec<usize> = others.iter().filter(more).copied().collect();
            if more.is_empty() && variants.len() > 1 {
                break;
            }
            // The first variant as long as any other needs more: each difference is to the same
            // interleaving of it.
            wanted = std::iter::once(*first).chain(more).collect();
        }
        self.keep_outcomes(&mut outcomes);
        Ok(kept)
    }

    /// Where lines are fetched in pairs: variants with objects in the other half of a pair, by the
    /// number of the one with them in the first.
    fn in_other_halves(&self, variants: &[&Variant]) -> Vec<(usize, Variant)> {
        if !self.machine.adjacent_line_pairs {
            return Vec::new();
        }
        let other = |(number, variant): (usize, &&Variant)| {
            Some((number, variant.in_other_half(self.machine.line)?))
        };
        variants.iter().enumerate().filter_map(other).collect()
    }

    /// What `keep` takes of each job's outcome: of known ones, of differences, of replays. In the
    /// order of jobs, so that a variant's outcomes are in the order of seeds whichever of them were
    /// cached: differences are paired by place.
    fn batch<T>(
        &self,
        outcomes: &mut Outcomes<'_, 'a>,
        jobs: &[Job],
        keep: &mut impl FnMut(usize, Outcome) -> T,
    ) -> Result<BTreeMap<Job, T>, ExperimentError> {
        let mut found: BTreeMap<Job, T> = BTreeMap::new();
        let mut unknown: Vec<Job> = Vec::new();
        for job in jobs {
            match outcomes.known(*job) {
                Some(outcome) => {
                    found.insert(*job, keep(job.variant, outcome.clone()));
                }
                None => unknown.push(*job),
            }
        }
        if let Some(difference) = outcomes.difference.as_mut().filter(|_| !unknown.is_empty()) {
            let variants = outcomes.variants;
            let made = self.differences(difference, variants, &unknown)?;
            for (job, outcome) in made.outcomes {
                outcomes.add(job, &outcome);
                found.insert(job, keep(job.variant, outcome));
            }
            unknown = made.whole;
        }
        if unknown.is_empty() {
            return Ok(found);
        }
        let (variants, replays) = (outcomes.variants, unknown.len());
        let at_once = self.supply_for(outcomes, replays)?.at_once;
        for wave in unknown.chunks(at_once) {
            let supply = self.supply_for(outcomes, replays)?;
            supply.waves = supply.waves.saturating_sub(1);
            for (job, outcome) in self.wave(supply, variants, wave)? {
                // Before `keep`, which takes the outcome apart.
                outcomes.add(job, &outcome);
                found.insert(job, keep(job.variant, outcome));
            }
        }
        Ok(found)
    }

    /// Where whole replays get their accesses from. Made with the first batch that needs one, of
    /// that many replays: a question whose outcomes are all cached reads neither stream nor
    /// recording.
    fn supply_for<'o>(
        &self,
        outcomes: &'o mut Outcomes<'_, 'a>,
        replays: usize,
    ) -> Result<&'o mut Supply, ExperimentError> {
        let count = outcomes.batches;
        match &mut outcomes.supply {
            Some(supply) => Ok(supply),
            none => {
                let supply = self.supply(outcomes.variants, Batches { count, replays })?;
                Ok(none.insert(supply))
            }
        }
    }

    /// Stores what was found, for later questions.
    fn keep_outcomes(&self, outcomes: &mut Outcomes<'_, 'a>) {
        let known = outcomes.known.iter();
        known.flatten().for_each(KnownOutcomes::keep);
        if let Some(difference) = &mut outcomes.difference {
            self.keep_differences(difference);
        }
        if let Some(supply) = &outcomes.supply {
            let parts = supply.source.parts(self.scene.accesses);
            // Progress was announced for all batches; those that were not needed count as done.
            let spared = parts.times(supply.waves * self.passes());
            self.scene.session.progress().advance(spared);
        }
    }

    /// How often a recording is replayed for a figure.
    fn passes(&self) -> usize {
        if self.conditions.cold { 1 } else { 2 }
    }

    /// Replays these: all fill their caches at the same time, and count as memory allows.
    fn wave(
        &self,
        supply: &Supply,
        variants: &[&Variant],
        jobs: &[Job],
    ) -> Result<Vec<(Job, Outcome)>, ExperimentError> {
        if self.conditions.cold {
            let seeded = |job: &Job| Interleaving::Seeded(job.seed.0);
            let runner = |job: &Job| self.runner(variants[job.variant], seeded(job));
            let runners = jobs.iter().map(runner).collect::<Result<_, _>>()?;
            return self.count(supply, jobs, runners, 1);
        }
        let mut warm = self.warmed(supply, variants, jobs)?;
        // Measured when the caches are full, because what a replay takes depends on the lines that
        // a recording touches and not on its length.
        let sizes = warm.values().map(|runner| runner.replay.size_in_memory());
        let parts = supply.parts(jobs, |job| job.variant, sizes.max().unwrap_or(0));
        let mut outcomes = Vec::with_capacity(jobs.len());
        for (at, now) in parts.iter().enumerate() {
            let later: Vec<Job> = parts[at + 1..].concat();
            let runners = counting(&mut warm, now, &later);
            outcomes.extend(self.count(supply, now, runners, parts.len())?);
        }
        Ok(outcomes)
    }

    /// A replay of each variant that is wanted, its caches filled.
    fn warmed<'s>(
        &self,
        supply: &Supply,
        variants: &[&'s Variant],
        jobs: &[Job],
    ) -> Result<BTreeMap<usize, Runner<'s>>, ExperimentError> {
        let numbers: BTreeSet<usize> = jobs.iter().map(|job| job.variant).collect();
        let runner = |number: &usize| self.runner(variants[*number], FILLING);
        let mut warm = numbers.iter().map(runner).collect::<Result<Vec<_>, _>>()?;
        self.feed(&mut warm, supply, 1)?;
        Ok(numbers.into_iter().zip(warm).collect())
    }

    /// What these replays count, in one of that many readings of a wave.
    fn count(
        &self,
        supply: &Supply,
        jobs: &[Job],
        mut runners: Vec<Runner<'_>>,
        readings: usize,
    ) -> Result<Vec<(Job, Outcome)>, ExperimentError> {
        let left_out = self.feed(&mut runners, supply, readings)?;
        let jobs: Vec<(&Job, Runner<'_>)> = jobs.iter().zip(runners).collect();
        let outcome = |(job, runner): (&Job, Runner<'_>)| {
            Ok((*job, self.finish(runner.replayed(&left_out)?, job.seed)?))
        };
        jobs.into_par_iter().map(outcome).collect()
    }

    /// Replays the recorded layout once, under the seed's interleaving.
    ///
    /// # Errors
    /// As [`Experiment::run`].
    pub fn as_recorded(&self, seed: Seed) -> Result<Outcome, ExperimentError> {
        let mut known = KnownOutcomes::of(self, Unedited::AsRecorded);
        if let Some(outcome) = known.take(seed) {
            return Ok(outcome);
        }
        if self.replays_by_line() {
            if let Some(outcome) = self.baselines().outcome(self.scene, seed) {
                return Ok(known.keep_with(seed, outcome));
            }
        }
        let variant = Variant::as_recorded(self.scene);
        let supply = self.supply(&[&variant], Batches::ONE_REPLAY)?;
        let mut runner = self.one(&supply, &variant, seed)?;
        let left_out = self.feed(std::slice::from_mut(&mut runner), &supply, 1)?;
        let outcome = self.finish(runner.replayed(&left_out)?, seed)?;
        Ok(known.keep_with(seed, outcome))
    }

    /// The replay of the question's first interleaving, ready to count.
    pub(crate) fn one<'s>(
        &self,
        supply: &Supply,
        variant: &'s Variant,
        seed: Seed,
    ) -> Result<Runner<'s>, ExperimentError> {
        let seeded = Interleaving::Seeded(seed.0);
        if self.conditions.cold {
            return self.runner(variant, seeded);
        }
        let mut runner = self.runner(variant, FILLING)?;
        self.feed(std::slice::from_mut(&mut runner), supply, 1)?;
        Ok(runner.counting(seed))
    }

    fn runner<'s>(
        &self,
        variant: &'s Variant,
        interleaving: Interleaving,
    ) -> Result<Runner<'s>, ExperimentError> {
        Ok(Runner::new(variant, self.replay(interleaving)?))
    }

    pub(crate) fn replay(
        &self,
        interleaving: Interleaving,
    ) -> Result<Replay<AsRecorded, NoClones>, ExperimentError> {
        let all = self
            .cpus
            .places(self.machine, self.conditions.groups.mixing)?;
        let config = Config {
            recorded_cpus: self.cpus.recorded,
            // Group 0 sits where it will be among all groups: its distances to its own CPUs are
            // theirs.
            cpus: Some(self.first_group(&all)),
            interleaving,
            lines: self.lines,
        };
        let replay = Replay::new(self.machine, &config, AsRecorded, NoClones)?;
        let mut replay = replay.with_times(self.scene.session.time_grid());
        if interleaving == FILLING {
            replay = replay.with_warm_up();
        }
        if self.machine.overlap.is_some() {
            replay = replay.with_overlap(self.machine, self.scene.session.dependences());
        }
        if self.waits_for_locks() {
            replay = replay.with_locks(locks::acquiring(self.scene));
        }
        if self.conditions.llc_share {
            replay = replay.with_llc_share(self.machine);
        }
        match self.cpus.copies {
            1 => Ok(replay),
            _ => self.with_tape(replay, &all),
        }
    }

    /// The L1s of the recorded CPUs, where what always hits there can be left out with the same
    /// outcome. Of clones it is not the same: other groups take lines of CPUs that no other
    /// recorded one touches, and a group may sit on fewer cores. Both together are half a percent
    /// of all cycles of 8 CPUs as 480 (docs/internals/decisions.md).
    pub(crate) fn filter(&self) -> Option<L1s> {
        let Cpus {
            recorded, threads, ..
        } = self.cpus;
        let places = self.machine.topology.spread_recorded(recorded, threads);
        let places = places.filter(|_| !self.conditions.exact);
        L1s::new(self.machine, &places?)
    }

    /// Where at most that many batches of that many replays of these variants get their accesses
    /// from; reports that they begin.
    pub(crate) fn supply(
        &self,
        variants: &[&Variant],
        batches: Batches,
    ) -> Result<Supply, ExperimentError> {
        // Other groups may come between two accesses of which the second hits in L1 for sure in one
        // group.
        let scaled = self.cpus.copies > 1;
        let moved: Vec<bool> = (0..self.scene.types.len())
            .map(|subject| {
                let all = scaled && self.scene.types[subject].is_some();
                all || variants.iter().any(|variant| variant.edits(subject))
            })
            .collect();
        self.supply_of(moved, batches, variants.len(), self.scene.tables())
    }

    /// The same, with all accesses of the subjects that are `moved`; those of the stream count for
    /// what `tables` says.
    pub(crate) fn supply_of(
        &self,
        moved: Vec<bool>,
        batches: Batches,
        variants: usize,
        tables: Tables,
    ) -> Result<Supply, ExperimentError> {
        // CPUs that do not fit the machine are refused before the recording is read.
        self.replay(FILLING)?;
        let filter = self.filter();
        // The stream has all accesses of subjects with types, and only those.
        let typed = moved
            .iter()
            .zip(self.scene.types)
            .all(|(moved, ty)| !moved || ty.is_some());
        // Nor does it show when something was on a stack.
        let source = match filter {
            Some(l1s) if typed && self.under.is_none() => StepSource::Stream {
                stream: self.scene.session.stream(&l1s)?,
                tables,
            },
            filter => StepSource::Recording { filter },
        };
        let of = Replays {
            accesses: self.scene.accesses,
            cpus: (self.cpus.recorded, usize::from(self.cpus.copies)),
            batches: batches.count,
            in_batch: batches.replays,
            of_variant: batches.replays / variants.max(1),
        };
        let supply = Supply::new(source, moved, &of, self.memory);
        let parts = supply.source.parts(of.accesses);
        let parts = parts.times(supply.waves * self.passes());
        let progress = self.scene.session.progress();
        progress.begin(progress::Step::Replaying, parts);
        Ok(supply)
    }

    /// Sends the rounds of the source to all runners, for one of that many readings of a pass;
    /// returns what no runner got.
    fn feed(
        &self,
        runners: &mut [Runner<'_>],
        supply: &Supply,
        readings: usize,
    ) -> Result<LeftOut, ExperimentError> {
        self.feed_with(runners, supply, readings, |_| Ok(()))
    }

    /// The same; `before` gets the rounds before the runners do, where they come from the stream.
    pub(crate) fn feed_with(
        &self,
        runners: &mut [Runner<'_>],
        supply: &Supply,
        readings: usize,
        before: impl FnMut(&mut Rounds) -> Result<(), ExperimentError> + Send,
    ) -> Result<LeftOut, ExperimentError> {
        let moved = &supply.moved;
        let progress = OneOf::new(self.scene.session.progress(), readings);
        match &supply.source {
            StepSource::Stream { stream, tables } => {
                let wanted = Wanted::NeededAnd(moved);
                let reader = Reader::new(stream, self.scene.ownership, tables, wanted);
                self.feed_stream(runners, reader, progress, before)
            }
            StepSource::Recording { filter } => {
                self.feed_recording(runners, filter.clone(), moved, progress)
            }
        }
    }

    /// The rounds of the stream for `each` alone, in the time of one replay.
    pub(crate) fn read_stream(
        &self,
        supply: &Supply,
        mut each: impl FnMut(&mut Rounds) -> Result<(), ExperimentError> + Send,
    ) -> Result<(), ExperimentError> {
        let StepSource::Stream { stream, tables } = &supply.source else {
            return Ok(());
        };
        let wanted = Wanted::NeededAnd(&supply.moved);
        let mut reader = Reader::new(stream, self.scene.ownership, tables, wanted);
        let progress = self.scene.session.progress();
        let each = |rounds: &mut Rounds| {
            progress.advance(StepParts(1));
            each(rounds)
        };
        read_ahead(|into| Ok(reader.next(into)?), each)
    }

    /// Each block is unpacked while the replays take the one before it.
    fn feed_stream(
        &self,
        runners: &mut [Runner<'_>],
        mut reader: Reader<'_>,
        mut progress: OneOf<'_>,
        mut before: impl FnMut(&mut Rounds) -> Result<(), ExperimentError> + Send,
    ) -> Result<LeftOut, ExperimentError> {
        let read = |into: &mut Rounds| {
            let more = reader.next(into)?;
            before(into).map(|()| more)
        };
        let take = |rounds: &mut Rounds| {
            progress.advance(StepParts(1));
            Ok(take_all(runners, rounds)?)
        };
        read_ahead(read, take)?;
        Ok(reader.left_out())
    }

    fn feed_recording(
        &self,
        runners: &mut [Runner<'_>],
        filter: Option<L1s>,
        moved: &[bool],
        mut progress: OneOf<'_>,
    ) -> Result<LeftOut, ExperimentError> {
        let analysis = self.scene.session.analysis();
        let names = analysis.names()?;
        let marker = self.under.map(|under| UnderMarker::new(under, self.scene));
        let name = |access: &Access| {
            let step = self.scene.step(&names, access);
            match &marker {
                Some(marker) => marker.mark(step),
                None => step,
            }
        };
        let mut cutter = Cutter::new(self.cpus.recorded, filter, moved);
        let mut rounds = Rounds::default();
        steps::for_each(analysis.recording(), &name, |block| {
            progress.advance(block.size().into());
            cutter.take(block, &mut rounds)?;
            if rounds.size() >= STEPS_AT_ONCE {
                take_all(runners, &rounds)?;
                rounds.clear();
            }
            Ok::<(), ExperimentError>(())
        })?;
        let left_out = cutter.finish(&mut rounds);
        take_all(runners, &rounds)?;
        Ok(left_out)
    }
}

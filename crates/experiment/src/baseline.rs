//! The layout as recorded, replayed whole: once on a machine, for every question about it.
//!
//! Kept are its cost by field, the finest that a question asks for; when its accesses stalled, as
//! timelines; and, for one interleaving, which of them left their core. None of it depends on what
//! an edit moves.

use std::collections::BTreeMap;
use std::sync::Arc;

use linemate_attribution::FieldRef;
use linemate_replay::{AsRecorded, Counts, KeyId, Misses, NoClones, Outcome, Replay, Timeline};
use linemate_session::rounds::Rounds;
use linemate_session::shelf::{self, Part};
use linemate_session::stream::Tables;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::conditions::Seed;
use crate::error::ExperimentError;
use crate::known::{OUTCOMES_MAX, question_of_recorded};
use crate::runner::{FILLING, Runner};
use crate::scene::Scene;
use crate::setup::Experiment;
use crate::supply::{Batches, Supply};
use crate::variant::Variant;

/// Bytes of all timelines and lists of misses that are kept, at most: what is kept must be small
/// enough to be read again ([`shelf::unpack`]).
const TIMELINES_MAX: usize = 512 << 20;

/// The layout as recorded under some interleavings.
pub(crate) struct Baselines {
    part: Part,
    fields: FieldNumbers,
    kept: KeptBaselines,
    /// What filled the caches, ready to count; `None` where the rest was kept from another
    /// question.
    warm: Option<Replay<AsRecorded, NoClones>>,
    /// Whether there is more than what was kept.
    grown: bool,
}

#[derive(Default, Serialize, Deserialize)]
struct KeptBaselines {
    /// Of the accesses that fill the caches.
    filling: Option<Arc<Timeline>>,
    seeds: BTreeMap<Seed, Baseline>,
}

/// One interleaving.
#[derive(Serialize, Deserialize)]
struct Baseline {
    /// Without its keys.
    outcome: Outcome,
    /// By field ([`FieldNumbers`]).
    keys: Vec<Counts>,
    timeline: Arc<Timeline>,
    /// Of the first interleaving that was asked for together with it.
    misses: Option<Misses>,
}

/// Interleavings that are replayed at the same time.
#[derive(Clone, Copy)]
struct SeedBatch<'s> {
    seeds: &'s [Seed],
    /// The one whose misses are listed.
    listed: Option<Seed>,
    /// How often the recording is read for all of the question's.
    readings: usize,
}

/// Every field that the recording accesses has a number; subjects whose fields are not
/// distinguished have one for each.
struct FieldNumbers(Vec<FieldRef>);

impl FieldNumbers {
    fn new(scene: &Scene<'_>) -> FieldNumbers {
        // In order, which is what the search needs.
        FieldNumbers(scene.counts().map(|(field, _)| field).collect())
    }

    /// The number of a counted field.
    fn key(&self, field: FieldRef) -> KeyId {
        let number = self.0.binary_search(&field);
        KeyId(number.expect("the counts have every row's field") as u32)
    }

    /// What rows of the stream count for.
    fn tables(&self, scene: &Scene<'_>) -> Tables {
        let rows = scene.session.rows();
        Tables::new(rows, |row| {
            let key = self.key(scene.counted_field(row.field()));
            (key, scene.site(row.pc))
        })
    }

    /// Counts by field as counts by the scene's keys.
    fn for_scene(&self, scene: &Scene<'_>, counts: &[Counts]) -> Vec<Counts> {
        let mut keys = vec![Counts::default(); scene.keys.len()];
        for (field, counts) in self.0.iter().zip(counts) {
            keys[scene.key(*field).0 as usize].merge(counts);
        }
        keys
    }
}

impl Baselines {
    /// Whether the layout as recorded was replayed under that seed's interleaving.
    pub(crate) fn has(&self, seed: Seed) -> bool {
        self.kept.seeds.contains_key(&seed)
    }

    /// Whether the caches are ready to count.
    pub(crate) fn are_filled(&self) -> bool {
        self.warm.is_some()
    }

    /// When accesses stalled while the caches were filled.
    pub(crate) fn filling(&self) -> Option<&Arc<Timeline>> {
        self.kept.filling.as_ref()
    }

    /// The same under that seed's interleaving.
    pub(crate) fn timeline(&self, seed: Seed) -> Option<&Arc<Timeline>> {
        self.kept.seeds.get(&seed).map(|of| &of.timeline)
    }

    /// The accesses that left their core under that seed's interleaving, if they were listed.
    pub(crate) fn misses(&self, seed: Seed) -> Option<&Misses> {
        self.kept.seeds.get(&seed)?.misses.as_ref()
    }

    /// What was found under that seed's interleaving, by the scene's keys.
    pub(crate) fn outcome(&self, scene: &Scene<'_>, seed: Seed) -> Option<Outcome> {
        let baseline = self.kept.seeds.get(&seed)?;
        Some(Outcome {
            keys: self.fields.for_scene(scene, &baseline.keys),
            ..baseline.outcome.clone()
        })
    }
}

impl<'a> Experiment<'a> {
    /// What earlier questions have kept.
    pub(crate) fn baselines(&self) -> Baselines {
        let fields = FieldNumbers::new(self.scene);
        let part = Part::Baselines(question_of_recorded(self, &fields.0));
        let kept = self.scene.session.shelf().load(part);
        let kept = kept.and_then(|bytes| shelf::unpack::<KeptBaselines>(&bytes));
        // A digest of 64 bits can collide, and what is loaded is indexed by field.
        let (most, sites) = (fields.0.len(), self.scene.sites.len());
        let fits = |kept: &KeptBaselines| {
            let mut all = kept.seeds.values();
            kept.filling.is_some()
                && all.all(|of| of.keys.len() <= most && of.outcome.sites.len() <= sites)
        };
        Baselines {
            part,
            fields,
            kept: kept.filter(fits).unwrap_or_default(),
            warm: None,
            grown: false,
        }
    }

    /// Keeps what is new for the next question: the interleavings with the least seeds, as many as
    /// most questions have.
    pub(crate) fn keep_baselines(&self, baselines: &mut Baselines) {
        if baselines.grown {
            let mut bytes = 0;
            let mut fits = |baseline: &Baseline| {
                let misses = baseline.misses.as_ref().map_or(0, Misses::bytes);
                bytes += baseline.timeline.bytes() + misses;
                bytes <= TIMELINES_MAX
            };
            let seeds = std::mem::take(&mut baselines.kept.seeds).into_iter();
            let kept = seeds.take(OUTCOMES_MAX);
            baselines.kept.seeds = kept.take_while(|(_, of)| fits(of)).collect();
            if let Some(packed) = shelf::pack(&baselines.kept) {
                let shelf = self.scene.session.shelf();
                shelf.store(baselines.part, &packed);
            }
        }
    }

    /// What the accesses of the stream count for by field.
    pub(crate) fn by_field(&self, baselines: &Baselines) -> Tables {
        baselines.fields.tables(self.scene)
    }

    /// Fills the caches; `before` gets the rounds that do it.
    pub(crate) fn fill(
        &self,
        baselines: &mut Baselines,
        supply: &Supply,
        recorded: &Variant,
        before: impl FnMut(&mut Rounds) -> Result<(), ExperimentError> + Send,
    ) -> Result<(), ExperimentError> {
        let replay = self.replay(FILLING)?.with_timeline();
        let mut filling = [Runner::new(recorded, replay).without_hits()];
        self.feed_with(&mut filling, supply, 1, before)?;
        let [Runner { mut replay, .. }] = filling;
        baselines.kept.filling = Some(Arc::new(replay.take_timeline()));
        baselines.warm = Some(replay);
        Ok(())
    }

    /// Replays the layout as recorded under the seeds' interleavings.
    pub(crate) fn replay_baselines(
        &self,
        baselines: &mut Baselines,
        seeds: &[Seed],
    ) -> Result<(), ExperimentError> {
        let recorded = Variant::as_recorded(self.scene);
        let batches = Batches {
            count: 1,
            replays: seeds.len(),
        };
        let moved = vec![false; self.scene.types.len()];
        let supply = self.supply_of(moved, batches, 1, self.by_field(baselines))?;
        self.fill(baselines, &supply, &recorded, |_| Ok(()))?;
        self.replay_recorded(baselines, &supply, &recorded, seeds)
    }

    /// Replays the layout as recorded, on filled caches, under the seeds' interleavings.
    pub(crate) fn replay_recorded(
        &self,
        baselines: &mut Baselines,
        supply: &Supply,
        recorded: &Variant,
        seeds: &[Seed],
    ) -> Result<(), ExperimentError> {
        let bytes = baselines.warm.as_ref().map_or(0, Replay::size_in_memory);
        let parts = supply.parts(seeds, |_| 0, bytes);
        for part in &parts {
            let batch = SeedBatch {
                seeds: part,
                // What is found by place in the recording is found under one interleaving.
                listed: seeds.first().copied(),
                readings: parts.len(),
            };
            self.replay_together(baselines, supply, recorded, batch)?;
        }
        Ok(())
    }

    fn replay_together(
        &self,
        baselines: &mut Baselines,
        supply: &Supply,
        recorded: &Variant,
        batch: SeedBatch<'_>,
    ) -> Result<(), ExperimentError> {
        let SeedBatch {
            seeds,
            listed,
            readings,
        } = batch;
        let mut runners: Vec<Runner<'_>> = Vec::with_capacity(seeds.len());
        for seed in seeds {
            let Some(replay) = baselines.warm.clone() else {
                continue;
            };
            let mut runner = Runner::new(recorded, replay).without_hits().counting(*seed);
            if Some(*seed) == listed {
                runner.replay = runner.replay.with_misses();
            }
            runners.push(runner);
        }
        let left_out = self.feed_with(&mut runners, supply, readings, |_| Ok(()))?;
        let finish = |(seed, runner): (&Seed, Runner<'_>)| {
            let mut replay = runner.replayed(&left_out)?;
            let timeline = Arc::new(replay.take_timeline());
            let misses = replay.take_misses();
            let mut outcome = replay.finish().0;
            let baseline = Baseline {
                keys: std::mem::take(&mut outcome.keys),
                outcome,
                timeline,
                misses,
            };
            Ok((*seed, baseline))
        };
        let new = seeds.par_iter().zip(runners).map(finish);
        let new: Vec<(Seed, Baseline)> = new.collect::<Result<_, ExperimentError>>()?;
        baselines.kept.seeds.extend(new);
        baselines.grown = true;
        Ok(())
    }
}

//! What accesses cost as recorded, counted by what only their order in the recording shows.
//!
//! Where the recorded layout has been replayed, or edits need that replay as well, the recording is
//! read with the list of its misses; else it is replayed while it is read.

use linemate_recording::{Access, Accesses};
use linemate_replay::{Cause, Counts, KeyId, Miss, Misses, Placed, SiteId, Tally};
use linemate_session::progress;
use linemate_session::rounds::AccessPlaces;
use linemate_session::step::Step;
use linemate_session::steps;

use crate::conditions::{Conditions, Groups, Seed, seeds};
use crate::cpus::Cpus;
use crate::error::ExperimentError;
use crate::run::INTERLEAVINGS_AT_ONCE;
use crate::setup::Experiment;
use crate::supply::Batches;
use crate::variant::Variant;

/// Accesses that left their core, by [`Cause`].
pub type CauseTallies = [Tally; Cause::ALL.len()];

/// The accesses that left their core.
#[derive(Clone, Debug, Default)]
pub struct PlacedCounts {
    /// How many accesses the recording has.
    pub accesses: Accesses,
    /// All of them.
    pub totals: CauseTallies,
    /// By the number that the caller gave; those of the last numbers may be missing if they are 0.
    pub sites: Vec<CauseTallies>,
}

impl PlacedCounts {
    fn add(&mut self, site: SiteId, miss: Miss) {
        let at = site.0 as usize;
        if at >= self.sites.len() {
            self.sites.resize(at + 1, CauseTallies::default());
        }
        let tally = Tally {
            count: Accesses::ONE,
            cycles: miss.cycles,
        };
        self.sites[at][miss.cause as usize].merge(tally);
        self.totals[miss.cause as usize].merge(tally);
    }
}

impl Experiment<'_> {
    /// Counts what left its core of the recorded layout, on as many CPUs as were recorded, for the
    /// result of `site`, which is called once for each access in the recording's order.
    ///
    /// # Errors
    /// As [`Experiment::run`].
    pub fn placed(
        &self,
        seed: Seed,
        site: impl FnMut(&Step) -> SiteId,
    ) -> Result<PlacedCounts, ExperimentError> {
        if self.cpus.copies > 1 {
            let cpus = Cpus {
                copies: 1,
                ..self.cpus
            };
            // What only groups need is left out, so that this is the question without them.
            let conditions = Conditions {
                cpus: None,
                groups: Groups::default(),
                ..self.conditions
            };
            // The caller counts by its own numbers, which a tape of groups would have to carry as
            // well.
            let alone = Experiment {
                cpus,
                conditions,
                ..*self
            };
            return alone.placed(seed, site);
        }
        if !self.replays_by_line() {
            return self.placed_replayed(seed, site);
        }
        let mut baselines = self.baselines();
        if baselines.misses(seed).is_none() {
            // Those after it are what a trial of an edit asks for.
            let batch = seeds(seed, INTERLEAVINGS_AT_ONCE);
            self.replay_baselines(&mut baselines, &batch)?;
        }
        let Some(misses) = baselines.misses(seed) else {
            return self.placed_replayed(seed, site);
        };
        let counts = self.charged(misses, site)?;
        self.keep_baselines(&mut baselines);
        Ok(counts)
    }

    /// Charges these misses while the recording is read.
    fn charged(
        &self,
        misses: &Misses,
        mut site: impl FnMut(&Step) -> SiteId,
    ) -> Result<PlacedCounts, ExperimentError> {
        let mut misses = misses.read()?;
        let mut places = AccessPlaces::new(self.cpus.recorded);
        let mut counts = PlacedCounts {
            accesses: self.scene.accesses,
            ..PlacedCounts::default()
        };
        self.each_step(|turn, steps| {
            if let Some(turn) = turn {
                places.turn(turn)?;
            }
            for step in steps {
                let (_, place) = places.step(step)?;
                let site = site(step);
                let miss = place.map(|place| misses.at(place)).transpose()?;
                if let Some(miss) = miss.flatten() {
                    counts.add(site, miss);
                }
            }
            Ok(())
        })?;
        misses.finish()?;
        Ok(counts)
    }

    /// The same by a replay of its own.
    fn placed_replayed(
        &self,
        seed: Seed,
        mut site: impl FnMut(&Step) -> SiteId,
    ) -> Result<PlacedCounts, ExperimentError> {
        let variant = Variant::as_recorded(self.scene);
        let supply = self.supply(&[&variant], Batches::ONE_REPLAY)?;
        let mut replay = self.one(&supply, &variant, seed)?.replay;
        self.each_step(|turn, steps| {
            if let Some(turn) = turn {
                replay.turn(turn.cpu, turn.time)?;
            }
            for step in steps {
                let placed = Placed {
                    // Sites are counted for everything that leaves its core; one key is enough.
                    key: KeyId(0),
                    site: site(step),
                    ..step.placed()
                };
                replay.push_placed(&step.access, placed)?;
            }
            Ok(())
        })?;
        let (outcome, _) = replay.finish();
        let causes = |counts: &Counts| Cause::ALL.map(|cause| counts.cause(cause));
        Ok(PlacedCounts {
            accesses: outcome.accesses,
            totals: causes(&outcome.totals),
            sites: outcome.sites.iter().map(causes).collect(),
        })
    }

    /// Hands over all turns, each with the steps up to the next one.
    fn each_step(
        &self,
        mut each: impl FnMut(Option<steps::Turn>, &[Step]) -> Result<(), ExperimentError>,
    ) -> Result<(), ExperimentError> {
        let analysis = self.scene.session.analysis();
        let names = analysis.names()?;
        let name = |access: &Access| Step {
            site: self.scene.site(access.pc),
            ..self.scene.ownership.unshared_step(&names, access)
        };
        let progress = self.scene.session.progress();
        progress.begin(progress::Step::Replaying, self.scene.accesses.into());
        steps::for_each(analysis.recording(), &name, |block| {
            progress.advance(block.size().into());
            for (turn, steps) in block.parts() {
                each(turn, steps)?;
            }
            Ok(())
        })
    }
}

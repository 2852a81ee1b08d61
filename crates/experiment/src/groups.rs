//! Replays of more CPUs than were recorded: one group as large as the recording first, then all of
//! them side by side (docs/model/scaling.md).

use std::sync::Arc;

use linemate_attribution::FieldRef;
use linemate_growth::Growth;
use linemate_machine::LogicalCpu;
use linemate_replay::{
    Accounts, AsRecorded, Code, Copies, KeyId, NoClones, Outcome, Replay, Retention, Scaled,
    Scaling, SiteId, join,
};
use rustc_hash::FxHashMap;

use crate::conditions::Seed;
use crate::cpus::Cpus;
use crate::error::ExperimentError;
use crate::locks;
use crate::names::FieldNames;
use crate::scene::Scene;
use crate::setup::Experiment;

impl Experiment<'_> {
    /// Where the first group's CPUs sit, of all.
    pub(crate) fn first_group(&self, all: &[LogicalCpu]) -> Vec<LogicalCpu> {
        all.iter()
            .step_by(usize::from(self.cpus.copies))
            .copied()
            .collect()
    }

    /// The first group's replay, with a tape for the others.
    pub(crate) fn with_tape(
        &self,
        replay: Replay<AsRecorded, NoClones>,
        all: &[LogicalCpu],
    ) -> Result<Replay<AsRecorded, NoClones>, ExperimentError> {
        // With everything on the tape the first level decides nothing, so `--exact` is the test of
        // the two levels.
        let retention = match self.conditions.exact {
            true => Retention::All,
            false => Retention::Shared,
        };
        let own = Accounts {
            keys: self.scene.keys.len(),
            sites: self.scene.sites.len(),
        };
        let mut code = code(self.scene, self.cpus)?;
        let accounts = match self.under {
            None => own,
            Some(_) => twice(&mut code, own),
        };
        let replay = replay.with_tape(retention, Arc::new(code), accounts);
        Ok(match self.conditions.llc_share {
            // `llc_share` has cut the caches already, by all of the machine's CPUs and not only the
            // replayed ones.
            true => replay,
            false => replay.with_group_share(self.machine, all),
        })
    }

    /// What a replay has found; of more CPUs than were recorded after all groups have been
    /// replayed.
    pub(crate) fn finish(
        &self,
        replay: Replay<AsRecorded, NoClones>,
        seed: Seed,
    ) -> Result<Outcome, ExperimentError> {
        let (own, _, tape) = replay.finish_taped();
        let copies = self.cpus.copies;
        if copies == 1 {
            return Ok(own);
        }
        let cpus = self
            .cpus
            .places(self.machine, self.conditions.groups.mixing)?;
        let lines = self.lines.then(|| self.scene.session.time_grid());
        let scaling = Scaling {
            whole: self.conditions.exact,
            ..self.conditions.groups.scaling(self.cpus)
        };
        let recorded = self.cpus.recorded;
        let scaled = Scaled::new(self.machine, recorded, scaling, &tape, seed.0, lines)?;
        let copies = Copies {
            cpus: &cpus,
            count: copies,
        };
        Ok(join(self.machine, copies, &own, scaled.run()))
    }
}

/// Which functions acquire locks, and how much more often CPUs do what they do.
fn code(scene: &Scene<'_>, cpus: Cpus) -> Result<Code, ExperimentError> {
    let growth = scene.session.growth();
    let growth = growth.map(|growth| factors(scene, growth, cpus));
    Ok(Code {
        acquires: scene.sites.iter().map(locks::acquires).collect(),
        growth: growth.transpose()?.unwrap_or_default(),
    })
}

/// The same of what counts apart because a function is on the stack
/// ([`crate::under::UnderCounts`]); gives the accounts of both.
fn twice(code: &mut Code, own: Accounts) -> Accounts {
    let Accounts { keys, sites } = own;
    code.acquires.extend_from_within(..);
    let apart = code.growth.iter().map(|((site, key), factor)| {
        let site = SiteId(site.0 + sites as u32);
        ((site, KeyId(key.0 + keys as u32)), *factor)
    });
    let apart: Vec<_> = apart.collect();
    code.growth.extend(apart);
    Accounts {
        keys: 2 * keys,
        sites: 2 * sites,
    }
}

/// By function and field: the mean growth of their accesses, each as often as it was recorded.
fn factors(
    scene: &Scene<'_>,
    growth: &Growth,
    cpus: Cpus,
) -> Result<FxHashMap<(SiteId, KeyId), f32>, ExperimentError> {
    let session = scene.session;
    let names = FieldNames::new(session)?;
    let mut sums: FxHashMap<(SiteId, KeyId), (f64, f64)> = FxHashMap::default();
    for (row, count) in session.counted().tally.rows() {
        let field = FieldRef {
            subject: row.subject,
            offset: row.offset,
        };
        let (from, to) = (cpus.recorded, cpus.replayed());
        let factor = growth.factor(names.function(row.pc), names.field(field), from, to);
        let key = scene.counted_key(field);
        let sum = sums.entry((scene.site(row.pc), key)).or_default();
        let count = count.count as f64;
        sum.0 += count * factor.mean;
        sum.1 += count;
    }
    // Several counted rows may be one (site, key) of a replay: their growth is weighted by how
    // often each was recorded.
    let mean = |(at, (sum, count)): (_, (f64, f64))| (at, (sum / count.max(1.0)) as f32);
    Ok(sums.into_iter().map(mean).collect())
}

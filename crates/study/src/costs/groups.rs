//! What groups of CPUs do together, and the waiting for locks.

use std::collections::BTreeMap;

use linemate_answers::{GroupCosts, LockCost};
use linemate_experiment::Experiment;
use linemate_experiment::scene::Scene;
use linemate_recording::Version;
use linemate_replay::Outcome;

use crate::border;

/// What groups of CPUs do together; none of a replay of the recorded CPUs alone.
pub(super) fn group_costs(experiment: &Experiment<'_>, outcome: &Outcome) -> Option<GroupCosts> {
    let scene = experiment.scene;
    let counts = outcome.scaled?;
    // Those after the scene's count apart because a function is on the stack.
    let apart = outcome
        .locks
        .iter()
        .filter(|wait| wait.key.0 as usize >= scene.keys.len());
    Some(GroupCosts {
        groups: usize::from(experiment.cpus.copies),
        mixing: border::mixing(experiment.conditions.groups.mixing),
        accesses: counts.taped.0,
        locks: lock_costs(scene, outcome),
        circles: counts.circles,
        unreleased: counts.unreleased,
        no_think_time: scene.session.analysis().recording().version() < Version::Turns,
        locks_under: apart.map(|wait| wait.waits.cycles.0).sum(),
    })
}

/// The waiting for locks, most cycles first.
pub(super) fn lock_costs(scene: &Scene<'_>, outcome: &Outcome) -> Vec<LockCost> {
    let mut locks: BTreeMap<(&str, &str), LockCost> = BTreeMap::new();
    for wait in &outcome.locks {
        // Accounts under a function follow the scene's own in the same order, so the remainder is
        // the key that they belong to.
        let (key, site) = (wait.key.0 as usize, wait.site.0 as usize);
        let key = scene.keys.get(key % scene.keys.len().max(1));
        let site = scene.sites.get(site % scene.sites.len().max(1));
        let name = key.map_or("", |key| &key.path);
        let function = site.map_or("", |site| &site.function);
        let lock = locks.entry((name, function)).or_insert_with(|| LockCost {
            name: name.to_owned(),
            function: function.to_owned(),
            ..LockCost::default()
        });
        lock.waits += wait.waits.count.0;
        lock.cycles += wait.waits.cycles.0;
    }
    let mut locks: Vec<LockCost> = locks.into_values().collect();
    locks.sort_by(|a, b| (b.cycles, &a.name, &a.function).cmp(&(a.cycles, &b.name, &b.function)));
    locks
}

//! What is only there with more CPUs than were recorded.

use linemate_answers::{GroupCosts, LockCost};
use linemate_experiment::Experiment;
use linemate_recording::Version;
use linemate_replay::Outcome;

use crate::border;

/// What groups of CPUs do together; none of a replay of the recorded CPUs alone.
pub(super) fn group_costs(experiment: &Experiment<'_>, outcome: &Outcome) -> Option<GroupCosts> {
    let scene = experiment.scene;
    let counts = outcome.scaled?;
    let mut locks: Vec<LockCost> = Vec::new();
    let mut under = 0;
    for wait in &outcome.locks {
        // Those after the scene's count apart because a function is on the stack.
        let (key, site) = (wait.key.0 as usize, wait.site.0 as usize);
        if key >= scene.keys.len() {
            under += wait.waits.cycles.0;
        }
        // Accounts under a function follow the scene's own in the same order, so the remainder is
        // the key that they belong to.
        let key = scene.keys.get(key % scene.keys.len().max(1));
        let site = scene.sites.get(site % scene.sites.len().max(1));
        let name = key.map_or_else(String::new, |key| key.path.clone());
        let function = site.map_or_else(String::new, |site| site.function.clone());
        match locks
            .iter_mut()
            .find(|of| of.name == name && of.function == function)
        {
            Some(known) => {
                known.waits += wait.waits.count.0;
                known.cycles += wait.waits.cycles.0;
            }
            None => locks.push(LockCost {
                name,
                function,
                waits: wait.waits.count.0,
                cycles: wait.waits.cycles.0,
            }),
        }
    }
    locks.sort_by(|a, b| (b.cycles, &a.name, &a.function).cmp(&(a.cycles, &b.name, &b.function)));
    Some(GroupCosts {
        groups: usize::from(experiment.cpus.copies),
        mixing: border::mixing(experiment.conditions.groups.mixing),
        accesses: counts.taped.0,
        locks,
        circles: counts.circles,
        unreleased: counts.unreleased,
        no_think_time: scene.session.analysis().recording().version() < Version::Turns,
        locks_under: under,
    })
}

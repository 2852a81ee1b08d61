//! What is only there with more CPUs than were recorded.

use linemate_recording::Version;
use linemate_replay::{Mixing, Outcome};
use serde::{Deserialize, Serialize};

use crate::experiment::Cpus;
use crate::scene::Scene;

/// What groups of CPUs, each as large as the recording, do together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupCosts {
    /// Groups.
    pub groups: usize,
    /// Whom CPUs meet where they touch another one's memory.
    pub mixing: Mixing,
    /// Accesses of one group to lines that groups share: those that all groups were replayed with.
    pub accesses: u64,
    /// What was waited for until others let go of locks, most cycles first; in no other row.
    pub locks: Vec<LockCost>,
    /// Acquisitions that went on without the lock, because CPUs would have waited for each other for ever.
    pub circles: u64,
    /// With a function (`under`): the cycles of `locks` that were waited while it is on the stack.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub locks_under: u64,
    /// The recording is of format 1, which marks no turns: what CPUs execute between turns' accesses is lost, so groups meet more often than they would.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_think_time: bool,
    /// Locks that were let go where the recorded CPU's turn ended before it did.
    pub unreleased: u64,
}

/// What waiting for a lock took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockCost {
    /// The lock's field.
    pub name: String,
    /// The function that asks for it.
    pub function: String,
    /// How often it had to be waited for.
    pub waits: u64,
    /// For how many cycles.
    pub cycles: u64,
}

// What serde wants.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(cycles: &u64) -> bool {
    *cycles == 0
}

impl GroupCosts {
    pub(super) fn new(
        scene: &Scene<'_>,
        outcome: &Outcome,
        (cpus, mixing): (Cpus, Mixing),
    ) -> Option<GroupCosts> {
        let counts = outcome.scaled?;
        let mut locks: Vec<LockCost> = Vec::new();
        let mut under = 0;
        for wait in &outcome.locks {
            // Those after the scene's count apart because a function is on the stack.
            let (key, site) = (wait.key.0 as usize, wait.site.0 as usize);
            if key >= scene.keys.len() {
                under += wait.waits.cycles;
            }
            let key = scene.keys.get(key % scene.keys.len().max(1));
            let site = scene.sites.get(site % scene.sites.len().max(1));
            let name = key.map_or_else(String::new, |key| key.path.clone());
            let function = site.map_or_else(String::new, |site| site.function.clone());
            match locks
                .iter_mut()
                .find(|of| of.name == name && of.function == function)
            {
                Some(known) => {
                    known.waits += wait.waits.count;
                    known.cycles += wait.waits.cycles;
                }
                None => locks.push(LockCost {
                    name,
                    function,
                    waits: wait.waits.count,
                    cycles: wait.waits.cycles,
                }),
            }
        }
        locks.sort_by(|a, b| {
            (b.cycles, &a.name, &a.function).cmp(&(a.cycles, &b.name, &b.function))
        });
        Some(GroupCosts {
            groups: usize::from(cpus.copies),
            mixing,
            accesses: counts.taped,
            locks,
            circles: counts.circles,
            unreleased: counts.unreleased,
            no_think_time: scene.session.analysis().recording().version() < Version::Turns,
            locks_under: under,
        })
    }
}

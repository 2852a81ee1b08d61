//! What a replay of more CPUs than were recorded adds to the costs.

use serde::{Deserialize, Serialize};

use crate::replayed::Mixing;

/// Interactions between groups of CPUs, each as large as the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GroupCosts {
    /// The number of groups.
    pub groups: usize,
    /// Which CPUs meet where they touch another one's memory.
    pub mixing: Mixing,
    /// Accesses of one group to lines that groups share: all groups were replayed on those.
    pub accesses: u64,
    /// Time spent waiting for locks, most cycles first; in no other figure.
    pub locks: Vec<LockCost>,
    /// Acquisitions that continued without the lock, because CPUs would have waited for each other.
    pub circles: u64,
    /// With `under`: the cycles of `locks` while the function is on the stack; absent when 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub locks_under: u64,
    /// True for recordings of format 1, which do not mark turns: groups meet more often than they
    /// should. Else absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_think_time: bool,
    /// Locks released where the recorded turn ended.
    pub unreleased: u64,
}

/// The waiting for a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LockCost {
    /// The path of the lock's field.
    pub name: String,
    /// The function that acquires it.
    pub function: String,
    /// How often it was waited for.
    pub waits: u64,
    /// The total number of cycles.
    pub cycles: u64,
}

// serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(cycles: &u64) -> bool {
    *cycles == 0
}

//! Which code acquires locks.

use std::sync::Arc;

use linemate_recording::{AccessKind, GuestAddr};
use rustc_hash::FxHashSet;

use crate::scene::{Scene, Site};
use crate::setup::Experiment;

/// Functions whose RMWs acquire a lock that is held alone: spinlocks, mutexes, semaphores and
/// rwlocks of writers. Not distinguished from other RMWs: bit locks and what is inlined elsewhere.
const ACQUIRE: [&str; 9] = [
    "_raw_spin_lock",
    "_raw_spin_trylock",
    "_raw_write_lock",
    "_raw_write_trylock",
    "mutex_lock",
    "mutex_trylock",
    "down_write",
    "queued_write_lock_slowpath",
    "raw_spin_rq_lock_nested",
];

/// Whether RMWs of the function acquire locks.
pub(crate) fn acquires(site: &Site) -> bool {
    // Of a function's copies: `f.isra.0`.
    let plain = site.function.split('.').next().unwrap_or(&site.function);
    let named = |function: &&str| {
        // `_raw_spin_lock_irqsave`, `mutex_lock_nested`; other functions may begin with the same
        // letters.
        let rest = plain.strip_prefix(function);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    !site.user && ACQUIRE.iter().any(named)
}

/// The recorded instructions that acquire locks.
pub(crate) fn acquiring(scene: &Scene<'_>) -> Arc<FxHashSet<GuestAddr>> {
    let find = || {
        let acquires: Vec<bool> = scene.sites.iter().map(acquires).collect();
        let rows = scene.session.rows().iter();
        let rmws = rows.filter(|row| row.kind == AccessKind::Rmw);
        let acquiring = rmws
            .map(|row| row.pc)
            .filter(|pc| acquires[scene.site(*pc).0 as usize]);
        Arc::new(acquiring.collect())
    };
    Arc::clone(scene.acquiring.get_or_init(find))
}

impl Experiment<'_> {
    /// Whether CPUs wait for locks in replays of as many CPUs as were recorded. Those of more CPUs
    /// have a setting of their own ([`crate::Groups::locks`]).
    pub(crate) fn waits_for_locks(&self) -> bool {
        self.machine.locks && self.cpus.copies == 1
    }
}

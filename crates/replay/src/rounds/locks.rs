//! Locks: who holds them, who waits.
//!
//! In a deterministic recording nobody waits for a lock: the CPU that would have to yields its
//! turn. Side by side CPUs do wait: a lock is held from the RMW that acquires it to the holder's
//! next write to it, and handed over in the order of requests, as the kernel's queued spinlocks do.
//! What a waiter does meanwhile is its caller's: in a replay of many groups nothing that others use
//! (waiters of an MCS queue each spin on a line of their own), in one of the recorded CPUs what
//! `locking` says.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use serde::{Deserialize, Serialize};

use linemate_units::Cycles;

use crate::accounts::counts::Tally;
use crate::cache::address::Line;
use crate::cache::directory::LineHasher;
use crate::rounds::placement::{KeyId, SiteId};

/// A lock's line and the byte in it where it starts.
pub(crate) type LockId = (Line, u8);

/// The waiting for locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockWait {
    /// What the lock's word is charged to.
    pub key: KeyId,
    /// Where it was requested.
    pub site: SiteId,
    /// How often it had to be waited for, and for how many cycles: in no [`crate::Counts`].
    pub waits: Tally,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The lock is the runner's from now on.
    Taken,
    /// The runner already has it.
    Passed,
    /// The runner continues without it: it would wait, through others, for itself.
    Circle,
    /// Another runner holds it.
    Waits,
}

#[derive(Clone, Debug)]
struct Lock {
    holder: usize,
    queue: VecDeque<usize>,
}

/// All locks that are held.
#[derive(Clone, Debug, Default)]
pub(crate) struct Locks {
    held: HashMap<LockId, Lock, BuildHasherDefault<LineHasher>>,
    /// By runner: what it waits for.
    waits_for: HashMap<usize, LockId, BuildHasherDefault<LineHasher>>,
    waits: BTreeMap<(SiteId, KeyId), Tally>,
    /// Acquisitions that would never have happened: their runner waits, through others, for itself.
    circles: u64,
    /// Locks that were released because their holder's turn ended.
    unreleased: u64,
}

impl Locks {
    /// A runner requests a lock.
    pub(crate) fn acquire(&mut self, id: LockId, runner: usize) -> Asked {
        let Some(lock) = self.held.get(&id) else {
            let queue = VecDeque::new();
            self.held.insert(
                id,
                Lock {
                    holder: runner,
                    queue,
                },
            );
            return Asked::Taken;
        };
        let mut holder = lock.holder;
        if holder == runner {
            return Asked::Passed;
        }
        // Terminates: each runner waits for at most one lock, and a wait that would close a cycle
        // is never entered.
        while let Some(next) = self.waits_for.get(&holder) {
            match self.held.get(next) {
                Some(lock) if lock.holder == runner => {
                    // Recorded turns nest locks in orders that never met in the guest; one of the
                    // group's CPUs has to proceed.
                    return Asked::Circle;
                }
                Some(lock) => holder = lock.holder,
                None => break,
            }
        }
        if let Some(lock) = self.held.get_mut(&id) {
            lock.queue.push_back(runner);
        }
        self.waits_for.insert(runner, id);
        Asked::Waits
    }

    /// The holder releases it. Returns the new holder, if somebody waited.
    pub(crate) fn release(&mut self, id: LockId) -> Option<usize> {
        let lock = self.held.get_mut(&id)?;
        let Some(next) = lock.queue.pop_front() else {
            self.held.remove(&id);
            return None;
        };
        lock.holder = next;
        self.waits_for.remove(&next);
        Some(next)
    }

    /// Who gets the lock next.
    pub(crate) fn first_waiter(&self, id: LockId) -> Option<usize> {
        self.held.get(&id)?.queue.front().copied()
    }

    /// A runner has proceeded without a lock ([`Asked::Circle`]): a table says how much is not
    /// modelled.
    pub(crate) fn count_circle(&mut self) {
        self.circles += 1;
    }

    /// A lock whose holder did not release it while it ran.
    pub(crate) fn count_unreleased(&mut self) {
        self.unreleased += 1;
    }

    /// Somebody waited this long.
    pub(crate) fn count(&mut self, key: KeyId, site: SiteId, cycles: Cycles) {
        self.waits.entry((site, key)).or_default().add(cycles);
    }

    /// The waiting; cycles; locks not released.
    pub(crate) fn finish(self) -> (Vec<LockWait>, u64, u64) {
        let wait = |((site, key), waits)| LockWait { key, site, waits };
        let waits = self.waits.into_iter().map(wait).collect();
        (waits, self.circles, self.unreleased)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: LockId = (1, 0);
    const B: LockId = (2, 0);

    #[test]
    fn a_lock_is_handed_over_in_the_order_of_requests() {
        let mut locks = Locks::default();
        assert_eq!(locks.acquire(A, 7), Asked::Taken);
        assert_eq!(locks.acquire(A, 7), Asked::Passed);
        assert_eq!(locks.acquire(A, 3), Asked::Waits);
        assert_eq!(locks.acquire(A, 5), Asked::Waits);
        assert_eq!(locks.release(A), Some(3));
        assert_eq!(locks.release(A), Some(5));
        assert_eq!(locks.release(A), None);
        assert_eq!(locks.release(A), None);
        assert_eq!(locks.acquire(A, 3), Asked::Taken);
    }

    #[test]
    fn nobody_waits_for_himself() {
        let mut locks = Locks::default();
        assert_eq!(locks.acquire(A, 1), Asked::Taken);
        assert_eq!(locks.acquire(B, 2), Asked::Taken);
        assert_eq!(locks.acquire(B, 1), Asked::Waits);
        assert_eq!(locks.acquire(A, 2), Asked::Circle);
        assert_eq!(locks.release(B), Some(1));
    }
}

//! Rounds in which CPUs wait for locks.
//!
//! In a deterministic recording one CPU runs at a time, so nobody waits: side by side, two slices
//! would be in one critical section at once, and would take its lines from each other at each
//! access. Here a CPU that asks for a lock that another slice holds waits until that slice writes
//! to the lock's word, or has made its last access. What the hardware does meanwhile is done:
//!
//! ```text
//!   owner    RMW ── store ──────── store ────── store to the word
//!   waiter         RMW ╌╌ load ╌╌╌╌╌╌╌╌ load ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌ RMW ── …
//! ```
//!
//! The waiter's first RMW takes the line; the first in the queue loads the word again whenever its
//! copy is taken away, as the head of a queued spinlock does and as a mutex's waiter reads the
//! owner; the others spin on lines of their own. With the lock, it makes the access once more.

use std::sync::Arc;

use linemate_recording::{AccessKind, GuestAddr};
use linemate_units::Cycles;
use rustc_hash::FxHashSet;

use crate::cache::address::Line;
use crate::rounds::engine::Engine;
use crate::rounds::filter::Later;
use crate::rounds::interleaver::{Performed, Round, RunnerTurn, Slice, Woken};
use crate::rounds::locks::{Asked, LockId, LockWait, Locks};
use crate::rounds::placement::{KeyId, SiteId};
use crate::rounds::waiting::Waiting;

/// The locks of a replay of as many CPUs as were recorded.
#[derive(Clone, Debug)]
pub(crate) struct Locking {
    /// The instructions that acquire locks.
    acquires: Arc<FxHashSet<GuestAddr>>,
    locks: Locks,
    /// By slice of the round.
    slices: Vec<Holder>,
    /// CPUs that continue.
    woken: Vec<Woken>,
    /// The first waiter of each queue.
    spinners: Vec<Spinner>,
}

/// A slice, as far as locks concern it.
#[derive(Clone, Debug, Default)]
struct Holder {
    held: Vec<LockId>,
    /// The access at which it waits, and when it was over.
    asked: Option<(usize, u64)>,
    /// It has waited and has the lock now.
    granted: bool,
}

/// Who reads a lock's word.
#[derive(Clone, Copy, Debug)]
struct Spinner {
    lock: LockId,
    slice: usize,
}

impl Locking {
    pub(crate) fn new(acquires: Arc<FxHashSet<GuestAddr>>) -> Locking {
        Locking {
            acquires,
            locks: Locks::default(),
            slices: Vec::new(),
            woken: Vec::new(),
            spinners: Vec::new(),
        }
    }

    /// Forgets the waiting so far.
    pub(crate) fn begin_counting(&mut self) {
        self.locks = Locks::default();
    }

    /// The waiting.
    pub(crate) fn finish(self) -> Vec<LockWait> {
        self.locks.finish().0
    }

    pub(crate) fn round<'r>(
        &'r mut self,
        engine: &'r mut Engine,
        slices: &'r [Slice],
        accesses: &'r [Waiting],
    ) -> LockedRound<'r> {
        self.slices.clear();
        self.slices.resize_with(slices.len(), Holder::default);
        LockedRound {
            locking: self,
            engine,
            slices,
            accesses,
        }
    }
}

/// A round whose CPUs wait for locks.
pub(crate) struct LockedRound<'r> {
    locking: &'r mut Locking,
    engine: &'r mut Engine,
    slices: &'r [Slice],
    accesses: &'r [Waiting],
}

impl Round for LockedRound<'_> {
    #[inline]
    fn offset(&self, access: usize) -> u32 {
        self.accesses[access].offset
    }

    fn step(&mut self, access: usize, turn: RunnerTurn, at: u64) -> Performed {
        let slice = turn.slice;
        let waiting = &self.accesses[access];
        let locking = &mut *self.locking;
        let acquires =
            waiting.kind == AccessKind::Rmw && locking.acquires.contains(&GuestAddr(waiting.pc));
        let lock = (waiting.span.line, waiting.span.offset);
        let mut waits = false;
        if acquires && !std::mem::take(&mut locking.slices[slice].granted) {
            match locking.locks.acquire(lock, slice) {
                Asked::Taken => locking.slices[slice].held.push(lock),
                Asked::Passed => {}
                Asked::Circle => locking.locks.count_circle(),
                Asked::Waits => waits = true,
            }
        }
        let stall = self.perform(waiting, slice, at);
        let over = at + stall;
        if waits {
            self.read_again(waiting.span.line, slice, over);
            let locking = &mut *self.locking;
            locking.slices[slice].asked = Some((access, over));
            if !locking.spinners.iter().any(|spinner| spinner.lock == lock) {
                locking.spinners.push(Spinner { lock, slice });
            }
            return Performed::Waits;
        }
        let writes = waiting.kind != AccessKind::Load;
        let held = &mut self.locking.slices[slice].held;
        let released = held.iter().position(|held| *held == lock);
        if let Some(number) = released.filter(|_| writes && !acquires) {
            held.swap_remove(number);
            self.release(lock, over);
        } else if writes && !self.locking.spinners.is_empty() {
            self.read_again(waiting.span.line, slice, over);
        }
        if access + 1 == self.slices[slice].end as usize {
            // The recorded release is in a later turn, or wrote to another word. At the last
            // access, because nobody can ask for the lock of a slice that is over.
            for lock in std::mem::take(&mut self.locking.slices[slice].held) {
                self.release(lock, over);
            }
        }
        Performed::Stalls(stall)
    }

    fn woken(&mut self) -> Option<Woken> {
        self.locking.woken.pop()
    }
}

impl LockedRound<'_> {
    #[inline]
    fn perform(&mut self, waiting: &Waiting, slice: usize, at: u64) -> u64 {
        let cpu = usize::from(self.slices[slice].head.cpu.0);
        self.engine.step(waiting, cpu, 0, at)
    }

    /// The lock is free at that time: the longest waiter has it.
    fn release(&mut self, lock: LockId, at: u64) {
        let locking = &mut *self.locking;
        let next = locking.locks.release(lock);
        locking.spinners.retain(|spinner| spinner.lock != lock);
        let Some(next) = next else {
            return;
        };
        if let Some(slice) = locking.locks.first_waiter(lock) {
            locking.spinners.push(Spinner { lock, slice });
        }
        let holder = &mut locking.slices[next];
        holder.granted = true;
        holder.held.push(lock);
        if let Some((access, asked)) = holder.asked.take() {
            let waiting = &self.accesses[access];
            let waited = Cycles(at.saturating_sub(asked));
            let (key, site) = (KeyId(waiting.key), SiteId(waiting.site));
            locking.locks.count(key, site, waited);
            locking.woken.push(Woken {
                slice: next,
                at: at.max(asked),
            });
        }
    }

    /// Another CPU has written to the line: who spins on a lock in it reads it again.
    fn read_again(&mut self, line: Line, writer: usize, at: u64) {
        for number in 0..self.locking.spinners.len() {
            let Spinner { lock, slice } = self.locking.spinners[number];
            let asked = self.locking.slices[slice].asked;
            if let Some((access, _)) = asked.filter(|_| lock.0 == line && slice != writer) {
                let load = Waiting {
                    kind: AccessKind::Load,
                    later: Later::default(),
                    ..self.accesses[access]
                };
                self.perform(&load, slice, at);
            }
        }
    }
}

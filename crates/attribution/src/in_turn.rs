//! What a CPU does in turn: objects of which types it accesses alternately, and which counters it
//! writes with a bitmap.
//!
//! Windows do not extend across the boundary of two chunks, so chunks are counted in any order.
//! Memory grows with the number of different instructions and places, not with the recording.

use std::collections::BTreeMap;

use linemate_recording::{Access, AccessKind, GuestAddr, VirtualTime};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::bitmap::{BitmapId, Bitmaps};
use crate::couse::WINDOW;
use crate::ledger::Bucket;
use crate::names::Located;
use crate::schema::TypeIndex;
use crate::subjects::{FieldRef, Subject};

/// The number of a CPU's latest atomics and loads that are compared. A function that sets a bit and
/// counts it has a handful of each between the two.
const RECENT: usize = 8;

/// A counter that is written with a bitmap, and the instruction that does so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CounterWrite {
    pub field: FieldRef,
    pub pc: GuestAddr,
}

/// What CPUs did in turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InTurn {
    /// How often a CPU went from an object of one type to one of the other within [`WINDOW`]
    /// instructions; the smaller type first.
    pub types: BTreeMap<(TypeIndex, TypeIndex), u64>,
    /// How often an atomic wrote a counter within the window of an atomic on the bitmap, by the
    /// same CPU.
    pub counters: BTreeMap<(CounterWrite, BitmapId), u64>,
}

impl InTurn {
    /// Adds the counts of another part of the recording.
    pub(crate) fn merge(&mut self, other: InTurn) {
        for (pair, count) in other.types {
            *self.types.entry(pair).or_default() += count;
        }
        for (pair, count) in other.counters {
            *self.counters.entry(pair).or_default() += count;
        }
    }
}

/// An atomic that was seen recently.
#[derive(Clone, Copy, Debug)]
struct Atomic {
    time: u64,
    write: CounterWrite,
    bitmap: Option<BitmapId>,
    /// Whether its partner was found.
    paired: bool,
}

/// The recent history of a CPU.
#[derive(Clone, Debug, Default)]
struct Latest {
    object: Option<(TypeIndex, u64, u64)>,
    /// When and where eight bytes were loaded: these include pointers.
    loads: [Option<(VirtualTime, FieldRef)>; RECENT],
    next_load: usize,
    atomics: Vec<Atomic>,
}

/// Counts them in a stream of accesses.
#[derive(Debug)]
pub(crate) struct InTurnCollector<'n> {
    bitmaps: &'n Bitmaps,
    /// By subject.
    turns: Vec<Turns>,
    cpus: Vec<Latest>,
    types: FxHashMap<(TypeIndex, TypeIndex), u64>,
    counters: FxHashMap<(CounterWrite, BitmapId), u64>,
}

/// What accesses to a subject count for.
#[derive(Clone, Copy, Debug)]
struct Turns {
    /// The type whose turn it is.
    ty: Option<TypeIndex>,
    typed: bool,
    /// Whether its atomics may be on a counter or a bitmap: what is on a stack is one thread's.
    shared: bool,
}

impl Turns {
    fn of(subject: &Subject) -> Turns {
        Turns {
            ty: subject.ty.filter(|_| subject.bucket == Bucket::Field),
            typed: subject.ty.is_some(),
            shared: subject.bucket != Bucket::Stack,
        }
    }
}

impl<'n> InTurnCollector<'n> {
    pub(crate) fn new(subjects: &[Subject], bitmaps: &'n Bitmaps) -> InTurnCollector<'n> {
        InTurnCollector {
            bitmaps,
            turns: subjects.iter().map(Turns::of).collect(),
            cpus: Vec::new(),
            types: FxHashMap::default(),
            counters: FxHashMap::default(),
        }
    }

    pub(crate) fn start_chunk(&mut self) {
        self.cpus.clear();
    }

    pub(crate) fn finish(self) -> InTurn {
        InTurn {
            types: self.types.into_iter().collect(),
            counters: self.counters.into_iter().collect(),
        }
    }

    #[inline]
    pub(crate) fn access(&mut self, access: &Access, at: &Located) {
        let turns = self.turns[at.subject.index()];
        let cpu = usize::from(access.cpu.0);
        if cpu >= self.cpus.len() {
            self.cpus.resize_with(cpu + 1, Latest::default);
        }
        if let Some(ty) = turns.ty {
            self.turn(access, at, ty);
        }
        match access.kind {
            AccessKind::Load if turns.typed && access.size == 8 => {
                let latest = &mut self.cpus[cpu];
                latest.loads[latest.next_load] = Some((access.time, at.field()));
                latest.next_load = (latest.next_load + 1) % RECENT;
            }
            AccessKind::Rmw if turns.shared => self.atomic(access, at, turns.typed),
            _ => {}
        }
    }

    fn turn(&mut self, access: &Access, at: &Located, ty: TypeIndex) {
        let base = access.addr.0.wrapping_sub(u64::from(at.offset));
        let latest = &mut self.cpus[usize::from(access.cpu.0)];
        let time = access.time.0;
        if let Some((other, object, when)) = latest.object {
            // Every walk of a list uses objects of one type alternately: only pairs of different
            // types count.
            if object != base && other != ty && time.saturating_sub(when) <= WINDOW {
                let pair = (other.min(ty), other.max(ty));
                *self.types.entry(pair).or_default() += 1;
            }
        }
        latest.object = Some((ty, base, time));
    }

    /// The bitmap that an atomic hits: its type says so, or a pointer to one was loaded just
    /// before.
    fn bitmap(&self, access: &Access, at: &Located, typed: bool) -> Option<BitmapId> {
        if let Some(own) = self.bitmaps.inside(at.field()) {
            return Some(own);
        }
        if typed {
            return None;
        }
        let latest = &self.cpus[usize::from(access.cpu.0)];
        let loads = latest
            .loads
            .iter()
            .flatten()
            .filter(|(time, _)| access.time.0.saturating_sub(time.0) <= WINDOW);
        let pointers =
            loads.filter_map(|(time, field)| Some((*time, self.bitmaps.pointed_to(*field)?)));
        pointers.max_by_key(|(time, _)| *time).map(|(_, id)| id)
    }

    fn atomic(&mut self, access: &Access, at: &Located, typed: bool) {
        let bitmap = self.bitmap(access, at, typed);
        let mut new = Atomic {
            time: access.time.0,
            write: CounterWrite {
                field: at.field(),
                pc: access.pc,
            },
            bitmap,
            paired: false,
        };
        let latest = &mut self.cpus[usize::from(access.cpu.0)];
        latest
            .atomics
            .retain(|a| new.time.saturating_sub(a.time) <= WINDOW);
        // One counter for one bit: each atomic has one partner, in either order.
        let fits = |a: &&mut Atomic| !a.paired && a.bitmap.is_some() != new.bitmap.is_some();
        if let Some(other) = latest.atomics.iter_mut().rev().find(fits) {
            let pair = match (other.bitmap, new.bitmap) {
                (Some(bitmap), None) if typed => Some((new.write, bitmap)),
                (None, Some(bitmap)) => Some((other.write, bitmap)),
                _ => None,
            };
            if let Some(pair) = pair {
                *self.counters.entry(pair).or_default() += 1;
                other.paired = true;
                new.paired = true;
            }
        }
        if latest.atomics.len() == RECENT {
            latest.atomics.remove(0);
        }
        if typed || bitmap.is_some() {
            latest.atomics.push(new);
        }
    }
}

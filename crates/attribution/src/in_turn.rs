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
    /// What their bitmaps are called.
    pub bitmaps: BTreeMap<BitmapId, String>,
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
        self.bitmaps.extend(other.bitmaps);
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
        let names = self
            .counters
            .keys()
            .map(|(_, id)| (*id, self.bitmaps.name(*id).to_owned()));
        InTurn {
            bitmaps: names.collect(),
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

#[cfg(test)]
mod tests {
    use linemate_recording::CpuId;

    use super::*;
    use crate::subjects::SubjectId;

    /// Two types of the heap, a bitmap, a counter, untyped memory and a stack.
    const A: u32 = 0;
    const B: u32 = 1;
    const MASK: u32 = 2;
    const COUNTER: u32 = 3;
    const UNTYPED: u32 = 4;
    const STACK: u32 = 5;

    fn subjects() -> Vec<Subject> {
        let of = |bucket, ty: Option<u32>| Subject {
            bucket,
            ty: ty.map(TypeIndex),
            label: String::new(),
            site: None,
            percpu: false,
            program: false,
            of_threads: false,
        };
        vec![
            of(Bucket::Field, Some(7)),
            of(Bucket::Field, Some(3)),
            of(Bucket::GlobalTyped, Some(9)),
            of(Bucket::GlobalTyped, Some(11)),
            of(Bucket::GlobalScalar, None),
            of(Bucket::Stack, None),
        ]
    }

    fn field(subject: u32, offset: u32) -> FieldRef {
        FieldRef {
            subject: SubjectId(subject),
            offset,
        }
    }

    /// An access at a time to an object of a subject, by a CPU.
    fn access(time: u64, cpu: u16, kind: AccessKind, subject: u32, base: u64) -> (Access, Located) {
        let access = Access {
            time: VirtualTime(time),
            cpu: CpuId(cpu),
            pc: GuestAddr(0x1000 + u64::from(subject)),
            addr: GuestAddr(base),
            size: 8,
            kind,
            silent: false,
            user_mapping: false,
        };
        let at = Located {
            subject: SubjectId(subject),
            offset: 0,
            object: GuestAddr(base),
            owner: None,
        };
        (access, at)
    }

    /// `chunks`: their accesses.
    fn counted(chunks: &[&[(Access, Located)]]) -> InTurn {
        let subjects = subjects();
        let bitmaps = Bitmaps::of(field(MASK, 0), field(A, 0));
        let mut collector = InTurnCollector::new(&subjects, &bitmaps);
        for chunk in chunks {
            collector.start_chunk();
            for (access, at) in *chunk {
                collector.access(access, at);
            }
        }
        collector.finish()
    }

    #[test]
    fn types_are_in_turn_within_the_window_of_one_cpu_and_chunk() {
        use AccessKind::{Load, Store};
        let of = |time, cpu, subject, base| access(time, cpu, Load, subject, base);
        let pair = (TypeIndex(3), TypeIndex(7));
        let turns = |chunks: &[&[(Access, Located)]]| {
            let found = counted(chunks).types;
            assert!(found.keys().all(|of| *of == pair), "{found:?}");
            found.get(&pair).copied().unwrap_or(0)
        };
        let there_and_back = [
            of(0, 0, A, 64),
            of(WINDOW, 0, B, 128),
            of(WINDOW + 1, 0, A, 64),
        ];
        assert_eq!(turns(&[&there_and_back]), 2);
        assert_eq!(
            turns(&[&[of(0, 0, A, 64), of(WINDOW + 1, 0, B, 128)]]),
            0,
            "too late"
        );
        assert_eq!(
            turns(&[&[of(0, 0, A, 64), of(1, 1, B, 128)]]),
            0,
            "another CPU"
        );
        assert_eq!(
            turns(&[&[of(0, 0, A, 64), of(1, 0, A, 192)]]),
            0,
            "one type"
        );
        assert_eq!(
            turns(&[&[of(0, 0, A, 64)], &[of(1, 0, B, 128)]]),
            0,
            "another chunk"
        );
        // Variables have no turn, and end none.
        let between = [
            of(0, 0, A, 64),
            access(1, 0, Store, COUNTER, 8),
            of(2, 0, B, 128),
        ];
        assert_eq!(turns(&[&between]), 1);
    }

    #[test]
    fn a_counter_is_written_with_a_bitmap_in_either_order_and_once() {
        use AccessKind::{Load, Rmw};
        let rmw = |time, subject| access(time, 0, Rmw, subject, 8 * u64::from(subject));
        let write = CounterWrite {
            field: field(COUNTER, 0),
            pc: GuestAddr(0x1000 + u64::from(COUNTER)),
        };
        let with = |bitmap: u32, accesses: &[(Access, Located)]| {
            let found = counted(&[accesses]).counters;
            let pair = (write, BitmapId(bitmap));
            assert!(found.keys().all(|of| *of == pair), "{found:?}");
            found.get(&pair).copied().unwrap_or(0)
        };
        assert_eq!(with(0, &[rmw(0, MASK), rmw(1, COUNTER)]), 1);
        let named = counted(&[&[rmw(0, MASK), rmw(1, COUNTER)]]).bitmaps;
        assert_eq!(named, BTreeMap::from([(BitmapId(0), "mask".to_owned())]));
        assert_eq!(with(0, &[rmw(0, COUNTER), rmw(1, MASK)]), 1);
        assert_eq!(
            with(0, &[rmw(0, MASK), rmw(1, COUNTER), rmw(2, COUNTER)]),
            1,
            "one bit"
        );
        assert_eq!(
            with(0, &[rmw(0, MASK), rmw(WINDOW + 1, COUNTER)]),
            0,
            "too late"
        );
        // A bitmap without a type is one if a pointer to it was loaded just before.
        let pointer = access(0, 0, Load, A, 64);
        assert_eq!(with(1, &[pointer, rmw(1, UNTYPED), rmw(2, COUNTER)]), 1);
        assert_eq!(with(1, &[rmw(1, UNTYPED), rmw(2, COUNTER)]), 0);
        assert_eq!(
            with(1, &[pointer, rmw(1, STACK), rmw(2, COUNTER)]),
            0,
            "one thread's"
        );
    }
}

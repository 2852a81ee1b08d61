//! A pass over a recording: which types are used alternately, and what is dirtied together.
//!
//! All threads take chunks in any order and only sums are stored, so windows do not extend across
//! the boundary of two chunks and nothing depends on the number of threads. Memory grows with the
//! number of different instructions and places, not with the recording.

use std::collections::BTreeMap;

use linemate_attribution::couse::WINDOW;
use linemate_attribution::schema::TypeIndex;
use linemate_attribution::{Analysis, Bucket, FieldRef, Located, Names, Subject, visit_chunks};
use linemate_recording::{
    Access, AccessKind, Call, Error as RecordingError, GuestAddr, Marker, Return, VirtualTime,
    Visitor,
};
use linemate_session::Session;
use linemate_session::shelf::{self, Part};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::bitmap::{BitmapId, Bitmaps};

/// The number of a CPU's latest atomics and loads that are compared. A function that sets a bit and
/// counts it has a handful of each between the two.
const RECENT: usize = 8;

/// A counter that is written together with a bitmap, and the instruction that does so.
pub(crate) type CounterWrite = (FieldRef, GuestAddr);

/// What the pass finds.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Evidence {
    /// How often a CPU went from an object of one type to one of the other within the window; the
    /// smaller type first.
    pub(crate) in_turn: BTreeMap<(TypeIndex, TypeIndex), u64>,
    /// How often an atomic wrote there within the window of an atomic on the bitmap, by the same
    /// CPU.
    pub(crate) together: BTreeMap<(CounterWrite, BitmapId), u64>,
}

impl Evidence {
    /// What an earlier question kept, or what reading the recording once finds.
    ///
    /// # Errors
    /// A damaged chunk.
    pub(crate) fn of(session: &Session<'_>, bitmaps: &Bitmaps) -> Result<Evidence, RecordingError> {
        let shelf = session.shelf();
        let kept = shelf.load(Part::InTurn);
        if let Some(kept) = kept.and_then(|bytes| shelf::unpack(&bytes)) {
            return Ok(kept);
        }
        let evidence = Evidence::collect(session.analysis(), bitmaps)?;
        if let Some(packed) = shelf::pack(&evidence) {
            shelf.store(Part::InTurn, &packed);
        }
        Ok(evidence)
    }

    fn collect(analysis: &Analysis<'_>, bitmaps: &Bitmaps) -> Result<Evidence, RecordingError> {
        let names = analysis.names()?;
        let make = || Collector::new(&names, bitmaps);
        // Windows end with their chunk: otherwise sums would depend on which thread took which.
        let begin = |collector: &mut Collector<'_>| collector.cpus.clear();
        let parts = visit_chunks(analysis.recording(), make, begin, &|_| ())?;
        let mut sum = Evidence::default();
        for part in parts {
            for (pair, count) in part.in_turn {
                *sum.in_turn.entry(pair).or_default() += count;
            }
            for (pair, count) in part.together {
                *sum.together.entry(pair).or_default() += count;
            }
        }
        Ok(sum)
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

struct Collector<'n> {
    names: &'n Names,
    bitmaps: &'n Bitmaps,
    cpus: Vec<Latest>,
    in_turn: FxHashMap<(TypeIndex, TypeIndex), u64>,
    together: FxHashMap<(CounterWrite, BitmapId), u64>,
}

impl<'n> Collector<'n> {
    fn new(names: &'n Names, bitmaps: &'n Bitmaps) -> Collector<'n> {
        Collector {
            names,
            bitmaps,
            cpus: Vec::new(),
            in_turn: FxHashMap::default(),
            together: FxHashMap::default(),
        }
    }

    fn turns(&mut self, access: &Access, at: &Located, subject: &Subject) {
        let Some(ty) = subject.ty else { return };
        if subject.bucket != Bucket::Field {
            return;
        }
        let base = access.addr.0.wrapping_sub(u64::from(at.offset));
        let latest = &mut self.cpus[usize::from(access.cpu.0)];
        let time = access.time.0;
        if let Some((other, object, when)) = latest.object {
            // Every walk of a list uses objects of one type alternately: only pairs of different
            // types count.
            if object != base && other != ty && time.saturating_sub(when) <= WINDOW {
                *self
                    .in_turn
                    .entry((other.min(ty), other.max(ty)))
                    .or_default() += 1;
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
            write: (at.field(), access.pc),
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
                *self.together.entry(pair).or_default() += 1;
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

impl Visitor for Collector<'_> {
    #[inline]
    fn access(&mut self, access: &Access) {
        let at = self.names.locate(access);
        let cpu = usize::from(access.cpu.0);
        if cpu >= self.cpus.len() {
            self.cpus.resize_with(cpu + 1, Latest::default);
        }
        let names = self.names;
        let subject = &names.subjects()[at.subject.index()];
        let typed = subject.ty.is_some();
        self.turns(access, &at, subject);
        match access.kind {
            AccessKind::Load if typed && access.size == 8 => {
                let latest = &mut self.cpus[cpu];
                latest.loads[latest.next_load] = Some((access.time, at.field()));
                latest.next_load = (latest.next_load + 1) % RECENT;
            }
            AccessKind::Rmw if subject.bucket != Bucket::Stack => self.atomic(access, &at, typed),
            _ => {}
        }
    }
    fn call(&mut self, _: &Call) {}
    fn ret(&mut self, _: &Return) {}
    fn marker(&mut self, _: &Marker) {}
}

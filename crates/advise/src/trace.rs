//! The accesses to one type's objects, woven as replay weaves them, without what no layout can make a difference for.
//!
//! One pass over the recording: chunks are decoded and filtered on all threads, woven in order on one. An access is left out when, whatever the
//! layout, it finds its line as it left it: a load when no other CPU wrote to the object since the CPU last touched the same atom, a write
//! when no other CPU touched the object since the CPU last wrote the same atom. That is exact for caches in which nothing is dropped
//! for lack of room.
//!
//! Does not know costs; [`crate::cost`] does.

use std::collections::BTreeMap;
use std::sync::Arc;

use linemate_attribution::Analysis;
use linemate_layout::nesting::{embeds, enclosing};
use linemate_recording::{
    Access, AccessKind, Call, Decoder, Error as RecordingError, EventChunk, Marker, Return, Visitor,
};
use linemate_replay::{Interleaving, ROUND_ACCESSES_MAX};
use linemate_types::TypeId;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::shape::Shape;

/// The most CPUs of a recording: sets of them are words.
pub const CPUS_MAX: usize = 64;
/// The most events that are kept, of 16 bytes each: bounds memory. What comes later in the recording is not searched on, but replayed.
const EVENTS_MAX: usize = 24 << 20;
/// The most (object, CPU, atom) whose last use is remembered.
const USES_MAX: usize = 8 << 20;

/// What an access does to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Reads it.
    Load,
    /// Writes it.
    Store,
    /// Reads and writes it at once.
    Rmw,
}

impl Kind {
    fn of(kind: AccessKind) -> Kind {
        match kind {
            AccessKind::Load => Kind::Load,
            AccessKind::Store => Kind::Store,
            AccessKind::Rmw => Kind::Rmw,
        }
    }

    /// Whether the line has to be the CPU's own.
    pub fn writes(self) -> bool {
        self != Kind::Load
    }
}

/// An access to an atom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which round: in one, all CPUs run at once.
    pub round: u32,
    /// Instructions from the round's start.
    pub at: u32,
    /// What it touches.
    pub atom: u16,
    /// By whom.
    pub cpu: u8,
    /// How.
    pub kind: Kind,
}

/// One object's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectTrace {
    /// Its address modulo 128.
    pub residue: u8,
    /// In order of their effect.
    pub events: Vec<Event>,
}

/// How often an instruction uses a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Accesses.
    pub count: u64,
    /// By which CPUs, as a set.
    pub cpus: u64,
}

/// By unit, instruction and kind of access.
pub type Uses = BTreeMap<(u16, u64, Kind), Use>;

/// The events of a type in one recording.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// In the order of their first use.
    pub objects: Vec<ObjectTrace>,
    /// Recorded CPUs.
    pub cpus: usize,
    /// Accesses to the type in the recording.
    pub accesses: u64,
    /// Accesses in the recording.
    pub all: u64,
    /// Whether the recording had more events than are kept.
    pub cut: bool,
    /// Who uses what, over all objects.
    pub uses: Uses,
}

impl Trace {
    /// How many events are kept.
    pub fn events(&self) -> usize {
        self.objects.iter().map(|o| o.events.len()).sum()
    }

    /// Reads the recording for the accesses to `shape`'s type. `types` are those of its subjects, as a scene has them; `seed` decides how slices lie to each other, as in a replay.
    ///
    /// # Errors
    /// A damaged chunk.
    pub fn extract(
        analysis: &Analysis<'_>,
        types: &[Option<TypeId>],
        shape: &Shape,
        cpus: usize,
        seed: u64,
    ) -> Result<Trace, RecordingError> {
        let tables = tables(analysis, types, shape);
        let recording = analysis.recording();
        let mut loom = Loom::new(shape, cpus, seed);
        let filter = |decoder: &mut Decoder, chunk: &EventChunk| {
            let mut found = Filter {
                analysis,
                tables: &tables,
                shape,
                slices: Vec::new(),
                hits: Vec::new(),
                uses: FxHashMap::default(),
            };
            recording.visit(chunk, decoder, &mut found)?;
            Ok((found.slices, found.hits, found.uses))
        };
        for batch in recording.chunks().chunks(8 * rayon::current_num_threads()) {
            let parts: Vec<Result<_, RecordingError>> =
                batch.par_iter().map_init(Decoder::new, filter).collect();
            for part in parts {
                let (slices, hits, uses) = part?;
                loom.take(&slices, &hits);
                for (key, part) in uses {
                    let sum = loom.trace.uses.entry(key).or_default();
                    sum.count += part.count;
                    sum.cpus |= part.cpus;
                }
            }
        }
        Ok(loom.finish())
    }
}

/// By subject: where its type's bytes lie in the searched type.
type Tables = Vec<Option<Arc<Vec<u32>>>>;

/// Not inside of the searched type.
const OUTSIDE: u32 = u32::MAX;

fn tables(analysis: &Analysis<'_>, types: &[Option<TypeId>], shape: &Shape) -> Tables {
    let model = analysis.model();
    let mut known: FxHashMap<TypeId, Option<Arc<Vec<u32>>>> = FxHashMap::default();
    let mut table = |id: TypeId| {
        let make = || {
            let size = model
                .size_of(id)
                .filter(|s| *s <= crate::shape::BYTES_MAX)?;
            embeds(model, id, &shape.ids).then(|| {
                let at = |offset| {
                    enclosing(model, id, offset, &|t| shape.ids.contains(&t))
                        .map_or(OUTSIDE, |(_, at)| u32::try_from(at).unwrap_or(OUTSIDE))
                };
                Arc::new((0..size).map(at).collect::<Vec<u32>>())
            })
        };
        known.entry(id).or_insert_with(make).clone()
    };
    types.iter().map(|id| id.and_then(&mut table)).collect()
}

/// A run of accesses of one CPU, within a chunk.
#[derive(Clone, Copy, Debug)]
struct Slice {
    cpu: u16,
    start: u64,
    span: u64,
    accesses: u64,
    hits: u32,
}

/// An access to the type.
#[derive(Clone, Copy, Debug)]
struct Hit {
    time: u64,
    base: u64,
    offset: u32,
    size: u8,
    kind: Kind,
}

struct Filter<'f> {
    analysis: &'f Analysis<'f>,
    tables: &'f Tables,
    shape: &'f Shape,
    slices: Vec<Slice>,
    hits: Vec<Hit>,
    uses: FxHashMap<(u16, u64, Kind), Use>,
}

impl Visitor for Filter<'_> {
    #[inline]
    fn access(&mut self, access: &Access) {
        let time = access.time.0;
        match self.slices.last_mut() {
            Some(slice) if slice.cpu == access.cpu.0 => {
                slice.span = slice.span.max(time.saturating_sub(slice.start));
                slice.accesses += 1;
            }
            _ => self.slices.push(Slice {
                cpu: access.cpu.0,
                start: time,
                span: 0,
                accesses: 1,
                hits: 0,
            }),
        }
        let at = self.analysis.names().locate(access);
        let Some(table) = &self.tables[at.subject.0 as usize] else {
            return;
        };
        let offset = table.get(at.offset as usize).copied().unwrap_or(OUTSIDE);
        if offset == OUTSIDE {
            return;
        }
        if let Some(slice) = self.slices.last_mut() {
            slice.hits += 1;
        }
        let kind = Kind::of(access.kind);
        if let Some(atom) = self.shape.touched(offset, access.size).next() {
            let unit = self.shape.atoms[usize::from(atom)].unit;
            let sum = self.uses.entry((unit, access.pc.0, kind)).or_default();
            sum.count += 1;
            sum.cpus |= 1 << (access.cpu.0 % 64);
        }
        self.hits.push(Hit {
            time,
            base: access.addr.0.wrapping_sub(u64::from(offset)),
            offset,
            size: access.size,
            kind,
        });
    }
    fn call(&mut self, _: &Call) {}
    fn ret(&mut self, _: &Return) {}
    fn marker(&mut self, _: &Marker) {}
}

/// When the last uses of an object were, as numbers of its uses from 1; 0 is never.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    cpu: u8,
    by_it: u32,
    by_others: u32,
}

impl Last {
    fn note(&mut self, cpu: u8, now: u32) {
        if cpu != self.cpu {
            self.by_others = self.by_it.max(self.by_others);
            self.cpu = cpu;
        }
        self.by_it = now;
    }

    /// The last use by another CPU than `cpu`.
    fn other_than(&self, cpu: u8) -> u32 {
        if cpu == self.cpu {
            self.by_others
        } else {
            self.by_it
        }
    }
}

#[derive(Clone, Debug)]
struct Loomed {
    trace: ObjectTrace,
    uses: u32,
    write: Last,
    touch: Last,
}

/// Puts slices into rounds, and the type's accesses in a round side by side.
struct Loom<'s> {
    shape: &'s Shape,
    interleaving: Interleaving,
    trace: Trace,
    objects: Vec<Loomed>,
    numbers: FxHashMap<u64, u32>,
    /// By (object, CPU, atom): the last touch and the last write.
    uses: FxHashMap<(u32, u8, u16), (u32, u32)>,
    kept: usize,
    rounds: u64,
    in_round: u64,
    round_accesses: u64,
    slices: Vec<Slice>,
    hits: Vec<Hit>,
    order: Vec<(u64, u8, u32)>,
}

impl<'s> Loom<'s> {
    fn new(shape: &'s Shape, cpus: usize, seed: u64) -> Loom<'s> {
        Loom {
            shape,
            interleaving: Interleaving::Seeded(seed),
            trace: Trace {
                cpus,
                ..Trace::default()
            },
            objects: Vec::new(),
            numbers: FxHashMap::default(),
            uses: FxHashMap::default(),
            kept: 0,
            rounds: 0,
            in_round: 0,
            round_accesses: 0,
            slices: Vec::new(),
            hits: Vec::new(),
            order: Vec::new(),
        }
    }

    fn take(&mut self, slices: &[Slice], hits: &[Hit]) {
        let mut rest = hits;
        for slice in slices {
            let (now, later) = rest.split_at((slice.hits as usize).min(rest.len()));
            rest = later;
            self.trace.all += slice.accesses;
            self.trace.accesses += now.len() as u64;
            let bit = 1u64 << (slice.cpu % 64);
            let full = self.round_accesses >= ROUND_ACCESSES_MAX as u64;
            match self.slices.last_mut() {
                // A slice that a chunk's end cut goes on.
                Some(last) if last.cpu == slice.cpu && !full => {
                    last.span = (slice.start + slice.span).saturating_sub(last.start);
                    last.hits += slice.hits;
                }
                _ => {
                    if self.in_round & bit != 0 || full {
                        self.weave();
                    }
                    self.in_round |= bit;
                    self.slices.push(*slice);
                }
            }
            self.round_accesses += slice.accesses;
            self.hits.extend_from_slice(now);
        }
    }

    /// Ends a round: its slices start at the times at which a replay under the same seed starts them.
    fn weave(&mut self) {
        let longest = self.slices.iter().map(|s| s.span).max().unwrap_or(0);
        let (mut first, mut order) = (0usize, std::mem::take(&mut self.order));
        if !self.hits.is_empty() {
            for (runner, slice) in (0u64..).zip(&self.slices) {
                let late = self.interleaving.start(
                    self.rounds,
                    runner,
                    instructions(longest),
                    instructions(slice.span),
                );
                let end = (first + slice.hits as usize).min(self.hits.len());
                for (number, hit) in (first..).zip(&self.hits[first..end]) {
                    let at = late + hit.time.saturating_sub(slice.start);
                    order.push((at, slice.cpu as u8, number as u32));
                }
                first = end;
            }
            order.sort_unstable();
            for (at, cpu, number) in order.drain(..) {
                let hit = self.hits[number as usize];
                self.keep(&hit, u32::try_from(at).unwrap_or(u32::MAX), cpu);
            }
        }
        self.order = order;
        self.slices.clear();
        self.hits.clear();
        self.in_round = 0;
        self.round_accesses = 0;
        self.rounds += 1;
    }

    fn keep(&mut self, hit: &Hit, at: u32, cpu: u8) {
        let objects = &mut self.objects;
        let number = *self.numbers.entry(hit.base).or_insert_with(|| {
            objects.push(Loomed {
                trace: ObjectTrace {
                    residue: (hit.base % 128) as u8,
                    events: Vec::new(),
                },
                uses: 0,
                write: Last::default(),
                touch: Last::default(),
            });
            (objects.len() - 1) as u32
        });
        let object = &mut self.objects[number as usize];
        object.uses = object.uses.saturating_add(1);
        let now = object.uses;
        let (written, touched) = (object.write.other_than(cpu), object.touch.other_than(cpu));
        for atom in self.shape.touched(hit.offset, hit.size) {
            if self.kept >= EVENTS_MAX || self.uses.len() >= USES_MAX {
                self.trace.cut = true;
                return;
            }
            let own = self.uses.entry((number, cpu, atom)).or_default();
            let idle = if hit.kind.writes() {
                own.1 > 0 && own.1 > touched
            } else {
                own.0 > 0 && own.0 > written
            };
            own.0 = now;
            if hit.kind.writes() {
                own.1 = now;
            }
            if !idle {
                self.kept += 1;
                object.trace.events.push(Event {
                    round: self.rounds as u32,
                    at,
                    atom,
                    cpu,
                    kind: hit.kind,
                });
            }
        }
        object.touch.note(cpu, now);
        if hit.kind.writes() {
            object.write.note(cpu, now);
        }
    }

    fn finish(mut self) -> Trace {
        self.weave();
        let objects = self.objects.into_iter().map(|o| o.trace);
        self.trace.objects = objects.filter(|o| !o.events.is_empty()).collect();
        self.trace
    }
}

/// A slice's instructions; replay ends slices before they have more than 32 bits of them.
fn instructions(span: u64) -> u32 {
    u32::try_from(span).unwrap_or(u32::MAX)
}

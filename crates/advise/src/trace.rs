//! The accesses to one type's objects, interleaved as in a replay, without those for which no
//! layout makes a difference.
//!
//! An access is left out if, under any layout, it finds its line as it left it: a load if no other
//! CPU wrote to the object since the CPU last touched the same atom, a write if no other CPU
//! touched the object since the CPU last wrote the same atom. That is exact for caches without
//! evictions.
//!
//! Does not know costs; [`crate::cost`] does.

use std::collections::BTreeMap;
use std::sync::Arc;

use linemate_attribution::tally::CpuSet;
use linemate_experiment::scene::{Scene, Slice, Step};
use linemate_experiment::{ExperimentError, RoundOrder, Seed};
use linemate_layout::nesting::{embeds, enclosing};
use linemate_machine::{LineSize, ThreadsPerCore};
use linemate_recording::{AccessKind, Accesses, CpuId, GuestAddr, MAX_CPUS};
use linemate_session::recorded_threads;
use linemate_types::{ByteOffset, ByteSize, TypeId, TypeModel};
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::shape::StructShape;

/// The maximum number of stored events of a type, at 12 bytes each: bounds memory. The rest of the
/// recording is not searched, but replayed.
pub(crate) const EVENTS_MAX: usize = 24 << 20;
/// The maximum number of (object, CPU, atom) whose last use is stored.
const USES_MAX: usize = 8 << 20;

/// What an access does to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// It reads the atom.
    Load,
    /// It writes the atom without reading it.
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

    /// Whether the CPU must own the line.
    pub fn writes(self) -> bool {
        self != Kind::Load
    }
}

/// An access to an atom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its round: all CPUs run at once in it.
    pub round: u32,
    /// Instructions from the round's start.
    pub at: u32,
    /// The number of the atom that it touches.
    pub atom: u16,
    /// Who does what to it.
    pub act: Act,
}

const _: () = assert!(size_of::<Event>() == 12);

/// Bits of an [`Act`] for its [`Kind`].
const KIND_BITS: u32 = 2;

const _: () = assert!(MAX_CPUS <= 1 << (u16::BITS - KIND_BITS));

/// A recorded CPU, and whether it reads or writes: in 16 bits, because there are millions of events
/// and up to [`MAX_CPUS`] CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Act(u16);

impl Act {
    /// Of a CPU below [`MAX_CPUS`].
    pub fn new(cpu: CpuId, kind: Kind) -> Act {
        Act(cpu.0 << KIND_BITS | kind as u16)
    }

    /// The CPU that does it.
    #[inline]
    pub fn cpu(self) -> CpuId {
        CpuId(self.0 >> KIND_BITS)
    }

    /// Whether it reads or writes.
    #[inline]
    pub fn kind(self) -> Kind {
        match self.0 % (1 << KIND_BITS) {
            0 => Kind::Load,
            1 => Kind::Store,
            _ => Kind::Rmw,
        }
    }
}

/// What CPUs do to one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectTrace {
    /// Its address modulo 128.
    pub residue: u8,
    /// In order of their effect.
    pub events: Vec<Event>,
}

/// How often an instruction uses a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// How many accesses it makes.
    pub count: Accesses,
    /// The CPUs that make them.
    pub cpus: CpuSet,
}

/// The events of a type in one recording.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// In the order of first use.
    pub objects: Vec<ObjectTrace>,
    /// How many CPUs were recorded.
    pub cpus: usize,
    /// How many consecutive recorded CPUs are the threads of one core.
    pub threads: ThreadsPerCore,
    /// Accesses to the type in the recording.
    pub accesses: Accesses,
    /// Accesses in the recording.
    pub all: Accesses,
    /// Whether the recording had more events than are stored.
    pub cut: bool,
    /// Who uses what, over all objects, by unit, instruction and kind of access.
    pub uses: BTreeMap<(u16, GuestAddr, Kind), Use>,
}

impl Trace {
    /// How many events are kept.
    pub fn events(&self) -> usize {
        self.objects.iter().map(|o| o.events.len()).sum()
    }

    /// The accesses to each shape's type in a scene. `seed` decides when slices of a round
    /// start, as in a replay; `line` is that of the replayed machine, whose accesses may be cached.
    ///
    /// # Errors
    /// A damaged recording.
    pub fn extract(
        scene: &Scene<'_>,
        model: &TypeModel,
        shapes: &[&StructShape],
        seed: Seed,
        line: LineSize,
    ) -> Result<Vec<Trace>, ExperimentError> {
        let tables: Vec<Tables> = shapes
            .iter()
            .map(|shape| tables(model, scene.movable, shape))
            .collect();
        let only: Vec<bool> = (0..scene.types.len())
            .map(|subject| tables.iter().any(|tables| tables[subject].is_some()))
            .collect();
        let of = |(shape, tables)| Interleaved {
            order: RoundOrder::new(seed),
            tracer: Tracer::new(shape, tables, scene),
        };
        let mut traces: Vec<Interleaved<'_>> =
            shapes.iter().copied().zip(&tables).map(of).collect();
        scene.rounds(line, &only, |rounds| {
            traces
                .par_iter_mut()
                .for_each(|of| rounds.iter().for_each(|slices| of.round(slices)));
        })?;
        let finish = |mut of: Interleaved<'_>| {
            of.tracer.trace.all = scene.accesses;
            of.tracer.finish()
        };
        Ok(traces.into_iter().map(finish).collect())
    }
}

/// By subject: where its type's bytes are in the searched type.
type Tables = Vec<Option<Arc<Places>>>;

/// By offset in a type: the offset in the searched type inside it; `None` outside that.
type Places = Vec<Option<u32>>;

fn tables(model: &TypeModel, types: &[Option<TypeId>], shape: &StructShape) -> Tables {
    let mut known: FxHashMap<TypeId, Option<Arc<Places>>> = FxHashMap::default();
    let mut table = |id: TypeId| {
        let make = || {
            let size = model
                .size_of(id)
                .filter(|size| ByteSize(*size) <= crate::shape::BYTES_MAX)?;
            embeds(model, id, &shape.ids).then(|| {
                let at = |offset| {
                    let wanted = |t| shape.ids.contains(&t);
                    let (_, at) = enclosing(model, id, ByteOffset(offset), &wanted)?;
                    u32::try_from(at.0).ok()
                };
                Arc::new((0..size).map(at).collect::<Places>())
            })
        };
        known.entry(id).or_insert_with(make).clone()
    };
    types.iter().map(|id| id.and_then(&mut table)).collect()
}

/// An access to the type.
#[derive(Clone, Copy, Debug)]
struct Hit {
    base: GuestAddr,
    offset: u32,
    size: u8,
    kind: Kind,
}

/// When the last uses of an object were, as numbers of its uses from 1; 0 is never.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    cpu: CpuId,
    by_it: u32,
    by_others: u32,
}

impl Last {
    fn note(&mut self, cpu: CpuId, now: u32) {
        if cpu != self.cpu {
            self.by_others = self.by_it.max(self.by_others);
            self.cpu = cpu;
        }
        self.by_it = now;
    }

    /// The last use by a CPU other than `cpu`.
    fn other_than(&self, cpu: CpuId) -> u32 {
        if cpu == self.cpu {
            self.by_others
        } else {
            self.by_it
        }
    }
}

#[derive(Clone, Debug)]
struct ObjectInProgress {
    trace: ObjectTrace,
    uses: u32,
    write: Last,
    touch: Last,
}

/// A type's accesses in the order of a replay's rounds, and what is traced of them.
struct Interleaved<'s> {
    order: RoundOrder<Hit>,
    tracer: Tracer<'s>,
}

impl Interleaved<'_> {
    fn round(&mut self, slices: &[Slice<'_>]) {
        self.order.take(slices, |step| self.tracer.hit(step));
        for hit in self.order.iter() {
            let at = u32::try_from(hit.at.0).unwrap_or(u32::MAX);
            self.tracer.keep(hit.of, at, hit.cpu);
        }
        self.tracer.rounds = self.tracer.rounds.wrapping_add(1);
    }
}

/// Traces a type's accesses, given in their order.
struct Tracer<'s> {
    shape: &'s StructShape,
    tables: &'s Tables,
    trace: Trace,
    objects: Vec<ObjectInProgress>,
    numbers: FxHashMap<GuestAddr, u32>,
    /// By (object, CPU, atom): the last touch and the last write.
    uses: FxHashMap<(u32, CpuId, u16), (u32, u32)>,
    by_instruction: FxHashMap<(u16, GuestAddr, Kind), Use>,
    kept: usize,
    rounds: u32,
}

impl<'s> Tracer<'s> {
    fn new(shape: &'s StructShape, tables: &'s Tables, scene: &Scene<'_>) -> Tracer<'s> {
        Tracer {
            shape,
            tables,
            trace: Trace {
                cpus: scene.cpus,
                threads: recorded_threads(scene.session.analysis().recording()),
                ..Trace::default()
            },
            objects: Vec::new(),
            numbers: FxHashMap::default(),
            uses: FxHashMap::default(),
            by_instruction: FxHashMap::default(),
            kept: 0,
            rounds: 0,
        }
    }

    /// Counts the access, if it is to the type.
    fn hit(&mut self, step: &Step) -> Option<Hit> {
        let table = self.tables[step.subject.0 as usize].as_ref();
        let offset = table.and_then(|table| *table.get(step.offset as usize)?)?;
        self.trace.accesses += Accesses::ONE;
        let access = &step.access;
        let kind = Kind::of(access.kind);
        // Only by the first atom, so that an access counts once, where the report counts it.
        if let Some(atom) = self.shape.touched(offset, access.size).next() {
            let unit = self.shape.atoms[usize::from(atom)].unit;
            let key = (unit, access.pc, kind);
            let sum = self.by_instruction.entry(key).or_default();
            sum.count += Accesses::ONE;
            sum.cpus.insert(access.cpu.0);
        }
        Some(Hit {
            base: access.addr.wrapping_sub(offset),
            offset,
            size: access.size,
            kind,
        })
    }

    fn keep(&mut self, hit: &Hit, at: u32, cpu: CpuId) {
        let objects = &mut self.objects;
        // By address: objects that successively had it are one here. The line is the same for the
        // caches as well, so a second object's first accesses cost what they cost in the replay.
        let number = *self.numbers.entry(hit.base).or_insert_with(|| {
            objects.push(ObjectInProgress {
                trace: ObjectTrace {
                    residue: (hit.base.0 % 128) as u8,
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
                // A read by another core since the own write would have turned M into S: the write
                // is then an upgrade.
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
                    round: self.rounds,
                    at,
                    atom,
                    act: Act::new(cpu, hit.kind),
                });
            }
        }
        object.touch.note(cpu, now);
        if hit.kind.writes() {
            object.write.note(cpu, now);
        }
    }

    fn finish(mut self) -> Trace {
        let objects = self.objects.into_iter().map(|o| o.trace);
        // Each object's first use is an event: objects without one were accessed after the trace
        // was cut, or only in padding.
        self.trace.objects = objects.filter(|o| !o.events.is_empty()).collect();
        self.trace.uses = self.by_instruction.into_iter().collect();
        self.trace
    }
}

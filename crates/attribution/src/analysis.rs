//! The two passes over a recording.
//!
//! ```text
//! pass 1   chunks ─► decode (all threads) ─► calls, returns ─► collect (one thread, in order)  ─► Names
//! pass 2   chunks ─► decode, name, count (all threads, any order: counts are sums) ─► Tally
//! ```
//!
//! Results do not depend on the number of threads. Memory is bounded by what is kept (objects, rows), not by the recording's length.

use std::sync::atomic::{AtomicUsize, Ordering};

use linemate_recording::{
    Access, Call, Decoder, Error as RecordingError, EventChunk, Marker, Recording, Return, Visitor,
};
use linemate_types::{ModelError, Symbols, SymbolsError, TypeModel, btf};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use thiserror::Error;

use crate::collect::Collector;
use crate::couse::{CoUse, CoUseCollector};
use crate::map::KernelMap;
use crate::memory::Memory;
use crate::names::Names;
use crate::schema::{Schema, TypeIndex};
use crate::survey::Kernel;
use crate::tally::Tally;

/// Why a recording cannot be analysed.
#[derive(Debug, Error)]
pub enum Error {
    /// The file.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// Its types.
    #[error("the recording's BTF: {0}")]
    Btf(#[from] btf::BtfError),
    /// Its types contradict each other.
    #[error("the recording's types: {0}")]
    Model(#[from] ModelError),
    /// Its symbols.
    #[error("the recording's symbols: {0}")]
    Symbols(#[from] SymbolsError),
}

/// A recording with everything that is needed to name its accesses.
#[derive(Debug)]
pub struct Analysis<'r> {
    recording: &'r Recording,
    model: TypeModel,
    symbols: Symbols,
    names: Names,
    facts: Facts,
}

/// What the first pass met, for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Objects with a lifetime.
    pub objects: u64,
    /// Struct pointers handed to functions.
    pub sightings: u64,
    /// Of those, in stacks and where no object can be.
    pub sightings_unused: u64,
    /// Allocations without a return, and returns without a call.
    pub unpaired: u64,
    /// Slab caches known by name.
    pub caches: u64,
    /// Kernel stacks.
    pub stacks: u64,
}

/// What the second pass counts.
#[derive(Debug)]
pub struct Counted {
    /// Accesses by instruction, subject and offset.
    pub tally: Tally,
    /// Which fields of the chosen type are used together.
    pub co_use: Option<CoUse>,
}

/// What an analysis starts from.
struct Head {
    model: TypeModel,
    symbols: Symbols,
    schema: Schema,
    /// BTF type ids to types.
    types: FxHashMap<u32, TypeIndex>,
    map: KernelMap,
}

impl Head {
    fn read(recording: &Recording) -> Result<Head, Error> {
        let model = btf::parse(&recording.btf()?)?;
        let symbols = Symbols::parse_kallsyms(&String::from_utf8_lossy(&recording.symbols()?))?;
        let (schema, types) = Schema::of_model(&model);
        let (start, stop) = Memory::of(recording)?;
        let kernel = Kernel {
            model: &model,
            schema: &schema,
            types: &types,
            symbols: &symbols,
            start: &start,
            stop: &stop,
        };
        let map = kernel.survey();
        Ok(Head {
            model,
            symbols,
            schema,
            types,
            map,
        })
    }
}

/// Whether a recording's types, symbols and memory images can be read: what [`Analysis::new`] begins with, and refuses a
/// recording for.
///
/// # Errors
/// As [`Analysis::new`].
pub fn check(recording: &Recording) -> Result<(), Error> {
    Head::read(recording).map(drop)
}

impl<'r> Analysis<'r> {
    /// Reads types, symbols and images, and does the first pass.
    ///
    /// # Errors
    /// A recording without types or symbols, or with a damaged chunk.
    pub fn new(recording: &'r Recording) -> Result<Analysis<'r>, Error> {
        let Head {
            model,
            symbols,
            schema,
            types,
            map,
        } = Head::read(recording)?;
        let collected = collect(
            recording,
            &map,
            &types,
            (&table_entries(&model, &types), &symbols),
        )?;
        let facts = Facts {
            objects: collected.objects.len() as u64,
            sightings: collected.sightings,
            sightings_unused: collected.sightings_unused,
            unpaired: collected.unpaired,
            caches: map.caches.len() as u64,
            stacks: collected.stacks.len() as u64,
        };
        let names = Names::new(map, schema, collected);
        Ok(Analysis {
            recording,
            model,
            symbols,
            names,
            facts,
        })
    }

    /// The recording.
    #[must_use]
    pub fn recording(&self) -> &'r Recording {
        self.recording
    }

    /// Its types.
    #[must_use]
    pub fn model(&self) -> &TypeModel {
        &self.model
    }

    /// Its symbols.
    #[must_use]
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// The names of its accesses.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// What the first pass met.
    #[must_use]
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// The second pass: counts every access; and which fields of `co_use_of` are used together.
    ///
    /// # Errors
    /// A damaged chunk.
    pub fn count(&self, co_use_of: Option<TypeIndex>) -> Result<Counted, Error> {
        let chunks = self.recording.chunks();
        let next = AtomicUsize::new(0);
        let fields = co_use_of.map(|ty| CoUse::new(&self.model, self.names.schema(), ty));
        let workers = rayon::current_num_threads().clamp(1, chunks.len().max(1));
        let parts: Vec<Result<Counter<'_>, RecordingError>> = (0..workers)
            .into_par_iter()
            .map(|_| {
                let co_use = fields
                    .as_ref()
                    .map(|f| CoUseCollector::new(f.clone(), &self.names));
                let mut counter = Counter {
                    names: &self.names,
                    tally: Tally::new(),
                    co_use,
                };
                let mut decoder = Decoder::new();
                while let Some(chunk) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(co_use) = &mut counter.co_use {
                        co_use.start_chunk();
                    }
                    self.recording.visit(chunk, &mut decoder, &mut counter)?;
                }
                Ok(counter)
            })
            .collect();
        let mut tally = Tally::new();
        let mut co_use = fields;
        for part in parts {
            let part = part?;
            tally.merge(&part.tally);
            if let (Some(sum), Some(part)) = (&mut co_use, part.co_use) {
                sum.merge(&part.finish());
            }
        }
        Ok(Counted { tally, co_use })
    }
}

/// The types of page-table entries (arch/x86/include/asm/pgtable_types.h). They are typedefs of anonymous structs.
fn table_entries(model: &TypeModel, types: &FxHashMap<u32, TypeIndex>) -> FxHashSet<TypeIndex> {
    let names = ["pte_t", "pmd_t", "pud_t", "p4d_t", "pgd_t"];
    let ids = names
        .iter()
        .filter_map(|name| model.typedef_named(name))
        .map(|id| model.strip(id));
    ids.filter_map(|id| types.get(&id.0)).copied().collect()
}

/// A call or return, as the decoding threads hand it on.
#[derive(Debug)]
enum Step {
    Call(Call),
    Return(Return),
}

#[derive(Debug, Default)]
struct Steps(Vec<Step>);

impl Visitor for Steps {
    fn access(&mut self, _: &Access) {}
    fn call(&mut self, call: &Call) {
        self.0.push(Step::Call(call.clone()));
    }
    fn ret(&mut self, ret: &Return) {
        self.0.push(Step::Return(*ret));
    }
    fn marker(&mut self, _: &Marker) {}
}

fn decode(recording: &Recording, chunks: &[EventChunk]) -> Result<Vec<Steps>, RecordingError> {
    let one = |decoder: &mut Decoder, chunk: &EventChunk| {
        let mut steps = Steps::default();
        recording.visit(chunk, decoder, &mut steps)?;
        Ok(steps)
    };
    chunks.par_iter().map_init(Decoder::new, one).collect()
}

/// Decodes a batch of chunks while the batch before it is taken in: the collector needs the events in order.
fn collect(
    recording: &Recording,
    map: &KernelMap,
    types: &FxHashMap<u32, TypeIndex>,
    (entries, symbols): (&FxHashSet<TypeIndex>, &Symbols),
) -> Result<crate::collect::Collected, RecordingError> {
    let mut collector = Collector::new(recording.functions(), map, types, entries, symbols);
    collector.pointed();
    let batch_size = rayon::current_num_threads().max(1) * 2;
    let mut decoded: Vec<Steps> = Vec::new();
    for batch in recording.chunks().chunks(batch_size) {
        let (next, ()) = rayon::join(
            || decode(recording, batch),
            || take_in(&mut collector, &decoded),
        );
        decoded = next?;
    }
    take_in(&mut collector, &decoded);
    Ok(collector.finish())
}

fn take_in(collector: &mut Collector<'_>, batch: &[Steps]) {
    for step in batch.iter().flat_map(|s| &s.0) {
        match step {
            Step::Call(call) => collector.call(call),
            Step::Return(ret) => collector.returned(ret),
        }
    }
}

/// A thread's part of the second pass.
struct Counter<'n> {
    names: &'n Names,
    tally: Tally,
    co_use: Option<CoUseCollector<'n>>,
}

impl Visitor for Counter<'_> {
    #[inline]
    fn access(&mut self, access: &Access) {
        let at = self.names.locate(access);
        self.tally.count(self.names, access, &at);
        if let Some(co_use) = &mut self.co_use {
            co_use.access(access, &at);
        }
    }
    fn call(&mut self, _: &Call) {}
    fn ret(&mut self, _: &Return) {}
    fn marker(&mut self, _: &Marker) {}
}

//! The two passes over a recording.
//!
//! ```text
//! pass 1   chunks ─► decode (all threads) ─► calls, returns ─► collect (one thread, in order)  ─► Names
//! pass 2   chunks ─► decode, name, count (all threads, any order: counts are sums) ─► Counted
//! ```
//!
//! Results do not depend on the number of threads. Memory is bounded by what is kept (objects, rows), not by the recording's length.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use linemate_recording::{
    Access, Call, Decoder, Error as RecordingError, EventChunk, Marker, Recording, Return, Visitor,
};
use linemate_types::{ModelError, Symbols, SymbolsError, TypeModel, btf};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::collect::Collector;
use crate::counted::{Counted, Counter};
use crate::couse::FieldTables;
use crate::map::{KernelMap, PercpuAreas};
use crate::memory::KernelMemory;
use crate::names::Names;
use crate::passes::visit_chunks;
use crate::schema::{Schema, TypeIndex};
use crate::subjects::Subject;
use crate::survey::KernelView;

/// Why a recording cannot be analysed.
#[derive(Debug, Error)]
pub enum AnalysisError {
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
///
/// Names are the work of a pass. Whoever has kept the [`Directory`] of an earlier analysis starts with [`Analysis::known`], and the pass
/// is done when somebody asks where an access went, if ever.
#[derive(Debug)]
pub struct Analysis<'r> {
    recording: &'r Recording,
    head: Head,
    directory: Directory,
    names: OnceLock<Names>,
}

/// What a recording's accesses can be counted for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directory {
    /// By [`crate::SubjectId`].
    pub subjects: Vec<Subject>,
    /// How many tracked objects (heap, per-CPU copies, pages) turned out to be of a type.
    pub objects: BTreeMap<TypeIndex, u64>,
    /// What the first pass met.
    pub facts: AnalysisFacts,
    /// Where per-CPU memory is.
    pub percpu: PercpuAreas,
}

/// What the first pass met, for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnalysisFacts {
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

/// What an analysis starts from.
#[derive(Debug)]
struct Head {
    model: TypeModel,
    symbols: Symbols,
    schema: Schema,
    /// BTF type ids to types.
    types: FxHashMap<u32, TypeIndex>,
}

impl Head {
    fn read(recording: &Recording) -> Result<Head, AnalysisError> {
        let model = btf::parse(&recording.btf()?)?;
        let symbols = Symbols::parse_kallsyms(&String::from_utf8_lossy(&recording.symbols()?))?;
        let (schema, types) = Schema::of_model(&model);
        Ok(Head {
            model,
            symbols,
            schema,
            types,
        })
    }

    /// What the memory images show of the kernel.
    fn map(&self, recording: &Recording) -> Result<KernelMap, RecordingError> {
        let (start, stop) = KernelMemory::of(recording)?;
        let kernel = KernelView {
            model: &self.model,
            schema: &self.schema,
            types: &self.types,
            symbols: &self.symbols,
            start: &start,
            stop: &stop,
        };
        Ok(kernel.survey())
    }
}

/// Whether a recording's types, symbols and memory images can be read: what [`Analysis::new`] begins with, and refuses a
/// recording for.
///
/// # Errors
/// As [`Analysis::new`].
pub fn check(recording: &Recording) -> Result<(), AnalysisError> {
    Head::read(recording)?.map(recording)?;
    Ok(())
}

impl<'r> Analysis<'r> {
    /// Reads types, symbols and images, and does the first pass.
    ///
    /// # Errors
    /// A recording without types or symbols, or with a damaged chunk.
    pub fn new(recording: &'r Recording) -> Result<Analysis<'r>, AnalysisError> {
        Analysis::new_telling(recording, &|_| ())
    }

    /// The same, telling how many more chunks are read each time that some are.
    ///
    /// # Errors
    /// As [`Analysis::new`].
    pub fn new_telling(
        recording: &'r Recording,
        done: &(dyn Fn(u64) + Sync),
    ) -> Result<Analysis<'r>, AnalysisError> {
        let mut analysis = Analysis::known(recording, Directory::default())?;
        let (names, directory) = analysis.first_pass(done)?;
        analysis.directory = directory;
        analysis.names = OnceLock::from(names);
        Ok(analysis)
    }

    /// Reads types and symbols of a recording of which an earlier analysis by the same program has given the directory.
    ///
    /// # Errors
    /// A recording without types or symbols.
    pub fn known(
        recording: &'r Recording,
        directory: Directory,
    ) -> Result<Analysis<'r>, AnalysisError> {
        Ok(Analysis {
            recording,
            head: Head::read(recording)?,
            directory,
            names: OnceLock::new(),
        })
    }

    fn first_pass(
        &self,
        done: &(dyn Fn(u64) + Sync),
    ) -> Result<(Names, Directory), RecordingError> {
        let map = self.head.map(self.recording)?;
        let Head {
            model,
            symbols,
            schema,
            types,
        } = &self.head;
        let entries = table_entries(model, types);
        let collected = collect(self.recording, &map, types, (&entries, symbols), done)?;
        let facts = AnalysisFacts {
            objects: collected.objects.len() as u64,
            sightings: collected.sightings,
            sightings_unused: collected.sightings_unused,
            unpaired: collected.unpaired,
            caches: map.caches.len() as u64,
            stacks: collected.stacks.len() as u64,
        };
        let percpu = map.percpu.clone();
        let (names, objects) = Names::new(map, schema, collected);
        let directory = Directory {
            subjects: names.subjects().to_vec(),
            objects,
            facts,
            percpu,
        };
        Ok((names, directory))
    }

    /// The recording.
    #[must_use]
    pub fn recording(&self) -> &'r Recording {
        self.recording
    }

    /// Its types.
    #[must_use]
    pub fn model(&self) -> &TypeModel {
        &self.head.model
    }

    /// Its types as attribution tells them apart.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.head.schema
    }

    /// Its symbols.
    #[must_use]
    pub fn symbols(&self) -> &Symbols {
        &self.head.symbols
    }

    /// What its accesses can be counted for, by [`crate::SubjectId`].
    #[must_use]
    pub fn subjects(&self) -> &[Subject] {
        &self.directory.subjects
    }

    /// How many tracked objects (heap, per-CPU copies, pages) turned out to be of this type.
    #[must_use]
    pub fn object_count(&self, ty: TypeIndex) -> u64 {
        self.directory.objects.get(&ty).copied().unwrap_or(0)
    }

    /// What the first pass met.
    #[must_use]
    pub fn facts(&self) -> AnalysisFacts {
        self.directory.facts
    }

    /// What [`Analysis::known`] starts from.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The names of its accesses: by a pass over the recording, if nobody has asked before.
    ///
    /// # Errors
    /// A damaged chunk.
    pub fn names(&self) -> Result<&Names, RecordingError> {
        if let Some(names) = self.names.get() {
            return Ok(names);
        }
        let (names, _) = self.first_pass(&|_| ())?;
        Ok(self.names.get_or_init(|| names))
    }

    /// The second pass: counts every access.
    ///
    /// # Errors
    /// A damaged chunk.
    pub fn count(&self) -> Result<Counted, RecordingError> {
        self.count_telling(&|_| ())
    }

    /// The same, telling how many more chunks are read each time that some are.
    ///
    /// # Errors
    /// As [`Analysis::count`].
    pub fn count_telling(&self, done: &(dyn Fn(u64) + Sync)) -> Result<Counted, RecordingError> {
        let names = self.names()?;
        let fields = FieldTables::new(self.model(), self.schema(), self.subjects());
        let grid = self.recording.time_grid();
        let functions = self.recording.functions().functions.len();
        let make = || Counter::new(names, &fields, grid, functions);
        let parts = visit_chunks(self.recording, make, Counter::start_chunk, done)?;
        let mut sum = Counted::default();
        for part in parts {
            sum.merge(part.finish());
        }
        Ok(sum)
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
enum CallEvent {
    Call(Call),
    Return(Return),
}

#[derive(Debug, Default)]
struct Steps(Vec<CallEvent>);

impl Visitor for Steps {
    fn access(&mut self, _: &Access) {}
    fn call(&mut self, call: &Call) {
        self.0.push(CallEvent::Call(call.clone()));
    }
    fn ret(&mut self, ret: &Return) {
        self.0.push(CallEvent::Return(*ret));
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
    done: &(dyn Fn(u64) + Sync),
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
        done(batch.len() as u64);
    }
    take_in(&mut collector, &decoded);
    Ok(collector.finish())
}

fn take_in(collector: &mut Collector<'_>, batch: &[Steps]) {
    for step in batch.iter().flat_map(|s| &s.0) {
        match step {
            CallEvent::Call(call) => collector.call(call),
            CallEvent::Return(ret) => collector.returned(ret),
        }
    }
}

//! The passes over a recording: two, and one more if programs are recorded.
//!
//! ```text
//! pass 1   chunks ─► decode (all threads) ─► calls, returns ─► collect (one thread, in order)  ─► Names
//! pass 2   chunks ─► decode, name, count (all threads, any order: counts are sums) ─► Counted
//! ```
//!
//! Results do not depend on the number of threads. Memory is bounded by what is stored (objects,
//! rows), not by the recording's length.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use linemate_dwarf::demangled;
use linemate_programs::{Programs, ProgramsError};
use linemate_recording::{
    Access, Call, Decoder, Error as RecordingError, EventChunk, FunctionTable, GuestAddr, Marker,
    Recording, Return, Role, Visitor,
};
use linemate_types::{ModelError, Symbol, Symbols, SymbolsError, Type, TypeId, TypeModel, btf};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::bitmap::Bitmaps;
use crate::collect::{Collected, Collector};
use crate::counted::{Counted, Counter};
use crate::couse::FieldTables;
use crate::map::{KernelMap, PercpuAreas};
use crate::memory::KernelMemory;
use crate::names::{Names, ProgramParts};
use crate::passes::visit_chunks;
use crate::programs::{
    CodeTable, DebugInformation, Descriptions, Evidence, Gather, Heap, LastCall, Processes,
    ProgramFacts, ProgramFindings, StackWatch, UserPlaces,
};
use crate::schema::{Schema, TypeIndex};
use crate::source::SourcePlaces;
use crate::subjects::Subject;
use crate::survey::KernelView;

/// Why a recording cannot be analysed.
#[derive(Debug, Error)]
pub enum AnalysisError {
    #[error(transparent)]
    Recording(#[from] RecordingError),
    #[error("the recording's BTF: {0}")]
    Btf(#[from] btf::BtfError),
    /// Its types contradict each other.
    #[error("the recording's types: {0}")]
    Model(#[from] ModelError),
    #[error("the recording's programs: {0}")]
    Programs(#[from] ProgramsError),
    #[error("the recording's symbols: {0}")]
    Symbols(#[from] SymbolsError),
}

/// A recording with everything needed to name its accesses.
///
/// Names take a pass to compute. A caller that has the [`Directory`] of an earlier analysis starts
/// with [`Analysis::known`], and the pass is only done if somebody asks where an access went.
#[derive(Debug)]
pub struct Analysis<'r> {
    recording: &'r Recording,
    head: Head,
    directory: Directory,
    names: Mutex<Option<Arc<Names>>>,
}

/// What a recording's accesses can be counted for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directory {
    /// What accesses are counted for, by [`crate::SubjectId`].
    pub subjects: Vec<Subject>,
    /// The statistics of the first pass.
    pub facts: AnalysisFacts,
    /// Where per-CPU memory is.
    pub percpu: PercpuAreas,
}

/// Statistics of the first pass, for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnalysisFacts {
    /// Objects with a lifetime.
    pub objects: u64,
    /// Struct pointers passed to functions.
    pub sightings: u64,
    /// Of those, in stacks and where no object can be.
    pub sightings_unused: u64,
    /// Allocations without a return, and returns without a call.
    pub unpaired: u64,
    /// Slab caches known by name.
    pub caches: u64,
    /// Kernel stacks on which a call was made.
    pub stacks: u64,
}

/// The inputs of an analysis.
#[derive(Debug)]
struct Head {
    model: TypeModel,
    symbols: Symbols,
    schema: Schema,
    /// BTF type ids to types.
    types: FxHashMap<u32, TypeIndex>,
    /// If programs are recorded.
    programs: Option<ProgramHead>,
}

/// Bytes of a pointer, x86-64.
const POINTER_SIZE: u32 = 8;

/// What is known about programs before the first pass.
#[derive(Debug)]
struct ProgramHead {
    programs: Programs,
    descriptions: Descriptions,
    /// By described file: its types in the joint model.
    ids: Vec<Vec<TypeId>>,
    information: OnceLock<CodeInformation>,
}

/// What programs' code shows, for naming accesses.
#[derive(Debug)]
struct CodeInformation {
    debug: DebugInformation,
    code: CodeTable,
}

impl ProgramHead {
    fn facts(
        &self,
        recording: &Recording,
        types: &FxHashMap<u32, TypeIndex>,
        symbols: &Symbols,
    ) -> ProgramFacts<'_> {
        let information = self.information.get_or_init(|| {
            let debug = self.descriptions.resolve(&self.programs, &self.ids, types);
            let code = CodeTable::new(recording, &self.programs, &debug, symbols);
            CodeInformation { debug, code }
        });
        ProgramFacts {
            programs: &self.programs,
            debug: &information.debug,
            code: &information.code,
        }
    }
}

impl Head {
    fn read(recording: &Recording) -> Result<Head, AnalysisError> {
        let model = match recording.description().kernel_unnamed {
            // Without the kernel's types even if the file has some: a recording of programs alone
            // says nothing about kernel objects.
            true => TypeModel::new(vec![Type::Void], POINTER_SIZE)?,
            false => btf::parse(&recording.btf()?)?,
        };
        let symbols = Symbols::parse_kallsyms(&String::from_utf8_lossy(&recording.symbols()?))?;
        let programs = Programs::of(recording)?;
        if programs.is_empty() {
            let (schema, types) = Schema::of_model(&model);
            return Ok(Head {
                model,
                symbols,
                schema,
                types,
                programs: None,
            });
        }
        let symbols = symbols.with_programs(functions_of(recording, &programs));
        let descriptions = Descriptions::read(recording, &programs);
        let (model, ids) = descriptions.joined(&model, &programs)?;
        let (schema, types) = Schema::of_model(&model);
        let programs = Some(ProgramHead {
            programs,
            descriptions,
            ids,
            information: OnceLock::new(),
        });
        Ok(Head {
            programs,
            model,
            symbols,
            schema,
            types,
        })
    }

    /// What the memory images show about the kernel.
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
        Ok(match recording.description().kernel_unnamed {
            true => kernel.unnamed(),
            false => kernel.survey(),
        })
    }
}

/// Whether a recording's types, symbols and memory images can be read: the first step of
/// [`Analysis::new`], and its reasons to refuse a recording.
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
        Analysis::new_with_progress(recording, &|_| ())
    }

    /// The same, calling `done` with the number of chunks read since the previous call.
    ///
    /// # Errors
    /// As [`Analysis::new`].
    pub fn new_with_progress(
        recording: &'r Recording,
        done: &(dyn Fn(u64) + Sync),
    ) -> Result<Analysis<'r>, AnalysisError> {
        let mut analysis = Analysis::known(recording, Directory::default())?;
        let (names, directory) = analysis.first_pass(done)?;
        analysis.directory = directory;
        analysis.names = Mutex::new(Some(Arc::new(names)));
        Ok(analysis)
    }

    /// Reads types and symbols of a recording for which an earlier analysis by the same program
    /// gave the directory.
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
            names: Mutex::new(None),
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
            programs,
        } = &self.head;
        let entries = table_entries(model, types);
        let functions = self.recording.functions();
        let collector = Collector::new(functions, &map, types, &entries, symbols);
        let known = programs.as_ref();
        let known = known.map(|head| head.facts(self.recording, types, symbols));
        let seen = known.map(|_| ProgramsSeen::new(&map, self.recording.functions()));
        let code = known.map(|facts| facts.code);
        let (collected, seen) = collect(self.recording, collector, code, seen, done)?;
        let facts = AnalysisFacts {
            objects: collected.objects.len() as u64,
            sightings: collected.sightings,
            sightings_unused: collected.sightings_unused,
            unpaired: collected.unpaired,
            caches: map.caches.len() as u64,
            stacks: collected.stacks.len() as u64,
        };
        let percpu = map.percpu.clone();
        let programs = known.zip(seen).map(|(facts, seen)| {
            let found = evidence(self.recording, facts, seen)?;
            Ok::<_, RecordingError>(ProgramParts { facts, found })
        });
        let names = Names::new(map, schema, collected, programs.transpose()?);
        let directory = Directory {
            subjects: names.subjects().to_vec(),
            facts,
            percpu,
        };
        Ok((names, directory))
    }

    #[must_use]
    pub fn recording(&self) -> &'r Recording {
        self.recording
    }

    /// Whether the recording has the order of the CPUs' accesses, so that hand-overs are known: not
    /// if each CPU was recorded on its own.
    #[must_use]
    pub fn knows_order(&self) -> bool {
        is_ordered(self.recording)
    }

    #[must_use]
    pub fn model(&self) -> &TypeModel {
        &self.head.model
    }

    /// Its types as attribution distinguishes them.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.head.schema
    }

    /// The struct or union that an id of its types refers to, without typedefs and qualifiers.
    #[must_use]
    pub fn type_index(&self, id: TypeId) -> Option<TypeIndex> {
        self.head.types.get(&self.head.model.strip(id).0).copied()
    }

    #[must_use]
    pub fn symbols(&self) -> &Symbols {
        &self.head.symbols
    }

    /// Where its instructions are in the source of programs: read from their debug information each
    /// time.
    #[must_use]
    pub fn source_places(&self) -> SourcePlaces {
        let programs = self.head.programs.as_ref();
        programs.map_or_else(SourcePlaces::default, |head| {
            SourcePlaces::read(self.recording, &head.programs)
        })
    }

    /// What its accesses can be counted for, by [`crate::SubjectId`].
    #[must_use]
    pub fn subjects(&self) -> &[Subject] {
        &self.directory.subjects
    }

    /// The statistics of the first pass.
    #[must_use]
    pub fn facts(&self) -> AnalysisFacts {
        self.directory.facts
    }

    /// The input of [`Analysis::known`].
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The names of its accesses: by a pass over the recording, at the first call.
    ///
    /// # Errors
    /// A damaged chunk.
    pub fn names(&self) -> Result<Arc<Names>, RecordingError> {
        // Names are set whole, so a thread that panicked left none or all.
        let lock = || self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(names) = &*lock() {
            return Ok(Arc::clone(names));
        }
        // Without the lock: the pass runs on the pool, whose threads may ask for names meanwhile.
        let (found, _) = self.first_pass(&|_| ())?;
        Ok(Arc::clone(lock().get_or_insert_with(|| Arc::new(found))))
    }

    /// Gives the names' memory back. The next call of [`Analysis::names`] does a pass again, and
    /// the names then stay: costs for advice and lines of a second size need them.
    pub fn forget_names(&self) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        *names = None;
    }

    /// The second pass: counts every access.
    ///
    /// # Errors
    /// A damaged chunk.
    pub fn count(&self) -> Result<Counted, RecordingError> {
        self.count_with_progress(&|_| ())
    }

    /// The same, calling `done` with the number of chunks read since the previous call.
    ///
    /// # Errors
    /// As [`Analysis::count`].
    pub fn count_with_progress(
        &self,
        done: &(dyn Fn(u64) + Sync),
    ) -> Result<Counted, RecordingError> {
        let names = self.names()?;
        let fields = FieldTables::new(self.model(), self.schema(), self.subjects());
        let grid = self.recording.time_grid();
        let functions = self.recording.functions().functions.len();
        let bitmaps = Bitmaps::new(self.model(), self.schema(), self.subjects());
        let make = || Counter::new(&names, &fields, &bitmaps, grid, functions);
        let parts = visit_chunks(self.recording, make, Counter::start_chunk, done)?;
        let mut sum = Counted::default();
        for part in parts {
            sum.merge(part.finish());
        }
        Ok(sum)
    }
}

/// The types of page-table entries (arch/x86/include/asm/pgtable_types.h). They are typedefs of
/// anonymous structs.
fn table_entries(model: &TypeModel, types: &FxHashMap<u32, TypeIndex>) -> FxHashSet<TypeIndex> {
    let names = ["pte_t", "pmd_t", "pud_t", "p4d_t", "pgd_t"];
    let ids = names
        .iter()
        .filter_map(|name| model.typedef_named(name))
        .map(|id| model.strip(id));
    ids.filter_map(|id| types.get(&id.0)).copied().collect()
}

/// The functions of all programs, at their code addresses.
fn functions_of(recording: &Recording, programs: &Programs) -> Vec<(Symbol, u64)> {
    let mut all = Vec::new();
    for (file, image) in programs.images() {
        // Of several symbols at one address (aliases, weak ones), the one that the file's own
        // look-up gives, so that a function has one name everywhere.
        let named = |f: &&linemate_programs::Symbol| image.function_at(f.address) == Some(*f);
        for function in image.functions.iter().filter(named) {
            let offset = image.offset_of(function.address);
            let code = offset.and_then(|o| recording.programs().code_address(file, o));
            if let Some(GuestAddr(address)) = code {
                let symbol = Symbol {
                    address,
                    letter: 't',
                    name: demangled(&function.name).unwrap_or_else(|| function.name.clone()),
                    module: Some(image.name().to_owned()),
                };
                all.push((symbol, address.saturating_add(function.size.max(1))));
            }
        }
    }
    all
}

/// An event, as the decoding threads pass it on.
#[derive(Debug)]
enum PassStep {
    Call(Call),
    /// Of a program's function, with the instruction that calls it.
    ProgramCall(Call, Option<GuestAddr>),
    Return(Return),
    Marker(Marker),
}

/// What the first pass takes from a chunk.
#[derive(Debug)]
struct Steps<'a> {
    steps: Vec<PassStep>,
    /// If programs are recorded.
    code: Option<&'a CodeTable>,
    last: LastCall,
    table: &'a FunctionTable,
    /// Functions below this number are programs'.
    programs: u32,
}

impl Visitor for Steps<'_> {
    #[inline]
    fn access(&mut self, access: &Access) {
        if let Some(code) = self.code {
            self.last.access(code, access);
        }
    }
    fn call(&mut self, call: &Call) {
        if call.function.0 >= self.programs {
            self.steps.push(PassStep::Call(call.clone()));
            return;
        }
        let site = self.code.and_then(|code| self.last.of(code, call));
        let role = self.table.functions[call.function.0 as usize].role;
        if role != Role::VirtualAlloc || self.code.is_some_and(|code| code.maps(site)) {
            self.steps.push(PassStep::ProgramCall(call.clone(), site));
        }
    }
    fn ret(&mut self, ret: &Return) {
        self.steps.push(PassStep::Return(*ret));
    }
    fn marker(&mut self, marker: &Marker) {
        if self.code.is_some() {
            self.steps.push(PassStep::Marker(*marker));
        }
    }
}

fn decode(
    recording: &Recording,
    chunks: &[EventChunk],
    code: Option<&CodeTable>,
    programs: u32,
) -> Result<Vec<Vec<PassStep>>, RecordingError> {
    let one = |decoder: &mut Decoder, chunk: &EventChunk| {
        let mut steps = Steps {
            steps: Vec::new(),
            code,
            last: LastCall::default(),
            table: recording.functions(),
            programs,
        };
        recording.visit(chunk, decoder, &mut steps)?;
        Ok(steps.steps)
    };
    chunks.par_iter().map_init(Decoder::new, one).collect()
}

fn is_ordered(recording: &Recording) -> bool {
    let mut lanes = recording.chunks().iter().map(|chunk| chunk.summary.lane);
    let first = lanes.next();
    lanes.all(|lane| Some(lane) == first)
}

/// What the first pass has seen of programs.
struct ProgramsSeen {
    places: UserPlaces,
    processes: Processes,
    heap: Heap,
}

impl ProgramsSeen {
    fn new(map: &KernelMap, table: &FunctionTable) -> ProgramsSeen {
        ProgramsSeen {
            places: UserPlaces::new(map.direct_map.start),
            processes: Processes::new(table),
            heap: Heap::default(),
        }
    }

    fn kernel_call(&mut self, call: &Call) {
        if let Some(fork) = self.processes.call(&mut self.places, call) {
            self.heap.forked(fork);
        }
    }

    fn mark(&mut self, marker: &Marker) {
        self.places.mark(marker);
        self.processes.mark(marker);
    }
}

/// Handles the decoded events, in order.
struct TakeIn<'a> {
    collector: Collector<'a>,
    table: &'a FunctionTable,
    /// Functions below this number are programs'.
    programs: u32,
    seen: Option<ProgramsSeen>,
}

impl TakeIn<'_> {
    fn take(&mut self, steps: &[Vec<PassStep>]) {
        for step in steps.iter().flatten() {
            match (step, &mut self.seen) {
                (PassStep::Call(call), seen) => {
                    self.collector.call(call);
                    if let Some(seen) = seen {
                        seen.kernel_call(call);
                    }
                }
                (PassStep::ProgramCall(call, site), Some(seen)) => {
                    seen.heap.call(self.table, &seen.places, call, *site);
                }
                (PassStep::Return(ret), Some(seen)) if ret.function.0 < self.programs => {
                    seen.heap.returned(&seen.places, ret);
                }
                (PassStep::Return(ret), _) => self.collector.returned(ret),
                (PassStep::Marker(marker), Some(seen)) => seen.mark(marker),
                (PassStep::ProgramCall(..) | PassStep::Marker(_), None) => {}
            }
        }
    }
}

/// Decodes a batch of chunks while the previous batch is processed: the collector needs the events
/// in order.
fn collect(
    recording: &Recording,
    collector: Collector<'_>,
    code: Option<&CodeTable>,
    seen: Option<ProgramsSeen>,
    done: &(dyn Fn(u64) + Sync),
) -> Result<(Collected, Option<ProgramsSeen>), RecordingError> {
    let table = recording.functions();
    // The table is sorted, and programs' code addresses are below the kernel's.
    let programs = table.functions.partition_point(|f| f.entry.0 >> 63 == 0) as u32;
    let mut taken = TakeIn {
        collector,
        table,
        programs,
        seen,
    };
    // Before the first event: what is pointed to existed when recording started.
    taken.collector.pointed();
    // Two chunks per thread: the collector processes one batch while the next is decoded, and the
    // decoded steps of two batches are in memory.
    let batch_size = rayon::current_num_threads().max(1) * 2;
    let mut decoded: Vec<Vec<PassStep>> = Vec::new();
    for batch in recording.chunks().chunks(batch_size) {
        let (next, ()) = rayon::join(
            || decode(recording, batch, code, programs),
            || taken.take(&decoded),
        );
        decoded = next?;
        done(batch.len() as u64);
    }
    taken.take(&decoded);
    Ok((taken.collector.finish(), taken.seen))
}

/// The pass over programs' accesses.
fn evidence(
    recording: &Recording,
    facts: ProgramFacts<'_>,
    seen: ProgramsSeen,
) -> Result<ProgramFindings, RecordingError> {
    let ProgramsSeen {
        places, mut heap, ..
    } = seen;
    let index = heap.index();
    let make = || Gather {
        programs: facts.programs,
        code: facts.code,
        places: &places,
        heap: &index,
        debug: facts.debug,
        watch: StackWatch::default(),
        found: Evidence::default(),
    };
    let mut evidence = Evidence::default();
    // A separate pass, because an access's evidence needs the object it goes to, which may die in a
    // later chunk.
    for mut part in visit_chunks(recording, make, Gather::end_chunk, &|_| ())? {
        part.end_chunk();
        evidence.merge(part.found);
    }
    evidence.prune();
    // Without the order of the CPUs' accesses nothing says which frame another thread's access met.
    if !is_ordered(recording) {
        evidence.looks.clear();
    }
    Ok(ProgramFindings {
        places,
        heap,
        index,
        evidence,
    })
}

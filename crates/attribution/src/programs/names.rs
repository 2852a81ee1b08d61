//! Where a program's access went.

use std::collections::{BTreeMap, BTreeSet};

use linemate_programs::{ElfAddr, Image, Programs};
use linemate_recording::{Access, CODE_PAGE, GuestAddr};
use rustc_hash::{FxHashMap, FxHashSet};

use super::code::Code;
use super::debug::{DebugInformation, DebugVariable, Pointee};
use super::evidence::Evidence;
use super::heap::Heap;
use super::places::{Places, Space, UserAddr};
use super::scalars::{self, Alike};
use super::stack::StackNames;
use crate::index::{LifetimeIndex, ObjectId, Tenant};
use crate::kinds::{FormId, KindId, ObjectKind};
use crate::ledger::Bucket;
use crate::schema::{Schema, TypeIndex};
use crate::subjects::{Extent, Subject, SubjectId, Subjects, bare, clip, find};
use crate::votes::Placement;

/// Bytes above the thread pointer that are the C library's own (`struct pthread` of glibc 2.31 to 2.41 has 2304 or 2368 on x86-64).
const THREAD_BLOCK: u64 = 2368;

/// Where an access went: what it is counted for, and the place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InProgram {
    pub(crate) subject: SubjectId,
    /// Bytes from the start of the type or variable.
    pub(crate) offset: u32,
    /// Whether the object has a first byte that tells it from its siblings.
    pub(crate) object: bool,
}

/// A variable, with its subject.
#[derive(Clone, Debug)]
struct Variable {
    start: u64,
    size: u64,
    /// Bytes of an element; 0 where it is no array of structs.
    stride: u64,
    subject: SubjectId,
}

/// The variables of a file.
#[derive(Debug, Default)]
struct FileNames {
    variables: Vec<Variable>,
    thread_locals: Vec<Variable>,
}

/// A part of a file as it is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mapped {
    start: u64,
    end: u64,
    /// What is subtracted from an address to get the file's own.
    base: u64,
    file: u32,
}

/// The threads of a space.
#[derive(Debug, Default)]
struct Threads {
    /// Their thread pointers, ascending.
    pointers: Vec<u64>,
    /// The program, and how far below a thread pointer its thread-local variables begin.
    program: Option<(u32, u64)>,
}

/// Answers where programs' accesses went.
#[derive(Debug)]
pub(crate) struct ProgramNames {
    places: Places,
    heap: LifetimeIndex,
    /// By object: its form, and what no placement covers.
    objects: Vec<(FormId, SubjectId)>,
    forms: Vec<Vec<Extent>>,
    files: Vec<FileNames>,
    /// By space, each by address.
    mapped: FxHashMap<Space, Vec<Mapped>>,
    threads: FxHashMap<Space, Threads>,
    stacks: FxHashSet<(Space, u64)>,
    on_stacks: StackNames,
    stack: SubjectId,
    thread_block: SubjectId,
    file: SubjectId,
    unknown: SubjectId,
}

/// Where things are that `ProgramNames` is made of.
pub(crate) struct Found {
    pub(crate) places: Places,
    pub(crate) heap: Heap,
    pub(crate) index: LifetimeIndex,
    pub(crate) evidence: Evidence,
}

impl ProgramNames {
    /// Settles what was found; also how many objects there are of each type.
    pub(crate) fn new(
        (programs, debug, code): (&Programs, &DebugInformation, &Code),
        schema: &Schema,
        subjects: &mut Subjects,
        found: Found,
    ) -> (ProgramNames, BTreeMap<TypeIndex, u64>) {
        let Found {
            places,
            mut heap,
            index,
            evidence,
        } = found;
        for (id, object) in (0u32..).zip(&mut heap.objects) {
            let silent = crate::votes::Votes::default();
            let votes = evidence.votes.get(&ObjectId(id)).unwrap_or(&silent);
            object.signature = heap.kinds.retire(object.kind, votes);
        }
        let declared = declared(&heap, (debug, code));
        for (kind, of) in &declared {
            if let Pointee::Struct(ty) = of {
                heap.kinds.declare(*kind, *ty);
            }
        }
        let mut settler = heap.kinds.settle(schema);
        let object_forms: Vec<FormId> = heap
            .objects
            .iter()
            .map(|o| settler.form(schema, o.kind, o.signature))
            .collect();
        let settled = settler.finish();
        let mut counts: BTreeMap<TypeIndex, u64> = BTreeMap::new();
        for form in &object_forms {
            let types: BTreeSet<TypeIndex> = settled.forms[form.0 as usize]
                .iter()
                .map(|p| p.ty)
                .collect();
            for ty in types {
                *counts.entry(ty).or_default() += 1;
            }
        }
        let forms = settled
            .forms
            .iter()
            .map(|form| extents(subjects, form))
            .collect();
        let alike = heap.objects.iter().zip(&object_forms);
        let alike: Vec<Alike> = alike.map(|(o, form)| (o.kind, *form)).collect();
        let structs = alike
            .iter()
            .filter(|(_, form)| !settled.forms[form.0 as usize].is_empty())
            .map(|(kind, _)| *kind)
            .collect();
        let numbers = |of: &Pointee| match of {
            Pointee::Scalar(name) => Some(*name),
            Pointee::Struct(_) => None,
        };
        let arrays = scalars::settle(&heap, &structs, &evidence.scalars);
        let forms_of = (&*object_forms, &*settled.forms);
        let beside = scalars::beside(&heap, forms_of, &evidence.scalars, &evidence.votes);
        let rest: BTreeMap<Alike, SubjectId> = alike
            .iter()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .map(|of| {
                let array = declared.get(&of.0).and_then(numbers);
                let array = array.or_else(|| arrays.get(&of.0).or_else(|| beside.get(of)).copied());
                let array = array.map(|name| &*debug.scalars[name.0 as usize]);
                (*of, rest_of(subjects, heap.kinds.get(of.0), array))
            })
            .collect();
        let objects = alike.iter().map(|of| (of.1, rest[of])).collect();
        let files = file_names(programs, debug, schema, subjects);
        let whole = |subjects: &mut Subjects, bucket| subjects.number(of_program(bucket));
        let reached = evidence.beside_heap.iter().map(|(pc, ..)| *pc);
        let on_stacks = StackNames::new(reached, (code, debug), schema, subjects);
        let names = ProgramNames {
            places,
            on_stacks,
            heap: index,
            objects,
            forms,
            files,
            mapped: mapped(programs, &evidence),
            threads: threads(programs, &evidence),
            stacks: evidence.stacks.iter().copied().collect(),
            stack: whole(subjects, Bucket::ProgramStack),
            thread_block: subjects.number(Subject {
                label: "(thread control block)".to_owned(),
                of_threads: true,
                ..of_program(Bucket::GlobalNamed)
            }),
            file: whole(subjects, Bucket::ProgramFile),
            unknown: whole(subjects, Bucket::UnknownUser),
        };
        (names, counts)
    }

    /// Where an access through a user mapping went; `None` where it is not known in which process it was.
    pub(crate) fn locate(&self, access: &Access) -> Option<InProgram> {
        let at = self.places.of(access)?;
        let flat = at.flat();
        if let Tenant::Alive { object, start } = self.heap.at(flat, access.time) {
            return Some(self.in_object(object, flat.0 - start.0));
        }
        if let Some(found) = self.in_file(at).or_else(|| self.in_thread(at)) {
            return Some(found);
        }
        let whole = |subject| InProgram {
            subject,
            offset: 0,
            object: false,
        };
        if !self.stacks.contains(&(at.space, at.addr / CODE_PAGE)) {
            return Some(whole(self.unknown));
        }
        let named = self.on_stacks.at(access);
        Some(named.unwrap_or_else(|| whole(self.stack)))
    }

    fn in_object(&self, object: ObjectId, offset: u64) -> InProgram {
        let (form, rest) = self.objects[object.0 as usize];
        match find(&self.forms[form.0 as usize], offset) {
            Some(extent) => {
                let within = offset - extent.start;
                InProgram {
                    subject: extent.subject,
                    offset: clip(within.checked_rem(extent.stride).unwrap_or(within)),
                    object: true,
                }
            }
            None => InProgram {
                subject: rest,
                offset: clip(offset),
                object: true,
            },
        }
    }

    fn in_file(&self, at: UserAddr) -> Option<InProgram> {
        let list = self.mapped.get(&at.space)?;
        let after = list.partition_point(|mapped| mapped.start <= at.addr);
        let mapped = list.get(after.checked_sub(1)?)?;
        if at.addr >= mapped.end {
            return None;
        }
        let variables = &self.files[mapped.file as usize].variables;
        Some(
            in_variable(variables, at.addr - mapped.base).unwrap_or(InProgram {
                subject: self.file,
                offset: 0,
                object: false,
            }),
        )
    }

    fn in_thread(&self, at: UserAddr) -> Option<InProgram> {
        let Threads {
            pointers: threads,
            program,
        } = self.threads.get(&at.space)?;
        let after = threads.partition_point(|thread| *thread <= at.addr);
        if let Some(thread) = after.checked_sub(1).map(|i| threads[i]) {
            let offset = at.addr - thread;
            if offset < THREAD_BLOCK {
                return Some(InProgram {
                    subject: self.thread_block,
                    offset: clip(offset),
                    object: true,
                });
            }
        }
        let (file, size) = (*program)?;
        let below = threads.get(after)? - at.addr;
        let offset = size.checked_sub(below)?;
        in_variable(&self.files[file as usize].thread_locals, offset)
    }
}

/// What the code that asks for the objects of a kind says that they hold, by kind.
fn declared(heap: &Heap, (debug, code): (&DebugInformation, &Code)) -> BTreeMap<KindId, Pointee> {
    let kinds = (0u32..).map(KindId).take(heap.kinds.len());
    let declared = kinds.filter_map(|kind| {
        let call = code.at(heap.kinds.get(kind).site?)?;
        Some((kind, debug.allocates(call.place)?))
    });
    declared.collect()
}

fn in_variable(list: &[Variable], at: u64) -> Option<InProgram> {
    let after = list.partition_point(|variable| variable.start <= at);
    let variable = list.get(after.checked_sub(1)?)?;
    let offset = at - variable.start;
    (offset < variable.size).then(|| InProgram {
        subject: variable.subject,
        offset: clip(offset.checked_rem(variable.stride).unwrap_or(offset)),
        object: true,
    })
}

/// A program's, of which nothing else is known.
pub(super) fn of_program(bucket: Bucket) -> Subject {
    Subject {
        program: true,
        ..bare(bucket)
    }
}

fn extents(subjects: &mut Subjects, form: &[Placement]) -> Vec<Extent> {
    let extent = |p: &Placement| Extent {
        start: p.start,
        end: p.start.saturating_add(p.size),
        stride: p.stride,
        subject: subjects.number(Subject {
            ty: Some(p.ty),
            ..of_program(Bucket::Field)
        }),
    };
    form.iter().map(extent).collect()
}

/// The subject of what no placement covers; `array`: the type of the elements where the objects are arrays of scalars.
fn rest_of(subjects: &mut Subjects, kind: ObjectKind, array: Option<&str>) -> SubjectId {
    let (bucket, label) = match array {
        Some(element) => (Bucket::HeapScalar, format!("{element}[]")),
        None => (Bucket::HeapSite, format!("malloc({})", kind.size)),
    };
    subjects.number(Subject {
        label,
        site: kind.site.filter(|site| *site != GuestAddr(0)),
        ..of_program(bucket)
    })
}

fn file_names(
    programs: &Programs,
    debug: &DebugInformation,
    schema: &Schema,
    subjects: &mut Subjects,
) -> Vec<FileNames> {
    let count = programs
        .images()
        .map(|(file, _)| file + 1)
        .max()
        .unwrap_or(0);
    let mut files: Vec<FileNames> = (0..count).map(|_| FileNames::default()).collect();
    for (file, image) in programs.images() {
        let of = debug.files.get(file as usize);
        let globals = Declared {
            described: of.map_or(&[], |file| &file.globals),
            symbols: &image.variables,
            of_threads: false,
        };
        let locals = Declared {
            described: of.map_or(&[], |file| &file.thread_locals),
            symbols: &image.thread_locals,
            of_threads: true,
        };
        files[file as usize] = FileNames {
            variables: globals.named(image, schema, subjects),
            thread_locals: locals.named(image, schema, subjects),
        };
    }
    files
}

/// Variables of one file.
struct Declared<'d> {
    /// By debug information.
    described: &'d [DebugVariable],
    /// By symbols.
    symbols: &'d [linemate_programs::Symbol],
    /// Whether each thread has its own.
    of_threads: bool,
}

impl Declared<'_> {
    /// The variables of the debug information, and where it has none the symbols.
    fn named(&self, image: &Image, schema: &Schema, subjects: &mut Subjects) -> Vec<Variable> {
        let mut list: Vec<Variable> = Vec::new();
        let mut add = |start: ElfAddr, size: u64, name: &str, (ty, bucket)| {
            let subject = subjects.number(Subject {
                ty,
                label: format!("{name} ({})", image.name()),
                of_threads: self.of_threads,
                ..of_program(bucket)
            });
            list.push(Variable {
                start: start.0,
                size,
                stride: ty.map_or(0, |ty: TypeIndex| schema.size(ty)),
                subject,
            });
        };
        for variable in self.described {
            let bucket = match variable.ty {
                Some(_) => Bucket::GlobalTyped,
                None => Bucket::GlobalScalar,
            };
            let what = (variable.ty, bucket);
            add(variable.start, variable.size, &variable.name, what);
        }
        let known: BTreeSet<ElfAddr> = self.described.iter().map(|v| v.start).collect();
        for symbol in self.symbols.iter().filter(|s| s.size > 0) {
            if !known.contains(&symbol.address) {
                let what = (None, Bucket::GlobalNamed);
                add(symbol.address, symbol.size, &symbol.name, what);
            }
        }
        list.sort_by_key(|variable| (variable.start, variable.subject));
        list.dedup_by_key(|variable| variable.start);
        list
    }
}

/// Where files are: each space's mapped parts, by address.
fn mapped(programs: &Programs, evidence: &Evidence) -> FxHashMap<Space, Vec<Mapped>> {
    let mut all: FxHashMap<Space, Vec<Mapped>> = FxHashMap::default();
    for (space, file, base) in &evidence.bases {
        let Some(image) = programs.image(*file) else {
            continue;
        };
        for segment in &image.segments {
            let range = segment.range();
            // Up to the page's end: the kernel clears what the file does not have.
            let end = range
                .end
                .checked_next_multiple_of(CODE_PAGE)
                .unwrap_or(range.end);
            all.entry(*space).or_default().push(Mapped {
                start: range.start.wrapping_add(*base),
                end: end.wrapping_add(*base),
                base: *base,
                file: *file,
            });
        }
    }
    for list in all.values_mut() {
        list.sort_unstable();
    }
    all
}

/// Thread pointers, and the program of each space: its thread-local variables end at the thread pointer (System V ABI, TLS variant II;
/// U. Drepper, ELF Handling For Thread-Local Storage, section 3.4.6). Those of libraries are further below, in an order that is
/// not known here.
fn threads(programs: &Programs, evidence: &Evidence) -> FxHashMap<Space, Threads> {
    let mut all: FxHashMap<Space, Threads> = FxHashMap::default();
    for (space, pointer) in &evidence.threads {
        all.entry(*space).or_default().pointers.push(*pointer);
    }
    for (space, file, _) in &evidence.bases {
        let image = programs.image(*file);
        let image = image.filter(|image| !image.name().contains(".so"));
        let storage = image.and_then(|image| image.thread_storage);
        if let (Some(storage), Some(threads)) = (storage, all.get_mut(space)) {
            let size = storage.size.checked_next_multiple_of(storage.align);
            threads.program = size.map(|size| (*file, size));
        }
    }
    all
}

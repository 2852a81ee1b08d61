//! Where files are mapped, and the variables in them.

use std::collections::BTreeSet;

use linemate_dwarf::demangled;
use linemate_programs::{ElfAddr, Image, Programs};
use linemate_recording::PAGE;
use rustc_hash::FxHashMap;

use super::code::ProgramFacts;
use super::debug::DebugVariable;
use super::evidence::Evidence;
use super::located::{InProgram, of_program};
use super::places::{Space, UserAddr};
use crate::ledger::Bucket;
use crate::schema::{Schema, TypeIndex};
use crate::subjects::{Subject, SubjectId, Subjects, clip};

/// A variable, with its subject.
#[derive(Clone, Debug)]
struct Variable {
    start: u64,
    size: u64,
    /// Bytes of an element; 0 if it is not an array of structs.
    stride: u64,
    subject: SubjectId,
}

/// The variables of a file.
#[derive(Debug, Default)]
struct FileVariables {
    globals: Vec<Variable>,
    thread_locals: Vec<Variable>,
}

/// A part of a file as it is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mapped {
    start: u64,
    end: u64,
    /// What to subtract from an address to get the file's own.
    base: u64,
    file: u32,
}

/// All files, by number, and where they are.
#[derive(Debug)]
pub(super) struct FileNames {
    variables: Vec<FileVariables>,
    /// By space, each by address.
    mapped: FxHashMap<Space, Vec<Mapped>>,
}

/// A byte of a file as it is mapped.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFile {
    file: u32,
    /// By the file's own addresses.
    address: u64,
}

impl FileNames {
    pub(super) fn new(
        facts: ProgramFacts<'_>,
        schema: &Schema,
        subjects: &mut Subjects,
        evidence: &Evidence,
    ) -> FileNames {
        FileNames {
            variables: file_variables(facts, schema, subjects),
            mapped: mapped(facts.programs, evidence),
        }
    }

    /// The byte of a file at an address.
    pub(super) fn at(&self, at: UserAddr) -> Option<InFile> {
        let list = self.mapped.get(&at.space)?;
        let after = list.partition_point(|mapped| mapped.start <= at.addr);
        let mapped = list.get(after.checked_sub(1)?)?;
        (at.addr < mapped.end).then(|| InFile {
            file: mapped.file,
            address: at.addr - mapped.base,
        })
    }

    /// The variable that contains a byte of a file.
    pub(super) fn variable(&self, at: InFile) -> Option<InProgram> {
        in_variable(&self.variables[at.file as usize].globals, at.address)
    }

    /// The thread-local variable at an offset of a file's thread storage.
    pub(super) fn thread_local(&self, file: u32, offset: u64) -> Option<InProgram> {
        in_variable(&self.variables[file as usize].thread_locals, offset)
    }
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

fn file_variables(
    facts: ProgramFacts<'_>,
    schema: &Schema,
    subjects: &mut Subjects,
) -> Vec<FileVariables> {
    let numbers = facts.programs.images().map(|(file, _)| file);
    let count = numbers.max().map_or(0, |last| last + 1);
    let mut files: Vec<FileVariables> = (0..count).map(|_| FileVariables::default()).collect();
    for (file, image) in facts.programs.images() {
        let of = facts.debug.files.get(file as usize);
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
        files[file as usize] = FileVariables {
            globals: globals.named(image, schema, subjects),
            thread_locals: locals.named(image, schema, subjects),
        };
    }
    files
}

/// Variables of one file.
struct Declared<'d> {
    /// From the debug information.
    described: &'d [DebugVariable],
    /// From the symbol table.
    symbols: &'d [linemate_programs::Symbol],
    /// Whether each thread has its own.
    of_threads: bool,
}

impl Declared<'_> {
    /// The variables of the debug information, or without any, the symbols.
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
        // The debug information first: it has types; symbols have only names and sizes.
        let known: BTreeSet<ElfAddr> = self.described.iter().map(|v| v.start).collect();
        for symbol in self.symbols.iter().filter(|s| s.size > 0) {
            if !known.contains(&symbol.address) {
                let what = (None, Bucket::GlobalNamed);
                let name = demangled(&symbol.name);
                let name = name.as_deref().unwrap_or(&symbol.name);
                add(symbol.address, symbol.size, name, what);
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
            // Up to the page's end: the kernel clears what is beyond the file's end.
            let end = range
                .end
                .checked_next_multiple_of(PAGE)
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

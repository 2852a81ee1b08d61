//! Programs' debug information, in attribution's terms.
//!
//! It is read once, for the instructions in the recording; only numbers and names of it are stored.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use linemate_dwarf::{DwarfError, ProgramCode, ProgramFiles, ProgramTypes, Storage};
use linemate_programs::{Base, CodePlace, ElfAddr, Image, Operand, Programs};
use linemate_recording::Recording;
use linemate_types::{ModelError, Type, TypeId, TypeModel, join};
use rustc_hash::FxHashMap;

use super::allocations::allocations;
use super::allocators::{AllocatorSources, heap_functions};
use super::atomics::number;
use super::flow::{Flow, Pointed};
use super::frame::{HeldVariable, InFrame, element, held_in_calls, in_frames};
use super::library::{GrowthCall, VectorGrowth, is_standard};
use crate::schema::TypeIndex;

/// A variable that the debug information describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DebugVariable {
    /// Its first byte; for a thread-local one, the offset in the file's thread storage.
    pub(crate) start: ElfAddr,
    pub(crate) size: u64,
    pub(crate) name: String,
    /// The struct that it is or that its elements are; `None` for numbers and pointers.
    pub(crate) ty: Option<TypeIndex>,
}

/// What is known about one file.
#[derive(Debug, Default)]
pub(crate) struct FileDebug {
    /// Its static variables, by address.
    pub(crate) globals: Vec<DebugVariable>,
    /// Its thread-local variables, by offset.
    pub(crate) thread_locals: Vec<DebugVariable>,
    /// The targets of registers, by instruction and register, sorted.
    pointers: Vec<((ElfAddr, Base), Pointee)>,
    /// What instructions access in their own functions' frames, by instruction.
    frames: Vec<(ElfAddr, InFrame<TypeIndex>)>,
    /// The variables in the frames of functions that make calls, by calling instruction.
    held: Vec<(ElfAddr, Vec<HeldVariable<TypeIndex>>)>,
    /// Instructions with a base register whose function has debug information, sorted.
    described: Vec<ElfAddr>,
    /// The element type, one or several elements, of the calls made for a container's elements, by
    /// instruction.
    allocations: Vec<(ElfAddr, Pointee)>,
    /// The calls in functions that get memory for their callers' vectors, by instruction.
    growth: Vec<(ElfAddr, GrowthCall)>,
    /// The code of its allocator, ascending.
    allocator: Vec<Range<ElfAddr>>,
    /// Calls in functions with debug information that are not a standard library's, ascending.
    own_calls: Vec<ElfAddr>,
}

impl FileDebug {
    #[cfg(test)]
    pub(super) fn with_held(held: Vec<(ElfAddr, Vec<HeldVariable<TypeIndex>>)>) -> FileDebug {
        FileDebug {
            held,
            ..FileDebug::default()
        }
    }
}

/// What a register points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pointee {
    /// A struct, union or class.
    Struct(TypeIndex),
    /// Somewhere in an array of such structs, or in an array inside one.
    Indexed(TypeIndex),
    /// A number, enum or pointer.
    Scalar(ScalarName),
}

impl Pointee {
    /// What the code around a register says about the same target.
    fn of(self, target: Pointed) -> Pointee {
        match self {
            Pointee::Struct(ty) if target.is_indexed => Pointee::Indexed(ty),
            _ => self,
        }
    }
}

/// A scalar type, by its place in [`DebugInformation::scalars`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ScalarName(pub(crate) u32);

/// What is known about all files, by number.
#[derive(Debug, Default)]
pub(crate) struct DebugInformation {
    pub(crate) files: Vec<FileDebug>,
    /// Names of scalar types as in C, each once.
    pub(crate) scalars: Vec<String>,
}

impl DebugInformation {
    /// The target of a register at an instruction.
    pub(crate) fn pointer_in(&self, place: CodePlace, base: Base) -> Option<Pointee> {
        let list = &self.files.get(place.file as usize)?.pointers;
        let key = (place.address, base);
        let at = list.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        Some(list[at].1)
    }

    /// The elements that a call allocates, if a container makes it for them.
    pub(crate) fn allocates(&self, place: CodePlace) -> Option<Pointee> {
        let list = &self.files.get(place.file as usize)?.allocations;
        let at = list.binary_search_by_key(&place.address, |(at, _)| *at);
        Some(list[at.ok()?].1)
    }

    /// The function that a call is in, if it gets memory for its caller's vector.
    pub(crate) fn growth_call(&self, place: CodePlace) -> Option<GrowthCall> {
        let list = &self.files.get(place.file as usize)?.growth;
        let at = list.binary_search_by_key(&place.address, |(at, _)| *at);
        Some(list[at.ok()?].1)
    }

    /// Whether the debug information has the function of an instruction with a base register.
    pub(crate) fn describes(&self, place: CodePlace) -> bool {
        let file = self.files.get(place.file as usize);
        file.is_some_and(|file| file.described.binary_search(&place.address).is_ok())
    }

    /// Whether a call is made by a function with debug information that is not a standard
    /// library's.
    pub(crate) fn calls_for_itself(&self, place: CodePlace) -> bool {
        let file = self.files.get(place.file as usize);
        file.is_some_and(|file| file.own_calls.binary_search(&place.address).is_ok())
    }

    /// Whether an instruction is an allocator's own.
    pub(crate) fn is_of_allocator(&self, place: CodePlace) -> bool {
        let Some(file) = self.files.get(place.file as usize) else {
            return false;
        };
        let after = file.allocator.partition_point(|r| r.start <= place.address);
        let before = after.checked_sub(1).and_then(|at| file.allocator.get(at));
        before.is_some_and(|range| range.contains(&place.address))
    }

    /// The variables in the frame of the function that makes a call, innermost scope first.
    pub(crate) fn held_in_call(&self, place: CodePlace) -> &[HeldVariable<TypeIndex>] {
        let list = self.files.get(place.file as usize);
        let list = list.map_or(&[][..], |file| &file.held);
        let at = list.binary_search_by_key(&place.address, |(at, _)| *at);
        at.map_or(&[], |at| &list[at].1)
    }

    /// What an instruction accesses in its own function's frame.
    pub(crate) fn in_frame(&self, place: CodePlace) -> Option<&InFrame<TypeIndex>> {
        let list = &self.files.get(place.file as usize)?.frames;
        let at = list.binary_search_by_key(&place.address, |(at, _)| *at);
        Some(&list[at.ok()?].1)
    }
}

/// The types of a file's debug information, by their ids in its own model, and what is needed to
/// read the rest.
#[derive(Debug)]
struct Described {
    file: u32,
    types: ProgramTypes,
    /// Instructions with a base register.
    places: BTreeSet<(ElfAddr, Base)>,
    calls: BTreeSet<ElfAddr>,
    /// Where the file has the C library's `malloc` and `free`, or their replacements.
    heap: Vec<ElfAddr>,
}

/// What a file's code shows, with types by their ids in the file's own model.
#[derive(Default)]
struct CodeFacts {
    globals: Vec<(Storage, u64, String, Option<TypeId>)>,
    pointers: Vec<((ElfAddr, Base), Pointed)>,
    frames: Vec<(ElfAddr, InFrame<TypeId>)>,
    held: Vec<(ElfAddr, Vec<HeldVariable<TypeId>>)>,
    described: Vec<ElfAddr>,
    allocations: Vec<(ElfAddr, TypeId)>,
    growth: Vec<(ElfAddr, GrowthCall)>,
    /// The code of its allocator.
    allocator: Vec<Range<ElfAddr>>,
    own_calls: Vec<ElfAddr>,
}

/// Instructions of a file that are in the recording.
#[derive(Debug, Default)]
struct InFile {
    places: BTreeSet<(ElfAddr, Base)>,
    calls: BTreeSet<ElfAddr>,
}

/// The types of all files. What code shows about variables and registers is read when accesses are
/// named: most questions have their counts from an earlier one and only need the types.
#[derive(Debug)]
pub(crate) struct Descriptions {
    files: Vec<Described>,
    /// Files of the recording.
    count: usize,
}

impl Descriptions {
    /// Reads the debug information of the recording's programs. A file with none, or a broken one,
    /// has no types.
    pub(crate) fn read(recording: &Recording, programs: &Programs) -> Descriptions {
        let mut places: Vec<InFile> = Vec::new();
        for pc in recording.instructions().iter().filter(|pc| pc.0 >> 63 == 0) {
            let Some(place) = programs.code(recording, *pc) else {
                continue;
            };
            let file = place.file as usize;
            if file >= places.len() {
                places.resize_with(file + 1, InFile::default);
            }
            let instruction = programs.instruction(place);
            if let Operand::Based { base, .. } = instruction.operand {
                places[file].places.insert((place.address, base));
            }
            if instruction.calls {
                places[file].calls.insert(place.address);
            }
        }
        let used = (0u32..)
            .zip(places)
            // A file without recorded instructions needs no types: many libraries are mapped but
            // not run.
            .filter(|(_, found)| !found.places.is_empty());
        let described = used.filter_map(|(file, InFile { places, calls })| {
            let files = files_of(programs, file).ok()?;
            Some(Described {
                file,
                types: ProgramTypes::read(&files).ok()?,
                places,
                calls,
                heap: heap_functions(recording, programs, file),
            })
        });
        Descriptions {
            files: described.collect(),
            count: programs
                .images()
                .map(|(file, _)| file as usize + 1)
                .max()
                .unwrap_or(0),
        }
    }

    /// The kernel's types and all programs' as one model.
    ///
    /// # Errors
    /// More types than a model can have.
    pub(crate) fn joined(
        &self,
        kernel: &TypeModel,
        programs: &Programs,
    ) -> Result<(TypeModel, Vec<Vec<TypeId>>), ModelError> {
        let name = |file| programs.image(file).map_or("", |image| image.name());
        let later: Vec<(&str, &TypeModel)> = self
            .files
            .iter()
            .map(|d| (name(d.file), d.types.model()))
            .collect();
        let joined = join(kernel, &later)?;
        let ids = (1..).zip(&self.files).map(|(number, described)| {
            let all = (0..described.types.model().len() as u32).map(TypeId);
            all.map(|id| joined.id(number, id)).collect()
        });
        let ids = ids.collect();
        Ok((joined.model, ids))
    }

    /// What code shows, with the structs that types refer to: `ids` are those of
    /// [`Descriptions::joined`]. A file whose code is described in a broken way shows nothing.
    pub(crate) fn resolve(
        &self,
        programs: &Programs,
        ids: &[Vec<TypeId>],
        types: &FxHashMap<u32, TypeIndex>,
    ) -> DebugInformation {
        let mut files: Vec<FileDebug> = (0..self.count).map(|_| FileDebug::default()).collect();
        let mut scalars: BTreeMap<String, ScalarName> = BTreeMap::new();
        for (described, ids) in self.files.iter().zip(ids) {
            let facts = code_facts(programs, described).unwrap_or_default();
            let index = |id: TypeId| types.get(&ids.get(id.0 as usize)?.0).copied();
            let file = &mut files[described.file as usize];
            for (storage, size, name, ty) in facts.globals {
                let (list, start) = match storage {
                    Storage::Static(start) => (&mut file.globals, start.0),
                    Storage::ThreadLocal(offset) => (&mut file.thread_locals, offset),
                };
                list.push(DebugVariable {
                    start: ElfAddr(start),
                    size,
                    name,
                    ty: ty.and_then(index),
                });
            }
            let model = described.types.model();
            let mut scalar = |name: String| {
                let next = ScalarName(scalars.len() as u32);
                *scalars.entry(name).or_insert(next)
            };
            let mut pointee = |id| match number(model, id) {
                Some(name) => Some(Pointee::Scalar(scalar(name))),
                None => Some(Pointee::Struct(index(id)?)),
            };
            let pointers = facts.pointers.into_iter();
            file.pointers = pointers
                .filter_map(|(key, target)| Some((key, pointee(target.ty)?.of(target))))
                .collect();
            let allocations = facts.allocations.into_iter();
            file.allocations = allocations
                .filter_map(|(address, id)| Some((address, pointee(id)?)))
                .collect();
            (file.described, file.growth) = (facts.described, facts.growth);
            (file.allocator, file.own_calls) = (facts.allocator, facts.own_calls);
            let frames = facts.frames.into_iter();
            file.frames = frames
                .filter_map(|(address, frame)| Some((address, frame.with_type(index)?)))
                .collect();
            let held = facts.held.into_iter();
            file.held = held
                .map(|(call, held)| {
                    let held = held.into_iter().filter_map(|held| held.with_type(index));
                    (call, held.collect())
                })
                .collect();
            one_at_each_place(&mut file.globals);
            one_at_each_place(&mut file.thread_locals);
        }
        let mut names = vec![String::new(); scalars.len()];
        for (name, number) in scalars {
            names[number.0 as usize] = name;
        }
        DebugInformation {
            files,
            scalars: names,
        }
    }
}

/// Sorts variables. Of several at one address the smallest, of equals the first by name: any rule
/// would do that gives every run the same.
fn one_at_each_place(list: &mut Vec<DebugVariable>) {
    list.sort_by(|a, b| (a.start, a.size, &a.name).cmp(&(b.start, b.size, &b.name)));
    list.dedup_by_key(|variable| variable.start);
}

fn code_facts(programs: &Programs, described: &Described) -> Option<CodeFacts> {
    let Described {
        file,
        types,
        places,
        calls,
        heap,
    } = described;
    let files = files_of(programs, *file).ok()?;
    let code = ProgramCode::read(&files, types).ok()?;
    let mut pointers = pointers(programs, *file, &code, types.model(), places);
    let own = |(address, _): &(ElfAddr, Base)| {
        let function = code.function_at(*address);
        function.map(|_| *address)
    };
    let described = places.iter().filter_map(own).collect();
    let frames = in_frames(programs, *file, &code, types.model(), places);
    let held = held_in_calls(programs, *file, &code, types.model(), calls);
    let growth = VectorGrowth::of(programs, *file, &code, types.model(), calls);
    let allocations = allocations(&code, types.model(), calls, &growth.from);
    let allocator = AllocatorSources::of(&code, heap);
    pointers.retain(|(_, target)| match types.model().get(target.ty) {
        Some(Type::Composite(c)) => {
            let declared = c.declared.as_ref().map(|line| line.file.as_str());
            declared.is_none_or(|file| !allocator.have(file))
        }
        _ => true,
    });
    let is_own = |call: &&ElfAddr| {
        let function = code.function_at(**call);
        let declared = function.map(|f| f.declared.as_ref().map(|line| line.file.as_str()));
        declared.is_some_and(|file| file.is_none_or(|file| !is_standard(file)))
    };
    let globals = code.globals().iter().filter(|global| global.size > 0);
    let globals = globals.map(|global| {
        let ty = element(types.model(), global.type_id);
        (global.storage, global.size, global.name.clone(), ty)
    });
    Some(CodeFacts {
        globals: globals.collect(),
        pointers,
        frames,
        held,
        described,
        allocations,
        growth: growth.inside,
        allocator: allocator.code(&code),
        own_calls: calls.iter().filter(is_own).copied().collect(),
    })
}

/// The sections of a program's debug information, in whichever file.
pub(crate) fn files_of(programs: &Programs, file: u32) -> Result<ProgramFiles<'_>, DwarfError> {
    let (debug, alternate) = (programs.debug(file), programs.alternate(file));
    ProgramFiles::new(programs.contents(file), debug, alternate)?.with_split(&programs.split(file))
}

/// The targets of registers at the instructions of `places`: functions that contain one of them are
/// followed.
fn pointers(
    programs: &Programs,
    file: u32,
    code: &ProgramCode<'_>,
    model: &TypeModel,
    places: &BTreeSet<(ElfAddr, Base)>,
) -> Vec<((ElfAddr, Base), Pointed)> {
    let storage = programs.image(file).and_then(Image::below_thread_pointer);
    let mut flow = Flow::new(code, model, storage);
    let mut found = Vec::new();
    for range in code
        .functions()
        .iter()
        .flat_map(|function| &function.ranges)
    {
        let (start, end) = (range.start, range.end);
        let first = (start, Base(0));
        // Decoding functions takes the time, so only those with a recorded instruction are
        // followed.
        if places.range(first..(end, Base(0))).next().is_none() {
            continue;
        }
        flow.function(
            programs.code_in(file, range),
            start,
            |address, base, target| {
                if places.contains(&(address, base)) {
                    found.push(((address, base), target));
                }
            },
        );
    }
    found.sort_unstable();
    found.dedup_by_key(|(key, _)| *key);
    found
}

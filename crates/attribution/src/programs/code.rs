//! What is known about each instruction of a program before any access is looked at.

use std::collections::BTreeSet;

use linemate_programs::{CodePlace, Image, Operand, Programs, UserInstruction};
use linemate_recording::{GuestAddr, Recording, Role};
use linemate_types::Symbols;
use rustc_hash::{FxHashMap, FxHashSet};

use super::debug::{DebugInformation, Pointee};
use super::library::GrowthCall;
use super::{allocators, bytes};
use crate::functions::FunctionName;

/// Programs, and what is known about them before any access is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgramFacts<'a> {
    pub(crate) programs: &'a Programs,
    pub(crate) debug: &'a DebugInformation,
    pub(crate) code: &'a CodeTable,
}

/// An instruction of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownInstruction {
    pub(crate) place: CodePlace,
    pub(crate) instruction: UserInstruction,
    /// The target of its base register, from the debug information.
    pub(crate) points_to: Option<Pointee>,
    /// Whether it reaches its own function's frame.
    pub(crate) in_frame: bool,
    /// Whether the debug information has its function.
    pub(crate) described: bool,
    /// Whether it is an allocator's own.
    pub(crate) of_allocator: bool,
    /// For a call: whether memory that it maps is the program's to name.
    pub(crate) maps: bool,
    /// For a call in a function that gets memory for its caller's vector: that function.
    pub(crate) growth: Option<GrowthCall>,
}

/// The shared libraries that have a `mmap`, the C library and the loader: what they map is for
/// stacks, files and the heap.
fn libraries_that_map(recording: &Recording, programs: &Programs) -> BTreeSet<u32> {
    let functions = recording.functions().functions.iter();
    let maps = functions.filter(|f| f.entry.0 >> 63 == 0 && f.role == Role::VirtualAlloc);
    let places = maps.filter_map(|function| programs.code(recording, function.entry));
    let files = places.map(|place| place.file);
    let is_library = |file: &u32| programs.image(*file).is_some_and(Image::is_library);
    files.filter(is_library).collect()
}

/// All program instructions in a recording, by code address.
#[derive(Debug, Default)]
pub(crate) struct CodeTable {
    known: FxHashMap<GuestAddr, KnownInstruction>,
    /// Instructions that copy or clear bytes, the kernel's too.
    copying: FxHashSet<GuestAddr>,
}

impl CodeTable {
    pub(crate) fn new(
        recording: &Recording,
        programs: &Programs,
        debug: &DebugInformation,
        symbols: &Symbols,
    ) -> CodeTable {
        let instructions = recording.instructions().iter().copied();
        // Code addresses of programs are assigned by the recording (a place in a file), and are in
        // the lower half.
        let users = instructions.filter(|pc| pc.0 >> 63 == 0);
        let maps_inside = libraries_that_map(recording, programs);
        let known = users.filter_map(|pc| {
            let place = programs.code(recording, pc)?;
            let instruction = programs.instruction(place);
            let points_to = match instruction.operand {
                Operand::Based { base, .. } => debug.pointer_in(place, base),
                _ => None,
            };
            Some((
                pc,
                KnownInstruction {
                    place,
                    instruction,
                    points_to,
                    in_frame: debug.in_frame(place).is_some(),
                    described: debug.describes(place),
                    of_allocator: debug.is_of_allocator(place)
                        || allocators::is_own(FunctionName::at(symbols, pc)),
                    maps: debug.calls_for_itself(place) && !maps_inside.contains(&place.file),
                    growth: debug.growth_call(place),
                },
            ))
        });
        CodeTable {
            known: known.collect(),
            copying: bytes::copying(recording, symbols),
        }
    }

    /// Whether a call maps memory for the program, not for its C library, its loader or an
    /// allocator. Known for code with debug information alone.
    pub(crate) fn maps(&self, site: Option<GuestAddr>) -> bool {
        let known = site.and_then(|pc| self.at(pc));
        known.is_some_and(|known| known.maps && !known.of_allocator)
    }

    #[cfg(test)]
    pub(super) fn of<const N: usize>(known: [(GuestAddr, KnownInstruction); N]) -> CodeTable {
        CodeTable {
            known: known.into_iter().collect(),
            ..CodeTable::default()
        }
    }

    /// The instructions that are allocators' own.
    pub(crate) fn of_allocators(&self) -> impl Iterator<Item = GuestAddr> {
        let own = self.known.iter().filter(|(_, known)| known.of_allocator);
        own.map(|(pc, _)| *pc)
    }

    /// The instructions that copy or clear bytes.
    pub(crate) fn copying(&self) -> &FxHashSet<GuestAddr> {
        &self.copying
    }

    pub(crate) fn at(&self, pc: GuestAddr) -> Option<&KnownInstruction> {
        self.known.get(&pc)
    }
}

//! What is known about each instruction of a program before any access is looked at.

use linemate_programs::{CodePlace, Operand, Programs, UserInstruction};
use linemate_recording::{GuestAddr, Recording};
use rustc_hash::FxHashMap;

use super::debug::{DebugInformation, Pointee};

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
}

/// All program instructions in a recording, by code address.
#[derive(Debug, Default)]
pub(crate) struct CodeTable {
    known: FxHashMap<GuestAddr, KnownInstruction>,
}

impl CodeTable {
    pub(crate) fn new(
        recording: &Recording,
        programs: &Programs,
        debug: &DebugInformation,
    ) -> CodeTable {
        let instructions = recording.instructions().iter().copied();
        // Code addresses of programs are assigned by the recording (a place in a file), and are in
        // the lower half.
        let users = instructions.filter(|pc| pc.0 >> 63 == 0);
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
                },
            ))
        });
        CodeTable {
            known: known.collect(),
        }
    }

    #[cfg(test)]
    pub(super) fn of(pc: GuestAddr, known: KnownInstruction) -> CodeTable {
        CodeTable {
            known: [(pc, known)].into_iter().collect(),
        }
    }

    pub(crate) fn at(&self, pc: GuestAddr) -> Option<&KnownInstruction> {
        self.known.get(&pc)
    }
}

//! Which instructions call, and which return.

use linemate_insn::x86_64::{Flow, Instruction};
use linemate_recording::GuestAddr;
use linemate_types::ElfAddr;
use linemate_types::kernel_image::CodeSection;
use rustc_hash::FxHashMap;

/// How a memory-accessing instruction changes the calls in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transfer {
    /// It stores its return address.
    Call,
    /// It loads the return address of a call.
    Return,
    /// It loads what an interrupt or an exception stored, and returns there.
    InterruptReturn,
}

/// Which of some instructions call and return.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    by_instruction: FxHashMap<GuestAddr, Transfer>,
}

impl Transfers {
    /// What an instruction does.
    #[inline]
    pub fn of(&self, instruction: GuestAddr) -> Option<Transfer> {
        self.by_instruction.get(&instruction).copied()
    }
}

/// What `instructions`, which have accesses in a recording, do according to the image of its
/// kernel.
///
/// A direct jump in the image accesses no memory: if the recording has accesses by one, the kernel
/// has replaced it by a return (`jmp __x86_return_thunk` on processors that need no thunk).
pub fn transfers(
    sections: &[CodeSection],
    instructions: impl IntoIterator<Item = GuestAddr>,
) -> Transfers {
    let mut all = Transfers::default();
    for at in instructions {
        let instruction = decode(sections, at);
        if let Some(transfer) = instruction.as_ref().and_then(transfer) {
            all.by_instruction.insert(at, transfer);
        }
    }
    all
}

fn decode(sections: &[CodeSection], at: GuestAddr) -> Option<Instruction> {
    let code = sections.iter().find_map(|section| {
        let from = usize::try_from(at.0.checked_sub(section.address)?).ok()?;
        section.bytes.get(from..).filter(|rest| !rest.is_empty())
    })?;
    // From the instruction itself, which a recording has for certain: its function need not be
    // known.
    Some(Instruction::decode(code, ElfAddr(at.0)))
}

fn transfer(instruction: &Instruction) -> Option<Transfer> {
    match instruction.flow() {
        Flow::Call => Some(Transfer::Call),
        Flow::Return => Some(Transfer::Return),
        Flow::InterruptReturn => Some(Transfer::InterruptReturn),
        Flow::Jump => instruction.target().map(|_| Transfer::Return),
        _ => None,
    }
}

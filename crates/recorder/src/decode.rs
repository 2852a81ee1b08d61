//! What an instruction's bytes show before it runs: how its memory callbacks belong together, and
//! whether it returns, jumps, halts, or clears memory in bulk. Nothing here runs per access.

use linemate_insn::x86_64::{Flow, Instruction};
use linemate_units::ElfAddr;

/// How the memory callbacks of one execution form accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessShape {
    /// Each callback is an access.
    Single,
    /// `lock` prefix, or `xchg` with memory: the load and the store are one RMW of at most `bytes`.
    Atomic { bytes: u8 },
    /// The operand is wider than an emulated load or store may be: adjoining pieces make one access
    /// of at most `bytes`.
    Wide { bytes: u8 },
}

/// What an instruction does apart from accessing memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitKind {
    /// Nothing that the recorder watches.
    Other,
    Return,
    /// An unconditional direct jump to this address (a tail call, or a return through the return
    /// thunk).
    Jump(u64),
    /// `hlt` or `mwait`: the CPU waits for an interrupt.
    Halt,
}

/// What an instruction's bytes show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InstructionFacts {
    /// How its callbacks form accesses.
    pub(crate) shape: AccessShape,
    /// Its place in the control flow.
    pub(crate) flow: ExitKind,
    /// It may load or store. Doubtful ones (privileged instructions, far transfers, segment loads)
    /// count.
    pub(crate) may_touch_memory: bool,
    /// `rep stos` and `rep movs`: how the kernel clears and copies whole pages.
    pub(crate) bulk_store: bool,
}

/// The largest access of a recording.
const MAX_ACCESS: usize = 64;
/// The widest load or store that QEMU emulates in one piece on every host.
const WIDEST_PIECE: usize = 8;

/// The no-op with which guest code signals the recorder: `nopl 0x6bcafeKK(%rax,%rax,1)`.
const MARK_HEAD: [u8; 4] = [0x0f, 0x1f, 0x84, 0x00];
const MARK_TAIL: [u8; 3] = [0xfe, 0xca, 0x6b];

/// Whether the code that ends with these bytes may end with a call. `true` if there are too few
/// bytes to decide.
///
/// Encodings: Intel 64 and IA-32 Architectures Software Developer's Manual, CALL: `e8` with four
/// bytes, `ff /2` with its operand.
pub(crate) fn may_follow_call(before: &[u8]) -> bool {
    /// The longest of those encodings.
    const LONGEST: usize = 7;
    if before.len() < LONGEST {
        return true;
    }
    let ends_with = |length: usize| {
        let bytes = &before[before.len() - length..];
        let instruction = Instruction::decode(bytes, ElfAddr(0));
        instruction.len() == length && instruction.flow() == Flow::Call
    };
    (2..=LONGEST).any(ends_with)
}

/// `KK` of the no-op that starts recording.
pub(crate) const START: u8 = 1;
/// The same for the one that stops it.
pub(crate) const STOP: u8 = 2;
/// The same for the one at which a guest is held to be saved.
pub(crate) const HOLD: u8 = 3;

/// The number `KK` in a marking no-op, or `None` for every other instruction.
pub(crate) fn mark_number(bytes: &[u8]) -> Option<u8> {
    let (head, rest) = bytes.split_at_checked(4)?;
    let (number, tail) = rest.split_first()?;
    (head == MARK_HEAD && tail == MARK_TAIL).then_some(*number)
}

/// Decodes one 64-bit instruction. Invalid bytes give the plainest facts: QEMU decides what they
/// do.
pub(crate) fn facts(bytes: &[u8], pc: u64) -> InstructionFacts {
    let instruction = Instruction::decode(bytes, ElfAddr(pc));
    InstructionFacts {
        shape: shape(&instruction),
        flow: flow(&instruction),
        may_touch_memory: instruction.may_touch_memory(),
        bulk_store: instruction.is_bulk_store(),
    }
}

fn shape(instruction: &Instruction) -> AccessShape {
    let size = instruction.operand_bytes();
    let bytes = size.min(MAX_ACCESS) as u8;
    if instruction.is_atomic() {
        return AccessShape::Atomic { bytes };
    }
    // A gather's elements are accesses of their own. Sizes that no access can have (a 10-byte
    // descriptor, the 512 bytes of fxsave) stay in pieces.
    let fits = size > WIDEST_PIECE && size <= MAX_ACCESS && size.is_power_of_two();
    if instruction.has_operand() && fits && !instruction.is_gather() {
        return AccessShape::Wide { bytes };
    }
    AccessShape::Single
}

fn flow(instruction: &Instruction) -> ExitKind {
    match instruction.flow() {
        _ if instruction.halts() => ExitKind::Halt,
        Flow::Return => ExitKind::Return,
        Flow::Jump => match instruction.target() {
            Some(target) => ExitKind::Jump(target.0),
            None => ExitKind::Other,
        },
        _ => ExitKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape_of(bytes: &[u8]) -> AccessShape {
        facts(bytes, 0xffff_ffff_8100_0000).shape
    }

    #[test]
    fn what_follows_a_call_is_reported() {
        let nops = [0x90; 8];
        let ends_with = |bytes: &[u8]| may_follow_call(&[&nops, bytes].concat());
        assert!(ends_with(&[0xe8, 1, 2, 3, 4]), "call rel32");
        assert!(ends_with(&[0xff, 0xd0]), "call *%rax");
        assert!(ends_with(&[0x41, 0xff, 0xd3]), "call *%r11");
        assert!(ends_with(&[0xff, 0x15, 1, 2, 3, 4]), "call *disp(%rip)");
        assert!(ends_with(&[0xff, 0x54, 0x24, 8]), "call *8(%rsp)");
        assert!(!ends_with(&[0x48, 0x89, 0xc7]), "mov %rax,%rdi");
        assert!(!ends_with(&[0xe9, 1, 2, 3, 4]), "jmp");
        assert!(may_follow_call(&nops[..6]), "too few bytes");
    }

    #[test]
    fn locked_and_exchanging_instructions_are_atomic() {
        // lock incl (%rdi); xchg %rax,(%rdi); lock cmpxchg16b (%rdi); lock btsl $3,(%rdi); lock
        // xadd %al,(%rdi)
        assert_eq!(
            shape_of(&[0xf0, 0xff, 0x07]),
            AccessShape::Atomic { bytes: 4 }
        );
        assert_eq!(
            shape_of(&[0x48, 0x87, 0x07]),
            AccessShape::Atomic { bytes: 8 }
        );
        assert_eq!(
            shape_of(&[0xf0, 0x48, 0x0f, 0xc7, 0x0f]),
            AccessShape::Atomic { bytes: 16 }
        );
        assert_eq!(
            shape_of(&[0xf0, 0x0f, 0xba, 0x2f, 0x03]),
            AccessShape::Atomic { bytes: 4 }
        );
        assert_eq!(
            shape_of(&[0xf0, 0x0f, 0xc0, 0x07]),
            AccessShape::Atomic { bytes: 1 }
        );
    }

    #[test]
    fn plain_instructions_are_single() {
        // incl (%rdi); xchg %rax,%rcx; pushq (%rdi); movsq; cmpxchg8b (%rdi)
        for bytes in [
            &[0xff, 0x07][..],
            &[0x48, 0x87, 0xc1],
            &[0xff, 0x37],
            &[0x48, 0xa5],
            &[0x0f, 0xc7, 0x0f],
        ] {
            assert_eq!(shape_of(bytes), AccessShape::Single, "{bytes:x?}");
        }
    }

    #[test]
    fn vectors_are_wide_but_gathers_are_not() {
        // movups (%rdi),%xmm0; vmovdqu (%rdi),%ymm0; vpgatherdd %ymm2,(%rdi,%ymm1,4),%ymm0; movss
        // (%rdi),%xmm0
        assert_eq!(
            shape_of(&[0x0f, 0x10, 0x07]),
            AccessShape::Wide { bytes: 16 }
        );
        assert_eq!(
            shape_of(&[0xc5, 0xfe, 0x6f, 0x07]),
            AccessShape::Wide { bytes: 32 }
        );
        assert_eq!(
            shape_of(&[0xc4, 0xe2, 0x6d, 0x90, 0x04, 0x8f]),
            AccessShape::Single
        );
        assert_eq!(shape_of(&[0xf3, 0x0f, 0x10, 0x07]), AccessShape::Single);
    }

    #[test]
    fn control_flow_is_reported() {
        let pc = 0xffff_ffff_8100_0000;
        assert_eq!(facts(&[0xc3], pc).flow, ExitKind::Return);
        assert_eq!(facts(&[0xc2, 0x08, 0x00], pc).flow, ExitKind::Return);
        assert_eq!(
            facts(&[0xe9, 0x0b, 0x00, 0x00, 0x00], pc).flow,
            ExitKind::Jump(pc + 16)
        );
        assert_eq!(facts(&[0xf4], pc).flow, ExitKind::Halt);
        assert_eq!(facts(&[0xff, 0xe0], pc).flow, ExitKind::Other);
    }

    #[test]
    fn what_may_touch_memory_is_reported_generously() {
        // mov %rax,%rcx; lea 8(%rax),%rcx counts (an operand in memory form); jmp; add $1,%eax;
        // nopw 0(%rax)
        for bytes in [
            &[0x48, 0x89, 0xc1][..],
            &[0xeb, 0x10],
            &[0x83, 0xc0, 0x01],
            &[0x90],
        ] {
            assert!(!facts(bytes, 0).may_touch_memory, "{bytes:x?}");
        }
        // push; call; ret; iretq; mov %eax,%ds; ltr %ax; rep movsb; xlat; maskmovdqu; syscall;
        // int3; pushf; leave
        for bytes in [
            &[0x50][..],
            &[0xe8, 0, 0, 0, 0],
            &[0xc3],
            &[0x48, 0xcf],
            &[0x8e, 0xd8],
            &[0x0f, 0x00, 0xd8],
            &[0xf3, 0xa4],
            &[0xd7],
            &[0x66, 0x0f, 0xf7, 0xc1],
            &[0x0f, 0x05],
            &[0xcc],
            &[0x9c],
            &[0xc9],
        ] {
            assert!(facts(bytes, 0).may_touch_memory, "{bytes:x?}");
        }
    }

    #[test]
    fn only_repeated_string_stores_are_bulk() {
        assert!(facts(&[0xf3, 0x48, 0xab], 0).bulk_store);
        assert!(facts(&[0xf3, 0xa4], 0).bulk_store);
        assert!(!facts(&[0x48, 0xab], 0).bulk_store);
        assert!(!facts(&[0xf3, 0x48, 0xad], 0).bulk_store);
    }

    #[test]
    fn marks_are_recognised_exactly() {
        assert_eq!(
            mark_number(&[0x0f, 0x1f, 0x84, 0x00, 0x01, 0xfe, 0xca, 0x6b]),
            Some(1)
        );
        assert_eq!(
            mark_number(&[0x0f, 0x1f, 0x84, 0x00, 0x02, 0xfe, 0xca, 0x6a]),
            None
        );
        assert_eq!(
            mark_number(&[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00]),
            None
        );
        assert_eq!(
            mark_number(&[0x0f, 0x1f, 0x84, 0x00, 0x01, 0xfe, 0xca]),
            None
        );
        assert_eq!(mark_number(&[0x90]), None);
    }
}

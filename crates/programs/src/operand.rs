//! What an instruction reaches memory by.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};

use linemate_types::ElfAddr;

/// A general register, by its number in DWARF (System V ABI, AMD64 supplement, figure 3.36).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Base(pub u8);

impl Base {
    /// `rbp`
    pub const FRAME: Base = Base(6);
    /// `rsp`
    pub const STACK: Base = Base(7);

    /// The register that a part of it (`eax`, `al`) is of; `None` for other registers.
    #[must_use]
    pub fn of(register: Register) -> Option<Base> {
        let number = match register.full_register() {
            Register::RAX => 0,
            Register::RDX => 1,
            Register::RCX => 2,
            Register::RBX => 3,
            Register::RSI => 4,
            Register::RDI => 5,
            Register::RBP => 6,
            Register::RSP => 7,
            Register::R8 => 8,
            Register::R9 => 9,
            Register::R10 => 10,
            Register::R11 => 11,
            Register::R12 => 12,
            Register::R13 => 13,
            Register::R14 => 14,
            Register::R15 => 15,
            _ => return None,
        };
        Some(Base(number))
    }
}

/// How an instruction's memory operand is addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// It has none, or several.
    None,
    /// A place that the linker knows: relative to the instruction.
    Place(ElfAddr),
    /// A register and a number.
    Based {
        base: Base,
        /// What is added to it.
        displacement: i64,
        /// A second register is added, too.
        indexed: bool,
    },
    /// The thread's own storage, and a number: `%fs:displacement`.
    Thread {
        /// What is added to the thread pointer.
        displacement: i64,
    },
    Other,
}

/// What is known of an instruction of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserInstruction {
    pub operand: Operand,
    /// Bytes of that.
    pub bytes: u16,
    /// Whether it accesses the stack by itself: a push, pop, call or return.
    pub uses_stack: bool,
    pub calls: bool,
}

/// Decodes the instruction at `address`, which begins `bytes`. Bytes that are none give one without an operand.
#[must_use]
pub fn decode(bytes: &[u8], address: ElfAddr) -> UserInstruction {
    let bytes = &bytes[..bytes.len().min(15)];
    let mut decoder = Decoder::with_ip(64, bytes, address.0, DecoderOptions::NONE);
    let instruction = decoder.decode();
    if instruction.code() == Code::INVALID {
        return UserInstruction {
            operand: Operand::None,
            bytes: 0,
            uses_stack: false,
            calls: false,
        };
    }
    let flow = instruction.flow_control();
    let calls = matches!(flow, FlowControl::Call | FlowControl::IndirectCall);
    UserInstruction {
        operand: operand_of(&instruction),
        bytes: u16::try_from(instruction.memory_size().size()).unwrap_or(u16::MAX),
        uses_stack: instruction.is_stack_instruction(),
        calls,
    }
}

/// How a decoded instruction's memory operand is addressed.
#[must_use]
pub fn operand_of(instruction: &Instruction) -> Operand {
    let memory = (0..instruction.op_count())
        .filter(|n| instruction.op_kind(*n) == OpKind::Memory)
        .count();
    if memory != 1 || instruction.mnemonic() == Mnemonic::Lea {
        return Operand::None;
    }
    if instruction.is_ip_rel_memory_operand() {
        return Operand::Place(ElfAddr(instruction.ip_rel_memory_address()));
    }
    let displacement = instruction.memory_displacement64() as i64;
    let indexed = instruction.memory_index() != Register::None;
    if instruction.segment_prefix() == Register::FS {
        let plain = instruction.memory_base() == Register::None && !indexed;
        return if plain {
            Operand::Thread { displacement }
        } else {
            Operand::Other
        };
    }
    match instruction.memory_base() {
        // An absolute address: the linker knew it, which it does in programs that are loaded where they were linked.
        Register::None if !indexed => Operand::Place(ElfAddr(displacement as u64)),
        base => Base::of(base).map_or(Operand::Other, |base| Operand::Based {
            base,
            displacement,
            indexed,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> UserInstruction {
        decode(bytes, ElfAddr(0x1000))
    }

    #[test]
    fn operands_are_what_the_assembler_wrote() {
        let based = |base, displacement, indexed| Operand::Based {
            base: Base(base),
            displacement,
            indexed,
        };
        // add $1, 0x18(%rdi); mov (%rax,%rbx,8), %rcx; mov 0x10(%rip), %rax; mov %fs:-8, %rax; mov %fs:0x28(%rax), %rax
        assert_eq!(
            of(&[0x48, 0x83, 0x47, 0x18, 1]).operand,
            based(5, 0x18, false)
        );
        assert_eq!(of(&[0x48, 0x8b, 0x0c, 0xd8]).operand, based(0, 0, true));
        let relative = of(&[0x48, 0x8b, 0x05, 0x10, 0, 0, 0]).operand;
        assert_eq!(relative, Operand::Place(ElfAddr(0x1017)));
        let thread = [0x64, 0x48, 0x8b, 0x04, 0x25, 0xf8, 0xff, 0xff, 0xff];
        assert_eq!(of(&thread).operand, Operand::Thread { displacement: -8 });
        assert_eq!(of(&[0x64, 0x48, 0x8b, 0x40, 0x28]).operand, Operand::Other);
        // lea 8(%rax), %rax accesses nothing.
        assert_eq!(of(&[0x48, 0x8d, 0x40, 8]).operand, Operand::None);
    }

    #[test]
    fn calls_and_stack_instructions_are_told() {
        let call = of(&[0xe8, 0, 0, 0, 0]);
        assert!(call.calls && call.uses_stack);
        let push = of(&[0x55]);
        assert!(!push.calls && push.uses_stack);
        let other = of(&[0x48, 0x89, 0x07]);
        assert_eq!(other.bytes, 8);
        assert!(!other.calls && !other.uses_stack);
        assert_eq!(of(&[]).operand, Operand::None);
        assert_eq!(
            of(&[0x06]).operand,
            Operand::None,
            "no instruction in 64-bit code"
        );
    }
}

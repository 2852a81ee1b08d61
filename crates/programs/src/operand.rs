//! How a program's instruction addresses memory.

use linemate_insn::x86_64::{Flow, Instruction, Operand};
use linemate_types::ElfAddr;

/// What is known about an instruction of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserInstruction {
    pub operand: Operand,
    /// Bytes of that.
    pub bytes: u16,
    /// Whether it accesses the stack implicitly: a push, pop, call or return.
    pub uses_stack: bool,
    pub calls: bool,
    /// Where a direct call goes.
    pub target: Option<ElfAddr>,
}

/// Decodes the instruction at `address`, at the start of `bytes`. Invalid bytes
/// give one without an operand.
#[must_use]
pub fn decode(bytes: &[u8], address: ElfAddr) -> UserInstruction {
    let instruction = Instruction::decode(bytes, address);
    if !instruction.is_valid() {
        return UserInstruction {
            operand: Operand::None,
            bytes: 0,
            uses_stack: false,
            calls: false,
            target: None,
        };
    }
    let calls = instruction.flow() == Flow::Call;
    UserInstruction {
        operand: instruction.operand(),
        bytes: u16::try_from(instruction.operand_bytes()).unwrap_or(u16::MAX),
        uses_stack: instruction.uses_stack(),
        calls,
        target: instruction.target().filter(|_| calls),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> UserInstruction {
        decode(bytes, ElfAddr(0x1000))
    }

    #[test]
    fn calls_and_stack_instructions_are_reported() {
        let call = of(&[0xe8, 0, 0, 0, 0]);
        assert!(call.calls && call.uses_stack);
        assert_eq!(call.target, Some(ElfAddr(0x1005)));
        let push = of(&[0x55]);
        assert!(!push.calls && push.uses_stack);
        let jump = of(&[0xe9, 0, 0, 0, 0]);
        assert!(!jump.calls && jump.target.is_none());
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

//! How an instruction addresses memory.

use iced_x86::{Mnemonic, OpKind, Register};
use linemate_units::ElfAddr;

use super::Instruction;

/// A general register, by its number in DWARF (System V ABI, AMD64 supplement, figure 3.36).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Base(pub u8);

impl Base {
    /// `rbp`
    pub const FRAME: Base = Base(6);
    /// `rsp`
    pub const STACK: Base = Base(7);

    /// The full register of a part such as `eax` or `al`; `None` for other registers.
    #[inline]
    pub(super) fn of(register: Register) -> Option<Base> {
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

    /// Below 16, for tables by register.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// How a memory operand is addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// It has no memory operand, or several.
    None,
    /// An address that the linker knows, relative to the instruction.
    Place(ElfAddr),
    /// A register plus a constant.
    Based {
        base: Base,
        /// The constant.
        displacement: i64,
        /// A second register is added, too.
        indexed: bool,
    },
    /// Thread-local storage plus a constant: `%fs:displacement`.
    Thread {
        /// The constant added to the thread pointer.
        displacement: i64,
    },
    Other,
}

impl Instruction {
    /// How its one memory operand is addressed; none for `lea`, which accesses nothing.
    pub fn operand(&self) -> Operand {
        let memory = (0..self.0.op_count())
            .filter(|n| self.0.op_kind(*n) == OpKind::Memory)
            .count();
        match memory == 1 && !self.is_lea() {
            true => self.addressed(),
            false => Operand::None,
        }
    }

    /// The same, but also for `lea`: how its operand would be addressed.
    pub fn addressed(&self) -> Operand {
        if self.is_relative() {
            return Operand::Place(ElfAddr(self.0.ip_rel_memory_address()));
        }
        let displacement = self.0.memory_displacement64() as i64;
        let indexed = self.0.memory_index() != Register::None;
        if self.0.segment_prefix() == Register::FS {
            let plain = self.0.memory_base() == Register::None && !indexed;
            return if plain {
                Operand::Thread { displacement }
            } else {
                Operand::Other
            };
        }
        match self.0.memory_base() {
            // An absolute address: the linker knows it in programs that are loaded where they were
            // linked.
            Register::None if !indexed => Operand::Place(ElfAddr(displacement as u64)),
            base => Base::of(base).map_or(Operand::Other, |base| Operand::Based {
                base,
                displacement,
                indexed,
            }),
        }
    }

    /// Whether its memory operand is relative to the instruction.
    pub fn is_relative(&self) -> bool {
        self.0.is_ip_rel_memory_operand()
    }

    /// Whether a prefix names a segment, which is added to the address.
    pub fn has_segment(&self) -> bool {
        self.0.segment_prefix() != Register::None
    }

    /// The scale of an index register.
    pub fn index_scale(&self) -> u64 {
        u64::from(self.0.memory_index_scale())
    }

    /// Bytes of its memory operand; 0 without one.
    #[inline]
    pub fn operand_bytes(&self) -> usize {
        self.0.memory_size().size()
    }

    /// Whether it has an explicit memory operand, as opposed to memory that its opcode implies
    /// (`push`, `movs`).
    pub fn has_operand(&self) -> bool {
        (0..self.0.op_count()).any(|i| self.0.op_kind(i) == OpKind::Memory)
    }

    /// `lock` prefix, or `xchg` with memory: its load and its store are one access.
    pub fn is_atomic(&self) -> bool {
        // `xchg` with memory locks without a prefix (Intel SDM, LOCK).
        self.has_operand() && (self.0.has_lock_prefix() || self.0.mnemonic() == Mnemonic::Xchg)
    }

    /// Whether its operand is a vector of addresses: a gather or scatter.
    pub fn is_gather(&self) -> bool {
        self.0.is_vsib()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Operand {
        Instruction::decode(bytes, ElfAddr(0x1000)).operand()
    }

    #[test]
    fn operands_are_what_the_assembler_wrote() {
        let based = |base, displacement, indexed| Operand::Based {
            base: Base(base),
            displacement,
            indexed,
        };
        // add $1, 0x18(%rdi); mov (%rax,%rbx,8), %rcx; mov 0x10(%rip), %rax; mov %fs:-8, %rax; mov
        // %fs:0x28(%rax), %rax
        assert_eq!(of(&[0x48, 0x83, 0x47, 0x18, 1]), based(5, 0x18, false));
        let indexed = [0x48, 0x8b, 0x0c, 0xd8];
        assert_eq!(of(&indexed), based(0, 0, true));
        let scale = Instruction::decode(&indexed, ElfAddr(0)).index_scale();
        assert_eq!(scale, 8);
        let relative = of(&[0x48, 0x8b, 0x05, 0x10, 0, 0, 0]);
        assert_eq!(relative, Operand::Place(ElfAddr(0x1017)));
        let thread = [0x64, 0x48, 0x8b, 0x04, 0x25, 0xf8, 0xff, 0xff, 0xff];
        assert_eq!(of(&thread), Operand::Thread { displacement: -8 });
        assert_eq!(of(&[0x64, 0x48, 0x8b, 0x40, 0x28]), Operand::Other);
        // lea 8(%rax), %rax accesses nothing.
        let lea = [0x48, 0x8d, 0x40, 8];
        assert_eq!(of(&lea), Operand::None);
        let lea = Instruction::decode(&lea, ElfAddr(0));
        assert_eq!(lea.addressed(), based(0, 8, false));
    }
}

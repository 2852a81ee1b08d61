//! What an instruction reads and writes, including implied operands.

use iced_x86::{InstructionInfo, InstructionInfoFactory, OpAccess, Register};

use super::{Base, Instruction};

/// Whether something is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    No,
    /// Under a condition, as by `cmov`.
    Maybe,
    Yes,
}

/// How something is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    pub reads: bool,
    pub writes: Write,
}

impl Use {
    /// `None` for an address that is computed but not accessed.
    fn of(access: OpAccess) -> Option<Use> {
        let (reads, writes) = match access {
            OpAccess::None | OpAccess::NoMemAccess => return None,
            OpAccess::Read | OpAccess::CondRead => (true, Write::No),
            OpAccess::Write => (false, Write::Yes),
            OpAccess::CondWrite => (false, Write::Maybe),
            OpAccess::ReadWrite => (true, Write::Yes),
            OpAccess::ReadCondWrite => (true, Write::Maybe),
        };
        Some(Use { reads, writes })
    }
}

/// A general register that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterUse {
    pub register: Base,
    pub used: Use,
}

/// Memory that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    pub base: Option<Base>,
    pub index: Option<Base>,
    /// Whether something other than a general register is added: the instruction's own address, or
    /// a vector.
    pub indexed: bool,
    pub displacement: i64,
    /// 0 if the instruction has none.
    pub bytes: usize,
    pub used: Use,
}

/// Finds what instructions read and write. Owns the memory that this takes, for reuse.
#[derive(Debug)]
pub struct Effects(InstructionInfoFactory);

impl Default for Effects {
    fn default() -> Effects {
        Effects(InstructionInfoFactory::new())
    }
}

impl Effects {
    /// What one instruction reads and writes.
    pub fn of(&mut self, instruction: &Instruction) -> InstructionEffects<'_> {
        InstructionEffects {
            reads_flags: instruction.0.rflags_read() != 0,
            writes_flags: instruction.0.rflags_modified() != 0,
            info: self.0.info(&instruction.0),
        }
    }
}

/// What one instruction reads and writes.
#[derive(Debug)]
pub struct InstructionEffects<'e> {
    pub reads_flags: bool,
    pub writes_flags: bool,
    info: &'e InstructionInfo,
}

impl InstructionEffects<'_> {
    /// General registers; a part counts as the whole register.
    pub fn registers(&self) -> impl Iterator<Item = RegisterUse> {
        self.info.used_registers().iter().filter_map(|used| {
            Some(RegisterUse {
                register: Base::of(used.register())?,
                used: Use::of(used.access())?,
            })
        })
    }

    pub fn memory(&self) -> impl Iterator<Item = MemoryUse> {
        self.info.used_memory().iter().filter_map(|used| {
            Some(MemoryUse {
                base: Base::of(used.base()),
                index: Base::of(used.index()),
                indexed: used.index() != Register::None,
                displacement: used.displacement() as i64,
                bytes: used.memory_size().size(),
                used: Use::of(used.access())?,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linemate_units::ElfAddr;

    const READ: Use = Use {
        reads: true,
        writes: Write::No,
    };

    fn with<T>(bytes: &[u8], ask: impl FnOnce(InstructionEffects<'_>) -> T) -> T {
        ask(Effects::default().of(&Instruction::decode(bytes, ElfAddr(0))))
    }

    #[test]
    fn registers_and_memory_are_used_as_the_manual_says() {
        let (rax, rdi) = (Base(0), Base(5));
        // add rax,[rdi+8]
        with(&[0x48, 0x03, 0x47, 8], |add| {
            let both = Use {
                reads: true,
                writes: Write::Yes,
            };
            let registers: Vec<(Base, Use)> =
                add.registers().map(|u| (u.register, u.used)).collect();
            assert!(registers.contains(&(rax, both)) && registers.contains(&(rdi, READ)));
            let memory: Vec<MemoryUse> = add.memory().collect();
            assert_eq!((memory.len(), memory[0].base), (1, Some(rdi)));
            assert_eq!((memory[0].displacement, memory[0].bytes), (8, 8));
            assert_eq!((memory[0].used, memory[0].indexed), (READ, false));
            assert!(add.writes_flags && !add.reads_flags);
        });
        // cmove rax,rdi; lea rax,[rdi]
        let maybe = with(&[0x48, 0x0f, 0x44, 0xc7], |cmov| {
            assert!(cmov.reads_flags);
            cmov.registers()
                .find(|u| u.register == rax)
                .map(|u| u.used.writes)
        });
        assert_eq!(maybe, Some(Write::Maybe));
        assert_eq!(with(&[0x48, 0x8d, 0x07], |lea| lea.memory().count()), 0);
    }
}

//! Instructions of 64-bit code. Only this module uses the decoder, `iced-x86`.

mod effects;
mod operand;

use std::iter;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic, OpKind, Register};
use linemate_units::ElfAddr;

pub use effects::{Effects, MemoryUse, RegisterUse, Use, Write};
pub use operand::{Base, Operand};

/// The longest instruction (Intel 64 and IA-32 Architectures Software Developer's Manual, 2.3.11).
pub const MAX_BYTES: usize = 15;

/// Where control goes after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// To the next one.
    Next,
    /// There, or to the next one.
    Branch,
    /// The same for the start or end of a transaction.
    Transaction,
    /// To its target.
    Jump,
    /// To an address in a register or in memory.
    IndirectJump,
    Call,
    /// `ret`: to the address that a call stored.
    Return,
    /// `iret`: to the address that an interrupt stored.
    InterruptReturn,
    /// To user space or another segment.
    FarReturn,
    /// `int` and the like: the next instruction follows eventually.
    Interrupt,
    /// `ud2`: nothing follows.
    Fault,
}

/// What is added to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summand {
    Register(Base),
    /// The instruction's memory operand.
    Memory,
    Constant(i64),
}

/// A copy of a whole general register, or of an address into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    Copy {
        from: Base,
        to: Base,
    },
    Load {
        to: Base,
    },
    Store {
        from: Base,
    },
    /// `lea`
    Address {
        to: Base,
    },
}

/// A decoded instruction.
#[derive(Clone, Copy, Debug)]
pub struct Instruction(iced_x86::Instruction);

impl Instruction {
    /// The instruction at the start of `bytes`. Invalid bytes return one for which
    /// [`is_valid`](Self::is_valid) is false.
    #[inline]
    pub fn decode(bytes: &[u8], address: ElfAddr) -> Instruction {
        let bytes = &bytes[..bytes.len().min(MAX_BYTES)];
        Instruction(Decoder::with_ip(64, bytes, address.0, DecoderOptions::NONE).decode())
    }

    /// All instructions of a piece of code, in order.
    pub fn all(code: &[u8], start: ElfAddr) -> impl Iterator<Item = Instruction> {
        let mut decoder = Decoder::with_ip(64, code, start.0, DecoderOptions::NONE);
        iter::from_fn(move || decoder.can_decode().then(|| Instruction(decoder.decode())))
    }

    #[inline]
    pub fn is_valid(&self) -> bool {
        !self.0.is_invalid()
    }

    #[inline]
    pub fn address(&self) -> ElfAddr {
        ElfAddr(self.0.ip())
    }

    /// Where it ends, and the next one begins.
    #[inline]
    pub fn end(&self) -> ElfAddr {
        ElfAddr(self.0.next_ip())
    }

    /// The instruction's length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no bytes, as only an invalid instruction has.
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    pub fn flow(&self) -> Flow {
        match self.0.flow_control() {
            FlowControl::Next => Flow::Next,
            FlowControl::ConditionalBranch => Flow::Branch,
            FlowControl::XbeginXabortXend => Flow::Transaction,
            FlowControl::UnconditionalBranch => Flow::Jump,
            FlowControl::IndirectBranch => Flow::IndirectJump,
            FlowControl::Call | FlowControl::IndirectCall => Flow::Call,
            FlowControl::Interrupt => Flow::Interrupt,
            FlowControl::Exception => Flow::Fault,
            FlowControl::Return => match self.0.mnemonic() {
                Mnemonic::Ret => Flow::Return,
                Mnemonic::Iretq | Mnemonic::Iretd | Mnemonic::Iret => Flow::InterruptReturn,
                _ => Flow::FarReturn,
            },
        }
    }

    /// Where it jumps to or calls, if its encoding says so.
    pub fn target(&self) -> Option<ElfAddr> {
        let is_near = self.0.op0_kind() == OpKind::NearBranch64;
        is_near.then(|| ElfAddr(self.0.near_branch64()))
    }

    /// `hlt` or `mwait`: the CPU waits for an interrupt.
    pub fn halts(&self) -> bool {
        matches!(self.0.mnemonic(), Mnemonic::Hlt | Mnemonic::Mwait)
    }

    /// A push, pop, call or return: it accesses the stack implicitly.
    pub fn uses_stack(&self) -> bool {
        self.0.is_stack_instruction()
    }

    /// Whether it grows the stack, which shifts all displacements from the stack pointer.
    pub fn lowers_stack(&self) -> bool {
        match self.0.mnemonic() {
            Mnemonic::Push => true,
            Mnemonic::Sub | Mnemonic::And => self.0.op0_register() == iced_x86::Register::RSP,
            _ => false,
        }
    }

    /// Whether it may load or store. Doubtful instructions (privileged ones, far transfers, segment
    /// loads) count.
    pub fn may_touch_memory(&self) -> bool {
        let instruction = &self.0;
        let innocent_operand = |index| match instruction.op_kind(index) {
            OpKind::Register => !instruction.op_register(index).is_segment_register(),
            OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 => true,
            kind => (OpKind::Immediate8..=OpKind::Immediate32to64).contains(&kind),
        };
        let innocent_flow = matches!(
            instruction.flow_control(),
            FlowControl::Next
                | FlowControl::UnconditionalBranch
                | FlowControl::ConditionalBranch
                | FlowControl::IndirectBranch
        );
        // iced does not list the descriptor tables among these instructions' memory operands, but
        // QEMU reads them.
        let reads_descriptors = matches!(
            instruction.mnemonic(),
            Mnemonic::Lar | Mnemonic::Lsl | Mnemonic::Verr | Mnemonic::Verw
        );
        !(innocent_flow && (0..instruction.op_count()).all(innocent_operand))
            || instruction.is_stack_instruction()
            || instruction.is_privileged()
            || reads_descriptors
    }

    /// `rep stos` and `rep movs`: how kernels clear and copy whole pages.
    pub fn is_bulk_store(&self) -> bool {
        self.0.has_rep_prefix()
            && matches!(
                self.0.mnemonic(),
                Mnemonic::Stosb
                    | Mnemonic::Stosw
                    | Mnemonic::Stosd
                    | Mnemonic::Stosq
                    | Mnemonic::Movsb
                    | Mnemonic::Movsw
                    | Mnemonic::Movsd
                    | Mnemonic::Movsq
            )
    }

    /// `lea`: it computes its operand's address and does not access it.
    pub fn is_lea(&self) -> bool {
        self.0.mnemonic() == Mnemonic::Lea
    }

    /// Whether it does nothing, as between functions and before loops.
    pub fn is_nop(&self) -> bool {
        matches!(self.0.mnemonic(), Mnemonic::Nop | Mnemonic::Int3)
    }

    /// What it adds to which whole general register, if it is an addition to one, or a subtraction
    /// of a constant.
    pub fn summed(&self) -> Option<(Base, Summand)> {
        let to = self.0.op0_register();
        let to = Base::of(to).filter(|_| self.0.op0_kind() == OpKind::Register && to.is_gpr64())?;
        let constant = || self.0.try_immediate(1).ok().map(|value| value as i64);
        let summand = match (self.0.mnemonic(), self.0.op1_kind()) {
            (Mnemonic::Add, OpKind::Register) => {
                Summand::Register(Base::of(self.0.op1_register())?)
            }
            (Mnemonic::Add, OpKind::Memory) => Summand::Memory,
            (Mnemonic::Add, _) => Summand::Constant(constant()?),
            (Mnemonic::Sub, OpKind::Register | OpKind::Memory) => return None,
            (Mnemonic::Sub, _) => Summand::Constant(constant()?.checked_neg()?),
            _ => return None,
        };
        Some((to, summand))
    }

    /// The bytes by which it lowers the stack pointer: `push`, `sub rsp, N`. 0 for any other.
    pub fn grows_stack(&self) -> u64 {
        match self.0.mnemonic() {
            Mnemonic::Push => u64::from(self.0.stack_pointer_increment().unsigned_abs()),
            Mnemonic::Sub if self.0.op0_register() == Register::RSP => {
                let constant = self.0.try_immediate(1).ok();
                constant.filter(|bytes| *bytes >> 63 == 0).unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// Whether it copies a whole general register or an address into one, and which.
    pub fn moved(&self) -> Option<Move> {
        let register = |index: u32| {
            let is_register = self.0.op_kind(index) == OpKind::Register;
            let register = self.0.op_register(index);
            (is_register && register.is_gpr64())
                .then(|| Base::of(register))
                .flatten()
        };
        if self.0.op_count() != 2 {
            return None;
        }
        let has_memory = |index| self.0.op_kind(index) == OpKind::Memory;
        match self.0.mnemonic() {
            Mnemonic::Mov if has_memory(1) => Some(Move::Load { to: register(0)? }),
            Mnemonic::Mov if has_memory(0) => Some(Move::Store { from: register(1)? }),
            Mnemonic::Mov => Some(Move::Copy {
                from: register(1)?,
                to: register(0)?,
            }),
            Mnemonic::Lea => Some(Move::Address { to: register(0)? }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Instruction {
        Instruction::decode(bytes, ElfAddr(0x1000))
    }

    #[test]
    fn additions_say_what_is_added() {
        for (bytes, summed) in [
            // add rsi,rax; add rdx,[rdi]; add rax,0x20; sub rax,0x18
            (
                &[0x48, 0x01, 0xc6][..],
                Some((4, Summand::Register(Base(0)))),
            ),
            (&[0x48, 0x03, 0x17], Some((1, Summand::Memory))),
            (
                &[0x48, 0x83, 0xc0, 0x20],
                Some((0, Summand::Constant(0x20))),
            ),
            (
                &[0x48, 0x83, 0xe8, 0x18],
                Some((0, Summand::Constant(-0x18))),
            ),
            // add eax,1; add [rdi],rax; sub rax,rdx; mov rax,rdx
            (&[0x83, 0xc0, 1], None),
            (&[0x48, 0x01, 0x07], None),
            (&[0x48, 0x29, 0xd0], None),
            (&[0x48, 0x89, 0xd0], None),
        ] {
            let summed = summed.map(|(to, with)| (Base(to), with));
            assert_eq!(of(bytes).summed(), summed, "{bytes:02x?}");
        }
    }

    #[test]
    fn pushes_and_subtractions_grow_the_stack() {
        for (bytes, grown) in [
            (&[0x41, 0x57][..], 8),
            (&[0x48, 0x83, 0xec, 0x38], 0x38),
            (&[0x48, 0x81, 0xec, 0, 1, 0, 0], 0x100),
            // sub rsp,-0x80; sub rax,8; sub rsp,rax; pop rax; add rsp,8
            (&[0x48, 0x83, 0xec, 0x80], 0),
            (&[0x48, 0x83, 0xe8, 8], 0),
            (&[0x48, 0x29, 0xc4], 0),
            (&[0x58], 0),
            (&[0x48, 0x83, 0xc4, 8], 0),
        ] {
            assert_eq!(of(bytes).grows_stack(), grown, "{bytes:02x?}");
        }
    }

    #[test]
    fn control_goes_where_the_manual_says() {
        for (bytes, flow) in [
            (&[0x90][..], Flow::Next),
            (&[0x74, 0x10], Flow::Branch),
            (&[0xc7, 0xf8, 0, 0, 0, 0], Flow::Transaction),
            (&[0xeb, 0x10], Flow::Jump),
            (&[0xff, 0xe0], Flow::IndirectJump),
            (&[0xe8, 0, 0, 0, 0], Flow::Call),
            (&[0xff, 0xd0], Flow::Call),
            (&[0xc3], Flow::Return),
            (&[0xc2, 8, 0], Flow::Return),
            (&[0x48, 0xcf], Flow::InterruptReturn),
            (&[0x48, 0x0f, 0x07], Flow::FarReturn),
            (&[0xcb], Flow::FarReturn),
            (&[0xcc], Flow::Interrupt),
            (&[0x0f, 0x0b], Flow::Fault),
        ] {
            assert_eq!(of(bytes).flow(), flow, "{bytes:x?}");
        }
        assert_eq!(of(&[0xeb, 0x10]).target(), Some(ElfAddr(0x1012)));
        assert_eq!(of(&[0xff, 0xe0]).target(), None);
        assert!(of(&[0xf4]).halts() && !of(&[0x90]).halts());
    }

    #[test]
    fn all_of_a_piece_of_code_is_decoded() {
        let code: Vec<Instruction> =
            Instruction::all(&[0x90, 0xeb, 0x10, 0xc3], ElfAddr(8)).collect();
        let at: Vec<u64> = code.iter().map(|i| i.address().0).collect();
        assert_eq!(at, [8, 9, 11]);
        assert_eq!((code[1].len(), code[1].end()), (2, ElfAddr(11)));
        assert!(!of(&[]).is_valid() && of(&[]).is_empty());
        assert!(!of(&[0x06]).is_valid(), "no instruction in 64-bit code");
    }

    #[test]
    fn moves_are_of_whole_registers() {
        let (rax, rdi) = (Base(0), Base(5));
        for (bytes, moved) in [
            // mov rax,rdi; mov rax,[rdi]; mov [rdi],rax; lea rax,[rdi+8]
            (
                &[0x48, 0x89, 0xf8][..],
                Some(Move::Copy { from: rdi, to: rax }),
            ),
            (&[0x48, 0x8b, 0x07], Some(Move::Load { to: rax })),
            (&[0x48, 0x89, 0x07], Some(Move::Store { from: rax })),
            (&[0x48, 0x8d, 0x47, 8], Some(Move::Address { to: rax })),
            // mov eax,edi; mov eax,[rdi]; mov rax,cr0; mov qword [rdi],1; add rax,rdi
            (&[0x89, 0xf8], None),
            (&[0x8b, 0x07], None),
            (&[0x0f, 0x20, 0xc0], None),
            (&[0x48, 0xc7, 0x07, 1, 0, 0, 0], None),
            (&[0x48, 0x01, 0xf8], None),
        ] {
            assert_eq!(of(bytes).moved(), moved, "{bytes:x?}");
        }
    }
}

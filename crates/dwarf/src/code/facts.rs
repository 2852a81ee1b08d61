//! What code shows, as values.

use std::ops::Range;

use linemate_types::{ByteOffset, ElfAddr, Name, SourceLine, TypeId};

/// A register by its number in DWARF, which for x86-64 is that of the psABI, not that of machine
/// code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Register(pub u16);

impl Register {
    /// x86-64's `rbp` by DWARF's numbers.
    pub const RBP: Register = Register(6);
    /// x86-64's `rsp` by DWARF's numbers.
    pub const RSP: Register = Register(7);
}

impl From<gimli::Register> for Register {
    fn from(register: gimli::Register) -> Register {
        Register(register.0)
    }
}

/// Where a variable with static storage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Storage {
    Static(ElfAddr),
    /// In each thread's block of this program, at that offset.
    ThreadLocal(u64),
}

/// A variable with static storage: global, `static`, or of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// Its name, with its scopes if its symbol has them.
    pub name: String,
    /// Its symbol, if that differs from the name.
    pub linkage_name: Option<String>,
    pub storage: Storage,
    pub type_id: TypeId,
    /// Bytes; 0 if its type does not say.
    pub size: u64,
    /// Where it is declared.
    pub declared: Option<SourceLine>,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionParameter {
    /// Its name; empty when it has none.
    pub name: Name,
    pub type_id: TypeId,
}

/// A function with code of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, demangled, without parameters.
    pub name: String,
    /// Its symbol, if that differs from the name.
    pub linkage_name: Option<String>,
    /// Where its code is, ascending; several ranges if the compiler put rare parts elsewhere.
    pub ranges: Vec<Range<ElfAddr>>,
    /// Where it is declared.
    pub declared: Option<SourceLine>,
    /// Its parameters, in order.
    pub parameters: Vec<FunctionParameter>,
}

/// The target of a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointedTo {
    /// The struct, union or class.
    pub type_id: TypeId,
    /// How far the register is past the start of the object; negative before it. Nearly always 0.
    pub offset: i64,
    /// The variable that shows it.
    pub variable: Name,
    /// How many scopes enclose the variable: inlined functions are deeper than the functions they
    /// are inlined into.
    pub depth: u32,
}

/// A variable on the stack, or wherever a register points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableAt {
    pub variable: Name,
    pub type_id: TypeId,
    /// Which of its bytes it is.
    pub offset: ByteOffset,
}

/// Where a variable of a frame is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramePlace {
    /// This far above the stack pointer.
    AboveStackPointer(i64),
    /// This far above the canonical frame address: negative for all but arguments on the stack.
    AboveFrameAddress(i64),
}

/// A variable in a function's frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameVariable {
    pub variable: Name,
    pub type_id: TypeId,
    /// Bytes, at least 1.
    pub size: u64,
    pub place: FramePlace,
}

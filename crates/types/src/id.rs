//! Which type, and where in a file.

use std::fmt;

/// A type's number in its [`crate::TypeModel`]. For BTF it is the BTF type id; 0 is `void`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub u32);

impl TypeId {
    /// `void`.
    pub const VOID: TypeId = TypeId(0);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for TypeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// An address as an ELF file has it: where the linker put it, before the program is loaded anywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElfAddr(pub u64);

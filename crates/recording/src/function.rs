//! The function table: which kernel functions a recorder watches, and what their parameters mean.
//!
//! The guest crate builds the table before the run from BTF prototypes and symbols; the recorder
//! obeys it without understanding it; attribution reads it back. It is part of the recording.

use linemate_units::GuestAddr;

/// The maximum number of parameters of a watched function: System V passes six integers in
/// registers.
pub const MAX_PARAMETERS: usize = 6;

/// A System V integer argument register, in argument order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Register {
    Rdi = 0,
    Rsi = 1,
    Rdx = 2,
    Rcx = 3,
    R8 = 4,
    R9 = 5,
}

impl Register {
    /// All, in argument order.
    pub const ALL: [Register; 6] = [
        Register::Rdi,
        Register::Rsi,
        Register::Rdx,
        Register::Rcx,
        Register::R8,
        Register::R9,
    ];
}

/// The meaning of a parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Meaning {
    /// `struct T *`: a sighting of a T. The number is T's BTF type id in the recording's own BTF;
    /// for a program's function, whose debug information says which struct it is, and in a
    /// recording without the kernel's types, it is 0.
    StructPointer(u32),
    /// `struct kmem_cache *`: the cache that is allocated from or freed to.
    Cache,
    /// A size in bytes.
    Size,
    /// A page order: 2^n pages.
    Order,
    /// A number of elements (of an array, or of a bulk allocation).
    Count,
    /// The address of the object to be freed.
    Object,
    /// Where a bulk allocation or free has its array of object addresses.
    ObjectArray,
    /// Where an allocation stores the address of the object: its return value is then 0, or no
    /// object exists.
    ObjectSlot,
}

/// What a call of the function means beyond its sightings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Only the pointers passed to it matter.
    Plain,
    /// Returns a heap object (slab or large kmalloc).
    HeapAlloc,
    /// Frees a heap object.
    HeapFree,
    /// Returns a per-CPU pointer: one object on each CPU.
    PercpuAlloc,
    /// Frees a per-CPU pointer.
    PercpuFree,
    /// Returns a `struct page *` of 2^order pages.
    PageAlloc,
    /// Frees 2^order pages, given their `struct page *`.
    PageFree,
    /// Returns virtually contiguous memory.
    VirtualAlloc,
    VirtualFree,
    /// `__switch_to(prev, next)`: from here on the CPU runs `next`; [`crate::Call::stack`] is on
    /// its kernel stack.
    ContextSwitch,
    /// An interrupt or exception entry.
    Interrupt,
    /// Every call is recorded, whatever its parameters: an event for costs per call.
    Event,
}

/// A parameter to be read at entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parameter {
    pub register: Register,
    pub meaning: Meaning,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub entry: GuestAddr,
    /// Bytes of code from the entry, to find its return instructions.
    pub size: u32,
    pub name: String,
    /// The meaning of a call.
    pub role: Role,
    /// Whether the returned value and the caller are recorded.
    pub returns: bool,
    /// The parameters to read, at most [`MAX_PARAMETERS`].
    pub parameters: Vec<Parameter>,
}

/// All watched functions; a [`crate::FunctionId`] is an index into it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionTable {
    /// The functions, sorted by entry address, no two at the same one.
    pub functions: Vec<Function>,
}

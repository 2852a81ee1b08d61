//! One type model over BTF, kernel images and symbols.
//!
//! * [`kernel_image`] finds the BTF in a blob, an ELF file or a compressed kernel image;
//! * [`btf`] reads BTF into a [`TypeModel`];
//! * [`TypeModel`] answers questions about types: by name, size, members, prototypes, per-CPU
//!   variables;
//! * [`FlatType`] resolves (offset, size) in a type to a field path;
//! * [`Symbols`] reads `/proc/kallsyms`.
//!
//! Everything here is a pure function of its input bytes: no file is opened, nothing is printed.
//! Input is hostile until proven otherwise: each parser returns an error that carries the offending
//! value, never panics, and bounds its recursion and its memory by the size of its input.

pub mod btf;
mod check;
mod declared;
mod find;
mod flat;
mod id;
mod join;
pub mod kernel_image;
mod layout;
mod model;
mod name;
pub mod pahole;
mod percpu;
mod pointers;
mod symbols;
mod type_name;
pub mod unpack;

pub use check::{MAX_DEPTH, MAX_SIZE, ModelError};
pub use declared::{DeclaredGroup, declared_groups, is_group_mark, types_with_groups};
pub use find::{FoundType, NotFound, TypeQuery};
pub use flat::{FieldHit, FlatType, FlattenError, Leaf, LeafId, MAX_LEAVES};
pub use id::TypeId;
pub use join::{JoinedModel, join};
pub use kernel_image::KernelImage;
pub use layout::{Layout, MemberLayout, NamedMember, named_members};
pub use linemate_units::{
    BitOffset, ByteAlign, ByteOffset, ByteSize, ElfAddr, LineIndex, LineSize, LineSizeError,
};
pub use model::{
    Composite, CompositeKind, Enumerator, IntEncoding, Keyword, Language, Linkage, Member,
    MemberRole, Parameter, Prototype, Qualifier, SectionVariable, SourceLine, Type, TypeModel,
};
pub use name::Name;
pub use percpu::{PERCPU_SECTION, PercpuVariable};
pub use pointers::{POINTER_ROOTS, PointerRoot};
pub use symbols::{Symbol, Symbols, SymbolsError, function_of};

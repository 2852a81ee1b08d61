//! Types as in the entries: not yet checked, each as often as it is described.

use std::num::NonZeroU32;

use linemate_types::{IntEncoding, Keyword, Language, MemberRole, Name, Qualifier, SourceLine};

use crate::DieKey;

/// The target of a reference; `None` is `void`.
pub(crate) type Target = Option<DieKey>;

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) key: DieKey,
    pub(crate) raw: RawType,
}

/// An entry's description of its type.
#[derive(Clone, Debug)]
pub(crate) enum RawType {
    Int {
        name: Name,
        size: u64,
        encoding: IntEncoding,
    },
    Float {
        name: Name,
        size: u64,
    },
    Pointer(Target),
    /// A pointer to a member, `member C::*`.
    MemberPointer {
        member: Target,
        class: Target,
    },
    Qualified(Qualifier, Target),
    Typedef(Name, Target),
    Array {
        element: Target,
        /// Elements of each dimension, the outermost first.
        counts: Vec<u64>,
    },
    Composite(RawComposite),
    Enum {
        name: Name,
        size: Option<u64>,
        /// What it is stored as.
        storage: Target,
        values: Vec<(Name, i64)>,
    },
    Prototype {
        result: Target,
        parameters: Vec<(Name, Target)>,
        variadic: bool,
    },
    /// The same type as another entry: a declaration whose definition is in a unit of its own.
    Alias(DieKey),
}

/// A struct, union, class, or Rust's enum.
#[derive(Clone, Debug)]
pub(crate) struct RawComposite {
    pub(crate) name: Name,
    pub(crate) is_union: bool,
    pub(crate) keyword: Option<Keyword>,
    /// `None`: it is only declared.
    pub(crate) size: Option<u64>,
    pub(crate) alignment: u32,
    /// Rust lays it out as it likes, and gives the alignment of everything.
    pub(crate) language: Option<Language>,
    pub(crate) declared: Option<SourceLine>,
    /// The entry whose name and scope it has.
    pub(crate) specification: Option<DieKey>,
    /// The type of the object that its bytes hold: the argument of a template whose objects are
    /// storage (see [`is_storage`]).
    pub(crate) held: Target,
    pub(crate) members: Vec<RawMember>,
}

/// A member or base.
#[derive(Clone, Debug)]
pub(crate) struct RawMember {
    pub(crate) name: Name,
    pub(crate) target: Target,
    pub(crate) place: MemberPlace,
    pub(crate) alignment: u32,
    pub(crate) role: MemberRole,
    /// In the file that declares its type.
    pub(crate) line: Option<NonZeroU32>,
}

/// A member's offset and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MemberPlace {
    Byte(u64),
    /// A bit-field, given by its first bit and width.
    Bits {
        first: u64,
        width: u32,
    },
    /// A bit-field as in DWARF 3 and older: counted from the other end of its storage unit, whose
    /// size can be its type's.
    BitsFromTop {
        byte: u64,
        from_top: i64,
        width: u32,
        storage: Option<u64>,
    },
    /// Computed at run time: a virtual base.
    Dynamic,
}

/// The member of libstdc++'s storage templates that the held object is in.
pub(crate) const STORAGE: &str = "_M_storage";

/// Whether a composite of that name is storage of libstdc++ for an object of its template argument:
/// in the nodes of maps, sets and lists, and behind the counts of `std::make_shared`. It declares
/// bytes.
pub(crate) fn is_storage(name: &str) -> bool {
    name.starts_with("__gnu_cxx::__aligned_membuf<")
        || name.starts_with("__gnu_cxx::__aligned_buffer<")
}

impl RawType {
    pub(crate) fn name(&self) -> &str {
        match self {
            RawType::Int { name, .. }
            | RawType::Float { name, .. }
            | RawType::Typedef(name, _)
            | RawType::Enum { name, .. } => name,
            RawType::Composite(composite) => &composite.name,
            _ => "",
        }
    }
}

//! What a scene searches for in a recording.

use linemate_layout::pointer::PointerChase;
use linemate_types::TypeId;

/// Two types whose objects are matched, each with its variants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypePair {
    /// The first type, with its variants.
    pub first: Vec<TypeId>,
    /// The second type, with its variants.
    pub second: Vec<TypeId>,
}

/// What to search for.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// Types (each with its variants) whose fields are distinguished.
    pub types: Vec<Vec<TypeId>>,
    /// Variables and allocations of programs by what edits call them, each as a whole. Their
    /// numbers follow those of the types.
    pub memory: Vec<String>,
    /// Instead of those: every type that the recording has objects of. Keys are then called
    /// `TYPE.PATH`, variables without a type by their names.
    pub every: bool,
    /// Pairs of types whose objects are matched.
    pub pairs: Vec<TypePair>,
    /// Pointers whose arrays are searched for.
    pub chases: Vec<PointerChase>,
    /// Whether lines of programs' source are distinguished.
    pub sources: bool,
}

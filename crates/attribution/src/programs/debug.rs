//! What programs' debug information says, in attribution's words.

use linemate_programs::{Base, CodePlace, ElfAddr};

use crate::schema::TypeIndex;

/// A variable that the debug information describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DebugVariable {
    /// Its first byte; of a thread-local one the offset in the file's thread storage.
    pub(crate) start: ElfAddr,
    /// Bytes.
    pub(crate) size: u64,
    pub(crate) name: String,
    /// The struct that it is or that its elements are; `None` for numbers and pointers.
    pub(crate) ty: Option<TypeIndex>,
}

/// What is known of one file.
#[derive(Debug, Default)]
pub(crate) struct FileDebug {
    /// By address.
    pub(crate) globals: Vec<DebugVariable>,
    /// By offset.
    pub(crate) thread_locals: Vec<DebugVariable>,
    /// The structs that registers point to, by instruction and register, sorted.
    pub(crate) pointers: Vec<((ElfAddr, Base), TypeIndex)>,
}

/// What is known of all files, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct DebugInformation {
    pub(crate) files: Vec<FileDebug>,
}

impl DebugInformation {
    /// The struct that a register points to at an instruction.
    pub(crate) fn pointer_in(&self, place: CodePlace, base: Base) -> Option<TypeIndex> {
        let list = &self.files.get(place.file as usize)?.pointers;
        let key = (place.address, base);
        let at = list.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        Some(list[at].1)
    }
}

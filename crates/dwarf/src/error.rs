//! Errors in a program's debug information.

use linemate_types::ModelError;

use crate::DieKey;

/// Units of a program that are in none of its files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingUnits {
    /// The `.dwo` file of the first one, as passed to the compiler.
    pub first: String,
    /// How many there are.
    pub count: usize,
}

/// Why a program or its debug information is rejected.
#[derive(Debug, thiserror::Error)]
pub enum DwarfError {
    /// Not a readable ELF file.
    #[error("not an ELF program: {0}")]
    Object(#[from] object::Error),
    /// Another kind of object file.
    #[error("not an ELF program, but {0:?}")]
    Format(object::BinaryFormat),
    /// An object file before it is linked: its debug information has holes that the linker fills.
    #[error("an object file that is not linked: link it, then read the program")]
    NotLinked,
    /// No debug information in any of the files.
    #[error("no debug information: compile with -g")]
    NoDebugInfo,
    /// A separate file that belongs to another program.
    #[error("the debug file has build ID {found}, the program {wanted}")]
    OtherBuild {
        /// The program's build-id in hexadecimal.
        wanted: String,
        /// The debug file's build-id in hexadecimal.
        found: String,
    },
    /// Debug information in another file, which was not given.
    #[error("its debug information refers to {0}, which was not found")]
    NoAlternate(String),
    /// Split DWARF (`-gsplit-dwarf`), with none of its units present.
    #[error("its debug information is split, and none of its {} split units was found: the first is in {}", .0.count, .0.first)]
    Split(MissingUnits),
    /// More files with split units than can be numbered.
    #[error("too many debug files: {0}")]
    TooManyParts(usize),
    /// Compressed sections that become implausibly large.
    #[error("section {section} unpacks to {size} bytes, more than {limit}")]
    TooLarge {
        section: &'static str,
        /// The size in its header.
        size: u64,
        /// The most that is unpacked.
        limit: u64,
    },
    /// A compressed section that does not match its header.
    #[error("section {section} cannot be unpacked: {error}")]
    Packed {
        section: &'static str,
        error: String,
    },
    /// DWARF that cannot be parsed.
    #[error("broken DWARF at unit {unit:#x}: {source}")]
    Unit {
        /// Offset of the unit in its section.
        unit: u64,
        /// The parser's error message.
        source: gimli::Error,
    },
    /// DWARF that cannot be parsed, outside any unit.
    #[error("broken DWARF: {0}")]
    Dwarf(#[from] gimli::Error),
    /// A reference to something that is not a type.
    #[error("broken DWARF: {at} refers to {target}, where there is no type")]
    NoSuchType {
        at: DieKey,
        /// What it refers to.
        target: DieKey,
    },
    /// A type unit that is referred to by its signature but missing.
    #[error("broken DWARF: there is no type unit {0:#018x}")]
    NoSuchSignature(u64),
    /// Abbreviations or names that are read over and over.
    #[error("broken DWARF: {what} of {bytes} bytes in {length} bytes of debug information")]
    Bloated {
        /// What there is too much of.
        what: &'static str,
        /// How many bytes were read.
        bytes: u64,
        /// How long the debug information is.
        length: u64,
    },
    /// More types than there are ids.
    #[error("too many types: {0}")]
    TooManyTypes(usize),
    /// Types that contradict each other.
    #[error("broken DWARF: {0}")]
    Model(#[from] ModelError),
}

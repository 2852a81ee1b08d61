//! The programs of a run: their files, which parts of them are code, and which functions are
//! watched.
//!
//! A program is every x86-64 ELF file of the payload: the command, its libraries, what `--file`
//! copies. These files, and those with their debug information, go into the recording, so that it
//! can be read without them.

use std::collections::BTreeMap;
use std::path::Path;

use linemate_debugfiles::Missing;
use linemate_programs::Image;
use linemate_recording::{
    Function, GuestAddr, Meaning, Parameter, ProgramFile, ProgramFiles, Register, Role, code_range,
};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{LittleEndian, elf};

use crate::cpio::{Archive, ArchiveEntry};
use crate::error::GuestError;

/// A program's own function that hands out memory: `--allocator FUNCTION:SIZE_ARG`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnAllocator {
    pub function: String,
    /// The position of the size argument, counted from 1.
    pub size: u8,
}

impl OwnAllocator {
    /// Parses `FUNCTION:SIZE_ARG`.
    ///
    /// # Errors
    /// It has another form, or the argument is not one of the six in registers.
    pub fn parse(given: &str) -> Result<Self, GuestError> {
        let refuse = || GuestError::Allocator {
            given: given.to_owned(),
        };
        let (function, size) = given.rsplit_once(':').ok_or_else(refuse)?;
        let size = size.parse().ok().filter(|n| (1..=6).contains(n));
        let size = size.ok_or_else(refuse)?;
        if function.is_empty() {
            return Err(refuse());
        }
        Ok(Self {
            function: function.to_owned(),
            size,
        })
    }
}

/// The files of a run's programs.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    pub(crate) files: ProgramFiles,
    /// The contents of each file.
    pub(crate) contents: Vec<Vec<u8>>,
    /// The functions to watch, sorted by entry.
    pub(crate) functions: Vec<Function>,
    /// The programs, without libraries, that have no debug information.
    pub(crate) bare: Vec<String>,
    /// Those that have no symbols either.
    pub(crate) stripped: Vec<String>,
    /// Missing parts of the debug information.
    pub(crate) missed: Vec<String>,
}

impl Programs {
    /// The notes about programs whose fields will have no names, or whose debug information is
    /// incomplete.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.bare.is_empty() {
            notes.push(format!(
                "no debug information in {}: functions, variables and allocation sites get names, fields do not; compile with -g",
                self.bare.join(", ")
            ));
        }
        if !self.stripped.is_empty() {
            notes.push(format!(
                "neither debug information nor symbols in {}: only what it exports or allocates gets names; compile with -g and do not strip it",
                self.stripped.join(", ")
            ));
        }
        notes.extend_from_slice(&self.missed);
        notes
    }
}

/// Finds the programs among the files packed for the guest.
///
/// # Errors
/// [`GuestError::Programs`] for more code than a recording can list, [`GuestError::NoAllocator`]
/// for an allocator that no program has.
pub(crate) fn find(archive: &Archive, own: &[OwnAllocator]) -> Result<Programs, GuestError> {
    let (mut files, mut contents) = (Vec::new(), Vec::new());
    let (mut bare, mut stripped, mut missed) = (Vec::new(), Vec::new(), Vec::new());
    for (name, entry) in archive.entries() {
        let ArchiveEntry::File { data, .. } = entry else {
            continue;
        };
        // By contents, not by name or mode: libraries are not executable files everywhere.
        let Some(code) = code_of(data) else { continue };
        let index = files.len() as u32;
        files.push(ProgramFile {
            path: format!("/{name}"),
            debug_of: None,
            length: data.len() as u64,
            code,
        });
        // Both lists are in the order of the archive's names, so equal payloads give equal numbers.
        contents.push(data.clone());
        // Unreadable debug information gives no field names, which is not an error of the
        // recording.
        let found = linemate_debugfiles::find(data, archive.host(name).unwrap_or(Path::new("/")));
        let found = found.unwrap_or_default();
        for missing in &found.missing {
            match missing {
                // Distributions' libraries rarely have any: a note for each would be the rule.
                Missing::Debug(_) if name.contains(".so") => {}
                Missing::Debug(_) => match has_symbols(data) {
                    true => bare.push(format!("/{name}")),
                    false => stripped.push(format!("/{name}")),
                },
                other => missed.push(format!("/{name}: {other}")),
            }
        }
        let mut add = |of, bytes: Vec<u8>| {
            files.push(ProgramFile {
                path: String::new(),
                debug_of: Some(of),
                length: bytes.len() as u64,
                code: Vec::new(),
            });
            contents.push(bytes);
            files.len() as u32 - 1
        };
        let told = found.debug.map_or(index, |debug| add(index, debug));
        // What the debug information shares with that of other files is in a file of its own
        // (`dwz`).
        if let Some(alternate) = found.alternate {
            add(told, alternate);
        }
        for split in found.split {
            add(index, split);
        }
    }
    let files = ProgramFiles::new(files).map_err(|e| GuestError::Programs(e.to_string()))?;
    let functions = functions(&files, &contents, own)?;
    Ok(Programs {
        files,
        contents,
        functions,
        bare,
        stripped,
        missed,
    })
}

/// The code of an x86-64 program or library; `None` for any other file.
fn code_of(data: &[u8]) -> Option<Vec<linemate_recording::CodeRange>> {
    let header = elf::FileHeader64::<LittleEndian>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    if header.e_machine(endian) != elf::EM_X86_64
        || !matches!(header.e_type(endian), elf::ET_EXEC | elf::ET_DYN)
    {
        return None;
    }
    let segments = header.program_headers(endian, data).ok()?;
    let executable = |s: &&elf::ProgramHeader64<LittleEndian>| {
        s.p_type(endian) == elf::PT_LOAD && s.p_flags(endian) & elf::PF_X != 0
    };
    let ranges = segments.iter().filter(executable).map(|segment| {
        let start = segment.p_offset(endian);
        code_range(data, start..start.saturating_add(segment.p_filesz(endian)))
    });
    Some(ranges.collect())
}

/// Whether an ELF file has the symbols that `strip` takes away, not only those that it exports.
fn has_symbols(data: &[u8]) -> bool {
    let sections = || {
        let header = elf::FileHeader64::<LittleEndian>::parse(data).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.section_headers(endian, data).ok()?;
        let is_table = |s: &elf::SectionHeader64<LittleEndian>| s.sh_type.get(endian);
        Some(sections.iter().any(|s| is_table(s) == elf::SHT_SYMTAB))
    };
    sections().unwrap_or(false)
}

const fn in_register(register: Register, meaning: Meaning) -> Parameter {
    Parameter { register, meaning }
}

const SIZE_1: Parameter = in_register(Register::Rdi, Meaning::Size);
const SIZE_2: Parameter = in_register(Register::Rsi, Meaning::Size);
const SIZE_3: Parameter = in_register(Register::Rdx, Meaning::Size);
const COUNT_1: Parameter = in_register(Register::Rdi, Meaning::Count);
const COUNT_2: Parameter = in_register(Register::Rsi, Meaning::Count);
const OBJECT_1: Parameter = in_register(Register::Rdi, Meaning::Object);
const SLOT_1: Parameter = in_register(Register::Rdi, Meaning::ObjectSlot);

/// Functions that hand out or take back memory, by symbol: those of the C library and its
/// replacements (ISO C, POSIX), C++'s global operators by their Itanium ABI names, and those that
/// Rust's standard library and `alloc` use.
const ALLOCATORS: &[(&str, Role, &[Parameter])] = &[
    ("malloc", Role::HeapAlloc, &[SIZE_1]),
    ("calloc", Role::HeapAlloc, &[COUNT_1, SIZE_2]),
    ("realloc", Role::HeapAlloc, &[OBJECT_1, SIZE_2]),
    (
        "reallocarray",
        Role::HeapAlloc,
        &[OBJECT_1, COUNT_2, SIZE_3],
    ),
    ("aligned_alloc", Role::HeapAlloc, &[SIZE_2]),
    ("memalign", Role::HeapAlloc, &[SIZE_2]),
    ("valloc", Role::HeapAlloc, &[SIZE_1]),
    ("posix_memalign", Role::HeapAlloc, &[SLOT_1, SIZE_3]),
    ("free", Role::HeapFree, &[OBJECT_1]),
    ("mi_malloc", Role::HeapAlloc, &[SIZE_1]),
    ("mi_zalloc", Role::HeapAlloc, &[SIZE_1]),
    ("mi_calloc", Role::HeapAlloc, &[COUNT_1, SIZE_2]),
    ("mi_realloc", Role::HeapAlloc, &[OBJECT_1, SIZE_2]),
    ("mi_malloc_aligned", Role::HeapAlloc, &[SIZE_1]),
    ("mi_zalloc_aligned", Role::HeapAlloc, &[SIZE_1]),
    ("mi_realloc_aligned", Role::HeapAlloc, &[OBJECT_1, SIZE_2]),
    ("mi_free", Role::HeapFree, &[OBJECT_1]),
    ("_Znwm", Role::HeapAlloc, &[SIZE_1]),
    ("_Znam", Role::HeapAlloc, &[SIZE_1]),
    ("_ZnwmSt11align_val_t", Role::HeapAlloc, &[SIZE_1]),
    ("_ZnamSt11align_val_t", Role::HeapAlloc, &[SIZE_1]),
    ("_ZnwmRKSt9nothrow_t", Role::HeapAlloc, &[SIZE_1]),
    ("_ZnamRKSt9nothrow_t", Role::HeapAlloc, &[SIZE_1]),
    // What the loader uses before the C library is loaded (glibc, elf/dl-minimal-malloc.c).
    ("__minimal_malloc", Role::HeapAlloc, &[SIZE_1]),
    ("__minimal_calloc", Role::HeapAlloc, &[COUNT_1, SIZE_2]),
    // Only what a program maps itself counts; an allocator's mappings are known by who calls.
    ("mmap", Role::VirtualAlloc, &[SIZE_2]),
    ("mmap64", Role::VirtualAlloc, &[SIZE_2]),
    ("munmap", Role::VirtualFree, &[OBJECT_1, SIZE_2]),
    // System V: the number of a segment, and where it is.
    ("shmget", Role::Plain, &[SIZE_2]),
    ("shmat", Role::VirtualAlloc, &[OBJECT_1]),
    ("__rust_alloc", Role::HeapAlloc, &[SIZE_1]),
    ("__rust_alloc_zeroed", Role::HeapAlloc, &[SIZE_1]),
];

/// What jemalloc(3) has, without its prefix. Under other names than the C library's it is in
/// programs that bring their own: Rust's by the crate `tikv-jemallocator`, C's by `je_`.
const JEMALLOC: &[(&str, Role, &[Parameter])] = &[
    ("malloc", Role::HeapAlloc, &[SIZE_1]),
    ("calloc", Role::HeapAlloc, &[COUNT_1, SIZE_2]),
    ("realloc", Role::HeapAlloc, &[OBJECT_1, SIZE_2]),
    ("aligned_alloc", Role::HeapAlloc, &[SIZE_2]),
    ("posix_memalign", Role::HeapAlloc, &[SLOT_1, SIZE_3]),
    ("mallocx", Role::HeapAlloc, &[SIZE_1]),
    ("rallocx", Role::HeapAlloc, &[OBJECT_1, SIZE_2]),
    ("free", Role::HeapFree, &[OBJECT_1]),
    ("dallocx", Role::HeapFree, &[OBJECT_1]),
    ("sdallocx", Role::HeapFree, &[OBJECT_1]),
];
const JEMALLOC_PREFIXES: &[&str] = &["", "je_", "_rjem_"];

/// The watched functions of all files. Names missing from a file are not errors; of several at one
/// address the first of [`ALLOCATORS`] is meant.
fn functions(
    files: &ProgramFiles,
    contents: &[Vec<u8>],
    own: &[OwnAllocator],
) -> Result<Vec<Function>, GuestError> {
    let mut found: BTreeMap<GuestAddr, Function> = BTreeMap::new();
    let mut missing: Vec<&OwnAllocator> = own.iter().collect();
    for (file, index) in files.files().iter().zip(0..) {
        if file.debug_of.is_some() {
            continue;
        }
        // The first one: a file's debug file is added before its split units.
        let debug = files.files().iter().position(|f| f.debug_of == Some(index));
        let debug = debug.and_then(|at| contents.get(at)).map(Vec::as_slice);
        // Broken ELF files were rejected before; a file whose symbols are broken has no functions
        // to watch.
        let Ok(image) = Image::read(&file.path, &contents[index as usize], debug) else {
            continue;
        };
        let mut watch = |name: &str, role: Role, parameters: &[Parameter]| {
            let mut named = image.functions.iter().filter(|f| f.name == name).peekable();
            let there = named.peek().is_some();
            for function in named {
                let offset = image.offset_of(function.address);
                let Some(entry) = offset.and_then(|o| files.code_address(index, o)) else {
                    continue;
                };
                found.entry(entry).or_insert_with(|| Function {
                    entry,
                    // A symbol without a size still has its entry.
                    size: u32::try_from(function.size).unwrap_or(u32::MAX).max(1),
                    name: name.to_owned(),
                    role,
                    returns: !matches!(role, Role::HeapFree | Role::VirtualFree),
                    parameters: parameters.to_vec(),
                });
            }
            there
        };
        // Before the user's own, so that a name in both keeps its meaning.
        for (name, role, parameters) in ALLOCATORS {
            watch(name, *role, parameters);
        }
        for prefix in JEMALLOC_PREFIXES {
            for (name, role, parameters) in JEMALLOC {
                watch(&format!("{prefix}{name}"), *role, parameters);
            }
        }
        missing.retain(|allocator| {
            let register = Register::ALL[usize::from(allocator.size - 1)];
            let size = in_register(register, Meaning::Size);
            !watch(&allocator.function, Role::HeapAlloc, &[size])
        });
    }
    match missing.first() {
        Some(allocator) => Err(GuestError::NoAllocator(allocator.function.clone())),
        None => Ok(found.into_values().collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_allocators_are_a_name_and_an_argument() {
        let parsed = OwnAllocator::parse("pool::get:2").unwrap();
        assert_eq!((parsed.function.as_str(), parsed.size), ("pool::get", 2));
        for bad in ["", "f", "f:", "f:0", "f:7", ":1", "f:x"] {
            assert!(OwnAllocator::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_stripped_program_has_no_symbol_table() {
        let mut data = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(has_symbols(&data));
        let header = elf::FileHeader64::<LittleEndian>::parse(&*data).unwrap();
        let (start, count) = (
            header.e_shoff.get(LittleEndian),
            header.e_shnum.get(LittleEndian),
        );
        // What each section is, is four bytes into its header of 64.
        for header in data[start as usize..].chunks_mut(64).take(count.into()) {
            if header[4..8] == elf::SHT_SYMTAB.to_le_bytes() {
                header[4..8].fill(0);
            }
        }
        assert!(!has_symbols(&data));
        assert!(!has_symbols(b"\x7fELF"));
    }

    #[test]
    fn this_program_is_found_in_an_archive() {
        let data = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let mut archive = Archive::default();
        archive.insert("bin/test", ArchiveEntry::File { mode: 0o755, data });
        let text = b"#!/bin/sh\n".to_vec();
        archive.insert(
            "bin/script",
            ArchiveEntry::File {
                mode: 0o755,
                data: text,
            },
        );
        let programs = find(&archive, &[]).unwrap();
        assert_eq!(programs.files.files()[0].path, "/bin/test");
        assert!(
            programs.files.files()[0]
                .code
                .iter()
                .any(|c| !c.digests.is_empty())
        );
        assert!(
            programs.files.files()[1..]
                .iter()
                .all(|f| f.debug_of == Some(0))
        );
        let missing = OwnAllocator::parse("no_such_allocator:1").unwrap();
        assert!(matches!(
            find(&archive, &[missing]),
            Err(GuestError::NoAllocator(_))
        ));
    }
}

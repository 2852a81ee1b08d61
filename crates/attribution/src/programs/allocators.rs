//! The allocators of programs' files: their source, and so their structs and their code.

use std::collections::BTreeSet;
use std::ops::Range;

use linemate_dwarf::ProgramCode;
use linemate_programs::{ElfAddr, Programs};
use linemate_recording::Recording;

use crate::functions::FunctionName;

/// What jemalloc's and mimalloc's functions may be called with: Rust's, C's and mimalloc's own.
const PREFIXES: [&str; 3] = ["_rjem_", "je_", "mi_"];

/// Folders whose sources are all an allocator's, by the start of their names: of a checkout, a
/// release or a Rust crate (`jemalloc-sys-…`).
const FOLDERS: [&str; 6] = [
    "jemalloc",
    "mimalloc",
    "tcmalloc",
    "gperftools",
    "snmalloc",
    "rpmalloc",
];

/// The C library's folder, which has more files of the allocator (glibc, malloc/arena.c; musl,
/// src/malloc).
const FOLDER_OF_LIBC: &str = "malloc";

/// Where a file has the C library's `malloc` and `free`, or their replacements.
pub(super) fn heap_functions(
    recording: &Recording,
    programs: &Programs,
    file: u32,
) -> Vec<ElfAddr> {
    let functions = recording.functions().functions.iter();
    let heap = functions.filter(|f| f.entry.0 >> 63 == 0 && is_heap_function(&f.name));
    let places = heap.filter_map(|function| programs.code(recording, function.entry));
    let here = places.filter(|place| place.file == file);
    here.map(|place| place.address).collect()
}

fn is_heap_function(name: &str) -> bool {
    let stripped = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
    matches!(stripped.unwrap_or(name), "malloc" | "free")
}

/// Whether a function is an allocator's by its name alone: jemalloc's in Rust programs, of which
/// the linker may leave one of several that have the same code, under another one's debug
/// information.
pub(super) fn is_own(function: FunctionName<'_>) -> bool {
    matches!(function, FunctionName::Program(name) if name.starts_with("_rjem_"))
}

/// The sources of a file's allocator. Structs declared there are its bookkeeping, which it stores
/// in the objects it hands out and between them: reaching memory through them says nothing about
/// the objects.
#[derive(Debug, Default)]
pub(super) struct AllocatorSources {
    /// The files that declare its functions.
    files: BTreeSet<String>,
    /// The folders that are all its own, each with a `/` at its end.
    folders: BTreeSet<String>,
}

impl AllocatorSources {
    /// Of the functions `heap`.
    pub(super) fn of(code: &ProgramCode<'_>, heap: &[ElfAddr]) -> AllocatorSources {
        let functions = heap.iter().filter_map(|address| code.function_at(*address));
        let declared = functions.filter_map(|function| function.declared.as_ref());
        AllocatorSources::declared_in(declared.map(|line| line.file.as_str()))
    }

    fn declared_in<'f>(files: impl Iterator<Item = &'f str>) -> AllocatorSources {
        let files: BTreeSet<String> = files.map(str::to_owned).collect();
        let folders = files.iter().filter_map(|file| folder_of(file));
        AllocatorSources {
            folders: folders.map(str::to_owned).collect(),
            files,
        }
    }

    /// Whether a source file is the allocator's.
    pub(super) fn have(&self, file: &str) -> bool {
        self.files.contains(file) || self.have_alone(file)
    }

    /// Whether it is and has nothing else: a program that brings its own `malloc` may have all its
    /// code in that file.
    fn have_alone(&self, file: &str) -> bool {
        let mut folders = self.folders.iter();
        folders.any(|folder| file.starts_with(folder.as_str()))
    }

    /// The code of the functions that are declared in its folders, ascending. What is inlined into
    /// other functions is theirs.
    pub(super) fn code(&self, code: &ProgramCode<'_>) -> Vec<Range<ElfAddr>> {
        let functions = code.functions().iter();
        let own = functions.filter(|function| {
            let declared = function.declared.as_ref();
            declared.is_some_and(|line| self.have_alone(line.file.as_str()))
        });
        let mut ranges: Vec<Range<ElfAddr>> = own.flat_map(|f| f.ranges.iter().cloned()).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        ranges
    }
}

/// The innermost folder of a path that is an allocator's alone, with the `/` at its end.
fn folder_of(file: &str) -> Option<&str> {
    let mut ends = file.rmatch_indices('/').map(|(at, _)| at);
    let end = ends.find(|end| {
        let name = file[..*end].rsplit('/').next().unwrap_or_default();
        name == FOLDER_OF_LIBC || FOLDERS.iter().any(|start| name.starts_with(start))
    });
    end.map(|end| &file[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocator_with_a_prefix_is_known_by_its_malloc() {
        for name in ["malloc", "free", "_rjem_malloc", "je_free", "mi_malloc"] {
            assert!(is_heap_function(name), "{name}");
        }
        for name in ["pool_malloc", "_rjem_mallocx", "xmalloc", "calloc"] {
            assert!(!is_heap_function(name), "{name}");
        }
    }

    #[test]
    fn functions_of_jemalloc_in_rust_programs_are_known_by_their_names() {
        assert!(is_own(FunctionName::Program("_rjem_je_edata_heap_new")));
        assert!(!is_own(FunctionName::Program("rjem")));
        assert!(!is_own(FunctionName::Kernel("_rjem_malloc")));
    }

    #[test]
    fn the_whole_folder_of_a_known_allocator_is_its_own_and_of_a_program_the_file() {
        let sources = |malloc: &str| AllocatorSources::declared_in([malloc].into_iter());
        let have = |malloc: &str, file: &str| sources(malloc).have(file);
        let crate_ = "/build/jemalloc-sys-b3da/out/build";
        let malloc = format!("{crate_}/src/jemalloc.c");
        for file in ["src/arena.c", "include/jemalloc/internal/edata.h"] {
            assert!(have(&malloc, &format!("{crate_}/{file}")), "{file}");
        }
        assert!(!have(&malloc, "/build/fd-find/src/walk.rs"));
        assert!(have("./malloc/malloc.c", "./malloc/arena.c"));
        assert!(!have("./malloc/malloc.c", "./stdlib/qsort.c"));
        // A program that brings its own `malloc`, among its other files.
        assert!(have("/src/app/main.c", "/src/app/main.c"));
        assert!(!have("/src/app/main.c", "/src/app/queue.c"));
        assert!(!sources("/src/app/main.c").have_alone("/src/app/main.c"));
        assert!(sources("./malloc/malloc.c").have_alone("./malloc/malloc.c"));
    }
}

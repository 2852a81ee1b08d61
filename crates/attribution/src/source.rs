//! The source location of an instruction, the same in every table.

use std::collections::BTreeMap;
use std::fmt;

use linemate_dwarf::{SourceFrame, SourceLines};
use linemate_programs::{ElfAddr, Programs};
use linemate_recording::{GuestAddr, Recording};
use linemate_types::Symbols;
use rustc_hash::FxHashMap;

use crate::functions::FunctionName;
use crate::ledger::Bucket;
use crate::programs::{files_of, is_standard};
use crate::subjects::Subject;

/// A line of a program's source, in a function or inlined code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourcePlace {
    /// The file as the debug information names it. Of a standard library's code that is inlined,
    /// the file that calls it.
    pub file: String,
    /// The line's number, from 1.
    pub line: u32,
    /// The function of the line first, then those it is inlined into, up to the last one outside
    /// standard libraries. Empty if none is known.
    pub functions: Vec<String>,
}

impl SourcePlace {
    /// The place described by frames, innermost first; `None` without a file and a line.
    fn of(mut frames: Vec<SourceFrame>) -> Option<SourcePlace> {
        // Nobody changes a standard library: the line that calls it is what a reader needs, and
        // what of it calls that, such as the start of a thread, says nothing.
        let own = |frame: &SourceFrame| {
            let standard = frame.file.as_deref().is_none_or(is_standard);
            frame.line > 0 && !standard
        };
        if let Some(first) = frames.iter().position(own) {
            frames.drain(..first);
            let last = frames.iter().rposition(own).unwrap_or(0);
            frames.truncate(last + 1);
        }
        let innermost = frames.first()?;
        let (file, line) = (innermost.file.clone()?, innermost.line);
        (line > 0).then(|| SourcePlace {
            file,
            line,
            functions: frames.into_iter().filter_map(|f| f.function).collect(),
        })
    }
}

/// `server.c:42 push`; of inlined code `server.c:42 push, inlined into serve`.
impl fmt::Display for SourcePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        for (number, function) in self.functions.iter().enumerate() {
            let before = if number == 0 { " " } else { ", inlined into " };
            write!(f, "{before}{function}")?;
        }
        Ok(())
    }
}

/// The lengths of call instructions of x86-64: by a register, by a pointer in memory, relative.
const CALL_BYTES: [u64; 6] = [2, 3, 4, 5, 6, 7];

/// The source locations of a recording's program instructions. The kernel has none: a recording has
/// no lines for it.
#[derive(Debug, Default)]
pub struct SourcePlaces {
    places: FxHashMap<GuestAddr, SourcePlace>,
}

impl SourcePlaces {
    /// Reads the line tables. Files without one, or with a broken one, have no places.
    pub(crate) fn read(recording: &Recording, programs: &Programs) -> SourcePlaces {
        let mut by_file: BTreeMap<u32, Vec<(GuestAddr, ElfAddr)>> = BTreeMap::new();
        for pc in recording.instructions() {
            if let Some(place) = programs.code(recording, *pc) {
                let list = by_file.entry(place.file).or_default();
                list.push((*pc, place.address));
            }
        }
        let mut places = FxHashMap::default();
        for (file, instructions) in by_file {
            // A file whose lines cannot be read has none: its accesses keep their functions.
            let Ok(files) = files_of(programs, file) else {
                continue;
            };
            let Ok(lines) = SourceLines::read(&files) else {
                continue;
            };
            places.extend(instructions.iter().filter_map(|(pc, address)| {
                let frames = lines.source(*address).ok()?;
                Some((*pc, SourcePlace::of(frames)?))
            }));
        }
        SourcePlaces { places }
    }

    /// Where an instruction is; `None` for the kernel's, and if the debug information has no line.
    #[must_use]
    pub fn at(&self, pc: GuestAddr) -> Option<&SourcePlace> {
        self.places.get(&pc)
    }

    /// What the blocks are called that a program requests in one place, without a struct in them:
    /// `LABEL allocated at PLACE`. `None` for everything else.
    #[must_use]
    pub fn of_blocks(&self, symbols: &Symbols, subject: &Subject) -> Option<String> {
        let is_block = matches!(subject.bucket, Bucket::HeapScalar | Bucket::HeapSite);
        let site = subject.site.filter(|_| subject.program && is_block)?;
        // The call itself, or where it returns to.
        let place = match self.at(site).or_else(|| self.of_call(site)) {
            Some(place) => place.to_string(),
            None => {
                let inside = GuestAddr(site.0.wrapping_sub(1));
                FunctionName::at(symbols, inside).to_string()
            }
        };
        Some(format!("{} allocated at {place}", subject.label))
    }

    /// Where the call is that returns to an address: calls push it, so they are recorded.
    #[must_use]
    pub fn of_call(&self, back: GuestAddr) -> Option<&SourcePlace> {
        let starts = CALL_BYTES.map(|bytes| GuestAddr(back.0.wrapping_sub(bytes)));
        // The nearest: no other instruction starts inside the call.
        starts.into_iter().find_map(|pc| self.places.get(&pc))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn frame(function: &str, file: Option<&str>, line: u32) -> SourceFrame {
        SourceFrame {
            function: Some(function.to_owned()),
            file: file.map(str::to_owned),
            line,
        }
    }

    #[test]
    fn the_innermost_line_is_the_place_and_all_functions_are_reported() {
        let frames = vec![
            frame("push", Some("list.h"), 7),
            frame("serve", Some("server.c"), 42),
        ];
        let place = SourcePlace::of(frames).unwrap();
        assert_eq!(place.to_string(), "list.h:7 push, inlined into serve");
        let of_library = vec![
            frame(
                "fetch_add",
                Some("/rustc/1/library/core/src/sync/atomic.rs"),
                9,
            ),
            frame("count", Some("server.rs"), 12),
            frame("serve", Some("server.rs"), 42),
            frame("start", Some("/rustc/1/library/std/src/thread/mod.rs"), 7),
        ];
        let place = SourcePlace::of(of_library).unwrap();
        assert_eq!(place.to_string(), "server.rs:12 count, inlined into serve");
        let alone = vec![frame(
            "grow",
            Some("/rustc/1/library/alloc/src/raw_vec.rs"),
            9,
        )];
        let place = SourcePlace::of(alone).unwrap();
        assert_eq!(
            place.to_string(),
            "/rustc/1/library/alloc/src/raw_vec.rs:9 grow"
        );
        let nameless = SourcePlace::of(vec![SourceFrame {
            function: None,
            ..frame("", Some("a.c"), 1)
        }]);
        assert_eq!(nameless.unwrap().to_string(), "a.c:1");
    }

    #[test]
    fn a_call_is_found_by_where_it_returns_to() {
        let place = |line| SourcePlace {
            file: "a.c".to_owned(),
            line,
            functions: Vec::new(),
        };
        let at = [(0x1000, 1), (0x1003, 2), (0x1008, 3)];
        let at = at.map(|(pc, line)| (GuestAddr(pc), place(line)));
        let places = SourcePlaces {
            places: at.into_iter().collect(),
        };
        let line = |back| places.of_call(GuestAddr(back)).map(|place| place.line);
        assert_eq!(line(0x1008), Some(2), "a call of five bytes");
        assert_eq!(line(0x100a), Some(3), "a call of two bytes");
        assert_eq!(line(0x1010), None);
        assert_eq!(line(0), None);
    }

    #[test]
    fn what_has_no_line_is_nowhere() {
        assert_eq!(SourcePlace::of(vec![frame("f", Some("a.c"), 0)]), None);
        assert_eq!(SourcePlace::of(vec![frame("f", None, 3)]), None);
        assert_eq!(SourcePlace::of(Vec::new()), None);
    }
}

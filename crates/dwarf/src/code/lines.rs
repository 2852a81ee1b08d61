//! Which source line an instruction belongs to.

use std::cell::RefCell;
use std::sync::Arc;

use addr2line::{LookupContinuation, LookupResult, SplitDwarfLoad};
use gimli::Dwarf;

use linemate_types::ElfAddr;

use crate::abbreviations::Abbreviations;
use crate::sections::DwarfBytes;
use crate::split::SplitUnits;
use crate::{DwarfError, ProgramFiles, demangled};

/// A place in the source, and its function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFrame {
    /// The function, demangled, without parameters; inlined ones have their own. `None` if no
    /// function is known.
    pub function: Option<String>,
    /// The file, with its folder if that is known.
    pub file: Option<String>,
    /// From 1; 0 if unknown.
    pub line: u32,
}

/// The line tables of a program. A unit's table is read at the first lookup.
pub struct SourceLines<'d> {
    context: addr2line::Context<DwarfBytes<'d>>,
    split: SplitUnits<'d>,
    loads: RefCell<Loads>,
}

/// The split units read so far.
struct Loads {
    abbreviations: Abbreviations,
    /// How many more bytes may be read: any number of skeletons can name one unit.
    left: u64,
}

impl<'d> SourceLines<'d> {
    /// Finds the units of `files`.
    ///
    /// # Errors
    /// If the debug information is broken.
    pub fn read(files: &'d ProgramFiles<'_>) -> Result<SourceLines<'d>, DwarfError> {
        let dwarf = files.dwarf();
        let mut abbreviations = Abbreviations::new(files);
        let split = SplitUnits::new(files, &dwarf, &mut abbreviations)?;
        Ok(SourceLines {
            context: addr2line::Context::from_dwarf(dwarf)?,
            split,
            loads: RefCell::new(Loads {
                abbreviations,
                left: files.length().all,
            }),
        })
    }

    /// The sections of the unit that a skeleton names; `None` if it is missing or broken, which
    /// loses the names of functions.
    fn load(&self, load: &SplitDwarfLoad<DwarfBytes<'d>>) -> Option<Arc<Dwarf<DwarfBytes<'d>>>> {
        let mut loads = self.loads.borrow_mut();
        let found = self
            .split
            .sections_of(load.dwo_id, &load.parent, &mut loads.abbreviations);
        let (dwarf, length) = found.ok()??;
        // Counted each time: the library caches a unit by its skeleton, not by its id.
        loads.left = loads.left.checked_sub(length)?;
        Some(dwarf)
    }

    /// The source position of the instruction at `pc`: the innermost inlined function first, and
    /// last the function that contains the code. Empty if nothing is known.
    ///
    /// # Errors
    /// If the line table of its unit is broken.
    pub fn source(&self, pc: ElfAddr) -> Result<Vec<SourceFrame>, DwarfError> {
        // No compiler inlines deeper than this.
        const DEEPEST: usize = 1000;
        let mut lookup = self.context.find_frames(pc.0);
        // The library asks for each split unit that it reaches, and resumes with it.
        let mut frames = loop {
            match lookup {
                LookupResult::Output(frames) => break frames?,
                LookupResult::Load { load, continuation } => {
                    lookup = continuation.resume(self.load(&load));
                }
            }
        };
        let mut found = Vec::new();
        while let Some(frame) = frames.next()? {
            let function = match &frame.function {
                Some(name) => {
                    let name = name.raw_name()?;
                    Some(demangled(&name).unwrap_or_else(|| name.into_owned()))
                }
                None => None,
            };
            let location = frame.location.as_ref();
            found.push(SourceFrame {
                function,
                file: location.and_then(|l| l.file).map(str::to_owned),
                line: location.and_then(|l| l.line).unwrap_or(0),
            });
            if found.len() == DEEPEST {
                break;
            }
        }
        Ok(found)
    }
}

//! Which line of the source an instruction belongs to.

use crate::code::ElfAddr;
use crate::file::Slice;
use crate::{DwarfError, ProgramFiles, demangled};

/// A place in the source, and the function there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFrame {
    /// The function, demangled, without parameters; inlined ones have their own. `None` where no function is known.
    pub function: Option<String>,
    /// The file, with its folder where that is known.
    pub file: Option<String>,
    /// From 1; 0 where it is not known.
    pub line: u32,
}

/// The tables of lines of a program. That of a unit is read when it is first asked about.
pub struct SourceLines<'d> {
    context: addr2line::Context<Slice<'d>>,
}

impl<'d> SourceLines<'d> {
    /// Finds the units of `files`.
    ///
    /// # Errors
    /// When the debug information is broken.
    pub fn read(files: &'d ProgramFiles<'_>) -> Result<SourceLines<'d>, DwarfError> {
        let context = addr2line::Context::from_dwarf(files.dwarf())?;
        Ok(SourceLines { context })
    }

    /// Where the instruction at `pc` is in the source: the innermost inlined function first, last the function that has the code.
    /// Empty where nothing is known.
    ///
    /// # Errors
    /// When the table of lines of its unit is broken.
    pub fn source(&self, pc: ElfAddr) -> Result<Vec<SourceFrame>, DwarfError> {
        // Deeper is nothing that a compiler inlines.
        const DEEPEST: usize = 1000;
        let mut frames = self.context.find_frames(pc.0).skip_all_loads()?;
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

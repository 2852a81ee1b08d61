//! Programs: their files, and the types in their debug information.

use std::path::Path;

use anyhow::{Context, anyhow};
use linemate_debugfiles::{Found, Missing, MissingSplit};
use linemate_dwarf::{DwarfError, ProgramFiles, ProgramTypes};
use linemate_types::TypeModel;

use crate::output::to_stderr;

/// The types of the program at `path`; prints which of them are missing.
pub(crate) fn model(path: &Path) -> anyhow::Result<TypeModel> {
    let program = read(path)?;
    let name = path.display().to_string();
    let types = program.types().with_context(|| name.clone())?;
    if let Some(missing) = &program.missing {
        to_stderr(&format!("note: {name}: {missing}"));
    }
    if types.left_out() > 0 {
        to_stderr(&format!(
            "note: {name}: {} members that do not fit their types are left out",
            types.left_out()
        ));
    }
    Ok(types.into_model())
}

/// A program's files, in memory.
pub(crate) struct Program {
    bytes: Vec<u8>,
    found: Found,
    /// Split units that are missing.
    pub(crate) missing: Option<MissingSplit>,
}

/// Reads a program and the files that its debug information is in.
pub(crate) fn read(path: &Path) -> anyhow::Result<Program> {
    let bytes = linemate_files::read_file(path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let shown = || path.display().to_string();
    let mut found = linemate_debugfiles::find(&bytes, path).with_context(shown)?;
    let mut missing = None;
    for what in std::mem::take(&mut found.missing) {
        match what {
            // The available units have types all the same.
            Missing::Split(split) => missing = Some(split),
            what => return Err(anyhow!("{}: {what}", path.display())),
        }
    }
    Ok(Program {
        bytes,
        found,
        missing,
    })
}

impl Program {
    pub(crate) fn files(&self) -> Result<ProgramFiles<'_>, DwarfError> {
        let Found {
            debug, alternate, ..
        } = &self.found;
        let split: Vec<&[u8]> = self.found.split.iter().map(Vec::as_slice).collect();
        ProgramFiles::new(&self.bytes, debug.as_deref(), alternate.as_deref())?.with_split(&split)
    }

    pub(crate) fn types(&self) -> anyhow::Result<ProgramTypes> {
        match (ProgramTypes::read(&self.files()?), &self.missing) {
            (Err(DwarfError::Split(_)), Some(missing)) => Err(anyhow!("{missing}")),
            (types, _) => Ok(types?),
        }
    }
}

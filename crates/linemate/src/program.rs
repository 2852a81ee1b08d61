//! Programs: where their debug information is, and the types that it tells.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use linemate_dwarf::{Companions, DwarfError, ProgramFiles, ProgramTypes};

/// Where distributions put the debug information of what they package.
const DEBUG_FOLDER: &str = "/usr/lib/debug";

/// A program's files, in memory.
pub(crate) struct Program {
    bytes: Vec<u8>,
    debug: Option<Vec<u8>>,
    alternate: Option<Vec<u8>>,
}

/// Reads a program and the files that its debug information is in.
pub(crate) fn read(path: &Path) -> anyhow::Result<Program> {
    let bytes = linemate_files::read_file(path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let shown = || path.display().to_string();
    let companions = Companions::of(&bytes).with_context(shown)?;
    let mut program = Program {
        bytes,
        debug: None,
        alternate: None,
    };
    // Paths beside a program are beside what a link to it means.
    let at = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut told = (companions, at);
    if !told.0.has_dwarf {
        let places = debug_places(&told.0, &told.1);
        let found = places.iter().find_map(|place| debug_file(place, &told.0));
        let (place, bytes, companions) = found.ok_or_else(|| without_types(path, &places))?;
        program.debug = Some(bytes);
        told = (companions, place);
    }
    if let Some((name, id)) = &told.0.alternate {
        let places = alternate_places(name, id, &told.1);
        let found = places
            .iter()
            .find_map(|place| linemate_files::read_file(place).ok());
        program.alternate = Some(found.ok_or_else(|| {
            let places = listed(&places);
            anyhow!(
                "{}: its debug information refers to {name}, which was not found at {places}",
                path.display()
            )
        })?);
    }
    Ok(program)
}

impl Program {
    /// Its sections.
    pub(crate) fn files(&self) -> Result<ProgramFiles<'_>, DwarfError> {
        ProgramFiles::new(
            &self.bytes,
            self.debug.as_deref(),
            self.alternate.as_deref(),
        )
    }

    /// Its types.
    pub(crate) fn types(&self) -> Result<ProgramTypes, DwarfError> {
        ProgramTypes::read(&self.files()?)
    }
}

/// A debug file that belongs to the program of `companions`.
fn debug_file(place: &Path, wanted: &Companions) -> Option<(PathBuf, Vec<u8>, Companions)> {
    let bytes = linemate_files::read_file(place).ok()?;
    let companions = Companions::of(&bytes).ok()?;
    let is_same = wanted.build_id.is_empty() || wanted.build_id == companions.build_id;
    (is_same && companions.has_dwarf).then(|| (place.to_owned(), bytes, companions))
}

/// Where the separate debug file of a program at `path` can be, in the order of gdb.
fn debug_places(companions: &Companions, path: &Path) -> Vec<PathBuf> {
    let mut places = Vec::new();
    places.extend(by_build_id(&companions.build_id_text()));
    let folder = path.parent().unwrap_or(Path::new("/"));
    if let Some(name) = &companions.debug_link {
        places.push(folder.join(name));
        places.push(folder.join(".debug").join(name));
        if let Ok(inside) = folder.strip_prefix("/") {
            places.push(Path::new(DEBUG_FOLDER).join(inside).join(name));
        }
    }
    // A program can name itself.
    places.retain(|place| place != path);
    places
}

/// Where the file of common types of a debug file at `path` can be.
fn alternate_places(name: &str, id: &[u8], path: &Path) -> Vec<PathBuf> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut places = vec![folder.join(name)];
    places.extend(by_build_id(&id));
    places
}

fn by_build_id(id: &str) -> Option<PathBuf> {
    let (first, rest) = id.split_at_checked(2)?;
    let name = format!("{rest}.debug");
    (!rest.is_empty()).then(|| {
        Path::new(DEBUG_FOLDER)
            .join(".build-id")
            .join(first)
            .join(name)
    })
}

fn without_types(path: &Path, places: &[PathBuf]) -> anyhow::Error {
    let looked = match places {
        [] => "it names no separate debug file".to_owned(),
        places => format!("no debug file of it at {}", listed(places)),
    };
    anyhow!(
        "{}: no debug information: compile with -g ({looked})",
        path.display()
    )
}

fn listed(places: &[PathBuf]) -> String {
    let places: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
    places.join(", ")
}

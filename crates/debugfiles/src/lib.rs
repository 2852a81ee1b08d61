//! Finds the files that contain a program's debug information, where debuggers search for them.
//!
//! * [`find`] searches for a separate debug file, the file of common types that `dwz` made, and
//!   split units;
//! * [`Found`] has the contents of those that belong to the program, and [`Missing`] what was not
//!   found.
//!
//! A file is accepted if its contents say that it belongs: by its build-id, by the checksum in the
//! program, by the ids of its units. Its location proves nothing.

mod places;
mod split;

use std::path::{Path, PathBuf};

use linemate_dwarf::{Companions, DwarfError};
use linemate_files::read_file;

pub use split::MissingSplit;

/// The files with a program's debug information, without the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The separate debug file, if the program has no debug information itself.
    pub debug: Option<Vec<u8>>,
    /// The file that `dwz` moved common types to.
    pub alternate: Option<Vec<u8>>,
    /// `.dwp` packages and `.dwo` files, in the order of the units.
    pub split: Vec<Vec<u8>>,
    /// What was not found.
    pub missing: Vec<Missing>,
}

/// What is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    #[error("no debug information: compile with -g ({})", looked(.0))]
    Debug(Vec<PathBuf>),
    /// What `dwz` moved.
    #[error("its debug information refers to {name}, which was not found at {}", listed(.places))]
    Alternate {
        /// Its name in the debug information.
        name: String,
        /// Where it was searched for.
        places: Vec<PathBuf>,
    },
    #[error(transparent)]
    Split(MissingSplit),
}

fn looked(places: &[PathBuf]) -> String {
    match places {
        [] => "it names no separate debug file".to_owned(),
        places => format!("no debug file at {}", listed(places)),
    }
}

fn listed(places: &[PathBuf]) -> String {
    let places: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
    places.join(", ")
}

/// Searches for what belongs to `program`, which is at `path`.
///
/// # Errors
/// If it is not an ELF file of a linked program.
pub fn find(program: &[u8], path: &Path) -> Result<Found, DwarfError> {
    let mut companions = Companions::of(program)?;
    // Places next to a program are next to a link's target.
    let resolved = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut found = Found::default();
    let mut at = resolved.clone();
    if !companions.has_dwarf {
        let candidates = places::debug(&companions, &at);
        let taken = candidates
            .iter()
            .find_map(|place| Some((place, debug_file(place, &companions)?)));
        match taken {
            Some((place, (bytes, told))) => {
                at = std::fs::canonicalize(place).unwrap_or_else(|_| place.clone());
                companions = told;
                found.debug = Some(bytes);
            }
            None => {
                found.missing.push(Missing::Debug(candidates));
                return Ok(found);
            }
        }
    }
    if let Some((name, id)) = &companions.alternate {
        let candidates = places::alternate(name, id, &at);
        found.alternate = candidates.iter().find_map(|place| alternate(place, id));
        if found.alternate.is_none() {
            found.missing.push(Missing::Alternate {
                name: name.clone(),
                places: candidates,
            });
        }
    }
    let told = found.debug.as_deref().unwrap_or(program);
    let (split, missing) = split::find(told, &[path, &resolved, &at]);
    found.split = split;
    found.missing.extend(missing.map(Missing::Split));
    Ok(found)
}

/// The debug file at `place`, if it belongs to the program of `wanted`.
fn debug_file(place: &Path, wanted: &Companions) -> Option<(Vec<u8>, Companions)> {
    let bytes = read_file(place).ok()?;
    let told = Companions::of(&bytes).ok()?;
    let is_same = match (&wanted.build_id, &told.build_id, &wanted.debug_link) {
        (wanted, found, _) if !wanted.is_empty() && !found.is_empty() => wanted == found,
        (_, _, Some((_, checksum))) => linemate_dwarf::debug_link_checksum(&bytes) == *checksum,
        _ => false,
    };
    (is_same && told.has_dwarf).then_some((bytes, told))
}

/// The file of common types at `place`, if it is of that build.
fn alternate(place: &Path, id: &[u8]) -> Option<Vec<u8>> {
    let bytes = read_file(place).ok()?;
    let told = Companions::of(&bytes).ok()?;
    (told.build_id == id).then_some(bytes)
}

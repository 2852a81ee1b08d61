//! The inputs of a patch: edits, and the evidence for them.

use std::path::Path;

use linemate_answers::PatchEvidence;
use linemate_layout::{EditFile, parse};
use linemate_source::wanted;

use crate::error::PatchError;
use crate::folder::{FolderError, cannot};

fn read(path: &Path) -> Result<String, FolderError> {
    linemate_files::read_text(path).map_err(cannot(|| format!("read {}", path.display())))
}

/// The edits of a file, all of which a patch can express.
///
/// # Errors
/// If it cannot be read, has no edits, or one that no change of a definition expresses.
pub fn read_edits(path: &Path) -> Result<EditFile, PatchError> {
    let text = read(path)?;
    let path = path.display().to_string();
    let edits = match parse(&text) {
        Ok(edits) => edits,
        Err(error) => return Err(PatchError::Parse { path, error }),
    };
    match wanted::check(&edits) {
        Err(error) => Err(PatchError::Statement { path, error }),
        Ok(()) if edits.is_empty() => Err(PatchError::NoEdits(path)),
        Ok(()) => Ok(edits),
    }
}

/// The evidence at `path`, which has to be that of `edits`, read from the file `edit`.
///
/// # Errors
/// If it cannot be read or belongs to another edit.
pub fn read_evidence(
    path: &Path,
    edit: &Path,
    edits: &EditFile,
) -> Result<PatchEvidence, PatchError> {
    let text = read(path)?;
    let path = path.display().to_string();
    let evidence: PatchEvidence = match serde_json::from_str(&text) {
        Ok(evidence) => evidence,
        Err(source) => return Err(PatchError::Evidence { path, source }),
    };
    let same = |own: &String| parse(own).is_ok_and(|own| own.to_string() == edits.to_string());
    match evidence.edit.as_ref().is_none_or(same) {
        true => Ok(evidence),
        false => Err(PatchError::OtherEvidence {
            path,
            edit: edit.display().to_string(),
        }),
    }
}

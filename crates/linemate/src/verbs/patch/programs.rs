//! Types of programs: those of C are rewritten as a kernel's are, others are refused with what to do by hand.

use std::io::{self, Write};

use anyhow::bail;
use linemate_layout::EditFile;
use linemate_layout::plan::{resolve, subject_name};
use linemate_report::{is_patched, program_source, source_advice};
use linemate_types::TypeModel;

use super::{Args, subjects};

/// Refuses edits of types that are not C's, after printing the edits.
pub(super) fn refuse(args: &Args, model: &TypeModel, edits: &EditFile) -> anyhow::Result<()> {
    for subject in subjects(edits) {
        let ids = resolve(model, subject).unwrap_or_default();
        let source = ids.first().and_then(|id| program_source(model, *id));
        let Some(source) = source.filter(|source| !is_patched(source)) else {
            continue;
        };
        io::stdout()
            .lock()
            .write_all(edits.to_string().as_bytes())?;
        bail!(
            "{}: {}: no patch is written, the edit is printed instead. {}",
            args.edit.display(),
            subject_name(subject),
            source_advice(&source)
        );
    }
    Ok(())
}

/// A type's tag in its source: a program's whose name the kernel has, too, goes by its file, `node@server`.
pub(super) fn tag(name: &str) -> &str {
    name.split_once('@').map_or(name, |(tag, _)| tag)
}

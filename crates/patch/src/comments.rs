//! Checks that no comment about cache lines contradicts the new layout.

use linemate_source::definition::{self, Definition};
use linemate_source::remarks::{self, Remark};
use linemate_types::LineSize;

use crate::change::{Change, ChangedFiles, FileText, lines};
use crate::error::{PatchError, rewriting};

/// `OLD=NEW`, as in `--reword`, with single blanks between words. Comments contain `=`, too: the
/// comments of the definition decide which one is the separator.
///
/// # Errors
/// A text that does not have that form.
pub fn rewording(text: &str) -> Result<String, &'static str> {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.split_once('=') {
        None => Err("not of the form OLD=NEW"),
        Some((old, _)) if old.trim().is_empty() => Err("OLD is empty"),
        Some(_) => Ok(words),
    }
}

/// All possible meanings of a rewording: the old words and the new ones.
fn meanings(rewording: &str) -> impl Iterator<Item = (&str, &str)> {
    let parts = rewording.match_indices('=');
    parts.map(|(at, _)| (rewording[..at].trim(), rewording[at + 1..].trim()))
}

/// Applies the rewordings, and refuses if another comment may no longer be true.
pub(crate) fn check(
    rewordings: &[String],
    line: LineSize,
    changes: &[Change],
    files: &mut ChangedFiles,
) -> Result<(), PatchError> {
    let mut reworded: Vec<Option<&str>> = vec![None; rewordings.len()];
    for change in changes {
        let Some(text) = files.get_mut(&change.path) else {
            continue;
        };
        for (rewording, done) in rewordings.iter().zip(&mut reworded) {
            if let Some(old) = reword(change, text, rewording) {
                *done = Some(old);
            }
        }
        if let Some(remark) = stale(change, text, line, &reworded)? {
            return Err(contradicted(change, remark));
        }
    }
    let unused = rewordings
        .iter()
        .zip(reworded)
        .find(|(_, done)| done.is_none());
    match unused.and_then(|(rewording, _)| rewording.split_once('=')) {
        Some((old, _)) => Err(PatchError::NoComment(old.trim().to_owned())),
        None => Ok(()),
    }
}

/// Replaces a comment in the new text; returns its old words, or `None` if no comment has them.
fn reword<'r>(change: &Change, text: &mut FileText, rewording: &'r str) -> Option<&'r str> {
    let here = place(&text.new, change)?;
    let (old, new) = meanings(rewording).find_map(|(old, new)| {
        let text = remarks::reword(&text.new, &here, old, new)?;
        Some((old, text))
    })?;
    text.new = new;
    Some(old)
}

/// A comment that the change may contradict and that nobody reworded.
fn stale(
    change: &Change,
    text: &FileText,
    line: LineSize,
    reworded: &[Option<&str>],
) -> Result<Option<Remark>, PatchError> {
    // The old text: there a comment still precedes the members that it is about.
    let Some(here) = place(&text.old, change) else {
        return Ok(None);
    };
    let (before, after) = (lines(&change.recorded, line), lines(&change.planned, line));
    let all =
        remarks::remarks(&text.old, &here, &change.wanted).map_err(rewriting(&change.path))?;
    Ok(all.into_iter().find(|remark| {
        !reworded.contains(&Some(remark.text.as_str())) && remark.is_stale(&before, &after)
    }))
}

/// Where the definition is in a text of its file.
fn place(text: &str, change: &Change) -> Option<Definition> {
    let mut found = definition::find(text, &change.sought);
    // Of several, the one that matches the recorded kernel was chosen; once its members have moved,
    // only their names identify it.
    // A base class and a virtual table's pointer have no name in it.
    let names = |d: &Definition| {
        let members = change.wanted.members.iter();
        let mut declared = members.filter(|m| !m.is_inherited);
        declared.all(|m| text[d.body.clone()].contains(&m.first_name()))
    };
    found.retain(names);
    found.into_iter().next()
}

fn contradicted(change: &Change, remark: Remark) -> PatchError {
    let members = remark.members.iter();
    let names: Vec<String> = members
        .map(|member| change.wanted.members[*member].first_name())
        .collect();
    PatchError::Contradicted {
        path: change.path.clone(),
        line: remark.line,
        text: remark.text,
        members: names.join(", "),
    }
}

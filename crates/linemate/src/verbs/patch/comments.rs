//! No comment about cache lines is left that the new layout contradicts.

use std::collections::BTreeMap;

use anyhow::{anyhow, bail};
use linemate_layout::{Layouts, Plan};
use linemate_source::remarks::{self, Remark};
use linemate_source::{Wanted, definition};
use linemate_types::TypeModel;

use super::settle::lines;
use super::{Args, Change};

/// `OLD=NEW`, as `--reword` takes it, with one blank between words. Comments have `=` in them, too: which one parts the two, the
/// definition's comments tell.
pub(super) fn rewording(text: &str) -> Result<String, String> {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.split_once('=') {
        None => Err("not of the form OLD=NEW".to_owned()),
        Some((old, _)) if old.trim().is_empty() => Err("OLD is empty".to_owned()),
        Some(_) => Ok(words),
    }
}

/// All that a rewording can mean: the old words and the new ones.
fn meanings(rewording: &str) -> impl Iterator<Item = (&str, &str)> {
    let parts = rewording.match_indices('=');
    parts.map(|(at, _)| (rewording[..at].trim(), rewording[at + 1..].trim()))
}

/// Rewords what is to be reworded, and refuses when another comment may not be true any more.
pub(super) fn check(
    args: &Args,
    model: &TypeModel,
    plan: &mut Plan<'_>,
    changes: &[Change],
    files: &mut BTreeMap<String, (String, String)>,
) -> anyhow::Result<()> {
    let line = args.line.bytes();
    let mut reworded: Vec<Option<&str>> = vec![None; args.reword.len()];
    for change in changes {
        let Some((old, new)) = files.get_mut(&change.path) else {
            continue;
        };
        for (rewording, done) in args.reword.iter().zip(&mut reworded) {
            let Some(here) = place(new, change) else {
                continue;
            };
            let mut texts = meanings(rewording)
                .filter_map(|(from, to)| Some((from, remarks::reword(new, &here, from, to)?)));
            if let Some((from, text)) = texts.next() {
                *done = Some(from);
                *new = text;
            }
        }
        let Some(here) = place(old, change) else {
            continue;
        };
        let recorded = Layouts::new(model, args.line).of(change.id)?;
        let planned = plan.layouts.of(change.id)?;
        let (before, after) = (lines(&recorded, line), lines(&planned, line));
        let all = remarks::remarks(old, &here, &change.wanted)
            .map_err(|error| anyhow!("{}:{error}", change.path))?;
        let reworded = |remark: &Remark| reworded.contains(&Some(remark.text.as_str()));
        let stale = all
            .iter()
            .find(|r| !reworded(r) && r.is_stale(&before, &after));
        if let Some(remark) = stale {
            bail!("{}:{}", change.path, contradicted(remark, &change.wanted));
        }
    }
    let unused = args
        .reword
        .iter()
        .zip(reworded)
        .find(|(_, done)| done.is_none());
    match unused.and_then(|(rewording, _)| rewording.split_once('=')) {
        Some((old, _)) => bail!("--reword: the definition has no comment `{}`", old.trim()),
        None => Ok(()),
    }
}

/// Where the definition is in a text of its file.
fn place(text: &str, change: &Change) -> Option<definition::Definition> {
    let mut found = definition::find(text, &change.sought);
    // Of several, the one that fits the recorded kernel was chosen; after it moved, only its names tell it.
    let names = |d: &definition::Definition| {
        let members = &change.wanted.members;
        members
            .iter()
            .all(|m| text[d.body.clone()].contains(&m.first_name()))
    };
    found.retain(names);
    found.into_iter().next()
}

fn contradicted(remark: &Remark, wanted: &Wanted) -> String {
    let names = remark
        .members
        .iter()
        .map(|m| wanted.members[*m].first_name());
    let names: Vec<String> = names.collect();
    format!(
        "{}: the comment \"{}\" is about {}, whose cache lines change: say what is true now with --reword '{}=NEW' (the same words to keep it, none to remove it)",
        remark.line,
        remark.text,
        names.join(", "),
        remark.text
    )
}

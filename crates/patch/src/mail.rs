//! The patch as a mail: what was changed, proven and by whom.

use std::fs;
use std::path::Path;
use std::process::Command;

use linemate_layout::{EditFile, Layouts};
use linemate_source::excerpt::{excerpt, only};
use linemate_source::mail::{self, BadDate, Mail};
use linemate_source::message::{self, ConfigPlaces, SizeChange, TypeChange};
use linemate_source::{Wanted, diff, summary};
use linemate_text::shown_lines;
use linemate_types::{LineSize, TypeId, TypeModel, pahole};

use crate::change::Change;
use crate::draft::Draft;
use crate::error::PatchError;
use crate::prove::{Proof, Proven};
use crate::request::Request;

/// The parts of a mail that are not in the edit. Those that the tree's git has may be missing.
#[derive(Clone, Copy, Debug)]
pub struct Letter<'l> {
    /// `Name <address>`
    pub author: Option<&'l str>,
    pub date: Option<&'l str>,
    pub subject: Option<&'l str>,
    pub signoff: bool,
    /// The program that writes it, with its version.
    pub tool: &'l str,
}

/// `--date`
///
/// # Errors
/// If it is not a date of RFC 2822.
pub fn date(text: &str) -> Result<String, BadDate> {
    mail::check_date(text).map(|()| text.to_owned())
}

/// `--subject`
///
/// # Errors
/// If it is empty.
pub fn subject(text: &str) -> Result<String, &'static str> {
    match text.trim().is_empty() {
        true => Err("a patch needs a subject: omit the option for one built from folder and types"),
        false => Ok(text.to_owned()),
    }
}

impl Proven<'_> {
    /// The patch, as `git am` takes it.
    ///
    /// # Errors
    /// If its author is unknown.
    pub fn mail(&self, letter: &Letter<'_>) -> Result<String, PatchError> {
        let Draft {
            request,
            changes,
            files,
            ..
        } = self.draft;
        let types = self.types()?;
        let diffs: Vec<diff::FileDiff> = files
            .iter()
            .filter_map(|(path, text)| {
                let named = changes.iter().find(|change| change.path == *path);
                let heading = named.map_or(String::new(), |change| format!("{} {{", change.name));
                diff::file_diff(path, &text.old, &text.new, &heading)
            })
            .collect();
        let root = request.tree.root();
        let body = message::body(request.evidence, &types, letter.tool);
        let mail = Mail {
            author: author(root, letter.author)?,
            date: sent(root, letter.date),
            subject: match letter.subject {
                Some(subject) => subject.to_owned(),
                None => self.subject(),
            },
            // Names in the message come from recordings and are escaped. The diff is not: it would
            // not apply.
            body: shown_lines(&body).into_owned(),
            notes: shown_lines(&message::below(&types)).into_owned(),
            signoff: letter.signoff,
            base: base(root, files.keys().map(String::as_str)),
            tool: letter.tool.to_owned(),
        };
        Ok(mail::write(&mail, &diffs))
    }

    fn subject(&self) -> String {
        let changes = &self.draft.changes;
        let named = changes.iter().map(|c| (c.name.clone(), &c.wanted));
        let named: Vec<(String, &Wanted)> = named.collect();
        let path = changes.first().map_or("", |c| c.path.as_str());
        message::subject(&named, path, self.draft.request.tree.is_kernel())
    }

    /// The message's paragraphs about each type.
    fn types(&self) -> Result<Vec<TypeChange>, PatchError> {
        let Draft { request, edits, .. } = self.draft;
        let changes = self.draft.changes.iter().zip(&self.proofs);
        changes
            .map(|(change, proof)| type_change(request, edits, change, proof))
            .collect()
    }
}

fn type_change(
    request: &Request<'_>,
    edits: &EditFile,
    change: &Change,
    proof: &Proof,
) -> Result<TypeChange, PatchError> {
    let line = request.line;
    let print = |model: &TypeModel, id| pahole::print(model, id, line).unwrap_or_default();
    let (old, new) = (
        print(request.model, change.id),
        print(&proof.patched.model, proof.patched.ty.id),
    );
    let (before, after) = excerpt(&old, &new, line.bytes());
    Ok(TypeChange {
        name: change.name.clone(),
        summary: summary::summary(&change.name, &change.wanted),
        moved: moved(&change.wanted, &new),
        sizes: sizes(request, edits, change.id)?,
        before,
        after,
        proof: proven(change, proof),
        configs: configs(proof),
    })
}

/// Where its members are under each config; the recorded one's alone is what pahole shows.
fn configs(proof: &Proof) -> Vec<ConfigPlaces> {
    match proof.others.is_empty() {
        true => Vec::new(),
        false => std::iter::once(&proof.places)
            .chain(proof.others.iter().map(|other| &other.places))
            .cloned()
            .collect(),
    }
}

/// What was compiled, in a sentence or two.
fn proven(change: &Change, proof: &Proof) -> String {
    let mut text = format!(
        "Compiled with {}: {} has {}.",
        proof.compiler,
        change.name,
        match change.is_wrapped() {
            true => "the same members on each line as predicted; rustc orders the lines",
            false => "exactly the layout that was predicted",
        }
    );
    let names: Vec<&str> = proof.others.iter().map(|o| &*o.places.config).collect();
    text.push_str(&match &*proof.others {
        [] => String::new(),
        [other] => format!(" Compiled with {}, too.", other.compiler),
        others => format!(
            " Compiled with {} others, too: {}.",
            others.len(),
            names.join(", ")
        ),
    });
    if !proof.others.is_empty() && !change.wanted.groups.is_empty() {
        text.push_str(" Under each config its field groups start cache lines and stay together.");
    }
    text
}

/// pahole's lines of the members that are moved or aligned.
fn moved(wanted: &Wanted, after: &str) -> String {
    let names: Vec<&str> = summary::changed(wanted)
        .into_iter()
        .filter_map(|member| wanted.members[member].names.first())
        .map(String::as_str)
        .collect();
    only(after, &names)
}

/// The type's size for lines of 64 and 128 bytes.
fn sizes(
    request: &Request<'_>,
    edits: &EditFile,
    id: TypeId,
) -> Result<Vec<SizeChange>, PatchError> {
    let mut sizes = Vec::new();
    for line in [LineSize::B64, LineSize::B128] {
        sizes.push(SizeChange {
            line: line.bytes(),
            before: Layouts::new(request.model, line).of(id)?.size.0,
            after: request.plan(edits, line)?.layouts.of(id)?.size.0,
        });
    }
    Ok(sizes)
}

/// What git says in the tree; `None` if it says nothing.
fn git(tree: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        // A user's setting would put lines of signatures before the answer.
        .args(["-c", "log.showSignature=false", "-C"])
        .arg(tree)
        .args(arguments)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

fn author(tree: &Path, given: Option<&str>) -> Result<String, PatchError> {
    match given {
        Some(author) if author.contains(" <") && author.ends_with('>') => Ok(author.to_owned()),
        Some(author) => Err(PatchError::Author(author.to_owned())),
        None => {
            let name = git(tree, &["config", "user.name"]);
            let address = git(tree, &["config", "user.email"]);
            match (name, address) {
                (Some(name), Some(address)) => Ok(format!("{name} <{address}>")),
                _ => Err(PatchError::NoAuthor(tree.display().to_string())),
            }
        }
    }
}

/// The same for the same tree: a patch has no clock.
fn sent(tree: &Path, given: Option<&str>) -> String {
    let date = given.map(str::to_owned);
    let date = date.or_else(|| last_commit(tree, "%cD"));
    date.unwrap_or_else(|| "Thu, 1 Jan 1970 00:00:00 +0000".to_owned())
}

/// The commit that the patch applies to; `None` if one of the files differs from it.
fn base<'f>(tree: &Path, mut files: impl Iterator<Item = &'f str>) -> Option<String> {
    // Not by `git diff`, which runs filters and monitors that the tree's own git config names.
    let is_committed = |file: &str| {
        let now = git(tree, &["hash-object", "--no-filters", "--", file]);
        now.is_some() && now == git(tree, &["rev-parse", "--verify", &format!("HEAD:{file}")])
    };
    files.all(is_committed).then(|| last_commit(tree, "%H"))?
}

/// What `git log --format` says of the tree's last commit.
fn last_commit(tree: &Path, format: &str) -> Option<String> {
    // A commit of a repository that contains the tree as a mere folder is of something else.
    let top = fs::canonicalize(git(tree, &["rev-parse", "--show-toplevel"])?).ok()?;
    let is_top = fs::canonicalize(tree).is_ok_and(|tree| tree == top);
    let format = format!("--format={format}");
    is_top.then(|| git(tree, &["log", "-1", &format]))?
}

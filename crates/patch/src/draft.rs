//! The new definitions, before anything is compiled.

use linemate_layout::plan::subject_name;
use linemate_layout::{EditFile, EditSubject, Layout, Layouts, Plan, derived_class};
use linemate_source::tree::FoundDefinition;
use linemate_source::{
    Definition, Dialect, Idiom, Sought, definition, initialised, message, rewrite, until,
};

use crate::change::{Change, ChangedFiles, FileText};
use crate::comments;
use crate::error::{PatchError, rewriting};
use crate::request::{EditedType, Request, subjects};
use crate::settle;

/// The most source files that are compiled in search of a type.
const USERS_MAX: usize = 8;

/// A patch that is not proven yet.
pub struct Draft<'r> {
    pub(crate) request: Request<'r>,
    pub(crate) edits: EditFile,
    pub(crate) changes: Vec<Change>,
    pub(crate) files: ChangedFiles,
}

impl<'r> Draft<'r> {
    /// Finds the definitions that the edits are about and rewrites them; `None` if that changes
    /// nothing. `note` gets what the source decides and the edits did not say.
    ///
    /// # Errors
    /// If a definition is not found or not understood, the edit is impossible, or a comment would
    /// contradict the new layout.
    pub fn new(
        request: Request<'r>,
        edits: EditFile,
        note: &mut dyn FnMut(&str),
    ) -> Result<Option<Draft<'r>>, PatchError> {
        let edits = settle::settle(&request, edits, note)?;
        let mut plan = request.plan(&edits, request.line)?;
        let (mut changes, mut files) = (Vec::new(), ChangedFiles::new());
        for subject in subjects(&edits) {
            if let Some(target) = request.target(&mut plan, &edits, subject)? {
                let change = change(&request, &mut plan, subject, target, &mut files)?;
                if let Some(change) = &change {
                    check_base(&request, change)?;
                    if let Some(text) = generic(change) {
                        note(&text);
                    }
                    initialised(&request, change, &files, note)?;
                    cleared(&request, change, note)?;
                }
                changes.extend(change);
            }
        }
        // A file that one edit changed and the next one changed back.
        files.retain(|_, text| text.old != text.new);
        changes.retain(|change: &Change| files.contains_key(&change.path));
        if files.is_empty() {
            return Ok(None);
        }
        comments::check(request.rewordings, request.line, &changes, &mut files)?;
        Ok(Some(Draft {
            request,
            edits,
            changes,
            files,
        }))
    }
}

/// Finds the definition and rewrites it in `files`; `None` if it is already as wanted.
fn change(
    request: &Request<'_>,
    plan: &mut Plan<'_>,
    subject: &EditSubject,
    target: EditedType,
    files: &mut ChangedFiles,
) -> Result<Option<Change>, PatchError> {
    let EditedType { id, sought, wanted } = target;
    let FoundDefinition {
        path,
        text,
        definition,
    } = request.tree.find(&sought, &wanted, request.file)?;
    let text = files.entry(path.clone()).or_insert_with(|| FileText {
        old: text.clone(),
        new: text,
    });
    // Another type in the same file may have been rewritten: its lines have moved, its number among
    // the matches has not.
    let definition = definition::find(&text.new, &sought)
        .into_iter()
        .find(|found| linemate_source::check(&text.new, found, &wanted).is_ok())
        .unwrap_or(definition);
    let body = &text.new[definition.body.clone()];
    let bytes = request.line.bytes();
    let dialect = definition.dialect;
    let idiom = Idiom::of(request.tree.is_kernel(), dialect, body, &text.new, bytes);
    let intents = message::intents(request.evidence, &wanted);
    let new =
        rewrite(&text.new, &definition, &wanted, &idiom, &intents).map_err(rewriting(&path))?;
    if new == text.new {
        return Ok(None);
    }
    text.new = new;
    Ok(Some(Change {
        name: name(&sought, &definition, subject),
        recorded: Layouts::new(request.model, request.line).of(id)?,
        planned: plan.layouts.of(id)?,
        users: request.tree.users(&sought, USERS_MAX)?,
        sought,
        id,
        wanted,
        path,
    }))
}

/// Refuses more room after the last member of a class that others derive from: the compiler puts
/// their members there, and the proof of the class alone does not show it.
fn check_base(request: &Request<'_>, change: &Change) -> Result<(), PatchError> {
    let model = request.model;
    let Some(class) = model.composite(change.id) else {
        return Ok(());
    };
    let room = |layout: &Layout| {
        let members = class.members.iter().zip(&layout.offsets);
        let ends = members.filter_map(|(member, offset)| {
            let size = model.size_of(member.type_id).unwrap_or(0);
            Some(offset.as_ref()?.byte().0 + size)
        });
        layout.size.0.saturating_sub(ends.max().unwrap_or(0))
    };
    match derived_class(model, &class.name) {
        Some(derived) if room(&change.planned) > room(&change.recorded) => {
            Err(PatchError::OpenBase {
                name: class.name.to_string(),
                derived: derived.to_owned(),
            })
        }
        _ => Ok(()),
    }
}

/// What the proof of one set of arguments does not say of the others.
fn generic(change: &Change) -> Option<String> {
    let Sought::Item(item) = &change.sought else {
        return None;
    };
    let has_arguments = item.full_name.ends_with('>');
    has_arguments.then(|| {
        format!(
            "note: {}: {} changes with any arguments, and is proven for {} alone",
            change.path, item.name, item.full_name
        )
    })
}

/// Refuses an order of a C++ class's members that its initialisers contradict; notes what else
/// depends on an order.
fn initialised(
    request: &Request<'_>,
    change: &Change,
    files: &ChangedFiles,
    note: &mut dyn FnMut(&str),
) -> Result<(), PatchError> {
    let Sought::Item(item) = &change.sought else {
        return Ok(());
    };
    if !initialised::is_reordered(&change.wanted) || change.is_wrapped() {
        return Ok(());
    }
    let old = &files[&change.path].old;
    let found = definition::find(old, &change.sought);
    let fits = |d: &&Definition| linemate_source::check(old, d, &change.wanted).is_ok();
    let mut say = |path: &str, notes: Vec<String>| {
        for text in notes {
            note(&format!("note: {path}:{text}"));
        }
    };
    for definition in found.iter().filter(fits) {
        let own = match item.dialect {
            Dialect::Rust => Ok(vec![initialised::order_of_rust(definition, item)]),
            _ => initialised::check_definition(old, definition, item, &change.wanted),
        };
        say(&change.path, own.map_err(rewriting(&change.path))?);
    }
    if item.dialect == Dialect::Rust {
        return Ok(());
    }
    for (path, text) in request.tree.texts(Dialect::Cpp, &item.name)? {
        let outside = initialised::check_file(&text, item, &change.wanted);
        say(&path, outside.map_err(rewriting(&path))?);
    }
    Ok(())
}

/// Notes where code clears or copies a part of a C struct that has other members now.
fn cleared(
    request: &Request<'_>,
    change: &Change,
    note: &mut dyn FnMut(&str),
) -> Result<(), PatchError> {
    let Sought::Tag(tag) = &change.sought else {
        return Ok(());
    };
    if !initialised::is_reordered(&change.wanted) {
        return Ok(());
    }
    let each = |path: &str, text: &str| {
        for found in until::check_file(text, tag, &change.wanted) {
            note(&format!("note: {path}:{found}"));
        }
    };
    Ok(request
        .tree
        .each_text(Dialect::C, &[tag, "offsetof"], each)?)
}

/// The name of a type in the message.
fn name(sought: &Sought, definition: &Definition, subject: &EditSubject) -> String {
    match sought {
        Sought::Tag(tag) => format!("struct {tag}"),
        Sought::Typedef(name) => name.clone(),
        Sought::Item(item) => item.full_name.clone(),
        // The variable or member after the brace, past its attributes.
        Sought::Members(_) => definition
            .after
            .iter()
            .find(|word| !word.starts_with("__"))
            .cloned()
            .unwrap_or_else(|| subject_name(subject)),
    }
}

//! Structs of Rust: the order of fields where the source has one, the alignment of the type, and
//! fields on lines of their own.
//!
//! rustc orders the fields of a type without `repr(C)` itself, so the source says nothing about
//! their order there.

use std::collections::BTreeSet;

use crate::definition::Definition;
use crate::dialect::rust::{self, RustStruct};
use crate::idiom::Idiom;
use crate::initialised::is_reordered;
use crate::matching::Refusal;
use crate::rewrite::{RewriteError, rewrite_body};
use crate::wanted::{Align, Recorded, Wanted};
use crate::wrapped::wrapped;

fn refuse<T>(line: u32, reason: Refusal) -> Result<T, RewriteError> {
    let reason = reason.into();
    Err(RewriteError { line, reason })
}

fn item(file: &str, definition: &Definition) -> Result<RustStruct, RewriteError> {
    let name = definition.tag.as_deref().unwrap_or("");
    let mut items = rust::items(file, name).into_iter();
    let found = items.find(|item| item.place.body == definition.body);
    found.map_or_else(
        || refuse(definition.line, Refusal::Missing(name.to_owned())),
        Ok,
    )
}

/// Checks that the struct has the recorded fields, in their order where the source has one.
pub(crate) fn check(
    file: &str,
    definition: &Definition,
    wanted: &Wanted,
) -> Result<(), RewriteError> {
    let item = item(file, definition)?;
    let line = definition.line;
    let recorded: Vec<String> = wanted.members.iter().map(Recorded::first_name).collect();
    let declared: BTreeSet<&str> = item.fields.iter().map(|field| &*field.name).collect();
    if let Some(missing) = recorded
        .iter()
        .find(|name| !declared.contains(name.as_str()))
    {
        return refuse(line, Refusal::Missing(missing.clone()));
    }
    let unknown =
        |field: &&rust::RustField| !field.is_conditional && !recorded.contains(&field.name);
    if let Some(field) = item.fields.iter().find(unknown) {
        return refuse(line, Refusal::Unrecorded(field.name.clone()));
    }
    Ok(())
}

/// The file's text with the struct as wanted.
pub(crate) fn rewrite(
    file: &str,
    definition: &Definition,
    wanted: &Wanted,
) -> Result<String, RewriteError> {
    if !wanted.groups.is_empty() {
        return isolated(file, definition, wanted);
    }
    let item = item(file, definition)?;
    let line = definition.line;
    let asks = |member: &usize| match wanted.members[*member].align {
        None | Some(Align::Own(_)) => None,
        Some(align) => Some((*member, align)),
    };
    let asked: Vec<(usize, Align)> = wanted.order.iter().filter_map(asks).collect();
    // Rust aligns types, not fields: an alignment of the type is one of the field at its start,
    // and of no other.
    let type_align = match asked[..] {
        [] => None,
        [(member, align)] if wanted.order.first() == Some(&member) => Some(align),
        [(member, _), ..] => {
            return refuse(line, Refusal::OwnLine(wanted.members[member].first_name()));
        }
    };
    let mut text = file.to_owned();
    if is_reordered(wanted) {
        text = reordered(file, &item, definition, wanted)?;
    }
    let bytes = match type_align {
        Some(Align::Bytes(bytes)) => bytes,
        Some(_) => wanted.line.bytes(),
        None => return Ok(text),
    };
    // Only the body has changed: what is before it has not moved.
    Ok(match item.is_aligned(&text, bytes) {
        true => text,
        false => item.aligned(&text, bytes),
    })
}

/// The file's text with each field of a group on lines of its own.
fn isolated(file: &str, definition: &Definition, wanted: &Wanted) -> Result<String, RewriteError> {
    let item = item(file, definition)?;
    let mut names: Vec<String> = Vec::new();
    for number in 0..wanted.groups.len() {
        let mut group = wanted.members.iter().filter(|m| m.group == Some(number));
        let first = group.next().map(Recorded::first_name).unwrap_or_default();
        if item.is_tuple || group.next().is_some() {
            return refuse(definition.line, Refusal::OwnLine(first));
        }
        names.push(first);
    }
    Ok(wrapped(file, &item, &names, wanted.line.bytes()))
}

/// The file's text with the fields in the wanted order.
fn reordered(
    file: &str,
    item: &RustStruct,
    definition: &Definition,
    wanted: &Wanted,
) -> Result<String, RewriteError> {
    if item.is_tuple || !item.is_repr_c {
        let name = definition.tag.clone().unwrap_or_default();
        return refuse(definition.line, Refusal::Unordered(name));
    }
    if item.is_compared {
        return refuse(definition.line, Refusal::Compared(item.name.clone()));
    }
    let members = wanted.members.iter().map(|member| Recorded {
        align: None,
        group: None,
        ..member.clone()
    });
    let wanted = Wanted {
        members: members.collect(),
        groups: Vec::new(),
        ..wanted.clone()
    };
    let idiom = Idiom::Attribute {
        line: wanted.line.bytes(),
    };
    let (mut file, mut definition) = (file.to_owned(), definition.clone());
    // The last field may move up, where it needs a comma.
    if let Some(at) = rust::missing_comma(&file[definition.body.clone()]) {
        file.insert(definition.body.start + at, ',');
        definition.body.end += 1;
    }
    rewrite_body(&file, &definition, &wanted, &idiom, &[])
}

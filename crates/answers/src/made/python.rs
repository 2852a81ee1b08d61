//! The documents as types of Python, and what its module has to know of schemas and tables.

use std::fmt::Write as _;

use super::shape::{Declared, ObjectField, Shape};
use super::{Model, Root};
use crate::tables::{SCHEMA, Schema, schemas};

const HEAD: &str = "\
\"\"\"The documents of `--json` and the tables of `linemate export`.

Generated from the types in crates/answers: `UPDATE=1 cargo test -p linemate-answers` writes this
file. What each key means is in docs/reference/json, each column in docs/reference/columns.md.
Long because it has all documents.
\"\"\"

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NotRequired, TypeAlias, TypedDict
";

/// Those of the documents' keys that no class can have as an attribute.
const KEYWORDS: [&str; 3] = ["class", "from", "with"];

/// The text of `python/src/linemate/documents.py`.
pub(super) fn module(model: &Model) -> String {
    let mut names = Vec::new();
    for root in &model.roots {
        model.reach(&root.name, &mut names);
    }
    let mut out = HEAD.to_owned();
    for declared in names.iter().filter_map(|name| model.types.get(name)) {
        declare(declared, &mut out);
    }
    out.push_str(&documents(&model.roots));
    out.push_str(&tables());
    out
}

fn declare(declared: &Declared, out: &mut String) {
    let Declared { name, shape, .. } = declared;
    match shape {
        Shape::Object(fields) => declare_object(name, fields, out),
        other => {
            let alias = type_of(other, name, out);
            // Writing to a String does not fail.
            let _ = write!(out, "\n{name}: TypeAlias = '{alias}'\n");
        }
    }
}

/// Python has no type of an object without a name, so those inside are declared before it.
fn declare_object(name: &str, fields: &[ObjectField], out: &mut String) {
    let types: Vec<(&str, String)> = fields
        .iter()
        .map(|field| (field.name.as_str(), field_type(field, name, out)))
        .collect();
    let is_class = !types.iter().any(|(key, _)| KEYWORDS.contains(key));
    let lines = types.iter().map(|(key, of)| match is_class {
        true => format!("    {key}: {of}\n"),
        false => format!("    \"{key}\": '{of}',\n"),
    });
    let lines: String = lines.collect();
    let _ = match is_class {
        true => write!(out, "\n\nclass {name}(TypedDict):\n{lines}"),
        false => write!(out, "\n\n{name} = TypedDict(\"{name}\", {{\n{lines}}})\n"),
    };
}

fn field_type(field: &ObjectField, owner: &str, out: &mut String) -> String {
    let of = type_of(&field.shape, owner, out);
    match field.absent {
        true => format!("NotRequired[{of}]"),
        false => of,
    }
}

fn type_of(shape: &Shape, owner: &str, out: &mut String) -> String {
    let mut list = |of: &[Shape], between: &str| {
        let all: Vec<String> = of.iter().map(|one| type_of(one, owner, out)).collect();
        all.join(between)
    };
    match shape {
        Shape::Text => "str".to_owned(),
        Shape::Integer => "int".to_owned(),
        Shape::Number => "float".to_owned(),
        Shape::Boolean => "bool".to_owned(),
        Shape::Null => "None".to_owned(),
        Shape::Any => "object".to_owned(),
        Shape::Word(word) => format!("Literal[\"{word}\"]"),
        Shape::Named(name) => name.clone(),
        Shape::List(of) => format!("list[{}]", type_of(of, owner, out)),
        // JSON's arrays are lists, and a list of Python has no length.
        Shape::Tuple(of) => {
            let mut kinds: Vec<Shape> = of.clone();
            kinds.dedup();
            format!("list[{}]", list(&kinds, " | "))
        }
        Shape::Map(of) => format!("dict[str, {}]", type_of(of, owner, out)),
        Shape::Either(of) => match words(of) {
            Some(words) => format!("Literal[{words}]"),
            None => list(of, " | "),
        },
        Shape::Object(fields) => {
            let first = fields.first().map_or("", |field| field.name.as_str());
            let name = format!("{owner}{}", capitalised(first));
            declare_object(&name, fields, out);
            name
        }
    }
}

/// The alternatives, if all are words.
fn words(of: &[Shape]) -> Option<String> {
    let words = of.iter().map(|one| match one {
        Shape::Word(word) => Some(format!("\"{word}\"")),
        _ => None,
    });
    Some(words.collect::<Option<Vec<String>>>()?.join(", "))
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn documents(roots: &[Root]) -> String {
    let mut out = "\n\n# Each document's schema, and what writes it.\n".to_owned();
    out.push_str("DOCUMENTS: Final[Mapping[type[Any], tuple[str, str]]] = {\n");
    let is_versioned =
        |root: &&Root| root.command.starts_with("linemate ") && root.schema.contains('/');
    for root in roots.iter().filter(is_versioned) {
        let Root {
            name,
            schema,
            command,
            ..
        } = root;
        let _ = writeln!(out, "    {name}: (\"{schema}\", \"{command}\"),");
    }
    out.push_str("}\n");
    out
}

fn tables() -> String {
    let all = schemas();
    let names: Vec<String> = all.iter().map(|of| format!("\"{}\"", of.table)).collect();
    let mut out = format!("\nTable: TypeAlias = Literal[{}]\n", names.join(", "));
    out.push_str("Kind: TypeAlias = Literal[\"text\", \"integer\", \"number\", \"flag\"]\n");
    let _ = writeln!(
        out,
        "\n# The tables' version.\nTABLES_SCHEMA: Final = \"{SCHEMA}\""
    );
    out.push_str("\n# Each table's columns, without those that the folders' names give.\n");
    out.push_str("COLUMNS: Final[Mapping[Table, Mapping[str, Kind]]] = {\n");
    all.iter().for_each(|of| columns(of, &mut out));
    out.push_str("}\n");
    out
}

fn columns(schema: &Schema, out: &mut String) {
    let _ = writeln!(out, "    \"{}\": {{", schema.table);
    for column in &schema.columns {
        let kind = column.kind.name();
        let _ = writeln!(out, "        \"{}\": \"{kind}\",", column.name);
    }
    out.push_str("    },\n");
}

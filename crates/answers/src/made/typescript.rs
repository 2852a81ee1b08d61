//! The types that a page consists of as TypeScript.

use std::fmt::Write as _;

use super::Model;
use super::shape::{Declared, ObjectField, Shape};

const HEAD: &str = "\
// The documents that the page reads, generated from the types in crates/answers:
// `UPDATE=1 cargo test -p linemate-answers` writes this file. What each key means is in
// docs/reference/json. Long because it has all that a page can hold.
";

/// The text of `web/src/documents.ts`.
pub(super) fn declarations(model: &Model) -> String {
    let mut names = Vec::new();
    model.reach("Page", &mut names);
    let mut out = HEAD.to_owned();
    for declared in names.iter().filter_map(|name| model.types.get(name)) {
        // Writing to a String does not fail.
        let _ = write!(out, "\n{}", declaration(declared));
    }
    out
}

fn declaration(declared: &Declared) -> String {
    let name = &declared.name;
    match &declared.shape {
        Shape::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|one| format!("  {};\n", field(one)))
                .collect();
            format!("export interface {name} {{\n{}}}\n", fields.concat())
        }
        other => format!("export type {name} = {};\n", type_of(other)),
    }
}

fn field(field: &ObjectField) -> String {
    let mark = if field.absent { "?" } else { "" };
    format!("{}{mark}: {}", field.name, type_of(&field.shape))
}

fn type_of(shape: &Shape) -> String {
    let list = |of: &[Shape], between: &str| {
        let all: Vec<String> = of.iter().map(type_of).collect();
        all.join(between)
    };
    match shape {
        Shape::Text => "string".to_owned(),
        Shape::Integer | Shape::Number => "number".to_owned(),
        Shape::Boolean => "boolean".to_owned(),
        Shape::Null => "null".to_owned(),
        Shape::Any => "unknown".to_owned(),
        Shape::Word(word) => format!("\"{word}\""),
        Shape::Named(name) => name.clone(),
        Shape::List(of) => match **of {
            Shape::Either(_) => format!("({})[]", type_of(of)),
            _ => format!("{}[]", type_of(of)),
        },
        Shape::Tuple(of) => format!("[{}]", list(of, ", ")),
        Shape::Map(of) => format!("Record<string, {}>", type_of(of)),
        Shape::Either(of) => list(of, " | "),
        Shape::Object(fields) => {
            let all: Vec<String> = fields.iter().map(field).collect();
            format!("{{ {} }}", all.join("; "))
        }
    }
}

//! The reference of the documents: docs/reference/json, a page for each command.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::shape::{Declared, Shape};
use super::{Model, Root};

const FOLDER: &str = "docs/reference/json";
/// Prose is wrapped there.
const COLUMNS: usize = 100;

const HEAD: &str = "[What all documents have in common](README.md).\n";

const INDEX: &str = "\
# The JSON documents

Each is one JSON object. New keys may be added under the same version of a schema; a key that
changes its meaning or goes away makes a new version. The types are in `crates/answers`; serde reads
what it writes. These pages are generated from them: `UPDATE=1 cargo test -p linemate-answers`.

`schema` is the name and version of the schema, `tool` the version of linemate. *Cycles* are core
cycles of latency, waiting included, of accesses that left their core. A key that is *absent* is
left out where there is nothing to say; others are null.

| document | schema | Rust |
|---|---|---|
";

/// How a program reads the contents of a page.
const OF_PAGE: &str = "\
The object is in the page's element `script` with the id `data`, where `<`, `>` and `&` are written
`\\u003c`, `\\u003e` and `\\u0026`:

```sh
sed -n 's|^<script type=\"application/json\" id=\"data\">\\(.*\\)</script>$|\\1|p' page.html | jq .headline
```
";

/// The pages' paths and texts.
pub(super) fn pages(model: &Model) -> Vec<(String, String)> {
    let mut homes: BTreeMap<String, String> = BTreeMap::new();
    let mut pages: BTreeMap<&str, String> = BTreeMap::new();
    let mut index = INDEX.to_owned();
    let mut reached = Vec::new();
    let mut parts = Vec::new();
    for root in &model.roots {
        let known = reached.len();
        model.reach(&root.name, &mut reached);
        let own = reached[known..].to_vec();
        for name in &own {
            let anchor = format!("#{}", name.to_lowercase());
            let anchor = if *name == root.name { "" } else { &anchor };
            homes.insert(name.clone(), format!("{}.md{anchor}", root.page));
        }
        parts.push((root, own));
    }
    for (root, own) in parts {
        let page = pages.entry(root.page).or_default();
        if !page.is_empty() {
            page.push('\n');
        }
        page.push_str(&head(root));
        for declared in own.iter().filter_map(|name| model.types.get(name)) {
            section(page, declared, root, &homes);
        }
        let Root {
            page,
            command,
            schema,
            name,
        } = root;
        // Writing to a String does not fail.
        let _ = writeln!(
            index,
            "| [`{command}`]({page}.md) | `{schema}` | `{name}` |"
        );
    }
    let pages = pages
        .into_iter()
        .map(|(name, text)| (format!("{FOLDER}/{name}.md"), text));
    pages
        .chain([(format!("{FOLDER}/README.md"), index)])
        .collect()
}

fn head(root: &Root) -> String {
    let Root {
        command, schema, ..
    } = root;
    let text = if root.page == "page" { OF_PAGE } else { HEAD };
    format!("# `{command}`: schema `{schema}`\n\n{text}")
}

fn section(out: &mut String, declared: &Declared, root: &Root, homes: &BTreeMap<String, String>) {
    if declared.name != root.name {
        let _ = write!(out, "\n## {}\n", declared.name);
    }
    let _ = write!(out, "\n{}\n", wrapped(&declared.about));
    if let Shape::Object(fields) = &declared.shape {
        let _ = writeln!(out, "| key | type | meaning |\n|---|---|---|");
        // The index has what all documents start with.
        let common = |name: &str| declared.name == root.name && ["schema", "tool"].contains(&name);
        for field in fields.iter().filter(|field| !common(&field.name)) {
            let absent = if field.absent { ", absent" } else { "" };
            let _ = writeln!(
                out,
                "| `{}` | {}{absent} | {} |",
                field.name,
                type_of(&field.shape, root.page, homes),
                in_cell(&field.about)
            );
        }
        return;
    }
    let _ = writeln!(out, "| value | meaning |\n|---|---|");
    for (shape, about) in &declared.choices {
        let value = type_of(shape, root.page, homes);
        let _ = writeln!(out, "| {value} | {} |", in_cell(about));
    }
}

fn type_of(shape: &Shape, page: &str, homes: &BTreeMap<String, String>) -> String {
    let of = |shape: &Shape| type_of(shape, page, homes);
    let list = |shapes: &[Shape], between: &str| {
        let all: Vec<String> = shapes.iter().map(of).collect();
        all.join(between)
    };
    match shape {
        Shape::Text => "string".to_owned(),
        Shape::Integer => "integer".to_owned(),
        Shape::Number => "number".to_owned(),
        Shape::Boolean => "boolean".to_owned(),
        Shape::Null => "null".to_owned(),
        Shape::Any => "object".to_owned(),
        Shape::Word(word) => format!("`{word}`"),
        Shape::Named(name) => {
            let home = homes.get(name).map_or("", String::as_str);
            let here = home
                .strip_prefix(page)
                .and_then(|rest| rest.strip_prefix(".md"));
            format!("[{name}]({})", here.unwrap_or(home))
        }
        Shape::List(item) => format!("array of {}", of(item)),
        Shape::Tuple(items) => format!("array: {}", list(items, ", ")),
        Shape::Map(values) => format!("object of {}", of(values)),
        Shape::Either(shapes) => list(shapes, " or "),
        Shape::Object(fields) => {
            let key = |field: &super::shape::ObjectField| {
                format!("`{}`: {}", field.name, of(&field.shape))
            };
            let keys: Vec<String> = fields.iter().map(key).collect();
            format!("object with {}", keys.join(", "))
        }
    }
}

/// Text in a table's cell.
pub(super) fn in_cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The text as a paragraph of Markdown, wrapped.
pub(super) fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > COLUMNS {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out + "\n"
}

//! Documents read back, and rows of their tables.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// What JSON says is all that a text is made of.
pub(crate) fn read_back<D: Serialize + DeserializeOwned + PartialEq + Debug>(
    document: &D,
    text: impl Fn(&D) -> String,
) -> String {
    let json = serde_json::to_string(document).unwrap();
    let back: D = serde_json::from_str(&json).unwrap();
    assert_eq!(&back, document);
    assert_eq!(text(&back), text(document));
    text(document)
}

/// The row of a table that begins with this name, split at its columns.
pub(crate) fn row(text: &str, name: &str) -> Vec<String> {
    let line = text.lines().find(|line| line.trim().starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no row {name} in\n{text}"));
    let cells = line.trim().split("  ").map(str::trim);
    cells
        .filter(|cell| !cell.is_empty())
        .map(str::to_owned)
        .collect()
}

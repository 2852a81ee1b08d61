//! The descriptions that come with linemate.

use crate::{Machine, MachineError};

/// A shipped description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// Its name: `name` inside the text says the same.
    pub name: &'static str,
    /// The TOML text, with each latency's source in a comment.
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(Shipped {
            name: $name,
            text: include_str!(concat!("../../../machines/", $name, ".toml")),
        }),*]
    };
}

const SHIPPED: &[Shipped] = shipped![
    "gnr-2s-480",
    "hcc-2s-480",
    "power11",
    "turin-2s",
    "westmere-4s-80"
];

/// All shipped descriptions, by name.
pub fn shipped() -> &'static [Shipped] {
    SHIPPED
}

/// The shipped machine of that name.
///
/// # Errors
/// [`MachineError::Unknown`] names the most similar one.
pub fn find(name: &str) -> Result<Machine, MachineError> {
    match SHIPPED.iter().find(|shipped| shipped.name == name) {
        Some(shipped) => Machine::from_toml(shipped.text),
        None => {
            let nearest = SHIPPED
                .iter()
                .map(|shipped| shipped.name)
                .min_by_key(|known| edit_distance(name, known))
                .unwrap_or_default();
            let known: Vec<&str> = SHIPPED.iter().map(|shipped| shipped.name).collect();
            Err(MachineError::Unknown {
                name: name.to_owned(),
                nearest: nearest.to_owned(),
                known: known.join(", "),
            })
        }
    }
}

/// Levenshtein's distance, in bytes. Names are short; a hostile long one costs linear time.
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

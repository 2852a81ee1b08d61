//! The descriptions that come with linemate.

use crate::{Machine, MachineError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// Its name, equal to `name` in the text.
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
    "spr-w-48",
    "turin-2s",
    "westmere-4s-80"
];

/// The name of the computer that this runs on.
pub(crate) const THIS: &str = "this";

/// All shipped descriptions, by name.
pub fn shipped() -> &'static [Shipped] {
    SHIPPED
}

/// The machine of a user's description: like [`Machine::from_toml`], but one with the name of a
/// shipped machine has to be that machine.
///
/// # Errors
/// As there, and [`MachineError::NameTaken`].
pub fn described(text: &str) -> Result<Machine, MachineError> {
    let machine = Machine::from_toml(text)?;
    let other = match machine.name.as_str() {
        // No description may use this name, because it means a different machine on each computer.
        THIS => true,
        // A copy of a shipped one may keep its name: its figures are the same.
        name => find(name).is_ok_and(|shipped| shipped != machine),
    };
    match other {
        true => Err(MachineError::NameTaken(machine.name)),
        false => Ok(machine),
    }
}

/// The shipped machine with that name.
///
/// # Errors
/// [`MachineError::Unknown`], with the most similar names.
pub fn find(name: &str) -> Result<Machine, MachineError> {
    match SHIPPED.iter().find(|shipped| shipped.name == name) {
        Some(shipped) => Machine::from_toml(shipped.text),
        None => {
            let known: Vec<&str> = SHIPPED.iter().map(|shipped| shipped.name).collect();
            Err(MachineError::Unknown {
                name: name.to_owned(),
                nearest: linemate_text::nearest(name, known.iter().copied()),
                known: known.join(", "),
            })
        }
    }
}

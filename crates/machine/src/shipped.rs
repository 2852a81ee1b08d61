//! The descriptions that come with linemate.

use crate::{Machine, MachineError};

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
    "spr-w-48",
    "turin-2s",
    "westmere-4s-80"
];

/// What the computer is called that this runs on.
pub(crate) const THIS: &str = "this";

/// All shipped descriptions, by name.
pub fn shipped() -> &'static [Shipped] {
    SHIPPED
}

/// The machine of a user's description: as [`Machine::from_toml`], but one that has the name of a shipped machine has to be that one.
///
/// # Errors
/// As there, and [`MachineError::NameTaken`].
pub fn described(text: &str) -> Result<Machine, MachineError> {
    let machine = Machine::from_toml(text)?;
    let other = match machine.name.as_str() {
        // Of no description, as it means another machine on each computer.
        THIS => true,
        // A copy of a shipped one may keep its name: its figures are the same.
        name => find(name).is_ok_and(|shipped| shipped != machine),
    };
    match other {
        true => Err(MachineError::NameTaken(machine.name)),
        false => Ok(machine),
    }
}

/// The shipped machine of that name.
///
/// # Errors
/// [`MachineError::Unknown`] offers the most similar ones.
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

//! One file per verb: its flags (`Args`) and `run`, which calls the crates and prints.

pub(crate) mod advise;
pub(crate) mod case;
pub(crate) mod check;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod growth;
pub(crate) mod layout;
pub(crate) mod machines;
pub(crate) mod patch;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod verify;
pub(crate) mod whatif;

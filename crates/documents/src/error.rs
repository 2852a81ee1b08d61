//! Why there is no report.

use thiserror::Error;

/// Why a recording may not have the requested type.
pub const UNNAMED: &str = ", which has no kernel types (recorded with --kernel-types no)";

/// No such type in the recording.
#[derive(Debug, Error)]
#[error(
    "no type or typed variable {name:?} in the recording{}{}",
    if *unnamed { UNNAMED } else { "" },
    linemate_text::suggestion(nearest)
)]
pub struct UnknownType {
    /// What was requested.
    pub name: String,
    /// Names that look like it.
    pub nearest: Vec<String>,
    /// Whether the recording leaves the kernel's types out.
    pub unnamed: bool,
}

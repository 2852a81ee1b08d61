//! What `linemate doctor` found.

use std::borrow::Cow;
use std::fmt::Write as _;

use linemate_text::shown;
use serde::{Deserialize, Serialize};

/// What `linemate doctor --json` writes (docs/reference/json/doctor.md).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorDocument {
    /// [`DoctorDocument::SCHEMA`].
    pub schema: Cow<'static, str>,
    /// Whether everything is there that recordings need: the checks without a `verb`.
    pub ok: bool,
    /// In the order in which they were made.
    pub checks: Vec<DoctorCheck>,
}

/// The answer to one question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorCheck {
    /// What it is about, in a word.
    pub name: Cow<'static, str>,
    /// The one verb that needs it; `None` where recordings do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verb: Option<Cow<'static, str>>,
    /// Whether nothing is wrong.
    pub ok: bool,
    /// What was found, or what is wrong and what to do.
    pub detail: String,
}

impl DoctorDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.doctor/1";

    /// The document of these answers.
    #[must_use]
    pub fn new(checks: Vec<DoctorCheck>) -> Self {
        DoctorDocument {
            schema: Self::SCHEMA.into(),
            ok: checks.iter().all(|check| check.ok || check.verb.is_some()),
            checks,
        }
    }

    /// A line for each check.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        for DoctorCheck {
            name,
            verb,
            ok,
            detail,
        } in &self.checks
        {
            let mark = match (ok, verb) {
                (true, _) => "ok  ",
                (false, Some(_)) => "note",
                (false, None) => "FAIL",
            };
            // Writing to a String does not fail.
            let _ = writeln!(out, "{mark}  {name:<10} {}", shown(detail));
        }
        out
    }
}

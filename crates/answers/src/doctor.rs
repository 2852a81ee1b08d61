//! What `linemate doctor` writes: whether everything that recordings need is available.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// Whether everything that recordings need is available.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DoctorDocument {
    /// The schema's name and version.
    pub schema: Cow<'static, str>,
    /// Whether all checks without a `verb` passed: exit code 0, else 1.
    pub ok: bool,
    /// In the order in which they were made.
    pub checks: Vec<DoctorCheck>,
}

impl DoctorDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.doctor/1";
}

/// The answer to one question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DoctorCheck {
    /// `qemu`, `recorder`, `busybox`, `kernel`, `space`, `pahole` or `self-test`; the last one
    /// occurs again for each access pattern that was not recorded exactly.
    pub name: Cow<'static, str>,
    /// The one verb that needs it (`pahole`: `patch`); absent if recordings need it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Cow<'static, str>"))]
    pub verb: Option<Cow<'static, str>>,
    /// Whether nothing is wrong.
    pub ok: bool,
    /// What was found, or what is wrong and what to do.
    pub detail: String,
}

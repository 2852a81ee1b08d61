//! What the verbs that replay write with `--json`. The case that keeps their outputs reads the same types.

use std::borrow::Cow;
use std::collections::BTreeMap;

use linemate_recording::Recording;
use linemate_study::costs::Costs;
use linemate_study::effect::WhatIf;
use serde::{Deserialize, Serialize};

/// What `linemate report --machine --json` writes (docs/schema-costs.md).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostsDocument {
    /// [`CostsDocument::SCHEMA`].
    pub schema: Cow<'static, str>,
    /// The version of linemate.
    pub tool: String,
    /// What the recording says about its run.
    pub recording: BTreeMap<String, String>,
    /// The recording's checksum; none if it is cut.
    pub checksum: Option<String>,
    /// The type that was asked for.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    /// The answer.
    pub costs: Costs,
}

impl CostsDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.costs/4";

    /// The document of these costs of `recording`, made by version `tool`.
    pub fn new(tool: &str, recording: &Recording, type_name: Option<&str>, costs: Costs) -> Self {
        CostsDocument {
            schema: Self::SCHEMA.into(),
            tool: tool.to_owned(),
            recording: recording.metadata().clone(),
            checksum: checksum(recording),
            type_name: type_name.map(str::to_owned),
            costs,
        }
    }
}

/// What `linemate whatif --json` writes (docs/schema-whatif.md).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WhatIfDocument {
    /// [`WhatIfDocument::SCHEMA`].
    pub schema: Cow<'static, str>,
    /// The version of linemate.
    pub tool: String,
    /// What the recording says about its run.
    pub recording: BTreeMap<String, String>,
    /// The recording's checksum; none if it is cut.
    pub checksum: Option<String>,
    /// The edits, as a file holds them.
    pub edits: String,
    /// The answers, one for each machine.
    pub results: Vec<WhatIf>,
}

impl WhatIfDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.whatif/2";

    /// The document of these answers about `recording`, made by version `tool`.
    pub fn new(tool: &str, recording: &Recording, edits: String, results: Vec<WhatIf>) -> Self {
        WhatIfDocument {
            schema: Self::SCHEMA.into(),
            tool: tool.to_owned(),
            recording: recording.metadata().clone(),
            checksum: checksum(recording),
            edits,
            results,
        }
    }
}

/// The recording's checksum as all documents write it.
pub(crate) fn checksum(recording: &Recording) -> Option<String> {
    recording.checksum().map(|sum| format!("{sum:016x}"))
}

//! The documents of the verbs that replay.

use linemate_answers::{Costs, CostsDocument, LayoutChange, WhatIf, WhatIfDocument};
use linemate_machine::Machine;
use linemate_recording::Recording;
use linemate_study::costs::cpu_places;

/// The document of these costs of `recording` on `machine`, made by version `tool`.
#[must_use]
pub fn costs_document(
    tool: &str,
    recording: &Recording,
    machine: &Machine,
    type_name: Option<&str>,
    costs: Costs,
) -> CostsDocument {
    CostsDocument {
        schema: CostsDocument::SCHEMA.into(),
        tool: tool.to_owned(),
        recording: recording.metadata().clone(),
        checksum: checksum(recording),
        type_name: type_name.map(str::to_owned),
        cpus: cpu_places(machine, recording, &costs),
        costs,
        others: Vec::new(),
        event: None,
    }
}

/// The document of these answers about `recording`, made by version `tool`.
#[must_use]
pub fn whatif_document(
    tool: &str,
    recording: &Recording,
    edits: String,
    layouts: Vec<LayoutChange>,
    results: Vec<WhatIf>,
) -> WhatIfDocument {
    WhatIfDocument {
        schema: WhatIfDocument::SCHEMA.into(),
        tool: tool.to_owned(),
        recording: recording.metadata().clone(),
        checksum: checksum(recording),
        edits,
        event: None,
        layouts,
        results,
    }
}

/// The recording's checksum as all documents write it.
pub(crate) fn checksum(recording: &Recording) -> Option<String> {
    recording.checksum().map(|sum| format!("{sum:016x}"))
}

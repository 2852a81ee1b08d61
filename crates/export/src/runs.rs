//! The row of `runs`.

use std::collections::BTreeMap;

use linemate_answers::tables::RunsRow;

use crate::Facts;
use crate::error::ExportError;
use crate::run::Run;

/// The row of a run with these results, written by this version of linemate.
pub(crate) fn row(run: &Run<'_>, tool: &str, facts: &Facts<'_>) -> Result<RunsRow, ExportError> {
    let identity = identity(run, tool, facts)?;
    Ok(match facts {
        Facts::Recording(of) => {
            let ledger = &of.types.ledger;
            let inputs = &of.types.inputs;
            RunsRow {
                about: "recording",
                recorded_by: Some(inputs.recorded_by.clone()),
                accesses: Some(ledger.recorded),
                ledger_total: Some(ledger.total),
                typed_share: Some(ledger.typed_share),
                unknown_share: Some(ledger.unknown_share),
                ..identity
            }
        }
        Facts::Replay(document, _) => {
            let costs = &document.costs;
            RunsRow {
                about: "replay",
                accesses: Some(costs.accesses),
                replayed_cpus: Some(costs.cpus),
                interleaving: Some(costs.seed),
                interleavings: Some(costs.interleavings),
                device_accesses: Some(costs.device_accesses),
                misses: Some(costs.whole.misses),
                cycles: Some(costs.whole.cycles),
                overlapped_cycles: Some(costs.overlapped),
                duration_cycles: Some(costs.duration),
                ..identity
            }
        }
        Facts::WhatIf(document) => {
            let first = document.results.first();
            RunsRow {
                about: "what-if",
                accesses: first.map(|result| result.accesses),
                replayed_cpus: first.map(|result| result.cpus),
                interleaving: first.map(|result| result.seed),
                interleavings: first.map(|result| result.interleavings),
                ..identity
            }
        }
        Facts::Failure => identity,
    })
}

/// The row with what identifies the run, and no figures.
fn identity(run: &Run<'_>, tool: &str, facts: &Facts<'_>) -> Result<RunsRow, ExportError> {
    let machine = run.machine.and_then(|document| document.machines.first());
    let description = description(facts);
    let said = |key: &str| description.and_then(|of| of.get(key));
    let options = (!run.options.is_empty()).then(|| serde_json::to_string(&run.options));
    Ok(RunsRow {
        about: "failure",
        reason: run.reason.clone(),
        recording: run.recording.clone(),
        command: said("command").cloned(),
        cpus: said("cpus").and_then(|text| text.parse().ok()),
        description: description.map(serde_json::to_string).transpose()?,
        recorded_by: None,
        tool: tool.to_owned(),
        accesses: None,
        ledger_total: None,
        typed_share: None,
        unknown_share: None,
        machine_description: machine.map(serde_json::to_string).transpose()?,
        line_bytes: machine.map(|machine| machine.line_bytes),
        replayed_cpus: None,
        interleaving: None,
        interleavings: None,
        options: options.transpose()?,
        edits: run.edits.clone(),
        device_accesses: None,
        misses: None,
        cycles: None,
        overlapped_cycles: None,
        duration_cycles: None,
    })
}

/// The recording's description of its run.
fn description<'f>(facts: &'f Facts<'_>) -> Option<&'f BTreeMap<String, String>> {
    match facts {
        Facts::Recording(of) => Some(&of.types.inputs.recording),
        Facts::Replay(document, _) => Some(&document.recording),
        Facts::WhatIf(document) => Some(&document.recording),
        Facts::Failure => None,
    }
}

//! The documents of many runs as Parquet tables that one query can read (docs/reference/tables.md).
//!
//! [`files`] turns a run's documents into the bytes of its tables and says where below a folder
//! each belongs. The figures are those of the documents: a table's sums are what `--json` says.
//! Same documents, same bytes. The caller writes the files; no file is read or written here.

mod error;
mod run;
mod schema;
mod table;
mod tables;

use std::path::PathBuf;

pub use error::ExportError;
pub use run::{Run, RunKey};
pub use schema::{Column, Kind, SCHEMA, SCHEMA_FILE, SCHEMAS, Schema};
pub use table::GROUP_ROWS;

use linemate_answers::{CostsDocument, Report, WhatIfDocument};
use schema::RUNS;
use table::{Table, Value};

/// The results of a run.
#[derive(Clone, Copy, Debug)]
pub enum Facts<'a> {
    /// The contents of a recording.
    Recording(&'a Accesses),
    /// Its cost on a machine; with lines if they are wanted.
    Replay(&'a CostsDocument, WithLines),
    WhatIf(&'a WhatIfDocument),
    Failure,
}

/// Whether the costs of lines, of which there are many, are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithLines {
    Yes,
    No,
}

/// The contents of a recording, in full: reports with all rows.
#[derive(Clone, Debug)]
pub struct Accesses {
    /// By type, including what cannot be laid out.
    pub types: Report,
    /// By field.
    pub fields: Report,
    /// By function.
    pub functions: Report,
    /// By line, if these are wanted.
    pub lines: Option<Report>,
}

/// A table of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFile {
    /// Where it belongs, below the folder of all tables.
    pub place: PathBuf,
    /// Its contents as bytes.
    pub bytes: Vec<u8>,
}

/// The schema's name as in a folder's [`SCHEMA_FILE`].
#[must_use]
pub fn schema_text() -> String {
    format!("{SCHEMA}\n")
}

/// Checks the contents of a folder's [`SCHEMA_FILE`].
///
/// # Errors
/// [`ExportError::OtherSchema`].
pub fn check_schema(text: &str) -> Result<(), ExportError> {
    if text == schema_text() {
        return Ok(());
    }
    Err(ExportError::OtherSchema {
        found: text.trim().chars().take(40).collect(),
    })
}

/// The tables of a run, `runs` last: a reader that finds a run there finds the other tables
/// complete.
///
/// # Errors
/// Documents of the wrong kind, counts of more than 63 bits, and errors of the library.
pub fn files(run: &Run<'_>, tool: &str, facts: &Facts<'_>) -> Result<Vec<TableFile>, ExportError> {
    let key = run.key()?;
    let mut tables = match facts {
        Facts::Recording(of) => {
            let mut tables = vec![
                tables::ledger(&of.types.ledger),
                tables::types(&of.types)?,
                tables::fields(&of.fields)?,
                tables::functions(&of.functions)?,
            ];
            if let Some(lines) = &of.lines {
                tables.push(tables::lines(lines)?);
            }
            tables
        }
        Facts::Replay(document, lines) => {
            let mut tables = vec![tables::costs(document), tables::cpu_pairs(document)];
            if *lines == WithLines::Yes {
                tables.push(tables::line_costs(document));
            }
            tables
        }
        Facts::WhatIf(document) => vec![tables::effects(document)],
        Facts::Failure => Vec::new(),
    };
    tables.push(runs(run, tool, facts)?);
    let file = |table: Table| {
        Ok(TableFile {
            place: run.place(table.schema, key),
            bytes: table.bytes(key)?,
        })
    };
    tables.into_iter().map(file).collect()
}

/// The row of `runs`.
fn runs(run: &Run<'_>, tool: &str, facts: &Facts<'_>) -> Result<Table, ExportError> {
    let about = match facts {
        Facts::Recording(_) => "recording",
        Facts::Replay(..) => "replay",
        Facts::WhatIf(_) => "what-if",
        Facts::Failure => "failure",
    };
    let mut row: Vec<Value> = vec![
        about.into(),
        run.reason.clone().into(),
        run.recording.clone().into(),
    ];
    row.extend(recorded(facts)?);
    row.push(tool.into());
    row.extend(counted(facts));
    row.extend(replayed(run, facts)?);
    let mut table = Table::new(&RUNS);
    table.add(row);
    Ok(table)
}

/// `command` to `recorded_by`.
fn recorded(facts: &Facts<'_>) -> Result<[Value; 4], ExportError> {
    let (description, recorded_by) = match facts {
        Facts::Recording(of) => {
            let inputs = &of.types.inputs;
            (&inputs.recording, Some(inputs.recorded_by.as_str()))
        }
        Facts::Replay(document, _) => (&document.recording, None),
        Facts::WhatIf(document) => (&document.recording, None),
        Facts::Failure => return Ok([const { Value::Nothing }; 4]),
    };
    let cpus = description
        .get("cpus")
        .and_then(|text| text.parse::<u64>().ok());
    Ok([
        description.get("command").cloned().into(),
        cpus.into(),
        serde_json::to_string(description)?.into(),
        recorded_by.into(),
    ])
}

/// `accesses` to `unknown_share`.
fn counted(facts: &Facts<'_>) -> [Value; 4] {
    const NOTHING: Value = Value::Nothing;
    match facts {
        Facts::Recording(of) => {
            let ledger = &of.types.ledger;
            [
                ledger.recorded.into(),
                ledger.total.into(),
                ledger.typed_share.into(),
                ledger.unknown_share.into(),
            ]
        }
        Facts::Replay(document, _) => [document.costs.accesses.into(), NOTHING, NOTHING, NOTHING],
        Facts::WhatIf(document) => {
            let accesses = document.results.first().map(|result| result.accesses);
            [accesses.into(), NOTHING, NOTHING, NOTHING]
        }
        Facts::Failure => [NOTHING; 4],
    }
}

/// `machine_description` to `duration_cycles`.
fn replayed(run: &Run<'_>, facts: &Facts<'_>) -> Result<Vec<Value>, ExportError> {
    let machine = run.machine.and_then(|document| document.machines.first());
    let mut row: Vec<Value> = vec![
        machine.map(serde_json::to_string).transpose()?.into(),
        machine.map(|machine| machine.line_bytes).into(),
    ];
    row.extend::<[Value; 3]>(match facts {
        Facts::Replay(document, _) => {
            let costs = &document.costs;
            [
                costs.cpus.into(),
                costs.seed.into(),
                costs.interleavings.into(),
            ]
        }
        Facts::WhatIf(document) => {
            let first = document.results.first();
            [
                first.map(|result| result.cpus).into(),
                first.map(|result| result.seed).into(),
                first.map(|result| result.interleavings).into(),
            ]
        }
        Facts::Recording(_) | Facts::Failure => [const { Value::Nothing }; 3],
    });
    let options = (!run.options.is_empty()).then(|| serde_json::to_string(&run.options));
    row.push(options.transpose()?.into());
    row.push(run.edits.clone().into());
    row.extend::<[Value; 5]>(match facts {
        Facts::Replay(document, _) => {
            let costs = &document.costs;
            [
                costs.device_accesses.into(),
                costs.whole.misses.into(),
                costs.whole.cycles.into(),
                costs.overlapped.into(),
                costs.duration.into(),
            ]
        }
        _ => [const { Value::Nothing }; 5],
    });
    Ok(row)
}

//! The documents of many runs as Parquet tables that one query can read (docs/reference/tables.md).
//!
//! [`files`] turns a run's documents into the bytes of its tables and says where below a folder
//! each belongs. The figures are those of the documents: a table's sums are what `--json` says.
//! Same documents, same bytes. The caller writes the files; no file is read or written here.

mod error;
mod run;
mod runs;
mod table;
mod tables;

use std::path::PathBuf;

pub use error::ExportError;
pub use run::{Run, RunKey};
pub use table::GROUP_ROWS;

use linemate_answers::tables::SCHEMA;
use linemate_answers::{CostsDocument, Report, WhatIfDocument};
use table::Table;

/// Where a folder of tables says which schema it has.
pub const SCHEMA_FILE: &str = "_schema";

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
    /// The report of all fields.
    pub fields: Report,
    /// The report of all functions.
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
    tables.push(Table::new([runs::row(run, tool, facts)?]));
    let file = |table: Table| {
        Ok(TableFile {
            place: run.place(&table.schema, key),
            bytes: table.bytes(key)?,
        })
    };
    tables.into_iter().map(file).collect()
}

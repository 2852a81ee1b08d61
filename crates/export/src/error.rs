//! Why there are no tables.

use thiserror::Error;

/// Why there are no tables.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExportError {
    /// A run is identified by its recording's checksum, and a truncated recording has none.
    #[error("the recording is truncated, so its run has no key: record again")]
    Cut,
    /// The document of another question.
    #[error("the report has no {0}")]
    NoRows(&'static str),
    /// A count that no column holds.
    #[error("{table}.{column}: {value} does not fit in 63 bits")]
    TooLarge {
        table: &'static str,
        column: &'static str,
        value: u64,
    },
    /// The folder has tables of another version.
    #[error(
        "it holds tables of {found:?}, not {}: export into another folder",
        linemate_answers::tables::SCHEMA
    )]
    OtherSchema {
        /// Its contents, shortened.
        found: String,
    },
    /// A key that could not be written as JSON.
    #[error("cannot write JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The library's error.
    #[error("cannot write Parquet: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
}

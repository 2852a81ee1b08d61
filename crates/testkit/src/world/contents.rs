//! The contents of its recording other than the events.

use linemate_recording::{FunctionTable, Metadata};

use super::images::images;
use super::kernel::{functions, symbols, types};
use super::variant::Variant;

/// All of a recording but its events.
pub struct Contents {
    /// The version of the recorder.
    pub tool: String,
    /// What is said about the run.
    pub metadata: Metadata,
    /// The types, as BTF.
    pub btf: Option<Vec<u8>>,
    /// As in `/proc/kallsyms`.
    pub symbols: Option<String>,
    pub functions: FunctionTable,
    /// The memory at the start: address, bytes.
    pub images: Vec<(u64, Vec<u8>)>,
}

impl Contents {
    /// For a sound recording.
    pub fn new() -> Contents {
        Contents::of(Variant::default())
    }

    /// For a variant of the kernel.
    pub fn of(variant: Variant) -> Contents {
        let (btf, ids) = types(variant);
        Contents {
            tool: "0.1.0".to_owned(),
            metadata: Metadata::from([
                ("cpus".to_owned(), "2".to_owned()),
                ("kernel".to_owned(), "6.12-test".to_owned()),
                ("seed".to_owned(), "42".to_owned()),
            ]),
            btf: Some(btf),
            symbols: Some(symbols()),
            functions: functions(&ids),
            images: images(variant),
        }
    }
}

impl Default for Contents {
    fn default() -> Contents {
        Contents::new()
    }
}

//! The identity of a run, and where its files are.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use linemate_answers::MachinesDocument;
use linemate_answers::tables::{SCHEMA, Schema};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::error::ExportError;

/// The key of a run: a digest of the recording, the machine, the edits and the options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunKey([u8; 16]);

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What was run, which determines the place of its files.
#[derive(Clone, Debug, Serialize)]
pub struct Run<'a> {
    /// The kernel's release, as `uname -r` gives it.
    pub kernel: String,
    /// The workload's name, or its command's program.
    pub workload: String,
    /// The seed that the recording was made with.
    pub seed: String,
    /// The machine, for a replay.
    pub machine: Option<&'a MachinesDocument>,
    /// The recording's checksum; none for a run that failed before there was one.
    pub recording: Option<String>,
    /// The other settings that determine the figures: those of the replay, by their names on the
    /// command line.
    pub options: BTreeMap<String, String>,
    /// The edits as in a file.
    pub edits: Option<String>,
    /// Why there are no figures, if it failed.
    pub reason: Option<String>,
}

impl Run<'_> {
    /// The run of a recording, given its description and its checksum. The workload is called
    /// `workload`, or after the command's program.
    ///
    /// # Errors
    /// [`ExportError::Cut`].
    pub fn of_recording(
        description: &BTreeMap<String, String>,
        checksum: Option<String>,
        workload: Option<&str>,
    ) -> Result<Self, ExportError> {
        let said = |key: &str| description.get(key).cloned().unwrap_or_default();
        let command = said("command");
        let program = command.split_whitespace().next().unwrap_or_default();
        let program = program.rsplit('/').next().unwrap_or_default();
        Ok(Run {
            kernel: said("kernel"),
            workload: workload.unwrap_or(program).to_owned(),
            seed: said("seed"),
            machine: None,
            recording: Some(checksum.ok_or(ExportError::Cut)?),
            options: BTreeMap::new(),
            edits: None,
            reason: None,
        })
    }

    /// Its key.
    ///
    /// # Errors
    /// None that a run can cause.
    pub fn key(&self) -> Result<RunKey, ExportError> {
        let mut hash = Sha256::new();
        hash.update(SCHEMA);
        hash.update(serde_json::to_vec(self)?);
        let mut key = [0; 16];
        key.copy_from_slice(&hash.finalize()[..16]);
        Ok(RunKey(key))
    }

    pub(crate) fn machine_name(&self) -> &str {
        let machines = self.machine.map_or(&[][..], |document| &document.machines);
        machines.first().map_or("none", |machine| &machine.name)
    }

    /// Where a table of it is, below the folder of all tables.
    pub(crate) fn place(&self, schema: &Schema, key: RunKey) -> PathBuf {
        let parts = [
            ("kernel", self.kernel.as_str()),
            ("workload", &self.workload),
            ("machine", self.machine_name()),
            ("seed", &self.seed),
        ];
        let mut place = PathBuf::from(schema.table);
        place.extend(parts.map(|(name, value)| format!("{name}={}", encoded(value))));
        place.push(format!("{key}.parquet"));
        place
    }
}

/// The maximum length of a value in a folder's name: the system allows 255 bytes, and an encoded
/// one has three times as many.
const VALUE_MAX: usize = 80;

/// What readers treat as no value.
const NO_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// A value as the name of a folder: letters, digits and `._-+` unchanged, others as `%` and two
/// hexadecimal digits, which readers decode.
fn encoded(value: &str) -> String {
    if value.is_empty() {
        return NO_VALUE.to_owned();
    }
    let mut out = String::new();
    for byte in value.bytes().take(VALUE_MAX) {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' | b'+' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_folder_whatever_it_says() {
        assert_eq!(encoded("6.12.1+deb12-cloud"), "6.12.1+deb12-cloud");
        assert_eq!(encoded("../a b=ü\n"), "..%2Fa%20b%3D%C3%BC%0A");
        assert_eq!(encoded(""), NO_VALUE);
        assert!(encoded(&"/".repeat(5000)).len() <= 255 - "workload=".len());
    }
}

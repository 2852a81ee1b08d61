//! What several verbs accept: a recording, a type's name, sizes.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, anyhow};
use clap::builder::TypedValueParser;
use clap::{Arg, Command};
use linemate_attribution::named_type;
use linemate_recording::{Error, Recording};
use linemate_session::Session;
use linemate_types::LineSize;

use crate::files::InFile;
use crate::kept::Keeping;
use crate::number;
use crate::output;
use crate::progress;

/// Where `record` writes, and what is read, unless the user says otherwise.
pub(crate) const DEFAULT: &str = "linemate.data";

/// The machine to replay on, unless the user says otherwise.
pub(crate) const DEFAULT_MACHINE: &str = "gnr-2s-480";

/// The recording that a verb reads.
#[derive(clap::Args, Debug)]
pub(crate) struct Input {
    /// The recording
    #[arg(value_name = "FILE", conflicts_with = "input", default_value = DEFAULT)]
    recording: InFile,
    /// The recording, as an option
    #[arg(short, long, value_name = "FILE")]
    input: Option<InFile>,
}

impl Input {
    pub(crate) fn path(&self) -> &Path {
        self.input.as_ref().unwrap_or(&self.recording)
    }

    pub(crate) fn open(&self) -> anyhow::Result<Recording> {
        open(self.path())
    }
}

/// Opens a recording; reports if it is truncated.
pub(crate) fn open(path: &Path) -> anyhow::Result<Recording> {
    let recording = Recording::open(path).map_err(|error| located(path, error))?;
    if let Some(cut) = recording.cut() {
        output::to_stderr(&format!(
            "note: {}: this recording is {cut}; figures cover what is readable",
            path.display()
        ));
    }
    Ok(recording)
}

/// Why the recording at `path` cannot be read.
pub(crate) fn located(path: &Path, error: Error) -> anyhow::Error {
    match error {
        Error::Io { source, .. } if source.kind() == ErrorKind::NotFound => anyhow!(
            "{}: no such file: name a recording, or make one with `linemate record COMMAND`",
            path.display()
        ),
        error => anyhow!(error).context(path.display().to_string()),
    }
}

/// Prepares an opened recording for questions. One that is damaged anywhere is refused, whatever
/// the cache has for it.
pub(crate) fn ask<'r>(
    path: &Path,
    recording: &'r Recording,
    keeping: Keeping,
) -> anyhow::Result<Session<'r>> {
    let place = || path.display().to_string();
    let progress = progress::shown();
    let shelf = keeping.shelf(recording, &*progress).with_context(place)?;
    Session::open(recording, shelf, progress).with_context(place)
}

/// The recording's name for the type that `asked` means, if there is one; prints what else it could
/// mean on standard error. An unknown name is passed on: the code that looks it up suggests similar
/// ones.
pub(crate) fn meant(session: &Session<'_>, asked: &str) -> String {
    let Some(found) = named_type(session.analysis(), session.counted(), asked) else {
        return asked.to_owned();
    };
    if !found.others.is_empty() {
        let with_count = |name: &str, count: u64| format!("{name} ({count} accesses)");
        let others: Vec<String> = found
            .others
            .iter()
            .take(OTHERS_MAX)
            .map(|other| with_count(&other.name, other.accesses))
            .collect();
        output::to_stderr(&format!(
            "note: {asked:?} is {}; also of that name: {}{}",
            with_count(&found.name, found.accesses),
            others.join(", "),
            match found.others.len().saturating_sub(OTHERS_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            }
        ));
    }
    found.name
}

/// The maximum number of other types of a name that are listed.
const OTHERS_MAX: usize = 5;

/// The value of `--type`.
pub(crate) fn type_name(text: &str) -> Result<String, String> {
    let name = text
        .trim()
        .trim_start_matches("struct ")
        .trim_start_matches("union ")
        .trim();
    if name.is_empty() || matches!(name, "struct" | "union") {
        return Err("the name of a type is missing".to_owned());
    }
    Ok(text.trim().to_owned())
}

/// The value of an option that names a function.
pub(crate) fn function_name(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("the name of a function is missing".to_owned()),
        name => Ok(name.to_owned()),
    }
}

/// The values of `--line`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineSizes;

impl TypedValueParser for LineSizes {
    type Value = LineSize;

    fn parse_ref(
        &self,
        _: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<LineSize, clap::Error> {
        let text = value.to_string_lossy();
        let bytes = text.parse().ok();
        let line = bytes.and_then(|bytes| LineSize::new(bytes).ok());
        line.ok_or_else(|| number::refused(arg, &text, "64 or 128"))
    }
}

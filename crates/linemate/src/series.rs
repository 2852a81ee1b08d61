//! Series of recordings, read one after the other.

use std::path::Path;

use linemate_experiment::series_counts;
use linemate_growth::{Growth, SeriesCounts, SeriesError};

use crate::files::InFile;
use crate::input;
use crate::kept::Keeping;

/// The combined data of a series' recordings.
pub(crate) fn load(paths: &[InFile], keeping: Keeping) -> anyhow::Result<Growth> {
    // Before any of them is read, which takes time.
    Growth::check_number(paths.len())?;
    let members = paths.iter().map(|path| counts(path, keeping));
    Ok(Growth::new(members.collect::<Result<_, _>>()?)?)
}

/// What one recording counted.
pub(crate) fn counts(path: &Path, keeping: Keeping) -> anyhow::Result<SeriesCounts> {
    let name = path.display().to_string();
    let recording = input::open(path)?;
    if recording.cut().is_some() {
        return Err(SeriesError::Cut(name).into());
    }
    let session = input::ask(path, &recording, keeping)?;
    Ok(series_counts(&name, &session)?)
}

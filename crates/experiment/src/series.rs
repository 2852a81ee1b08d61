//! What a recording contributes to a series: the words of its run, and its counts by name.

use linemate_growth::{RunOfSeries, SeriesCounts, SeriesError};
use linemate_session::Session;

use crate::names::FieldNames;

/// What the recording says about its run.
fn run_of(name: &str, session: &Session<'_>) -> Result<RunOfSeries, SeriesError> {
    let recording = session.analysis().recording();
    if recording.cut().is_some() {
        return Err(SeriesError::Cut(name.to_owned()));
    }
    let about = recording.description();
    let unknown = |what| SeriesError::Unknown {
        name: name.to_owned(),
        what,
    };
    // The release only where there is no checksum: two builds of one release are different kernels.
    let kernel = about.kernel_sha256.as_ref().or(about.kernel.as_ref());
    Ok(RunOfSeries {
        name: name.to_owned(),
        cpus: about
            .cpus
            .map(usize::from)
            .ok_or(unknown("number of CPUs"))?,
        kernel: kernel.cloned().ok_or(unknown("kernel"))?,
        command: about.command.clone().ok_or(unknown("command"))?,
        user: about.user,
        kernel_unnamed: about.kernel_unnamed,
        accesses: session.counted().tally.ledger().total(),
    })
}

/// What a recording counted, which messages call `name`.
///
/// # Errors
/// A recording that is cut, or does not contain its CPUs, kernel or command.
pub fn series_counts(name: &str, session: &Session<'_>) -> Result<SeriesCounts, SeriesError> {
    let run = run_of(name, session)?;
    let names = FieldNames::new(session).map_err(|why| SeriesError::Recording {
        name: name.to_owned(),
        why: why.into(),
    })?;
    let mut counts = SeriesCounts::new(run);
    for (key, count) in session.counted().tally.rows() {
        let function = names.function(key.pc);
        let field = names.field(key.field());
        counts.add(function, field, count.count);
        // By type as well: a what-if has one key for each type that it does not edit, and needs
        // one factor for it.
        if let Some(whole) = names.subject(key.subject).filter(|whole| *whole != field) {
            counts.add_to_type(function, whole, count.count);
        }
    }
    Ok(counts)
}

//! `linemate verify`: whether a recording is sound.

use std::path::Path;

use linemate_documents::verify_document;
use linemate_recording::{Error, Recording, verify};
use linemate_report::verify_text;

use crate::input::{self, Input};
use crate::outcome::Outcome;
use crate::output;

/// Check a recording: checksums, totals, time order, calls and returns, object events, and that its
/// types, symbols and memory images are readable
///
/// Exit code 0: valid, so that `report` can read it. 1: findings, one line each (a truncated
/// recording is one). 2: not readable at all.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Write JSON (docs/reference/json/verify.md)
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let path = args.input.path();
    let file = linemate_files::open_file(path).map_err(|source| Error::Io {
        doing: "open the recording",
        source,
    });
    let report = file
        .and_then(verify)
        .map_err(|error| input::located(path, error))?;
    let mut findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    // The reason for which other verbs refuse the recording, unless it has been found already.
    if let Err(error) = readable(path) {
        let finding = error.to_string();
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
    let document = verify_document(&report, findings);
    if args.json {
        output::json(&document)?;
    } else {
        output::text(&verify_text(&document, &path.display().to_string()))?;
    }
    Ok(if document.sound {
        Outcome::Fine
    } else {
        Outcome::Findings
    })
}

/// Opens the recording as every analysis does.
fn readable(path: &Path) -> Result<(), linemate_attribution::AnalysisError> {
    linemate_attribution::check(&Recording::open(path)?)
}

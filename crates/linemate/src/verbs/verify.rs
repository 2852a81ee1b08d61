//! `linemate verify`: is this recording sound?

use std::fmt::Write as _;
use std::path::Path;

use linemate_recording::{Error, Recording, VerifyReport, verify};
use linemate_text::shown;
use serde::Serialize;

use crate::cli::Outcome;
use crate::input::{self, Input};
use crate::output;

/// Version of the form that `--json` writes (docs/schema-verify.md).
const SCHEMA: &str = "linemate.verify/1";

/// Check a recording: checksums, totals, order of time, calls and returns, object events, and that its types, symbols and memory
/// images can be read
///
/// Exit code 0: sound, so that `report` can read it. 1: findings, one line each (a recording that was cut is one). 2: not
/// readable at all.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Write JSON (docs/schema-verify.md)
    #[arg(long)]
    json: bool,
}

/// What `--json` writes.
#[derive(Serialize)]
struct Json {
    schema: &'static str,
    sound: bool,
    findings: Vec<String>,
    more_findings: u64,
    chunks: usize,
    accesses: u64,
    loads: u64,
    stores: u64,
    rmws: u64,
    calls: u64,
    returns: u64,
    markers: u64,
    /// Over all chunks; equal for equal recordings.
    checksum: String,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let path = args.input.path();
    let name = path.display().to_string();
    let file = linemate_files::open_file(path).map_err(|source| Error::Io {
        doing: "open the recording",
        source,
    });
    let report = file
        .and_then(verify)
        .map_err(|error| input::located(path, error))?;
    let mut findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    // What the other verbs refuse a recording for, unless it has been found already.
    if let Err(error) = readable(path) {
        let finding = error.to_string();
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
    let is_sound = findings.is_empty();
    if args.json {
        output::json(&json(&report, findings))?;
    } else {
        output::text(&text(&name, &report, &findings))?;
    }
    Ok(if is_sound {
        Outcome::Fine
    } else {
        Outcome::Findings
    })
}

/// Opens the recording as every analysis does.
fn readable(path: &Path) -> Result<(), linemate_attribution::AnalysisError> {
    linemate_attribution::check(&Recording::open(path)?)
}

fn text(name: &str, report: &VerifyReport, findings: &[String]) -> String {
    let mut out = String::new();
    let name = shown(name);
    for finding in findings {
        // Writing to a String does not fail.
        let _ = writeln!(out, "{name}: {}", shown(finding));
    }
    if report.more > 0 {
        let _ = writeln!(out, "{name}: {} more findings", report.more);
    }
    let verdict = match findings {
        [] => "sound",
        _ => "not sound",
    };
    let (chunks, totals) = (report.chunks, report.totals);
    let _ = writeln!(
        out,
        "{name}: {verdict}; {chunks} chunks, {} accesses, {} calls, {} returns, {} markers, checksum {:016x}",
        totals.accesses(),
        totals.calls,
        totals.returns,
        totals.markers,
        report.checksum
    );
    out
}

fn json(report: &VerifyReport, findings: Vec<String>) -> Json {
    let totals = report.totals;
    Json {
        schema: SCHEMA,
        sound: findings.is_empty(),
        findings,
        more_findings: report.more,
        chunks: report.chunks,
        accesses: totals.accesses(),
        loads: totals.loads,
        stores: totals.stores,
        rmws: totals.rmws,
        calls: totals.calls,
        returns: totals.returns,
        markers: totals.markers,
        checksum: format!("{:016x}", report.checksum),
    }
}

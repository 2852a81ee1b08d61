//! `linemate verify`: is this recording sound?

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use linemate_recording::{Report, verify};
use serde::Serialize;

use crate::cli::Outcome;

/// Check a recording: checksums, totals, order of time, calls and returns, object events
///
/// Exit code 0: sound. 1: findings, one line each (a recording that was cut is one). 2: not readable at all.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The recording
    #[arg(short, long, value_name = "FILE", default_value = "linemate.data")]
    input: PathBuf,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` writes.
#[derive(Serialize)]
struct Json {
    /// Version of this form.
    schema: u32,
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
    let name = args.input.display().to_string();
    let file =
        linemate_files::open_file(&args.input).with_context(|| format!("cannot open {name}"))?;
    let report = verify(file).with_context(|| name.clone())?;
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &json(&report))?;
        writeln!(out)?;
    } else {
        for line in report.to_string().lines() {
            writeln!(out, "{name}: {line}")?;
        }
        let verdict = if report.is_sound() {
            "sound"
        } else {
            "not sound"
        };
        let (chunks, totals) = (report.chunks, report.totals);
        writeln!(
            out,
            "{name}: {verdict}; {chunks} chunks, {} accesses, {} calls, {} returns, {} markers, checksum {:016x}",
            totals.accesses(),
            totals.calls,
            totals.returns,
            totals.markers,
            report.checksum
        )?;
    }
    Ok(if report.is_sound() {
        Outcome::Fine
    } else {
        Outcome::Findings
    })
}

fn json(report: &Report) -> Json {
    let totals = report.totals;
    Json {
        schema: 1,
        sound: report.is_sound(),
        findings: report.findings.iter().map(ToString::to_string).collect(),
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

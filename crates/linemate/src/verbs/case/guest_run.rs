//! A case's run in a guest as `linemate record` takes it, and the key of what it gives.

use anyhow::{Context, bail};
use linemate_cases::GuestRun;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::files::{Files, last_line, own_command, own_program};

/// The command that makes a run, its output at `made`.
pub(super) fn command(
    run: &GuestRun<'_>,
    kernel: PathBuf,
    made: &Path,
    files: &Files,
) -> anyhow::Result<Vec<OsString>> {
    let mut command = vec![own_program()?.into_os_string()];
    command.extend(["record".into(), "--kernel".into(), kernel.into()]);
    if run.recorded.is_some() {
        command.extend(["--output".into(), made.into()]);
    }
    command.extend(words(run, files)?);
    Ok(command)
}

/// The key of a run. `linemate record` itself makes it, where the run would be made: so the same
/// recording has the same key for every caller.
pub(super) fn key(run: &GuestRun<'_>, kernel: &str, files: &Files) -> anyhow::Result<String> {
    let mut command = own_command(files.base())?;
    command.arg("record").arg(format!("--key={kernel}"));
    let output = command
        .args(words(run, files)?)
        .output()
        .context("cannot run this program")?;
    if !output.status.success() {
        let said = last_line(&output.stderr);
        bail!("{}", said.trim_start_matches("linemate: "));
    }
    Ok(last_line(&output.stdout))
}

/// All but the kernel and the output.
fn words(run: &GuestRun<'_>, files: &Files) -> anyhow::Result<Vec<OsString>> {
    let mut words: Vec<OsString> = Vec::new();
    let mut option = |name: &str, value: OsString| words.extend([name.into(), value]);
    option("--smp", run.cpus.to_string().into());
    option("--memory", run.memory.into());
    option("--seed", run.seed.to_string().into());
    option("--numa", run.numa.to_string().into());
    option("--append", run.append.into());
    if let Some(setup) = run.setup {
        option("--setup", files.find(setup)?.into());
    }
    for file in run.files {
        option("--file", files.extra(file)?.into());
    }
    match run.recorded {
        None => words.push("--bare".into()),
        Some(recorded) => {
            if recorded.user {
                words.push("--user".into());
            }
            if let Some(event) = recorded.event {
                words.extend(["--event".into(), event.into()]);
            }
        }
    }
    words.push("--".into());
    for (place, word) in run.command.iter().enumerate() {
        words.push(match place {
            0 => files.program(word)?.into(),
            _ => word.into(),
        });
    }
    Ok(words)
}

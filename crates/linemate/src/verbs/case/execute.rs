//! Carries a step out: this program with another verb, or the script that builds a kernel, as a child.
//!
//! What a child says goes to a log that is kept when it fails; its output appears under the step's key when it is whole.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use indicatif::{ProgressBar, ProgressStyle};
use linemate_cases::{Case, CaseStep, CheckDocument, KernelSource, Key, Plan, StepId, Work};
use linemate_machine::Mechanism;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use super::files::{Files, last_line, own_command};
use super::guest_run;
use crate::output::tell;

/// How often a child is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How many lines of a failed build's log are shown.
const SHOWN: usize = 15;

/// The user interrupted.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(super) struct Interrupted;

/// What steps are carried out with.
pub(super) struct CaseBench<'b> {
    pub(super) case: &'b Case,
    pub(super) plan: &'b Plan<'b>,
    /// Of each step.
    pub(super) keys: &'b [Key],
    /// Absolute: children run elsewhere.
    pub(super) cache: PathBuf,
    pub(super) cancel: &'b AtomicBool,
}

impl CaseBench<'_> {
    fn step(&self, id: StepId) -> anyhow::Result<(&CaseStep, &Key)> {
        let found = self.plan.steps.get(id.0).zip(self.keys.get(id.0));
        found.with_context(|| format!("there is no step {}", id.0))
    }

    /// Where a step's output is kept.
    pub(super) fn output(&self, id: StepId) -> anyhow::Result<PathBuf> {
        let (step, key) = self.step(id)?;
        let ending = match step.work {
            Work::Record { .. } => "data",
            Work::Build { .. } => "bzImage",
            _ => "json",
        };
        Ok(self.cache.join(format!("{}.{ending}", key.0)))
    }

    /// Does a step; those that it uses have been done.
    pub(super) fn carry_out(
        &self,
        id: StepId,
        files: &mut Files,
        place: &str,
    ) -> anyhow::Result<()> {
        let (step, key) = self.step(id)?;
        let output = self.output(id)?;
        let work = tempfile::Builder::new()
            .prefix("work-")
            .tempdir_in(&self.cache)
            .with_context(|| format!("cannot write to {}", self.cache.display()))?;
        let made = work.path().join("output");
        let log = self.cache.join(format!("{}.log", key.0));
        let run = StepRun {
            place,
            log: &log,
            cancel: self.cancel,
        };
        match &step.work {
            Work::Build { edit, check } => {
                let common = self.plan.common_key(*check, files)?;
                let _alone = run.alone(&self.cache.join(format!("{}.lock", common.0)))?;
                if output.exists() {
                    // Whoever was waited for has built the same.
                    return Ok(());
                }
                let build = Building {
                    config: self.config(*check, &common, files)?,
                    folder: self.cache.join(format!("{}.build", common.0)),
                    said: work.path().join("stdout"),
                };
                self.build(*edit, &build, &made, files, &run)?;
            }
            Work::Record {
                kernel,
                run: number,
            } => {
                let of = self.plan.recording(*number);
                let kernel = self.kernel(*kernel, files)?;
                let mut command = guest_run::command(&of, kernel, &made, files)?;
                command.stdout(Stdio::null());
                run.child(command)?;
            }
            Work::Check { kernel, check, .. } => {
                let of = self.plan.check(*check).context("no such check")?;
                let command = guest_run::command(&of, self.output(*kernel)?, &made, files)?;
                self.checked(command, &work.path().join("stdout"), &made, &run)?;
            }
            _ => {
                let mut command = own_command(files.base())?;
                command.args(self.analysis(step, files)?);
                let file = File::create(&made).with_context(|| made.display().to_string())?;
                command.stdout(file);
                run.child(command)?;
            }
        }
        fs::rename(&made, &output).with_context(|| format!("cannot write {}", output.display()))?;
        let _ = fs::remove_file(&log);
        Ok(())
    }

    /// The image that is recorded.
    fn kernel(&self, built: Option<StepId>, files: &Files) -> anyhow::Result<PathBuf> {
        match (built, &self.case.kernel) {
            (Some(id), _) => self.output(id),
            (None, KernelSource::Series(series)) => files.series(series),
            (None, KernelSource::Image(image)) => files.find(image),
            (None, KernelSource::Built) => bail!("the kernel has not been built"),
        }
    }

    fn analysis(&self, step: &CaseStep, files: &Files) -> anyhow::Result<Vec<OsString>> {
        let (verb, of) = match &step.work {
            Work::WhatIf { of, .. } | Work::Measure { of, .. } | Work::WhatIfUnder { of, .. } => {
                ("whatif", of)
            }
            Work::Report { of, .. } | Work::Costs { of, .. } | Work::Under { of, .. } => {
                ("report", of)
            }
            Work::Record { .. } | Work::Build { .. } | Work::Check { .. } => {
                bail!("no analysis: {}", step.title)
            }
        };
        let mut words: Vec<OsString> = vec![verb.into(), "--json".into()];
        let mut option = |name: &str, value: OsString| words.extend([name.into(), value]);
        option("--input", self.output(*of)?.into());
        match &step.work {
            Work::Report { type_name, .. } => option("--type", type_name.into()),
            Work::Costs {
                type_name, machine, ..
            } => {
                option("--type", type_name.into());
                option("--machine", files.machine(machine).into());
                words.extend(self.replaying(*of, false, files)?);
            }
            Work::Under {
                function, machine, ..
            } => {
                option("--under", function.into());
                option("--machine", files.machine(machine).into());
                words.extend(self.replaying(*of, true, files)?);
            }
            Work::WhatIfUnder {
                function, machine, ..
            } => {
                let edit = self.plan.edit_file(&step.work).context("no such edit")?;
                option("--edit", files.find(edit)?.into());
                option("--under", function.into());
                option("--machine", files.machine(machine).into());
                words.push("--all-interleavings".into());
                words.extend(self.replaying(*of, true, files)?);
            }
            Work::WhatIf { machine, .. } | Work::Measure { machine, .. } => {
                let edit = self.plan.edit_file(&step.work).context("no such edit")?;
                option("--edit", files.find(edit)?.into());
                option("--machine", files.machine(machine).into());
                if let Some(event) = &self.case.event {
                    option("--event", event.function.clone().into());
                }
                // Predictions are compared with kernels that were recorded again.
                words.push("--all-interleavings".into());
                if self.plan.llc_share() {
                    words.push("--llc-share".into());
                }
                words.extend(self.replaying(*of, false, files)?);
            }
            Work::Record { .. } | Work::Build { .. } | Work::Check { .. } => {}
        }
        Ok(words)
    }

    /// How the recording of a step is replayed, where that is not the default; with the kernel's
    /// image if calls are needed.
    fn replaying(
        &self,
        of: StepId,
        is_under: bool,
        files: &Files,
    ) -> anyhow::Result<Vec<OsString>> {
        let replay = self.plan.replay();
        let mut words: Vec<OsString> = Vec::new();
        if replay.cold {
            words.push("--cold".into());
        }
        if let Some(cpus) = replay.cpus {
            words.extend(["--cpus".into(), cpus.to_string().into()]);
        }
        if let Some(mechanisms) = &replay.mechanisms {
            let list = match &mechanisms[..] {
                [] => "none".to_owned(),
                names => names.join(","),
            };
            words.extend(["--mechanisms".into(), list.into()]);
        }
        let overlap = Mechanism::Overlap.key();
        let overlaps = |names: &Vec<String>| names.iter().any(|name| name == overlap);
        if is_under || replay.mechanisms.as_ref().is_some_and(overlaps) {
            let Work::Record { kernel, .. } = self.step(of)?.0.work else {
                bail!("no recording");
            };
            words.extend(["--kernel".into(), self.kernel(kernel, files)?.into()]);
        }
        if is_under && self.plan.llc_share() {
            words.push("--llc-share".into());
        }
        Ok(words)
    }

    /// The file of a build's configuration: the case's fragment, or several of them one after the other.
    fn config(&self, check: Option<usize>, common: &Key, files: &Files) -> anyhow::Result<PathBuf> {
        let absolute = |name: &String| anyhow::Ok(files.base().join(files.find(name)?));
        let fragments = self.plan.config(check).map(absolute);
        let fragments: Vec<PathBuf> = fragments.collect::<Result<_, _>>()?;
        if let [only] = &fragments[..] {
            return Ok(only.clone());
        }
        let mut all = String::new();
        for path in &fragments {
            all += &fs::read_to_string(path).with_context(|| path.display().to_string())?;
            all.push('\n');
        }
        let path = self.cache.join(format!("{}.config", common.0));
        fs::write(&path, all).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    fn build(
        &self,
        edit: Option<usize>,
        building: &Building,
        made: &Path,
        files: &Files,
        run: &StepRun<'_>,
    ) -> anyhow::Result<()> {
        let build = self.case.build.as_ref().context("no [build]")?;
        let mut command = Command::new(files.build_script(build.script.as_deref())?);
        command
            .current_dir(files.base())
            .arg(files.source(&build.source)?)
            .arg(&building.config)
            .arg(&building.folder);
        for patch in self.plan.patches(edit) {
            command.arg(files.base().join(files.find(patch)?));
        }
        let said = &building.said;
        command.stdout(File::create(said).with_context(|| said.display().to_string())?);
        if let Err(error) = run.child(command) {
            if !error.is::<Interrupted>() {
                show_end(run.log);
            }
            return Err(error);
        }
        let said = fs::read(said).with_context(|| said.display().to_string())?;
        let image = PathBuf::from(last_line(&said));
        fs::copy(&image, made)
            .with_context(|| format!("the build reports {} as its image", image.display()))?;
        Ok(())
    }

    /// A check's output goes to the log when it fails: that is where the kernel's complaint is.
    fn checked(
        &self,
        mut command: Command,
        said: &Path,
        made: &Path,
        run: &StepRun<'_>,
    ) -> anyhow::Result<()> {
        command.stdout(File::create(said).with_context(|| said.display().to_string())?);
        let result = run.child(command);
        let said = fs::read(said).with_context(|| said.display().to_string())?;
        if let Err(error) = result {
            if !error.is::<Interrupted>() {
                let complaint = fs::read(run.log).unwrap_or_default();
                fs::write(run.log, [said, complaint].concat())
                    .with_context(|| run.log.display().to_string())?;
                show_end(run.log);
            }
            return Err(error);
        }
        let said = last_line(&said);
        let document = serde_json::to_string(&CheckDocument { said })?;
        fs::write(made, document).with_context(|| made.display().to_string())
    }
}

/// What a kernel is built with.
struct Building {
    /// The fragment of a configuration.
    config: PathBuf,
    /// Where it is compiled: all variants of one source and configuration share it, so that what no patch touches is compiled once.
    folder: PathBuf,
    /// Where the script's standard output goes.
    said: PathBuf,
}

/// The end of a log, to find out why a build failed.
fn show_end(log: &Path) {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    for line in &lines[lines.len().saturating_sub(SHOWN)..] {
        tell(&format!("  {line}"));
    }
}

/// How a child is watched.
struct StepRun<'r> {
    place: &'r str,
    log: &'r Path,
    cancel: &'r AtomicBool,
}

impl StepRun<'_> {
    /// Waits until no other run builds in the folder that a file represents; until the result is
    /// dropped, none will. The kernel releases the lock of a process that dies.
    fn alone(&self, path: &Path) -> anyhow::Result<File> {
        let name = || format!("cannot lock {}", path.display());
        let file = File::create(path).with_context(name)?;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file),
                Err(Errno::WOULDBLOCK) if self.cancel.load(Ordering::Relaxed) => {
                    return Err(Interrupted.into());
                }
                Err(Errno::WOULDBLOCK) => thread::sleep(LOOK),
                Err(error) => return Err(error).with_context(name),
            }
        }
    }

    /// Runs a child to its end; its standard error goes to the log.
    fn child(&self, mut command: Command) -> anyhow::Result<()> {
        let program = command.get_program().to_string_lossy().into_owned();
        let log = File::create(self.log)
            .with_context(|| format!("cannot write {}", self.log.display()))?;
        // A group of its own: a build is a script with a compiler below it, and a stop must reach
        // all of them. A compiler that continued would write where the next run compiles.
        command.stdin(Stdio::null()).stderr(log).process_group(0);
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot run {program}"))?;
        let spinner = self.spinner();
        let status = self.wait(&mut child);
        spinner.finish_and_clear();
        let status = status.with_context(|| format!("cannot wait for {program}"))?;
        if status.success() {
            return Ok(());
        }
        if self.cancel.load(Ordering::Relaxed) {
            let _ = fs::remove_file(self.log);
            return Err(Interrupted.into());
        }
        let said = last_line(&fs::read(self.log).unwrap_or_default());
        let said = said.strip_prefix("linemate: ").unwrap_or(&said);
        Err(anyhow!("{said} (log: {})", self.log.display()))
    }

    fn wait(&self, child: &mut Child) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if self.cancel.load(Ordering::Relaxed) {
                // It may be gone by now.
                let _ = kill_process_group(Pid::from_child(child), Signal::TERM);
                return child.wait();
            }
            thread::sleep(LOOK);
        }
    }

    fn spinner(&self) -> ProgressBar {
        if !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
            bar.set_style(style);
        }
        bar.set_message(self.place.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }
}

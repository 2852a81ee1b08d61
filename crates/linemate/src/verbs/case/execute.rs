//! Carries a step out: this program with another verb, or the script that builds a kernel, as a child.
//!
//! What a child says goes to a log that is kept when it fails; its output appears under the step's key when it is whole.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use indicatif::{ProgressBar, ProgressStyle};
use linemate_cases::{Case, KernelSource, Key, Plan, Step, StepId, Work};
use rustix::process::{Pid, Signal, kill_process};

use super::files::{Files, last_line};
use super::tell;

/// How often a child is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How many lines of a failed build's log are shown.
const SHOWN: usize = 15;

/// The user asked to stop.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(super) struct Interrupted;

/// What steps are carried out with.
pub(super) struct Bench<'b> {
    pub(super) case: &'b Case,
    pub(super) plan: &'b Plan<'b>,
    /// Absolute: children run elsewhere.
    pub(super) cache: PathBuf,
    pub(super) cancel: &'b AtomicBool,
}

impl Bench<'_> {
    /// Where a step's output is kept.
    pub(super) fn output(&self, step: &Step, key: &Key) -> PathBuf {
        let ending = match step.work {
            Work::Record { .. } => "data",
            Work::Build { .. } => "bzImage",
            _ => "json",
        };
        self.cache.join(format!("{}.{ending}", key.0))
    }

    /// The output of an earlier step.
    fn made(&self, id: StepId, keys: &[Key]) -> anyhow::Result<PathBuf> {
        match (self.plan.steps.get(id.0), keys.get(id.0)) {
            (Some(step), Some(key)) => Ok(self.output(step, key)),
            _ => Err(anyhow!("step {} comes before its needs", id.0)),
        }
    }

    /// Does a step, the last one of `keys`.
    pub(super) fn carry_out(
        &self,
        step: &Step,
        keys: &[Key],
        files: &Files,
        place: &str,
    ) -> anyhow::Result<()> {
        let Some(key) = keys.last() else {
            bail!("a step without a key");
        };
        let output = self.output(step, key);
        let work = tempfile::Builder::new()
            .prefix("work-")
            .tempdir_in(&self.cache)
            .with_context(|| format!("cannot write to {}", self.cache.display()))?;
        let made = work.path().join("output");
        let log = self.cache.join(format!("{}.log", key.0));
        let run = Run {
            place,
            log: &log,
            cancel: self.cancel,
        };
        match &step.work {
            Work::Build { edit } => {
                let folder = self.build_folder(keys);
                self.build(*edit, (work.path(), &folder), &made, files, &run)?;
            }
            Work::Record { .. } => {
                let mut command = self.itself(files)?;
                command.args(self.record(step, keys, &made, files)?);
                command.stdout(Stdio::null());
                run.child(command)?;
            }
            _ => {
                let mut command = self.itself(files)?;
                command.args(self.analysis(step, keys, files)?);
                let file = File::create(&made).with_context(|| made.display().to_string())?;
                command.stdout(file);
                run.child(command)?;
            }
        }
        fs::rename(&made, &output).with_context(|| format!("cannot write {}", output.display()))?;
        let _ = fs::remove_file(&log);
        Ok(())
    }

    /// This program, to be told a verb.
    fn itself(&self, files: &Files) -> anyhow::Result<Command> {
        let program = env::current_exe().context("cannot find this program's file")?;
        let mut command = Command::new(program);
        command.current_dir(files.base());
        Ok(command)
    }

    fn record(
        &self,
        step: &Step,
        keys: &[Key],
        made: &Path,
        files: &Files,
    ) -> anyhow::Result<Vec<OsString>> {
        let kernel = match (&step.work, &self.case.kernel) {
            (Work::Record { kernel: Some(id) }, _) => self.made(*id, keys)?,
            (_, KernelSource::Series(series)) => files.series(series)?,
            (_, KernelSource::Image(image)) => files.find(image)?,
        };
        let (guest, workload) = (&self.case.guest, &self.case.workload);
        let mut words: Vec<OsString> = vec!["record".into(), "--kernel".into(), kernel.into()];
        let mut option = |name: &str, value: OsString| words.extend([name.into(), value]);
        option("--smp", guest.cpus.to_string().into());
        option("--memory", guest.memory.clone().into());
        option("--seed", guest.seed.to_string().into());
        option("--numa", guest.numa.to_string().into());
        option("--append", guest.append.clone().into());
        if let Some(setup) = &workload.setup {
            option("--setup", files.find(setup)?.into());
        }
        for file in &workload.files {
            option("--file", files.extra(file)?.into());
        }
        option("--output", made.into());
        words.push("--".into());
        for (place, word) in workload.command.iter().enumerate() {
            words.push(match place {
                0 => files.program(word)?.into(),
                _ => word.into(),
            });
        }
        Ok(words)
    }

    fn analysis(&self, step: &Step, keys: &[Key], files: &Files) -> anyhow::Result<Vec<OsString>> {
        let (verb, of) = match &step.work {
            Work::WhatIf { of, .. } | Work::Measure { of, .. } => ("whatif", of),
            Work::Report { of, .. } | Work::Costs { of, .. } => ("report", of),
            Work::Record { .. } | Work::Build { .. } => bail!("no analysis: {}", step.title),
        };
        let mut words: Vec<OsString> = vec![verb.into(), "--json".into()];
        let mut option = |name: &str, value: OsString| words.extend([name.into(), value]);
        option("--input", self.made(*of, keys)?.into());
        match &step.work {
            Work::Report { type_name, .. } => option("--type", type_name.into()),
            Work::Costs {
                type_name, machine, ..
            } => {
                option("--type", type_name.into());
                option("--machine", files.machine(machine).into());
            }
            Work::WhatIf { machine, .. } | Work::Measure { machine, .. } => {
                let edit = self.plan.edit_file(&step.work).context("no such edit")?;
                option("--edit", files.find(edit)?.into());
                option("--machine", files.machine(machine).into());
            }
            Work::Record { .. } | Work::Build { .. } => {}
        }
        Ok(words)
    }

    /// Where kernels of one source and configuration are built: what is compiled without patches serves all variants. The first build is
    /// that without patches; its key stands for all that variants have in common.
    fn build_folder(&self, keys: &[Key]) -> PathBuf {
        let steps = self.plan.steps.iter().zip(keys);
        let first = steps
            .filter(|(step, _)| matches!(step.work, Work::Build { .. }))
            .map(|(_, key)| key.0.as_str())
            .next();
        self.cache
            .join(format!("{}.build", first.unwrap_or_default()))
    }

    fn build(
        &self,
        edit: Option<usize>,
        (work, folder): (&Path, &Path),
        made: &Path,
        files: &Files,
        run: &Run<'_>,
    ) -> anyhow::Result<()> {
        let build = self.case.build.as_ref().context("no [build]")?;
        let absolute = |name: &str| anyhow::Ok(files.base().join(files.find(name)?));
        let said = work.join("stdout");
        let mut command = Command::new(files.build_script(build.script.as_deref())?);
        command
            .current_dir(files.base())
            .arg(files.source(&build.source)?)
            .arg(absolute(&build.config)?)
            .arg(folder);
        for patch in self.plan.patches(edit) {
            command.arg(absolute(patch)?);
        }
        command.stdout(File::create(&said).with_context(|| said.display().to_string())?);
        if let Err(error) = run.child(command) {
            if !error.is::<Interrupted>() {
                show_end(run.log);
            }
            return Err(error);
        }
        let said = fs::read(&said).with_context(|| said.display().to_string())?;
        let image = PathBuf::from(last_line(&said));
        fs::copy(&image, made)
            .with_context(|| format!("the build names {} as its image", image.display()))?;
        Ok(())
    }
}

/// The end of a log, for whoever has to find out why a build failed.
fn show_end(log: &Path) {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    for line in &lines[lines.len().saturating_sub(SHOWN)..] {
        tell(&format!("  {line}"));
    }
}

/// How a child is watched.
struct Run<'r> {
    place: &'r str,
    log: &'r Path,
    cancel: &'r AtomicBool,
}

impl Run<'_> {
    /// Runs a child to its end; its standard error goes to the log.
    fn child(&self, mut command: Command) -> anyhow::Result<()> {
        let program = command.get_program().to_string_lossy().into_owned();
        let log = File::create(self.log)
            .with_context(|| format!("cannot write {}", self.log.display()))?;
        command.stdin(Stdio::null()).stderr(log);
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
                // It may be gone by now, or have got Ctrl-C from the terminal itself.
                let _ = kill_process(Pid::from_child(child), Signal::TERM);
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

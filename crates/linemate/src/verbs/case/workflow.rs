//! Runs a case's steps with the workflow of sweeps and surveys (sweep/Snakefile): as many at a time
//! as the computer or the cluster holds, each after those that it uses.
//!
//! The workflow's files are embedded in this program and written into the run's folder, so an
//! installed linemate has them, too. Snakemake's output goes to a log; each step leaves files in
//! that folder that say how it ended.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use indicatif::{ProgressBar, ProgressStyle};
use linemate_cases::{Key, Outputs, StepId, Work};
use linemate_guest::cache_folder;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde::Deserialize;

use super::files::{Files, in_search_path, last_line};
use super::steps::{ListedStep, Steps, spent};
use crate::output::to_stderr;

/// How often the run polls the workflow.
const LOOK: Duration = Duration::from_millis(20);
/// How long a stopped workflow may take to end: a guest that is being recorded needs seconds. A
/// workflow that hangs does not hang the command.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// How many lines of a failed build's log are shown.
const SHOWN: usize = 15;
/// The name of this computer's profile.
const LOCAL: &str = "local";

/// The workflow's files, by their places below one folder.
const FILES: [(&str, &str); 5] = [
    ("Snakefile", include_str!("../../../../../sweep/Snakefile")),
    (
        "workflow.py",
        include_str!("../../../../../sweep/workflow.py"),
    ),
    ("step.py", include_str!("../../../../../sweep/step.py")),
    (
        "profiles/local/config.yaml",
        include_str!("../../../../../sweep/profiles/local/config.yaml"),
    ),
    (
        "profiles/slurm/config.yaml",
        include_str!("../../../../../sweep/profiles/slurm/config.yaml"),
    ),
];

/// Where steps run: `local`, `slurm`, or the absolute path of a folder with Snakemake's
/// config.yaml.
#[derive(Clone, Debug)]
pub(super) struct Profile(String);

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if [LOCAL, "slurm"].contains(&text) {
            return Ok(Profile(text.to_owned()));
        }
        match fs::canonicalize(text) {
            Ok(folder) if folder.join("config.yaml").is_file() => {
                Ok(Profile(folder.display().to_string()))
            }
            _ => Err("use `local`, `slurm`, or a folder with a config.yaml".to_owned()),
        }
    }
}

/// The user interrupted the workflow.
#[derive(Debug, thiserror::Error)]
#[error("interrupted: finished steps are cached, the same command resumes after them")]
struct Interrupted;

/// A run of a case's steps.
pub(super) struct Workflow<'w> {
    pub(super) steps: Steps<'w>,
    pub(super) profile: &'w Profile,
    pub(super) cancel: &'w AtomicBool,
}

/// A step that has not ended.
struct Pending<'p> {
    id: StepId,
    key: &'p Key,
}

impl Workflow<'_> {
    /// Runs every step that is not done; returns the JSON that steps left. A cached step is
    /// reported unless it is in `reported`, to which all steps are added.
    ///
    /// # Errors
    /// A step or Snakemake failed, Snakemake is missing, or the user interrupted.
    pub(super) fn carry_out(
        &self,
        files: &mut Files,
        reported: &mut BTreeSet<Key>,
    ) -> anyhow::Result<Outputs> {
        let cache = self.steps.cache;
        let work = tempfile::Builder::new().prefix("work-").tempdir_in(cache);
        let work = work.with_context(|| format!("cannot write to {}", cache.display()))?;
        let listed = self.steps.missing(work.path(), files)?;
        let pending = self.pending(&listed, reported);
        if !listed.is_empty() {
            self.run(work.path(), &listed, pending)?;
        }
        self.outputs()
    }

    /// The steps to run, each once. Reports the others.
    fn pending(
        &self,
        listed: &BTreeMap<String, ListedStep>,
        reported: &mut BTreeSet<Key>,
    ) -> Vec<Pending<'_>> {
        let mut pending: Vec<Pending<'_>> = Vec::new();
        for (number, key) in self.steps.keys.iter().enumerate() {
            let id = StepId(number);
            let twin = pending.iter().find(|other| other.key == key);
            if let Some(Pending {
                id: StepId(other), ..
            }) = twin
            {
                to_stderr(&format!("{}: is step {}", self.place(id), other + 1));
            } else if listed.contains_key(&key.0) {
                pending.push(Pending { id, key });
            } else if !reported.contains(key) {
                to_stderr(&format!("{}: cached from an earlier run", self.place(id)));
            }
        }
        reported.extend(self.steps.keys.iter().cloned());
        pending
    }

    fn title(&self, id: StepId) -> &str {
        self.steps
            .plan
            .steps
            .get(id.0)
            .map_or("", |step| &step.title)
    }

    fn place(&self, id: StepId) -> String {
        let count = self.steps.plan.steps.len();
        format!("[{}/{count}] {}", id.0 + 1, self.title(id))
    }

    fn run(
        &self,
        work: &Path,
        listed: &BTreeMap<String, ListedStep>,
        mut pending: Vec<Pending<'_>>,
    ) -> anyhow::Result<()> {
        let case = &self.steps.case.name;
        let log = work.join("snakemake.log");
        let mut child = self
            .start(work, listed, &log)
            .with_context(|| case.clone())?;
        let spinner = spinner();
        let ended = self.watch(&mut child, work, &mut pending, &spinner);
        spinner.finish_and_clear();
        ended.with_context(|| format!("{case}: cannot wait for Snakemake"))?;
        // Once more, because steps may end between the last look and the workflow's end; and before
        // those of other runs, because steps of this run have outputs, too.
        self.report_done(work, &mut pending);
        self.report_done_elsewhere(&mut pending);
        if pending.is_empty() {
            return Ok(());
        }
        if self.cancel.load(Ordering::Relaxed) {
            return Err(anyhow!(Interrupted).context(case.clone()));
        }
        for Pending { id, key } in &pending {
            let run = work.join("run");
            if let Ok(reason) = fs::read_to_string(run.join(format!("{}.failed", key.0))) {
                let kept = self.keep_log(&run.join(format!("{}.log", key.0)), &key.0)?;
                return Err(self
                    .failure(*id, &reason, kept.as_deref())
                    .context(case.clone()));
            }
        }
        let said = last_line(&fs::read(&log).unwrap_or_default());
        let kept = self.keep_log(&log, "snakemake")?.unwrap_or_default();
        bail!("{case}: Snakemake failed: {said} (log: {})", kept.display())
    }

    fn start(
        &self,
        work: &Path,
        listed: &BTreeMap<String, ListedStep>,
        log: &Path,
    ) -> anyhow::Result<Child> {
        let python = python_with_snakemake()?;
        let program = work.join("workflow");
        for (place, text) in FILES {
            write(&program.join(place), text.as_bytes())?;
        }
        let list = work.join("list.json");
        write(&list, &serde_json::to_vec(listed)?)?;
        let log = File::create(log).with_context(|| log.display().to_string())?;
        let mut command = Command::new(&python);
        command.arg(program.join("workflow.py")).arg(list);
        command.arg(work.join("run")).arg(&self.profile.0);
        // `python -m` imports from the current folder first.
        command.current_dir(work);
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        // A group of its own: a build is a script with a compiler below it, and a stop must reach
        // all of them. A compiler that continued would write where the next run compiles.
        command.process_group(0);
        command
            .spawn()
            .with_context(|| format!("cannot run {}", python.display()))
    }

    /// Reports steps as they end, until the workflow does.
    fn watch(
        &self,
        child: &mut Child,
        work: &Path,
        pending: &mut Vec<Pending<'_>>,
        spinner: &ProgressBar,
    ) -> io::Result<()> {
        loop {
            self.report_done(work, pending);
            if child.try_wait()?.is_some() {
                return Ok(());
            }
            if self.cancel.load(Ordering::Relaxed) {
                return stop(child, STOP_LIMIT);
            }
            if pending.is_empty() && self.profile.0 == LOCAL {
                // Snakemake waits up to a second for a timer of its own, and nothing reads what it
                // would still write.
                return kill_group(child);
            }
            if !spinner.is_hidden() {
                spinner.set_message(self.running(work, pending));
            }
            thread::sleep(LOOK);
        }
    }

    /// Removes the steps that are done.
    fn report_done(&self, work: &Path, pending: &mut Vec<Pending<'_>>) {
        pending.retain(|Pending { id, key }| {
            let Some(seconds) = seconds(&spent(work, key)) else {
                return true;
            };
            to_stderr(&format!("{}: {seconds:.1} s", self.place(*id)));
            // Of an earlier run that failed there.
            let _ = fs::remove_file(self.steps.cache.join(format!("{}.log", key.0)));
            false
        });
    }

    /// Removes the steps that another run on the same cache did in the meantime: the workflow skips
    /// them and writes no time.
    fn report_done_elsewhere(&self, pending: &mut Vec<Pending<'_>>) {
        pending.retain(|Pending { id, .. }| {
            let output = self.steps.output(*id);
            let is_done = output.is_ok_and(|output| output.is_file());
            if is_done {
                to_stderr(&format!("{}: done by another run", self.place(*id)));
            }
            !is_done
        });
    }

    fn running(&self, work: &Path, pending: &[Pending<'_>]) -> String {
        let started = |step: &&Pending<'_>| {
            let output = format!("{}.stdout", step.key.0);
            work.join("run").join(output).is_file()
        };
        let running = pending
            .iter()
            .filter(started)
            .map(|step| self.place(step.id));
        running.collect::<Vec<_>>().join(", ")
    }

    /// Keeps a log in the cache, where it outlives the run. `None` of an empty one.
    fn keep_log(&self, log: &Path, name: &str) -> anyhow::Result<Option<PathBuf>> {
        if fs::metadata(log).map_or(0, |about| about.len()) == 0 {
            return Ok(None);
        }
        let kept = self.steps.cache.join(format!("{name}.log"));
        fs::rename(log, &kept).with_context(|| kept.display().to_string())?;
        Ok(Some(kept))
    }

    fn failure(&self, id: StepId, reason: &str, log: Option<&Path>) -> anyhow::Error {
        let title = self.title(id);
        let Some(log) = log else {
            return anyhow!("{title}: {reason}");
        };
        let step = self.steps.plan.steps.get(id.0);
        if step.is_some_and(|step| matches!(step.work, Work::Build { .. } | Work::Check { .. })) {
            show_end(log);
        }
        anyhow!("{title}: {reason} (log: {})", log.display())
    }

    /// The JSON that steps left.
    fn outputs(&self) -> anyhow::Result<Outputs> {
        let mut outputs = Outputs::new();
        for number in 0..self.steps.keys.len() {
            let output = self.steps.output(StepId(number))?;
            if output.extension().is_some_and(|e| e == "json") {
                let text = fs::read(&output).with_context(|| output.display().to_string())?;
                let value = serde_json::from_slice(&text);
                let value = value.with_context(|| output.display().to_string())?;
                outputs.insert(StepId(number), value);
            }
        }
        Ok(outputs)
    }
}

/// Asks the workflow to stop, which stops its steps, and waits for it; kills it after `limit`.
fn stop(child: &mut Child, limit: Duration) -> io::Result<()> {
    // It may be gone by now.
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
    let deadline = Instant::now() + limit;
    while child.try_wait()?.is_none() {
        if Instant::now() >= deadline {
            return kill_group(child);
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// Kills the workflow with all that it has started.
fn kill_group(child: &mut Child) -> io::Result<()> {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    child.wait()?;
    Ok(())
}

/// A Python that can import Snakemake, or the system's next to a packaged Snakemake.
fn python_with_snakemake() -> anyhow::Result<PathBuf> {
    let own = cache_folder()?.join("snakemake/bin/python");
    if own.is_file() {
        // It is executed, so nobody else may be able to write it.
        linemate_files::check_trusted(own.parent().unwrap_or(&own))?;
        return Ok(own);
    }
    match (in_search_path("snakemake"), in_search_path("python3")) {
        (Some(_), Some(python)) => Ok(python),
        _ => bail!(
            "Snakemake runs the steps and is not installed: `scripts/setup.sh cases` or `pip install snakemake` installs it"
        ),
    }
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let name = || format!("cannot write {}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(name)?;
    }
    fs::write(path, bytes).with_context(name)
}

/// How long a step took. `None` until it is done.
fn seconds(spent: &Path) -> Option<f64> {
    #[derive(Deserialize)]
    struct Spent {
        wall_seconds: f64,
    }
    let spent: Spent = serde_json::from_slice(&fs::read(spent).ok()?).ok()?;
    Some(spent.wall_seconds)
}

/// The end of a log, which often says why a build failed.
fn show_end(log: &Path) {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    for line in &lines[lines.len().saturating_sub(SHOWN)..] {
        to_stderr(&format!("  {line}"));
    }
}

fn spinner() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_that_does_not_stop_is_killed() -> io::Result<()> {
        let mut command = Command::new("sh");
        // The output says that the trap is set.
        command.args(["-c", "trap '' TERM; echo; while :; do sleep 60; done"]);
        command.stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn()?;
        let mut ready = [0];
        if let Some(output) = &mut child.stdout {
            io::Read::read_exact(output, &mut ready)?;
        }
        stop(&mut child, Duration::from_millis(100))?;
        let status = child.try_wait()?;
        assert!(status.is_some_and(|status| !status.success()), "{status:?}");
        Ok(())
    }
}

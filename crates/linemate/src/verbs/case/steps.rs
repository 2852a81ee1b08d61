//! A case's steps as the workflow reads them (sweep/step.py): commands of this program with another
//! verb, or of the script that builds a kernel.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use linemate_cases::{Case, CaseStep, GuestRun, KernelSource, Key, Plan, StepId, Work};
use linemate_files::Output;
use linemate_machine::Mechanism;
use linemate_text::parse_size;
use serde::Serialize;

use super::files::{Files, own_program};
use super::guest_run;

/// A step of the workflow.
#[derive(Debug, Serialize)]
pub(super) struct ListedStep {
    title: String,
    command: Vec<PathBuf>,
    /// Where the command runs.
    folder: PathBuf,
    /// The names of steps that come before it.
    uses: Vec<String>,
    /// The resources to reserve: those of an `analysis`, a `build`, or a guest with this memory.
    needs: String,
    output: PathBuf,
    takes: Taken,
    /// The file that the command writes.
    made: PathBuf,
    /// Steps with the same lock run one at a time, also those of other runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<PathBuf>,
    /// Where the step writes how long it took.
    spent: PathBuf,
}

/// What becomes a step's output.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Taken {
    /// The file `made`.
    Made,
    Stdout,
    /// The file that the last line on standard output names.
    Image,
    /// The last line on standard output, as JSON.
    Said,
}

/// A command, and what of it becomes the output.
struct Task {
    command: Vec<OsString>,
    takes: Taken,
    needs: String,
    lock: Option<PathBuf>,
}

/// What the list of a case's steps is made from.
pub(super) struct Steps<'s> {
    pub(super) case: &'s Case,
    pub(super) plan: &'s Plan<'s>,
    /// The key of each step, in their order.
    pub(super) keys: &'s [Key],
    /// The folder of outputs; absolute, because commands run elsewhere.
    pub(super) cache: &'s Path,
}

impl Steps<'_> {
    fn step(&self, id: StepId) -> anyhow::Result<(&CaseStep, &Key)> {
        let found = self.plan.steps.get(id.0).zip(self.keys.get(id.0));
        found.with_context(|| format!("there is no step {}", id.0))
    }

    /// The path of a step's output.
    pub(super) fn output(&self, id: StepId) -> anyhow::Result<PathBuf> {
        let (step, key) = self.step(id)?;
        let ending = match step.work {
            Work::Record { .. } => "data",
            Work::Build { .. } => "bzImage",
            _ => "json",
        };
        Ok(self.cache.join(format!("{}.{ending}", key.0)))
    }

    /// The steps without an output, by their keys. Two with one key are the same step.
    ///
    /// # Errors
    /// Something that a step needs is missing.
    pub(super) fn missing(
        &self,
        work: &Path,
        files: &mut Files,
    ) -> anyhow::Result<BTreeMap<String, ListedStep>> {
        let mut listed = BTreeMap::new();
        for (number, key) in self.keys.iter().enumerate() {
            let id = StepId(number);
            if !listed.contains_key(&key.0) && !self.output(id)?.is_file() {
                listed.insert(key.0.clone(), self.listed(id, work, files)?);
            }
        }
        Ok(listed)
    }

    fn listed(&self, id: StepId, work: &Path, files: &mut Files) -> anyhow::Result<ListedStep> {
        let (step, key) = self.step(id)?;
        let made = work.join(format!("{}.made", key.0));
        let task = self.task(step, &made, files)?;
        let before = self.plan.before(id).into_iter();
        let uses = before.map(|other| Ok(self.step(other)?.1.0.clone()));
        Ok(ListedStep {
            title: step.title.clone(),
            command: task.command.into_iter().map(PathBuf::from).collect(),
            folder: files.base().to_owned(),
            uses: uses.collect::<anyhow::Result<_>>()?,
            needs: task.needs,
            output: self.output(id)?,
            takes: task.takes,
            made,
            lock: task.lock,
            spent: spent(work, key),
        })
    }

    fn task(&self, step: &CaseStep, made: &Path, files: &mut Files) -> anyhow::Result<Task> {
        Ok(match &step.work {
            Work::Build { edit, check } => self.build(*edit, *check, files)?,
            Work::Record { kernel, run } => {
                let kernel = self.kernel(*kernel, files)?;
                guest(&self.plan.recording(*run), kernel, made, files)?
            }
            Work::Check { kernel, check, .. } => {
                let run = self.plan.check(*check).context("no such check")?;
                guest(&run, self.output(*kernel)?, made, files)?
            }
            _ => {
                let mut command = vec![own_program()?.into_os_string()];
                command.extend(self.analysis(step, files)?);
                Task {
                    command,
                    takes: Taken::Stdout,
                    needs: "analysis".to_owned(),
                    lock: None,
                }
            }
        })
    }

    /// The image that is recorded.
    fn kernel(&self, built: Option<StepId>, files: &mut Files) -> anyhow::Result<PathBuf> {
        match (built, &self.case.kernel) {
            (Some(id), _) => self.output(id),
            (None, KernelSource::Series(series)) => files.series(series),
            (None, KernelSource::Image(image)) => files.find(image),
            (None, KernelSource::Built) => bail!("the kernel has to be built, and is not"),
        }
    }

    fn analysis(&self, step: &CaseStep, files: &mut Files) -> anyhow::Result<Vec<OsString>> {
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
    /// image where calls are asked for.
    fn replaying(
        &self,
        of: StepId,
        is_under: bool,
        files: &mut Files,
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

    /// The file of a build's configuration: the case's fragment, or several of them one after the
    /// other.
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
        // Another run may be building with it.
        let path = self.cache.join(format!("{}.config", common.0));
        Output::new(&path)?.write(&all)?;
        Ok(path)
    }

    /// A kernel is compiled in a folder that all variants of one source and configuration share, so
    /// that what no patch touches is compiled once.
    fn build(
        &self,
        edit: Option<usize>,
        check: Option<usize>,
        files: &mut Files,
    ) -> anyhow::Result<Task> {
        let build = self.case.build.as_ref().context("no [build]")?;
        let common = self.plan.common_key(check, files)?;
        let in_cache = |ending: &str| self.cache.join(format!("{}.{ending}", common.0));
        let mut command = vec![
            files
                .build_script(build.script.as_deref())?
                .into_os_string(),
            files.source(&build.source)?.into(),
            self.config(check, &common, files)?.into(),
            in_cache("build").into(),
        ];
        for patch in self.plan.patches(edit) {
            command.push(files.base().join(files.find(patch)?).into());
        }
        Ok(Task {
            command,
            takes: Taken::Image,
            needs: "build".to_owned(),
            lock: Some(in_cache("lock")),
        })
    }
}

/// A run in a guest, recorded or as a check.
fn guest(run: &GuestRun<'_>, kernel: PathBuf, made: &Path, files: &Files) -> anyhow::Result<Task> {
    Ok(Task {
        command: guest_run::command(run, kernel, made, files)?,
        takes: match run.recorded {
            Some(_) => Taken::Made,
            None => Taken::Said,
        },
        needs: format!("{}M", parse_size(run.memory)? >> 20),
        lock: None,
    })
}

/// Where the workflow writes how long a step took.
pub(super) fn spent(work: &Path, key: &Key) -> PathBuf {
    work.join("spent").join(&key.0)
}

//! Which steps a case takes, what each is made of, and under which key its output is kept.
//!
//! A key is a hash of everything that the output depends on. A step whose output exists under its
//! key is done: resuming needs nothing else, and nothing remembers how far a run got.

mod order;
mod shares;

use linemate_files::Recipe;

use crate::case::{Case, CaseEdit, KernelSource, KernelTree, RunCount};

/// Changes when outputs that were kept under equal keys would be made in another way.
const FORMAT: &[u8] = b"linemate case 1";

/// How much of a case is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// What needs no kernel build: found and predicted.
    Quick,
    /// The same, also of a kernel that must be built; none with patches.
    Predicted,
    /// All: kernels are built, booted and recorded, too.
    Full,
}

impl Mode {
    /// Its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mode::Quick => "quick",
            Mode::Predicted => "predicted",
            Mode::Full => "full",
        }
    }
}

/// How recordings are replayed, where the case or the command line differs from the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaseReplay {
    /// With empty caches in the beginning.
    pub cold: bool,
    /// Which of the machines' mechanisms, by their keys in a description; none of them if empty.
    pub mechanisms: Option<Vec<String>>,
    /// Whether the CPUs that are replayed get only their share of each cache, in predictions.
    pub llc_share: Option<bool>,
    /// On how many CPUs, where that is not as many as were recorded.
    pub cpus: Option<usize>,
}

/// A step's number in its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId(pub usize);

/// The hash under which an output is kept: 32 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub String);

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// `linemate record` of the case's kernel, or of the one that another step built.
    Record {
        /// The step that built the kernel.
        kernel: Option<StepId>,
        /// Which run it is, from 0: what is added to the guest's seed.
        run: u16,
    },
    /// `linemate report --type`.
    Report {
        /// The step that recorded.
        of: StepId,
        type_name: String,
    },
    /// `linemate report --machine`.
    Costs {
        /// The step that recorded.
        of: StepId,
        type_name: String,
        machine: String,
    },
    /// `linemate whatif --edit` for one machine.
    WhatIf {
        /// The step that recorded.
        of: StepId,
        /// The edit's place in the case.
        edit: usize,
        machine: String,
    },
    /// `linemate whatif` with an edit's `measure` file on the kernel with its patches, for one
    /// machine: what the types cost there, over the same interleavings.
    Measure {
        /// The step that recorded.
        of: StepId,
        /// The edit's place in the case.
        edit: usize,
        machine: String,
    },
    /// `linemate report --under`: what share of all cycles a function has.
    Under {
        /// The step that recorded.
        of: StepId,
        function: String,
        machine: String,
    },
    /// `linemate whatif --under` for one machine: what share of all cycles a function has without
    /// and with an edit.
    WhatIfUnder {
        /// The step that recorded.
        of: StepId,
        /// The edit's place in the case.
        edit: usize,
        function: String,
        machine: String,
    },
    Build {
        /// The edit whose patches are applied; `None`: the same source and configuration without
        /// any.
        edit: Option<usize>,
        /// The check whose fragments are merged over the configuration.
        check: Option<usize>,
    },
    /// A check of a kernel with patches.
    Check {
        /// The step that built the kernel.
        kernel: StepId,
        /// The edit that the patches are of.
        edit: usize,
        /// The check's place in the case.
        check: usize,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseStep {
    /// What it is called in progress and errors.
    pub title: String,
    pub work: Work,
}

/// Something that an output depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ingredient {
    /// The kernel image of a series.
    Series(String),
    /// A file's content; the path as the case has it.
    File(String),
    /// What a patch changes; the path as the case has it.
    Patch(String),
    /// A machine's description, by name or file.
    Machine(String),
    /// A kernel's source tree.
    Source(KernelTree),
    /// The script that builds kernels; the checkout's own if the case names none.
    BuildScript(Option<String>),
    /// What analyses: the sources of the program that reports and replays.
    Analyser,
}

/// A run in a guest, as far as the case says it; its kernel comes from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestRun<'c> {
    pub cpus: u16,
    /// Memory, as `record --memory` takes it.
    pub memory: &'c str,
    /// The seed of the guest's randomness.
    pub seed: u32,
    /// The number of NUMA nodes.
    pub numa: u16,
    /// More words for the kernel's command line.
    pub append: &'c str,
    /// What is recorded; nothing for a check.
    pub recorded: Option<RecordedRun<'c>>,
    /// A script that runs before.
    pub setup: Option<&'c str>,
    /// Files to copy into the guest: `HOST[:GUEST]`.
    pub files: &'c [String],
    pub command: &'c [String],
}

/// What of a run is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedRun<'c> {
    pub user: bool,
    /// The function whose calls are counted.
    pub event: Option<&'c str>,
}

/// Returns the digest of an ingredient, or why there is none.
pub trait Digests {
    /// Why an ingredient is not to be had.
    type Error;

    /// The key of a run in a guest; `kernel` represents the kernel's bytes.
    ///
    /// # Errors
    /// What it needs is missing or cannot be read.
    fn run(&mut self, kernel: &str, run: &GuestRun<'_>) -> Result<Key, Self::Error>;

    /// A digest of the ingredient's content.
    ///
    /// # Errors
    /// It is missing or cannot be read.
    fn digest(&mut self, ingredient: &Ingredient) -> Result<String, Self::Error>;
}

/// The steps of a case, each after all that it uses.
#[derive(Clone, Debug)]
pub struct Plan<'c> {
    case: &'c Case,
    /// How often each kernel that is built is recorded.
    pub(crate) runs: u16,
    /// How recordings are replayed.
    pub(crate) replay: CaseReplay,
    pub steps: Vec<CaseStep>,
    /// The step that records the kernel that is examined.
    pub examined: StepId,
    /// The steps that record the kernel built without patches, run by run; empty where nothing is
    /// rebuilt.
    pub bases: Vec<StepId>,
}

impl<'c> Plan<'c> {
    /// The steps of a case; of one with [`RunCount::Until`], those of its first batch of runs
    /// ([`crate::more_runs`]). [`Mode::Quick`] does not examine a kernel that must be built.
    #[must_use]
    pub fn new(case: &'c Case, mode: Mode) -> Self {
        Self::with_runs(case, mode, case.guest.runs.first())
    }

    /// The same with that many runs of each kernel that is built. Steps and keys of fewer runs are
    /// among those of more.
    #[must_use]
    pub fn with_runs(case: &'c Case, mode: Mode, runs: u16) -> Self {
        let mut plan = Plan {
            case,
            runs,
            replay: CaseReplay::default(),
            steps: Vec::new(),
            examined: StepId(0),
            bases: Vec::new(),
        };
        if case.kernel != KernelSource::Built {
            plan.examined = plan.record_examined();
            plan.examine();
        }
        let is_built = case.kernel == KernelSource::Built;
        match mode {
            Mode::Full if is_built || plan.has_patches() => {
                plan.build_base(runs);
                plan.rebuild();
            }
            Mode::Predicted if is_built => plan.build_base(1),
            Mode::Full | Mode::Predicted | Mode::Quick => {}
        }
        plan
    }

    /// The same steps, with recordings replayed otherwise.
    #[must_use]
    pub fn replayed(self, replay: CaseReplay) -> Self {
        Plan { replay, ..self }
    }

    fn has_patches(&self) -> bool {
        self.case.edits.iter().any(|edit| !edit.patches.is_empty())
    }

    fn add(&mut self, title: String, work: Work) -> StepId {
        self.steps.push(CaseStep { title, work });
        StepId(self.steps.len() - 1)
    }

    fn record_examined(&mut self) -> StepId {
        let (KernelSource::Series(name) | KernelSource::Image(name)) = &self.case.kernel else {
            return self.examined;
        };
        let title = format!("record the unmodified kernel {name}");
        let (kernel, run) = (None, 0);
        self.add(title, Work::Record { kernel, run })
    }

    /// What needs no build but that of the kernel that is examined.
    fn examine(&mut self) {
        let of = self.examined;
        for type_name in &self.case.types {
            let title = format!("report on {type_name}");
            let type_name = type_name.clone();
            self.add(title, Work::Report { of, type_name });
        }
        for type_name in &self.case.types {
            for machine in self.case.machines.iter().take(1) {
                let title = format!("find what {type_name} costs on {machine}");
                let work = Work::Costs {
                    of,
                    type_name: type_name.clone(),
                    machine: machine.clone(),
                };
                self.add(title, work);
            }
        }
        for edit in 0..self.case.edits.len() {
            self.predict(of, edit, "");
        }
        self.find_shares();
    }

    fn predict(&mut self, of: StepId, edit: usize, kernel: &str) {
        let Some(CaseEdit { name, .. }) = self.case.edits.get(edit) else {
            return;
        };
        for machine in &self.case.machines {
            let title = format!("predict {name} on {machine}{kernel}");
            let machine = machine.clone();
            self.add(title, Work::WhatIf { of, edit, machine });
        }
    }

    /// The kernel without patches: the prediction that a rebuilt kernel is held against is made on
    /// one that differs in nothing but the patches.
    fn build_base(&mut self, runs: u16) {
        let title = "build the kernel without patches".to_owned();
        let (edit, check) = (None, None);
        let kernel = self.add(title, Work::Build { edit, check });
        self.bases = self.record(kernel, runs, "record the kernel built without patches");
        if self.case.kernel == KernelSource::Built {
            self.examined = self.bases.first().copied().unwrap_or(kernel);
            self.examine();
        }
    }

    /// The kernels with patches.
    fn rebuild(&mut self) {
        let case = self.case;
        for (edit, described) in case.edits.iter().enumerate() {
            if described.patches.is_empty() {
                continue;
            }
            for (run, of) in self.bases.clone().into_iter().enumerate() {
                // Where the examined kernel is the built one, its predictions are steps already.
                if of != self.examined {
                    let seed = self.seed_named(run);
                    self.predict(of, edit, &format!(", kernel built without patches{seed}"));
                }
            }
            self.rebuild_with(edit, &described.name);
        }
    }

    /// A kernel with an edit's patches: built, checked, recorded, measured; built again for checks
    /// that want another configuration.
    fn rebuild_with(&mut self, edit: usize, name: &str) {
        let case = self.case;
        let (this, no_check) = (Some(edit), None);
        let title = format!("build the kernel with {name}");
        let kernel = self.add(
            title,
            Work::Build {
                edit: this,
                check: no_check,
            },
        );
        let title = format!("boot and record the kernel with {name}");
        let records = self.record(kernel, self.runs, &title);
        self.compare_shares(edit, &records);
        for (run, of) in records.into_iter().enumerate() {
            for machine in &case.machines {
                let title = format!("measure {name} on {machine}{}", self.seed_named(run));
                let machine = machine.clone();
                self.add(title, Work::Measure { of, edit, machine });
            }
        }
        for (number, check) in case.checks.iter().enumerate() {
            let mut checked = kernel;
            if !check.config.is_empty() {
                let title = format!("build the kernel with {name} for {}", check.name);
                let check = Some(number);
                checked = self.add(title, Work::Build { edit: this, check });
            }
            let work = Work::Check {
                kernel: checked,
                edit,
                check: number,
            };
            self.add(
                format!("check the kernel with {name}: {}", check.name),
                work,
            );
        }
    }

    /// Runs of a kernel that was built.
    fn record(&mut self, kernel: StepId, runs: u16, title: &str) -> Vec<StepId> {
        let record = |run| {
            let title = format!("{title}{}", self.seed_named(usize::from(run)));
            let kernel = Some(kernel);
            self.add(title, Work::Record { kernel, run })
        };
        (0..runs).map(record).collect()
    }

    /// A run's name among others.
    fn seed_named(&self, run: usize) -> String {
        if self.case.guest.runs == RunCount::Fixed(1) {
            return String::new();
        }
        format!(", seed {}", self.seed(u16::try_from(run).unwrap_or(0)))
    }

    /// Which run a recording step is.
    #[must_use]
    pub fn run(&self, id: StepId) -> Option<usize> {
        match self.steps.get(id.0)?.work {
            Work::Record { run, .. } => Some(usize::from(run)),
            _ => None,
        }
    }

    /// The seed of a run.
    #[must_use]
    pub fn seed(&self, run: u16) -> u32 {
        self.case.guest.seed.wrapping_add(u32::from(run))
    }

    /// The key of a step; `keys` are those of the steps before it.
    ///
    /// # Errors
    /// What the step is made of is not to be had.
    pub fn key<D: Digests>(
        &self,
        step: &CaseStep,
        keys: &[Key],
        digests: &mut D,
    ) -> Result<Key, D::Error> {
        let mut recipe = Words::new();
        let key_of = |id: &StepId| keys.get(id.0).map_or("", |key| key.0.as_str());
        let uses = |recipe: &mut Words, id: &StepId| recipe.word(key_of(id));
        match &step.work {
            Work::Record { kernel, run } => {
                let kernel = match (kernel, &self.case.kernel) {
                    (Some(id), _) => key_of(id).to_owned(),
                    (None, KernelSource::Series(series)) => {
                        digests.digest(&Ingredient::Series(series.clone()))?
                    }
                    (None, KernelSource::Image(image)) => {
                        digests.digest(&Ingredient::File(image.clone()))?
                    }
                    (None, KernelSource::Built) => String::new(),
                };
                return digests.run(&kernel, &self.recording(*run));
            }
            Work::Report { of, type_name } => {
                recipe.word("report");
                uses(&mut recipe, of);
                recipe.word(type_name);
                recipe.word(&digests.digest(&Ingredient::Analyser)?);
            }
            Work::Costs {
                of,
                type_name,
                machine,
            } => {
                recipe.word("costs");
                uses(&mut recipe, of);
                recipe.word(type_name);
                recipe.word(&digests.digest(&Ingredient::Machine(machine.clone()))?);
                self.replaying(&mut recipe);
                recipe.word(&digests.digest(&Ingredient::Analyser)?);
            }
            Work::Under {
                of,
                function,
                machine,
            } => {
                recipe.word("under");
                uses(&mut recipe, of);
                recipe.word(function);
                recipe.word(&digests.digest(&Ingredient::Machine(machine.clone()))?);
                if self.llc_share() {
                    recipe.word("share of the LLC");
                }
                self.replaying(&mut recipe);
                recipe.word(&digests.digest(&Ingredient::Analyser)?);
            }
            Work::WhatIf { of, machine, .. }
            | Work::Measure { of, machine, .. }
            | Work::WhatIfUnder { of, machine, .. } => {
                match &step.work {
                    Work::WhatIfUnder { function, .. } => {
                        recipe.word("whatif under");
                        recipe.word(function);
                    }
                    // A measurement is the same command as a prediction: equal inputs, equal bytes.
                    _ => recipe.word("whatif"),
                }
                uses(&mut recipe, of);
                let file = self.edit_file(&step.work).unwrap_or_default().to_owned();
                recipe.word(&digests.digest(&Ingredient::File(file))?);
                recipe.word(&digests.digest(&Ingredient::Machine(machine.clone()))?);
                if self.llc_share() {
                    recipe.word("share of the LLC");
                }
                self.replaying(&mut recipe);
                self.event(&mut recipe);
                recipe.word(&digests.digest(&Ingredient::Analyser)?);
            }
            Work::Build { edit, check } => {
                let patches = self.patches(*edit);
                return self.build_key(*check, patches, digests);
            }
            Work::Check { kernel, check, .. } => {
                if let Some(run) = self.check(*check) {
                    return digests.run(key_of(kernel), &run);
                }
            }
        }
        Ok(recipe.key())
    }

    /// The key of what builds of one source and configuration have in common.
    ///
    /// # Errors
    /// As [`Plan::key`].
    pub fn common_key<D: Digests>(
        &self,
        check: Option<usize>,
        digests: &mut D,
    ) -> Result<Key, D::Error> {
        self.build_key(check, &[], digests)
    }

    /// A run of the case's workload; `run` counts from 0.
    #[must_use]
    pub fn recording(&self, run: u16) -> GuestRun<'c> {
        let case = self.case;
        GuestRun {
            cpus: case.guest.cpus,
            memory: &case.guest.memory,
            seed: self.seed(run),
            numa: case.guest.numa,
            append: &case.guest.append,
            recorded: Some(RecordedRun {
                user: case.guest.user,
                event: case.event.as_ref().map(|event| &*event.function),
            }),
            setup: case.workload.setup.as_deref(),
            files: &case.workload.files,
            command: &case.workload.command,
        }
    }

    /// The run of a check.
    #[must_use]
    pub fn check(&self, check: usize) -> Option<GuestRun<'c>> {
        let case = self.case;
        let check = case.checks.get(check)?;
        Some(GuestRun {
            cpus: case.guest.cpus,
            memory: check.memory.as_ref().unwrap_or(&case.guest.memory),
            seed: self.seed(0),
            numa: case.guest.numa,
            append: &case.guest.append,
            recorded: None,
            setup: None,
            files: &check.files,
            command: &check.command,
        })
    }

    /// How recordings are replayed, where the case or the command line differs from the default.
    #[must_use]
    pub fn replay(&self) -> &CaseReplay {
        &self.replay
    }

    /// Whether the CPUs that are replayed get only their share of each cache, in predictions.
    #[must_use]
    pub fn llc_share(&self) -> bool {
        self.replay.llc_share.unwrap_or(self.case.llc_share)
    }

    fn replaying(&self, recipe: &mut Words) {
        if self.replay.cold {
            recipe.word("cold");
        }
        if let Some(mechanisms) = &self.replay.mechanisms {
            recipe.word("mechanisms");
            recipe.word(&mechanisms.join(","));
        }
        if let Some(cpus) = self.replay.cpus {
            recipe.word("cpus");
            recipe.word(&cpus.to_string());
        }
    }

    fn event(&self, recipe: &mut Words) {
        if let Some(event) = &self.case.event {
            recipe.word("event");
            recipe.word(&event.function);
        }
    }

    fn build_key<D: Digests>(
        &self,
        check: Option<usize>,
        patches: &[String],
        digests: &mut D,
    ) -> Result<Key, D::Error> {
        let mut recipe = Words::new();
        recipe.word("build");
        if let Some(build) = &self.case.build {
            recipe.word(&digests.digest(&Ingredient::BuildScript(build.script.clone()))?);
            recipe.word(&digests.digest(&Ingredient::Source(build.source.clone()))?);
            for fragment in self.config(check) {
                recipe.word(&digests.digest(&Ingredient::File(fragment.clone()))?);
            }
            // Ends the list of fragments: the same digests divided otherwise are another kernel.
            recipe.word("patches");
            for patch in patches {
                recipe.word(&digests.digest(&Ingredient::Patch(patch.clone()))?);
            }
        }
        Ok(recipe.key())
    }

    /// The fragments of a build's configuration, those of a check over the case's.
    pub fn config(&self, check: Option<usize>) -> impl Iterator<Item = &'c String> {
        let case = self.case;
        let own = case.build.iter().flat_map(|build| &build.config);
        let check = check.and_then(|check| case.checks.get(check));
        own.chain(check.into_iter().flat_map(|check| &check.config))
    }

    /// The file of edits of a prediction or a measurement.
    #[must_use]
    pub fn edit_file(&self, work: &Work) -> Option<&'c str> {
        match work {
            Work::WhatIf { edit, .. } | Work::WhatIfUnder { edit, .. } => {
                Some(self.case.edits.get(*edit)?.file.as_str())
            }
            Work::Measure { edit, .. } => self.case.edits.get(*edit)?.measure.as_deref(),
            _ => None,
        }
    }

    /// The patches of an edit.
    #[must_use]
    pub fn patches(&self, edit: Option<usize>) -> &'c [String] {
        edit.and_then(|edit| self.case.edits.get(edit))
            .map_or(&[], |edit| &edit.patches)
    }
}

/// The recipe of a step's key, made of words.
struct Words(Recipe);

impl Words {
    fn new() -> Self {
        Words(Recipe::new(FORMAT))
    }

    fn word(&mut self, word: &str) {
        self.0.part(word.as_bytes());
    }

    fn key(self) -> Key {
        Key(self.0.key())
    }
}

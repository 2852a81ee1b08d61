//! Which steps a case takes, what each is made of, and under which key its output is kept.
//!
//! A key is a hash of everything that the output depends on. A step whose output is there under its key is done: that is all that
//! resuming consists of, and why nothing has to remember how far a run got.

use sha2::{Digest as _, Sha256};

use crate::case::{Case, CaseEdit, KernelSource, Source};

/// Changes when outputs that were kept under equal keys would be made in another way.
const FORMAT: &str = "linemate case 1";

/// How much of a case is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// What needs no kernel build: found and predicted.
    Quick,
    /// All: kernels are built, booted and recorded, too.
    Full,
}

impl Mode {
    /// Its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mode::Quick => "quick",
            Mode::Full => "full",
        }
    }
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
    },
    /// `linemate report --type`.
    Report {
        /// The step that recorded.
        of: StepId,
        /// The type.
        type_name: String,
    },
    /// `linemate report --machine`.
    Costs {
        /// The step that recorded.
        of: StepId,
        /// The type.
        type_name: String,
        /// The machine.
        machine: String,
    },
    /// `linemate whatif --edit` for one machine.
    WhatIf {
        /// The step that recorded.
        of: StepId,
        /// The edit's place in the case.
        edit: usize,
        /// The machine.
        machine: String,
    },
    /// `linemate whatif` with an edit's `measure` file on the kernel with its patches, for one machine: what the types cost there, over
    /// the same interleavings.
    Measure {
        /// The step that recorded.
        of: StepId,
        /// The edit's place in the case.
        edit: usize,
        /// The machine.
        machine: String,
    },
    /// A kernel build.
    Build {
        /// The edit whose patches are applied; `None`: the same source and configuration without any.
        edit: Option<usize>,
    },
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it is called in progress and errors.
    pub title: String,
    /// What it does.
    pub work: Work,
}

/// Something that an output depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ingredient {
    /// The kernel image of a series.
    Series(String),
    /// A file's content; the path as the case has it.
    File(String),
    /// The content of the program that a command starts.
    Program(String),
    /// A machine's description, by name or file.
    Machine(String),
    /// A kernel's source tree.
    Source(Source),
    /// The script that builds kernels; the checkout's own if the case names none.
    BuildScript(Option<String>),
    /// What records: QEMU and the recorder.
    Recorder,
    /// What analyses: this program.
    Analyser,
}

/// Tells the digest of an ingredient, or why there is none.
pub trait Digests {
    /// Why an ingredient is not to be had.
    type Error;

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
    /// The steps.
    pub steps: Vec<Step>,
}

impl<'c> Plan<'c> {
    /// The steps that a case takes.
    #[must_use]
    pub fn new(case: &'c Case, mode: Mode) -> Self {
        let mut plan = Plan {
            case,
            steps: Vec::new(),
        };
        plan.examine();
        if mode == Mode::Full && case.edits.iter().any(|edit| !edit.patches.is_empty()) {
            plan.rebuild();
        }
        plan
    }

    fn add(&mut self, title: String, work: Work) -> StepId {
        self.steps.push(Step { title, work });
        StepId(self.steps.len() - 1)
    }

    /// What needs no build.
    fn examine(&mut self) {
        let title = match &self.case.kernel {
            KernelSource::Series(series) => format!("record the unmodified kernel {series}"),
            KernelSource::Image(image) => format!("record the unmodified kernel {image}"),
        };
        let of = self.add(title, Work::Record { kernel: None });
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

    /// What builds kernels: the prediction that a rebuilt kernel is held against is made on one that differs in nothing but the patches.
    fn rebuild(&mut self) {
        let title = "build the kernel without patches".to_owned();
        let kernel = Some(self.add(title, Work::Build { edit: None }));
        let title = "record the kernel built without patches".to_owned();
        let base = self.add(title, Work::Record { kernel });
        for (edit, described) in self.case.edits.iter().enumerate() {
            if described.patches.is_empty() {
                continue;
            }
            self.predict(base, edit, ", kernel built without patches");
            let name = &described.name;
            let title = format!("build the kernel with {name}");
            let kernel = Some(self.add(title, Work::Build { edit: Some(edit) }));
            let title = format!("boot and record the kernel with {name}");
            let of = self.add(title, Work::Record { kernel });
            for machine in &self.case.machines {
                let title = format!("measure {name} on {machine}");
                let machine = machine.clone();
                self.add(title, Work::Measure { of, edit, machine });
            }
        }
    }

    /// The key of a step; `keys` are those of the steps before it.
    ///
    /// # Errors
    /// What the step is made of is not to be had.
    pub fn key<D: Digests>(
        &self,
        step: &Step,
        keys: &[Key],
        digests: &mut D,
    ) -> Result<Key, D::Error> {
        let mut recipe = Recipe::new();
        let uses = |recipe: &mut Recipe, id: &StepId| {
            recipe.word(keys.get(id.0).map_or("", |key| key.0.as_str()));
        };
        match &step.work {
            Work::Record { kernel } => {
                recipe.word("record");
                match (kernel, &self.case.kernel) {
                    (Some(id), _) => uses(&mut recipe, id),
                    (None, KernelSource::Series(series)) => {
                        recipe.word(&digests.digest(&Ingredient::Series(series.clone()))?);
                    }
                    (None, KernelSource::Image(image)) => {
                        recipe.word(&digests.digest(&Ingredient::File(image.clone()))?);
                    }
                }
                self.run(&mut recipe, digests)?;
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
                recipe.word(&digests.digest(&Ingredient::Analyser)?);
            }
            Work::WhatIf { of, machine, .. } | Work::Measure { of, machine, .. } => {
                recipe.word("whatif");
                uses(&mut recipe, of);
                let file = self.edit_file(&step.work).unwrap_or_default().to_owned();
                recipe.word(&digests.digest(&Ingredient::File(file))?);
                recipe.word(&digests.digest(&Ingredient::Machine(machine.clone()))?);
                recipe.word(&digests.digest(&Ingredient::Analyser)?);
            }
            Work::Build { edit } => self.build(*edit, &mut recipe, digests)?,
        }
        Ok(recipe.key())
    }

    /// What a run depends on beside its kernel.
    fn run<D: Digests>(&self, recipe: &mut Recipe, digests: &mut D) -> Result<(), D::Error> {
        let (guest, workload) = (&self.case.guest, &self.case.workload);
        recipe.word(&guest.cpus.to_string());
        recipe.word(&guest.memory);
        recipe.word(&guest.seed.to_string());
        recipe.word(&guest.numa.to_string());
        recipe.word(&guest.append);
        recipe.word("set-up");
        if let Some(setup) = &workload.setup {
            recipe.word(&digests.digest(&Ingredient::File(setup.clone()))?);
        }
        recipe.word("files");
        for file in &workload.files {
            recipe.word(file);
            recipe.word(&digests.digest(&Ingredient::File(host_part(file).to_owned()))?);
        }
        recipe.word("command");
        for word in &workload.command {
            recipe.word(word);
        }
        if let Some(program) = workload.command.first() {
            recipe.word(&digests.digest(&Ingredient::Program(program.clone()))?);
        }
        recipe.word(&digests.digest(&Ingredient::Recorder)?);
        Ok(())
    }

    fn build<D: Digests>(
        &self,
        edit: Option<usize>,
        recipe: &mut Recipe,
        digests: &mut D,
    ) -> Result<(), D::Error> {
        recipe.word("build");
        let Some(build) = &self.case.build else {
            return Ok(());
        };
        recipe.word(&digests.digest(&Ingredient::BuildScript(build.script.clone()))?);
        recipe.word(&digests.digest(&Ingredient::Source(build.source.clone()))?);
        recipe.word(&digests.digest(&Ingredient::File(build.config.clone()))?);
        for patch in self.patches(edit) {
            recipe.word(&digests.digest(&Ingredient::File(patch.clone()))?);
        }
        Ok(())
    }

    /// The file of edits of a prediction or a measurement.
    #[must_use]
    pub fn edit_file(&self, work: &Work) -> Option<&'c str> {
        match work {
            Work::WhatIf { edit, .. } => Some(self.case.edits.get(*edit)?.file.as_str()),
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

/// The part of `HOST[:GUEST]` that is a path here.
fn host_part(file: &str) -> &str {
    file.split_once(':').map_or(file, |(host, _)| host)
}

/// A hash over words that cannot run into each other.
struct Recipe(Sha256);

impl Recipe {
    fn new() -> Self {
        let mut recipe = Recipe(Sha256::new());
        recipe.word(FORMAT);
        recipe
    }

    fn word(&mut self, word: &str) {
        self.0.update((word.len() as u64).to_le_bytes());
        self.0.update(word.as_bytes());
    }

    fn key(self) -> Key {
        let digest = self.0.finalize();
        Key(digest.iter().take(16).map(|b| format!("{b:02x}")).collect())
    }
}

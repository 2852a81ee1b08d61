//! A case that passed its checks.

/// A reproducible experiment. Paths are as written: the verb that carries a case out says where
/// they lead.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Its name; the folder's, by convention.
    pub name: String,
    /// What it is about, in a sentence.
    pub summary: String,
    /// The kernel that is examined, unmodified.
    pub kernel: KernelSource,
    pub guest: Guest,
    /// What runs in it.
    pub workload: Workload,
    /// The unit of its work, by which costs are divided.
    pub event: Option<CaseEvent>,
    /// The types that are looked at; never empty.
    pub types: Vec<String>,
    /// The machines to predict for; never empty.
    pub machines: Vec<String>,
    /// Whether the CPUs that are replayed get only their share of each last-level cache, as where
    /// all CPUs of a machine do the same.
    pub llc_share: bool,
    pub edits: Vec<CaseEdit>,
    /// How kernels are built for remedies that have patches.
    pub build: Option<Build>,
    /// What kernels with patches must pass.
    pub checks: Vec<Check>,
    /// Figures that somebody published.
    pub published: Vec<Published>,
}

/// Which kernel is booted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelSource {
    /// The image of a series that set-up provides, such as `6.12`.
    Series(String),
    Image(String),
    /// The one that is built without patches: for configurations that no distribution has.
    Built,
}

/// The guest's hardware, as `linemate record` takes it, and how often it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Guest {
    pub cpus: u16,
    /// Memory, as `record --memory` takes it (`1G`).
    pub memory: String,
    /// The seed of the guest's randomness; of the first run, where there are several.
    pub seed: u32,
    /// How often each kernel that is built is recorded, with seeds counting up.
    pub runs: RunCount,
    /// The number of NUMA nodes.
    pub numa: u16,
    /// More words for the kernel's command line.
    pub append: String,
    /// Whether accesses of programs are recorded as well as the kernel's.
    pub user: bool,
}

/// How often each kernel that is built is recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RunCount {
    Fixed(u16),
    /// Until the results are known well enough.
    Until(NarrowEnough),
}

/// When the recorded changes of a case are known well enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NarrowEnough {
    /// The 95 % interval of a recorded change, half its width in per cent of the cost without
    /// patches.
    pub percent: f64,
    /// The most runs of a kernel.
    pub at_most: u16,
}

/// What runs in the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// A script that runs before recording starts.
    pub setup: Option<String>,
    /// Files to copy into the guest, `HOST[:GUEST]`.
    pub files: Vec<String>,
    /// The command and its arguments; never empty.
    pub command: Vec<String>,
}

/// A unit of work: a call of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseEvent {
    pub function: String,
    /// What a call of it is, in tables: `enqueue`.
    pub name: String,
}

/// A remedy: an edit, and the patches that put it into a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseEdit {
    pub name: String,
    /// What it does, in a sentence; may be empty.
    pub title: String,
    /// The file of edits (docs/reference/edits.md).
    pub file: String,
    /// Patches of a kernel that does what the edit says, in their order; may be empty.
    pub patches: Vec<String>,
    /// Edits that name the same types and change nothing in the kernel with the patches: what they
    /// cost there is what is compared. Present if there are patches.
    pub measure: Option<String>,
}

/// How variants of a kernel are built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    pub source: KernelTree,
    /// Fragments of a configuration, a later one over those before; never empty.
    pub config: Vec<String>,
    /// The script that builds; the checkout's own if absent.
    pub script: Option<String>,
}

/// What each kernel with patches must pass: a command that is run in it unrecorded, and must
/// succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: String,
    /// Files to copy into the guest, `HOST[:GUEST]`.
    pub files: Vec<String>,
    /// The command and its arguments; never empty.
    pub command: Vec<String>,
    /// The guest's memory, if not that of the recordings.
    pub memory: Option<String>,
    /// Fragments over those of [`Build`]: the kernel is built again with them for this check.
    /// Empty: the kernel that is recorded is checked.
    pub config: Vec<String>,
}

/// A kernel's source tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KernelTree {
    /// Debian's package of that name (`linux-source-6.12`), unpacked.
    Package(String),
    Folder(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    pub key: String,
    /// The figure, with its unit.
    pub value: String,
    /// Where it was published and on what it was measured.
    pub source: String,
    /// Which of our figures is comparable, if one is.
    pub found: Option<FoundFigure>,
    /// Which predicted change is comparable, if one is.
    pub predicted: Option<PredictedOf>,
}

/// A figure of the unmodified kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundFigure {
    /// The share of a type's accesses that the group of a field has.
    GroupShare {
        type_name: String,
        /// A field of the group.
        field: String,
    },
    /// Loads for each store of the group of a field.
    GroupLoadsPerStore {
        type_name: String,
        /// A field of the group.
        field: String,
    },
    /// The lines that the group of a field is on.
    GroupLines {
        type_name: String,
        /// A field of the group.
        field: String,
    },
    /// The place of a field among those that cost most on the first machine, from 1.
    Rank { type_name: String, field: String },
    /// The average cycles of a load of the field that left its core, on the first machine.
    CyclesPerLoad { type_name: String, field: String },
    /// How far the order of a type's fields by cost on the first machine agrees with another order:
    /// Spearman's rank correlation.
    RankCorrelation {
        type_name: String,
        /// The fields in the other order, the most contended first; two at least.
        fields: Vec<String>,
    },
    /// The share of a type's cycles on the first machine that fields have together.
    CycleShare {
        type_name: String,
        fields: Vec<String>,
    },
    /// Loads for each store of fields together.
    LoadsPerStore {
        type_name: String,
        fields: Vec<String>,
    },
    /// How often a field was loaded, and how often stored.
    Accesses { type_name: String, field: String },
    /// The share of all cycles on the first machine while a function is on the stack.
    ShareUnder { function: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PredictedOf {
    pub edit: String,
    pub machine: String,
    /// The figure that is predicted.
    pub of: PredictedFigure,
}

/// Of what a change is predicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PredictedFigure {
    /// The cycles of the edited types.
    Types,
    /// The cycles of all that a function accesses.
    Function(String),
    /// The accesses of kernel code that missed the last-level cache.
    Misses,
    /// The loads among them.
    LoadMisses,
    /// The share of all cycles while a function is on the stack.
    ShareUnder(String),
}

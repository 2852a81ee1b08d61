//! Why a description is refused.

/// An impossible machine, or one that cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The text is not TOML, or a key is missing, unknown or of the wrong type.
    #[error("not a machine description: {0}")]
    Syntax(String),
    /// A name that is empty, too long or unprintable.
    #[error(
        "name: must be 1 to {} characters that can be printed",
        crate::machine::NAME_MAX
    )]
    Name,
    /// The name of another machine: results on one would pass for the other's.
    #[error("name = {0:?} is the name of another machine: give this one a name of its own")]
    NameTaken(String),
    /// A size that is neither a number of bytes nor "N KiB" or "N MiB".
    #[error("{key}: cannot read the size {value:?} (write bytes, \"48 KiB\" or \"2 MiB\")")]
    Size { key: &'static str, value: String },
    /// A number that must be at least one is zero.
    #[error("{0} is zero")]
    Zero(&'static str),
    /// A number is beyond what a replay can represent.
    #[error("{key} is {value}: must be at most {limit}")]
    TooLarge {
        /// Which key or product.
        key: &'static str,
        value: u64,
        /// The most it can be.
        limit: u64,
    },
    /// A number is too small to be meaningful.
    #[error("{key} is {value}: must be at least {least}")]
    TooSmall {
        key: &'static str,
        value: u64,
        /// The least it can be.
        least: u64,
    },
    /// `cpus` is not the product of the topology's numbers.
    #[error(
        "cpus is {said}, but sockets x llc_domains_per_socket x cores_per_llc_domain x \
         threads_per_core is {product}"
    )]
    CpuCount {
        /// The value of `cpus`.
        said: u64,
        /// The product of the topology's numbers.
        product: u64,
    },
    /// A line is 64 or 128 bytes.
    #[error("line_bytes is {0}; only 64 and 128 are known")]
    LineBytes(u64),
    /// A cache's size is not a whole number of sets.
    #[error("{cache}: {bytes} bytes do not divide into {divisor} (slices x ways x line_bytes)")]
    Indivisible {
        cache: &'static str,
        bytes: u64,
        /// The divisor of the size.
        divisor: u64,
    },
    /// An address selects a set by its bits, so the number of sets must be a power of two.
    #[error("{cache}: {sets} sets (per slice) is not a power of two")]
    Sets {
        cache: &'static str,
        /// How many sets it would have.
        sets: u64,
    },
    /// Plain indexing has no slices.
    #[error("llc: index = \"plain\" needs slices = 1, not {0}; write index = \"hashed\"")]
    PlainSlices(u64),
    /// A latency that this topology needs is missing.
    #[error("latency_cycles.{key} is missing; a machine with {because} needs it")]
    LatencyMissing {
        key: &'static str,
        /// Why it is needed.
        because: &'static str,
    },
    /// A farther place answers sooner than a nearer one.
    #[error(
        "latency_cycles.{near} is {near_cycles}, which must be {relation} {far} ({far_cycles})"
    )]
    LatencyOrder {
        /// The nearer place.
        near: &'static str,
        near_cycles: u32,
        /// "less than" or "at most".
        relation: &'static str,
        /// The farther place.
        far: &'static str,
        far_cycles: u32,
    },
    /// No shipped machine has this name.
    #[error(
        "no machine is called {name:?}{}; known: {known}",
        linemate_text::suggestion(nearest)
    )]
    Unknown {
        /// The name that was given.
        name: String,
        /// The most similar names.
        nearest: Vec<String>,
        known: String,
    },
    /// A file of the sysfs tree is missing.
    #[error("{0} is missing from the sysfs tree")]
    SysfsMissing(String),
    /// A file of the sysfs tree has unexpected contents.
    #[error("{path} in the sysfs tree says {value:?}, expected {expected}")]
    SysfsValue {
        path: String,
        value: String,
        /// The contents that were expected.
        expected: &'static str,
    },
    /// The tree lists no such cache.
    #[error(
        "the sysfs tree lists no {0} cache for CPU {1} (virtual machines may hide it); describe the machine in a file"
    )]
    SysfsCache(&'static str, u16),
    /// CPUs of different kinds.
    #[error(
        "CPU {cpu} has a different {cache} cache from CPU {first}; mixed cores cannot be replayed"
    )]
    Mixed {
        first: u16,
        /// The CPU that differs.
        cpu: u16,
        cache: &'static str,
    },
}

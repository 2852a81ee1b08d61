//! How the lines of a type map to cache sets.

use serde::{Deserialize, Serialize};

/// How a type's lines map to the cache sets of a CPU that accesses them. Each cache is considered
/// whole, also with `--llc-share`. Only recorded CPUs: clones' lines map alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TypeSets {
    /// The recorded CPU that accesses most different lines; of several the first.
    pub cpu: usize,
    /// How many recorded CPUs access any.
    pub cpus: usize,
    /// The sets of the core's L1.
    pub l1: CacheSets,
    /// The sets of the core's L2.
    pub l2: CacheSets,
    /// The last-level cache of the core's domain, by the replay's hash.
    pub llc: CacheSets,
}

/// A cache, and how lines of a type map to its sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CacheSets {
    /// The cache's sets; for a last-level cache, those of all slices.
    pub sets: u64,
    /// The ways of a set.
    pub ways: u64,
    /// The lines of `cpu`.
    pub most: SetCounts,
    /// The mean of all `cpus`.
    pub mean: SetMeans,
}

/// The sets of a type before and after edits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SetsChange {
    /// The type's name, as `--type` takes it.
    pub name: String,
    /// Without the edits; null if nothing of it is accessed.
    pub without: Option<TypeSets>,
    /// With the edits, likewise.
    pub with: Option<TypeSets>,
}

/// How lines map to a cache's sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SetCounts {
    /// The number of different lines.
    pub lines: u64,
    /// Sets that at least one of them falls into.
    pub reached: u64,
    /// Lines in the set with the most.
    pub fullest: u64,
    /// Lines for which their set has no way, over all sets.
    pub beyond: u64,
}

/// The same as means over CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SetMeans {
    /// The number of different lines.
    pub lines: f64,
    /// Sets that at least one of them falls into.
    pub reached: f64,
    /// Lines in the set with the most.
    pub fullest: f64,
    /// Lines for which their set has no way, over all sets.
    pub beyond: f64,
}

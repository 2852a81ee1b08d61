//! What `linemate machines` writes: the contents of machine descriptions.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The contents of machine descriptions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MachinesDocument {
    /// The schema's name and version.
    pub schema: Cow<'static, str>,
    /// In the order of the arguments; without arguments the known ones by name, then `this`.
    pub machines: Vec<MachineEntry>,
    /// Why `this` is not among them; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub this_is_missing: Option<String>,
}

impl MachinesDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.machines/1";
}

/// A machine that can be replayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MachineEntry {
    /// The machine's name, as its description has it.
    pub name: String,
    /// What it is, in words.
    pub title: String,
    /// Hardware threads of the whole machine.
    pub cpus: usize,
    /// Cores of the whole machine.
    pub cores: usize,
    /// Groups of cores that share a last-level cache.
    pub llc_domains: usize,
    /// The number of sockets.
    pub sockets: usize,
    /// Bytes of a line, 64 or 128.
    pub line_bytes: u64,
    /// Whether a miss also fetches the other line of its pair.
    pub adjacent_line_pairs: bool,
    /// Turns cycles into time.
    pub frequency_mhz: u32,
    /// Each core's first cache.
    pub l1: CacheSize,
    /// Each core's second cache.
    pub l2: CacheSize,
    /// Each domain's last-level cache.
    pub llc: CacheSize,
    /// The slices of that cache.
    pub llc_slices: u32,
    /// Latencies. A distance that the machine does not have has the value of the next nearer one.
    pub latency_cycles: LatencyCycles,
    /// Null if the machine has none.
    pub l2_streamer: Option<StreamerEntry>,
    /// Null if the machine has none.
    pub l1_stride: Option<StrideEntry>,
    /// Null if misses do not overlap.
    pub overlap: Option<OverlapEntry>,
}

/// The size of one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CacheSize {
    /// The cache's whole size in bytes.
    pub bytes: u64,
    /// The ways of a set.
    pub ways: u32,
}

/// Cycles of an access by where it is served from (docs/model/replay.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LatencyCycles {
    /// The core's first cache.
    pub l1: u32,
    /// The core's second cache.
    pub l2: u32,
    /// The domain's last-level cache.
    pub llc: u32,
    /// Another core of the domain, which has modified the line.
    pub hitm_same_domain: u32,
    /// Likewise, of another domain of the socket.
    pub hitm_same_socket: u32,
    /// Likewise, of another socket.
    pub hitm_other_socket: u32,
    /// Memory of the CPU's own socket.
    pub dram_local: u32,
    /// Memory of another socket.
    pub dram_remote: u32,
    /// The additional cost of an atomic read-modify-write.
    pub atomic: u32,
    /// How long a line is busy with a request.
    pub serve: u32,
}

/// The prefetcher that follows streams of lines into L2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StreamerEntry {
    /// Pages tracked at a time.
    pub streams: u32,
    /// Requests in one direction before it fetches.
    pub train: u32,
    /// Lines fetched per request.
    pub per_request: u32,
    /// How many lines it runs ahead at most.
    pub ahead: u32,
    /// Fetches in flight at most.
    pub outstanding: u32,
}

/// The prefetcher that follows an instruction's stride into L1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StrideEntry {
    /// Instructions that it tracks.
    pub entries: u32,
    /// Loads at one stride before it fetches.
    pub train: u32,
    /// The longest stride that is followed, in bytes.
    pub reach_bytes: u32,
    /// Fetches in flight at most.
    pub outstanding: u32,
}

/// Misses that do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OverlapEntry {
    /// Instructions within which they overlap.
    pub window: u32,
    /// How many at a time.
    pub outstanding: u32,
}

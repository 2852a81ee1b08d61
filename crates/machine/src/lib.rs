//! Computers that a recording can be replayed on: which logical CPUs share which caches, how large and
//! how far away those are.
//!
//! A [`Machine`] comes from a TOML description ([`Machine::from_toml`]), from the ones that are shipped
//! ([`shipped()`]) or from the sysfs tree of a running Linux ([`Machine::from_sysfs`]). All three are checked
//! alike: a machine that cannot be is refused with the reason and the offending value.
//!
//! Not here: what happens in the caches (the replay crate), reading files (the caller hands in text).

mod description;
mod error;
mod machine;
mod mechanisms;
mod shipped;
mod sysfs;
mod whole;

pub use error::MachineError;
pub use linemate_units::LineSize;
pub use machine::{
    CPUS_MAX, CacheShape, CoreId, CpuPlace, Distance, DomainId, L1Stride, L2Streamer, Latencies,
    LlcIndex, LlcShape, LogicalCpu, Machine, Mechanism, Overlap, SocketId, Topology,
};
pub use shipped::{Shipped, described, find, shipped};

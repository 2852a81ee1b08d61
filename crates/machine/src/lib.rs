//! Computers that a recording can be replayed on: which logical CPUs share which caches, their
//! sizes and latencies.
//!
//! A [`Machine`] comes from a TOML description ([`Machine::from_toml`]), from a shipped one
//! ([`shipped()`]) or from the sysfs tree of a running Linux ([`Machine::from_sysfs`]). All pass
//! the same checks: an impossible machine is refused with the reason and the offending value.
//!
//! Not here: what happens in the caches (the replay crate), reading files (the caller passes text).

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
    LlcIndex, LlcShape, LogicalCpu, Machine, Mechanism, Overlap, SocketId, ThreadsPerCore,
    Topology,
};
pub use shipped::{Shipped, described, find, shipped};

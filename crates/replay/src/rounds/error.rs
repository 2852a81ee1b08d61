//! Why a replay is impossible.

use linemate_recording::CpuId;

use crate::rounds::placement::COPIES_MAX;

/// The maximum number of keys, and of sites: a placement with more is broken.
// At 300 bytes per key, 16 million take 5 GB; real questions have thousands.
pub(crate) const KEYS_MAX: u32 = 1 << 24;

/// Why a replay is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// An access by a CPU beyond the announced number.
    #[error("access by CPU {cpu}, but the recording is said to have {recorded} CPUs")]
    Cpu {
        /// The CPU that was not announced.
        cpu: CpuId,
        /// The announced number.
        recorded: usize,
    },
    /// More CPUs than the machine has.
    #[error("{wanted} CPUs ({recorded} recorded x {copies}) on {machine}, which has {cpus}")]
    TooManyCpus {
        /// Recorded CPUs times copies.
        wanted: usize,
        /// How many CPUs were recorded.
        recorded: usize,
        /// How many CPUs each of them represents.
        copies: u16,
        /// The name of the machine.
        machine: String,
        /// How many logical CPUs it has.
        cpus: usize,
    },
    /// No CPU, no copy, or too many copies.
    #[error(
        "{recorded} recorded CPUs x {copies} copies; both must be at least 1, copies at most {COPIES_MAX}"
    )]
    Copies {
        /// How many CPUs were recorded.
        recorded: usize,
        /// How many CPUs each of them represents.
        copies: u16,
    },
    /// The list of logical CPUs does not have one per CPU.
    #[error("{given} logical CPUs are given for {wanted} CPUs")]
    CpuMap {
        /// How many are given.
        given: usize,
        /// How many are needed.
        wanted: usize,
    },
    /// A logical CPU that the machine lacks, or that occurs twice.
    #[error("logical CPU {0} is not on the machine or given twice")]
    LogicalCpu(u16),
    /// An access touches 1 to 64 bytes.
    #[error("access of {size} bytes at {addr:#x}; 1 to 64 are possible")]
    Size {
        /// Where the access starts.
        addr: u64,
        /// Its size in bytes, as recorded.
        size: u8,
    },
    /// A key or site beyond any sensible number.
    #[error("key or site {0} is beyond {KEYS_MAX}: they must be dense from 0")]
    Key(u32),
    /// A timeline of other accesses than those passed to a partial replay.
    #[error("the timeline belongs to another replay")]
    Timeline,
    /// Misses of other accesses than those passed ([`crate::MissReader`]).
    #[error("the list of misses belongs to another replay")]
    Misses,
    /// A tie ([`Item::tie`](crate::Item::tie)) beyond any that is given.
    #[error("tie {0} of an access: {max} is the largest", max = crate::cache::stamp::TIE_MAX)]
    Tie(u16),
}

//! Why a replay cannot be.

use linemate_recording::CpuId;

use crate::rounds::placement::COPIES_MAX;

/// The most keys, and the most sites: a placement that makes more has gone wrong.
// At 300 bytes a key, 16 million take 5 GB; real questions have thousands.
pub(crate) const KEYS_MAX: u32 = 1 << 24;

/// Why a replay cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// An access by a CPU beyond those announced.
    #[error("access by CPU {cpu}, but the recording is said to have {recorded} CPUs")]
    Cpu {
        /// The CPU that was not announced.
        cpu: CpuId,
        /// How many there should be.
        recorded: usize,
    },
    /// More CPUs than the machine has.
    #[error("{wanted} CPUs ({recorded} recorded x {copies}) on {machine}, which has {cpus}")]
    TooManyCpus {
        /// Recorded CPUs times copies.
        wanted: usize,
        /// How many CPUs were recorded.
        recorded: usize,
        /// How many CPUs each of them stands for.
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
        /// How many CPUs each of them stands for.
        copies: u16,
    },
    /// The list of logical CPUs does not have one for each CPU.
    #[error("{given} logical CPUs are given for {wanted} CPUs")]
    CpuMap {
        /// How many are given.
        given: usize,
        /// How many are needed.
        wanted: usize,
    },
    /// A logical CPU that the machine lacks, or that is given twice.
    #[error("logical CPU {0} is not on the machine or given twice")]
    LogicalCpu(u16),
    /// An access touches 1 to 64 bytes.
    #[error("access of {size} bytes at {addr:#x}; 1 to 64 are possible")]
    Size {
        /// Where the access begins.
        addr: u64,
        /// Its size in bytes, as recorded.
        size: u8,
    },
    /// A key or site beyond any sensible number.
    #[error("key or site {0} is beyond {KEYS_MAX}: they must be dense from 0")]
    Key(u32),
    /// A timeline is of other accesses than those that a partial replay was given.
    #[error("the timeline belongs to another replay")]
    Timeline,
}

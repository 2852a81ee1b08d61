//! What waits for a round's end, and the CPUs it belongs to.

use linemate_machine::{CpuPlace, LogicalCpu, Machine};
use linemate_recording::AccessKind;

use crate::cache::address::Span;
use crate::rounds::error::ReplayError;
use crate::rounds::filter::Later;
use crate::rounds::placement::{COPIES_MAX, Sharing};

/// A placed access, waiting for its round.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) span: Span,
    pub(crate) pc: u64,
    /// Instructions since its slice's start.
    pub(crate) offset: u32,
    pub(crate) key: u32,
    pub(crate) site: u32,
    pub(crate) kind: AccessKind,
    pub(crate) sharing: Sharing,
    pub(crate) later: Later,
    /// As [`Item::tie`](crate::Item::tie).
    pub(crate) tie: u16,
}

/// One CPU of the replayed machine.
#[derive(Clone, Copy)]
pub(crate) struct Cpu {
    pub(crate) logical: LogicalCpu,
    pub(crate) place: CpuPlace,
}

/// Where that many copies of each recorded CPU sit on the machine: at the given places, else spread
/// evenly.
pub(crate) fn places(
    machine: &Machine,
    recorded: usize,
    copies: u16,
    given: Option<&[LogicalCpu]>,
) -> Result<Vec<Cpu>, ReplayError> {
    if recorded == 0 || copies == 0 || copies > COPIES_MAX {
        return Err(ReplayError::Copies { recorded, copies });
    }
    let wanted = recorded.saturating_mul(usize::from(copies));
    let available = machine.topology.cpus();
    let too_many = || ReplayError::TooManyCpus {
        wanted,
        recorded,
        copies,
        machine: machine.name.clone(),
        cpus: available,
    };
    // Also if the CPUs are given: it checks that the machine has enough.
    let spread = machine.topology.spread(wanted).ok_or_else(too_many)?;
    let logical = given.unwrap_or(&spread);
    if logical.len() != wanted {
        return Err(ReplayError::CpuMap {
            given: logical.len(),
            wanted,
        });
    }
    let mut taken = vec![false; available];
    let mut cpus = Vec::with_capacity(wanted);
    for &logical in logical {
        let refuse = ReplayError::LogicalCpu(logical.0);
        let place = machine.topology.place(logical).ok_or(refuse.clone())?;
        if std::mem::replace(&mut taken[usize::from(logical.0)], true) {
            return Err(refuse);
        }
        cpus.push(Cpu { logical, place });
    }
    Ok(cpus)
}

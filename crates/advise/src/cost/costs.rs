//! A machine as the fast model needs it, for the CPUs of a recording.

use linemate_machine::{Distance, Latencies, Machine};
use linemate_recording::CpuId;

use crate::error::AdviseError;
use crate::trace::Trace;

/// The number of a core among those in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Core(u16);

impl Core {
    #[inline]
    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The number of a domain, below 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Domain(u8);

impl Domain {
    #[inline]
    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// In a set of domains.
    #[inline]
    pub(super) fn bit(self) -> u64 {
        1 << self.0
    }

    /// Those of a set.
    #[inline]
    pub(super) fn all(mut set: u64) -> impl Iterator<Item = Domain> {
        std::iter::from_fn(move || {
            (set != 0).then(|| {
                let domain = Domain(set.trailing_zeros() as u8);
                set &= set - 1;
                domain
            })
        })
    }
}

/// What accesses cost on a machine, and where each CPU is on it.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    /// The bytes of a line.
    pub(super) line: u64,
    /// Whether a miss fetches the aligned pair of lines.
    pub(super) pairs: bool,
    pub(super) latency: Latencies,
    /// By CPU.
    core: Vec<Core>,
    domain: Vec<Domain>,
    /// By domain and domain.
    distance: Vec<Vec<Distance>>,
    /// By core in use.
    core_domain: Vec<Domain>,
}

impl Costs {
    /// # Errors
    /// If the machine has too few CPUs.
    pub(super) fn new(machine: &Machine, trace: &Trace) -> Result<Costs, AdviseError> {
        let topology = &machine.topology;
        let too_small = || AdviseError::Machine {
            machine: machine.name.clone(),
            available: topology.cpus(),
            recorded: trace.cpus,
        };
        let spread = topology.spread_recorded(trace.cpus, trace.threads);
        let (mut core, mut domain) = (Vec::new(), Vec::new());
        let (mut cores, mut core_domain) = (Vec::new(), Vec::new());
        for logical in spread.ok_or_else(too_small)? {
            let place = topology.place(logical).ok_or_else(too_small)?;
            let of = Domain(place.domain.0 as u8);
            let known = cores.iter().position(|c| *c == place.core);
            core.push(Core(known.unwrap_or(cores.len()) as u16));
            if known.is_none() {
                cores.push(place.core);
                core_domain.push(of);
            }
            domain.push(of);
        }
        let all = 0..topology.domains() as u16;
        let id = linemate_machine::DomainId;
        let row = |a: u16| {
            all.clone()
                .map(|b| topology.distance(id(a), id(b)))
                .collect()
        };
        Ok(Costs {
            line: machine.line.bytes(),
            pairs: machine.adjacent_line_pairs,
            latency: machine.latency,
            core,
            domain,
            distance: all.clone().map(row).collect(),
            core_domain,
        })
    }

    /// How many cores are in use.
    pub(super) fn cores(&self) -> usize {
        self.core_domain.len()
    }

    #[inline]
    pub(super) fn core(&self, cpu: CpuId) -> Core {
        self.core[usize::from(cpu.0)]
    }

    #[inline]
    pub(super) fn domain(&self, cpu: CpuId) -> Domain {
        self.domain[usize::from(cpu.0)]
    }

    #[inline]
    pub(super) fn domain_of(&self, core: Core) -> Domain {
        self.core_domain[core.index()]
    }

    /// By domain: how far it is from the CPU's.
    #[inline]
    pub(super) fn distances(&self, cpu: CpuId) -> &[Distance] {
        &self.distance[self.domain(cpu).index()]
    }
}

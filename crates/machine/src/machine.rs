//! A machine whose description has been checked.

use std::num::NonZeroU16;

use linemate_units::LineSize;
use serde::{Deserialize, Serialize};

use crate::MachineError;

/// The maximum number of cores of a machine.
pub(crate) const CORES_MAX: u64 = 1024;
/// The maximum number of LLC domains: replay stores them in one 64-bit set.
pub(crate) const DOMAINS_MAX: u64 = 64;
/// The maximum number of hardware threads per core (Power has 8).
pub(crate) const THREADS_MAX: u64 = 8;
/// The maximum length of a machine's name, which is in the headings of tables.
pub(crate) const NAME_MAX: usize = 64;
/// The maximum number of hardware threads of a machine.
pub const CPUS_MAX: usize = (CORES_MAX * THREADS_MAX) as usize;
/// The maximum latency in cycles: a millisecond on a slow machine, far beyond any memory.
pub(crate) const LATENCY_MAX: u32 = 1_000_000;
/// The maximum size of a single cache in bytes.
pub(crate) const CACHE_BYTES_MAX: u64 = 4 << 30;

/// A logical CPU (hardware thread) of the machine, counted from 0. Not a recorded CPU: a replay
/// maps those onto these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LogicalCpu(pub u16);

/// How many consecutive CPUs of a recorded machine are the threads of one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadsPerCore(pub NonZeroU16);

impl Default for ThreadsPerCore {
    /// One.
    fn default() -> ThreadsPerCore {
        ThreadsPerCore(NonZeroU16::MIN)
    }
}

/// A core, counted from 0 over the whole machine. Its threads share L1 and L2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreId(pub u16);

/// A last-level-cache domain, counted from 0 over the whole machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainId(pub u16);

/// A socket, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u16);

/// How far a copy of a line is from a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// Behind the same last-level cache.
    Domain,
    /// In another LLC domain of the same socket.
    Socket,
    /// On another socket.
    Remote,
}

/// A private cache's geometry. The number of sets is a power of two; the line number's low bits
/// select the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    pub sets: u32,
    /// Ways (lines in a set).
    pub ways: u32,
}

impl CacheShape {
    /// The capacity in lines.
    pub fn lines(self) -> u64 {
        u64::from(self.sets) * u64::from(self.ways)
    }
}

/// How the last-level cache selects the set of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LlcIndex {
    /// The line number's low bits are the set.
    Plain,
    /// A hash of the line number selects slice and set, as real sliced caches do.
    Hashed,
}

/// A domain's last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LlcShape {
    /// Number of slices, each with the geometry `slice`. Any number.
    pub slices: u32,
    pub slice: CacheShape,
    /// How the set of a line is selected.
    pub index: LlcIndex,
}

/// Load-to-use latencies in core cycles at the machine's frequency, without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// A hit in the core's L1.
    pub l1: u32,
    /// A hit in the core's L2.
    pub l2: u32,
    /// A hit in the domain's last-level cache, or a clean copy in a core of the domain.
    pub llc: u32,
    /// A modified line in another core of the domain.
    pub hitm_same_domain: u32,
    /// A modified (or forwarded clean) line in another domain of the socket.
    pub hitm_same_socket: u32,
    /// A modified (or forwarded clean) line on another socket.
    pub hitm_other_socket: u32,
    /// Memory of the same socket.
    pub dram_local: u32,
    /// Memory of another socket.
    pub dram_remote: u32,
    /// The extra cost of an atomic read-modify-write.
    pub atomic: u32,
    /// How long serving a clean line delays the next requester of that line.
    pub serve: u32,
}

impl Latencies {
    /// The latency of fetching a modified line from that distance.
    pub fn hitm(&self, distance: Distance) -> u32 {
        match distance {
            Distance::Domain => self.hitm_same_domain,
            Distance::Socket => self.hitm_same_socket,
            Distance::Remote => self.hitm_other_socket,
        }
    }
}

/// An L2 prefetcher that follows ascending and descending requests within a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct L2Streamer {
    /// Number of pages tracked at a time.
    pub streams: u32,
    /// Requests to a page in one direction before anything is fetched, including the last one.
    pub train: u32,
    /// Maximum lines fetched per request.
    pub per_request: u32,
    /// How far ahead of the request lines may be fetched, in lines.
    pub ahead: u32,
    /// Fetched lines in flight at a time.
    pub outstanding: u32,
}

/// An L1 prefetcher that follows loads by one instruction at a constant stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct L1Stride {
    /// Number of instructions tracked at a time.
    pub entries: u32,
    /// Loads by the instruction at one stride before anything is fetched, including the last one.
    pub train: u32,
    /// The longest stride, in bytes, in either direction.
    pub reach: u32,
    /// Fetched lines in flight at a time.
    pub outstanding: u32,
}

/// How misses of one CPU overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// Instructions from the oldest waiting one to the youngest that may have started.
    pub window: u32,
    /// L1 misses in flight at a time.
    pub outstanding: u32,
}

/// An optional part of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mechanism {
    /// [`Machine::adjacent_line_pairs`].
    AdjacentLinePairs,
    /// [`Machine::l2_streamer`].
    L2Streamer,
    /// [`Machine::l1_stride`].
    L1Stride,
    /// [`Machine::overlap`].
    Overlap,
    /// [`Machine::locks`].
    Locks,
}

impl Mechanism {
    pub const ALL: [Mechanism; 5] = [
        Mechanism::AdjacentLinePairs,
        Mechanism::L2Streamer,
        Mechanism::L1Stride,
        Mechanism::Overlap,
        Mechanism::Locks,
    ];

    /// Its name, which is its key in a description if it has one.
    pub fn key(self) -> &'static str {
        match self {
            Mechanism::AdjacentLinePairs => "adjacent_line_pairs",
            Mechanism::L2Streamer => "l2_streamer",
            Mechanism::L1Stride => "l1_stride",
            Mechanism::Overlap => "overlap",
            Mechanism::Locks => "locks",
        }
    }
}

/// Where a logical CPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuPlace {
    pub core: CoreId,
    /// The core's LLC domain.
    pub domain: DomainId,
    pub socket: SocketId,
    /// Which thread of the core it is, from 0.
    pub thread: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    cpus: Vec<CpuPlace>,
    core_domain: Vec<DomainId>,
    domain_socket: Vec<SocketId>,
    sockets: u16,
}

impl Topology {
    /// The regular topology: logical CPUs are numbered thread by thread, that is, first the first
    /// threads of all cores in order, then the second ones, as Linux does on x86.
    pub(crate) fn regular(
        sockets: u64,
        domains_per_socket: u64,
        cores_per_domain: u64,
        threads: u64,
    ) -> Result<Topology, MachineError> {
        for (key, value) in [
            ("sockets", sockets),
            ("llc_domains_per_socket", domains_per_socket),
            ("cores_per_llc_domain", cores_per_domain),
            ("threads_per_core", threads),
        ] {
            if value == 0 {
                return Err(MachineError::Zero(key));
            }
        }
        limit("threads_per_core", threads, THREADS_MAX)?;
        let domains = sockets.saturating_mul(domains_per_socket);
        limit("sockets x llc_domains_per_socket", domains, DOMAINS_MAX)?;
        let cores = domains.saturating_mul(cores_per_domain);
        limit("the number of cores", cores, CORES_MAX)?;
        // The limits above ensure that every number here fits in 16 bits.
        let places = (0..threads).flat_map(|thread| {
            (0..cores).map(move |core| CpuPlace {
                core: CoreId(core as u16),
                domain: DomainId((core / cores_per_domain) as u16),
                socket: SocketId((core / (cores_per_domain * domains_per_socket)) as u16),
                thread: thread as u16,
            })
        });
        Topology::from_places(places.collect())
    }

    /// Any topology, from the place of each logical CPU. Callers ensure that cores, domains and
    /// sockets are numbered without gaps, and that a core is in one domain and a domain in one
    /// socket.
    pub(crate) fn from_places(cpus: Vec<CpuPlace>) -> Result<Topology, MachineError> {
        if cpus.is_empty() {
            return Err(MachineError::Zero("the number of CPUs"));
        }
        let count = |of: fn(&CpuPlace) -> u16| {
            cpus.iter()
                .map(of)
                .max()
                .map_or(0, |last| usize::from(last) + 1)
        };
        let (cores, domains) = (count(|c| c.core.0), count(|c| c.domain.0));
        let sockets = count(|c| c.socket.0);
        limit("the number of cores", cores as u64, CORES_MAX)?;
        limit("the number of LLC domains", domains as u64, DOMAINS_MAX)?;
        let mut core_domain = vec![DomainId(0); cores];
        let mut domain_socket = vec![SocketId(0); domains];
        for cpu in &cpus {
            // The last CPU of a core decides; all of them agree.
            core_domain[usize::from(cpu.core.0)] = cpu.domain;
            domain_socket[usize::from(cpu.domain.0)] = cpu.socket;
        }
        Ok(Topology {
            cpus,
            core_domain,
            domain_socket,
            sockets: sockets as u16,
        })
    }

    /// The number of logical CPUs.
    pub fn cpus(&self) -> usize {
        self.cpus.len()
    }

    /// The number of cores.
    pub fn cores(&self) -> usize {
        self.core_domain.len()
    }

    /// The number of LLC domains.
    pub fn domains(&self) -> usize {
        self.domain_socket.len()
    }

    /// The number of sockets.
    pub fn sockets(&self) -> usize {
        usize::from(self.sockets)
    }

    /// Where a logical CPU is; `None` if the machine does not have it.
    pub fn place(&self, cpu: LogicalCpu) -> Option<CpuPlace> {
        self.cpus.get(usize::from(cpu.0)).copied()
    }

    /// The places of all logical CPUs, by number.
    pub fn places(&self) -> &[CpuPlace] {
        &self.cpus
    }

    /// A core's LLC domain. The core must belong to this machine.
    pub fn domain_of(&self, core: CoreId) -> DomainId {
        self.core_domain[usize::from(core.0)]
    }

    /// A domain's socket. The domain must belong to this machine.
    pub fn socket_of(&self, domain: DomainId) -> SocketId {
        self.domain_socket[usize::from(domain.0)]
    }

    /// The distance between two LLC domains.
    pub fn distance(&self, a: DomainId, b: DomainId) -> Distance {
        if a == b {
            Distance::Domain
        } else if self.socket_of(a) == self.socket_of(b) {
            Distance::Socket
        } else {
            Distance::Remote
        }
    }

    /// The logical CPUs for `count` recorded ones, in their order. Recorded cores are spread over
    /// cores in equal steps, neighbours next to each other, and the CPUs of each are threads of one
    /// core here, too. Where cores have too few threads for that, all CPUs are spread
    /// ([`Topology::spread`]).
    ///
    /// Returns `None` if the machine has fewer CPUs.
    pub fn spread_recorded(
        &self,
        count: usize,
        threads: ThreadsPerCore,
    ) -> Option<Vec<LogicalCpu>> {
        let threads = usize::from(threads.0.get());
        self.spread_cores(count, threads)
            .or_else(|| self.spread(count))
    }

    /// The same; `None`, too, where recorded threads of one core cannot be on one.
    fn spread_cores(&self, count: usize, threads: usize) -> Option<Vec<LogicalCpu>> {
        if threads == 1 || count % threads != 0 {
            return None;
        }
        let mut of_core = vec![Vec::new(); self.core_domain.len()];
        for (number, place) in self.cpus.iter().enumerate() {
            of_core[usize::from(place.core.0)].push((place.thread, LogicalCpu(number as u16)));
        }
        of_core.iter_mut().for_each(|cpus| cpus.sort_unstable());
        let recorded = count / threads;
        let core_of = |number: usize| number * of_core.len() / recorded;
        let mut chosen = Vec::with_capacity(count);
        let mut taken = 0;
        for number in 0..recorded {
            let core = core_of(number);
            // As many threads are taken as recorded cores before it are on the same core.
            let same = number
                .checked_sub(1)
                .is_some_and(|before| core_of(before) == core);
            taken = if same { taken + threads } else { 0 };
            let together = of_core[core].get(taken..taken + threads)?;
            chosen.extend(together.iter().map(|(_, cpu)| *cpu));
        }
        Some(chosen)
    }

    /// `count` logical CPUs spread as evenly as the machine allows: over sockets first, then
    /// domains, then cores, and second threads only when every core has a first one. They are in
    /// the order in which recorded CPUs are mapped onto them: neighbours stay neighbours.
    ///
    /// Returns `None` if the machine has fewer CPUs.
    pub fn spread(&self, count: usize) -> Option<Vec<LogicalCpu>> {
        if count > self.cpus.len() {
            return None;
        }
        let mut order: Vec<usize> = (0..self.cpus.len()).collect();
        order.sort_by_key(|&cpu| (self.cpus[cpu].thread, self.cpus[cpu].core, cpu));
        let first = order
            .iter()
            .filter(|&&cpu| self.cpus[cpu].thread == 0)
            .count();
        // Within the first threads, `count` equal steps; beyond them, all first threads and then
        // equal steps over the rest.
        let (all, rest) = order.split_at(first);
        let mut chosen: Vec<usize> = Vec::with_capacity(count);
        if count <= first {
            chosen.extend((0..count).map(|i| all[i * first / count]));
        } else {
            let more = count - first;
            chosen.extend(all);
            chosen.extend((0..more).map(|i| rest[i * rest.len() / more]));
        }
        Some(
            chosen
                .into_iter()
                .map(|cpu| LogicalCpu(cpu as u16))
                .collect(),
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The name to select it by.
    pub name: String,
    /// A description in one line.
    pub title: String,
    pub topology: Topology,
    pub line: LineSize,
    /// Whether a miss also fetches the other line of its aligned pair into L2.
    pub adjacent_line_pairs: bool,
    /// Each core's L1 data cache.
    pub l1: CacheShape,
    /// The second-level cache of each core.
    pub l2: CacheShape,
    /// Each domain's last-level cache.
    pub llc: LlcShape,
    /// The latencies of all levels.
    pub latency: Latencies,
    /// Core frequency in MHz: converts cycles into time.
    pub frequency_mhz: u32,
    /// Each L2's streamer, if it has one.
    pub l2_streamer: Option<L2Streamer>,
    /// Each L1's stride prefetcher, if it has one.
    pub l1_stride: Option<L1Stride>,
    /// How misses overlap; `None` if they do not.
    pub overlap: Option<Overlap>,
    /// Whether CPUs wait for the kernel's locks. In no description, because locks are not the
    /// machine's: [`Machine::with_only`] adds it.
    pub locks: bool,
}

impl Machine {
    /// Whether the machine has it.
    pub fn has(&self, mechanism: Mechanism) -> bool {
        match mechanism {
            Mechanism::AdjacentLinePairs => self.adjacent_line_pairs,
            Mechanism::L2Streamer => self.l2_streamer.is_some(),
            Mechanism::L1Stride => self.l1_stride.is_some(),
            Mechanism::Overlap => self.overlap.is_some(),
            Mechanism::Locks => self.locks,
        }
    }

    /// Whether its description has nothing to replay the mechanism with. Pairs of lines, the
    /// default, are refused on no machine, and locks are none's.
    pub fn lacks(&self, mechanism: Mechanism) -> bool {
        let of_any = [Mechanism::AdjacentLinePairs, Mechanism::Locks];
        !self.has(mechanism) && !of_any.contains(&mechanism)
    }

    /// Those of its mechanisms that it has, by key.
    pub fn mechanisms(&self) -> Vec<String> {
        let has = Mechanism::ALL.into_iter().filter(|one| self.has(*one));
        has.map(|one| one.key().to_owned()).collect()
    }

    /// The same machine with only those of its mechanisms that `keep` accepts; with locks, which
    /// every machine can have, if it accepts them.
    #[must_use]
    pub fn with_only(mut self, keep: impl Fn(Mechanism) -> bool) -> Machine {
        self.adjacent_line_pairs &= keep(Mechanism::AdjacentLinePairs);
        self.l2_streamer = self.l2_streamer.filter(|_| keep(Mechanism::L2Streamer));
        self.l1_stride = self.l1_stride.filter(|_| keep(Mechanism::L1Stride));
        self.overlap = self.overlap.filter(|_| keep(Mechanism::Overlap));
        self.locks = keep(Mechanism::Locks);
        self
    }
}

/// Refuses `value` beyond `limit`.
pub(crate) fn limit(key: &'static str, value: u64, limit: u64) -> Result<(), MachineError> {
    if value > limit {
        Err(MachineError::TooLarge { key, value, limit })
    } else {
        Ok(())
    }
}

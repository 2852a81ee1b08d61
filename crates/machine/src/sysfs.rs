//! The machine `this`: geometry from Linux's sysfs, latencies estimated (sysfs has none).

use std::collections::BTreeMap;

use crate::description::{check_latencies, line_size, private_cache, shared_cache};
use crate::{
    CacheShape, CoreId, CpuPlace, DomainId, Latencies, LineSize, LlcIndex, LlcShape, Machine,
    MachineError, SocketId, Topology,
};

/// Where the CPUs are, below the root that the caller reads from (`/sys` on a running system).
const CPU_ROOT: &str = "devices/system/cpu";

/// The maximum number of CPUs in a list such as `online`.
const CPUS_MAX: u64 = 8192;

/// The frequency if the tree has none (virtual machines), in MHz.
const FREQUENCY_MHZ_DEFAULT: u32 = 3000;

/// Latencies of a current server in cycles at about 3 GHz: the order of magnitude of the shipped
/// `gnr-2s-480` and `turin-2s`, whose descriptions give the sources. An estimate, and labelled as
/// one.
const LATENCIES_ESTIMATED: Latencies = Latencies {
    l1: 5,
    l2: 15,
    llc: 70,
    hitm_same_domain: 140,
    hitm_same_socket: 320,
    hitm_other_socket: 620,
    dram_local: 360,
    dram_remote: 640,
    atomic: 18,
    serve: 8,
};

/// One data or unified cache of one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    bytes: u64,
    ways: u64,
    sets: u64,
    line: u64,
    /// The lowest CPU that shares it, which identifies the cache.
    owner: u16,
}

impl Machine {
    /// The computer described by the sysfs tree behind `read`: called with paths below `/sys`,
    /// without a leading slash, it returns a file's text, or `None` if there is no such file.
    ///
    /// Offline CPUs are left out; logical CPUs are numbered in the order of the online ones.
    ///
    /// # Errors
    /// A tree without L1, L2 or L3 data cache, mixed cores, or a machine that fails the checks.
    pub fn from_sysfs(
        mut read: impl FnMut(&str) -> Option<String>,
    ) -> Result<Machine, MachineError> {
        let mut tree = SysfsTree { read: &mut read };
        let path = format!("{CPU_ROOT}/online");
        let online = tree.list(&path)?;
        let mut shape: Option<(u16, Listed, Listed, Listed)> = None;
        let mut numbering = Numbering::default();
        let mut places = Vec::with_capacity(online.len());
        for &cpu in &online {
            let (l1, l2, l3) = tree.caches(cpu)?;
            let core = tree.core(cpu)?;
            let socket =
                tree.number(&format!("{CPU_ROOT}/cpu{cpu}/topology/physical_package_id"))?;
            // By the CPUs that share the cache: the tree has no other name for a domain that all
            // kernels provide.
            places.push(numbering.place(core, l3.owner, socket));
            match &shape {
                None => shape = Some((cpu, l1, l2, l3)),
                Some((first, a, b, c)) => {
                    // A replay has one shape for all cores.
                    for (cache, one, other) in [("L1", a, &l1), ("L2", b, &l2), ("L3", c, &l3)] {
                        if (one.bytes, one.ways, one.line) != (other.bytes, other.ways, other.line)
                        {
                            return Err(MachineError::Mixed {
                                first: *first,
                                cpu,
                                cache,
                            });
                        }
                    }
                }
            }
        }
        let Some((first, l1, l2, l3)) = shape else {
            return Err(MachineError::Zero("the number of CPUs"));
        };
        let line = line_size(l1.line)?;
        let (frequency_mhz, frequency_note) = tree.frequency(first)?;
        check_latencies(&LATENCIES_ESTIMATED)?;
        Ok(Machine {
            name: crate::shipped::THIS.to_owned(),
            title: format!(
                "this computer: topology and caches from sysfs, {frequency_note}, latencies estimated"
            ),
            topology: Topology::from_places(places)?,
            line,
            adjacent_line_pairs: false,
            l1: geometry("l1", &l1, line)?,
            l2: geometry("l2", &l2, line)?,
            llc: sliced(&l3, line)?,
            latency: LATENCIES_ESTIMATED,
            frequency_mhz,
            l2_streamer: None,
            l1_stride: None,
            overlap: None,
            locks: false,
        })
    }
}

fn geometry(
    name: &'static str,
    cache: &Listed,
    line: LineSize,
) -> Result<CacheShape, MachineError> {
    private_cache(name, cache.bytes, cache.ways, line)
}

/// Linux lists a sliced cache as one: the odd part of its number of sets is assumed to be the
/// slices.
fn sliced(cache: &Listed, line: LineSize) -> Result<LlcShape, MachineError> {
    let slices = if cache.sets == 0 {
        1
    } else {
        cache.sets >> cache.sets.trailing_zeros()
    };
    shared_cache(cache.bytes, cache.ways, slices, LlcIndex::Hashed, line)
}

/// Turns sysfs's ids (arbitrary numbers) into indices without gaps, in order of appearance.
#[derive(Default)]
struct Numbering {
    cores: BTreeMap<u16, (u16, u16)>,
    domains: BTreeMap<u16, u16>,
    sockets: BTreeMap<u64, u16>,
}

impl Numbering {
    fn place(&mut self, core: u16, domain: u16, socket: u64) -> CpuPlace {
        // At most as many cores, domains and sockets as CPUs: 16 bits hold the count.
        let next = self.cores.len() as u16;
        let entry = self.cores.entry(core).or_insert((next, 0));
        let (core, thread) = (entry.0, entry.1);
        entry.1 += 1;
        let next = self.domains.len() as u16;
        let domain = *self.domains.entry(domain).or_insert(next);
        let next = self.sockets.len() as u16;
        let socket = *self.sockets.entry(socket).or_insert(next);
        CpuPlace {
            core: CoreId(core),
            domain: DomainId(domain),
            socket: SocketId(socket),
            thread,
        }
    }
}

struct SysfsTree<'r> {
    read: &'r mut dyn FnMut(&str) -> Option<String>,
}

impl SysfsTree<'_> {
    fn text(&mut self, path: &str) -> Result<String, MachineError> {
        (self.read)(path)
            .map(|text| text.trim().to_owned())
            .ok_or_else(|| MachineError::SysfsMissing(path.to_owned()))
    }

    fn number(&mut self, path: &str) -> Result<u64, MachineError> {
        let text = self.text(path)?;
        text.parse().map_err(|_| MachineError::SysfsValue {
            path: path.to_owned(),
            value: text,
            expected: "a number",
        })
    }

    /// A list such as `0-3,8`: never empty.
    fn list(&mut self, path: &str) -> Result<Vec<u16>, MachineError> {
        let text = self.text(path)?;
        parse_list(&text).ok_or_else(|| MachineError::SysfsValue {
            path: path.to_owned(),
            value: text,
            expected: "a list of CPUs such as 0-3,8",
        })
    }

    /// The core's id: the lowest CPU among its threads.
    fn core(&mut self, cpu: u16) -> Result<u16, MachineError> {
        let newer = format!("{CPU_ROOT}/cpu{cpu}/topology/core_cpus_list");
        let older = format!("{CPU_ROOT}/cpu{cpu}/topology/thread_siblings_list");
        let threads = match self.list(&newer) {
            Err(MachineError::SysfsMissing(_)) => self.list(&older)?,
            other => other?,
        };
        Ok(threads[0])
    }

    fn caches(&mut self, cpu: u16) -> Result<(Listed, Listed, Listed), MachineError> {
        let mut found: [Option<Listed>; 3] = [None, None, None];
        for index in 0.. {
            let root = format!("{CPU_ROOT}/cpu{cpu}/cache/index{index}");
            let kind = match self.text(&format!("{root}/type")) {
                Ok(kind) => kind,
                Err(_) => break,
            };
            let level = self.number(&format!("{root}/level"))?;
            // A recording has no instruction fetches.
            if kind == "Instruction" || !(1..=3).contains(&level) {
                continue;
            }
            found[level as usize - 1] = Some(self.cache(&root)?);
        }
        let [l1, l2, l3] = found;
        match (l1, l2, l3) {
            (Some(l1), Some(l2), Some(l3)) => Ok((l1, l2, l3)),
            (None, ..) => Err(MachineError::SysfsCache("L1 data", cpu)),
            (_, None, _) => Err(MachineError::SysfsCache("L2", cpu)),
            (.., None) => Err(MachineError::SysfsCache("L3", cpu)),
        }
    }

    fn cache(&mut self, root: &str) -> Result<Listed, MachineError> {
        let size = format!("{root}/size");
        let text = self.text(&size)?;
        let bytes = parse_size(&text).ok_or(MachineError::SysfsValue {
            path: size,
            value: text,
            expected: "a size such as 32K",
        })?;
        Ok(Listed {
            bytes,
            ways: self.number(&format!("{root}/ways_of_associativity"))?,
            sets: self.number(&format!("{root}/number_of_sets"))?,
            line: self.number(&format!("{root}/coherency_line_size"))?,
            owner: self.list(&format!("{root}/shared_cpu_list"))?[0],
        })
    }

    /// In MHz, with its source.
    fn frequency(&mut self, cpu: u16) -> Result<(u32, &'static str), MachineError> {
        for (file, note) in [
            ("base_frequency", "its base frequency"),
            ("cpuinfo_max_freq", "its highest frequency"),
        ] {
            let path = format!("{CPU_ROOT}/cpu{cpu}/cpufreq/{file}");
            match self.number(&path) {
                // Virtual machines have neither.
                Err(MachineError::SysfsMissing(_)) => {}
                Ok(khz) if (1_000..=100_000_000).contains(&khz) => {
                    return Ok(((khz / 1000) as u32, note));
                }
                Ok(khz) => {
                    return Err(MachineError::SysfsValue {
                        path,
                        value: khz.to_string(),
                        expected: "a frequency in kHz",
                    });
                }
                Err(error) => return Err(error),
            }
        }
        Ok((FREQUENCY_MHZ_DEFAULT, "3000 MHz assumed"))
    }
}

/// `0-3,8`, in any order; `None` for anything else, an empty list or too many CPUs.
fn parse_list(text: &str) -> Option<Vec<u16>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= CPUS_MAX {
            return None;
        }
        cpus.extend((first..=last).map(|cpu| cpu as u16));
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// `32K`, `2M`.
fn parse_size(text: &str) -> Option<u64> {
    let (number, factor) = if let Some(number) = text.strip_suffix('K') {
        (number, 1 << 10)
    } else if let Some(number) = text.strip_suffix('M') {
        (number, 1 << 20)
    } else {
        (text, 1)
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

//! The machines that a recording can be replayed on.

use std::borrow::Cow;
use std::fmt::Write as _;

use linemate_machine::Machine;
use linemate_text::shown;
use serde::{Deserialize, Serialize};

/// What `linemate machines --json` writes (docs/reference/json/machines.md).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachinesDocument {
    /// [`MachinesDocument::SCHEMA`].
    pub schema: Cow<'static, str>,
    /// In the order asked for.
    pub machines: Vec<MachineEntry>,
    /// Why `this` is not among them, when all are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub this_is_missing: Option<String>,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineEntry {
    /// Its name.
    pub name: String,
    /// What it is.
    pub title: String,
    /// Hardware threads.
    pub cpus: usize,
    /// Cores.
    pub cores: usize,
    /// Groups of cores with a last-level cache in common.
    pub llc_domains: usize,
    /// Sockets.
    pub sockets: usize,
    /// Bytes of a line.
    pub line_bytes: u64,
    /// Whether a miss also fetches the other line of its pair.
    pub adjacent_line_pairs: bool,
    /// Turns cycles into time.
    pub frequency_mhz: u32,
    /// A core's first cache.
    pub l1: CacheSize,
    /// A core's second cache.
    pub l2: CacheSize,
    /// A domain's last-level cache.
    pub llc: CacheSize,
    /// Its slices.
    pub llc_slices: u32,
    /// How long accesses take.
    pub latency_cycles: LatencyCycles,
    /// `None`: described without one, as the next two.
    pub l2_streamer: Option<StreamerEntry>,
    /// An L1 stride prefetcher.
    pub l1_stride: Option<StrideEntry>,
    /// Misses that do not wait for each other.
    pub overlap: Option<OverlapEntry>,
}

/// An L2 streamer (docs/model/replay.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamerEntry {
    /// Pages followed at a time.
    pub streams: u32,
    /// Requests in one direction before it fetches.
    pub train: u32,
    /// Lines fetched for a request.
    pub per_request: u32,
    /// How many lines it runs ahead at most.
    pub ahead: u32,
    /// Fetches under way at most.
    pub outstanding: u32,
}

/// An L1 stride prefetcher (docs/model/replay.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StrideEntry {
    /// Instructions remembered.
    pub entries: u32,
    /// Loads at one stride before it fetches.
    pub train: u32,
    /// The longest stride.
    pub reach_bytes: u32,
    /// Fetches under way at most.
    pub outstanding: u32,
}

/// How misses overlap (docs/model/replay.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlapEntry {
    /// Instructions within which they do.
    pub window: u32,
    /// How many at a time.
    pub outstanding: u32,
}

/// A cache: `bytes` is its whole size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheSize {
    /// Bytes.
    pub bytes: u64,
    /// Ways.
    pub ways: u32,
}

/// Cycles that an access takes by where it is served from (docs/model/replay.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyCycles {
    /// The core's first cache.
    pub l1: u32,
    /// Its second one.
    pub l2: u32,
    /// The domain's last-level cache.
    pub llc: u32,
    /// Another core of the domain, which has modified the line.
    pub hitm_same_domain: u32,
    /// Likewise, of another domain of the socket.
    pub hitm_same_socket: u32,
    /// Likewise, of another socket.
    pub hitm_other_socket: u32,
    /// The socket's memory.
    pub dram_local: u32,
    /// Another socket's memory.
    pub dram_remote: u32,
    /// What an atomic read-modify-write takes in addition.
    pub atomic: u32,
    /// How long a line is busy with a request.
    pub serve: u32,
}

impl MachinesDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.machines/1";

    /// The document of these machines; `this_is_missing`: why the present computer is not among them.
    #[must_use]
    pub fn new(machines: &[Machine], this_is_missing: Option<String>) -> Self {
        MachinesDocument {
            schema: Self::SCHEMA.into(),
            machines: machines.iter().map(MachineEntry::new).collect(),
            this_is_missing,
        }
    }

    /// Some lines for each machine.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        for machine in &self.machines {
            machine.describe(&mut out);
        }
        if let Some(reason) = &self.this_is_missing {
            // Writing to a String does not fail.
            let _ = writeln!(out, "this\n  not available: {}", shown(reason));
        }
        out
    }
}

impl MachineEntry {
    fn new(machine: &Machine) -> Self {
        let (t, l) = (&machine.topology, &machine.latency);
        let line = machine.line.bytes();
        MachineEntry {
            name: machine.name.clone(),
            title: machine.title.clone(),
            cpus: t.cpus(),
            cores: t.cores(),
            llc_domains: t.domains(),
            sockets: t.sockets(),
            line_bytes: line,
            adjacent_line_pairs: machine.adjacent_line_pairs,
            frequency_mhz: machine.frequency_mhz,
            l1: CacheSize {
                bytes: machine.l1.lines() * line,
                ways: machine.l1.ways,
            },
            l2: CacheSize {
                bytes: machine.l2.lines() * line,
                ways: machine.l2.ways,
            },
            llc: CacheSize {
                bytes: u64::from(machine.llc.slices) * machine.llc.slice.lines() * line,
                ways: machine.llc.slice.ways,
            },
            llc_slices: machine.llc.slices,
            latency_cycles: LatencyCycles {
                l1: l.l1,
                l2: l.l2,
                llc: l.llc,
                hitm_same_domain: l.hitm_same_domain,
                hitm_same_socket: l.hitm_same_socket,
                hitm_other_socket: l.hitm_other_socket,
                dram_local: l.dram_local,
                dram_remote: l.dram_remote,
                atomic: l.atomic,
                serve: l.serve,
            },
            l2_streamer: machine.l2_streamer.map(|streamer| StreamerEntry {
                streams: streamer.streams,
                train: streamer.train,
                per_request: streamer.per_request,
                ahead: streamer.ahead,
                outstanding: streamer.outstanding,
            }),
            l1_stride: machine.l1_stride.map(|stride| StrideEntry {
                entries: stride.entries,
                train: stride.train,
                reach_bytes: stride.reach,
                outstanding: stride.outstanding,
            }),
            overlap: machine.overlap.map(|overlap| OverlapEntry {
                window: overlap.window,
                outstanding: overlap.outstanding,
            }),
        }
    }

    fn describe(&self, out: &mut String) {
        let pairs = if self.adjacent_line_pairs {
            ", fetched in pairs"
        } else {
            ""
        };
        let _ = writeln!(out, "{}\n  {}", shown(&self.name), shown(&self.title));
        let _ = writeln!(
            out,
            "  {} CPUs, {} cores, {} LLC domains, {} sockets, {} MHz; lines of {} bytes{pairs}",
            self.cpus,
            self.cores,
            self.llc_domains,
            self.sockets,
            self.frequency_mhz,
            self.line_bytes
        );
        let _ = writeln!(
            out,
            "  L1 {}, L2 {} a core; LLC {} a domain",
            size(self.l1.bytes),
            size(self.l2.bytes),
            size(self.llc.bytes)
        );
        let l = &self.latency_cycles;
        let _ = writeln!(
            out,
            "  cycles: L1 {}, L2 {}, LLC {}; HITM {} same domain, {} same socket, {} other socket; \
             memory {} local, {} remote; atomic +{}",
            l.l1,
            l.l2,
            l.llc,
            l.hitm_same_domain,
            l.hitm_same_socket,
            l.hitm_other_socket,
            l.dram_local,
            l.dram_remote,
            l.atomic
        );
        self.describe_mechanisms(out);
    }

    /// What not all descriptions have.
    fn describe_mechanisms(&self, out: &mut String) {
        if let Some(l2) = &self.l2_streamer {
            let _ = writeln!(
                out,
                "  L2 streamer: {} pages, {} lines a request after {} in one direction, up to {} lines ahead, {} under way",
                l2.streams, l2.per_request, l2.train, l2.ahead, l2.outstanding
            );
        }
        if let Some(l1) = &self.l1_stride {
            let _ = writeln!(
                out,
                "  L1 stride prefetcher: {} instructions, after {} loads at one stride, strides of up to {} bytes, {} under way",
                l1.entries, l1.train, l1.reach_bytes, l1.outstanding
            );
        }
        if let Some(overlap) = &self.overlap {
            let _ = writeln!(
                out,
                "  misses overlap within {} instructions, {} at a time",
                overlap.window, overlap.outstanding
            );
        }
    }
}

/// In the largest unit that divides it.
fn size(bytes: u64) -> String {
    if bytes % (1 << 20) == 0 {
        format!("{} MiB", bytes >> 20)
    } else if bytes % (1 << 10) == 0 {
        format!("{} KiB", bytes >> 10)
    } else {
        format!("{bytes} bytes")
    }
}

//! The machines that a recording can be replayed on.

use linemate_answers::{
    CacheSize, LatencyCycles, MachineEntry, MachinesDocument, OverlapEntry, StreamerEntry,
    StrideEntry,
};
use linemate_machine::Machine;

/// The document of these machines; `this_is_missing`: why the present computer is not among them.
#[must_use]
pub fn machines_document(
    machines: &[Machine],
    this_is_missing: Option<String>,
) -> MachinesDocument {
    MachinesDocument {
        schema: MachinesDocument::SCHEMA.into(),
        machines: machines.iter().map(machine_entry).collect(),
        this_is_missing,
    }
}

fn machine_entry(machine: &Machine) -> MachineEntry {
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

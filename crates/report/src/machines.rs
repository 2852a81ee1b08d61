//! The machines that a recording can be replayed on.

use std::fmt::Write as _;

use linemate_answers::{MachineEntry, MachinesDocument};
use linemate_text::shown;

use crate::print::counted;

/// Some lines for each machine.
#[must_use]
pub fn machines_text(document: &MachinesDocument) -> String {
    let mut out = String::new();
    for machine in &document.machines {
        describe(machine, &mut out);
    }
    if let Some(reason) = &document.this_is_missing {
        // Writing to a String does not fail.
        let _ = writeln!(out, "this\n  not available: {}", shown(reason));
    }
    out
}

fn describe(entry: &MachineEntry, out: &mut String) {
    let pairs = if entry.adjacent_line_pairs {
        ", fetched in pairs"
    } else {
        ""
    };
    let _ = writeln!(out, "{}\n  {}", shown(&entry.name), shown(&entry.title));
    let _ = writeln!(
        out,
        "  {}, {}, {}, {}, {} MHz; lines of {} bytes{pairs}",
        counted(entry.cpus, "CPU"),
        counted(entry.cores, "core"),
        counted(entry.llc_domains, "LLC domain"),
        counted(entry.sockets, "socket"),
        entry.frequency_mhz,
        entry.line_bytes
    );
    let _ = writeln!(
        out,
        "  L1 {}, L2 {} a core; LLC {} a domain",
        size(entry.l1.bytes),
        size(entry.l2.bytes),
        size(entry.llc.bytes)
    );
    let l = &entry.latency_cycles;
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
    describe_mechanisms(entry, out);
}

/// What not all descriptions have.
fn describe_mechanisms(entry: &MachineEntry, out: &mut String) {
    if let Some(l2) = &entry.l2_streamer {
        let _ = writeln!(
            out,
            "  L2 streamer: {} pages, {} lines a request after {} in one direction, up to {} lines ahead, {} outstanding",
            l2.streams, l2.per_request, l2.train, l2.ahead, l2.outstanding
        );
    }
    if let Some(l1) = &entry.l1_stride {
        let _ = writeln!(
            out,
            "  L1 stride prefetcher: {} instructions, after {} loads at one stride, strides of up to {} bytes, {} outstanding",
            l1.entries, l1.train, l1.reach_bytes, l1.outstanding
        );
    }
    if let Some(overlap) = &entry.overlap {
        let _ = writeln!(
            out,
            "  misses overlap within {} instructions, {} at a time",
            overlap.window, overlap.outstanding
        );
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

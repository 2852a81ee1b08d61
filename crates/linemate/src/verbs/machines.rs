//! `linemate machines`: the computers that a recording can be replayed on, and checks of own descriptions.

use std::fmt::{self, Write};
use std::path::Path;

use anyhow::Context;
use linemate_machine::{Machine, find, shipped};
use linemate_text::shown;
use serde::Serialize;

use crate::cli::Outcome;
use crate::output;

/// Version of the form that `--json` writes (docs/schema-machines.md).
const SCHEMA: &str = "linemate.machines/1";

/// Where a running Linux shows its CPUs.
const SYSFS: &str = "/sys";

/// List the machines that a recording can be replayed on, or check descriptions of others
///
/// Without arguments: all that are known. Exit code 0: all are sound. 2: one is not.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Names of known machines, `this` for the present computer, or files (a path with / or ending in .toml)
    #[arg(value_name = "MACHINE")]
    machines: Vec<String>,
    /// Print the description's text, comments with the sources of its figures included (known machines only)
    #[arg(long, conflicts_with = "json", requires = "machines")]
    text: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// One machine as `--json` writes it.
#[derive(Serialize)]
struct Json {
    name: String,
    title: String,
    cpus: usize,
    cores: usize,
    llc_domains: usize,
    sockets: usize,
    line_bytes: u64,
    adjacent_line_pairs: bool,
    frequency_mhz: u32,
    l1: Geometry,
    l2: Geometry,
    llc: Geometry,
    llc_slices: u32,
    latency_cycles: Latencies,
    /// These three are `null` where the machine is described without them.
    l2_streamer: Option<Streamer>,
    l1_stride: Option<Stride>,
    overlap: Option<Overlap>,
}

#[derive(Serialize)]
struct Streamer {
    streams: u32,
    train: u32,
    per_request: u32,
    ahead: u32,
    outstanding: u32,
}

#[derive(Serialize)]
struct Stride {
    entries: u32,
    train: u32,
    reach_bytes: u32,
    outstanding: u32,
}

#[derive(Serialize)]
struct Overlap {
    window: u32,
    outstanding: u32,
}

/// A cache: `bytes` is its whole size.
#[derive(Serialize)]
struct Geometry {
    bytes: u64,
    ways: u32,
}

#[derive(Serialize)]
struct Latencies {
    l1: u32,
    l2: u32,
    llc: u32,
    hitm_same_domain: u32,
    hitm_same_socket: u32,
    hitm_other_socket: u32,
    dram_local: u32,
    dram_remote: u32,
    atomic: u32,
    serve: u32,
}

/// What `--json` writes.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    machines: Vec<Json>,
    /// Why `this` is not among them, when all are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    this_is_missing: Option<String>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let mut out = String::new();
    if args.text {
        for name in &args.machines {
            find(name)?;
            let known = shipped().iter().find(|shipped| shipped.name == name);
            out.push_str(known.map_or("", |shipped| shipped.text));
        }
        output::text(&out)?;
        return Ok(Outcome::Fine);
    }
    let (machines, missing) = wanted(&args.machines)?;
    if args.json {
        output::json(&Document {
            schema: SCHEMA,
            machines: machines.iter().map(json).collect(),
            this_is_missing: missing,
        })?;
        return Ok(Outcome::Fine);
    }
    for machine in &machines {
        describe(&mut out, machine)?;
    }
    if let Some(reason) = missing {
        writeln!(out, "this\n  not available: {}", shown(&reason))?;
    }
    output::text(&out)?;
    Ok(Outcome::Fine)
}

/// The machines asked for; without names all known ones, and why `this` is not among them, if it is not.
fn wanted(names: &[String]) -> anyhow::Result<(Vec<Machine>, Option<String>)> {
    if !names.is_empty() {
        let machines: anyhow::Result<_> = names.iter().map(|name| resolve(name)).collect();
        return Ok((machines?, None));
    }
    let known: anyhow::Result<_> = shipped().iter().map(|known| resolve(known.name)).collect();
    let mut machines: Vec<Machine> = known?;
    match resolve("this") {
        Ok(this) => machines.push(this),
        Err(error) => return Ok((machines, Some(output::one_line(&error)))),
    }
    Ok((machines, None))
}

/// The machine that a `--machine` flag names: `this`, a file (a path with `/` or ending in `.toml`), or a
/// known one.
pub(crate) fn resolve(name: &str) -> anyhow::Result<Machine> {
    if name == "this" {
        let read = |path: &str| linemate_files::read_text(&Path::new(SYSFS).join(path)).ok();
        Machine::from_sysfs(read).context("this computer")
    } else if name.contains('/') || name.ends_with(".toml") {
        let text = linemate_files::read_text(Path::new(name))
            .with_context(|| format!("cannot read {name}"))?;
        Machine::from_toml(&text).with_context(|| name.to_owned())
    } else {
        Ok(find(name)?)
    }
}

fn json(machine: &Machine) -> Json {
    let t = &machine.topology;
    let l = &machine.latency;
    let line = machine.line.bytes();
    Json {
        name: machine.name.clone(),
        title: machine.title.clone(),
        cpus: t.cpus(),
        cores: t.cores(),
        llc_domains: t.domains(),
        sockets: t.sockets(),
        line_bytes: line,
        adjacent_line_pairs: machine.adjacent_line_pairs,
        frequency_mhz: machine.frequency_mhz,
        l1: Geometry {
            bytes: machine.l1.lines() * line,
            ways: machine.l1.ways,
        },
        l2: Geometry {
            bytes: machine.l2.lines() * line,
            ways: machine.l2.ways,
        },
        llc: Geometry {
            bytes: u64::from(machine.llc.slices) * machine.llc.slice.lines() * line,
            ways: machine.llc.slice.ways,
        },
        llc_slices: machine.llc.slices,
        latency_cycles: Latencies {
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
        l2_streamer: machine.l2_streamer.map(|streamer| Streamer {
            streams: streamer.streams,
            train: streamer.train,
            per_request: streamer.per_request,
            ahead: streamer.ahead,
            outstanding: streamer.outstanding,
        }),
        l1_stride: machine.l1_stride.map(|stride| Stride {
            entries: stride.entries,
            train: stride.train,
            reach_bytes: stride.reach,
            outstanding: stride.outstanding,
        }),
        overlap: machine.overlap.map(|overlap| Overlap {
            window: overlap.window,
            outstanding: overlap.outstanding,
        }),
    }
}

fn describe(out: &mut String, machine: &Machine) -> fmt::Result {
    let m = json(machine);
    let pairs = if m.adjacent_line_pairs {
        ", fetched in pairs"
    } else {
        ""
    };
    writeln!(out, "{}\n  {}", shown(&m.name), shown(&m.title))?;
    writeln!(
        out,
        "  {} CPUs, {} cores, {} LLC domains, {} sockets, {} MHz; lines of {} bytes{pairs}",
        m.cpus, m.cores, m.llc_domains, m.sockets, m.frequency_mhz, m.line_bytes
    )?;
    writeln!(
        out,
        "  L1 {}, L2 {} a core; LLC {} a domain",
        size(m.l1.bytes),
        size(m.l2.bytes),
        size(m.llc.bytes)
    )?;
    let l = &m.latency_cycles;
    writeln!(
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
    )?;
    describe_mechanisms(out, &m)
}

/// What not all descriptions have.
fn describe_mechanisms(out: &mut String, m: &Json) -> fmt::Result {
    if let Some(l2) = &m.l2_streamer {
        writeln!(
            out,
            "  L2 streamer: {} pages, {} lines a request after {} in one direction, up to {} lines ahead, {} under way",
            l2.streams, l2.per_request, l2.train, l2.ahead, l2.outstanding
        )?;
    }
    if let Some(l1) = &m.l1_stride {
        writeln!(
            out,
            "  L1 stride prefetcher: {} instructions, after {} loads at one stride, strides of up to {} bytes, {} under way",
            l1.entries, l1.train, l1.reach_bytes, l1.outstanding
        )?;
    }
    if let Some(overlap) = &m.overlap {
        writeln!(
            out,
            "  misses overlap within {} instructions, {} at a time",
            overlap.window, overlap.outstanding
        )?;
    }
    Ok(())
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

//! TOML descriptions and the checks that every machine passes.

use serde::Deserialize;

use crate::machine::{CACHE_BYTES_MAX, LATENCY_MAX, NAME_MAX, limit};
use crate::mechanisms::{OverlapTable, StreamerTable, StrideTable};
use crate::whole::{Size, some_whole, whole};
use crate::{CacheShape, Latencies, LineSize, LlcIndex, LlcShape, Machine, MachineError, Topology};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    name: String,
    title: String,
    #[serde(deserialize_with = "whole")]
    cpus: u64,
    #[serde(deserialize_with = "whole")]
    sockets: u64,
    #[serde(deserialize_with = "whole")]
    llc_domains_per_socket: u64,
    #[serde(deserialize_with = "whole")]
    cores_per_llc_domain: u64,
    #[serde(deserialize_with = "whole")]
    threads_per_core: u64,
    #[serde(deserialize_with = "whole")]
    line_bytes: u64,
    #[serde(default)]
    adjacent_line_pairs: bool,
    #[serde(deserialize_with = "whole")]
    frequency_mhz: u32,
    l1: Private,
    l2: Private,
    llc: Shared,
    latency_cycles: LatencyTable,
    l2_streamer: Option<StreamerTable>,
    l1_stride: Option<StrideTable>,
    overlap: Option<OverlapTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Private {
    size: Size,
    #[serde(deserialize_with = "whole")]
    ways: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shared {
    size: Size,
    #[serde(deserialize_with = "whole")]
    ways: u64,
    #[serde(deserialize_with = "whole")]
    slices: u64,
    index: SetIndexing,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SetIndexing {
    Plain,
    Hashed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LatencyTable {
    #[serde(deserialize_with = "whole")]
    l1: u32,
    #[serde(deserialize_with = "whole")]
    l2: u32,
    #[serde(deserialize_with = "whole")]
    llc: u32,
    #[serde(deserialize_with = "whole")]
    hitm_same_domain: u32,
    #[serde(default, deserialize_with = "some_whole")]
    hitm_same_socket: Option<u32>,
    #[serde(default, deserialize_with = "some_whole")]
    hitm_other_socket: Option<u32>,
    #[serde(deserialize_with = "whole")]
    dram_local: u32,
    #[serde(default, deserialize_with = "some_whole")]
    dram_remote: Option<u32>,
    #[serde(deserialize_with = "whole")]
    atomic: u32,
    #[serde(deserialize_with = "whole")]
    serve: u32,
}

impl Machine {
    /// Reads a description (docs/reference/machines.md has the keys) and checks it.
    ///
    /// # Errors
    /// Names the wrong key or value; nothing is guessed or corrected.
    pub fn from_toml(text: &str) -> Result<Machine, MachineError> {
        let description: Description =
            toml::from_str(text).map_err(|error| MachineError::Syntax(one_line(text, &error)))?;
        check_name(&description.name)?;
        let d = &description;
        let topology = Topology::regular(
            d.sockets,
            d.llc_domains_per_socket,
            d.cores_per_llc_domain,
            d.threads_per_core,
        )?;
        if d.cpus != topology.cpus() as u64 {
            let product = topology.cpus() as u64;
            return Err(MachineError::CpuCount {
                said: d.cpus,
                product,
            });
        }
        let line = line_size(d.line_bytes)?;
        if d.frequency_mhz == 0 {
            return Err(MachineError::Zero("frequency_mhz"));
        }
        let index = match d.llc.index {
            SetIndexing::Plain => LlcIndex::Plain,
            SetIndexing::Hashed => LlcIndex::Hashed,
        };
        let machine = Machine {
            line,
            adjacent_line_pairs: d.adjacent_line_pairs,
            l1: private_cache("l1", bytes("l1.size", &d.l1.size)?, d.l1.ways, line)?,
            l2: private_cache("l2", bytes("l2.size", &d.l2.size)?, d.l2.ways, line)?,
            llc: shared_cache(
                bytes("llc.size", &d.llc.size)?,
                d.llc.ways,
                d.llc.slices,
                index,
                line,
            )?,
            latency: latencies(&d.latency_cycles, &topology)?,
            frequency_mhz: d.frequency_mhz,
            l2_streamer: d.l2_streamer.as_ref().map(|t| t.check(line)).transpose()?,
            l1_stride: d.l1_stride.as_ref().map(|t| t.check(line)).transpose()?,
            overlap: d.overlap.as_ref().map(OverlapTable::check).transpose()?,
            locks: false,
            topology,
            name: description.name,
            title: description.title,
        };
        Ok(machine)
    }
}

/// A name identifies the machine in tables, evidence files and exports.
fn check_name(name: &str) -> Result<(), MachineError> {
    let is_name = !name.trim().is_empty()
        && name.chars().count() <= NAME_MAX
        && !name.chars().any(char::is_control);
    match is_name {
        true => Ok(()),
        false => Err(MachineError::Name),
    }
}

/// The maximum length of a quotation in a message.
const QUOTED_MAX: usize = 40;

/// A message whose quotations are cut: text from a file can have any length.
fn brief(message: &str) -> String {
    ['`', '"']
        .into_iter()
        .fold(message.to_owned(), |message, quote| {
            let pieces = message.split(quote).enumerate().map(|(number, piece)| {
                match number % 2 == 1 && piece.chars().count() > QUOTED_MAX {
                    true => piece.chars().take(QUOTED_MAX).chain(['…']).collect(),
                    false => piece.to_owned(),
                }
            });
            pieces.collect::<Vec<String>>().join(&quote.to_string())
        })
}

/// `LINE:COLUMN: what is wrong`.
fn one_line(text: &str, error: &toml::de::Error) -> String {
    let message = brief(&error.message().replace('\n', ", "));
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else {
        return message;
    };
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let column = before[start..].chars().count() + 1;
    format!("{line}:{column}: {message}")
}

/// The size of a line, if it is 64 or 128.
pub(crate) fn line_size(bytes: u64) -> Result<LineSize, MachineError> {
    LineSize::new(bytes).map_err(|_| MachineError::LineBytes(bytes))
}

fn bytes(key: &'static str, size: &Size) -> Result<u64, MachineError> {
    let text = match size {
        Size::Bytes(bytes) => return Ok(*bytes),
        Size::Text(text) => text,
    };
    let refuse = || MachineError::Size {
        key,
        value: text.clone(),
    };
    let (number, unit) = text.split_once(' ').ok_or_else(refuse)?;
    let factor: u64 = match unit {
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        _ => return Err(refuse()),
    };
    let number: u64 = number.parse().map_err(|_| refuse())?;
    number.checked_mul(factor).ok_or_else(refuse)
}

/// Checks the geometry of a private cache.
pub(crate) fn private_cache(
    cache: &'static str,
    bytes: u64,
    ways: u64,
    line: LineSize,
) -> Result<CacheShape, MachineError> {
    if bytes == 0 || ways == 0 {
        let (size, count) = match cache {
            "l1" => ("l1.size", "l1.ways"),
            "l2" => ("l2.size", "l2.ways"),
            _ => ("llc.size", "llc.ways"),
        };
        return Err(MachineError::Zero(if bytes == 0 { size } else { count }));
    }
    limit("a cache's size in bytes", bytes, CACHE_BYTES_MAX)?;
    limit("a cache's ways", ways, 256)?;
    // Both factors are limited, so the product cannot overflow.
    let divisor = ways * line.bytes();
    if bytes % divisor != 0 {
        return Err(MachineError::Indivisible {
            cache,
            bytes,
            divisor,
        });
    }
    // The low bits of the line's number select the set.
    let sets = bytes / divisor;
    if !sets.is_power_of_two() {
        return Err(MachineError::Sets { cache, sets });
    }
    Ok(CacheShape {
        sets: sets as u32,
        ways: ways as u32,
    })
}

/// Checks the geometry of a domain's last-level cache.
pub(crate) fn shared_cache(
    bytes: u64,
    ways: u64,
    slices: u64,
    index: LlcIndex,
    line: LineSize,
) -> Result<LlcShape, MachineError> {
    if slices == 0 {
        return Err(MachineError::Zero("llc.slices"));
    }
    limit("llc.slices", slices, 1024)?;
    if index == LlcIndex::Plain && slices != 1 {
        return Err(MachineError::PlainSlices(slices));
    }
    limit("a cache's size in bytes", bytes, CACHE_BYTES_MAX)?;
    if bytes % slices != 0 {
        return Err(MachineError::Indivisible {
            cache: "llc",
            bytes,
            divisor: slices,
        });
    }
    // Any number of slices: a hash chooses among them, so only a slice's sets must be a power of
    // two.
    let slice = private_cache("llc", bytes / slices, ways, line)?;
    Ok(LlcShape {
        slices: slices as u32,
        slice,
        index,
    })
}

fn latencies(table: &LatencyTable, topology: &Topology) -> Result<Latencies, MachineError> {
    let many_domains = topology.domains() > topology.sockets();
    let many_sockets = topology.sockets() > 1;
    // A distance that the topology does not have never occurs; it takes the value of the next
    // nearer one.
    let wanted = |value: Option<u32>, otherwise: u32, needed: bool, key, because| match value {
        Some(cycles) => Ok(cycles),
        None if needed => Err(MachineError::LatencyMissing { key, because }),
        None => Ok(otherwise),
    };
    let hitm_same_socket = wanted(
        table.hitm_same_socket,
        table.hitm_same_domain,
        many_domains,
        "hitm_same_socket",
        "several LLC domains in a socket",
    )?;
    let hitm_other_socket = wanted(
        table.hitm_other_socket,
        hitm_same_socket,
        many_sockets,
        "hitm_other_socket",
        "several sockets",
    )?;
    let dram_remote = wanted(
        table.dram_remote,
        table.dram_local,
        many_sockets,
        "dram_remote",
        "several sockets",
    )?;
    let latency = Latencies {
        l1: table.l1,
        l2: table.l2,
        llc: table.llc,
        hitm_same_domain: table.hitm_same_domain,
        hitm_same_socket,
        hitm_other_socket,
        dram_local: table.dram_local,
        dram_remote,
        atomic: table.atomic,
        serve: table.serve,
    };
    check_latencies(&latency)?;
    Ok(latency)
}

/// Nearer is never slower.
pub(crate) fn check_latencies(l: &Latencies) -> Result<(), MachineError> {
    if l.l1 == 0 {
        return Err(MachineError::Zero("latency_cycles.l1"));
    }
    let less = |near, near_cycles, far, far_cycles| {
        let relation = "less than";
        if near_cycles < far_cycles {
            Ok(())
        } else {
            Err(MachineError::LatencyOrder {
                near,
                near_cycles,
                relation,
                far,
                far_cycles,
            })
        }
    };
    let at_most = |near, near_cycles, far, far_cycles| {
        let relation = "at most";
        if near_cycles <= far_cycles {
            Ok(())
        } else {
            Err(MachineError::LatencyOrder {
                near,
                near_cycles,
                relation,
                far,
                far_cycles,
            })
        }
    };
    // Strictly, because equal ones would merge two levels; a modified line in the own domain may
    // arrive as soon as the cache answers.
    less("l1", l.l1, "l2", l.l2)?;
    less("l2", l.l2, "llc", l.llc)?;
    at_most("llc", l.llc, "hitm_same_domain", l.hitm_same_domain)?;
    at_most(
        "hitm_same_domain",
        l.hitm_same_domain,
        "hitm_same_socket",
        l.hitm_same_socket,
    )?;
    at_most(
        "hitm_same_socket",
        l.hitm_same_socket,
        "hitm_other_socket",
        l.hitm_other_socket,
    )?;
    less("llc", l.llc, "dram_local", l.dram_local)?;
    at_most("dram_local", l.dram_local, "dram_remote", l.dram_remote)?;
    // Serving a clean line delays the next requester no longer than a whole answer takes.
    at_most("serve", l.serve, "llc", l.llc)?;
    for (key, cycles) in [
        ("latency_cycles.hitm_other_socket", l.hitm_other_socket),
        ("latency_cycles.dram_remote", l.dram_remote),
        ("latency_cycles.atomic", l.atomic),
    ] {
        limit(key, u64::from(cycles), u64::from(LATENCY_MAX))?;
    }
    Ok(())
}

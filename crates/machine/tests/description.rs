//! Every check of a description refuses with the offending value; the shipped ones are as
//! documented.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::num::NonZeroU16;

use linemate_machine::{
    Distance, DomainId, L1Stride, L2Streamer, LineSize, LlcIndex, LogicalCpu, Machine,
    MachineError, Mechanism, Overlap, ThreadsPerCore, described, find, shipped,
};

const SOUND: &str = r#"
name = "small"
title = "2 sockets, 2 domains each, 2 cores each, SMT 2"
cpus = 16
sockets = 2
llc_domains_per_socket = 2
cores_per_llc_domain = 2
threads_per_core = 2
line_bytes = 64
frequency_mhz = 1000
[l1]
size = "4 KiB"
ways = 4
[l2]
size = 16384
ways = 8
[llc]
size = "3 MiB"
ways = 16
slices = 3
index = "hashed"
[latency_cycles]
l1 = 4
l2 = 14
llc = 50
hitm_same_domain = 100
hitm_same_socket = 200
hitm_other_socket = 400
dram_local = 300
dram_remote = 500
atomic = 20
serve = 10
"#;

fn with(from: &str, to: &str) -> Result<Machine, MachineError> {
    assert!(SOUND.contains(from), "{from:?} is not in the description");
    Machine::from_toml(&SOUND.replacen(from, to, 1))
}

#[track_caller]
fn refused(from: &str, to: &str, message: &str) {
    let error = with(from, to).expect_err("refused");
    assert_eq!(error.to_string(), message);
}

#[test]
fn a_sound_description_is_read() {
    let machine = Machine::from_toml(SOUND).unwrap();
    assert_eq!((machine.l1.sets, machine.l1.ways), (16, 4));
    assert_eq!((machine.l2.sets, machine.l2.ways), (32, 8));
    assert_eq!(
        (
            machine.llc.slices,
            machine.llc.slice.sets,
            machine.llc.slice.ways
        ),
        (3, 1024, 16)
    );
    assert_eq!(machine.llc.index, LlcIndex::Hashed);
    assert_eq!(machine.line, LineSize::B64);
    assert!(!machine.adjacent_line_pairs);
    let topology = &machine.topology;
    assert_eq!(
        (
            topology.cpus(),
            topology.cores(),
            topology.domains(),
            topology.sockets()
        ),
        (16, 8, 4, 2)
    );
    // Thread-major numbering: CPU 9 is the second thread of core 1.
    let place = topology.place(LogicalCpu(9)).unwrap();
    assert_eq!(
        (place.core.0, place.domain.0, place.socket.0, place.thread),
        (1, 0, 0, 1)
    );
    let place = topology.place(LogicalCpu(7)).unwrap();
    assert_eq!(
        (place.core.0, place.domain.0, place.socket.0, place.thread),
        (7, 3, 1, 0)
    );
    assert_eq!(topology.place(LogicalCpu(16)), None);
    assert_eq!(
        topology.distance(DomainId(0), DomainId(0)),
        Distance::Domain
    );
    assert_eq!(
        topology.distance(DomainId(0), DomainId(1)),
        Distance::Socket
    );
    assert_eq!(
        topology.distance(DomainId(1), DomainId(2)),
        Distance::Remote
    );
}

#[test]
fn cpus_are_spread_over_sockets_first_and_threads_last() {
    let topology = Machine::from_toml(SOUND).unwrap().topology;
    let numbers = |cpus: Option<Vec<LogicalCpu>>| {
        cpus.map(|cpus| cpus.into_iter().map(|cpu| cpu.0).collect::<Vec<_>>())
    };
    assert_eq!(numbers(topology.spread(2)), Some(vec![0, 4]));
    assert_eq!(numbers(topology.spread(4)), Some(vec![0, 2, 4, 6]));
    assert_eq!(
        numbers(topology.spread(8)),
        Some(vec![0, 1, 2, 3, 4, 5, 6, 7])
    );
    assert_eq!(
        numbers(topology.spread(10)),
        Some(vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 12])
    );
    assert_eq!(numbers(topology.spread(17)), None);
}

#[test]
fn recorded_threads_of_a_core_are_threads_of_one() {
    let topology = Machine::from_toml(SOUND).unwrap().topology;
    let spread = |count, threads| {
        let threads = ThreadsPerCore(NonZeroU16::new(threads).unwrap());
        let cpus = topology.spread_recorded(count, threads)?;
        Some(cpus.into_iter().map(|cpu| cpu.0).collect::<Vec<_>>())
    };
    // Threads of core n are the CPUs n and n + 8.
    assert_eq!(spread(4, 2), Some(vec![0, 8, 4, 12]));
    assert_eq!(spread(8, 2), Some(vec![0, 8, 2, 10, 4, 12, 6, 14]));
    let all = (0..8).flat_map(|core| [core, core + 8]).collect();
    assert_eq!(spread(16, 2), Some(all));
    // One each, more than a core has, and a core that is not whole.
    for (count, threads) in [(4, 1), (12, 4), (5, 2)] {
        let plain = topology.spread(count).unwrap();
        let plain: Vec<u16> = plain.into_iter().map(|cpu| cpu.0).collect();
        assert_eq!(spread(count, threads), Some(plain), "{count}, {threads}");
    }
    assert_eq!(spread(18, 2), None);
    // Two recorded cores on one with four threads, and recorded neighbours on neighbours.
    let four = SOUND.replace("threads_per_core = 2", "threads_per_core = 4");
    let four = four.replace("cpus = 16", "cpus = 32");
    let topology = Machine::from_toml(&four).unwrap().topology;
    let threads = ThreadsPerCore(NonZeroU16::new(2).unwrap());
    let cpus = topology.spread_recorded(24, threads).unwrap();
    let cores: Vec<u16> = cpus.iter().map(|cpu| cpu.0 % 8).collect();
    let expected = [0, 0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7].map(|core| [core, core]);
    assert_eq!(cores, expected.concat());
    assert_eq!(cpus.iter().collect::<BTreeSet<_>>().len(), 24);
}

#[test]
fn topology_is_checked() {
    refused("sockets = 2", "sockets = 0", "sockets is zero");
    refused(
        "cores_per_llc_domain = 2",
        "cores_per_llc_domain = 0",
        "cores_per_llc_domain is zero",
    );
    refused(
        "threads_per_core = 2",
        "threads_per_core = 0",
        "threads_per_core is zero",
    );
    refused(
        "threads_per_core = 2",
        "threads_per_core = 9",
        "threads_per_core is 9: must be at most 8",
    );
    refused(
        "sockets = 2",
        "sockets = 40",
        "sockets x llc_domains_per_socket is 80: must be at most 64",
    );
    refused(
        "cores_per_llc_domain = 2",
        "cores_per_llc_domain = 300",
        "the number of cores is 1200: must be at most 1024",
    );
    refused(
        "cpus = 16",
        "cpus = 24",
        "cpus is 24, but sockets x llc_domains_per_socket x cores_per_llc_domain x \
         threads_per_core is 16",
    );
}

#[test]
fn products_that_overflow_are_refused() {
    let text = SOUND
        .replacen("sockets = 2", "sockets = 9223372036854775807", 1)
        .replacen(
            "llc_domains_per_socket = 2",
            "llc_domains_per_socket = 4",
            1,
        );
    assert_eq!(
        Machine::from_toml(&text).unwrap_err(),
        MachineError::TooLarge {
            key: "sockets x llc_domains_per_socket",
            value: u64::MAX,
            limit: 64
        }
    );
}

#[test]
fn caches_are_checked() {
    refused("ways = 4", "ways = 0", "l1.ways is zero");
    refused("size = \"4 KiB\"", "size = 0", "l1.size is zero");
    refused(
        "line_bytes = 64",
        "line_bytes = 32",
        "line_bytes is 32; only 64 and 128 are known",
    );
    refused(
        "size = \"4 KiB\"",
        "size = \"3 KiB\"",
        "l1: 12 sets (per slice) is not a power of two",
    );
    refused(
        "size = 16384",
        "size = 16385",
        "l2: 16385 bytes do not divide into 512 (slices x ways x line_bytes)",
    );
    refused("slices = 3", "slices = 0", "llc.slices is zero");
    refused(
        "slices = 3",
        "slices = 1",
        "llc: 3072 sets (per slice) is not a power of two",
    );
    refused(
        "index = \"hashed\"",
        "index = \"plain\"",
        "llc: index = \"plain\" needs slices = 1, not 3; write index = \"hashed\"",
    );
    refused(
        "size = \"3 MiB\"",
        "size = \"99999999 MiB\"",
        "a cache's size in bytes is 104857598951424: must be at most 4294967296",
    );
    refused(
        "size = \"4 KiB\"",
        "size = \"4 KB\"",
        "l1.size: cannot read the size \"4 KB\" (write bytes, \"48 KiB\" or \"2 MiB\")",
    );
}

#[test]
fn latencies_are_checked() {
    refused("\nl1 = 4", "\nl1 = 0", "latency_cycles.l1 is zero");
    refused(
        "\nl2 = 14",
        "\nl2 = 4",
        "latency_cycles.l1 is 4, which must be less than l2 (4)",
    );
    refused(
        "hitm_same_domain = 100",
        "hitm_same_domain = 49",
        "latency_cycles.llc is 50, which must be at most hitm_same_domain (49)",
    );
    refused(
        "hitm_other_socket = 400",
        "hitm_other_socket = 199",
        "latency_cycles.hitm_same_socket is 200, which must be at most hitm_other_socket (199)",
    );
    refused(
        "dram_local = 300",
        "dram_local = 501",
        "latency_cycles.dram_local is 501, which must be at most dram_remote (500)",
    );
    refused(
        "hitm_same_socket = 200\n",
        "",
        "latency_cycles.hitm_same_socket is missing; a machine with several LLC domains in a \
         socket needs it",
    );
    refused(
        "dram_remote = 500\n",
        "",
        "latency_cycles.dram_remote is missing; a machine with several sockets needs it",
    );
    refused(
        "atomic = 20",
        "atomic = 1000001",
        "latency_cycles.atomic is 1000001: must be at most 1000000",
    );
    refused(
        "serve = 10",
        "serve = 51",
        "latency_cycles.serve is 51, which must be at most llc (50)",
    );
    refused(
        "frequency_mhz = 1000",
        "frequency_mhz = 0",
        "frequency_mhz is zero",
    );
}

const MECHANISMS: &str = "
[l2_streamer]
streams = 32
train = 3
per_request = 2
ahead = 20
outstanding = 48
[l1_stride]
entries = 24
train = 3
reach_bytes = 2048
outstanding = 16
[overlap]
window = 512
outstanding = 12
";

#[test]
fn mechanisms_are_off_unless_they_are_described() {
    let plain = Machine::from_toml(SOUND).unwrap();
    assert!(!Mechanism::ALL.iter().any(|m| plain.has(*m)));
    let machine = Machine::from_toml(&(SOUND.to_owned() + MECHANISMS)).unwrap();
    let streamer = L2Streamer {
        streams: 32,
        train: 3,
        per_request: 2,
        ahead: 20,
        outstanding: 48,
    };
    assert_eq!(machine.l2_streamer, Some(streamer));
    let stride = L1Stride {
        entries: 24,
        train: 3,
        reach: 2048,
        outstanding: 16,
    };
    assert_eq!(machine.l1_stride, Some(stride));
    let overlap = Overlap {
        window: 512,
        outstanding: 12,
    };
    assert_eq!(machine.overlap, Some(overlap));
    assert_eq!(machine.with_only(|_| false), plain);
}

#[test]
fn each_mechanism_can_be_kept_alone() {
    let text = SOUND.replacen(
        "line_bytes = 64",
        "line_bytes = 64\nadjacent_line_pairs = true",
        1,
    ) + MECHANISMS;
    let machine = Machine::from_toml(&text).unwrap();
    // Locks are in no description: every machine can be replayed with them.
    assert!(
        Mechanism::ALL
            .iter()
            .all(|m| machine.has(*m) != (*m == Mechanism::Locks))
    );
    for alone in Mechanism::ALL {
        let machine = machine.clone().with_only(|m| m == alone);
        for mechanism in Mechanism::ALL {
            assert_eq!(machine.has(mechanism), mechanism == alone, "{alone:?}");
        }
    }
}

#[test]
fn mechanisms_are_checked() {
    for (from, to, message) in [
        (
            "streams = 32",
            "streams = 0",
            "l2_streamer.streams is 0: must be at least 1",
        ),
        (
            "train = 3\nper",
            "train = 1\nper",
            "l2_streamer.train is 1: must be at least 2",
        ),
        (
            "per_request = 2",
            "per_request = 21",
            "l2_streamer.per_request is 21: must be at most 20",
        ),
        (
            "ahead = 20",
            "ahead = 64",
            "l2_streamer.ahead is 64: must be at most 63",
        ),
        (
            "outstanding = 48",
            "outstanding = 0",
            "l2_streamer.outstanding is 0: must be at least 1",
        ),
        (
            "train = 3\nreach",
            "train = 2\nreach",
            "l1_stride.train is 2: must be at least 3",
        ),
        (
            "reach_bytes = 2048",
            "reach_bytes = 63",
            "l1_stride.reach_bytes is 63: must be at least 64",
        ),
        (
            "reach_bytes = 2048",
            "reach_bytes = 4096",
            "l1_stride.reach_bytes is 4096: must be at most 4095",
        ),
        (
            "window = 512",
            "window = 0",
            "overlap.window is 0: must be at least 1",
        ),
        (
            "outstanding = 12",
            "outstanding = 1025",
            "overlap.outstanding is 1025: must be at most 1024",
        ),
    ] {
        assert!(MECHANISMS.contains(from), "{from:?}");
        let text = SOUND.to_owned() + &MECHANISMS.replacen(from, to, 1);
        let error = Machine::from_toml(&text).expect_err(to);
        assert_eq!(error.to_string(), message);
    }
    let text = SOUND.to_owned() + &MECHANISMS.replacen("window = 512", "", 1);
    let error = Machine::from_toml(&text).unwrap_err().to_string();
    assert!(error.contains("missing field `window`"), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn unknown_and_missing_keys_are_refused_by_name() {
    let error = with("[l1]", "[l1]\nbanks = 4").unwrap_err().to_string();
    assert!(error.contains("unknown field `banks`"), "{error}");
    let error = with("name = \"small\"", "").unwrap_err().to_string();
    assert!(error.contains("missing field `name`"), "{error}");
    let error = with("ways = 4", "ways = -4").unwrap_err().to_string();
    assert!(error.starts_with("not a machine description: "), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn distances_that_cannot_occur_need_no_latency() {
    let text = SOUND
        .replacen("cpus = 16", "cpus = 4", 1)
        .replacen("sockets = 2", "sockets = 1", 1)
        .replacen(
            "llc_domains_per_socket = 2",
            "llc_domains_per_socket = 1",
            1,
        )
        .replacen("hitm_same_socket = 200\nhitm_other_socket = 400\n", "", 1)
        .replacen("dram_remote = 500\n", "", 1);
    let latency = Machine::from_toml(&text).unwrap().latency;
    assert_eq!(
        (latency.hitm_same_socket, latency.hitm_other_socket),
        (100, 100)
    );
    assert_eq!(latency.dram_remote, 300);
}

#[test]
fn the_shipped_machines_are_what_their_names_say() {
    let shapes: Vec<_> = shipped()
        .iter()
        .map(|shipped| {
            let machine = find(shipped.name).unwrap();
            assert_eq!(machine.name, shipped.name);
            let t = &machine.topology;
            (
                shipped.name,
                t.cpus(),
                t.cores(),
                t.domains(),
                t.sockets(),
                machine.line.bytes(),
            )
        })
        .collect();
    assert_eq!(
        shapes,
        [
            ("gnr-2s-480", 480, 240, 6, 2, 64),
            ("hcc-2s-480", 480, 240, 2, 2, 64),
            ("power11", 480, 60, 4, 2, 128),
            ("spr-w-48", 48, 24, 1, 1, 64),
            ("turin-2s", 512, 256, 32, 2, 64),
            ("westmere-4s-80", 80, 40, 4, 4, 64),
        ]
    );
}

#[test]
fn the_workstation_has_its_caches() {
    let machine = find("spr-w-48").unwrap();
    assert_eq!(machine.l2.lines() * 64, 2 << 20);
    let llc = u64::from(machine.llc.slices) * machine.llc.slice.lines() * 64;
    assert_eq!(llc, 45 << 20);
}

/// A latency without a source in a comment above it is an unsupported claim.
#[test]
fn every_shipped_latency_has_a_comment() {
    for shipped in shipped() {
        let table = shipped.text.split("[latency_cycles]").nth(1).unwrap();
        let table = table.split("\n\n").next().unwrap();
        let above = shipped
            .text
            .lines()
            .take_while(|line| !line.starts_with("[latency_cycles]"));
        let mut commented = above.last().is_some_and(|line| line.starts_with('#'));
        for line in table.lines().filter(|line| !line.is_empty()) {
            commented |= line.starts_with('#');
            assert!(commented, "{}: {line:?} has no source", shipped.name);
        }
    }
}

/// The same holds for any other table: the comment is above it.
#[test]
fn every_shipped_mechanism_has_a_comment() {
    for shipped in shipped() {
        let machine = find(shipped.name).unwrap();
        let mechanisms = Mechanism::ALL.into_iter().filter(|m| machine.has(*m));
        for mechanism in mechanisms.filter(|m| *m != Mechanism::AdjacentLinePairs) {
            let heading = format!("[{}]", mechanism.key());
            let above = shipped.text.lines().take_while(|line| *line != heading);
            let said = above.last().is_some_and(|line| line.starts_with('#'));
            assert!(said, "{}: {heading} has no source", shipped.name);
        }
    }
}

#[test]
fn an_unknown_name_gets_the_nearest_one_if_it_is_near() {
    assert_eq!(
        find("gnr-480").unwrap_err().to_string(),
        "no machine is called \"gnr-480\"; known: gnr-2s-480, hcc-2s-480, power11, spr-w-48, turin-2s, westmere-4s-80"
    );
    let error = find("gnr-2s-80").unwrap_err().to_string();
    assert!(
        error.contains("; the nearest: gnr-2s-480; known: "),
        "{error}"
    );
}

#[test]
fn what_is_no_whole_number_is_refused_in_a_few_words() {
    let whole = "must be a whole number, without";
    for (key, value, message) in [
        ("cpus = 16", "cpus = 1e308", whole),
        ("cpus = 16", "cpus = 16.0", whole),
        ("name = \"small\"", "name = 1e308", "expected a string"),
        (
            "line_bytes = 64",
            "line_bytes = 64\nadjacent_line_pairs = 1e308",
            "…`, expected a boolean",
        ),
        ("cpus = 16", "cpus = \"16\"", whole),
        (
            "cpus = 16",
            "cpus = -1",
            "-1: must be 0 to 9223372036854775807",
        ),
        ("cpus = 16", "cpus = [16]", "expected a whole number"),
        ("llc = 50", "llc = 1e308", whole),
        (
            "llc = 50",
            "llc = 4294967296",
            "4294967296: must be 0 to 4294967295",
        ),
        ("dram_remote = 500", "dram_remote = 1e300", whole),
        (
            "size = 16384",
            "size = 1e308",
            "must be a number of bytes, \"48 KiB\" or \"2 MiB\"",
        ),
        ("size = 16384", "size = -1", "must be a number of bytes"),
        ("size = 16384", "size = true", "expected a number of bytes"),
        (
            "size = 16384",
            "size = \"2 MiB or a bit more than that, to be sure of it\"",
            "must be a number of bytes",
        ),
    ] {
        let error = with(key, value).unwrap_err().to_string();
        assert!(error.contains(message), "{value}: {error}");
        assert!(error.chars().count() < 150, "{value}: {error}");
    }
}

#[test]
fn a_machine_has_a_name_of_its_own() {
    for name in ["", " ", "\\n", "a\\u0007", &"x".repeat(65)] {
        let error = with("\"small\"", &format!("\"{name}\"")).unwrap_err();
        assert_eq!(error, MachineError::Name, "{name:?}");
        assert_eq!(
            error.to_string(),
            "name: must be 1 to 64 characters that can be printed"
        );
    }
    with("\"small\"", &format!("\"{}\"", "x".repeat(64))).unwrap();
    described(SOUND).unwrap();
    for name in ["gnr-2s-480", "power11", "this"] {
        let error = described(&SOUND.replace("small", name)).unwrap_err();
        assert_eq!(error, MachineError::NameTaken(name.to_owned()));
    }
    // A copy is the same machine.
    for known in shipped() {
        assert_eq!(described(known.text).unwrap().name, known.name);
    }
}

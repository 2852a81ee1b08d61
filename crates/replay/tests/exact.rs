//! Exact counts: every transition, class and wait, from scripts (the language is in `script`).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;
mod script;

use common::machine;
use script::check;

/// Name, changes to the small machine, script.
type Case = (
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static str,
);

const PLAIN: &[(&str, &str)] = &[];
/// Room enough that nothing is evicted.
const ROOMY: &[(&str, &str)] = &[
    ("size = 128\nways = 2", "size = 1024\nways = 2"),
    ("size = 256\nways = 4", "size = 4096\nways = 4"),
    ("size = 512\nways = 8", "size = 32768\nways = 8"),
];
const PAIRS: &[(&str, &str)] = &[
    ("size = 128\nways = 2", "size = 1024\nways = 2"),
    ("size = 256\nways = 4", "size = 4096\nways = 4"),
    ("size = 512\nways = 8", "size = 32768\nways = 8"),
    (
        "line_bytes = 64",
        "line_bytes = 64\nadjacent_line_pairs = true",
    ),
];
const LONG: &[(&str, &str)] = &[
    ("line_bytes = 64", "line_bytes = 128"),
    ("size = 128\nways = 2", "size = 2048\nways = 2"),
    ("size = 256\nways = 4", "size = 4096\nways = 4"),
    ("size = 512\nways = 8", "size = 32768\nways = 8"),
];

const TRANSITIONS: &[Case] = &[
    (
        "I to E: read, alone",
        PLAIN,
        "0 R A.0 = dram_local cold 300 | A:E",
    ),
    (
        "E stays E: own read",
        PLAIN,
        "0 R A.0\n0 R A.8 = l1 - 4 | A:E",
    ),
    (
        "E to M: own write, silently",
        PLAIN,
        "0 R A.0\n0 W A.0 = l1 - 4 | A:M",
    ),
    (
        "E to M: own atomic",
        PLAIN,
        "0 R A.0\n0 X A.0 = l1 - 24 | A:M",
    ),
    (
        "I to M: write, alone",
        PLAIN,
        "0 W A.0 = dram_local cold 300 | A:M",
    ),
    (
        "I to M: atomic, alone",
        PLAIN,
        "0 X A.0 = dram_local cold 320 | A:M",
    ),
    (
        "M stays M: own read",
        PLAIN,
        "0 W A.0\n0 R A.8 = l1 - 4 | A:M",
    ),
    (
        "M stays M: own write",
        PLAIN,
        "0 W A.0\n0 W A.8 = l1 - 4 | A:M",
    ),
    (
        "M to S: another's read",
        PLAIN,
        "0 W A.0\n1 R A.0 = hitm_domain cold 100 | A:SF",
    ),
    (
        "M to I: another's write",
        PLAIN,
        "0 W A.0\n1 W A.0 = hitm_domain cold 100 | A:.M",
    ),
    (
        "M to I: another's atomic",
        PLAIN,
        "0 W A.0\n1 X A.0 = hitm_domain cold 120 | A:.M",
    ),
    (
        "E to S: another's read",
        PLAIN,
        "0 R A.0\n1 R A.0 = llc cold 50 | A:SF",
    ),
    // The data is available after 50 cycles, the other's copy is gone after 100.
    (
        "E to I: another's write",
        PLAIN,
        "0 R A.0\n1 W A.0 = llc cold 100 | A:.M",
    ),
    (
        "S and F stay: own reads",
        PLAIN,
        "0 R A.0\n1 R A.0\n0 R A.0 = l1 - 4 | A:SF\n1 R A.0 = l1 - 4 | A:SF",
    ),
    (
        "F passes to the newest reader",
        ROOMY,
        "0 R A.0\n1 R A.0 | A:SF\n2 R A.0 = forward_socket cold 200 | A:SSF",
    ),
    (
        "S to M: upgrade",
        PLAIN,
        "0 R A.0\n1 R A.0\n0 W A.0 = upgrade true 100 | A:M",
    ),
    (
        "F to M: upgrade",
        PLAIN,
        "0 R A.0\n1 R A.0\n1 W A.0 = upgrade true 100 | A:.M",
    ),
    (
        "S to M: atomic upgrade",
        PLAIN,
        "0 R A.0\n1 R A.0\n0 X A.0 = upgrade true 120 | A:M",
    ),
    (
        "S and F to I: a third core's write",
        ROOMY,
        "0 R A.0\n1 R A.0\n2 W A.0 = forward_socket cold 200 | A:..M",
    ),
    (
        "M, S, M again: write, be read, write",
        PLAIN,
        "0 W A.0\n1 R A.0 | A:SF\n0 W A.0 = upgrade true 100 | A:M",
    ),
    (
        "I to F beside an LLC copy elsewhere",
        PLAIN,
        // Core 0's copy is pushed out of L1 and L2, the LLC of its domain keeps one.
        "0 R A.0\n0 R B.0\n0 R C.0\n0 R D.0\n0 R E.0\n0 R F.0 | A:\n2 R A.0 = forward_socket cold 200 | A:..F",
    ),
    (
        "E to I: eviction",
        PLAIN,
        "0 R A.0\n0 R B.0\n0 R C.0\n0 R D.0\n0 R E.0 | A: E:E",
    ),
    (
        "M to I: eviction writes back to the LLC",
        PLAIN,
        "0 W A.0\n0 R B.0\n0 R C.0\n0 R D.0\n0 R E.0\n0 R F.0 | A:\n1 R A.0 = llc cold 50 | A:.E",
    ),
    (
        "M to E: L2 lets the modified copy go while L1 has a clean one",
        PLAIN,
        // A goes to L2 modified, comes back clean to L1, and is then pushed out of L2 while L1 uses
        // it.
        "0 W A.0\n0 R B.0\n0 R C.0\n0 R A.0 = l2 - 14 | A:M\n0 R D.0\n0 R A.0 = l1 - 4\n0 R E.0\n0 R A.0 = l1 - 4\n0 R F.0\n0 R A.0 = l1 - 4\n0 R G.0 | A:E",
    ),
];

const DISTANCES: &[Case] = &[
    (
        "HITM in the domain",
        PLAIN,
        "0 W A.0\n1 R A.0 = hitm_domain cold 100",
    ),
    (
        "HITM in the socket",
        PLAIN,
        "0 W A.0\n2 R A.0 = hitm_socket cold 200",
    ),
    (
        "HITM from the other socket",
        PLAIN,
        "0 W A.0\n4 R A.0 = hitm_remote cold 400",
    ),
    (
        "clean copy in the domain",
        PLAIN,
        "0 R A.0\n1 R A.0 = llc cold 50",
    ),
    (
        "clean copy in the socket",
        PLAIN,
        "0 R A.0\n3 R A.0 = forward_socket cold 200",
    ),
    (
        "clean copy on the other socket",
        PLAIN,
        "0 R A.0\n7 R A.0 = forward_remote cold 400",
    ),
    (
        "the nearest of two copies serves",
        PLAIN,
        "0 R A.0\n4 R A.0\n5 R A.0 = llc cold 50\n2 R A.0 = forward_socket cold 200",
    ),
    (
        "upgrade across the domain",
        PLAIN,
        "0 R A.0\n2 R A.0\n0 W A.0 = upgrade true 200 | A:M",
    ),
    (
        "upgrade across sockets",
        PLAIN,
        "0 R A.0\n4 R A.0\n0 W A.0 = upgrade true 400 | A:M",
    ),
    (
        "upgrade waits for the farthest copy",
        PLAIN,
        "0 R A.0\n1 R A.0\n4 R A.0\n0 W A.0 = upgrade true 400 | A:M",
    ),
    (
        "memory of the own socket",
        PLAIN,
        "5 R A.0 = dram_local cold 300",
    ),
    (
        "memory of the other socket",
        PLAIN,
        // Core 4's first touch makes socket 1 A's home; the LLCs' eight ways are then used up by
        // both sockets.
        "4 R A.0\n4 R B.0\n4 R C.0\n4 R D.0\n4 R E.0\n4 R F.0\n4 R G.0\n4 R H.0\n4 R I.0 | A:\n0 R A.0 = dram_remote cold 500\n4 R A.0 = forward_remote capacity 400",
    ),
    (
        "a write takes the LLC copies of other domains away",
        PLAIN,
        "0 R A.0\n2 R A.0\n0 W A.0\n2 R A.0 = hitm_socket true 200",
    ),
];

const SHARING: &[Case] = &[
    (
        "ping-pong on one word is true sharing",
        PLAIN,
        "0 W A.0 = dram_local cold 300\n1 W A.0 = hitm_domain cold 100\n0 W A.0 = hitm_domain true 100\n1 W A.0 = hitm_domain true 100",
    ),
    (
        "ping-pong on two words is false sharing",
        PLAIN,
        "0 W A.0\n1 W A.8\n0 W A.0 = hitm_domain false 100\n1 W A.8 = hitm_domain false 100",
    ),
    (
        "a miss is true sharing if a later access of its lifetime uses the new word",
        PLAIN,
        "0 R A.0\n1 W A.8\n0 R A.0 = hitm_domain true 100\n0 R A.8 = l1 - 4",
    ),
    (
        "and false if it is taken away before",
        PLAIN,
        "0 R A.0\n1 W A.8\n0 R A.0 = hitm_domain false 100\n1 W A.8 = upgrade false 100\n0 R A.8 = hitm_domain true 100",
    ),
    (
        "and false if it is evicted before",
        PLAIN,
        "0 R A.0\n1 W A.8\n0 R A.0 = hitm_domain false 100\n0 R B.0\n0 R C.0\n0 R D.0\n0 R E.0\n0 R F.0\n0 R A.8 = llc capacity 50",
    ),
    (
        "an undelivered word stays pending over false misses",
        PLAIN,
        // Core 0 never looks at A.8 until the last miss: that one delivers both writes.
        "0 R A.0\n1 W A.8\n0 R A.0 = hitm_domain false 100\n1 W A.16\n0 R A.0 = hitm_domain false 100\n1 W A.24\n0 R A.8 = hitm_domain true 100",
    ),
    (
        "an essential miss delivers the whole line",
        PLAIN,
        // The true miss on A.8 delivers A.16 too, so looking at A.16 after the next miss is nothing
        // new.
        "0 R A.0\n1 W A.8\n1 W A.16\n0 R A.8 = hitm_domain true 100\n1 W A.24\n0 R A.16 = hitm_domain false 100",
    ),
    (
        "overlapping bytes are shared",
        PLAIN,
        "0 R A.0+8\n1 W A.7+1\n0 R A.0+8 = hitm_domain true 100",
    ),
    (
        "neighbouring bytes are not",
        PLAIN,
        "0 R A.0+8\n1 W A.8+1\n0 R A.0+8 = hitm_domain false 100",
    ),
    (
        "an upgrade is true if a reader used a written word",
        PLAIN,
        "0 R A.0\n1 R A.8\n1 R A.4\n0 W A.4 = upgrade true 100",
    ),
    (
        "an upgrade is false if no reader did",
        PLAIN,
        "0 R A.0\n1 R A.8\n1 R A.4\n0 W A.0 = upgrade false 100",
    ),
    (
        "what a reader touched goes with its copy",
        PLAIN,
        // Core 1's first copy touched A.0, the present one only A.8.
        "0 R A.0\n1 R A.0\n0 W A.0 = upgrade true 100\n1 R A.8 = hitm_domain false 100\n0 W A.0 = upgrade false 100",
    ),
    (
        "what a reader touched counts also from L2",
        PLAIN,
        "0 R A.0\n1 R A.4\n1 R B.0\n1 R C.0\n0 W A.4 = upgrade true 100",
    ),
    (
        "what a reader touched counts also after L2 gave it back to L1",
        PLAIN,
        "0 R A.0\n1 R A.4\n1 R B.0\n1 R C.0\n1 R A.8 = l2 - 14\n1 R D.0\n1 R A.8\n1 R E.0\n1 R A.8\n1 R F.0\n1 R A.8\n1 R G.0\n0 W A.4 = upgrade true 100",
    ),
    (
        "an upgrade against an LLC copy alone is unshared",
        PLAIN,
        "0 R A.0\n2 R A.0\n2 R B.0\n2 R C.0\n2 R D.0\n2 R E.0\n2 R F.0 | A:S\n0 W A.0 = upgrade unshared 200 | A:M",
    ),
    (
        "an upgrade against nobody is unshared",
        PLAIN,
        "0 R A.0\n1 R A.0\n1 R B.0\n1 R C.0\n1 R D.0\n1 R E.0\n1 R F.0 | A:S\n0 W A.0 = upgrade unshared 50 | A:M",
    ),
    (
        "a line lost to eviction and written meanwhile is a capacity miss",
        PLAIN,
        "0 R A.0\n0 R B.0\n0 R C.0\n0 R D.0\n0 R E.0\n0 R F.0 | A:\n1 W A.0\n0 R A.0 = hitm_domain capacity 100",
    ),
    (
        "two readers of one write both miss truly",
        ROOMY,
        "0 W A.0\n1 R A.0\n2 R A.0\n0 W A.0 = upgrade true 200\n1 R A.0 = hitm_domain true 100\n2 R A.0 = forward_socket true 200",
    ),
    (
        "the writer's own re-read is not a sharing",
        PLAIN,
        "0 W A.0\n1 W A.8\n0 R A.0 = hitm_domain false 100",
    ),
    (
        "a write is published also when its owner evicts it",
        PLAIN,
        "0 R A.8\n1 W A.8\n1 R B.0\n1 R C.0\n1 R D.0\n1 R E.0\n1 R F.0 | A:\n0 R A.8 = llc true 50",
    ),
];

const QUEUES: &[Case] = &[
    (
        "a transfer keeps the line: the next one waits for its end",
        PLAIN,
        "0 W A.0 = dram_local cold 300\n@1000 1 W A.0 = hitm_domain cold 100\n@1010 2 W A.0 = hitm_socket cold 290 (90)",
    ),
    (
        "waits add up",
        PLAIN,
        "0 W A.0\n@1000 1 W A.0 = hitm_domain cold 100\n@1000 2 W A.0 = hitm_socket cold 300 (100)\n@1000 4 W A.0 = hitm_remote cold 700 (300)\n@1000 0 W A.0 = hitm_remote true 1100 (700)",
    ),
    (
        "a request after the end does not wait",
        PLAIN,
        "0 W A.0\n@1000 1 W A.0 = hitm_domain cold 100\n@1100 2 W A.0 = hitm_socket cold 200",
    ),
    (
        "an atomic keeps the line while it works",
        PLAIN,
        "0 W A.0\n@1000 1 X A.0 = hitm_domain cold 120\n@1000 2 X A.0 = hitm_socket cold 340 (120)",
    ),
    (
        "clean reads keep the line only for as long as it takes to serve them",
        PLAIN,
        "0 R A.0\n@1000 1 R A.0 = llc cold 50\n@1000 2 R A.0 = forward_socket cold 210 (10)\n@1000 4 R A.0 = forward_remote cold 420 (20)",
    ),
    (
        "a read of modified data is a transfer, the reads after it are clean",
        PLAIN,
        "0 W A.0\n@1000 1 R A.0 = hitm_domain cold 100\n@1000 2 R A.0 = forward_socket cold 300 (100)\n@1000 3 R A.0 = llc cold 160 (110)",
    ),
    (
        "an upgrade is a transfer",
        PLAIN,
        "0 R A.0\n1 R A.0\n@1000 0 W A.0 = upgrade true 100\n@1000 1 R A.0 = hitm_domain true 200 (100)",
    ),
    (
        "two lines do not wait for each other",
        PLAIN,
        "0 W A.0\n0 W B.0\n@1000 1 W A.0 = hitm_domain cold 100\n@1000 2 W B.0 = hitm_socket cold 200",
    ),
    (
        "private hits never wait",
        PLAIN,
        "0 W A.0\n@1000 1 R A.0 = hitm_domain cold 100\n@1001 0 R A.0 = l1 - 4",
    ),
    (
        "the first fetch from memory is a clean read",
        PLAIN,
        "@0 0 R A.0 = dram_local cold 300\n@0 1 R A.0 = llc cold 60 (10)",
    ),
    (
        "a first write keeps the line until memory has answered",
        PLAIN,
        "@0 0 W A.0 = dram_local cold 300\n@0 1 R A.0 = hitm_domain cold 400 (300)",
    ),
];

const THREADS: &[Case] = &[
    (
        "threads of a core share L1",
        PLAIN,
        "0 W A.0\n8 R A.0 = l1 - 4 | A:M",
    ),
    (
        "threads of a core write without transfer",
        PLAIN,
        "0 W A.0\n8 W A.0 = l1 - 4\n0 X A.0 = l1 - 24 | A:M",
    ),
    (
        "a thread's write is pending for other cores once",
        PLAIN,
        "1 R A.0\n8 W A.0\n0 W A.8\n1 R A.8 = hitm_domain true 100\n9 R A.0 = l1 - 4",
    ),
    (
        "threads of a core crowd each other out",
        PLAIN,
        "0 R A.0\n8 R B.0\n8 R C.0\n0 R A.0 = l2 - 14",
    ),
    (
        "a thread's use decides the core's miss",
        PLAIN,
        "0 R A.0\n1 W A.8\n0 R A.0 = hitm_domain true 100\n8 R A.8 = l1 - 4",
    ),
];

const CAPACITY: &[Case] = &[
    (
        "the way used longest ago leaves L1",
        PLAIN,
        "0 R A.0\n0 R B.0\n0 R A.0 = l1 - 4\n0 R C.0\n0 R A.0 = l1 - 4\n0 R B.0 = l2 - 14",
    ),
    (
        "what leaves L2 is in the LLC",
        PLAIN,
        "0 R A.0\n0 R B.0\n0 R C.0\n0 R D.0\n0 R E.0\n0 R A.0 = llc capacity 50 | A:E",
    ),
    (
        "what leaves the LLC is in memory",
        PLAIN,
        "0 R A.0\n0 R B.0\n0 R C.0\n0 R D.0\n0 R E.0\n0 R F.0\n0 R G.0\n0 R H.0\n0 R I.0\n0 R A.0 = dram_local capacity 300",
    ),
    (
        "L2 does not include L1",
        PLAIN,
        // L1 keeps A in use; L2, which sees none of that, lets it go.
        "0 R A.0\n0 R B.0\n0 R A.0\n0 R C.0\n0 R A.0\n0 R D.0\n0 R A.0\n0 R E.0\n0 R A.0 = l1 - 4 | A:E",
    ),
    (
        "a modified line that left L2 first comes back to it from L1",
        PLAIN,
        "0 W A.0\n0 R B.0\n0 R A.0\n0 R C.0\n0 R A.0\n0 R D.0\n0 R A.0\n0 R E.0\n0 R F.0 | A:M\n0 R A.0 = l2 - 14",
    ),
    (
        "an upgrade of a line found in L2",
        PLAIN,
        "0 R A.0\n1 R A.0\n0 R B.0\n0 R C.0\n0 W A.0 = upgrade true 100 | A:M\n0 W A.0 = l1 - 4",
    ),
];

const PREFETCH: &[Case] = &[
    (
        "a miss brings the pair's other line to L2",
        PAIRS,
        "0 R A.0 = dram_local cold 300 | A:E B:E\n0 R B.0 = l2 - 14",
    ),
    (
        "the pair of an odd line is the even one",
        PAIRS,
        "0 R D.0 | C:E D:E\n0 R C.0 = l2 - 14",
    ),
    (
        "a write brings the other line as if read",
        PAIRS,
        "0 W A.0 | A:M B:E\n0 W B.0 = l2 - 14 | A:M B:M",
    ),
    (
        "the other line is taken from a core that had modified it",
        PAIRS,
        "1 W B.0 | A:.E B:.M\n0 R A.0 = llc cold 50 | A:FS B:FS",
    ),
    // The fetch of B begins with the miss of A and takes 100: 50 of them are left when the write
    // comes.
    (
        "false sharing across a pair: an upgrade that nobody's use caused",
        PAIRS,
        "1 W B.0\n0 R A.0 | A:FS B:FS\n1 W B.0 = upgrade false 150 (50) | B:.M",
    ),
    (
        "without pairs the other line stays where it is",
        ROOMY,
        "1 W B.0\n0 R A.0 = dram_local cold 300 | A:E B:.M\n1 W B.0 = l1 - 4",
    ),
];

const LONG_LINES: &[Case] = &[
    (
        "bytes 0 and 64 are on one line of 128",
        LONG,
        "0 W A.0\n0 R A.64 = l1 - 4",
    ),
    (
        "and are falsely shared there",
        LONG,
        "0 W A.0\n1 W A.64\n0 W A.0 = hitm_domain false 100\n1 W A.64 = hitm_domain false 100",
    ),
    (
        "a word of a 128-byte line is 2 bytes",
        LONG,
        "0 R A.0\n1 W A.1\n0 R A.0 = hitm_domain true 100\n1 W A.2 = upgrade false 100\n0 R A.0 = hitm_domain false 100",
    ),
    (
        "the last word of a 128-byte line",
        LONG,
        "0 R A.127\n1 W A.126\n0 R A.127 = hitm_domain true 100",
    ),
];

#[test]
fn transitions() {
    run(TRANSITIONS);
}

#[test]
fn distances() {
    run(DISTANCES);
}

#[test]
fn sharing() {
    run(SHARING);
}

#[test]
fn queues() {
    run(QUEUES);
}

#[test]
fn threads() {
    run(THREADS);
}

#[test]
fn capacity() {
    run(CAPACITY);
}

#[test]
fn prefetch() {
    run(PREFETCH);
}

#[test]
fn long_lines() {
    run(LONG_LINES);
}

#[test]
fn there_are_enough_cases_and_no_name_twice() {
    let all = [
        TRANSITIONS,
        DISTANCES,
        SHARING,
        QUEUES,
        THREADS,
        CAPACITY,
        PREFETCH,
        LONG_LINES,
    ];
    let mut names: Vec<&str> = all.into_iter().flatten().map(|case| case.0).collect();
    let cases = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), cases);
    assert!(cases >= 60, "{cases}");
}

#[track_caller]
fn run(cases: &[Case]) {
    let mut failed = Vec::new();
    for (name, changes, script) in cases {
        let machine = machine(changes);
        if let Err(panic) = std::panic::catch_unwind(|| check(&machine, script)) {
            let text = panic
                .downcast::<String>()
                .map_or_else(|_| "?".to_owned(), |text| *text);
            failed.push(format!("{name}: {text}"));
        }
    }
    assert!(
        failed.is_empty(),
        "{} cases failed\n\n{}",
        failed.len(),
        failed.join("\n")
    );
}

//! What the columns of tables mean.

use std::fmt::Write as _;

/// The columns of all tables whose titles do not say it all.
const LEGEND: &[(&str, &str)] = &[
    ("accesses", "loads, stores and RMWs"),
    (
        "shared",
        "accesses to bytes of an object that come from another CPU: loads of what that CPU wrote, writes to what it used",
    ),
    (
        "loads",
        "accesses that only read, hits included; with --machine: of all replayed CPUs",
    ),
    (
        "stores",
        "accesses that only write, likewise; with --machine or in `diff`: with RMWs",
    ),
    ("RMW", "atomic read-modify-writes"),
    (
        "silent",
        "stores and RMWs that are known to have left memory unchanged",
    ),
    (
        "other CPUs",
        "share of the accesses made by CPUs other than the object's owner; empty if objects have no owner",
    ),
    ("readers", "CPUs that read"),
    ("writers", "CPUs that write"),
    (
        "most by",
        "the functions with the most accesses, or cycles, most first",
    ),
    ("most in", "what most accesses go to, most first"),
    ("size", "bytes"),
    ("offset", "bytes from the type's start, or from the line's"),
    (
        "line",
        "the line of the type, from 0, if an object starts at a line's start",
    ),
    (
        "objects",
        "heap objects that were accessed, by their addresses",
    ),
    (
        "where",
        "the kind of memory, and the variable or allocation site, most accessed first",
    ),
    (
        "type or variable",
        "the outermost type of an object; nested types count for it (--type T: every T, nested or not)",
    ),
    (
        "class",
        "atomic: locks and the like; read by others: by CPUs other than the owner, more than the type's average; shared: moves from CPU to CPU, objects have no owner; own: the rest",
    ),
    ("loads : stores", "loads for each store; an RMW is both"),
    (
        "to other CPUs' objects",
        "share of the accesses that went to objects owned by another CPU",
    ),
    (
        "left the core",
        "accesses that the core's own caches could not serve: HITM, upgrades, LLC, clean copies and memory together",
    ),
    ("cycles", "of accesses that left their core"),
    ("share", "of all cycles, or of all accesses"),
    (
        "waited",
        "share of the cycles spent waiting for other CPUs' accesses to the line",
    ),
    (
        "HITM",
        "loads and stores of lines that another core had modified",
    ),
    (
        "HITM domain",
        "modified lines fetched from a core with the same last-level cache",
    ),
    ("HITM socket", "likewise, from another cache of the socket"),
    ("HITM remote", "likewise, from another socket"),
    (
        "upgrades",
        "write permission requested for a line that is in the cache",
    ),
    (
        "LLC",
        "clean lines from the last-level cache, or from another core with the same one",
    ),
    ("clean copies", "clean lines from another last-level cache"),
    ("memory", "lines fetched from memory"),
    (
        "true sharing",
        "share of the cycles: before it loses the line again, the core uses a word that another core wrote, of this field or of a neighbour",
    ),
    (
        "false sharing",
        "share of the cycles: another core took the line, and no word that it wrote is used",
    ),
    ("cold", "share of the cycles: the core never had the line"),
    (
        "capacity",
        "share of the cycles: its caches had no room for the line",
    ),
    (
        "unshared",
        "share of the cycles: write permission requested while no other core had the line",
    ),
    (
        "sets reached",
        "sets of the cache that at least one of the lines falls into; each cache taken whole",
    ),
    (
        "beyond the ways",
        "lines beyond the ways of their set: they evict each other",
    ),
    ("load misses", "loads that left their core"),
    ("store misses", "stores and RMWs that left their core"),
    ("mean", "mean cycles of a load miss"),
    ("wrote last", "the CPU that had modified the lines"),
    ("taken by", "the CPU that fetched them"),
    ("modified lines", "how many"),
    (
        "misses before",
        "accesses that left their core, without the edits; after: with them",
    ),
    (
        "accesses before",
        "accesses that this source served, without the edits; after: with them",
    ),
    (
        "cost before",
        "cycles of accesses that left their core, without the edits",
    ),
    (
        "change",
        "with the edits minus without, ± its 95 % confidence interval; of two recordings: B minus A",
    ),
    (
        "per million A",
        "accesses to the field per million accesses of the first recording, independent of the length of the run",
    ),
    ("per million B", "the same for the second recording"),
    ("change %", "B minus A, relative to A"),
    (
        "cycles/access A",
        "cycles for each access to the field, on average, in the first recording",
    ),
    ("cycles/access B", "the same for the second recording"),
    ("cycles change %", "B minus A, relative to A"),
    (
        "verdict",
        "better or worse if the interval excludes 0, else not significant; negligible: rounds to 0 %",
    ),
    (
        "alone",
        "the edit's effect without the others; of lines: touched by one CPU only",
    ),
    (
        "weight",
        "weight of this curve in the prediction, which mixes several curves",
    ),
    (
        "residual",
        "root-mean-square distance of the curve from the recorded counts, relative to their mean",
    ),
    (
        "a",
        "accesses per CPU = a + b·n^c on n CPUs: the curve with the largest weight",
    ),
    (
        "factor",
        "predicted accesses per CPU divided by those of the recording with the most CPUs",
    ),
    (
        "last",
        "the edit's effect when all others are already applied",
    ),
];

/// A line for each of these titles that has an explanation.
pub(crate) fn lines<'t>(titles: impl Iterator<Item = &'t str>) -> String {
    let titles: Vec<&str> = titles.collect();
    let mut out = String::new();
    for (title, meaning) in LEGEND {
        if titles.contains(title) {
            // Writing to a String does not fail.
            let _ = writeln!(out, "  {title}: {meaning}");
        }
    }
    out
}

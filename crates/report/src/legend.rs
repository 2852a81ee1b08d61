//! What the columns of tables mean.

use std::fmt::Write as _;

/// The columns of all tables whose titles do not say it all.
const LEGEND: &[(&str, &str)] = &[
    ("accesses", "loads, stores and RMWs"),
    (
        "shared",
        "accesses to bytes of an object that come from another CPU: loads of what it wrote, writes to what it used",
    ),
    (
        "loads",
        "accesses that only read, whether they leave their core or not; on a machine: of all CPUs replayed",
    ),
    (
        "stores",
        "accesses that only write, likewise; on a machine or in two recordings: with RMWs",
    ),
    ("RMW", "atomic read-modify-writes"),
    (
        "silent",
        "stores and RMWs that are known to have left memory as it was",
    ),
    (
        "other CPUs",
        "share of the accesses that other CPUs than the object's owner made; empty where objects have no owner",
    ),
    ("readers", "CPUs that read"),
    ("writers", "CPUs that write"),
    (
        "most by",
        "the functions with most accesses, or most cycles, most first",
    ),
    ("most in", "what most of the accesses are to, most first"),
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
        "what kind of memory, and the variable or the place of allocation, most accessed first",
    ),
    (
        "type or variable",
        "the outermost type of an object, over all its objects; what is inside other types counts for those (--type T: T wherever it is)",
    ),
    (
        "class",
        "atomic: locks and the like; read by others: by other CPUs than the owner, more than the type on average; shared: of objects without an owner, goes from CPU to CPU; own: the rest",
    ),
    ("loads : stores", "loads for each store; an RMW is both"),
    (
        "to other CPUs' objects",
        "share of the accesses that went to what another CPU owns",
    ),
    (
        "left the core",
        "accesses that the core's own caches could not serve: HITM, upgrades, LLC, clean copies and memory together",
    ),
    ("cycles", "of accesses that left their core"),
    ("share", "of all cycles, or of all accesses"),
    (
        "waited",
        "share of the cycles spent waiting until others had done with the line",
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
        "permission to write asked for, with the line in the cache",
    ),
    (
        "LLC",
        "clean lines from the last-level cache, or from another core with the same one",
    ),
    ("clean copies", "clean lines from another last-level cache"),
    ("memory", "lines fetched from memory"),
    (
        "true sharing",
        "share of the cycles: another core wrote the very word",
    ),
    (
        "false sharing",
        "share of the cycles: another core wrote the line, not the word",
    ),
    ("cold", "share of the cycles: the core never had the line"),
    (
        "capacity",
        "share of the cycles: its caches had no room for the line",
    ),
    (
        "unshared",
        "share of the cycles: permission to write asked for, with no other core that had the line",
    ),
    (
        "sets reached",
        "sets of the cache that at least one of the lines falls into; each cache taken whole",
    ),
    (
        "beyond the ways",
        "lines for which their set has no way: they throw each other out",
    ),
    ("load misses", "loads that left their core"),
    ("store misses", "stores and RMWs that left their core"),
    ("each", "cycles of each load miss, on average"),
    ("wrote last", "the CPU that had modified the lines"),
    ("taken by", "the CPU that fetched them"),
    ("modified lines", "how many"),
    (
        "misses before",
        "accesses that left their core, without the edits; after: with them",
    ),
    (
        "accesses before",
        "accesses that were served from there, without the edits; after: with them",
    ),
    (
        "cost before",
        "cycles of accesses that left their core, without the edits",
    ),
    (
        "change",
        "with the edits minus without, ± its 95 % confidence interval",
    ),
    (
        "of 1 M A",
        "accesses to the field of each million of all in the first recording: what is left of the runs' lengths",
    ),
    ("of 1 M B", "likewise, in the second"),
    ("in per cent", "how much more of a million in the second"),
    (
        "each A",
        "cycles for each access to the field, on average, in the first recording",
    ),
    ("each B", "likewise, in the second"),
    (
        "cycles in per cent",
        "how much more for each access in the second",
    ),
    (
        "verdict",
        "better or worse if the interval does not hold 0, else not significant; negligible: below what the per cents show",
    ),
    (
        "alone",
        "the edit's effect without the others; lines: that only one CPU touches",
    ),
    (
        "weight",
        "the curve's share of the prediction, which several curves have a part in",
    ),
    (
        "residual",
        "how far the curve is from the recorded counts: root mean square, in parts of their mean",
    ),
    (
        "a",
        "accesses per CPU = a + b·n^c on n CPUs: the curve with the largest share",
    ),
    (
        "times",
        "predicted accesses per CPU divided by those of the recording with the most CPUs",
    ),
    ("last", "the edit's effect when all others are made already"),
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

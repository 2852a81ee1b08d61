//! The tables' rows. Cycles are core cycles of accesses that left their core; sizes and offsets are
//! bytes; shares go from 0 to 1.

use super::{Cells, Schema, TableRow, Value};
use crate::Figures;

/// Declares a table by its rows: a column has the name of its field, or the one in quotes.
macro_rules! table {
    (
        $(#[doc = $about:literal])+
        $row:ident, $table:literal {
            $( $(#[doc = $meaning:literal])+ $name:literal $field:ident: $cell:ty, )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $row {
            $( $(#[doc = $meaning])+ pub $field: $cell, )+
        }

        impl TableRow for $row {
            fn schema() -> Schema {
                let columns = [
                    $( <$cell as Cells>::columns($name, concat!($($meaning),+)), )+
                ];
                Schema::new($table, concat!($($about),+), columns.concat())
            }

            fn values(self) -> Vec<Value> {
                let mut row = Vec::new();
                $( self.$field.add_to(&mut row); )+
                row
            }
        }
    };
}

table! {
    /// A run: a recording, a replay, a what-if, or one of these that failed.
    RunsRow, "runs" {
        /// `recording`, `replay`, `what-if`, or `failure`: then only the reason is known.
        "about" about: &'static str,
        /// Why the run failed.
        "reason" reason: Option<String>,
        /// The recording's checksum, which joins a replay with its recording.
        "recording" recording: Option<String>,
        /// The command that was recorded.
        "command" command: Option<String>,
        /// The number of recorded CPUs.
        "cpus" cpus: Option<u64>,
        /// The recording's description of its run, as a JSON object.
        "description" description: Option<String>,
        /// Version of linemate that recorded; null of replays.
        "recorded_by" recorded_by: Option<String>,
        /// Version of linemate that exported.
        "tool" tool: String,
        /// Accesses in the recording.
        "accesses" accesses: Option<u64>,
        /// The ledger's sum, the same number; of recordings.
        "ledger_total" ledger_total: Option<u64>,
        /// As in [report](json/report.md); of recordings.
        "typed_share" typed_share: Option<f64>,
        /// Likewise the share of which nothing is known.
        "unknown_share" unknown_share: Option<f64>,
        /// The machine as `linemate machines --json` has it.
        "machine_description" machine_description: Option<String>,
        /// The size of its lines.
        "line_bytes" line_bytes: Option<u64>,
        /// The number of replayed CPUs.
        "replayed_cpus" replayed_cpus: Option<usize>,
        /// The (first) interleaving's seed.
        "interleaving" interleaving: Option<u64>,
        /// The number of replayed interleavings.
        "interleavings" interleavings: Option<usize>,
        /// Other options that decide the figures, as a JSON object.
        "options" options: Option<String>,
        /// The edits, as a file has them.
        "edits" edits: Option<String>,
        /// Accesses to device registers; of replays, as all that follows.
        "device_accesses" device_accesses: Option<u64>,
        /// Accesses that left their core.
        "misses" misses: Option<u64>,
        /// The cycles of those.
        "cycles" cycles: Option<u64>,
        /// Cycles that no CPU waited because misses overlapped; in no row of `costs`.
        "overlapped_cycles" overlapped_cycles: Option<u64>,
        /// From the replay's start to its end.
        "duration_cycles" duration_cycles: Option<u64>,
    }
}

table! {
    /// Where accesses went; the sum is `runs.ledger_total`.
    LedgerRow, "ledger" {
        /// The ledger section ([attribution.md](../model/attribution.md)).
        "ledger_group" group: String,
        /// The bucket of that section.
        "bucket" bucket: String,
        /// The accesses of the bucket.
        "accesses" accesses: u64,
    }
}

table! {
    /// By type, variable, or other kind of memory; the accesses' sum is `runs.ledger_total`. A
    /// type has one row; `kind` and `place` are those of most of its accesses. What is inside
    /// another type counts for that one.
    TypesRow, "types" {
        /// The type's or variable's name.
        "type" type_name: String,
        /// The ledger section of its accesses.
        "kind" kind: String,
        /// The variable or allocation site.
        "place" place: String,
        /// The size of the type.
        "size_bytes" size: Option<u64>,
        /// Heap objects that were accessed.
        "objects" objects: Option<u64>,
        /// Accesses to bytes that come from another CPU.
        "shared" shared: Option<u64>,
        /// How often and by how many CPUs.
        "" figures: Figures,
        /// The three with most accesses, with commas between them.
        "functions" functions: String,
    }
}

table! {
    /// By field of a type or variable. `costs` names it `TYPE.FIELD`.
    FieldsRow, "fields" {
        /// The type that the row is about.
        "type" type_name: String,
        /// The path in it.
        "field" field: String,
        /// Other names of the same bytes.
        "aliases" aliases: String,
        /// Its offset in the type.
        "offset_bytes" offset: u64,
        /// The size of the field.
        "size_bytes" size: u64,
        /// The line from 0, if the type starts one.
        "line" line: u64,
        /// How often and by how many CPUs.
        "" figures: Figures,
        /// The three with most accesses.
        "functions" functions: String,
    }
}

table! {
    /// With `--lines`, by line of a type.
    LinesRow, "lines" {
        /// The type that the row is about.
        "type" type_name: String,
        /// The number of the line, from 0.
        "line" line: u64,
        /// How often and by how many CPUs.
        "" figures: Figures,
        /// The three with most accesses.
        "fields" fields: String,
    }
}

table! {
    /// By function; the accesses' sum is `runs.ledger_total`.
    FunctionsRow, "functions" {
        /// The symbol of the function.
        "function" function: String,
        /// Accesses of any kind.
        "accesses" accesses: u64,
        /// Accesses that only read.
        "loads" loads: u64,
        /// Accesses that only write.
        "stores" stores: u64,
        /// Accesses that are atomic read-modify-writes.
        "rmws" rmws: u64,
        /// Stores and RMWs known to have left memory unchanged.
        "silent" silent: u64,
        /// CPUs on which it reads.
        "readers" readers: u32,
        /// CPUs on which it writes.
        "writers" writers: u32,
        /// The three with most accesses.
        "types" types: String,
    }
}

table! {
    /// Of a replay. Every figure of all rows of `subject` `type` adds up to that of
    /// `everything`, and so do those of `field` and of `function`.
    CostsRow, "costs" {
        /// `everything`, `type`, `field` or `function`.
        "subject" subject: &'static str,
        /// The name within the subject.
        "name" name: String,
        /// Of all replayed CPUs.
        "loads" loads: u64,
        /// Likewise; atomics count as stores.
        "stores" stores: u64,
        /// Accesses that left their core.
        "misses" misses: u64,
        /// The cycles of those.
        "cycles" cycles: u64,
        /// The part of them spent waiting for others.
        "waited_cycles" waited: u64,
        /// Modified lines fetched from a core of the domain.
        "hitm_domain" hitm_domain: u64,
        /// Likewise from a core of the socket.
        "hitm_socket" hitm_socket: u64,
        /// Likewise from another socket.
        "hitm_remote" hitm_remote: u64,
        /// Requests for write permission; with all other fetched lines they add up to `misses`.
        "upgrades" upgrades: u64,
        /// Clean lines from the domain's last-level cache or another core of the domain.
        "llc" llc: u64,
        /// Clean lines from another domain.
        "forwards" forwards: u64,
        /// Lines fetched from memory.
        "dram" dram: u64,
        /// The cycles of first accesses.
        "cold_cycles" cold: u64,
        /// Likewise of lines that had no room.
        "capacity_cycles" capacity: u64,
        /// Likewise of bytes that come from another CPU.
        "true_sharing_cycles" true_sharing: u64,
        /// Likewise of other bytes on lines that another CPU changed.
        "false_sharing_cycles" false_sharing: u64,
        /// Likewise of lines that no other CPU changed.
        "unshared_cycles" unshared: u64,
    }
}

table! {
    /// Of a replay with `--lines`, by line of a type; the cycles' sum is that of `everything`.
    LineCostsRow, "line_costs" {
        /// The type or other kind of memory.
        "name" name: String,
        /// From the object's start to the line's.
        "start_bytes" start: i64,
        /// How many such lines moved between cores.
        "lines" lines: u64,
        /// Modified lines that its accesses fetched.
        "hitm" hitm: u64,
        /// Accesses that left their core.
        "misses" misses: u64,
        /// The cycles of those.
        "cycles" cycles: u64,
    }
}

table! {
    /// Of a replay, who took modified lines from whom.
    CpuPairsRow, "cpu_pairs" {
        /// Who wrote last: the recorded CPU.
        "from_cpu" from_cpu: usize,
        /// Which of its copies.
        "from_copy" from_copy: usize,
        /// Who took the line, likewise.
        "to_cpu" to_cpu: usize,
        /// Which of its copies.
        "to_copy" to_copy: usize,
        /// The number of modified lines.
        "hitm" hitm: u64,
        /// The cycles of those.
        "cycles" cycles: u64,
    }
}

table! {
    /// Of a what-if, figures without and with the edits, as means over the interleavings.
    EffectsRow, "effects" {
        /// `everything`, `types` (the edited or requested ones), `cause`, `source`, `field`,
        /// `function`.
        "subject" subject: &'static str,
        /// The name within the subject.
        "name" name: String,
        /// `cycles`, `count` or `LLC misses`.
        "unit" unit: &'static str,
        /// A measure of [whatif](json/whatif.md).
        "without_edits" without: f64,
        /// The same with the edits.
        "with_edits" with: f64,
        /// The figure with the edits less the one without.
        "difference" difference: f64,
        /// Half the width of its 95 % interval.
        "ci95" ci95: f64,
        /// Whether the interval excludes 0.
        "significant" significant: bool,
    }
}

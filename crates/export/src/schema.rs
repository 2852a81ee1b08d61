//! What the tables are: names, columns, units (docs/reference/tables.md).

/// The schema's name and version: it changes when a column is removed or gets another meaning.
pub const SCHEMA: &str = "linemate.export/2";

/// Where a folder of tables says which schema it has.
pub const SCHEMA_FILE: &str = "_schema";

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// 64 bits, signed, because not every reader has unsigned ones.
    Integer,
    /// Floating point, 64 bits.
    Number,
    Flag,
}

impl Kind {
    /// Its name in docs/reference/tables.md.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Integer => "integer",
            Kind::Number => "number",
            Kind::Flag => "flag",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    /// Whether every row has a value.
    pub required: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The table's name, and that of its folder.
    pub table: &'static str,
    /// Its columns, in order; the first is `run`.
    pub columns: &'static [Column],
}

const fn text(name: &'static str) -> Column {
    of(name, Kind::Text, true)
}

const fn integer(name: &'static str) -> Column {
    of(name, Kind::Integer, true)
}

const fn number(name: &'static str) -> Column {
    of(name, Kind::Number, true)
}

const fn flag(name: &'static str) -> Column {
    of(name, Kind::Flag, true)
}

const fn of(name: &'static str, kind: Kind, required: bool) -> Column {
    Column {
        name,
        kind,
        required,
    }
}

/// The same column, but optional.
const fn maybe(column: Column) -> Column {
    of(column.name, column.kind, false)
}

/// A run: a recording, a replay, a what-if, or one of these that failed.
pub(crate) const RUNS: Schema = Schema {
    table: "runs",
    columns: &[
        text("run"),
        text("about"),
        maybe(text("reason")),
        maybe(text("recording")),
        maybe(text("command")),
        maybe(integer("cpus")),
        maybe(text("description")),
        maybe(text("recorded_by")),
        text("tool"),
        maybe(integer("accesses")),
        maybe(integer("ledger_total")),
        maybe(number("typed_share")),
        maybe(number("unknown_share")),
        maybe(text("machine_description")),
        maybe(integer("line_bytes")),
        maybe(integer("replayed_cpus")),
        maybe(integer("interleaving")),
        maybe(integer("interleavings")),
        maybe(text("options")),
        maybe(text("edits")),
        maybe(integer("device_accesses")),
        maybe(integer("misses")),
        maybe(integer("cycles")),
        maybe(integer("overlapped_cycles")),
        maybe(integer("duration_cycles")),
    ],
};

/// The ledger of a recording.
pub(crate) const LEDGER: Schema = Schema {
    table: "ledger",
    columns: &[
        text("run"),
        text("ledger_group"),
        text("bucket"),
        integer("accesses"),
    ],
};

/// Accesses by type and variable.
pub(crate) const TYPES: Schema = Schema {
    table: "types",
    columns: &[
        text("run"),
        text("type"),
        text("kind"),
        text("place"),
        maybe(integer("size_bytes")),
        maybe(integer("objects")),
        maybe(integer("shared")),
        integer("accesses"),
        integer("loads"),
        integer("stores"),
        integer("rmws"),
        integer("silent"),
        maybe(number("remote_share")),
        integer("readers"),
        integer("writers"),
        text("functions"),
    ],
};

/// Accesses by field.
pub(crate) const FIELDS: Schema = Schema {
    table: "fields",
    columns: &[
        text("run"),
        text("type"),
        text("field"),
        text("aliases"),
        integer("offset_bytes"),
        integer("size_bytes"),
        integer("line"),
        integer("accesses"),
        integer("loads"),
        integer("stores"),
        integer("rmws"),
        integer("silent"),
        maybe(number("remote_share")),
        integer("readers"),
        integer("writers"),
        text("functions"),
    ],
};

/// Accesses by line of a type.
pub(crate) const LINES: Schema = Schema {
    table: "lines",
    columns: &[
        text("run"),
        text("type"),
        integer("line"),
        integer("accesses"),
        integer("loads"),
        integer("stores"),
        integer("rmws"),
        integer("silent"),
        maybe(number("remote_share")),
        integer("readers"),
        integer("writers"),
        text("fields"),
    ],
};

/// Accesses by function.
pub(crate) const FUNCTIONS: Schema = Schema {
    table: "functions",
    columns: &[
        text("run"),
        text("function"),
        integer("accesses"),
        integer("loads"),
        integer("stores"),
        integer("rmws"),
        integer("silent"),
        integer("readers"),
        integer("writers"),
        text("types"),
    ],
};

/// What a replay cost.
pub(crate) const COSTS: Schema = Schema {
    table: "costs",
    columns: &[
        text("run"),
        text("subject"),
        text("name"),
        integer("loads"),
        integer("stores"),
        integer("misses"),
        integer("cycles"),
        integer("waited_cycles"),
        integer("hitm_domain"),
        integer("hitm_socket"),
        integer("hitm_remote"),
        integer("upgrades"),
        integer("llc"),
        integer("forwards"),
        integer("dram"),
        integer("cold_cycles"),
        integer("capacity_cycles"),
        integer("true_sharing_cycles"),
        integer("false_sharing_cycles"),
        integer("unshared_cycles"),
    ],
};

/// What a replay cost, by line of a type.
pub(crate) const LINE_COSTS: Schema = Schema {
    table: "line_costs",
    columns: &[
        text("run"),
        text("name"),
        integer("start_bytes"),
        integer("lines"),
        integer("hitm"),
        integer("misses"),
        integer("cycles"),
    ],
};

/// Which CPUs took modified lines from which in a replay.
pub(crate) const CPU_PAIRS: Schema = Schema {
    table: "cpu_pairs",
    columns: &[
        text("run"),
        integer("from_cpu"),
        integer("from_copy"),
        integer("to_cpu"),
        integer("to_copy"),
        integer("hitm"),
        integer("cycles"),
    ],
};

pub(crate) const EFFECTS: Schema = Schema {
    table: "effects",
    columns: &[
        text("run"),
        text("subject"),
        text("name"),
        text("unit"),
        number("without_edits"),
        number("with_edits"),
        number("difference"),
        number("ci95"),
        flag("significant"),
    ],
};

pub const SCHEMAS: [&Schema; 10] = [
    &RUNS,
    &LEDGER,
    &TYPES,
    &FIELDS,
    &LINES,
    &FUNCTIONS,
    &COSTS,
    &LINE_COSTS,
    &CPU_PAIRS,
    &EFFECTS,
];

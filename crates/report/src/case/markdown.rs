//! results.md: the tables that a reader compares.

use std::fmt::Write as _;

use super::{
    Checked, Compared, FoundType, Measured, Predicted, PublishedRow, Rebuilt, Results, Spread,
};

/// The most groups that are listed.
const GROUPS_SHOWN: usize = 8;
/// The most fields that are ranked.
const CONTENDED_SHOWN: usize = 12;
/// The most fields of a group that are listed.
const FIELDS_SHOWN: usize = 10;

/// The results as markdown. The same results give the same bytes.
#[must_use]
pub fn markdown(results: &Results) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "# {}: {}\n", results.case, results.summary);
    inputs(&mut out, results);
    published(&mut out, &results.published);
    for found in &results.found {
        type_found(&mut out, found);
    }
    predicted(&mut out, &results.predicted);
    rebuilt(&mut out, results);
    checked(&mut out, &results.checked);
    out
}

fn inputs(out: &mut String, results: &Results) {
    let _ = writeln!(
        out,
        "Made by `linemate case run`, version {}, {} form. Recorded: {} accesses, checksum `{}`.\n",
        results.tool,
        results.mode,
        grouped(results.inputs.accesses),
        results.inputs.checksum
    );
    table(out, &["", "recording"]);
    for (name, value) in &results.inputs.recording {
        row(out, &[name.clone(), code(value)]);
    }
}

fn published(out: &mut String, rows: &[PublishedRow]) {
    if rows.is_empty() {
        return;
    }
    out.push_str("\n## Compared with what was published\n\n");
    table(
        out,
        &[
            "",
            "published",
            "found",
            "predicted",
            "re-recorded",
            "source",
        ],
    );
    let cell = |ours: &Option<String>| ours.clone().unwrap_or_default();
    for r in rows {
        row(
            out,
            &[
                r.key.clone(),
                r.published.clone(),
                cell(&r.found),
                cell(&r.predicted),
                cell(&r.rerecorded),
                r.source.clone(),
            ],
        );
    }
}

fn type_found(out: &mut String, found: &FoundType) {
    let _ = writeln!(
        out,
        "\n## Found: `{}`, {} bytes, {} accesses\n",
        found.name,
        found.bytes,
        grouped(found.accesses)
    );
    table(
        out,
        &["group", "share", "loads : stores", "lines", "fields"],
    );
    for group in found.groups.iter().take(GROUPS_SHOWN) {
        let ratio = group.loads_per_store;
        row(
            out,
            &[
                group.class.clone(),
                format!("{:.1} %", 100.0 * group.share),
                ratio.map_or_else(|| "no stores".to_owned(), |r| format!("{r:.1} : 1")),
                group.line_list(),
                fields(&group.fields),
            ],
        );
    }
    let _ = writeln!(
        out,
        "\nOn `{}` its accesses that leave their core cost {} million cycles: {:.1} % true sharing, {:.1} % false sharing.\n",
        found.machine,
        mega(found.cycles),
        100.0 * found.true_sharing,
        100.0 * found.false_sharing
    );
    table(
        out,
        &[
            "field",
            "million cycles",
            "loads",
            "stores",
            "HITM",
            "cycles per load",
        ],
    );
    for field in found.contended.iter().take(CONTENDED_SHOWN) {
        row(
            out,
            &[
                code(&field.field),
                mega(field.cycles as f64),
                field.loads.to_string(),
                field.stores.to_string(),
                field.hitm.to_string(),
                field
                    .cycles_per_load
                    .map_or_else(String::new, |c| format!("{c:.0}")),
            ],
        );
    }
}

fn predicted(out: &mut String, rows: &[Predicted]) {
    if rows.is_empty() {
        return;
    }
    out.push_str(
        "\n## Predicted for the unmodified kernel\n\nMillion cycles of accesses that leave their core; ± is the 95 % confidence interval over interleavings.\n\n",
    );
    table(
        out,
        &[
            "edit",
            "machine",
            "lines of the type",
            "before",
            "after",
            "change",
            "change of everything",
            "kernel's LLC misses",
            "accesses removed",
        ],
    );
    for p in rows {
        let sizes = p
            .sizes
            .iter()
            .map(|(name, without, with)| format!("`{name}` {without} → {with}"));
        row(
            out,
            &[
                p.edit.clone(),
                format!("`{}`, {} CPUs, {} bytes", p.machine, p.cpus, p.line_bytes),
                sizes.collect::<Vec<_>>().join(", "),
                mega(p.types.without),
                mega(p.types.with),
                change(&p.types),
                change(&p.whole),
                change(&p.llc_misses),
                p.skipped.to_string(),
            ],
        );
    }
}

fn rebuilt(out: &mut String, results: &Results) {
    out.push_str("\n## Predicted and re-recorded\n\n");
    if results.rebuilt.is_empty() {
        let why = if results.mode == "quick" {
            "Not run: `--quick` builds no kernel."
        } else {
            "Nothing to run: no edit of this case has patches."
        };
        let _ = writeln!(out, "{why}");
        return;
    }
    out.push_str("Million cycles of accesses that leave their core, predicted from the kernel built without patches. ");
    let runs = results.rebuilt.iter().map(|r| r.runs).max().unwrap_or(0);
    if runs > 1 {
        let _ = write!(
            out,
            "Means of {runs} runs of each kernel with different seeds, least and most in brackets. "
        );
    }
    out.push_str("The error is the prediction's, in per cent of the re-recorded figure.\n\n");
    table(
        out,
        &[
            "edit",
            "machine",
            "of",
            "without",
            "predicted",
            "re-recorded",
            "change",
            "error",
        ],
    );
    for r in &results.rebuilt {
        rebuilt_row(out, r, &code(&r.types.join(" ")), &r.cost);
        for (name, compared) in &r.functions {
            rebuilt_row(out, r, &code(&format!("{name}()")), compared);
        }
        rebuilt_row(out, r, "everything", &r.whole);
        rebuilt_row(out, r, "kernel's LLC misses (million)", &r.llc_misses);
    }
}

fn rebuilt_row(out: &mut String, rebuilt: &Rebuilt, of: &str, compared: &Compared) {
    let per_cent = |figure: Option<f64>| figure.map_or_else(String::new, |f| format!("{f:+.1} %"));
    row(
        out,
        &[
            rebuilt.edit.clone(),
            code(&rebuilt.machine),
            of.to_owned(),
            spread(&compared.without),
            spread(&compared.predicted),
            spread(&compared.rerecorded),
            per_cent(compared.change()),
            per_cent(compared.error()),
        ],
    );
}

fn spread(spread: &Spread) -> String {
    if spread.least.to_bits() == spread.most.to_bits() {
        return mega(spread.mean);
    }
    let (least, most) = (mega(spread.least), mega(spread.most));
    format!("{} ({least} to {most})", mega(spread.mean))
}

fn checked(out: &mut String, rows: &[Checked]) {
    if rows.is_empty() {
        return;
    }
    out.push_str("\n## Checks passed by the patched kernels\n\n");
    table(
        out,
        &["edit", "check", "configuration", "last line of output"],
    );
    for check in rows {
        let config = if check.config.is_empty() {
            "the case's".to_owned()
        } else {
            format!("the case's with {}", code(&check.config.join(" ")))
        };
        row(
            out,
            &[
                check.edit.clone(),
                check.check.clone(),
                config,
                check.said.clone(),
            ],
        );
    }
}

fn table(out: &mut String, header: &[&str]) {
    let _ = writeln!(
        out,
        "| {} |\n|{}",
        header.join(" | "),
        "---|".repeat(header.len())
    );
}

fn row(out: &mut String, cells: &[String]) {
    let clean: Vec<String> = cells
        .iter()
        .map(|cell| cell.replace('\n', " ").replace('|', "\\|"))
        .collect();
    let _ = writeln!(out, "| {} |", clean.join(" | "));
}

/// The most used ones; results.json has all.
fn fields(names: &[String]) -> String {
    let shown: Vec<&str> = names
        .iter()
        .take(FIELDS_SHOWN)
        .map(String::as_str)
        .collect();
    let more = names.len() - shown.len();
    let tail = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    code(&shown.join(" ")) + &tail
}

fn code(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("`{text}`")
    }
}

/// Million cycles; small figures keep their leading digits.
fn mega(cycles: f64) -> String {
    if cycles != 0.0 && cycles.abs() < 1e5 {
        format!("{:.5}", cycles / 1e6)
    } else {
        format!("{:.3}", cycles / 1e6)
    }
}

fn change(measure: &Measured) -> String {
    match measure.relative() {
        Some((change, ci95)) => format!("{change:+.2} ± {ci95:.2} %"),
        None => "-".to_owned(),
    }
}

/// `48,961,053`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

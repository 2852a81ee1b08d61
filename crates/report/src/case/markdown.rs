//! results.md: the tables that a reader compares.

use std::fmt::Write as _;

use linemate_answers::{
    CaseResults, Change, Checked, Compared, EventRuns, Figure, FoundType, Measured, Predicted,
    PublishedRow, Rebuilt, ReplayedAs, Spread, Verdict,
};

/// The most groups that are listed.
const GROUPS_SHOWN: usize = 8;
/// The most fields that are ranked.
const CONTENDED_SHOWN: usize = 12;
/// The most fields of a group that are listed.
const FIELDS_SHOWN: usize = 10;

/// The results as markdown. The same results give the same bytes.
#[must_use]
pub fn markdown(results: &CaseResults) -> String {
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

fn inputs(out: &mut String, results: &CaseResults) {
    let _ = writeln!(
        out,
        "Made by `linemate case run`, version {}, {} form. Replayed {}. Recorded: {} accesses, checksum `{}`.\n",
        results.tool,
        results.mode,
        replayed(&results.replay),
        grouped(results.inputs.accesses),
        results.inputs.checksum
    );
    table(out, &["", "recording"]);
    for (name, value) in &results.inputs.recording {
        row(out, &[name.clone(), code(value)]);
    }
}

fn replayed(replay: &ReplayedAs) -> String {
    let start = match replay.cold {
        true => "cold",
        false => "warm",
    };
    let mechanisms = match &replay.mechanisms[..] {
        [] => "without mechanisms".to_owned(),
        names => format!("with {}", code(&names.join(" "))),
    };
    let share = match replay.llc_share {
        true => ", predictions with each CPU's share of the caches",
        false => "",
    };
    let cpus = replay.cpus.map(|cpus| format!(", on {cpus} CPUs"));
    format!(
        "{start} and {mechanisms}{share}{}",
        cpus.unwrap_or_default()
    )
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
            "its load misses",
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
                change(&p.llc_load_misses),
                p.skipped.to_string(),
            ],
        );
    }
}

fn rebuilt(out: &mut String, results: &CaseResults) {
    out.push_str("\n## Predicted and re-recorded\n\n");
    if results.rebuilt.is_empty() {
        let why = match &*results.mode {
            "quick" => "Not run: `--quick` builds no kernel.",
            "predicted" => "Not run: `--predict` builds no kernel with patches.",
            _ => "Nothing to run: no edit of this case has patches.",
        };
        let _ = writeln!(out, "{why}");
        return;
    }
    let runs = results.rebuilt.iter().map(|r| r.runs).max().unwrap_or(0);
    out.push_str("Costs are of accesses that leave their core, predicted from the kernel built without patches. ");
    out.push_str(&match runs {
        1 => "One run of each kernel. ".to_owned(),
        runs => format!(
            "Means of {runs} runs of each kernel with different seeds, least and most in brackets. "
        ),
    });
    out.push_str(INTERVALS);
    let events = results.rebuilt.iter().find_map(|r| r.event.as_ref());
    if let Some(event) = events {
        let _ = writeln!(
            out,
            "\n### For each {} (call of `{}`)\n\nCycles; misses.\n",
            event.name, event.function
        );
        rebuilt_head(out);
        let each = Unit {
            show: each,
            misses: ["kernel's LLC misses", "kernel's LLC load misses"],
        };
        for r in &results.rebuilt {
            rebuilt_rows(out, r, &each, |figure| figure.per_event.as_ref());
        }
        calls(out, &results.rebuilt);
    }
    renamed(out, &results.rebuilt);
    let of = match events {
        Some(_) => "\n### Of whole recordings\n\nMillion cycles.\n\n",
        None => "\nMillion cycles of whole recordings.\n\n",
    };
    out.push_str(of);
    rebuilt_head(out);
    let sum = Unit {
        show: mega,
        misses: [
            "kernel's LLC misses (million)",
            "kernel's LLC load misses (million)",
        ],
    };
    for r in &results.rebuilt {
        rebuilt_rows(out, r, &sum, |figure| Some(&figure.sum));
    }
}

/// What the columns mean.
const INTERVALS: &str = "\
± is half of a 95 % confidence interval: of the predicted change over the recordings that it is made from, of the recorded change over those \
of both kernels (Welch). The error is the prediction's, in per cent of the re-recorded figure. Verdicts: docs/guide/cases.md.
";

fn rebuilt_head(out: &mut String) {
    table(
        out,
        &[
            "edit",
            "machine",
            "of",
            "without",
            "predicted",
            "re-recorded",
            "predicted change",
            "recorded change",
            "error",
            "verdict",
        ],
    );
}

/// The units of figures.
struct Unit {
    show: fn(f64) -> String,
    /// What misses are called, and the loads among them.
    misses: [&'static str; 2],
}

fn rebuilt_rows(
    out: &mut String,
    rebuilt: &Rebuilt,
    unit: &Unit,
    of: impl Fn(&Figure) -> Option<&Compared>,
) {
    let mut add = |name: &str, figure: &Figure| {
        if let Some(compared) = of(figure) {
            rebuilt_row(out, rebuilt, name, unit, compared);
        }
    };
    add(&code(&rebuilt.types.join(" ")), &rebuilt.cost);
    for (name, figure) in &rebuilt.functions {
        add(&code(&format!("{name}()")), figure);
    }
    add("everything", &rebuilt.whole);
    let [misses, load_misses] = unit.misses;
    add(misses, &rebuilt.llc_misses);
    add(load_misses, &rebuilt.llc_load_misses);
}

fn rebuilt_row(out: &mut String, rebuilt: &Rebuilt, of: &str, unit: &Unit, compared: &Compared) {
    let error = compared.error();
    row(
        out,
        &[
            rebuilt.edit.clone(),
            code(&rebuilt.machine),
            of.to_owned(),
            spread(&compared.without, unit.show),
            spread(&compared.predicted, unit.show),
            spread(&compared.rerecorded, unit.show),
            ratio(compared.predicted_change),
            ratio(compared.recorded_change),
            error.map_or_else(String::new, |error| format!("{error:+.1} %")),
            compared.verdict.map_or("", Verdict::as_str).to_owned(),
        ],
    );
}

/// How often the event happened: whether both kernels did as much.
fn calls(out: &mut String, rows: &[Rebuilt]) {
    out.push('\n');
    table(
        out,
        &["edit", "calls of", "without", "re-recorded", "change"],
    );
    let mut shown: Vec<(&str, &EventRuns)> = Vec::new();
    for r in rows {
        // The same of each machine.
        let Some(event) = r
            .event
            .as_ref()
            .filter(|e| !shown.contains(&(&*r.edit, *e)))
        else {
            continue;
        };
        shown.push((&r.edit, event));
        let copies = match event.copies == event.patched_copies {
            true => code(&event.copies.join(" ")),
            false => format!(
                "{}; with the patches {}",
                code(&event.copies.join(" ")),
                code(&event.patched_copies.join(" "))
            ),
        };
        let whole = |calls: f64| format!("{calls:.0}");
        row(
            out,
            &[
                r.edit.clone(),
                copies,
                spread(&event.without, whole),
                spread(&event.rerecorded, whole),
                ratio(event.change),
            ],
        );
    }
}

/// Which rows are not comparable, and why.
fn renamed(out: &mut String, rows: &[Rebuilt]) {
    let mut told = Vec::new();
    for r in rows.iter().filter(|r| r.accesses.is_renamed()) {
        let accesses = r.accesses.best();
        let per = r
            .event
            .as_ref()
            .map(|event| format!(" for each {}", event.name));
        let line = format!(
            "Not comparable: with the patches of {}, {} has {} accesses{}, without {}. Not the same objects have the type's name in both kernels \
             (merged slab caches: boot with `slab_nomerge`), or the workload runs differently.",
            r.edit,
            code(&r.types.join(" ")),
            each(accesses.rerecorded.mean),
            per.unwrap_or_default(),
            each(accesses.without.mean),
        );
        // The same of each machine.
        if !told.contains(&line) {
            let _ = writeln!(out, "\n{line}");
            told.push(line);
        }
    }
}

/// A change, if there is something to change.
fn ratio(change: Option<Change>) -> String {
    change.map_or_else(String::new, |change| change.to_string())
}

fn spread(spread: &Spread, show: fn(f64) -> String) -> String {
    if spread.least.to_bits() == spread.most.to_bits() {
        return show(spread.mean);
    }
    let (least, most) = (show(spread.least), show(spread.most));
    format!("{} ({least} to {most})", show(spread.mean))
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

/// A figure of one event: four digits.
fn each(figure: f64) -> String {
    let digits = match figure.abs() {
        0.0 => 0,
        size => (3 - size.log10().floor() as i32).clamp(0, 9) as usize,
    };
    format!("{figure:.digits$}")
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

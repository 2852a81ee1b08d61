//! `linemate whatif`: what another layout would cost or gain, predicted by replay.

mod page;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, bail};
use linemate_layout::{Edit, EditFile, Subject, parse, parse_flags};
use linemate_machine::Machine;
use linemate_recording::Recording;
use linemate_report::{Table, WhatIfDocument};
use linemate_study::effect::{Potential, Row};
use linemate_study::stats::Measure;
use linemate_study::variant::VariantError;
use linemate_study::{Run, Study, WhatIf, WhatIfError};
use linemate_text::shown;
use linemate_types::{KernelImage, LineSize, TypeModel};

use crate::cli::Outcome;
use crate::input::{self, Input};
use crate::kept::Keeping;
use crate::output;
use crate::page::{PageArgs, TOOL};
use crate::replaying::Replaying;

/// Predict what another layout would cost or gain, with confidence intervals
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// The type that -e and --layout-from are about, and whose fields are reported
    #[arg(long = "type", value_name = "T", value_parser = input::type_name)]
    type_name: Option<String>,
    /// A file of edits (docs/edits.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["statements", "layout_from"])]
    edit: Option<PathBuf>,
    /// An edit, such as 'isolate __lock'; may be repeated
    #[arg(short = 'e', value_name = "EDIT", conflicts_with = "layout_from")]
    statements: Vec<String>,
    /// Another kernel, whose layout of the type is tried
    #[arg(long, value_name = "IMAGE")]
    layout_from: Option<String>,
    /// The machine to replay on: a name (see `linemate machines`), a TOML file, or `this`; may be repeated
    #[arg(long = "machine", value_name = "M", default_value = "gnr-2s-480")]
    machines: Vec<String>,
    #[command(flatten)]
    replaying: Replaying,
    #[command(flatten)]
    keeping: Keeping,
    /// Also give each edit's own share: alone, and last
    #[arg(long)]
    ablate: bool,
    /// Cache line size of the machines, in bytes
    #[arg(long, value_name = "BYTES", value_parser = input::line_size)]
    line: Option<LineSize>,
    /// Number of interleavings, at least 8
    #[arg(long, value_name = "N", default_value_t = 8)]
    interleavings: usize,
    /// Maximum number of rows in a table
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    #[command(flatten)]
    page: PageArgs,
    /// Write JSON (docs/schema-whatif.md)
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let (edits, report) = edits(args)?;
    let images = images(args, &edits)?;
    let machines: Vec<Machine> = args
        .machines
        .iter()
        .map(|name| args.replaying.machine(name, args.line))
        .collect::<anyhow::Result<_>>()?;
    let output = args.page.output()?;
    let recording = args.input.open()?;
    let session = input::ask(args.input.path(), &recording, args.keeping)?;
    let located = |error| located(args, &edits, error);
    let study = Study::new(&session, &edits, &images, &report).map_err(located)?;
    let mut results = Vec::new();
    for machine in machines.clone() {
        let run = Run {
            machine,
            conditions: args.replaying.conditions(),
            seed: args.replaying.seed,
            interleavings: args.interleavings,
            ablate: args.ablate,
        };
        results.push(study.run(&run).map_err(located)?);
    }
    let layouts = page::layouts(&session, &edits, &images, &results)?;
    let document = |results| {
        WhatIfDocument::new(
            TOOL,
            &recording,
            edits.to_string(),
            layouts.clone(),
            results,
        )
    };
    output.write(|| page::page(args, &session, &machines, document(results.clone())))?;
    if args.json {
        output::json(&document(results))?;
    } else {
        output::text(&text(args, &recording, &edits, &study, &results))?;
    }
    Ok(Outcome::Fine)
}

/// The edits, and the types to report beyond those that they edit.
fn edits(args: &Args) -> anyhow::Result<(EditFile, Vec<Subject>)> {
    let report: Vec<Subject> = args.type_name.iter().cloned().map(Subject::Named).collect();
    if let Some(path) = &args.edit {
        let name = path.display().to_string();
        let text =
            linemate_files::read_text(path).with_context(|| format!("cannot read {name}"))?;
        let edits = parse(&text).map_err(|error| anyhow::anyhow!("{name}:{error}"))?;
        if edits.is_empty() {
            bail!("{name}: it has no edits (docs/edits.md)");
        }
        return Ok((edits, report));
    }
    let mut flags = args.statements.clone();
    if let Some(image) = &args.layout_from {
        flags.push(Edit::LayoutFrom(image.clone()).to_string());
    }
    let edits = match report.first() {
        Some(subject) => parse_flags(subject.clone(), &flags),
        None => parse(&flags.join("\n")),
    };
    let edits = edits.map_err(|error| anyhow::anyhow!("-e {error}"))?;
    if edits.is_empty() {
        bail!("nothing to compare: give edits with --edit FILE, -e EDIT or --layout-from IMAGE");
    }
    Ok((edits, report))
}

/// What errors about a place in the edits begin with.
fn origin(args: &Args) -> String {
    match &args.edit {
        Some(path) => format!("{}:", path.display()),
        None => "-e ".to_owned(),
    }
}

/// An error with the place of the statement that it is about, if it is about one.
fn located(args: &Args, edits: &EditFile, error: WhatIfError) -> anyhow::Error {
    let origin = origin(args);
    match error {
        WhatIfError::Plan(error) => anyhow::anyhow!("{origin}{error}"),
        WhatIfError::Variant(VariantError::NoFunction { ref name, .. }) => {
            let names =
                |edit: &Edit| matches!(edit, Edit::Reuse { function, .. } if function == name);
            match edits.statements().find(|(_, s)| names(&s.edit)) {
                Some((_, statement)) => anyhow::anyhow!("{origin}{}: {error}", statement.at),
                None => error.into(),
            }
        }
        error => error.into(),
    }
}

/// The types of the kernels that the edits name.
fn images(args: &Args, edits: &EditFile) -> anyhow::Result<BTreeMap<String, TypeModel>> {
    let mut images = BTreeMap::new();
    for (_, statement) in edits.statements() {
        let Edit::LayoutFrom(path) = &statement.edit else {
            continue;
        };
        if !images.contains_key(path) {
            let place = || match args.layout_from {
                Some(_) => path.clone(),
                None => format!("{}{}: {path}", origin(args), statement.at),
            };
            let bytes = linemate_files::read_file(path.as_ref()).with_context(place)?;
            let image = KernelImage::parse(&bytes).with_context(place)?;
            images.insert(path.clone(), image.types().with_context(place)?);
        }
    }
    Ok(images)
}

fn text(
    args: &Args,
    recording: &Recording,
    edits: &EditFile,
    study: &Study<'_>,
    results: &[WhatIf],
) -> String {
    let names: Vec<&str> = study.types.iter().map(|(name, _)| name.as_str()).collect();
    let names = names.join(", ");
    let mut out = String::new();
    for result in results {
        potential(&mut out, &result.machine, &names, &result.potential);
    }
    let _ = writeln!(
        out,
        "\nlinemate {}, recording {}",
        env!("CARGO_PKG_VERSION"),
        shown(&args.input.path().to_string_lossy())
    );
    for (key, value) in recording.metadata() {
        let _ = writeln!(out, "  {}: {}", shown(key), shown(value));
    }
    let _ = writeln!(out, "\nedits");
    for line in edits.to_string().lines() {
        let _ = writeln!(out, "  {line}");
    }
    let _ = writeln!(out, "\n{}", summary(results, &names));
    for result in results {
        let _ = writeln!(
            out,
            "{}: {} CPUs ({} recorded), {}-byte lines, {}interleavings {} to {}; cycles are those of accesses that leave their core",
            result.machine,
            result.cpus,
            result.recorded_cpus,
            result.line_bytes,
            if result.llc_share {
                "their share of each LLC, "
            } else {
                ""
            },
            result.seed,
            result.seed.wrapping_add(result.interleavings as u64 - 1)
        );
        details(&mut out, result, args.top);
    }
    out
}

/// How much of a cost a layout can change at all.
pub(crate) fn potential(out: &mut String, machine: &str, names: &str, p: &Potential) {
    let _ = writeln!(
        out,
        "{machine}: of what {names} costs, a layout can change {} at most: false sharing {}, cold misses {}, capacity misses {}, \
         unshared {}. True sharing, {}, stays, except for words that share a line.",
        percent(p.false_sharing + p.cold + p.capacity + p.unshared),
        percent(p.false_sharing),
        percent(p.cold),
        percent(p.capacity),
        percent(p.unshared),
        percent(p.true_sharing),
    );
}

fn summary(results: &[WhatIf], names: &str) -> String {
    let mut table = Table::of_figures(&[
        "machine",
        "type",
        "lines",
        "bytes",
        "cost before",
        "change",
        "of its cost",
        "of all cost",
        "verdict",
    ]);
    for result in results {
        let lines = sizes(result, |s| (s.without_lines, s.with_lines));
        let bytes = sizes(result, |s| (s.without_bytes, s.with_bytes));
        table.add_row(vec![
            format!("{} x{}", result.machine, result.cpus),
            names.to_owned(),
            lines,
            bytes,
            cycles(result.types.without),
            change(&result.types),
            relative(&result.types, result.types.without),
            relative(&result.types, result.whole.without),
            verdict(&result.types).to_owned(),
        ]);
    }
    table.to_string()
}

fn sizes(result: &WhatIf, figure: impl Fn(&linemate_study::effect::Size) -> (u64, u64)) -> String {
    let one = |size| match figure(size) {
        (a, b) if a == b => a.to_string(),
        (a, b) => format!("{a} to {b}"),
    };
    result.sizes.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn details(out: &mut String, result: &WhatIf, top: usize) {
    let whole = result.whole.without;
    let mut totals = Table::of_figures(&["", "before", "change", "share", "verdict"]);
    for (name, measure) in [
        ("the type", &result.types),
        ("everything", &result.whole),
        ("duration", &result.duration),
        ("LLC misses: the type", &result.llc_misses.types),
        ("LLC misses: the kernel", &result.llc_misses.kernel),
        ("LLC misses: everything", &result.llc_misses.whole),
    ] {
        totals.add_row(vec![
            name.to_owned(),
            cycles(measure.without),
            change(measure),
            relative(measure, measure.without),
            verdict(measure).to_owned(),
        ]);
    }
    let _ = writeln!(out, "{totals}");
    for (title, list) in [
        ("cause", &result.causes),
        ("source", &result.sources),
        ("field", &result.fields),
        ("function (all accesses)", &result.functions),
    ] {
        rows(out, title, list, top, result.types.without, whole);
    }
    if !result.ablation.is_empty() {
        ablation(out, result);
    }
    if result.relocated > 0 {
        let _ = writeln!(out, "{} objects got new addresses.", result.relocated);
    }
    for paired in &result.paired {
        let _ = writeln!(
            out,
            "colocate: {} pairs; {} and {} objects stayed alone.",
            paired.pairs, paired.first_alone, paired.second_alone
        );
    }
    for followed in &result.followed {
        let _ = writeln!(
            out,
            "skip array behind {}: of {} objects whose pointer is loaded, the array of {} is known.",
            followed.pointer, followed.owners, followed.arrays
        );
    }
    if result.skipped > 0 {
        let _ = writeln!(
            out,
            "{} of {} accesses did not happen.",
            result.skipped, result.accesses
        );
    }
    out.push('\n');
}

fn rows(out: &mut String, title: &str, list: &[Row], top: usize, of_type: f64, of_whole: f64) {
    let mut table = Table::of_figures(&[
        title,
        "misses before",
        "after",
        "cycles before",
        "change",
        "of its type",
        "of all",
        "verdict",
    ]);
    for row in list.iter().take(top) {
        table.add_row(vec![
            row.name.clone(),
            cycles(row.count.without),
            cycles(row.count.with),
            cycles(row.cycles.without),
            change(&row.cycles),
            relative(&row.cycles, of_type),
            relative(&row.cycles, of_whole),
            verdict(&row.cycles).to_owned(),
        ]);
    }
    let _ = writeln!(out, "{table}");
    if list.len() > top {
        let _ = writeln!(out, "({} more; --top N shows more)", list.len() - top);
    }
}

fn ablation(out: &mut String, result: &WhatIf) {
    let mut table = Table::of_figures(&["edit", "alone", "last", "verdict"]);
    let figure = |measure: &Option<Measure>| match measure {
        Some(m) => format!("{} ({})", change(m), relative(m, result.types.without)),
        None => "-".to_owned(),
    };
    for edit in &result.ablation {
        let says = match (&edit.why_not, &edit.last) {
            (Some(why), _) => why.clone(),
            (None, Some(last)) => verdict(last).to_owned(),
            (None, None) => String::new(),
        };
        table.add_row(vec![
            edit.edit.clone(),
            figure(&edit.alone),
            figure(&edit.last),
            says,
        ]);
    }
    let _ = writeln!(out, "{table}");
}

pub(crate) fn cycles(value: f64) -> String {
    format!("{value:.0}")
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn change(measure: &Measure) -> String {
    format!("{:+.0} ± {:.0}", measure.difference, measure.ci95)
}

/// The difference in per cent of `of`.
pub(crate) fn relative(measure: &Measure, of: f64) -> String {
    if of > 0.0 {
        format!(
            "{:+.2} ± {:.2} %",
            100.0 * measure.difference / of,
            100.0 * measure.ci95 / of
        )
    } else {
        "-".to_owned()
    }
}

pub(crate) fn verdict(measure: &Measure) -> &'static str {
    match (measure.significant, measure.difference < 0.0) {
        (false, _) => "not significant",
        (true, true) => "better",
        (true, false) => "worse",
    }
}

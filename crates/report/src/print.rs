//! How figures are written in every table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use linemate_study::WarmUp;
use linemate_study::stats::Measure;
use linemate_text::shown;

use crate::Text;

/// Cycles, or any other mean of counts.
pub(crate) fn cycles(value: f64) -> String {
    format!("{value:.0}")
}

/// A share of one.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// The difference with its confidence interval.
pub(crate) fn change(measure: &Measure) -> String {
    format!("{:+.0} ± {:.0}", measure.difference, measure.ci95)
}

/// The difference in per cent of `of`, with its confidence interval; `-` of nothing.
#[must_use]
pub fn relative(measure: &Measure, of: f64) -> String {
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

/// Whether a measure of a cost is better or worse than before.
pub fn verdict(measure: &Measure) -> &'static str {
    match (measure.significant, measure.difference < 0.0) {
        (false, _) => "not significant",
        (true, true) => "better",
        (true, false) => "worse",
    }
}

/// Says so if the recording was too short to fill caches as its workload does.
pub(crate) fn warn_of_short(out: &mut Text, warm_up: Option<WarmUp>) {
    let Some(warm_up) = warm_up.filter(WarmUp::is_short) else {
        return;
    };
    // Writing to a text does not fail.
    let _ = writeln!(
        out,
        "Short recording: {} of the lines that it touches come in its last tenth, so caches are not filled as they would be; record longer for \
         misses of capacity.",
        percent(warm_up.late as f64 / warm_up.lines as f64)
    );
}

/// `1 rule`, `2 rules`
pub(crate) fn counted(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

/// What the recording says about its run, a line each.
pub(crate) fn description(out: &mut Text, metadata: &BTreeMap<String, String>) {
    for (key, value) in metadata {
        // Writing to a text does not fail.
        let _ = writeln!(out, "  {}: {}", shown(key), shown(value));
    }
}

/// What was recorded, in a line: command, kernel, CPUs, seed.
pub(crate) fn provenance(metadata: &BTreeMap<String, String>) -> String {
    let parts = [
        ("command", "", ""),
        ("kernel", "Linux ", ""),
        ("cpus", "", " CPUs"),
        ("seed", "seed ", ""),
    ];
    let known = parts.iter().filter_map(|(key, before, after)| {
        let value = metadata.get(*key)?;
        Some(format!("{before}{}{after}", shown(value)))
    });
    known.collect::<Vec<String>>().join(", ")
}

/// Which of a machine's mechanisms were replayed.
pub(crate) fn mechanisms(keys: &[String]) -> String {
    match keys.is_empty() {
        true => "no mechanisms".to_owned(),
        false => format!("with {}", keys.join(", ")),
    }
}

/// How many rows a table leaves out.
pub(crate) fn more(out: &mut Text, rows: usize, top: usize) {
    if rows > top {
        let _ = writeln!(out, "({} more; --top N shows more)", rows - top);
    }
}

//! How figures are written in every table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use linemate_answers::{Measure, WarmUp};
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

/// What two decimals of a per cent show nothing of, as a share of one.
const SHOWN_SHARE: f64 = 0.005 / 100.0;

/// The change of everything as a sentence with a space before it, if others on the types' lines
/// gain or lose at least a fifth of what the types do; else nothing.
pub(crate) fn everything(types: &Measure, whole: &Measure) -> String {
    let others = (whole.difference - types.difference).abs();
    let are_many = others > whole.ci95 + types.ci95 && 5.0 * others > types.difference.abs();
    let shows = whole.significant && whole.difference.abs() >= SHOWN_SHARE * whole.without;
    match are_many && shows {
        true => format!(" Everything: {}.", relative(whole, whole.without)),
        false => String::new(),
    }
}

/// The difference in per cent of `of`, with its confidence interval; `-` of nothing.
#[must_use]
pub fn relative(measure: &Measure, of: f64) -> String {
    if of <= 0.0 {
        return "-".to_owned();
    }
    let (difference, ci95) = (measure.difference / of, measure.ci95 / of);
    if is_unchanged(measure) {
        "0 %".to_owned()
    } else if difference.abs() < SHOWN_SHARE && ci95 < SHOWN_SHARE {
        "< 0.01 %".to_owned()
    } else {
        format!("{:+.2} ± {:.2} %", 100.0 * difference, 100.0 * ci95)
    }
}

/// Whether nothing changed at all, in any interleaving.
pub(crate) fn is_unchanged(measure: &Measure) -> bool {
    measure.difference == 0.0 && measure.ci95 == 0.0
}

/// Whether [`change`] has a figure other than 0 to show.
pub(crate) fn shows_change(measure: &Measure) -> bool {
    measure.difference.abs() >= 0.5 || measure.ci95 >= 0.5
}

/// Whether a measure of a cost is better or worse than before.
pub fn verdict(measure: &Measure) -> &'static str {
    verdict_of(measure, measure.without)
}

/// Whether a measure of a part of the cost `of` is better or worse than before, by an amount that
/// [`relative`] shows.
pub(crate) fn verdict_of(measure: &Measure, of: f64) -> &'static str {
    match (measure.significant, measure.difference < 0.0) {
        _ if is_unchanged(measure) => "unchanged",
        (false, _) => "not significant",
        (true, _) if measure.difference.abs() < SHOWN_SHARE * of => "negligible",
        (true, true) => "better",
        (true, false) => "worse",
    }
}

/// Named shares that are not 0, formatted: `false sharing 1.2 %, cold misses 3.0 %`.
pub(crate) fn shares(parts: &[(&str, f64)]) -> String {
    let named = parts.iter().map(|(name, share)| (name, percent(*share)));
    let named = named.filter(|(_, share)| *share != percent(0.0));
    let named: Vec<String> = named
        .map(|(name, share)| format!("{name} {share}"))
        .collect();
    named.join(", ")
}

/// Says so if the recording was too short to fill caches as its workload does.
pub(crate) fn warn_of_short(out: &mut Text, warm_up: Option<WarmUp>) {
    let Some(warm_up) = warm_up.filter(WarmUp::is_short) else {
        return;
    };
    // Writing to a text does not fail.
    let _ = writeln!(
        out,
        "Short recording: {} of its lines are first touched in its last tenth, so caches are not full yet; record longer for capacity misses.",
        percent(warm_up.late as f64 / warm_up.lines as f64)
    );
}

/// What an interval covers as well as the order of accesses: which half of a pair of lines these
/// objects get is chance. Nothing without such objects.
pub(crate) fn in_either_half(objects: usize) -> Option<String> {
    (objects > 0).then(|| {
        format!(
            "{} can be in either half of a line pair fetched together: every second interleaving uses the other half.",
            counted(objects, "object")
        )
    })
}

/// `1 rule`, `2 rules`
pub(crate) fn counted(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

/// The most members that are named with what is inside them.
const INSIDE_MAX: usize = 3;

/// What of a type is objects of its own, and what is inside members of other types; nothing where
/// all are its own.
pub(crate) fn within(own: u64, inside: &[(&str, u64)]) -> String {
    if inside.is_empty() {
        return String::new();
    }
    let mut text = format!(", {own} of them in objects of its own");
    let named = inside.iter().take(INSIDE_MAX);
    for (member, part) in named {
        // Writing to a String does not fail.
        let _ = write!(text, ", {part} in {}", shown(member));
    }
    let rest = inside.iter().skip(INSIDE_MAX);
    let rest: u64 = rest.map(|(_, part)| part).sum();
    if rest > 0 {
        let _ = write!(text, ", {rest} in others");
    }
    text
}

/// Of how many interleavings figures are the mean, and of which.
pub(crate) fn interleavings(count: usize, first_seed: u64) -> String {
    let last = first_seed.wrapping_add((count as u64).saturating_sub(1));
    match count {
        0 | 1 => format!("1 interleaving (seed {first_seed})"),
        many => format!("mean of {many} interleavings (seeds {first_seed} to {last})"),
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

/// The line that an answer ends with: what made it, and of which recording.
pub(crate) fn origin(out: &mut Text, tool: &str, path: &str, metadata: &BTreeMap<String, String>) {
    // Writing to a text does not fail.
    let _ = writeln!(
        out,
        "linemate {tool}, recording {}: {} (--json: details of the run)",
        shown(path),
        provenance(metadata)
    );
}

/// Turns of more instructions than this are long: a thread goes through whole phases before another
/// does.
const LONG_TURN: u64 = 10_000;

/// Says so if programs were recorded with long turns: what threads do at the same time then looks
/// serial.
pub(crate) fn warn_of_turns(out: &mut Text, metadata: &BTreeMap<String, String>) {
    let said = |key: &str| metadata.get(key).map(String::as_str);
    // One CPU takes no turns. In parallel mode all of them run at once.
    let alone = said("cpus") == Some("1") || said("timing") == Some("parallel");
    if said("program") != Some("on") || alone {
        return;
    }
    let turn = match said("turn").map(str::parse::<u64>) {
        Some(Ok(turn)) if turn <= LONG_TURN => return,
        Some(Ok(turn)) => format!("of {turn} instructions"),
        _ => "as long as QEMU makes them".to_owned(),
    };
    // Writing to a text does not fail.
    let _ = writeln!(
        out,
        "Long turns: CPUs ran in turns {turn}, so threads doing the same work advance unevenly and concurrent work can look serial; also try a recording with --turn 1000 (docs/model/programs.md)."
    );
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

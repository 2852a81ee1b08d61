//! Advice as text.

use std::fmt::Write as _;
use std::path::PathBuf;

use linemate_advise::choice::ENOUGH;
use linemate_advise::reasons::GroupReasons;
use linemate_advise::{Advice, Choice, Request, Tried};
use linemate_recording::Recording;
use linemate_remedies::RemedyList;
use linemate_report::Table;
use linemate_text::shown;

use super::TOOL;
use crate::verbs::whatif::{cycles, percent, relative, verdict};

/// By how much of the type's cost a point of the front has to gain more than the one before to be shown.
const FRONT_STEP: f64 = 0.01;

/// The advice for a type.
pub(super) fn advice(
    paths: &[PathBuf],
    request: &Request,
    recordings: &[Recording],
    advice: &Advice,
) -> String {
    let mut out = String::new();
    headline(&mut out, request, advice);
    inputs(&mut out, paths, recordings);
    if let Some(reason) = &advice.first_stays {
        let _ = writeln!(out, "The first member stays: {reason}.");
    }
    if advice.cut {
        let _ = writeln!(
            out,
            "The search saw only the beginning of a recording, which has more events than it keeps; replay saw all."
        );
    }
    if let Some(best) = advice.recommended() {
        layout(&mut out, request, best);
    }
    front(&mut out, advice);
    others(&mut out, advice);
    out
}

/// Moves against gain: of the points that no replay was made of only those that gain noticeably more than the one before.
fn front(out: &mut String, advice: &Advice) {
    if advice.front.is_empty() {
        return;
    }
    let recommended = advice.recommended();
    let mut table = Table::of_figures(&["moves", "fast model", "replay", ""]);
    let mut shown = 1.0;
    for point in &advice.front {
        let tried = point.tried.and_then(|number| advice.tried.get(number));
        if tried.is_none() && point.model > shown - FRONT_STEP {
            continue;
        }
        shown = point.model;
        let chosen = tried
            .zip(recommended)
            .is_some_and(|(a, b)| std::ptr::eq(a, b));
        table.add_row(vec![
            point.moves.to_string(),
            percent(point.model - 1.0),
            tried.map_or(String::new(), |t| percent(t.relative() - 1.0)),
            if chosen { "recommended" } else { "" }.to_owned(),
        ]);
    }
    let _ = writeln!(
        out,
        "Moves against gain:\n{table}\nA move is a member that leaves its order, or a group. {}\n",
        choice(advice)
    );
}

/// What the recommendation was chosen by.
fn choice(advice: &Advice) -> String {
    match advice.choice {
        Choice::Fewest => format!(
            "Recommended: the fewest moves that have {ENOUGH} % of the best gain (--moves N, --all)."
        ),
        Choice::Moves(most) => format!("Recommended: the most gain with at most {most} moves."),
        Choice::All => "Recommended: the most gain, a move counting as 0.1 %.".to_owned(),
    }
}

/// The advice other than reordering.
pub(super) fn remedies(found: &RemedyList) -> String {
    let advice = linemate_report::remedies(found);
    format!("\nBeside the order of members (docs/remedies.md), first recording:\n{advice}")
}

fn headline(out: &mut String, request: &Request, advice: &Advice) {
    let name = &request.type_name;
    let Some(best) = advice.recommended() else {
        let _ = writeln!(
            out,
            "{name}: no layout is recommended. Replay confirmed no gain for any of the {} candidates, of {} layouts that the search found.",
            advice.tried.len(),
            advice.found
        );
        return;
    };
    for (machine, effect) in effects(request, best) {
        let _ = writeln!(
            out,
            "{name} on {machine}: {} of its cost, {} of all cost, with the layout below.",
            relative(&effect.types, effect.types.without),
            relative(&effect.types, effect.whole.without)
        );
    }
}

/// The machines with the effects, recording by recording.
fn effects<'t>(
    request: &'t Request,
    tried: &'t Tried,
) -> impl Iterator<Item = (String, &'t linemate_advise::confirm::Effect)> {
    let several = tried.effects.len() > 1;
    let of = move |(number, effects): (usize, &'t Vec<_>)| {
        effects
            .iter()
            .zip(&request.machines)
            .map(move |(effect, machine)| {
                let name = if several {
                    format!("{}, recording {}", machine.name, number + 1)
                } else {
                    machine.name.clone()
                };
                (name, effect)
            })
    };
    tried.effects.iter().enumerate().flat_map(of)
}

/// What the result rests on.
pub(super) fn inputs(out: &mut String, paths: &[PathBuf], recordings: &[Recording]) {
    for (number, (recording, path)) in recordings.iter().zip(paths).enumerate() {
        let _ = writeln!(
            out,
            "\nlinemate {TOOL}, recording {}: {}",
            number + 1,
            shown(&path.to_string_lossy())
        );
        for (key, value) in recording.metadata() {
            let _ = writeln!(out, "  {}: {}", shown(key), shown(value));
        }
    }
    out.push('\n');
}

fn layout(out: &mut String, request: &Request, best: &Tried) {
    let _ = writeln!(out, "The edit:\n\n{}", best.edits);
    let mut gains = Table::of_figures(&[
        "machine",
        "cycles of",
        "before",
        "change",
        "share",
        "verdict",
    ]);
    for (machine, effect) in effects(request, best) {
        for (what, measure) in [
            ("the type", &effect.types),
            ("everything", &effect.whole),
            ("duration", &effect.duration),
        ] {
            gains.add_row(vec![
                machine.clone(),
                what.to_owned(),
                cycles(measure.without),
                format!("{:+.0} ± {:.0}", measure.difference, measure.ci95),
                relative(measure, measure.without),
                verdict(measure).to_owned(),
            ]);
        }
    }
    let _ = writeln!(
        out,
        "{gains}\nCycles of accesses that leave their core; interleavings {} to {}; the fast model said {} of the type's.\n",
        request.seed,
        request
            .seed
            .wrapping_add(best.interleavings().saturating_sub(1) as u64),
        percent(best.scored.cost as f64 / 1e6 - 1.0)
    );
    footprints(out, best);
    for group in &best.groups {
        reasons(out, group);
    }
}

fn footprints(out: &mut String, best: &Tried) {
    let mut costs = Table::of_figures(&[
        "lines of",
        "bytes",
        "lines",
        "holes",
        "bytes in holes",
        "lines touched",
        "by one CPU alone",
    ]);
    for change in &best.footprints {
        let to = |figure: fn(&linemate_advise::footprint::Footprint) -> u64| {
            let (before, after) = (figure(&change.before), figure(&change.after));
            if before == after {
                before.to_string()
            } else {
                format!("{before} to {after}")
            }
        };
        costs.add_row(vec![
            format!("{} bytes", change.line_bytes),
            to(|s| s.bytes),
            to(|s| s.lines),
            to(|s| s.holes),
            to(|s| s.hole_bytes),
            to(|s| s.touched),
            to(|s| s.alone),
        ]);
    }
    let _ = writeln!(
        out,
        "{costs}\nLines touched are counted over all objects of the recordings.\n"
    );
}

fn reasons(out: &mut String, group: &GroupReasons) {
    let kind = if group.sealed {
        "on lines of its own"
    } else {
        "from a line's start; the rest follows directly"
    };
    let _ = writeln!(out, "{} ({kind}):", group.name);
    for line in lines(group) {
        let _ = writeln!(out, "  {line}");
    }
    for member in &group.members {
        let _ = writeln!(
            out,
            "    {}: {} loads by {} CPUs, {} stores and {} atomics by {} CPUs",
            member.name, member.loads, member.readers, member.stores, member.rmws, member.writers
        );
    }
    out.push('\n');
}

/// The reasons of a group, one sentence each.
fn lines(group: &GroupReasons) -> Vec<String> {
    let mut lines = Vec::new();
    match group.loads_per_write {
        Some(ratio) if ratio >= 1.0 => lines.push(format!("{ratio:.1} loads for each write.")),
        Some(ratio) if ratio > 0.0 => {
            lines.push(format!("{:.1} writes for each load.", 1.0 / ratio));
        }
        Some(_) => lines.push("Never loaded in the recording.".to_owned()),
        None => lines.push("Never written in the recording.".to_owned()),
    }
    if !group.read_in.is_empty() {
        lines.push(format!("Read in {}.", group.read_in.join(", ")));
    }
    if !group.written_in.is_empty() {
        lines.push(format!("Written in {}.", group.written_in.join(", ")));
    }
    if group.saves > 0.0 {
        lines.push(format!(
            "Together they cost {} of the type's cost less than each on a line of its own.",
            percent(group.saves)
        ));
    }
    if !group.kept_from.is_empty() {
        let kept = group.kept_from.iter();
        let kept: Vec<String> = kept
            .map(|k| format!("{} (+{})", k.name, percent(k.share)))
            .collect();
        lines.push(format!("Kept from {}.", kept.join(", ")));
    }
    if !group.fills.is_empty() {
        lines.push(format!(
            "Fills the line, seldom used: {}.",
            group.fills.join(", ")
        ));
    }
    lines
}

fn others(out: &mut String, advice: &Advice) {
    let recommended = advice.recommended();
    let others: Vec<&Tried> = advice
        .tried
        .iter()
        .filter(|t| recommended.is_none_or(|best| !std::ptr::eq(best, *t)))
        .collect();
    if others.is_empty() {
        return;
    }
    let _ = writeln!(out, "Also replayed (--json has their edits):");
    for tried in others {
        let gains: Vec<String> = tried
            .effects
            .iter()
            .flatten()
            .map(|e| relative(&e.types, e.types.without))
            .collect();
        let _ = writeln!(
            out,
            "  {} moves: {}; the fast model said {}",
            tried.moves(),
            gains.join(", "),
            percent(tried.scored.cost as f64 / 1e6 - 1.0)
        );
    }
}

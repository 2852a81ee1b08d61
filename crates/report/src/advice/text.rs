//! Advice as text.

use std::fmt::Write as _;

use linemate_answers::{
    AdviceDocument, AdvisedLayout, AdvisedRecording, EventCount, Footprint, GroupReasons,
    GrownLayout, LayoutEffect, MemberUse, RemedyList,
};
use linemate_text::shown;

use super::source_advice;
use crate::line_starts::line_starts_text;
use crate::prediction::warn_of_copies;
use crate::print::{
    change, counted, cycles, everything, in_either_half, interleavings, origin, percent, relative,
    verdict,
};
use crate::whatifs::calls;
use crate::{Table, Text};

/// By how much of the type's cost a point of the front must gain more than the one before to be
/// shown.
const FRONT_STEP: f64 = 0.01;

/// What the text says that the document does not hold.
#[derive(Clone, Copy, Debug)]
pub struct AdviceText<'a> {
    /// The recordings' files, as given.
    pub paths: &'a [String],
    /// What the recommendation is chosen by, as a sentence.
    pub chosen_by: &'a str,
}

/// The advice for the type, then what is not a matter of order.
#[must_use]
pub fn advice_text(advice: &AdviceDocument, about: &AdviceText<'_>) -> Text {
    let mut out = Text::default();
    headline(advice, &mut out);
    alternatives(advice, &mut out);
    warn(&mut out, &advice.recordings);
    let starts = line_starts_text(&advice.type_name, &advice.line_starts);
    // Writing to a String does not fail.
    let _ = writeln!(out, "{starts}");
    if let Some(reason) = &advice.first_stays {
        let _ = writeln!(out, "The first member stays: {reason}.");
    }
    searched(advice, &mut out);
    if let Some(source) = &advice.source {
        let _ = writeln!(out, "{}", shown(&source_advice(source)));
    }
    if let Some(best) = &advice.recommended {
        layout(advice, &mut out, best);
    }
    moves_against_gain(advice, &mut out, about.chosen_by);
    also_replayed(advice, &mut out);
    remedies(&mut out, &advice.remedies);
    inputs(&mut out, &advice.tool, about.paths, &advice.recordings);
    out
}

/// Which accesses the search did not use, if it left any out.
fn searched(advice: &AdviceDocument, out: &mut Text) {
    let rated: usize = advice.events.iter().sum();
    let from: usize = advice.sampled_from.iter().sum();
    // Writing to a String does not fail.
    if from > rated {
        let _ = writeln!(
            out,
            "The search rated layouts on a sample: {rated} of the {from} accesses that a layout can change; replay used all accesses."
        );
    }
    if advice.cut {
        let _ = writeln!(
            out,
            "The search used only the beginning of a recording that exceeds its limit of events; replay used all of it."
        );
    }
}

/// Why no layout is recommended.
#[must_use]
pub fn no_gain(advice: &AdviceDocument) -> String {
    match advice.others.len() {
        0 => "The search found no layout that is worth a replay.".to_owned(),
        replayed => format!(
            "Replay confirmed no gain for {} of {} found.",
            counted(replayed, "candidate"),
            counted(advice.found, "layout")
        ),
    }
}

fn headline(advice: &AdviceDocument, out: &mut Text) {
    let name = &advice.type_name;
    let Some(best) = &advice.recommended else {
        let why = no_gain(advice);
        let _ = writeln!(out, "{name}: no layout is recommended. {why}");
        return;
    };
    for (machine, effect) in by_machine(advice, &best.effects) {
        let _ = writeln!(
            out,
            "{name} on {machine}: {} of its cost, {} of all cost, with the layout below.{}",
            relative(&effect.types, effect.types.without),
            relative(&effect.types, effect.whole.without),
            everything(&effect.types, &effect.whole)
        );
    }
}

/// The machines with the effects, recording by recording.
fn by_machine<'t>(
    advice: &'t AdviceDocument,
    effects: &'t [Vec<LayoutEffect>],
) -> impl Iterator<Item = (String, &'t LayoutEffect)> {
    let several = effects.len() > 1;
    let of = move |(number, effects): (usize, &'t Vec<LayoutEffect>)| {
        effects
            .iter()
            .zip(&advice.machines)
            .map(move |(effect, machine)| {
                let name = if several {
                    format!("{machine}, recording {}", number + 1)
                } else {
                    machine.clone()
                };
                (name, effect)
            })
    };
    effects.iter().enumerate().flat_map(of)
}

/// What is confirmed to gain next to the layout, and is not the default: it takes memory, or is not
/// a matter of order.
fn alternatives(advice: &AdviceDocument, out: &mut Text) {
    if let Some(grown) = &advice.with_growth {
        with_growth(advice, grown, out);
    }
    if let Some(aligned) = &advice.aligned {
        let _ = writeln!(
            out,
            "Objects are not aligned to lines: {} of {} start elsewhere. Aligned, members in the recorded order: {}.\nTo align them: {} (in a replay: {}).",
            aligned.astray,
            aligned.objects,
            gains(advice, &aligned.effects),
            aligned.advice,
            aligned.edits.trim_end()
        );
    }
}

/// A layout that takes more memory: what it gains, for each byte too, and its edit.
fn with_growth(advice: &AdviceDocument, grown: &GrownLayout, out: &mut Text) {
    let GrownLayout { max_growth, layout } = grown;
    let (mut lines, mut bytes) = ("more lines", String::new());
    if let Some(change) = layout.footprints.first() {
        if change.after.lines == change.before.lines + 1 {
            lines = "one more line";
        }
        let (before, after) = (change.before.bytes, change.after.bytes);
        let effect = layout.effects.first().and_then(|effects| effects.first());
        let more = after.saturating_sub(before).max(1) as f64;
        let each = effect.map_or(0.0, |effect| -effect.types.difference / more);
        bytes = format!(", {before} to {after} bytes, {each:.0} cycles saved per byte");
    }
    let _ = writeln!(
        out,
        "With {lines} (--max-growth {max_growth}{bytes}): {}.\n{}",
        gains(advice, &layout.effects),
        layout.edits.trim_end()
    );
}

/// The change of the type's cost on each machine.
fn gains(advice: &AdviceDocument, effects: &[Vec<LayoutEffect>]) -> String {
    let gain = |(machine, effect): (String, &LayoutEffect)| {
        let change = relative(&effect.types, effect.types.without);
        format!("{change} of its cost on {machine}")
    };
    let gains: Vec<String> = by_machine(advice, effects).map(gain).collect();
    gains.join("; ")
}

fn layout(advice: &AdviceDocument, out: &mut Text, best: &AdvisedLayout) {
    let _ = writeln!(out, "The edit:\n\n{}", best.edits);
    let mut gains = Table::of_figures(&[
        "machine",
        "cycles of",
        "before",
        "change",
        "share",
        "verdict",
    ]);
    for (machine, effect) in by_machine(advice, &best.effects) {
        let under = advice.under.as_ref().zip(effect.under.as_ref());
        let under = under.map(|(function, measure)| (format!("under {function}"), measure));
        let measures = [
            ("the type".to_owned(), &effect.types),
            ("everything".to_owned(), &effect.whole),
            ("duration".to_owned(), &effect.duration),
        ];
        for (what, measure) in measures.into_iter().chain(under) {
            gains.add_row(vec![
                machine.clone(),
                what,
                cycles(measure.without),
                change(measure),
                relative(measure, measure.without),
                verdict(measure).to_owned(),
            ]);
        }
    }
    out.table(gains);
    let events = advice.recordings.iter().map(|r| r.event.as_ref());
    let events: Vec<&EventCount> = events.flatten().collect();
    if !events.is_empty() {
        out.table(per_call(advice, best, &events));
    }
    let replayed = best.effects.iter().flatten().map(|e| e.interleavings);
    let replayed = replayed.max().unwrap_or(advice.interleavings);
    let _ = writeln!(
        out,
        "Cycles of accesses that leave their core, {}; the fast model predicted {} for the type.\n",
        interleavings(replayed, advice.seed),
        percent(best.model - 1.0)
    );
    if best.starts_lines {
        let _ = writeln!(
            out,
            "With this layout objects start on cache lines, unlike the recorded ones: part of the gain can come from that alone.\n"
        );
    }
    let halves = best.effects.iter().flatten().map(|e| e.in_either_half);
    if let Some(halves) = in_either_half(halves.max().unwrap_or_default()) {
        let _ = writeln!(out, "{halves}\n");
    }
    footprints(out, best);
    for group in &best.groups {
        reasons(out, group);
    }
}

/// What the layout changes for each call of an event, which is counted in each recording.
fn per_call(advice: &AdviceDocument, best: &AdvisedLayout, events: &[&EventCount]) -> Table {
    let mut table = Table::of_figures(&["machine", "per call", "before", "change"]);
    let machines = advice.machines.len().max(1);
    for (number, (machine, effect)) in by_machine(advice, &best.effects).enumerate() {
        let event = events.get(number / machines);
        let count = event.map_or(1, |event| event.calls.max(1)) as f64;
        for (what, measure) in [("the type", &effect.types), ("everything", &effect.whole)] {
            table.add_row(vec![
                machine.clone(),
                format!("cycles, {what}"),
                format!("{:.3}", measure.without / count),
                format!(
                    "{:+.3} ± {:.3}",
                    measure.difference / count,
                    measure.ci95 / count
                ),
            ]);
        }
    }
    table
}

/// Moves against gain: of the points that no replay was made of only those that gain noticeably
/// more than the one before.
fn moves_against_gain(advice: &AdviceDocument, out: &mut Text, chosen_by: &str) {
    if advice.front.is_empty() {
        return;
    }
    let mut table = Table::of_figures(&["moves", "fast model", "replay", ""]);
    let mut shown = 1.0;
    for point in &advice.front {
        if point.replayed.is_none() && point.model > shown - FRONT_STEP {
            continue;
        }
        shown = point.model;
        table.add_row(vec![
            point.moves.to_string(),
            percent(point.model - 1.0),
            point
                .replayed
                .map_or(String::new(), |replayed| percent(replayed - 1.0)),
            if point.recommended { "recommended" } else { "" }.to_owned(),
        ]);
    }
    let _ = writeln!(out, "Moves against gain:");
    out.table(table);
    let _ = writeln!(
        out,
        "A move is a member that leaves its position, or a field group. {chosen_by}
"
    );
}

fn also_replayed(advice: &AdviceDocument, out: &mut Text) {
    if advice.others.is_empty() {
        return;
    }
    let _ = writeln!(out, "Also replayed (--json has their edits):");
    for layout in &advice.others {
        let effects = layout.effects.iter().flatten();
        let gains = effects.map(|e| relative(&e.types, e.types.without));
        let _ = writeln!(
            out,
            "  {}: {}; the fast model predicted {}",
            counted(layout.moves, "move"),
            gains.collect::<Vec<String>>().join(", "),
            percent(layout.model - 1.0)
        );
    }
}

/// The advice other than reordering.
pub(super) fn remedies(out: &mut Text, found: &RemedyList) {
    let advice = crate::remedies(found);
    let _ = write!(
        out,
        "\nRemedies other than reordering (docs/model/remedies.md), from the first recording:\n{advice}"
    );
}

/// How far predictions for more CPUs were off, of the recordings that are replayed as more.
pub(super) fn warn(out: &mut Text, recordings: &[AdvisedRecording]) {
    let errors = recordings
        .iter()
        .map(|recording| &recording.prediction_error);
    warn_of_copies(out, errors);
}

/// What the result rests on.
pub(super) fn inputs(
    out: &mut Text,
    tool: &str,
    paths: &[String],
    recordings: &[AdvisedRecording],
) {
    let _ = writeln!(out);
    for (recording, path) in recordings.iter().zip(paths) {
        origin(out, tool, path, &recording.description);
        if let Some(event) = &recording.event {
            let _ = writeln!(out, "   {}", calls(event));
        }
    }
}

fn footprints(out: &mut Text, best: &AdvisedLayout) {
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
        let to = |figure: fn(&Footprint) -> u64| {
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
    out.table(costs);
    let _ = writeln!(
        out,
        "Lines touched are counted over all objects of the recordings.\n"
    );
}

fn reasons(out: &mut Text, group: &GroupReasons) {
    let kind = if group.sealed {
        "on lines of its own"
    } else {
        "from a line's start; the rest follows directly"
    };
    let _ = writeln!(out, "{} ({kind}):", group.name);
    for line in sentences(group) {
        let _ = writeln!(out, "  {line}");
    }
    for member in &group.members {
        let _ = writeln!(out, "    {}", used(member));
    }
    let _ = writeln!(out);
}

/// Who uses a member, and how.
fn used(member: &MemberUse) -> String {
    let of = |parts: &[(u64, &str)], cpus: u32| {
        let some = parts.iter().filter(|(count, _)| *count > 0);
        let some: Vec<String> = some
            .map(|(count, what)| counted(*count as usize, what))
            .collect();
        let by = counted(cpus as usize, "CPU");
        (!some.is_empty()).then(|| format!("{} by {by}", some.join(" and ")))
    };
    let reads = of(&[(member.loads, "load")], member.readers);
    let writes = of(
        &[(member.stores, "store"), (member.rmws, "atomic")],
        member.writers,
    );
    let reads = reads.unwrap_or_else(|| "never loaded".to_owned());
    let writes = writes.unwrap_or_else(|| "never written".to_owned());
    format!("{}: {reads}, {writes}", member.name)
}

/// The reasons of a group, one sentence each.
fn sentences(group: &GroupReasons) -> Vec<String> {
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
            "Sharing lines saves {} of the type's cost, compared with one line per member.",
            percent(group.saves)
        ));
    }
    if !group.kept_from.is_empty() {
        let kept = group.kept_from.iter();
        let kept: Vec<String> = kept
            .map(|k| format!("{} (+{})", k.name, percent(k.share)))
            .collect();
        lines.push(format!(
            "Kept apart from {} (in brackets: what sharing a line would cost).",
            kept.join(", ")
        ));
    }
    if !group.fills.is_empty() {
        lines.push(format!(
            "Fills the line, rarely used: {}.",
            group.fills.join(", ")
        ));
    }
    lines
}

//! Advice other than reordering as text.

use std::fmt::{self, Display, Formatter};

use linemate_answers::{Gain, Remedy, RemedyEffect, RemedyList};
use linemate_text::shown;

use crate::print::{counted, relative, verdict};

/// Advice other than reordering, for a terminal: the machine, then each remedy with what is at
/// stake and what its trials gave.
pub fn remedies(found: &RemedyList) -> String {
    Advice(found).to_string()
}

struct Advice<'a>(&'a RemedyList);

impl Display for Advice<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let found = self.0;
        let seed = found.seed;
        writeln!(
            f,
            "{}: {} CPUs ({} recorded), {}-byte lines; stakes from 1 interleaving (seed {seed}), effects from seeds {seed} to {} at most",
            found.machine,
            found.cpus,
            found.recorded_cpus,
            found.line_bytes,
            found
                .seed
                .saturating_add(found.interleavings as u64)
                .saturating_sub(1),
        )?;
        writeln!(
            f,
            "{} accesses; {} left their core and cost {} cycles",
            found.accesses, found.whole.misses, found.whole.cycles
        )?;
        let (refuted, advised): (Vec<&Remedy>, Vec<&Remedy>) =
            found.remedies.iter().partition(|r| r.is_refuted());
        for (number, remedy) in (1..).zip(&advised) {
            writeln!(f)?;
            remedy_text(f, found, number, remedy)?;
        }
        if advised.is_empty() {
            writeln!(f, "no remedy found")?;
        }
        if !refuted.is_empty() {
            writeln!(f, "\nTried by replay, no gain:")?;
            refuted.iter().try_for_each(|remedy| {
                writeln!(f, "   {}: {}", remedy.kind.name(), shown(&remedy.subject))?;
                trials_text(f, remedy)
            })?;
        }
        let more: Vec<String> = found
            .left_out
            .iter()
            .map(|(kind, more)| format!("{more} × {}", kind.name()))
            .collect();
        if !more.is_empty() {
            writeln!(f, "\nAlso found, with less at stake: {}.", more.join(", "))?;
        }
        if found.below_floor > 0 {
            writeln!(
                f,
                "\nNot listed: {} with less than {} cycles at stake or gained, 0.05 % of all cost or of the type's.",
                match found.below_floor {
                    1 => "1 remedy".to_owned(),
                    more => format!("{more} remedies"),
                },
                found.floor
            )?;
        }
        Ok(())
    }
}

fn remedy_text(
    f: &mut Formatter<'_>,
    found: &RemedyList,
    number: usize,
    remedy: &Remedy,
) -> fmt::Result {
    writeln!(
        f,
        "{number}. {}: {}",
        remedy.kind.name(),
        shown(&remedy.subject)
    )?;
    writeln!(f, "   {}", shown(&remedy.advice))?;
    writeln!(
        f,
        "   at stake: {} misses, {} cycles, {:.3} % of all",
        remedy.stake.misses,
        remedy.stake.cycles,
        percent(remedy.stake.cycles, found.whole.cycles)
    )?;
    let reasons = &remedy.reasons;
    writeln!(
        f,
        "   {} loads, {} stores ({} silent), {} RMW; {} read, {} write",
        reasons.loads,
        reasons.stores,
        reasons.silent_stores,
        reasons.rmws,
        cpus(reasons.readers),
        reasons.writers
    )?;
    for note in &reasons.notes {
        writeln!(f, "   {}", shown(note))?;
    }
    for function in &reasons.functions {
        writeln!(
            f,
            "   {}: {} accesses, {} misses, {} cycles",
            shown(&function.name),
            function.accesses,
            function.misses,
            function.cycles
        )?;
    }
    trials_text(f, remedy)
}

fn trials_text(f: &mut Formatter<'_>, remedy: &Remedy) -> fmt::Result {
    for trial in &remedy.trials {
        writeln!(f, "   [{}]", trial.edits_in_a_line())?;
        writeln!(f, "      {}", effect(&trial.effect))?;
    }
    Ok(())
}

/// `1 CPU`, `2 CPUs`.
fn cpus(count: u32) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} CPU{plural}")
}

/// `part` of `whole` in percent.
fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn effect(effect: &RemedyEffect) -> String {
    match effect {
        RemedyEffect::NotTried => "not tried".to_owned(),
        RemedyEffect::Refused { why } => format!("cannot be tried: {why}"),
        RemedyEffect::Tried(measured) => gain(measured),
    }
}

fn gain(gain: &Gain) -> String {
    let types = &gain.types;
    let share = |cycles: f64| {
        if types.without > 0.0 {
            100.0 * cycles / types.without
        } else {
            0.0
        }
    };
    // Of everything, where that is shown: what shares a line with the types may gain what they
    // lose.
    let verdict = verdict(match gain.whole.significant {
        true => &gain.whole,
        false => types,
    });
    let everything = match gain.whole.significant {
        true => format!("everything {}; ", relative(&gain.whole, gain.whole.without)),
        false => String::new(),
    };
    let halves = match gain.in_either_half {
        0 => String::new(),
        objects => format!(
            "; ± covers both halves of a line pair that {} may start in",
            counted(objects, "object")
        ),
    };
    format!(
        "{verdict}: {everything}{:+.0} ± {:.0} cycles of the affected types' {:.0} ({:+.2} ± {:.2} %); misses {:+.0} ± {:.0} of {:.0}{halves}",
        types.difference,
        types.ci95,
        types.without,
        share(types.difference),
        share(types.ci95),
        gain.misses.difference,
        gain.misses.ci95,
        gain.misses.without,
    )
}

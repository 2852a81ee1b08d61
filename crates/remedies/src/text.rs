//! Advice as text, for a terminal.

use std::fmt::{self, Display, Formatter};

use linemate_text::shown;

use super::{Effect, Found, Gain, Remedy};

impl Display for Found {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let seed = self.seed;
        writeln!(
            f,
            "{}: {} CPUs ({} recorded), {}-byte lines; what is at stake: interleaving {seed}; effects: interleavings {seed} to {}",
            self.machine,
            self.cpus,
            self.recorded_cpus,
            self.line_bytes,
            self.seed
                .saturating_add(self.interleavings as u64)
                .saturating_sub(1),
        )?;
        writeln!(
            f,
            "{} accesses, of which {} left their core for {} cycles",
            self.accesses, self.whole.fetches, self.whole.cycles
        )?;
        for (number, remedy) in (1..).zip(&self.remedies) {
            writeln!(f)?;
            self.remedy(f, number, remedy)?;
        }
        if self.remedies.is_empty() {
            writeln!(f, "no remedy found")?;
        }
        for (kind, more) in &self.left_out {
            writeln!(f, "({more} more: {})", kind.words())?;
        }
        Ok(())
    }
}

impl Found {
    fn remedy(&self, f: &mut Formatter<'_>, number: usize, remedy: &Remedy) -> fmt::Result {
        writeln!(
            f,
            "{number}. {}: {}",
            remedy.kind.words(),
            shown(&remedy.subject)
        )?;
        writeln!(f, "   {}", shown(&remedy.advice))?;
        writeln!(
            f,
            "   at stake: {} fetches, {} cycles, {:.3} % of all",
            remedy.stake.fetches,
            remedy.stake.cycles,
            super::percent(remedy.stake.cycles, self.whole.cycles)
        )?;
        let reasons = &remedy.reasons;
        writeln!(
            f,
            "   {} loads, {} stores ({} silent), {} RMW; {} CPUs read, {} write",
            reasons.loads,
            reasons.stores,
            reasons.silent_stores,
            reasons.rmws,
            reasons.readers,
            reasons.writers
        )?;
        for note in &reasons.notes {
            writeln!(f, "   {}", shown(note))?;
        }
        for function in &reasons.functions {
            writeln!(
                f,
                "   {}: {} accesses, {} fetches, {} cycles",
                shown(&function.name),
                function.accesses,
                function.fetches,
                function.cycles
            )?;
        }
        for trial in &remedy.trials {
            let edits = trial.edits.trim_end().replace('\n', "; ");
            writeln!(f, "   [{edits}]")?;
            writeln!(f, "      {}", trial.effect)?;
        }
        Ok(())
    }
}

impl Display for Effect {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Effect::NotTried => f.write_str("not tried"),
            Effect::Refused { why } => write!(f, "cannot be tried: {why}"),
            Effect::Tried(gain) => gain.fmt(f),
        }
    }
}

impl Display for Gain {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let types = &self.types;
        let share = |cycles: f64| {
            if types.without > 0.0 {
                100.0 * cycles / types.without
            } else {
                0.0
            }
        };
        let verdict = match (types.measurable, types.difference < 0.0) {
            (false, _) => "no measurable effect",
            (true, true) => "better",
            (true, false) => "worse",
        };
        write!(
            f,
            "{verdict}: {:+.0} ± {:.0} cycles of the {:.0} of the concerned types ({:+.2} ± {:.2} %); fetches {:+.0} ± {:.0} of {:.0}",
            types.difference,
            types.bar,
            types.without,
            share(types.difference),
            share(types.bar),
            self.fetches.difference,
            self.fetches.bar,
            self.fetches.without,
        )
    }
}

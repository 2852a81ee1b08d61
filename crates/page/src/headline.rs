//! The answer in one sentence, at the top of the page.

use linemate_answers::{
    AdviceDocument, AdvisedLayout, AdvisedRecording, CaseResults, DiffDocument, DiffSide, WhatIf,
    WhatIfDocument,
};
use linemate_report::{
    costs_headline, no_gain, prediction_errors, relative, report_headline, survey_headline,
    type_headline, verdict,
};
use linemate_text::{short, shown};

use crate::answered::{About, Answered};

/// For an answer about a recording; `of_type`: whether a type was requested.
pub(crate) fn headline(answered: &Answered, about: Option<&About>, of_type: bool) -> String {
    let counts = || match about {
        None => String::new(),
        Some(about) => match about.types.first().filter(|_| of_type) {
            Some(page) => type_headline(&page.view, about.report.ledger.total),
            None => report_headline(&about.report),
        },
    };
    match answered {
        Answered::Counts => counts(),
        Answered::Costs { asked, .. } => costs_headline(asked).unwrap_or_else(counts),
        Answered::WhatIf(document) => of_whatif(document),
        Answered::Advice { document, .. } => of_advice(document),
        Answered::Survey(document) => survey_headline(document),
        Answered::Diff { document, .. } => of_diff(document),
        Answered::Cases(cases) => cases.first().map(of_case).unwrap_or_default(),
    }
}

/// How far predictions for more CPUs than were recorded were off.
pub(crate) fn errors(answered: &Answered) -> Vec<String> {
    let of = |recordings: &[AdvisedRecording]| {
        prediction_errors(recordings.iter().map(|one| &one.prediction_error))
    };
    match answered {
        Answered::Counts | Answered::Cases(_) => Vec::new(),
        Answered::Costs { asked, .. } => prediction_errors([&asked.costs.prediction_error]),
        Answered::WhatIf(document) => {
            prediction_errors(document.results.iter().map(|one| &one.prediction_error))
        }
        Answered::Advice { document, .. } => of(&document.recordings),
        Answered::Survey(document) => of(&document.recordings),
        Answered::Diff { document, .. } => {
            let sides = [&document.a, &document.b];
            prediction_errors(sides.map(|side| &side.prediction_error))
        }
    }
}

/// What the edits change.
fn of_whatif(document: &WhatIfDocument) -> String {
    let sentence = |result: &WhatIf| {
        let names: Vec<&str> = result.sizes.iter().map(|size| size.name.as_str()).collect();
        let measure = &result.types;
        format!(
            "{} on {}: {} of {} cycles, {}",
            shown(&names.join(", ")),
            shown(&result.machine),
            relative(measure, measure.without),
            short(measure.without),
            verdict(measure),
        )
    };
    let sentences: Vec<String> = document.results.iter().map(sentence).collect();
    sentences.join("; ")
}

/// What the recommended layout gains.
fn of_advice(document: &AdviceDocument) -> String {
    match &document.recommended {
        None => no_gain(document),
        Some(best) => of_layout(best, &document.machines),
    }
}

fn of_layout(best: &AdvisedLayout, machines: &[String]) -> String {
    let effects = best.effects.iter().flatten().zip(machines.iter().cycle());
    let effects = effects.map(|(effect, machine)| {
        let types = &effect.types;
        format!(
            "{} of its cycles on {}, {}",
            relative(types, types.without),
            shown(machine),
            verdict(types)
        )
    });
    let effects: Vec<String> = effects.collect();
    let word = if best.moves == 1 { "move" } else { "moves" };
    format!(
        "A layout with {} {word}: {}",
        best.moves,
        effects.join("; ")
    )
}

/// How both recordings use the type.
fn of_diff(document: &DiffDocument) -> String {
    let accesses =
        |side: &DiffSide| -> u64 { side.fields.values().map(|f| f.loads + f.stores).sum() };
    let cycles = |side: &DiffSide| -> u64 { side.fields.values().map(|f| f.cycles).sum() };
    let (a, b) = (&document.a, &document.b);
    let name = shown(document.type_name.as_deref().unwrap_or("all types")).to_string();
    let costs = document.machine.as_deref().map(|machine| {
        format!(
            ", {} and {} cycles on {}",
            cycles(a),
            cycles(b),
            shown(machine)
        )
    });
    format!(
        "{name}: {} accesses in A, {} in B{}",
        accesses(a),
        accesses(b),
        costs.unwrap_or_default()
    )
}

/// What a case predicts.
fn of_case(case: &CaseResults) -> String {
    let changes = case.predicted.iter().filter_map(|predicted| {
        let (change, ci95) = predicted.types.relative()?;
        let (edit, machine) = (shown(&predicted.edit), shown(&predicted.machine));
        Some(format!("{edit} on {machine} {change:+.1} ± {ci95:.1} %"))
    });
    let changes: Vec<String> = changes.collect();
    format!("{}: predicted {}", shown(&case.case), changes.join("; "))
}

#[cfg(test)]
mod tests {
    use linemate_answers::{Measure, TypeSize};

    use super::*;

    fn result(machine: &str, names: &[&str]) -> WhatIf {
        let size = |name: &&str| TypeSize {
            name: (*name).to_owned(),
            memory: true,
            ..TypeSize::default()
        };
        let measure = |without: f64, difference: f64| Measure {
            without,
            with: without + difference,
            difference,
            ci95: 1.0,
            significant: true,
        };
        WhatIf {
            machine: machine.to_owned(),
            sizes: names.iter().map(size).collect(),
            types: measure(2_000.0, -1_500.0),
            whole: measure(100_000.0, -900.0),
            ..WhatIf::default()
        }
    }

    #[test]
    fn a_whatif_is_about_what_its_edits_name_on_each_machine() {
        let document = WhatIfDocument {
            schema: WhatIfDocument::SCHEMA.into(),
            tool: "1".to_owned(),
            recording: Default::default(),
            checksum: None,
            edits: "pad ranges of counts to line\n".to_owned(),
            event: None,
            layouts: Vec::new(),
            results: vec![result("one", &["counts"]), result("two", &["counts", "rq"])],
        };
        let answered = Answered::WhatIf(Box::new(document));
        assert_eq!(
            headline(&answered, None, false),
            "counts on one: -75.00 ± 0.05 % of 2.00 k cycles, better; \
             counts, rq on two: -75.00 ± 0.05 % of 2.00 k cycles, better"
        );
    }
}

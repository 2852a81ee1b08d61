//! The answer in one sentence: what the page begins with.

use linemate_report::{WhatIfDocument, relative, verdict};
use linemate_text::shown;

/// A count to three digits: `11.8 M`.
pub(crate) fn short(value: f64) -> String {
    let units = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    match units.into_iter().find(|(unit, _)| value.abs() >= *unit) {
        None => format!("{value:.0}"),
        Some((unit, name)) => match value / unit {
            part if part.abs() < 9.995 => format!("{part:.2}{name}"),
            part if part.abs() < 99.95 => format!("{part:.1}{name}"),
            part => format!("{part:.0}{name}"),
        },
    }
}

/// What the edits change.
#[must_use]
pub fn of_whatif(document: &WhatIfDocument) -> String {
    let sentence = |result: &linemate_study::WhatIf| {
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

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn counts_have_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (999.0, "999"),
            (1000.0, "1.00 k"),
            (9996.0, "10.0 k"),
            (-118_153_250.0, "-118 M"),
            (2.5e9, "2.50 G"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}

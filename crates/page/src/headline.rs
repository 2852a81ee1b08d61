//! The answer in one sentence: what the page begins with.

use linemate_answers::WhatIfDocument;
use linemate_report::{relative, verdict};
use linemate_text::{short, shown};

/// What the edits change.
#[must_use]
pub fn of_whatif(document: &WhatIfDocument) -> String {
    let sentence = |result: &linemate_answers::WhatIf| {
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

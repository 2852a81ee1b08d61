//! The inputs of a page.

use std::collections::BTreeMap;

use linemate_answers::{
    AdviceDocument, CaseResults, CostsDocument, DiffDocument, LayoutChange, PageType, Report,
    SurveyDocument, WhatIfDocument,
};

/// The common part of every page.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// The version of linemate.
    pub tool: String,
    /// What the page is called.
    pub title: String,
    /// The settings in effect, by their options' names.
    pub settings: BTreeMap<String, String>,
    /// The type given with `--type`.
    pub type_name: Option<String>,
}

impl Frame {
    /// Adds a setting, by its option's name.
    pub fn set(&mut self, option: &str, value: String) {
        self.settings.insert(option.to_owned(), value);
    }
}

/// A page's data about a recording: where its accesses went, and the types that matter most.
#[derive(Clone, Debug)]
pub struct About {
    /// The rows of types that the page has.
    pub report: Report,
    /// Rows that it leaves out.
    pub rows_left_out: usize,
    /// The types that matter most, requested ones first.
    pub types: Vec<PageType>,
}

/// The answer that the page shows.
#[derive(Clone, Debug)]
pub enum Answered {
    /// How often everything is accessed.
    Counts,
    /// The costs: of everything, and of what was requested.
    Costs {
        /// For all types, with the fields and lines of the requested one.
        whole: Box<CostsDocument>,
        /// For the requested type; for all types without one.
        asked: Box<CostsDocument>,
    },
    /// What the edits change, by `whatif`.
    WhatIf(Box<WhatIfDocument>),
    /// A layout, and the type with and without it.
    Advice {
        /// The advice for the type given.
        document: Box<AdviceDocument>,
        /// The type before and after.
        layouts: Vec<LayoutChange>,
    },
    /// Where a layout can win most.
    Survey(Box<SurveyDocument>),
    /// Two recordings compared, by `diff`.
    Diff {
        /// The comparison of their fields.
        document: Box<DiffDocument>,
        /// The types of the second recording.
        others: Vec<PageType>,
    },
    /// Cases, the one that was run first.
    Cases(Vec<CaseResults>),
}

//! Alternatives to the recommended layout, confirmed by replay: a layout with more lines, if the
//! size was to stay, and objects that start lines, if the recorded ones do not.

use std::collections::BTreeMap;

use linemate_answers::LayoutEffect;
use linemate_layout::edit::Alignment;
use linemate_layout::{Edit, EditFile, Position, Section, Statement};
use linemate_types::{ByteSize, Language, LineSize};

use crate::advise::{Request, Tried};
use crate::choice::{ENOUGH, recommended};
use crate::confirm::{is_confirmed, relative};
use crate::shape::StructShape;
use crate::trace::Trace;

/// A layout that needs more room than was allowed.
#[derive(Clone, Debug)]
pub struct Grown {
    /// By how many bytes a type may grow for it.
    pub bytes: ByteSize,
    /// The best layout with that.
    pub tried: Tried,
}

/// Objects that start lines, with their members as recorded.
#[derive(Clone, Debug)]
pub struct Aligned {
    /// How to make objects start lines.
    pub edits: EditFile,
    /// By recording and then machine.
    pub effects: Vec<Vec<LayoutEffect>>,
    /// The lines that objects start.
    pub line: LineSize,
    /// The language of the type; `None` for the kernel's.
    pub language: Option<Language>,
    /// Objects with accesses that a layout can affect, in all recordings.
    pub objects: usize,
    /// Those of them that do not start a line.
    pub astray: usize,
}

impl Aligned {
    /// Worth trying for objects of which some do not start lines; `None` if all do.
    pub(crate) fn of(
        request: &Request,
        shape: &StructShape,
        traces: &[Trace],
        language: Option<Language>,
    ) -> Option<Aligned> {
        let line = request.machines.first()?.line;
        let objects = || traces.iter().flat_map(|trace| &trace.objects);
        // Objects with events only: the position of others changes no cost.
        let astray =
            objects().filter(|object| !ByteSize::from(object.residue).is_aligned(line.into()));
        let astray = astray.count();
        let statement = Statement {
            edit: Edit::BaseAlign {
                type_name: shape.name.clone(),
                alignment: Alignment::Line,
            },
            at: Position::default(),
        };
        (astray > 0).then(|| Aligned {
            edits: EditFile {
                sections: vec![Section {
                    subject: None,
                    statements: vec![statement],
                }],
            },
            effects: Vec::new(),
            line,
            language,
            objects: objects().count(),
            astray,
        })
    }

    /// Whether replay confirms a gain.
    pub fn confirmed(&self) -> bool {
        is_confirmed(&self.effects)
    }
}

/// By how many lines a type grows unasked, at most: one for each side of a ring buffer or queue,
/// the rest on the first. More lines in each object are a decision about memory.
pub(crate) const LINES_MORE_MAX: u32 = 2;

/// What another line has to gain, as a share of the type's cost. It costs memory in every object,
/// so it has to gain what a layout may lose to be preferred for its fewer moves ([`ENOUGH`]).
const LINE_WORTH: f64 = 1.0 - ENOUGH as f64 / 100.0;

/// Whether a gain with another line is clearly larger than one without it: by a tenth of itself,
/// and of the type's cost. Both are shares of that cost.
pub(crate) fn is_worth_a_line(without: f64, with: f64) -> bool {
    without * 100.0 < with * f64::from(ENOUGH) && with - without >= LINE_WORTH
}

/// Of the replayed layouts with more lines the one to offer: with the most lines of which each
/// gains clearly more than what was found with a line less.
pub(crate) fn offered(grown: Vec<Grown>, request: &Request, without: f64) -> Option<Grown> {
    let mut by_bytes: BTreeMap<ByteSize, Vec<Tried>> = BTreeMap::new();
    for Grown { bytes, tried } in grown {
        by_bytes.entry(bytes).or_default().push(tried);
    }
    let (mut offered, mut before) = (None, without);
    for (bytes, mut tried) in by_bytes {
        tried.sort_by(Tried::by_worth);
        let best = recommended(&tried, request.choice);
        let best = best.map(|best| (1.0 - relative(&best.effects), best.clone()));
        // A second line does not make up for a first one that is not worth it.
        let Some((gain, tried)) = best.filter(|(gain, _)| is_worth_a_line(before, *gain)) else {
            break;
        };
        before = gain;
        offered = Some(Grown { bytes, tried });
    }
    offered
}

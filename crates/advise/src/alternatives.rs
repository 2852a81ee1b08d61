//! Alternatives to the recommended layout, confirmed by replay: a layout with one more line, if the
//! size was to stay, and objects that start lines, if the recorded ones do not.

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
    /// The best layout with one more line.
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
        let astray = objects().filter(|object| u64::from(object.residue) % line.bytes() != 0);
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

/// Whether a gain is so close to another one that the other is not worth its price.
pub(crate) fn is_enough(gain: f64, of: f64) -> bool {
    gain * 100.0 >= of * ENOUGH as f64
}

/// Of the replayed layouts with more room the one to offer, if it gains clearly more than what was
/// found without.
pub(crate) fn offered(
    mut tried: Vec<Tried>,
    request: &Request,
    bytes: ByteSize,
    without: f64,
) -> Option<Grown> {
    tried.sort_by(Tried::by_worth);
    let best = recommended(&tried, request.choice)?;
    let gain = 1.0 - relative(&best.effects);
    // Growth costs memory in every object, so the factor that saves moves also saves lines.
    (!is_enough(without, gain)).then(|| Grown {
        bytes,
        tried: best.clone(),
    })
}

//! What `linemate advise` writes: the layout that costs least, and why; without a type, the types where a layout can win most.

mod program;
mod survey;
mod text;

use std::borrow::Cow;
use std::collections::BTreeMap;

use linemate_advise::confirm::Effect;
use linemate_advise::footprint::FootprintChange;
use linemate_advise::reasons::GroupReasons;
use linemate_advise::{Advice, Aligned, Point, Request, Tried};
use linemate_recording::Recording;
use linemate_remedies::{RemedyList, allocated_apart};
use serde::{Deserialize, Serialize};

pub use self::program::ProgramSource;
pub use self::survey::SurveyDocument;
pub use self::text::AdviceText;
use crate::documents::checksum;
use crate::line_starts::KeptLineStart;

/// What `linemate advise --type T --json` writes (docs/reference/json/advise.md).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdviceDocument {
    /// [`AdviceDocument::SCHEMA`].
    pub schema: Cow<'static, str>,
    /// The version of linemate.
    pub tool: String,
    /// What the advice rests on.
    pub recordings: Vec<AdvisedRecording>,
    /// The machines' names.
    pub machines: Vec<String>,
    /// The type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// What it is written in, and where, if it is a program's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ProgramSource>,
    /// Members that were to stay.
    pub pins: Vec<String>,
    /// Bytes by which the type may grow.
    pub max_growth: u64,
    /// The first interleaving.
    pub seed: u64,
    /// The most; each effect says how many were replayed.
    pub interleavings: usize,
    /// Why the first member stays.
    pub first_stays: Option<String>,
    /// Members whose line start the recommended layout takes for granted, or ends, though nothing says whether they asked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub line_starts: Vec<KeptLineStart>,
    /// Accesses that the fast model worked on, by recording.
    pub events: Vec<usize>,
    /// Whether a recording had more of them than are kept.
    pub cut: bool,
    /// Layouts that the search found.
    pub found: usize,
    /// Moves against gain, the fewest moves first.
    pub front: Vec<FrontPoint>,
    /// The layout; none: replay confirmed none.
    pub recommended: Option<AdvisedLayout>,
    /// What else was replayed, best first.
    pub others: Vec<AdvisedLayout>,
    /// A layout that needs one more line, where it gains noticeably more.
    #[serde(default)]
    pub with_growth: Option<GrownLayout>,
    /// Objects that start lines, where the recorded ones do not and it gains.
    #[serde(default)]
    pub aligned: Option<AlignedObjects>,
    /// Advice other than reordering members, for the first recording and machine.
    pub remedies: RemedyList,
}

/// A recording that advice rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdvisedRecording {
    /// What it says about its run.
    pub description: BTreeMap<String, String>,
    /// Its checksum; none if it is cut.
    pub checksum: Option<String>,
}

/// A point of the front of moves against gain.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrontPoint {
    /// Members that leave their order, and groups.
    pub moves: usize,
    /// The type's cost by the fast model, relative to the recorded order's.
    pub model: f64,
    /// The same by replay.
    pub replayed: Option<f64>,
    /// Whether it is the recommended layout.
    pub recommended: bool,
}

/// A layout that was replayed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdvisedLayout {
    /// The edit (docs/reference/edits.md).
    pub edits: String,
    /// Members that leave their order, and groups.
    pub moves: usize,
    /// The type's cost by the fast model, relative to the recorded order's.
    pub model: f64,
    /// Whether replay confirms a gain.
    pub confirmed: bool,
    /// Whether its objects start lines, which the recorded layout does not ask for: a part of the gain can be that, whatever the order.
    #[serde(default)]
    pub starts_lines: bool,
    /// By recording and then machine.
    pub effects: Vec<Vec<Effect>>,
    /// Its size and lines, for lines of 64 and of 128 bytes.
    pub footprints: Vec<FootprintChange>,
    /// Its groups, and why.
    pub groups: Vec<GroupReasons>,
}

/// A layout that needs more room than was allowed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrownLayout {
    /// The `--max-growth` that allows it, in bytes.
    pub max_growth: u64,
    /// The layout.
    pub layout: AdvisedLayout,
}

/// Objects that start lines, with members in the recorded order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlignedObjects {
    /// The edit (docs/reference/edits.md).
    pub edits: String,
    /// How to get it, in one line.
    pub advice: String,
    /// Objects with accesses that a layout can change.
    pub objects: usize,
    /// Those of them that do not start a line as recorded.
    pub astray: usize,
    /// By recording and then machine.
    pub effects: Vec<Vec<Effect>>,
}

impl AdviceDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.advise/2";

    /// The document of the `advice` on `request` from `recordings`, made by version `tool`; for a kernel's type until
    /// [`AdviceDocument::source`] is set, and without [`AdviceDocument::line_starts`], which need the types.
    pub fn new(
        tool: &str,
        request: &Request,
        recordings: &[Recording],
        advice: &Advice,
        remedies: RemedyList,
    ) -> Self {
        let recommended = advice.recommended();
        let is_other = |tried: &&Tried| recommended.is_none_or(|best| !std::ptr::eq(best, *tried));
        AdviceDocument {
            schema: Self::SCHEMA.into(),
            tool: tool.to_owned(),
            recordings: recordings.iter().map(AdvisedRecording::new).collect(),
            machines: request.machines.iter().map(|m| m.name.clone()).collect(),
            type_name: request.type_name.clone(),
            source: None,
            pins: request.pins.clone(),
            max_growth: request.max_growth,
            seed: request.seed,
            interleavings: request.interleavings,
            first_stays: advice.first_stays.clone(),
            line_starts: Vec::new(),
            events: advice.events.clone(),
            cut: advice.cut,
            found: advice.found,
            front: advice
                .front
                .iter()
                .map(|point| FrontPoint::new(advice, point))
                .collect(),
            recommended: recommended.map(|best| AdvisedLayout::new(advice, best)),
            others: advice
                .tried
                .iter()
                .filter(is_other)
                .map(|tried| AdvisedLayout::new(advice, tried))
                .collect(),
            with_growth: advice.grown.as_ref().map(|grown| GrownLayout {
                max_growth: grown.bytes,
                layout: AdvisedLayout::new(advice, &grown.tried),
            }),
            aligned: advice.aligned.as_ref().map(AlignedObjects::new),
            remedies,
        }
    }
}

impl AdvisedRecording {
    fn new(recording: &Recording) -> Self {
        AdvisedRecording {
            description: recording.metadata().clone(),
            checksum: checksum(recording),
        }
    }
}

impl FrontPoint {
    fn new(advice: &Advice, point: &Point) -> Self {
        let tried = point.tried.and_then(|number| advice.tried.get(number));
        let recommended = advice.recommended();
        FrontPoint {
            moves: point.moves,
            model: point.model,
            replayed: tried.map(Tried::relative),
            recommended: tried
                .zip(recommended)
                .is_some_and(|(a, b)| std::ptr::eq(a, b)),
        }
    }
}

impl AlignedObjects {
    fn new(aligned: &Aligned) -> Self {
        AlignedObjects {
            edits: aligned.edits.to_string(),
            advice: allocated_apart(aligned.language, aligned.line_bytes),
            objects: aligned.objects,
            astray: aligned.astray,
            effects: aligned.effects.clone(),
        }
    }
}

impl AdvisedLayout {
    fn new(advice: &Advice, tried: &Tried) -> Self {
        AdvisedLayout {
            edits: tried.edits.to_string(),
            moves: tried.moves(),
            model: tried.scored.cost as f64 / 1e6,
            confirmed: tried.confirmed(),
            starts_lines: tried.starts_lines(&advice.shape),
            effects: tried.effects.clone(),
            footprints: tried.footprints.clone(),
            groups: tried.groups.clone(),
        }
    }
}

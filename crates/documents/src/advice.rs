//! What `linemate advise` writes: the layout that costs least, and why; without a type, the types
//! where a layout can win most.

use linemate_advise::{Advice, Aligned, Point, Request, Tried};
use linemate_answers::{
    AdviceDocument, AdvisedLayout, AdvisedRecording, AlignedObjects, FrontPoint, GrownLayout,
    RemedyList, SurveyDocument, SurveyRow,
};
use linemate_recording::Recording;
use linemate_remedies::allocated_apart;

use crate::replayed::checksum;

/// The document of the `advice` on `request` from `recordings`, made by version `tool`; for a
/// kernel's type until [`AdviceDocument::source`] is set, and without
/// [`AdviceDocument::line_starts`], which need the types.
pub fn advice_document(
    tool: &str,
    request: &Request,
    recordings: &[Recording],
    advice: &Advice,
    remedies: RemedyList,
) -> AdviceDocument {
    let recommended = advice.recommended();
    let is_other = |tried: &&Tried| recommended.is_none_or(|best| !std::ptr::eq(best, *tried));
    AdviceDocument {
        schema: AdviceDocument::SCHEMA.into(),
        tool: tool.to_owned(),
        recordings: recordings.iter().map(advised_recording).collect(),
        machines: request.machines.iter().map(|m| m.name.clone()).collect(),
        under: request.under.clone(),
        type_name: request.type_name.clone(),
        source: None,
        pins: request.pins.clone(),
        max_growth: request.max_growth.0,
        seed: request.seed.0,
        interleavings: request.interleavings,
        first_stays: advice.first_stays.clone(),
        line_starts: Vec::new(),
        events: advice.events.clone(),
        sampled_from: advice.sampled_from.clone(),
        cut: advice.cut,
        found: advice.found,
        front: advice
            .front
            .iter()
            .map(|point| front_point(advice, point))
            .collect(),
        recommended: recommended.map(|best| advised_layout(advice, best)),
        others: advice
            .tried
            .iter()
            .filter(is_other)
            .map(|tried| advised_layout(advice, tried))
            .collect(),
        with_growth: advice.grown.as_ref().map(|grown| GrownLayout {
            max_growth: grown.bytes.0,
            layout: advised_layout(advice, &grown.tried),
        }),
        aligned: advice.aligned.as_ref().map(aligned_objects),
        remedies,
    }
}

/// The document of the survey of `recordings` on the machines of these names, made by version
/// `tool`.
pub fn survey_document(
    tool: &str,
    recordings: &[Recording],
    machines: Vec<String>,
    seed: u64,
    types: Vec<SurveyRow>,
    remedies: RemedyList,
) -> SurveyDocument {
    SurveyDocument {
        schema: SurveyDocument::SCHEMA.into(),
        tool: tool.to_owned(),
        recordings: recordings.iter().map(advised_recording).collect(),
        machines,
        seed,
        interleavings: 1,
        types,
        remedies,
    }
}

fn advised_recording(recording: &Recording) -> AdvisedRecording {
    AdvisedRecording {
        description: recording.metadata().clone(),
        checksum: checksum(recording),
        event: None,
        prediction_error: None,
    }
}

fn front_point(advice: &Advice, point: &Point) -> FrontPoint {
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

fn aligned_objects(aligned: &Aligned) -> AlignedObjects {
    AlignedObjects {
        edits: aligned.edits.to_string(),
        advice: allocated_apart(aligned.language, aligned.line.bytes()),
        objects: aligned.objects,
        astray: aligned.astray,
        effects: aligned.effects.clone(),
    }
}

fn advised_layout(advice: &Advice, tried: &Tried) -> AdvisedLayout {
    AdvisedLayout {
        edits: tried.edits.to_string(),
        moves: tried.moves(),
        model: tried.scored.cost.share(),
        confirmed: tried.confirmed(),
        starts_lines: tried.starts_lines(&advice.shape),
        effects: tried.effects.clone(),
        footprints: tried.footprints.clone(),
        groups: tried.groups.clone(),
    }
}

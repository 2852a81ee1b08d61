//! What speaks for an advised layout, in the form that `patch --evidence` reads (docs/patch.md).

use linemate_advise::reasons::{GroupReasons, READ_MOSTLY};
use linemate_advise::{Request, Tried};
use linemate_recording::{Description, Recording};
use linemate_source::message::{Effect, Evidence, GroupEvidence};
use linemate_study::stats::Measure;

use super::text;
use crate::verbs::whatif::relative;

/// The evidence for `best`.
pub(super) fn of(request: &Request, recordings: &[Recording], best: &Tried) -> Evidence {
    let told = |what: fn(&Description) -> Option<String>| {
        let mut values: Vec<String> = recordings
            .iter()
            .filter_map(|r| what(r.description()))
            .collect();
        values.dedup();
        (!values.is_empty()).then(|| values.join("; "))
    };
    let names: Vec<&str> = request.machines.iter().map(|m| m.name.as_str()).collect();
    Evidence {
        problem: Some(problem(request, best)),
        kernel: told(|d| d.kernel.clone()),
        workload: told(|d| d.command.clone()),
        machine: Some(names.join(", ")),
        seed: told(|d| d.seed.map(|seed| seed.to_string())),
        groups: best.groups.iter().map(group).collect(),
        effect: effects(request, best),
        ablation: Vec::new(),
        notes: Vec::new(),
    }
}

fn problem(request: &Request, best: &Tried) -> String {
    let name = &request.type_name;
    let lines = best.sides.first();
    let shared = lines.map_or(String::new(), |change| {
        let (before, after) = (change.before, change.after);
        format!(
            " Of the lines of its objects that the workload touches, {} of {} are touched by more than one CPU; with the new order {} of {}.",
            before.touched - before.alone,
            before.touched,
            after.touched - after.alone,
            after.touched
        )
    });
    format!(
        "Members of struct {name} that are used together lie on several cache lines, and members that one CPU writes lie beside members that others use.{shared}"
    )
}

fn group(group: &GroupReasons) -> GroupEvidence {
    let intent = match group.loads_per_write {
        None => "Read only, used together".to_owned(),
        Some(ratio) if ratio >= READ_MOSTLY => "Read mostly, used together".to_owned(),
        Some(ratio) if ratio >= 1.0 => "Read and written together".to_owned(),
        Some(_) => "Mostly written, together".to_owned(),
    };
    GroupEvidence {
        name: group.name.clone(),
        intent: Some(intent),
        reasons: text::lines(group),
    }
}

fn effects(request: &Request, best: &Tried) -> Vec<Effect> {
    let mut rows = Vec::new();
    for (number, effects) in best.effects.iter().enumerate() {
        for (effect, machine) in effects.iter().zip(&request.machines) {
            let place = if best.effects.len() > 1 {
                format!("{}, recording {}", machine.name, number + 1)
            } else {
                machine.name.clone()
            };
            rows.push(row(
                format!("cycles beyond the core, {}, {place}", request.type_name),
                &effect.types,
            ));
            rows.push(row(
                format!("cycles beyond the core, all, {place}"),
                &effect.whole,
            ));
        }
    }
    rows
}

fn row(metric: String, measure: &Measure) -> Effect {
    Effect {
        metric,
        before: format!("{:.0}", measure.without),
        after: format!("{:.0}", measure.with),
        change: relative(measure, measure.without),
    }
}

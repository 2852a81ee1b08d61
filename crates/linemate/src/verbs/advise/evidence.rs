//! What speaks for an advised layout, in the form that `patch --evidence` reads (docs/patch.md).

use std::path::{Path, PathBuf};

use anyhow::bail;
use linemate_advise::reasons::{GroupReasons, MemberUse, READ_MOSTLY};
use linemate_advise::{Request, Tried};
use linemate_recording::{Description, Recording};
use linemate_report::relative;
use linemate_source::message::{AccessSummary, FigureChange, GroupEvidence, PatchEvidence};
use linemate_study::stats::Measure;

use crate::verbs::patch::evidence_beside;

/// Where the evidence goes that nobody named a file for. A file there that is not an edit's evidence is not written over.
pub(super) fn beside(edit: &Path) -> anyhow::Result<PathBuf> {
    let path = evidence_beside(edit);
    let free = match linemate_files::read_text(&path) {
        Ok(text) => serde_json::from_str::<PatchEvidence>(&text).is_ok_and(|e| e.edit.is_some()),
        Err(_) => !path.exists(),
    };
    if !free {
        bail!(
            "{} is not an edit's evidence and is not written over: name another file with --evidence",
            path.display()
        );
    }
    Ok(path)
}

/// The evidence for `best`.
pub(super) fn of(request: &Request, recordings: &[Recording], best: &Tried) -> PatchEvidence {
    let told = |what: fn(&Description) -> Option<String>| {
        let mut values: Vec<String> = recordings
            .iter()
            .filter_map(|r| what(r.description()))
            .collect();
        values.dedup();
        (!values.is_empty()).then(|| values.join("; "))
    };
    let names: Vec<&str> = request.machines.iter().map(|m| m.name.as_str()).collect();
    PatchEvidence {
        edit: Some(best.edits.to_string()),
        problem: Some(problem(request, best)),
        kernel: told(|d| d.kernel.clone()),
        workload: told(|d| d.command.clone()),
        machine: Some(names.join(", ")),
        seed: told(|d| d.seed.map(|seed| seed.to_string())),
        groups: best.groups.iter().map(group).collect(),
        effect: effects(request, best),
        ablation: Vec::new(),
        notes: vec![not_shown(recordings.len())],
    }
}

/// What the evidence cannot show.
fn not_shown(recordings: usize) -> String {
    let what = match recordings {
        1 => "one recording of one workload".to_owned(),
        several => format!("{several} recordings"),
    };
    format!(
        "Not shown: this is a prediction by replaying {what} on a model of the machine, not a measurement on hardware. Other workloads and configs may use the members otherwise."
    )
}

fn problem(request: &Request, best: &Tried) -> String {
    let name = &request.type_name;
    let lines = best.footprints.first();
    // An order that spreads members over more lines can have more shared ones and still cost less: then the effect speaks, not this.
    let fewer = lines.filter(|change| {
        let shared = |lines: &linemate_advise::footprint::Footprint| lines.touched - lines.alone;
        shared(&change.after) < shared(&change.before)
    });
    let shared = fewer.map_or(String::new(), |change| {
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
        "Members of struct {name} that are used together are on several cache lines, and members that one CPU writes share lines with members that others use.{shared}"
    )
}

fn group(group: &GroupReasons) -> GroupEvidence {
    let sum = |of: fn(&MemberUse) -> u64| group.members.iter().map(of).sum::<u64>();
    let used = |accesses: u64, by: &[String]| AccessSummary {
        accesses,
        by: by.to_vec(),
    };
    GroupEvidence {
        name: group.name.clone(),
        intent: Some(intent(group)),
        read: Some(used(sum(|m| m.loads), &group.read_in)),
        written: Some(used(sum(|m| m.stores + m.rmws), &group.written_in)),
        reasons: Vec::new(),
    }
}

/// The sentence for the comment in the source.
fn intent(group: &GroupReasons) -> String {
    let role = match group.loads_per_write {
        None => "Read only",
        Some(ratio) if ratio >= READ_MOSTLY => "Read mostly",
        Some(ratio) if ratio >= 1.0 => "Read and written together",
        Some(_) => "Mostly written",
    };
    let writes = group.loads_per_write.is_some_and(|ratio| ratio < 1.0);
    let most = if writes {
        &group.written_in
    } else {
        &group.read_in
    };
    let calls: Vec<String> = most
        .iter()
        .take(2)
        .map(|name| format!("{name}()"))
        .collect();
    match calls.is_empty() {
        true => role.to_owned(),
        false => format!("{role}: {}", calls.join(", ")),
    }
}

fn effects(request: &Request, best: &Tried) -> Vec<FigureChange> {
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

fn row(metric: String, measure: &Measure) -> FigureChange {
    FigureChange {
        metric,
        before: format!("{:.0}", measure.without),
        after: format!("{:.0}", measure.with),
        change: relative(measure, measure.without),
    }
}

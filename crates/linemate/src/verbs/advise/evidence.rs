//! The evidence for an advised layout, as read by `patch --evidence` (docs/guide/patch.md).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::bail;
use linemate_advise::reasons::READ_MOSTLY;
use linemate_advise::shape::StructShape;
use linemate_advise::{Advice, Request, Tried};
use linemate_answers::{
    AccessSummary, FigureChange, GroupEvidence, GroupReasons, Measure, MemberUse, PatchEvidence,
};
use linemate_recording::{Description, Recording};
use linemate_report::relative;
use linemate_types::LineSize;

use crate::files::evidence_beside;

/// The evidence file if none was named. An existing file that is not an edit's evidence is not
/// overwritten.
pub(super) fn beside(edit: &Path) -> anyhow::Result<PathBuf> {
    let path = evidence_beside(edit);
    let free = match linemate_files::read_text(&path) {
        Ok(text) => serde_json::from_str::<PatchEvidence>(&text).is_ok_and(|e| e.edit.is_some()),
        Err(_) => !path.exists(),
    };
    if !free {
        bail!(
            "{} is not an evidence file and is not overwritten: name another file with --evidence",
            path.display()
        );
    }
    Ok(path)
}

/// The evidence for `best`.
pub(super) fn of(
    request: &Request,
    recordings: &[Recording],
    advice: &Advice,
    best: &Tried,
) -> PatchEvidence {
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
        problem: Some(problem(request, &advice.shape, best)),
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
        "Not measured on hardware: this is a prediction from replaying {what} on a model of the machine. Other workloads and configs may use the members differently."
    )
}

/// The problem of the recorded layout: what is true of this type, and nothing else.
fn problem(request: &Request, shape: &StructShape, best: &Tried) -> String {
    let name = &request.type_name;
    let lines = best.footprints.first();
    // An order that spreads members over more lines can have more shared ones and still cost less:
    // then the effect is the argument, not this.
    let fewer = lines.filter(|change| {
        let shared = |lines: &linemate_answers::Footprint| lines.touched - lines.alone;
        shared(&change.after) < shared(&change.before)
    });
    let shared = fewer.map_or(String::new(), |change| {
        let (before, after) = (change.before, change.after);
        format!(
            " Of the cache lines of its objects that the workload touches, {} of {} are touched by more than one CPU; with the new order, {} of {}.",
            before.touched - before.alone,
            before.touched,
            after.touched - after.alone,
            after.touched
        )
    });
    let facts = [
        (
            best.groups.iter().any(|group| is_spread(shape, group)),
            format!("Members of struct {name} that are used together are on several cache lines."),
        ),
        (
            best.groups
                .iter()
                .any(|group| is_beside_others(shape, group)),
            format!(
                "Members of struct {name} share a cache line but cost less on lines of their own."
            ),
        ),
        (
            best.starts_lines(shape),
            format!(
                "Objects of struct {name} need not start on a cache line, so an object can share a line with others; with the new layout each starts on one."
            ),
        ),
    ];
    let facts = facts.into_iter().filter(|(is_so, _)| *is_so);
    let facts: Vec<String> = facts.map(|(_, fact)| fact).collect();
    match facts.is_empty() {
        true => format!("A different order of the members of struct {name} costs less.{shared}"),
        false => facts.join(" ") + &shared,
    }
}

/// The lines of the members with these names in the recorded order, for an object that starts one.
fn lines_of<'n>(shape: &StructShape, names: impl Iterator<Item = &'n str>) -> BTreeSet<u64> {
    let unit = |name: &str| {
        let named = shape.names.iter().position(|n| n.as_deref() == Some(name));
        named.map(|at| shape.units()[at].start.0 / LineSize::B64.bytes())
    };
    names.filter_map(unit).collect()
}

/// Whether the members of a group are on more than one line.
fn is_spread(shape: &StructShape, group: &GroupReasons) -> bool {
    lines_of(shape, group.members.iter().map(|m| m.name.as_str())).len() > 1
}

/// Whether a group is on a line with what it is kept apart from.
fn is_beside_others(shape: &StructShape, group: &GroupReasons) -> bool {
    let own = lines_of(shape, group.members.iter().map(|m| m.name.as_str()));
    let others = lines_of(shape, group.kept_from.iter().map(|k| k.name.as_str()));
    !own.is_disjoint(&others)
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

#[cfg(test)]
mod tests {
    use linemate_advise::candidate::Candidate;
    use linemate_advise::choice::Choice;
    use linemate_advise::search::Scored;
    use linemate_answers::KeptApart;
    use linemate_experiment::{Conditions, Seed};
    use linemate_layout::{EditFile, Layouts};
    use linemate_testkit::btf_writer::{TypeList, member};
    use linemate_types::ByteSize;
    use linemate_types::TypeModel;

    use super::*;

    /// `a`, `b` and so on, 8 bytes each.
    fn shape(members: u32) -> StructShape {
        let mut list = TypeList::default();
        let long = list.unsigned("long", 8);
        let names = ('a'..).map(String::from).zip((0..).step_by(8));
        let members: Vec<_> = names
            .take(members as usize)
            .map(|(name, at)| member(&name, long, at))
            .collect();
        list.structure("s", 8 * members.len() as u32, &members);
        let types = TypeModel::new(list.types, 8).unwrap();
        let mut layouts = Layouts::new(&types, LineSize::B64);
        StructShape::new(&mut layouts, "s", types.named("s"), &[]).unwrap()
    }

    fn says(shape: &StructShape, candidate: Candidate, groups: Vec<GroupReasons>) -> String {
        let request = Request {
            type_name: "s".to_owned(),
            machines: Vec::new(),
            pins: Vec::new(),
            max_growth: ByteSize::ZERO,
            conditions: Conditions::default(),
            seed: Seed(1),
            interleavings: 8,
            choice: Choice::default(),
            all_interleavings: false,
            under: None,
        };
        let best = Tried {
            scored: Scored {
                score: Default::default(),
                cost: Default::default(),
                candidate,
            },
            edits: EditFile::default(),
            effects: Vec::new(),
            footprints: Vec::new(),
            groups,
        };
        problem(&request, shape, &best)
    }

    fn group(members: &[&str], kept_from: &[&str]) -> GroupReasons {
        let used = |name: &&str| MemberUse {
            name: (*name).to_owned(),
            ..MemberUse::default()
        };
        let kept = |name: &&str| KeptApart {
            name: (*name).to_owned(),
            share: 0.1,
        };
        GroupReasons {
            name: "hot".to_owned(),
            sealed: true,
            members: members.iter().map(used).collect(),
            fills: Vec::new(),
            loads_per_write: None,
            read_in: Vec::new(),
            written_in: Vec::new(),
            saves: 0.0,
            kept_from: kept_from.iter().map(kept).collect(),
        }
    }

    #[test]
    fn the_problem_is_one_that_the_type_has() {
        let several = "on several cache lines";
        let beside = "cost less on lines of their own";
        let address = "need not start on a cache line";
        // Of one line: no two members are on several.
        let one = shape(8);
        let original = Candidate::original(&one);
        let grouped = Candidate {
            rest: (2..8).collect(),
            segments: vec![vec![0, 1]],
            ..original.clone()
        };
        let said = says(&one, grouped, vec![group(&["a", "b"], &[])]);
        assert!(!said.contains(several) && !said.contains(beside), "{said}");
        assert!(said.contains(address), "{said}");
        let said = says(&one, original.clone(), vec![group(&["a", "b"], &["c"])]);
        assert!(said.contains(beside) && !said.contains(address), "{said}");
        let said = says(&one, original, Vec::new());
        assert_eq!(
            said,
            "A different order of the members of struct s costs less."
        );
        let two = shape(16);
        let original = Candidate::original(&two);
        let said = says(&two, original.clone(), vec![group(&["a", "p"], &[])]);
        assert!(said.contains(several) && !said.contains(beside), "{said}");
        let said = says(&two, original, vec![group(&["a"], &["p"])]);
        assert!(!said.contains(several) && !said.contains(beside), "{said}");
    }
}

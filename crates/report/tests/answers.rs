//! Documents of complete answers about a synthetic recording: what `--json` prints is read back as
//! the same document, with the same text.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Debug;

use linemate_advise::survey::survey;
use linemate_advise::{Advice, Choice, Request, advise};
use linemate_answers::{
    AdviceDocument, AlignedObjects, DiffDocument, DiffSide, Estimate, Gain, GrownLayout,
    KeptLineStart, Measure, Reasons, Remedy, RemedyEffect, RemedyKind, RemedyList, Stake,
    SurveyDocument, Trial,
};
use linemate_documents::{advice_document, diff_document, survey_document};
use linemate_experiment::{Conditions, Seed};
use linemate_layout::EditSubject;
use linemate_machine::{Machine, find};
use linemate_recording::{AccessKind, Recording};
use linemate_remedies::RemedyOptions;
use linemate_report::{AdviceText, advice_text, diff_text, survey_text};
use linemate_session::Session;
use linemate_study::diff::{On, fields};
use linemate_testkit::world::{F, RQ, UNITS, World};
use linemate_types::ByteSize;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// CPU 0 writes `nr_running` of its `rq`, some of it for nothing, CPU 1 reads `curr` next to it;
/// both use the lock.
fn recording() -> Recording {
    let mut w = World::with_chunks_of(64);
    let rq = UNITS[0] + RQ;
    for _ in 0..100 {
        w.access(0, AccessKind::Store, rq, 4, F::WakeTask, false);
        w.access(0, AccessKind::Store, rq, 4, F::WakeTask, true);
        w.access(1, AccessKind::Load, rq + 8, 8, F::UpdateRq, false);
        w.access(0, AccessKind::Rmw, rq + 72, 4, F::WakeTask, false);
        w.access(1, AccessKind::Rmw, rq + 72, 4, F::UpdateRq, false);
    }
    w.record()
}

fn machine() -> Machine {
    let mut machine = find("westmere-4s-80").unwrap();
    machine.adjacent_line_pairs = false;
    machine
}

/// What `advise` lists, with a trial of each outcome.
fn remedies(session: &Session<'_>) -> RemedyList {
    let mut list = linemate_remedies::find(session, &RemedyOptions::new(machine())).unwrap();
    let all = list.remedies.iter().flat_map(|remedy| &remedy.trials);
    let mut tried = all.filter(|trial| matches!(trial.effect, RemedyEffect::Tried(_)));
    assert!(tried.next().is_some(), "{:?}", list.remedies);
    let refused = RemedyEffect::Refused {
        why: "it has no such field".to_owned(),
    };
    for effect in [RemedyEffect::NotTried, refused] {
        list.remedies[0].trials.push(Trial {
            edits: "type rq\nremove nothing\n".to_owned(),
            effect,
        });
    }
    list
}

/// The document that the JSON of `document` is read as, which must be the same.
fn read_back<D: Serialize + DeserializeOwned + PartialEq + Debug>(document: &D) -> D {
    let json = serde_json::to_string(document).unwrap();
    let back: D = serde_json::from_str(&json).unwrap();
    assert_eq!(&back, document);
    back
}

#[test]
fn advice_is_read_back_with_its_layouts_and_remedies() {
    let recordings = [recording()];
    let session = Session::new(&recordings[0]).unwrap();
    let request = Request {
        type_name: "rq".into(),
        machines: vec![machine()],
        pins: vec![],
        max_growth: ByteSize(64),
        conditions: Conditions::default(),
        seed: Seed(1),
        interleavings: 8,
        choice: Choice::default(),
        all_interleavings: false,
        under: None,
    };
    let advice: Advice = advise(&[&session], &request).unwrap();
    let remedies = remedies(&session);
    let mut document = advice_document("1.2.3", &request, &recordings, &advice, remedies);
    let recommended = document.recommended.as_ref().unwrap();
    assert!(!recommended.effects.is_empty());
    assert!(!document.front.is_empty());
    let text = |document: &AdviceDocument| {
        let paths = ["r.data".to_owned()];
        let shown = advice_text(
            document,
            &AdviceText {
                paths: &paths,
                chosen_by: &advice.choice.to_string(),
            },
        );
        shown.to_string()
    };
    let shown = text(&document);
    assert_eq!(text(&read_back(&document)), shown);
    assert!(shown.starts_with("rq on westmere-4s-80: "), "{shown}");
    assert!(!shown.contains("left at line starts"), "{shown}");
    let last = shown.lines().last().unwrap();
    assert!(
        last.starts_with("linemate 1.2.3, recording r.data: "),
        "{last}"
    );
    assert!(!shown.contains("sample"), "{shown}");
    let mut sampled = document.clone();
    sampled.sampled_from = sampled.events.iter().map(|events| events + 3).collect();
    let (rated, from) = (sampled.events[0], sampled.sampled_from[0]);
    let shown = text(&read_back(&sampled));
    let figures = format!("sample: {rated} of the {from} accesses");
    assert!(shown.contains(&figures), "{shown}");
    let mut held = document.clone();
    held.line_starts.push(KeptLineStart {
        member: "lock".to_owned(),
        kept: true,
        otherwise: "align lock 4".to_owned(),
    });
    let second = text(&read_back(&held)).lines().nth(1).unwrap().to_owned();
    assert!(
        second.starts_with("rq: left at line starts") && second.contains("`align lock 4`"),
        "{second}"
    );
    assert!(!text(&document).contains("With one more line"));
    let mut layout = recommended.clone();
    let before = layout.footprints[0].before;
    let after = &mut layout.footprints[0].after;
    (after.bytes, after.lines) = (before.bytes + 64, before.lines + 1);
    let each = -layout.effects[0][0].types.difference / 64.0;
    let bytes = format!("{} to {} bytes", before.bytes, before.bytes + 64);
    let bytes = format!("{bytes}, {each:.0} cycles saved per byte");
    let edit = layout.edits.trim_end().to_owned();
    document.aligned = Some(AlignedObjects {
        edits: "base-align rq line\n".to_owned(),
        advice: "aligned_alloc(64, …)".to_owned(),
        objects: 4,
        astray: 3,
        effects: layout.effects.clone(),
    });
    document.with_growth = Some(GrownLayout {
        max_growth: 64,
        layout,
    });
    let shown = text(&document);
    let gain = shown.lines().next().unwrap().split_once(": ").unwrap().1;
    let gain = gain.split_once(" of its cost").unwrap().0;
    let machine = "of its cost on westmere-4s-80";
    assert!(shown.contains(&edit), "{shown}");
    for line in [
        format!("With one more line (--max-growth 64, {bytes}): {gain} {machine}."),
        format!(
            "Objects are not aligned to lines: 3 of 4 start elsewhere. Aligned, members in the recorded order: {gain} {machine}."
        ),
        "To align them: aligned_alloc(64, …) (in a replay: base-align rq line).".to_owned(),
    ] {
        assert!(shown.lines().any(|l| l == line), "{line}\n{shown}");
    }
}

#[test]
fn a_survey_is_read_back_with_and_without_estimates() {
    let recordings = [recording()];
    let session = Session::new(&recordings[0]).unwrap();
    let mut rows = survey(&[&session], &[machine()], Conditions::default(), Seed(1), 3).unwrap();
    assert!(rows[0].estimate.is_some(), "{rows:?}");
    rows.push(linemate_answers::SurveyRow {
        name: "elsewhere".to_owned(),
        why_not: Some("it is a union".to_owned()),
        ..rows[0].clone()
    });
    let machines = vec![machine().name];
    let remedies = remedies(&session);
    let document = survey_document("1.2.3", &recordings, machines, 1, rows, remedies);
    let text =
        |document: &SurveyDocument| survey_text(document, &["r.data".to_owned()]).to_string();
    assert_eq!(text(&read_back(&document)), text(&document));
}

/// A remedy whose edits change what the affected types cost, 1000 cycles, and all cost, 4000.
fn tried(subject: &str, types: Measure, whole: Measure) -> Remedy {
    let tried = |effect| Trial {
        edits: "type rq\n".to_owned(),
        effect,
    };
    let gain = Gain {
        interleavings: 4,
        types,
        misses: Measure::default(),
        whole,
        skipped: 0,
        in_either_half: 0,
    };
    Remedy {
        kind: RemedyKind::OwnLine,
        subject: subject.to_owned(),
        advice: String::new(),
        concerns: Vec::new(),
        stake: Stake::default(),
        reasons: Reasons::default(),
        trials: vec![
            tried(RemedyEffect::NotTried),
            tried(RemedyEffect::Tried(gain)),
        ],
    }
}

fn measure(without: f64, difference: f64, significant: bool) -> Measure {
    Measure {
        without,
        with: without + difference,
        difference,
        ci95: 10.0,
        significant,
    }
}

#[test]
fn what_replay_refuted_is_no_advice() {
    let recordings = [recording()];
    let session = Session::new(&recordings[0]).unwrap();
    let unshown = measure(4000.0, 5.0, false);
    let trial = |subject, change| tried(subject, measure(1000.0, change, true), unshown);
    let list = RemedyList {
        remedies: vec![trial("rq.lock", -300.0), trial("rq.clock", 300.0)],
        ..remedies(&session)
    };
    let text = linemate_report::remedies(&list);
    let (advised, refuted) = text.split_once("\nTried by replay, no gain:\n").unwrap();
    assert!(
        advised.contains("1. give a line of its own: rq.lock\n"),
        "{text}"
    );
    assert!(!advised.contains("rq.clock"), "{text}");
    let line = refuted.lines().next().unwrap();
    assert_eq!(line, "   give a line of its own: rq.clock");
    assert!(refuted.contains("      worse: +300 ± 10 cycles"), "{text}");
}

#[test]
fn a_survey_begins_with_what_gains_most() {
    let recordings = [recording()];
    let session = Session::new(&recordings[0]).unwrap();
    let rows = survey(&[&session], &[machine()], Conditions::default(), Seed(1), 3).unwrap();
    let list = RemedyList {
        remedies: Vec::new(),
        ..remedies(&session)
    };
    let mut document = survey_document("1", &recordings, vec![machine().name], 1, rows, list);
    document.types.truncate(1);
    let mut headline = |estimate: Option<f64>, remedies: &[Remedy]| {
        let row = &mut document.types[0];
        row.name = "rq".to_owned();
        row.share = 0.25;
        row.estimate = estimate.map(|share| Estimate {
            gain: 1000.0 * share,
            share,
            moves: 1,
            rated: 1,
            sampled_from: 1,
        });
        document.remedies.remedies = remedies.to_vec();
        let text = survey_text(&document, &["r.data".to_owned()]).to_string();
        text.lines().next().unwrap().to_owned()
    };
    let none = "No gain found: replay confirmed none of the remedies it tried, and no layout is estimated to save 0.5 % of all cost.";
    let order = "Not confirmed: reordering rq is estimated to change its cost by -40.0 %, all cost by -10.0 %.";
    let on = machine().name;
    let of_all = format!(
        "Give a line of its own: rq.lock: -20.00 ± 0.25 % of all cost on {on}, confirmed by replay."
    );
    let of_types = format!(
        "Give a line of its own: rq.lock: -30.00 ± 1.00 % of the affected types' cost on {on}, confirmed by replay."
    );
    let nothing = tried(
        "rq.lock",
        measure(1000.0, 300.0, true),
        measure(4000.0, 5.0, false),
    );
    let some = tried(
        "rq.lock",
        measure(1000.0, -300.0, true),
        measure(4000.0, -5.0, false),
    );
    let more = tried(
        "rq.lock",
        measure(1000.0, -700.0, true),
        measure(4000.0, -800.0, true),
    );
    assert_eq!(headline(None, &[]), none);
    assert_eq!(headline(Some(0.003), std::slice::from_ref(&nothing)), none);
    assert_eq!(headline(Some(0.4), &[nothing]), order);
    assert_eq!(headline(Some(0.003), std::slice::from_ref(&some)), of_types);
    assert_eq!(
        headline(Some(0.4), std::slice::from_ref(&some)),
        format!("{of_types} {order}")
    );
    let little = tried(
        "rq.lock",
        measure(1000.0, -30.0, true),
        measure(4000.0, -5.0, false),
    );
    let first = headline(Some(0.4), &[little]);
    assert!(first.starts_with(&format!("{order} Give")), "{first}");
    assert_eq!(
        headline(Some(0.4), &[some.clone(), more.clone()]),
        format!("{of_all} {order}")
    );
    // Little after a large gain, and what the remedy gains already, are left out.
    assert_eq!(headline(Some(0.07), std::slice::from_ref(&more)), of_all);
    let of_type = Remedy {
        concerns: vec!["rq".to_owned()],
        ..more.clone()
    };
    assert_eq!(headline(Some(0.7), std::slice::from_ref(&of_type)), of_all);
    let larger = "Not confirmed: reordering rq is estimated to change its cost by -90.0 %, all cost by -22.5 %.";
    assert_eq!(
        headline(Some(0.9), &[of_type]),
        format!("{of_all} {larger}")
    );
    assert_eq!(
        headline(Some(0.4), &[some, more]),
        format!("{of_all} {order}")
    );
    // Remedies are of the first of several recordings.
    document.recordings.push(document.recordings[0].clone());
    let text = survey_text(&document, &["a".to_owned(), "b".to_owned()]).to_string();
    let first = of_all.replace("by replay.", "by replay of the first recording.");
    assert!(text.starts_with(&format!("{first} {order}\n")), "{text}");
}

#[test]
fn a_difference_is_read_back_with_and_without_costs() {
    let recording = recording();
    let session = Session::new(&recording).unwrap();
    let machine = machine();
    let rq = EditSubject::Named("rq".to_owned());
    let of = |on| fields(&session, Some(&rq), on, None).unwrap();
    let on = On {
        machine: &machine,
        seed: Seed(1),
        conditions: Conditions::default(),
        under: None,
    };
    for (name, sides) in [
        (None, [of(None), DiffSide::default()]),
        (Some(machine.name.clone()), [of(Some(on)), of(Some(on))]),
    ] {
        assert!(!sides[0].fields.is_empty());
        let document = diff_document("1.2.3", Some("rq".to_owned()), name, 1, sides);
        let text = |document: &DiffDocument| diff_text(document, ["a", "b"], 20).to_string();
        assert_eq!(text(&read_back(&document)), text(&document));
        let text = text(&document);
        let touched: u64 = document.a.fields.values().map(|f| f.loads + f.stores).sum();
        let share = 1e6 * touched as f64 / document.a.accesses as f64;
        let first = format!("rq: {share:.1} accesses per million in A, ");
        assert!(text.starts_with(&first), "{text}");
        let says_cycles = text
            .lines()
            .next()
            .is_some_and(|first| first.contains(" cycles in A, "));
        assert_eq!(says_cycles, document.machine.is_some(), "{text}");
        assert!(text.ends_with("linemate 1.2.3\n"), "{text}");
    }
}

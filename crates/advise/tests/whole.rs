//! From a synthetic recording to a recommendation: what is extracted, what replay confirms, and
//! when there is nothing to say.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use linemate_advise::candidate::Candidate;
use linemate_advise::reasons::Knowledge;
use linemate_advise::shape::StructShape;
use linemate_advise::survey::survey;
use linemate_advise::trace::Trace;
use linemate_advise::{Advice, AdviseError, Choice, Request, advise};
use linemate_experiment::scene::{Scene, Watch};
use linemate_experiment::{Conditions, Seed};
use linemate_layout::plan::resolve;
use linemate_layout::{EditSubject, Layouts};
use linemate_machine::{Machine, find};
use linemate_recording::{AccessKind, Accesses, Recording};
use linemate_session::Session;
use linemate_study::{Run, Study};
use linemate_testkit::calls;
use linemate_testkit::world::{COUNTER, Contents, F, RQ, UNITS, World, split_off};
use linemate_types::{ByteSize, LineSize};

const ROUNDS: u64 = 100;

/// CPU 0 writes nr_running of its `rq`, CPU 1 reads curr, on the same line; both use the lock.
fn contended() -> Recording {
    contended_by(1, 2)
}

/// The same with another CPU in place of CPU 1, of that many.
fn contended_by(reader: u16, cpus: u16) -> Recording {
    contended_for(ROUNDS, 64, reader, cpus)
}

/// The same for that many rounds, in chunks of that many events.
fn contended_for(rounds: u64, chunk: u32, reader: u16, cpus: u16) -> Recording {
    let mut w = World::with_chunks_of(chunk);
    let rq = UNITS[0] + RQ;
    for _ in 0..rounds {
        w.access(0, AccessKind::Store, rq, 4, F::WakeTask, false);
        w.access(reader, AccessKind::Load, rq + 8, 8, F::UpdateRq, false);
        w.access(0, AccessKind::Rmw, rq + 72, 4, F::WakeTask, false);
        w.access(reader, AccessKind::Rmw, rq + 72, 4, F::UpdateRq, false);
    }
    let mut contents = Contents::new();
    contents.metadata.insert("cpus".into(), cpus.to_string());
    w.record_of(true, contents)
}

/// CPU 0 alone.
fn alone() -> Recording {
    let mut w = World::with_chunks_of(64);
    let rq = UNITS[0] + RQ;
    for _ in 0..ROUNDS {
        w.access(0, AccessKind::Store, rq, 4, F::WakeTask, false);
        w.access(0, AccessKind::Load, rq + 8, 8, F::UpdateRq, false);
    }
    w.record()
}

fn machine() -> Machine {
    let mut machine = find("westmere-4s-80").unwrap();
    // Fetching pairs of lines would mix what a layout of two lines separates.
    machine.adjacent_line_pairs = false;
    machine
}

fn request(pins: &[&str]) -> Request {
    Request {
        type_name: "rq".into(),
        machines: vec![machine()],
        pins: pins.iter().map(|p| (*p).to_owned()).collect(),
        max_growth: ByteSize(0),
        conditions: Conditions::default(),
        seed: Seed(1),
        interleavings: 8,
        choice: Choice::default(),
        all_interleavings: false,
        under: None,
    }
}

fn advice(recording: &Recording, request: &Request) -> Result<Advice, AdviseError> {
    let session = Session::new(recording).unwrap();
    advise(&[&session], request)
}

#[test]
fn each_layout_that_is_replayed_says_what_it_changes_under_a_function() {
    let recording = calls::tree().finish().0;
    let session = Session::new(&recording).unwrap();
    let session = session.with_code(vec![calls::code()]);
    let plain = advise(&[&session], &request(&[])).unwrap();
    let under = Request {
        under: Some(calls::NAMES[calls::ENTRY].to_owned()),
        ..request(&[])
    };
    let advice = advise(&[&session], &under).unwrap();
    assert!(!plain.tried.is_empty());
    assert_eq!(plain.tried.len(), advice.tried.len());
    for (plain, tried) in plain.tried.iter().zip(&advice.tried) {
        assert_eq!(plain.edits, tried.edits, "it decides nothing");
        for (plain, effect) in plain.effects.iter().zip(&tried.effects) {
            assert_eq!(plain[0].under, None);
            assert_eq!(
                effect[0].under,
                Some(effect[0].whole),
                "all is under the entry"
            );
            assert_eq!(effect[0].types, plain[0].types);
        }
    }
    let unknown = Request {
        under: Some("wake_tusk".to_owned()),
        ..under
    };
    let error = advise(&[&session], &unknown).unwrap_err().to_string();
    assert!(
        error.starts_with("--under: there is no function `wake_tusk`"),
        "{error}"
    );
}

fn trace(recording: &Recording) -> Trace {
    extracted(&Session::new(recording).unwrap()).1
}

fn extracted(session: &Session<'_>) -> (StructShape, Trace) {
    let model = session.analysis().model();
    let ids = resolve(model, &EditSubject::Named("rq".into())).unwrap();
    let mut layouts = Layouts::new(model, LineSize::B64);
    let shape = StructShape::new(&mut layouts, "rq", &ids, &[]).unwrap();
    let watch = Watch {
        types: vec![ids],
        ..Watch::default()
    };
    let scene = Scene::new(session, &watch).unwrap();
    let traces = Trace::extract(&scene, model, &[&shape], Seed(1), machine().line).unwrap();
    let trace = traces.into_iter().next().unwrap();
    (shape, trace)
}

#[test]
fn accesses_that_no_layout_changes_are_left_out() {
    let all = trace(&contended());
    assert_eq!([all.accesses, all.all], [Accesses(4 * ROUNDS); 2]);
    assert_eq!(all.objects.len(), 1);
    let kept = all.events() as u64;
    assert_eq!(kept, 4 * ROUNDS, "each one may find its line gone");
    let alone = trace(&alone());
    assert_eq!(alone.accesses, Accesses(2 * ROUNDS));
    assert_eq!(alone.events(), 2, "the first store and the first load");
    let stores: Accesses = alone
        .uses
        .iter()
        .filter(|((.., kind), _)| kind.writes())
        .map(|(_, used)| used.count)
        .sum();
    assert_eq!(stores, Accesses(ROUNDS), "reasons count all");
}

#[test]
fn what_contends_is_parted_and_replay_confirms_it() {
    let recording = contended();
    let advice = advice(&recording, &request(&[])).unwrap();
    let best = advice.recommended().unwrap();
    let effect = &best.effects[0][0];
    assert!(effect.types.significant && effect.types.difference < 0.0);
    // The same as a what-if with the same edit.
    let session = Session::new(&recording).unwrap();
    let images = BTreeMap::new();
    let study = Study::new(&session, &best.edits, &images, &[]).unwrap();
    let run = Run {
        machine: machine(),
        conditions: Conditions::default(),
        seed: Seed(1),
        interleavings: 8,
        all_interleavings: false,
        ablate: false,
    };
    let whatif = study.run(&run).unwrap();
    assert_eq!(whatif.types, effect.types);
    assert_eq!(whatif.whole, effect.whole);
    let causes = whatif.causes.iter();
    let false_sharing: f64 = causes
        .filter(|row| row.name == "false_sharing")
        .map(|row| row.count.with)
        .sum();
    let (before, after) = (effect.types.without, effect.types.with);
    assert!(after < 0.75 * before, "{before} to {after}");
    assert!(false_sharing <= ROUNDS as f64, "{false_sharing}");
    let side = best.footprints[0];
    assert_eq!((side.before.lines, side.after.lines), (2, 2));
    assert_eq!((side.before.touched, side.before.alone), (2, 0));
    assert_eq!((side.after.touched, side.after.alone), (2, 1));
}

/// Readers whose numbers are CPU 0's in a word's bits, or in a byte.
#[test]
fn recordings_of_more_cpus_than_a_word_or_a_byte_counts_are_searched() {
    for (reader, cpus) in [(64, 65), (64, 128), (192, 240), (256, 300)] {
        let recording = contended_by(reader, cpus);
        let trace = trace(&recording);
        assert_eq!(trace.events() as u64, 4 * ROUNDS, "{cpus}");
        let users = trace.uses.values().flat_map(|used| used.cpus.iter());
        assert_eq!(users.collect::<BTreeSet<_>>(), BTreeSet::from([0, reader]));
        let mut request = request(&[]);
        request.machines[0] = find("gnr-2s-480").unwrap();
        let advice = advice(&recording, &request).unwrap();
        let best = advice.recommended().unwrap();
        let effect = &best.effects[0][0].types;
        assert!(effect.significant, "{cpus}");
        assert!(effect.with < 0.75 * effect.without, "{cpus}: {effect:?}");
        let side = best.footprints[0];
        assert_eq!((side.before.touched, side.before.alone), (2, 0), "{cpus}");
        assert_eq!((side.after.touched, side.after.alone), (2, 1), "{cpus}");
    }
}

#[test]
fn more_cpus_than_the_machine_has_are_refused() {
    let refused = advice(&contended_by(256, 300), &request(&[])).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "westmere-4s-80 has 80 CPUs, but the recording has 300: choose a larger machine"
    );
}

#[test]
fn reasons_name_functions_as_all_tables_do() {
    let mut w = World::with_chunks_of(64);
    let rq = UNITS[0] + RQ;
    let user_code = 0x40_1000;
    for _ in 0..ROUNDS {
        w.access(0, AccessKind::Store, rq, 4, F::WakeTask, false);
        w.access_at(1, AccessKind::Rmw, rq, 4, split_off(F::UpdateRq), false);
        for pc in [split_off(F::UpdateRq), user_code] {
            w.access_at(1, AccessKind::Load, rq + 8, 8, pc, false);
        }
        w.access(0, AccessKind::Rmw, rq + 72, 4, F::WakeTask, false);
        w.access_at(
            1,
            AccessKind::Rmw,
            rq + 72,
            4,
            split_off(F::UpdateRq),
            false,
        );
    }
    let recording = w.record();
    let session = Session::new(&recording).unwrap();
    let (shape, trace) = extracted(&session);
    let knowledge = Knowledge {
        shape: &shape,
        traces: vec![(&trace, session.analysis().symbols())],
        models: &[],
        originals: &[],
        hot: &[0, 1, 2],
    };
    let candidate = Candidate {
        segments: vec![vec![0, 1, 2]],
        ..Candidate::original(&shape)
    };
    let [group] = &knowledge.reasons(&candidate, &["all".to_owned()])[..] else {
        panic!("one group");
    };
    assert_eq!(group.read_in, ["(user code)", "update_rq"]);
    assert_eq!(group.written_in, ["update_rq", "wake_task"]);
}

#[test]
fn where_nothing_is_to_be_had_nothing_is_recommended() {
    let advice = advice(&alone(), &request(&[])).unwrap();
    assert!(advice.recommended().is_none());
}

#[test]
fn pinned_members_stay() {
    // All members are pinned with the last one.
    let all = advice(&contended(), &request(&["lock"])).unwrap();
    assert!(all.recommended().is_none());
    let some = advice(&contended(), &request(&["curr"])).unwrap();
    for tried in &some.tried {
        let text = tried.edits.to_string();
        assert!(!text.contains("nr_running"), "{text}");
    }
}

#[test]
fn several_recordings_and_machines_count_alike() {
    let (a, b) = (contended(), alone());
    let (a, b) = (Session::new(&a).unwrap(), Session::new(&b).unwrap());
    let mut request = request(&[]);
    request.machines.push(find("power11").unwrap());
    let advice = advise(&[&a, &b], &request).unwrap();
    for tried in &advice.tried {
        assert_eq!(tried.effects.len(), 2, "recordings");
        assert!(tried.effects.iter().all(|e| e.len() == 2), "machines");
    }
    assert_eq!(advice.events, [400, 2]);
    assert_eq!(advice.sampled_from, advice.events);
}

#[test]
fn a_long_trace_is_rated_on_a_sample() {
    let recording = contended_for(132_000, 1 << 16, 1, 2);
    let session = Session::new(&recording).unwrap();
    let found = advise(&[&session], &request(&[])).unwrap();
    assert_eq!(found.sampled_from, [528_000]);
    assert!(
        (512 << 10..528_000).contains(&found.events[0]),
        "{:?}",
        found.events
    );
    assert!(!found.cut);
    let short = advice(&contended(), &request(&[])).unwrap();
    let edits = |advice: &Advice| advice.recommended().unwrap().edits.to_string();
    assert_eq!(edits(&found), edits(&short));
}

#[test]
fn the_survey_puts_the_contended_type_first() {
    let recording = contended();
    let session = Session::new(&recording).unwrap();
    let rows = survey(&[&session], &[machine()], Conditions::default(), Seed(1), 3).unwrap();
    assert_eq!(rows[0].name, "rq");
    let row = &rows[0];
    assert!((row.true_sharing + row.false_sharing + row.other_misses - 1.0).abs() < 1e-9);
    assert!((row.share - 1.0).abs() < 1e-9, "nothing else was touched");
    let estimate = row.estimate.unwrap();
    assert!(estimate.share > 0.25, "{estimate:?}");
    assert!((estimate.gain - estimate.share * row.cost).abs() < 1e-6);
}

/// Two words on two lines that are always exchanged together: nothing but true sharing, half of
/// which ends where both are on one line.
#[test]
fn a_layout_saves_true_sharing_of_words_that_are_exchanged_together() {
    let mut w = World::with_chunks_of(64);
    let rq = UNITS[0] + RQ;
    for _ in 0..ROUNDS {
        // Both turns take as long, so that no load comes between the stores however they are
        // shifted.
        for word in [0, 64] {
            w.access(0, AccessKind::Store, rq + word, 4, F::WakeTask, false);
        }
        w.wait(4000);
        for cpu in [0, 1] {
            w.access(cpu, AccessKind::Load, COUNTER, 4, F::UpdateRq, false);
        }
        w.wait(4000);
        for word in [0, 64] {
            w.access(1, AccessKind::Load, rq + word, 4, F::UpdateRq, false);
        }
    }
    let recording = w.record();
    let session = Session::new(&recording).unwrap();
    let rows = survey(&[&session], &[machine()], Conditions::default(), Seed(1), 3).unwrap();
    let row = &rows[0];
    let not_true = row.false_sharing + row.other_misses;
    assert!(row.true_sharing > 0.9, "{row:?}");
    // The estimate is more than all that is not true sharing, and replay confirms it: that is not a
    // bound.
    let estimate = row.estimate.unwrap();
    assert!(estimate.share > 0.4 && estimate.share > not_true, "{row:?}");
    let advice = advice(&recording, &request(&[])).unwrap();
    let confirmed = advice.tried.iter().filter(|t| t.confirmed());
    let gain = confirmed.map(|t| 1.0 - t.relative());
    let gain = gain.max_by(f64::total_cmp).unwrap();
    assert!((gain - estimate.share).abs() < 0.1, "{gain} {estimate:?}");
    assert!(gain > not_true);
}

#[test]
fn refusals_say_what_is_wrong() {
    let refused = |change: fn(&mut Request)| {
        let mut request = request(&[]);
        change(&mut request);
        advice(&contended(), &request).unwrap_err().to_string()
    };
    assert_eq!(
        refused(|r| r.type_name = "rqq".into()),
        "rqq: there is no such struct; the nearest: rq"
    );
    assert_eq!(
        refused(|r| r.type_name = "vector".into()),
        "the recording has no access to any vector: was it recorded with a workload that uses it?"
    );
    assert_eq!(
        refused(|r| r.pins = vec!["lok".into()]),
        "--pin lok: rq has no such member; the nearest: lock"
    );
    assert_eq!(refused(|r| r.machines.clear()), "give at least one machine");
}

/// The search takes minutes on a real recording.
#[test]
fn what_replays_would_refuse_is_refused_before_the_search() {
    let recording = World::new().record();
    let few = Request {
        interleavings: 7,
        ..request(&[])
    };
    let refused = advice(&recording, &few).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "7 interleavings are too few for a 95 % confidence interval: at least 8"
    );
    let odd = Request {
        conditions: Conditions {
            cpus: Some(3),
            ..Conditions::default()
        },
        ..request(&[])
    };
    let refused = advice(&recording, &odd).unwrap_err().to_string();
    assert!(
        refused.starts_with("3 CPUs are not a multiple of the "),
        "{refused}"
    );
}

//! What accesses cost by the recording's order is the same from a list of misses as from a replay.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use linemate_experiment::scene::{Scene, Watch};
use linemate_experiment::{Conditions, Experiment, PlacedCounts, Seed};
use linemate_machine::{Machine, Mechanism, find};
use linemate_recording::{AccessKind, Accesses, Recording};
use linemate_replay::{Cause, Outcome, SiteId};
use linemate_session::Session;
use linemate_session::progress::Silent;
use linemate_session::shelf::InMemory;
use linemate_testkit::world::{Contents, F, NOHZ, RQ, UNITS, World};

/// As many numbers as accesses are counted for.
const SITES: u32 = 7;

/// Two CPUs in turns of some length, with accesses of a field, of untyped memory and across lines,
/// several of one instruction; `turns`: whether the recording says where turns begin.
fn recording(turns: bool) -> Recording {
    world(turns).record()
}

fn world(turns: bool) -> World {
    let mut world = World::with_chunks_of(64);
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    for _ in 0..600 {
        let cpu = random(2) as u16;
        if turns {
            world.turn(cpu);
        }
        for _ in 0..random(6) {
            world.wait(random(3));
            let kind = [AccessKind::Load, AccessKind::Store, AccessKind::Rmw][random(3) as usize];
            match random(4) {
                0 => world.access(cpu, kind, NOHZ, 8, F::UpdateRq, false),
                1 => world.user_access(cpu, kind, 0x1000 + 60 * random(9)),
                _ => {
                    let unit = UNITS[random(2) as usize];
                    world.access(cpu, kind, unit + RQ + 4 * random(32), 4, F::WakeTask, false);
                }
            }
        }
    }
    world
}

/// One on which a line's history depends on its own accesses.
fn machine() -> Machine {
    let machine = find("gnr-2s-480").unwrap();
    machine.with_only(|mechanism| mechanism == Mechanism::AdjacentLinePairs)
}

/// By the order of the accesses, which a wrong place would change.
fn placed(experiment: &Experiment<'_>, seed: u64) -> PlacedCounts {
    let mut number = 0;
    let mut site = |_: &_| {
        number += 1;
        SiteId(number % SITES)
    };
    experiment.placed(Seed(seed), &mut site).unwrap()
}

fn same(listed: &PlacedCounts, replayed: &PlacedCounts) {
    assert_eq!(listed.accesses, replayed.accesses);
    assert_eq!(listed.totals, replayed.totals);
    let site =
        |of: &PlacedCounts, number: u32| of.sites.get(number as usize).copied().unwrap_or_default();
    for number in 0..SITES {
        assert_eq!(
            site(listed, number),
            site(replayed, number),
            "site {number}"
        );
    }
}

#[test]
fn a_list_of_misses_charges_what_a_replay_does() {
    let machine = machine();
    for turns in [false, true] {
        let recording = recording(turns);
        let shelf = InMemory::default();
        let session = Session::open(&recording, Box::new(shelf.clone()), Box::new(Silent)).unwrap();
        let scene = Scene::new(&session, &Watch::default()).unwrap();
        let listed = Experiment::new(&scene, &machine, Conditions::default()).unwrap();
        let replayed = Experiment {
            whole: true,
            ..listed
        };
        for seed in 1..4 {
            let counts = placed(&listed, seed);
            let misses = Cause::ALL.map(|cause| counts.totals[cause as usize].count);
            assert!(
                misses.iter().sum::<Accesses>() > Accesses(100),
                "{misses:?}"
            );
            assert!(misses[Cause::TrueSharing as usize] > Accesses::ZERO);
            assert!(misses[Cause::FalseSharing as usize] > Accesses::ZERO);
            let stored = shelf.take_stored();
            let listed = stored.iter().any(|name| name.starts_with("baselines"));
            assert!(listed, "nothing was listed: {stored:?}");
            same(&counts, &placed(&replayed, seed));
        }
    }
}

/// The second question finds the replay that the first one kept, for the same figures.
#[test]
fn a_kept_replay_answers_for_any_keys() {
    let machine = machine();
    let recording = recording(true);
    let shelf = InMemory::default();
    let open = || Session::open(&recording, Box::new(shelf.clone()), Box::new(Silent)).unwrap();
    let session = open();
    let plain = Scene::new(&session, &Watch::default()).unwrap();
    let experiment = Experiment::new(&plain, &machine, Conditions::default()).unwrap();
    let first = placed(&experiment, 1);
    let stored = shelf.take_stored();
    assert!(
        stored.iter().any(|name| name.starts_with("baselines")),
        "{stored:?}"
    );

    let whole = Experiment {
        whole: true,
        ..Experiment::new(&plain, &machine, Conditions::default()).unwrap()
    };
    same(&first, &placed(&whole, 1));

    let every = Watch {
        every: true,
        ..Watch::default()
    };
    let as_recorded = |session: &Session<'_>| -> Outcome {
        let scene = Scene::new(session, &every).unwrap();
        let experiment = Experiment::new(&scene, &machine, Conditions::default()).unwrap();
        experiment.as_recorded(Seed(1)).unwrap()
    };
    // Without the stream a replay would make it again.
    shelf.with(|parts| parts.retain(|name, _| !name.starts_with("stream")));
    let kept = as_recorded(&open());
    assert!(kept.keys.iter().any(|key| key.accesses() > Accesses::ZERO));
    assert!(kept == as_recorded(&Session::new(&recording).unwrap()));
    let stored = shelf.take_stored();
    assert!(
        !stored.iter().any(|name| name.starts_with("stream")),
        "nothing was replayed: {stored:?}"
    );
}

/// CPUs that were threads of one core take nothing from each other.
#[test]
fn threads_of_a_recorded_core_share_its_caches() {
    let machine = machine();
    let exchanged = |threads: Option<&str>| {
        let mut contents = Contents::new();
        let threads = threads.map(|threads| ("threads".to_owned(), threads.to_owned()));
        contents.metadata.extend(threads);
        let recording = world(true).record_of(true, contents);
        let session = Session::new(&recording).unwrap();
        let scene = Scene::new(&session, &Watch::default()).unwrap();
        let experiment = Experiment::new(&scene, &machine, Conditions::default()).unwrap();
        let totals = experiment.as_recorded(Seed(1)).unwrap().totals;
        [Cause::TrueSharing, Cause::FalseSharing].map(|cause| totals.cause(cause).count)
    };
    let apart = exchanged(None);
    assert!(
        apart.iter().all(|count| *count > Accesses(100)),
        "{apart:?}"
    );
    assert_eq!(exchanged(Some("1")), apart);
    assert_eq!(exchanged(Some("2")), [Accesses::ZERO; 2]);
}

//! `skip array of F` in a synthetic recording: which arrays the accesses after F identify, and what
//! vanishes with them.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;

use linemate_answers::{Followed, WhatIf};
use linemate_experiment::{Conditions, Seed};
use linemate_layout::parse;
use linemate_machine::find;
use linemate_recording::{AccessKind, Recording};
use linemate_session::Session;
use linemate_study::{Run, Study};
use linemate_testkit::world::{F, KMALLOC_SLAB, TASK_SLAB, World};

const ROUNDS: u64 = 10;
const TASKS: [u64; 2] = [TASK_SLAB, TASK_SLAB + 256];
const STATE: u64 = 0;
const QUEUES: u64 = 208;
const ENTITIES: u64 = 216;
/// The arrays after `queues` and `entities` of both tasks, and an object of the same size that
/// nothing leads to.
const QUEUES_OF: [u64; 2] = [KMALLOC_SLAB, KMALLOC_SLAB + 64];
const ENTITIES_OF: [u64; 2] = [KMALLOC_SLAB + 128, KMALLOC_SLAB + 192];
const OTHER: u64 = KMALLOC_SLAB + 256;

struct Maker(World);

impl Maker {
    fn new() -> Maker {
        let mut world = World::new();
        for task in TASKS {
            world.call(F::WakeTask, &[task]);
            world.ret(F::WakeTask, 0);
        }
        Maker(world)
    }

    fn load(&mut self, cpu: u16, addr: u64) -> &mut Maker {
        self.0
            .access(cpu, AccessKind::Load, addr, 8, F::UpdateEntity, false);
        self
    }

    fn load4(&mut self, cpu: u16, addr: u64) -> &mut Maker {
        self.0
            .access(cpu, AccessKind::Load, addr, 4, F::UpdateEntity, false);
        self
    }

    /// That many accesses to something else.
    fn pause(&mut self, cpu: u16, accesses: usize) -> &mut Maker {
        for _ in 0..accesses {
            self.load4(cpu, TASKS[0] + STATE);
        }
        self
    }

    fn record(self) -> Recording {
        self.0.record()
    }
}

fn whatif(recording: &Recording, edits: &str) -> Result<WhatIf, String> {
    let session = Session::new(recording).unwrap();
    let edits = parse(edits).unwrap();
    let images = BTreeMap::new();
    let study = Study::new(&session, &edits, &images, &[]).map_err(|e| e.to_string())?;
    let run = Run {
        machine: find("westmere-4s-80").unwrap(),
        conditions: Conditions::default(),
        seed: Seed(1),
        interleavings: 8,
        all_interleavings: false,
        ablate: false,
    };
    study.run(&run).map_err(|e| e.to_string())
}

fn followed(pointer: &str, owners: usize, arrays: usize) -> Followed {
    Followed {
        pointer: pointer.to_owned(),
        owners,
        arrays,
    }
}

/// `entities` of both tasks are followed in several ways, `queues` of the first only together with
/// `entities`.
fn recording() -> Recording {
    let mut m = Maker::new();
    for _ in 0..ROUNDS {
        // With something in between, on this CPU and on another.
        m.load(0, TASKS[0] + ENTITIES).load4(0, TASKS[0] + STATE);
        m.load(1, OTHER + 8).load(0, ENTITIES_OF[0] + 8);
        m.load(1, TASKS[1] + ENTITIES).load(1, ENTITIES_OF[1]);
        // What is accessed after the array has nothing to do with it any more.
        m.load(1, OTHER);
        // Which is whose is unknown.
        m.load(0, TASKS[0] + QUEUES).load(0, TASKS[0] + ENTITIES);
        m.load(0, QUEUES_OF[0] + 16).load(0, ENTITIES_OF[0] + 16);
        m.load(1, TASKS[1] + QUEUES).load(1, QUEUES_OF[1] + 8);
    }
    // Once in a while something else comes in between, or too late.
    m.load(1, TASKS[1] + ENTITIES).load(1, OTHER);
    m.load(0, TASKS[0] + QUEUES).pause(0, 8).load(0, OTHER + 16);
    // No element: neither its size nor its place.
    m.load(0, TASKS[0] + QUEUES).load4(0, OTHER + 24);
    m.load(0, TASKS[0] + QUEUES).load(0, OTHER + 28);
    m.record()
}

#[test]
fn what_is_behind_a_pointer_is_skipped_and_nothing_else() {
    let recording = recording();
    let result = whatif(&recording, "type task\nskip array of entities").unwrap();
    assert_eq!(result.followed, [followed("task.entities", 2, 2)]);
    assert_eq!(result.skipped, 3 * ROUNDS);
    let result = whatif(&recording, "type task\nskip array of queues").unwrap();
    assert_eq!(result.followed, [followed("task.queues", 2, 1)]);
    assert_eq!(result.skipped, ROUNDS, "the second task's");
    let all = "type task\nskip array of queues\nremove entities\nskip array of entities";
    let result = whatif(&recording, all).unwrap();
    assert_eq!(
        result.followed,
        [
            followed("task.queues", 2, 1),
            followed("task.entities", 2, 2)
        ]
    );
    // The pointer's own loads vanish with the pointer, here too.
    assert_eq!(result.skipped, 4 * ROUNDS + 3 * ROUNDS + 1);
}

#[test]
fn the_last_access_that_still_counts() {
    for (between, found) in [(7, true), (8, false)] {
        let mut m = Maker::new();
        m.load(0, TASKS[0] + ENTITIES).pause(0, between);
        m.load(0, ENTITIES_OF[0]);
        let result = whatif(&m.record(), "type task\nskip array of entities");
        assert_eq!(result.is_ok(), found, "{between} accesses in between");
    }
}

#[test]
fn a_tie_shows_nothing() {
    let mut m = Maker::new();
    // Each of the tasks' pointers is followed by both objects, equally often.
    for (task, array) in [(0, 0), (1, 1), (0, 1), (1, 0)] {
        m.load(0, TASKS[task] + ENTITIES)
            .load(0, ENTITIES_OF[array]);
    }
    let refused = whatif(&m.record(), "type task\nskip array of entities").unwrap_err();
    assert_eq!(
        refused,
        "no array of `task.entities` to skip: of 2 objects whose `task.entities` is loaded, none can be identified from \
         the next accesses"
    );
}

#[test]
fn an_array_belongs_to_who_uses_it_most() {
    let mut m = Maker::new();
    for task in [0, 0, 1] {
        m.load(0, TASKS[task] + ENTITIES).load(0, ENTITIES_OF[0]);
    }
    let result = whatif(&m.record(), "type task\nskip array of entities").unwrap();
    assert_eq!(result.followed, [followed("task.entities", 2, 1)]);
    assert_eq!(result.skipped, 3, "all accesses to the array");
}

//! The fast model: its cost of lines equals the replay machine's for the same events, and layouts
//! equal those of the edits.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;

use common::{Dice, machine, metrics, model, shape};
use linemate_advise::candidate::Candidate;
use linemate_advise::cost::{CostModel, STRETCH};
use linemate_advise::shape::{Metrics, StructShape, UnitLayout};
use linemate_advise::trace::{Act, Event, Kind, ObjectTrace, Trace};
use linemate_layout::{EditSubject, Plan, parse};
use linemate_machine::Machine;
use linemate_recording::{AccessKind, CpuId};
use linemate_replay::{Piece, System};
use linemate_types::{ByteSize, LineSize, TypeModel};

const R: Kind = Kind::Load;
const W: Kind = Kind::Store;

/// Two CPUs, one event in each round by default.
fn story(events: &[(u32, u16, u16, Kind)]) -> Trace {
    let event = |&(round, cpu, atom, kind): &(u32, u16, u16, Kind)| Event {
        round,
        at: 0,
        atom,
        act: Act::new(CpuId(cpu), kind),
    };
    let events = events.iter().map(event).collect();
    Trace {
        objects: vec![ObjectTrace { residue: 0, events }],
        cpus: 2,
        ..Trace::default()
    }
}

fn plain(name: &str) -> Machine {
    let mut machine = machine(name);
    machine.adjacent_line_pairs = false;
    machine
}

/// The cost of m0 and m1 on one line, and on two.
fn costs(events: &[(u32, u16, u16, Kind)], machine: &Machine) -> (u64, u64) {
    let trace = story(events);
    (
        checked(&trace, machine, &[0, 8]),
        checked(&trace, machine, &[0, 64]),
    )
}

/// The fast model's cost of a trace whose members start there, which has to be the replay's.
fn checked(trace: &Trace, machine: &Machine, starts: &[u32]) -> u64 {
    let types = model(&vec![8; starts.len()]);
    let shape = shape(&types);
    let metrics = metrics(&types, &shape, LineSize::B64);
    let model = CostModel::new(trace, machine, metrics, &shape).unwrap();
    let placed = UnitLayout {
        starts: starts.to_vec(),
        size: ByteSize(256),
        align: LineSize::B64.into(),
    };
    let cost = model.cost(&shape, &placed).0;
    let replayed = replayed(trace, machine, starts);
    let (name, pairs) = (&machine.name, machine.adjacent_line_pairs);
    assert_eq!(cost, replayed, "{name} {pairs} {starts:?} {trace:?}");
    cost
}

/// Cycles of accesses that leave their core on the replay's machine, if the events of the trace's
/// object happen a second time. What waits for each other is a line, or a pair if the machine
/// fetches pairs.
fn replayed(trace: &Trace, machine: &Machine, starts: &[u32]) -> u64 {
    let line_of = |event: &Event| u64::from(starts[usize::from(event.atom)]) / 64;
    let block_of = |line: u64| line / (1 + u64::from(machine.adjacent_line_pairs));
    let last = starts.iter().max().unwrap();
    let blocks = 0..=block_of(u64::from(*last) / 64);
    let of_block = |block: u64| {
        let events = trace.objects[0].events.iter();
        let inside = events.filter(|event| block_of(line_of(event)) == block);
        let events: Vec<(Event, u64)> = inside.map(|event| (*event, line_of(event))).collect();
        let mut system = System::new(machine);
        let warm_up = run(&mut system, machine, trace.cpus, &events, 0);
        run(&mut system, machine, trace.cpus, &events, warm_up.1).0
    };
    blocks.map(of_block).sum()
}

/// Cycles of the accesses that leave their core, and when the next round may start. In a round a
/// CPU is alone, or has one event.
fn run(
    system: &mut System,
    machine: &Machine,
    cpus: usize,
    events: &[(Event, u64)],
    mut begin: u64,
) -> (u64, u64) {
    let topology = &machine.topology;
    let spread = topology.spread(cpus).unwrap();
    let mut cycles = 0;
    for round in events.chunk_by(|a, b| a.0.round == b.0.round) {
        let mut stalls = vec![0; cpus];
        for (event, line) in round {
            let cpu = usize::from(event.act.cpu().0);
            let piece = Piece {
                line: 0x1000 + line,
                words: 0xff << (8 * event.atom),
                kind: match event.act.kind() {
                    Kind::Load => AccessKind::Load,
                    Kind::Store => AccessKind::Store,
                    Kind::Rmw => AccessKind::Rmw,
                },
            };
            let now = begin + u64::from(event.at) * STRETCH + stalls[cpu];
            let place = topology.place(spread[cpu]).unwrap();
            let verdict = system.access(spread[cpu], place, piece, now);
            if !verdict.source.is_private() {
                stalls[cpu] += verdict.cycles;
                cycles += verdict.cycles;
            }
        }
        // No line is busy any more.
        begin += 1 << 20;
    }
    (cycles, begin)
}

/// Rounds in which one CPU does several things, or several do one each, closely enough that they
/// wait for each other.
fn random_story(cpus: u16, atoms: u64, dice: &mut Dice) -> Trace {
    let mut events = Vec::new();
    for round in 0..6 + dice.below(20) as u32 {
        let alone = dice.below(3) == 0;
        let one = dice.below(u64::from(cpus)) as u16;
        let doers: Vec<u16> = match alone {
            true => vec![one; 1 + dice.below(4) as usize],
            false => (0..cpus).filter(|_| dice.below(2) == 0).collect(),
        };
        let mut at = 0;
        for cpu in doers {
            at += dice.below(60) as u32;
            let kind = [R, R, W, Kind::Rmw][dice.below(4) as usize];
            let atom = dice.below(atoms) as u16;
            events.push(Event {
                round,
                at,
                atom,
                act: Act::new(CpuId(cpu), kind),
            });
        }
    }
    Trace {
        objects: vec![ObjectTrace { residue: 0, events }],
        cpus: usize::from(cpus),
        ..Trace::default()
    }
}

/// Ends a story with a round in which CPU 0 writes everything. The fast model warms up from the
/// last write to each line on. What a line of a pair was before its last write decides which
/// accesses miss there and fetch the other line, too: without such a round the two can begin in
/// different states.
fn write_all(trace: &mut Trace, atoms: u16) {
    let events = &mut trace.objects[0].events;
    let round = events.last().map_or(0, |last| last.round + 1);
    events.extend((0..atoms).map(|atom| Event {
        round,
        at: u32::from(atom),
        atom,
        act: Act::new(CpuId(0), W),
    }));
}

/// Of three layouts for each of that many stories, how many cost something.
fn paid(machine: &Machine, stories: u64, cpus: impl Fn(&mut Dice) -> u16) -> u64 {
    let mut paid = 0;
    for seed in 0..stories {
        let mut dice = Dice(seed);
        let cpus = cpus(&mut dice);
        let mut trace = random_story(cpus, 4, &mut dice);
        if machine.adjacent_line_pairs {
            write_all(&mut trace, 4);
        }
        for starts in [[0, 8, 16, 24], [0, 8, 64, 72], [0, 64, 128, 192]] {
            paid += u64::from(checked(&trace, machine, &starts) > 0);
        }
    }
    paid
}

#[test]
fn the_fast_model_is_the_replays_machine_without_lack_of_room() {
    for name in ["westmere-4s-80", "gnr-2s-480"] {
        for pairs in [false, true] {
            let mut machine = machine(name);
            machine.adjacent_line_pairs = pairs;
            let paid = paid(&machine, 200, |dice| 2 + dice.below(7) as u16);
            assert!(paid > 500, "{name} {pairs}: {paid} of 600 cost something");
        }
    }
}

/// Those of more than half of a machine's CPUs share cores.
#[test]
fn the_fast_model_is_the_replays_machine_on_hundreds_of_cpus() {
    for (name, cpus) in [
        ("westmere-4s-80", 65),
        ("gnr-2s-480", 128),
        ("gnr-2s-480", 240),
        ("gnr-2s-480", 300),
    ] {
        for pairs in [false, true] {
            let mut machine = machine(name);
            machine.adjacent_line_pairs = pairs;
            let paid = paid(&machine, 4, |_| cpus);
            assert_eq!(paid, 12, "{name} {cpus} {pairs}: all cost something");
        }
    }
}

/// Objects of a type of as many atoms, each with a story of its own.
fn random_objects(cpus: u16, atoms: u64, dice: &mut Dice) -> Trace {
    let mut trace = random_story(cpus, atoms, dice);
    for _ in 0..dice.below(4) {
        let mut other = random_story(cpus, atoms, dice).objects.remove(0);
        other.residue = [0, 64, 8][dice.below(3) as usize];
        trace.objects.push(other);
    }
    trace
}

/// More layouts than are costed at once, with blocks in common and without.
#[test]
fn layouts_cost_together_what_each_costs_alone() {
    for seed in 0..12 {
        let mut dice = Dice(seed);
        let types = model(&[8; 6]);
        let shape = shape(&types);
        let metrics = metrics(&types, &shape, LineSize::B64);
        let mut machine = machine("gnr-2s-480");
        machine.adjacent_line_pairs = seed % 2 == 0;
        let trace = random_objects(2 + dice.below(20) as u16, 6, &mut dice);
        let model = || CostModel::new(&trace, &machine, metrics.clone(), &shape).unwrap();
        let layout = |_| {
            let mut lines = [0; 5];
            let mut start = |_| {
                let line = dice.below(5) as usize;
                lines[line] += 1;
                64 * line as u32 + 8 * (lines[line] - 1)
            };
            UnitLayout {
                starts: (0..6).map(&mut start).collect(),
                size: ByteSize(320),
                align: LineSize::B64.into(),
            }
        };
        let layouts: Vec<UnitLayout> = (0..300).map(layout).collect();
        let together = model();
        together.prepare(&shape, &layouts);
        let mut paid = 0;
        for placed in &layouts {
            let cost = model().cost(&shape, placed);
            assert_eq!(together.cost(&shape, placed), cost, "{seed} {placed:?}");
            paid += usize::from(cost.0 > 0);
        }
        assert!(paid > 200, "{seed}: {paid} of 300 cost something");
    }
}

#[test]
fn a_line_costs_what_replay_says_it_costs() {
    let machine = plain("westmere-4s-80");
    let l = machine.latency;
    // Two CPUs of a recording sit on different sockets. A story begins with the lines as it leaves
    // them.
    let far = u64::from(l.hitm_other_socket);
    let one = |events: &[(u32, u16, u16, Kind)]| costs(events, &machine).0;
    assert_eq!(one(&[(0, 0, 0, R)]), 0);
    assert_eq!(
        one(&[(0, 0, 0, R), (1, 0, 0, W)]),
        0,
        "exclusive: nobody is told"
    );
    assert_eq!(one(&[(0, 0, 0, R), (1, 1, 0, R)]), 0, "both have it");
    assert_eq!(
        one(&[(0, 0, 0, W), (1, 1, 0, R)]),
        2 * far,
        "taken from the reader by an upgrade, then fetched from afar"
    );
    assert_eq!(
        one(&[(0, 0, 0, W), (1, 1, 0, R), (2, 0, 0, W)]),
        2 * far,
        "its own at the beginning, fetched from afar, then taken back"
    );
    assert_eq!(
        one(&[(0, 0, 0, W), (1, 1, 0, W), (2, 0, 0, R), (3, 0, 0, R)]),
        3 * far
    );
    let atomic = u64::from(l.atomic);
    assert_eq!(one(&[(0, 0, 0, Kind::Rmw), (1, 1, 0, R)]), 2 * far + atomic);
}

#[test]
fn false_sharing_ends_and_fetching_together_is_lost_on_two_lines() {
    let machine = plain("westmere-4s-80");
    let l = machine.latency;
    let far = u64::from(l.hitm_other_socket);
    // CPU 0 writes m0, CPU 1 reads m1.
    let apart = [(0, 0, 0, W), (1, 1, 1, R), (2, 0, 0, W), (3, 1, 1, R)];
    assert_eq!(costs(&apart, &machine), (4 * far, 0));
    // CPU 0 writes both, CPU 1 reads both.
    let together = [(0, 0, 0, W), (0, 0, 1, W), (1, 1, 0, R), (1, 1, 1, R)];
    assert_eq!(costs(&together, &machine), (2 * far, 4 * far));
}

#[test]
fn a_line_is_a_server() {
    let machine = plain("westmere-4s-80");
    let l = machine.latency;
    let far = u64::from(l.hitm_other_socket);
    // Both write in one round, at the same time: the second waits for the first, which fetches what
    // the second had.
    let race = [(0, 0, 0, W), (0, 1, 0, W)];
    assert_eq!(costs(&race, &machine).0, far + far + far);
}

#[test]
fn pairs_of_lines_are_fetched_together() {
    let mut machine = plain("westmere-4s-80");
    let far = u64::from(machine.latency.hitm_other_socket);
    // CPU 0 writes both, CPU 1 reads both.
    let both = [(0, 0, 0, W), (0, 0, 1, W), (1, 1, 0, R), (2, 1, 1, R)];
    assert_eq!(costs(&both, &machine), (2 * far, 4 * far));
    machine.adjacent_line_pairs = true;
    assert_eq!(costs(&both, &machine), (2 * far, 3 * far));
}

/// A random layout, in the form that the search makes.
fn random_candidate(shape: &StructShape, metrics: &Metrics, dice: &mut Dice) -> Candidate {
    let mut candidate = Candidate::original(shape);
    let count = shape.units().len() as u64;
    candidate.at = dice.below(count / 2) as usize;
    for _ in 0..dice.below(4) {
        let unit = dice.below(count) as usize;
        candidate.take(unit);
        candidate.segments.push(vec![unit]);
        let segment = candidate.segments.len() - 1;
        for _ in 0..dice.below(3) {
            let unit = dice.below(count) as usize;
            if candidate.rest.contains(&unit) {
                candidate.take(unit);
                candidate.put_into(segment, unit, metrics);
            }
        }
        candidate.open = dice.below(2) == 0;
    }
    for _ in 0..dice.below(4) {
        let (from, to) = (
            dice.below(candidate.rest.len() as u64) as usize,
            dice.below(candidate.rest.len() as u64) as usize,
        );
        let unit = candidate.rest.remove(from);
        candidate.rest.insert(to, unit);
    }
    candidate
}

fn edits_do_what_the_candidate_says(types: &TypeModel, dice: &mut Dice) {
    let shape = shape(types);
    for line in [LineSize::B64, LineSize::B128] {
        let metrics = metrics(types, &shape, line);
        let candidate = random_candidate(&shape, &metrics, dice);
        let names: Vec<String> = (0..4).map(|i| format!("group_{i}")).collect();
        let subject = EditSubject::Named("s".into());
        let text = candidate.edits(&subject, &shape, &names).to_string();
        let mut placed = UnitLayout::default();
        metrics.place(&candidate.slots(&shape), &mut placed);
        let edits = parse(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let images = BTreeMap::new();
        let mut plan =
            Plan::new(types, line, &edits, &images).unwrap_or_else(|e| panic!("{text}: {e}"));
        let layout = plan.layouts.of(shape.id).unwrap();
        let starts: Vec<u32> = layout
            .offsets
            .iter()
            .map(|bit| (bit.unwrap().0 / 8) as u32)
            .collect();
        assert_eq!(starts, placed.starts, "{text}{candidate:?}");
        assert_eq!(layout.size, placed.size, "{text}");
    }
}

#[test]
fn edits_put_members_where_the_search_put_them() {
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let sizes: Vec<u32> = (0..6 + dice.below(12))
            .map(|_| [1, 2, 4, 8, 16, 40][dice.below(6) as usize])
            .collect();
        edits_do_what_the_candidate_says(&model(&sizes), &mut dice);
    }
}

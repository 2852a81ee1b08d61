//! The machine against a second, independent model of it, on every short sequence of accesses of
//! small spaces and on long seeded random ones.
//!
//! The second model stores each core's state of each line explicitly (M, E, S, F) in sorted maps,
//! caches as lists, and decides true and false sharing afterwards, from the log of all accesses, by
//! the letter of the definition. It is slow and has no cleverness to get wrong.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::collections::BTreeMap;

use common::machine;
use linemate_machine::{CoreId, Distance, DomainId, LogicalCpu, Machine};
use linemate_recording::AccessKind;
use linemate_replay::{Cause, LineState, MissTag, Piece, Source, System};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Op {
    cpu: u16,
    kind: AccessKind,
    line: u64,
    words: u64,
    at: u64,
}

/// What both models say about one access.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    source: Source,
    cause: Option<Cause>,
    cycles: u64,
    waited: u64,
    /// The line's state in every core after the access.
    states: Vec<LineState>,
}

/// A core's caches: lists of (line, modified), most recently used first.
#[derive(Default)]
struct Private {
    l1: Vec<(u64, bool)>,
    l2: Vec<(u64, bool)>,
}

/// What happened to a core's copy of a line, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyEvent {
    /// The copy arrived (on a miss or a prefetch) at this access.
    Came,
    /// The core used these words.
    Used(u64),
    /// The core wrote these words.
    Wrote(u64),
    /// Another core's write took the copy.
    Taken,
    /// The caches had no room.
    Dropped,
}

struct Brute<'m> {
    machine: &'m Machine,
    cores: Vec<Private>,
    llc: Vec<Vec<u64>>,
    states: BTreeMap<(u64, u16), LineState>,
    busy: BTreeMap<u64, u64>,
    home: BTreeMap<u64, u16>,
    /// (access number, core, line, event), in order.
    log: Vec<(usize, u16, u64, CopyEvent)>,
    /// Coherence misses to be classified: (access number, core, line).
    undecided: Vec<(usize, u16, u64)>,
    now: usize,
}

impl<'m> Brute<'m> {
    fn new(machine: &'m Machine) -> Brute<'m> {
        Brute {
            machine,
            cores: (0..machine.topology.cores())
                .map(|_| Private::default())
                .collect(),
            llc: vec![Vec::new(); machine.topology.domains()],
            states: BTreeMap::new(),
            busy: BTreeMap::new(),
            home: BTreeMap::new(),
            log: Vec::new(),
            undecided: Vec::new(),
            now: 0,
        }
    }

    fn domain(&self, core: u16) -> u16 {
        self.machine.topology.domain_of(CoreId(core)).0
    }

    fn distance(&self, core: u16, domain: u16) -> Distance {
        self.machine
            .topology
            .distance(DomainId(self.domain(core)), DomainId(domain))
    }

    fn state(&self, line: u64, core: u16) -> LineState {
        self.states
            .get(&(line, core))
            .copied()
            .unwrap_or(LineState::Invalid)
    }

    fn holders(&self, line: u64) -> Vec<u16> {
        (0..self.cores.len() as u16)
            .filter(|&core| self.state(line, core) != LineState::Invalid)
            .collect()
    }

    fn access(&mut self, op: Op) -> Answer {
        let place = self.machine.topology.place(LogicalCpu(op.cpu)).unwrap();
        let core = place.core.0;
        let l = &self.machine.latency;
        let atomic = if op.kind == AccessKind::Rmw {
            u64::from(l.atomic)
        } else {
            0
        };
        let write = op.kind != AccessKind::Load;
        let in_l1 = self.cores[core as usize]
            .l1
            .iter()
            .any(|&(line, _)| line == op.line);
        let in_l2 = self.cores[core as usize]
            .l2
            .iter()
            .any(|&(line, _)| line == op.line);
        let state = self.state(op.line, core);
        assert_eq!(state != LineState::Invalid, in_l1 || in_l2, "{op:?}");
        let exclusive = matches!(state, LineState::Modified | LineState::Exclusive);
        let answer = if state == LineState::Invalid {
            self.miss(op, core, write, atomic)
        } else if write && !exclusive {
            self.upgrade(op, core, atomic)
        } else {
            let (source, cycles) = if in_l1 {
                (Source::L1, l.l1)
            } else {
                (Source::L2, l.l2)
            };
            (source, None, u64::from(cycles) + atomic, 0)
        };
        if write {
            self.states.insert((op.line, core), LineState::Modified);
        }
        if state == LineState::Invalid {
            self.fill_llc(self.domain(core), op.line);
            self.put_l2(core, op.line, false);
            self.put_l1(core, op.line);
        } else if in_l1 {
            let l1 = &mut self.cores[core as usize].l1;
            let at = l1.iter().position(|&(line, _)| line == op.line).unwrap();
            let held = l1.remove(at);
            l1.insert(0, held);
        } else {
            let l2 = &mut self.cores[core as usize].l2;
            let at = l2.iter().position(|&(line, _)| line == op.line).unwrap();
            let held = l2.remove(at);
            l2.insert(0, held);
            self.put_l1(core, op.line);
        }
        if write {
            self.cores[core as usize].l1[0].1 = true;
            self.note(core, op.line, CopyEvent::Wrote(op.words));
        }
        self.note(core, op.line, CopyEvent::Used(op.words));
        if state == LineState::Invalid && self.machine.adjacent_line_pairs {
            self.pair(op, core);
        }
        self.now += 1;
        let (source, cause, cycles, waited) = answer;
        let states = (0..self.cores.len() as u16)
            .map(|core| self.state(op.line, core))
            .collect();
        Answer {
            source,
            cause,
            cycles,
            waited,
            states,
        }
    }

    fn note(&mut self, core: u16, line: u64, event: CopyEvent) {
        self.log.push((self.now, core, line, event));
    }

    /// Where the line comes from: source, latency, and whether it was modified there.
    fn supply(&self, line: u64, core: u16) -> (Source, u32, bool) {
        let l = &self.machine.latency;
        let clean = |distance| match distance {
            Distance::Domain => (Source::Llc, l.llc, false),
            Distance::Socket => (Source::ForwardSocket, l.hitm_same_socket, false),
            Distance::Remote => (Source::ForwardRemote, l.hitm_other_socket, false),
        };
        let mut best: Option<Distance> = None;
        for holder in self.holders(line) {
            let distance = self.distance(core, self.domain(holder));
            match self.state(line, holder) {
                LineState::Modified => {
                    return match distance {
                        Distance::Domain => (Source::HitmDomain, l.hitm_same_domain, true),
                        Distance::Socket => (Source::HitmSocket, l.hitm_same_socket, true),
                        Distance::Remote => (Source::HitmRemote, l.hitm_other_socket, true),
                    };
                }
                LineState::Exclusive => return clean(distance),
                LineState::Forward => best = Some(best.map_or(distance, |b| b.min(distance))),
                LineState::Shared | LineState::Invalid => {}
            }
        }
        for (domain, lines) in self.llc.iter().enumerate() {
            if lines.contains(&line) {
                let distance = self.distance(core, domain as u16);
                best = Some(best.map_or(distance, |b| b.min(distance)));
            }
        }
        if let Some(distance) = best {
            return clean(distance);
        }
        let socket = self
            .machine
            .topology
            .socket_of(DomainId(self.domain(core)))
            .0;
        if self.home[&line] == socket {
            (Source::DramLocal, l.dram_local, false)
        } else {
            (Source::DramRemote, l.dram_remote, false)
        }
    }

    fn serve(&mut self, line: u64, at: u64, latency: u64, kept: u64) -> (u64, u64) {
        let busy = self.busy.entry(line).or_insert(0);
        let begin = at.max(*busy);
        *busy = begin + kept;
        (begin + latency - at, begin - at)
    }

    /// Invalidates all other copies; returns the farthest distance, and the cores that lost one.
    fn take_others(&mut self, line: u64, core: u16) -> (Option<Distance>, Vec<u16>) {
        let others: Vec<u16> = self
            .holders(line)
            .into_iter()
            .filter(|&c| c != core)
            .collect();
        let mut farthest = None;
        for &other in &others {
            farthest = farthest.max(Some(self.distance(core, self.domain(other))));
            self.states.remove(&(line, other));
            self.cores[other as usize]
                .l1
                .retain(|&(held, _)| held != line);
            self.cores[other as usize]
                .l2
                .retain(|&(held, _)| held != line);
            self.note(other, line, CopyEvent::Taken);
        }
        for domain in 0..self.llc.len() as u16 {
            if domain != self.domain(core) && self.llc[domain as usize].contains(&line) {
                farthest = farthest.max(Some(self.distance(core, domain)));
                self.llc[domain as usize].retain(|&held| held != line);
            }
        }
        (farthest, others)
    }

    fn upgrade(&mut self, op: Op, core: u16, atomic: u64) -> (Source, Option<Cause>, u64, u64) {
        let log = std::mem::take(&mut self.log);
        let (farthest, others) = self.take_others(op.line, core);
        let taken = std::mem::replace(&mut self.log, log);
        let used = |other: u16| {
            let own = self.log.iter().filter(|e| e.1 == other && e.2 == op.line);
            let mut words = 0;
            for (.., event) in own {
                match event {
                    CopyEvent::Came => words = 0,
                    CopyEvent::Used(more) => words |= more,
                    _ => {}
                }
            }
            words
        };
        let cause = if others.is_empty() {
            Cause::Unshared
        } else if others.iter().any(|&other| used(other) & op.words != 0) {
            Cause::TrueSharing
        } else {
            Cause::FalseSharing
        };
        self.log.extend(taken);
        let l = &self.machine.latency;
        let latency = u64::from(farthest.map_or(l.llc, |distance| l.hitm(distance))) + atomic;
        let (cycles, waited) = self.serve(op.line, op.at, latency, latency);
        (Source::Upgrade, Some(cause), cycles, waited)
    }

    fn miss(
        &mut self,
        op: Op,
        core: u16,
        write: bool,
        atomic: u64,
    ) -> (Source, Option<Cause>, u64, u64) {
        let place = self.machine.topology.place(LogicalCpu(op.cpu)).unwrap();
        self.home.entry(op.line).or_insert(place.socket.0);
        let before = self.log.iter().rev().find(|e| {
            e.1 == core && e.2 == op.line && matches!(e.3, CopyEvent::Taken | CopyEvent::Dropped)
        });
        let cause = match before.map(|e| e.3) {
            None => Some(Cause::Cold),
            Some(CopyEvent::Dropped) => Some(Cause::Capacity),
            Some(_) => {
                self.undecided.push((self.now, core, op.line));
                None
            }
        };
        let (source, latency, modified) = self.supply(op.line, core);
        let mut latency = u64::from(latency);
        let kept;
        if write {
            if let (Some(farthest), _) = self.take_others(op.line, core) {
                latency = latency.max(u64::from(self.machine.latency.hitm(farthest)));
            }
            kept = latency + atomic;
        } else {
            self.read_in(op.line, core);
            kept = if modified {
                latency
            } else {
                u64::from(self.machine.latency.serve)
            };
        }
        self.note(core, op.line, CopyEvent::Came);
        let (cycles, waited) = self.serve(op.line, op.at, latency + atomic, kept);
        (source, cause, cycles, waited)
    }

    /// The states after a read miss.
    fn read_in(&mut self, line: u64, core: u16) {
        for holder in self.holders(line) {
            if self.state(line, holder) == LineState::Modified {
                self.write_back(self.domain(holder), line);
                for held in &mut self.cores[holder as usize].l1 {
                    held.1 &= held.0 != line;
                }
                for held in &mut self.cores[holder as usize].l2 {
                    held.1 &= held.0 != line;
                }
            }
            self.states.insert((line, holder), LineState::Shared);
        }
        let own = self.domain(core);
        let elsewhere = self
            .llc
            .iter()
            .enumerate()
            .any(|(domain, lines)| domain as u16 != own && lines.contains(&line));
        let alone = self.holders(line).is_empty() && !elsewhere;
        let state = if alone {
            LineState::Exclusive
        } else {
            LineState::Forward
        };
        self.states.insert((line, core), state);
    }

    fn pair(&mut self, op: Op, core: u16) {
        let line = op.line ^ 1;
        let place = self.machine.topology.place(LogicalCpu(op.cpu)).unwrap();
        self.home.entry(line).or_insert(place.socket.0);
        if self.state(line, core) != LineState::Invalid {
            return;
        }
        let (_, latency, modified) = self.supply(line, core);
        let kept = if modified {
            latency
        } else {
            self.machine.latency.serve
        };
        self.read_in(line, core);
        self.serve(line, op.at, u64::from(latency), u64::from(kept));
        self.note(core, line, CopyEvent::Came);
        self.fill_llc(self.domain(core), line);
        self.put_l2(core, line, false);
    }

    fn fill_llc(&mut self, domain: u16, line: u64) {
        let ways = self.machine.llc.slice.ways as usize;
        let lines = &mut self.llc[domain as usize];
        lines.retain(|&held| held != line);
        lines.insert(0, line);
        lines.truncate(ways);
    }

    fn write_back(&mut self, domain: u16, line: u64) {
        if !self.llc[domain as usize].contains(&line) {
            self.fill_llc(domain, line);
        }
    }

    fn put_l1(&mut self, core: u16, line: u64) {
        let ways = self.machine.l1.ways as usize;
        let own = &mut self.cores[core as usize];
        own.l1.insert(0, (line, false));
        if own.l1.len() <= ways {
            return;
        }
        let (victim, modified) = own.l1.pop().unwrap();
        if let Some(held) = own.l2.iter_mut().find(|held| held.0 == victim) {
            held.1 |= modified;
        } else if modified {
            self.put_l2(core, victim, true);
        } else {
            self.drop_line(core, victim);
        }
    }

    fn put_l2(&mut self, core: u16, line: u64, modified: bool) {
        let ways = self.machine.l2.ways as usize;
        let own = &mut self.cores[core as usize];
        own.l2.insert(0, (line, modified));
        if own.l2.len() <= ways {
            return;
        }
        let (victim, modified) = own.l2.pop().unwrap();
        let in_l1 = own.l1.iter().find(|held| held.0 == victim).copied();
        if modified {
            self.write_back(self.domain(core), victim);
        }
        match in_l1 {
            None => self.drop_line(core, victim),
            Some((_, false)) if modified => {
                self.states.insert((victim, core), LineState::Exclusive);
            }
            Some(_) => {}
        }
    }

    fn drop_line(&mut self, core: u16, line: u64) {
        self.states.remove(&(line, core));
        self.note(core, line, CopyEvent::Dropped);
    }

    /// Dubois' definition, from the log: a lifetime is essential if it uses a word that another
    /// core wrote between the core's last delivery (its last essential miss, or its first one) and
    /// the lifetime's start.
    fn classify(&self) -> BTreeMap<usize, Cause> {
        let mut causes = BTreeMap::new();
        for &(miss, core, line) in &self.undecided {
            let mut delivered: Option<usize> = None;
            let mut essential_miss = false;
            let mut index = 0;
            while index < self.log.len() {
                let (at, c, l, event) = self.log[index];
                index += 1;
                if (c, l, event) != (core, line, CopyEvent::Came) {
                    continue;
                }
                let start = index - 1;
                let Some(since) = delivered else {
                    delivered = Some(start);
                    continue;
                };
                let essential = self.log[start..]
                    .iter()
                    .filter(|e| e.1 == core && e.2 == line)
                    .take_while(|e| !matches!(e.3, CopyEvent::Taken | CopyEvent::Dropped))
                    .any(|e| match e.3 {
                        CopyEvent::Used(words) => self.log[since..start].iter().any(|w| {
                            w.2 == line
                                && w.1 != core
                                && matches!(w.3, CopyEvent::Wrote(wrote) if wrote & words != 0)
                        }),
                        _ => false,
                    });
                if essential {
                    delivered = Some(start);
                }
                if at == miss {
                    essential_miss = essential;
                    break;
                }
            }
            let cause = if essential_miss {
                Cause::TrueSharing
            } else {
                Cause::FalseSharing
            };
            causes.insert(miss, cause);
        }
        causes
    }
}

/// The product's answers.
fn product(machine: &Machine, ops: &[Op]) -> Vec<Answer> {
    let mut system = System::new(machine);
    let mut answers: Vec<Answer> = Vec::with_capacity(ops.len());
    for op in ops {
        let place = machine.topology.place(LogicalCpu(op.cpu)).unwrap();
        let piece = Piece {
            line: op.line,
            words: op.words,
            kind: op.kind,
        };
        let verdict = system.access(LogicalCpu(op.cpu), place, piece, op.at);
        if verdict.undecided {
            let tag = MissTag {
                key: answers.len() as u32,
                cycles: verdict.cycles,
                ..MissTag::default()
            };
            system.open(place, &verdict, tag);
        }
        let states = (0..machine.topology.cores() as u16)
            .map(|core| system.state(CoreId(core), op.line))
            .collect();
        answers.push(Answer {
            source: verdict.source,
            cause: verdict.cause,
            cycles: verdict.cycles,
            waited: verdict.waited,
            states,
        });
    }
    system.finish();
    for closed in system.take_closed() {
        answers[closed.tag.key as usize].cause = Some(closed.cause);
    }
    answers
}

/// The second model's.
fn brute(machine: &Machine, ops: &[Op]) -> Vec<Answer> {
    let mut model = Brute::new(machine);
    let mut answers: Vec<Answer> = ops.iter().map(|&op| model.access(op)).collect();
    for (miss, cause) in model.classify() {
        answers[miss].cause = Some(cause);
    }
    answers
}

#[track_caller]
fn compare(machine: &Machine, ops: &[Op], what: &str) {
    let (product, brute) = (product(machine, ops), brute(machine, ops));
    if let Some(at) = (0..ops.len()).find(|&at| product[at] != brute[at]) {
        let script: String = ops[..=at].iter().map(|op| format!("{op:?}\n")).collect();
        panic!(
            "{what}\n{script}product {:?}\nbrute   {:?}",
            product[at], brute[at]
        );
    }
}

/// Two sockets of one domain of two cores; L1 of one line, L2 of two, LLC of three of four ways.
fn tiny(pairs: bool) -> Machine {
    machine(&[
        ("cpus = 16", "cpus = 4"),
        ("llc_domains_per_socket = 2", "llc_domains_per_socket = 1"),
        ("threads_per_core = 2", "threads_per_core = 1"),
        ("size = 128\nways = 2", "size = 64\nways = 1"),
        ("size = 256\nways = 4", "size = 128\nways = 2"),
        ("size = 512\nways = 8", "size = 192\nways = 3"),
        (
            "line_bytes = 64",
            if pairs {
                "line_bytes = 64\nadjacent_line_pairs = true"
            } else {
                "line_bytes = 64"
            },
        ),
    ])
}

/// Runs every sequence of `length` of the choices; the first access only of `first`. An access
/// comes 30 cycles after the previous one, so that requests meet lines in flight.
fn exhaust(machine: &Machine, choices: &[Op], first: &[Op], length: u32) -> u64 {
    let mut runs = 0;
    for &start in first {
        for number in 0..(choices.len() as u64).pow(length - 1) {
            let mut ops = vec![start];
            let mut rest = number;
            for step in 1..u64::from(length) {
                let mut op = choices[(rest % choices.len() as u64) as usize];
                op.at = 30 * step;
                ops.push(op);
                rest /= choices.len() as u64;
            }
            compare(machine, &ops, "exhaustive");
            runs += 1;
        }
    }
    runs
}

fn choices(cpus: &[u16], lines: &[u64], words: &[u64]) -> Vec<Op> {
    let mut ops = Vec::new();
    for &cpu in cpus {
        for kind in [AccessKind::Load, AccessKind::Store] {
            for &line in lines {
                for &words in words {
                    ops.push(Op {
                        cpu,
                        kind,
                        line,
                        words,
                        at: 0,
                    });
                }
            }
        }
    }
    ops
}

/// One line, two words, three CPUs at two distances: every kind of sharing.
#[test]
fn every_short_sequence_on_one_line() {
    let all = choices(&[0, 1, 2], &[64], &[1, 2]);
    let first = choices(&[0, 2], &[64], &[1]);
    assert_eq!(exhaust(&tiny(false), &all, &first, 6), 4 * 12_u64.pow(5));
}

/// Two lines of one pair and two words in caches that hold one line.
#[test]
fn every_short_sequence_on_two_lines() {
    let all = choices(&[0, 1, 2], &[64, 65], &[1, 2]);
    let first = choices(&[0, 2], &[64], &[1]);
    assert_eq!(exhaust(&tiny(false), &all, &first, 4), 4 * 24_u64.pow(3));
    assert_eq!(exhaust(&tiny(true), &all, &first, 4), 4 * 24_u64.pow(3));
}

/// Four lines: evictions at every level.
#[test]
fn every_short_sequence_on_four_lines() {
    let all = choices(&[0, 2], &[64, 65, 66, 67], &[1]);
    let first = choices(&[0], &[64], &[1]);
    assert_eq!(exhaust(&tiny(false), &all, &first, 5), 2 * 16_u64.pow(4));
}

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Half of a CPU's accesses go to the line it used before: L1 and L2 come to hold different lines.
fn long_run(machine: &Machine, seed: u64, cpus: u64, lines: u64, length: usize) {
    let mut state = seed;
    let mut at = 0;
    let mut last = vec![64; machine.topology.cpus()];
    let ops: Vec<Op> = (0..length)
        .map(|_| {
            let r = random(&mut state);
            at += (r >> 40) % 200;
            let cpu = r % cpus;
            let last = &mut last[cpu as usize];
            if (r >> 50) & 1 == 0 {
                *last = 64 + (r >> 16) % lines;
            }
            Op {
                cpu: cpu as u16,
                kind: match (r >> 8) % 8 {
                    0..5 => AccessKind::Load,
                    5..7 => AccessKind::Store,
                    _ => AccessKind::Rmw,
                },
                line: *last,
                words: 0b11 << ((r >> 24) % 8),
                at,
            }
        })
        .collect();
    compare(
        machine,
        &ops,
        &format!("seed {seed}, {cpus} CPUs, {lines} lines"),
    );
}

/// All CPUs, threads and both distances of the small machine: evictions, overlaps, atomics.
#[test]
fn long_random_sequences() {
    for seed in 0..120 {
        let pairs = if seed % 2 == 0 { "false" } else { "true" };
        let pairs = format!("line_bytes = 64\nadjacent_line_pairs = {pairs}");
        let machine = machine(&[("line_bytes = 64", pairs.as_str())]);
        let cpus = [16, 2, 3, 5][seed as usize / 2 % 4];
        long_run(&machine, seed, cpus, 2 + seed % 13, 400);
    }
}

//! What task groups do to the caches in a recording: the figures of evidence/validation.md about
//! work 2.
//!
//! ```text
//! cargo run --release -p linemate-study --example groups -- RECORDING MACHINE…
//! ```
//!
//! For each machine, of which CPUs have only their share of the caches: the share of LLC load
//! misses that user code has, that of the kernel's which the walks of bandwidth control have, and
//! the functions with most. For each type: the lines that a CPU touches, and how they fall into its
//! caches' sets.

#![allow(clippy::print_stdout, reason = "what it finds is its output")]

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::error::Error;
use std::path::Path;

use linemate_attribution::{Analysis, FunctionName, Names, visit_chunks};
use linemate_experiment::scene::{Scene, Watch};
use linemate_experiment::{Conditions, Experiment, Seed};
use linemate_machine::{Machine, Mechanism, find};
use linemate_recording::{Access, AccessKind, Call, GuestAddr, Marker, Recording, Return, Visitor};
use linemate_replay::{Counts, sets_reached};
use linemate_session::Session;

/// What walks a group's queues when it is throttled and when it may run again.
const THROTTLING: [&str; 3] = ["tg_unthrottle_up", "tg_throttle_down", "walk_tg_tree_from"];
/// What touches every queue of a CPU that still carries load.
const AVERAGING: &str = "__update_load_avg_cfs_rq";
/// What walks over all queues of a CPU that still carry load.
const WALKS: [&str; 2] = [AVERAGING, "sched_balance_update_blocked_averages"];
/// Types of objects, and what they are: an entity is allocated with its statistics.
const TYPES: [(&str, &str); 4] = [
    ("cfs_rq", "cfs_rq"),
    ("sched_entity", "sched_entity"),
    ("sched_entity_stats", "sched_entity"),
    ("cfs_tg_state", "cfs_rq"),
];
const BOTH: &str = "cfs_rq and sched_entity";
/// Threads of a core that share its L2.
const THREADS: u16 = 2;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (file, machines) = arguments.split_first().ok_or("RECORDING MACHINE…")?;
    let machines: Vec<Machine> = machines
        .iter()
        .map(|name| machine(name))
        .collect::<Result<_>>()?;
    let recording = Recording::open(Path::new(file))?;
    let session = Session::new(&recording)?;
    let touched = Touched::of(session.analysis())?;
    touched.print_visits();
    for machine in &machines {
        misses(&session, machine)?;
        touched.print_sets(machine);
    }
    Ok(())
}

/// The machine as commands replay it by default: without prefetchers that follow streams and
/// strides.
fn machine(name: &str) -> Result<Machine> {
    Ok(find(name)?.with_only(|mechanism| mechanism == Mechanism::AdjacentLinePairs))
}

/// Times that an instruction touched queues of groups, and which.
type Visits = (u64, BTreeSet<u64>);

/// What the recording's groups touch.
#[derive(Default)]
struct Touched {
    accesses: u64,
    /// By what touches, and CPU: the lines' addresses.
    lines: BTreeMap<(&'static str, u16), BTreeSet<u64>>,
    /// By function, CPU and instruction.
    visits: BTreeMap<(&'static str, u16), BTreeMap<u64, Visits>>,
}

impl Touched {
    fn of(analysis: &Analysis<'_>) -> Result<Touched> {
        let names = analysis.names()?;
        let make = || Reader {
            analysis,
            names: &names,
            touched: Touched::default(),
        };
        let readers = visit_chunks(analysis.recording(), make, |_| (), &|_| ())?;
        let mut sum = Touched::default();
        for reader in readers {
            sum.add(reader.touched);
        }
        Ok(sum)
    }

    fn add(&mut self, other: Touched) {
        self.accesses += other.accesses;
        for (key, lines) in other.lines {
            self.lines.entry(key).or_default().extend(lines);
        }
        for (key, visits) in other.visits {
            let mine = self.visits.entry(key).or_default();
            for (pc, (count, queues)) in visits {
                let mine = mine.entry(pc).or_default();
                mine.0 += count;
                mine.1.extend(queues);
            }
        }
    }

    /// A function's steps are how often the instruction did that touched queues most often.
    fn print_visits(&self) {
        println!("{} accesses", self.accesses);
        for ((function, cpu), visits) in &self.visits {
            let most = visits.values().max_by_key(|(count, _)| *count);
            let (steps, queues) = most.map_or((0, 0), |(count, queues)| (*count, queues.len()));
            println!("{function} on CPU {cpu}: {steps} steps, {queues} queues");
        }
    }

    fn print_sets(&self, machine: &Machine) {
        let mut share = machine.clone();
        share.l2.ways /= u32::from(THREADS);
        println!(
            "{}, L2: lines; sets reached, the fullest; lines beyond the ways, beyond a thread's",
            machine.name
        );
        for ((what, cpu), lines) in &self.lines {
            let reached =
                |machine| sets_reached(machine, lines.iter().map(|line| GuestAddr(*line))).l2;
            let (whole, half) = (reached(machine), reached(&share));
            println!(
                "  {what} on CPU {cpu}: {}; {} of {} x {}, {}; {}, {}",
                whole.lines,
                whole.reached,
                whole.sets,
                whole.ways,
                whole.fullest,
                whole.beyond,
                half.beyond
            );
        }
    }
}

struct Reader<'a> {
    analysis: &'a Analysis<'a>,
    names: &'a Names,
    touched: Touched,
}

impl Visitor for Reader<'_> {
    fn access(&mut self, access: &Access) {
        self.touched.accesses += 1;
        let at = self.names.locate(access);
        let subject = &self.analysis.subjects()[at.subject.0 as usize];
        let Some(ty) = subject.ty else { return };
        let name = self.analysis.schema().name(ty);
        let Some((_, what)) = TYPES.iter().find(|(known, _)| *known == name) else {
            return;
        };
        let function = FunctionName::at(self.analysis.symbols(), access.pc).as_str();
        let (cpu, line) = (access.cpu.0, access.addr.0 & !63);
        let lines = &mut self.touched.lines;
        lines.entry((what, cpu)).or_default().insert(line);
        lines.entry((BOTH, cpu)).or_default().insert(line);
        if function == AVERAGING {
            lines.entry((AVERAGING, cpu)).or_default().insert(line);
        }
        let watched = THROTTLING.iter().chain(&WALKS);
        // An instruction that changes memory loads and stores: one step.
        let watched = watched.filter(|_| access.kind != AccessKind::Store);
        if let Some(function) = watched.into_iter().find(|known| **known == function) {
            let visits = self.touched.visits.entry((function, cpu)).or_default();
            let (count, queues) = visits.entry(access.pc.0).or_default();
            *count += 1;
            queues.insert(at.object.0);
        }
    }

    fn call(&mut self, _: &Call) {}
    fn ret(&mut self, _: &Return) {}
    fn marker(&mut self, _: &Marker) {}
}

fn misses(session: &Session<'_>, machine: &Machine) -> Result<()> {
    let scene = Scene::new(session, &Watch::default())?;
    let conditions = Conditions {
        llc_share: true,
        ..Conditions::default()
    };
    let outcome = Experiment::new(&scene, machine, conditions)?.as_recorded(Seed(1))?;
    let mut by_function: BTreeMap<&str, u64> = BTreeMap::new();
    let mut user = 0;
    for (site, counts) in scene.sites.iter().zip(&outcome.sites) {
        match site.user {
            true => user += load_misses(counts),
            false => *by_function.entry(&site.function).or_default() += load_misses(counts),
        }
    }
    let whole = load_misses(&outcome.totals);
    let kernel = whole - user;
    let share = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
    println!(
        "{}: {whole} LLC load misses, {kernel} of the kernel; user code {:.1} %; warm {:?}",
        machine.name,
        share(user, whole),
        outcome.warm_up
    );
    let throttling = THROTTLING
        .iter()
        .filter_map(|name| by_function.get(name))
        .sum();
    println!(
        "  throttling {throttling}: {:.1} % of the kernel's",
        share(throttling, kernel)
    );
    let mut rows: Vec<_> = by_function.into_iter().collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (name, count) in rows.into_iter().take(14) {
        println!("  {count:8} {:5.1} % {name}", share(count, kernel));
    }
    let mut types: BTreeMap<&str, u64> = BTreeMap::new();
    for (key, counts) in scene.keys.iter().zip(&outcome.keys) {
        *types.entry(&key.path).or_default() += load_misses(counts);
    }
    let mut rows: Vec<_> = types.into_iter().collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (name, count) in rows.into_iter().take(14) {
        println!("  {count:8} {:5.1} % {name}", share(count, kernel));
    }
    Ok(())
}

fn load_misses(counts: &Counts) -> u64 {
    counts.llc_misses[AccessKind::Load as usize].0
}

//! When a function is on a stack: the instructions and accesses of it and of everything that it
//! calls.
//!
//! One pass over the recording maintains the open calls (`calls`), and notes by CPU from which to
//! which instruction the function is on the stack that the CPU uses. Replays count accesses in
//! those spans apart.

use std::collections::BTreeSet;
use std::ops::Range;

use linemate_answers::{Balance, CycleSum};
use linemate_code::{Transfers, transfers};
use linemate_machine::Machine;
use linemate_recording::{
    Access, Call, CpuId, Decoder, Error as RecordingError, GuestAddr, Instructions, Mark, Marker,
    Recording, Return, Role, VirtualTime, Visitor,
};
use linemate_replay::{Counts, Outcome};
use linemate_session::shelf::{self, Digest, Part};
use linemate_session::step::Step;
use linemate_session::{Session, recorded_cpus};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::calls::CallStacks;
use crate::code::code_of;
use crate::cpus::Cpus;
use crate::error::{ExperimentError, VariantError};
use crate::scene::Scene;

/// Why it is not known when a function is on a stack.
#[derive(Debug, thiserror::Error)]
pub enum UnderError {
    /// There is no such function.
    #[error(transparent)]
    Function(#[from] VariantError),
    /// The function exists, and never ran.
    #[error("`{0}` was never on a stack while this was recorded")]
    Never(String),
    /// The session knows no machine code.
    #[error(
        "the recorded kernel's machine code is needed to distinguish calls from other accesses"
    )]
    NoCode,
    /// The recording has no number of CPUs.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The recording cannot be read to its end.
    #[error(transparent)]
    Recording(#[from] RecordingError),
}

/// When a function is on a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Under {
    /// The function that was asked for.
    pub function: String,
    /// How often it came onto a stack that it was not on.
    pub entered: u64,
    /// Instructions while it is on the stack that their CPU uses.
    pub instructions: Instructions,
    /// Instructions of all CPUs' turns; where turns are not marked, from a turn's first event to
    /// its last.
    pub all_instructions: Instructions,
    /// How well calls and returns fit.
    pub balance: Balance,
    /// By CPU, ascending: the time of the first access under it and of the last one, again and
    /// again.
    spans: Vec<Vec<(VirtualTime, VirtualTime)>>,
    /// What distinguishes it from other questions.
    pub(crate) question: Digest,
}

impl Under {
    /// When `function` is on a stack, in the recording of a session that was given its kernel's
    /// machine code ([`Session::with_code`]).
    ///
    /// # Errors
    /// A function that does not exist or never ran, a session without machine code, a damaged
    /// recording.
    pub fn new(session: &Session<'_>, function: &str) -> Result<Under, UnderError> {
        let analysis = session.analysis();
        let code = code_of(analysis.symbols(), function)?;
        let (Some(sections), Some(digest)) = (session.code(), session.code_digest()) else {
            return Err(UnderError::NoCode);
        };
        let question = question(function, digest);
        let kept = session.shelf().load(Part::Under(question));
        let kept = kept.and_then(|bytes| shelf::unpack::<Under>(&bytes));
        // Compared once more: the part's name is the same digest, but the shelf may have been given
        // another file.
        if let Some(under) = kept.filter(|under| under.question == question) {
            return Ok(under);
        }
        let instructions: BTreeSet<GuestAddr> = session.rows().iter().map(|row| row.pc).collect();
        let transfers = transfers(sections, instructions);
        let recording = analysis.recording();
        let cpus = recorded_cpus(analysis).map_err(ExperimentError::from)?;
        let under = Under {
            function: function.to_owned(),
            question,
            ..find(recording, &transfers, &code, cpus)?
        };
        if under.spans.iter().all(Vec::is_empty) {
            return Err(UnderError::Never(function.to_owned()));
        }
        if let Some(bytes) = shelf::pack(&under) {
            session.shelf().store(Part::Under(question), &bytes);
        }
        Ok(under)
    }

    /// When the function is on the stack that a CPU uses: the times of the first access under it
    /// and of the last one, ascending.
    pub fn spans(&self, cpu: CpuId) -> &[(VirtualTime, VirtualTime)] {
        self.spans
            .get(usize::from(cpu.0))
            .map_or(&[], Vec::as_slice)
    }

    /// Its cycles, given the counts of its accesses.
    pub fn cycles(&self, machine: &Machine, cpus: Cpus, counts: &Counts) -> CycleSum {
        cycles(self.instructions, machine, cpus, counts)
    }

    /// Those of the whole recording, given the counts of all accesses.
    pub fn all_cycles(&self, machine: &Machine, cpus: Cpus, counts: &Counts) -> CycleSum {
        cycles(self.all_instructions, machine, cpus, counts)
    }

    /// Whether the function is on the stack at an access of the recording.
    #[inline]
    pub(crate) fn covers(&self, access: &Access) -> bool {
        let spans = self.spans(access.cpu);
        // Spans do not overlap and ascend: a CPU is in one of them or in none.
        let at = spans.partition_point(|(_, last)| *last < access.time);
        spans
            .get(at)
            .is_some_and(|(first, _)| *first <= access.time)
    }
}

/// Cycles of that many instructions of each recorded CPU's copies and of what they accessed.
fn cycles(instructions: Instructions, machine: &Machine, cpus: Cpus, counts: &Counts) -> CycleSum {
    let hits = counts.accesses().cycles(machine.latency.l1.into());
    CycleSum {
        instructions: (instructions * u64::from(cpus.copies)).0,
        // An L1 hit is in the instruction's own cycle; what is beyond is stall, as in the replay.
        stalls: (counts.cycles() - hits).0,
    }
}

/// Counts of what was accessed while a function was on the stack.
#[derive(Clone, Debug, Default)]
pub struct UnderCounts {
    /// By key of the scene.
    pub keys: Vec<Counts>,
    /// By site of the scene.
    pub sites: Vec<Counts>,
}

impl UnderCounts {
    /// Those of an [`crate::Experiment`] with a function. The outcome's own are then of everything.
    pub fn take(outcome: &mut Outcome, scene: &Scene<'_>) -> UnderCounts {
        UnderCounts {
            keys: split(&mut outcome.keys, scene.keys.len()),
            sites: split(&mut outcome.sites, scene.sites.len()),
        }
    }

    /// The counts of all keys together.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        for counts in &self.keys {
            total.merge(counts);
        }
        total
    }
}

/// Takes what is beyond `own` of `counts`, and adds it to those before.
fn split(counts: &mut Vec<Counts>, own: usize) -> Vec<Counts> {
    if counts.len() <= own {
        return Vec::new();
    }
    let part = counts.split_off(own);
    for (all, part) in counts.iter_mut().zip(&part) {
        all.merge(part);
    }
    part
}

/// Has accesses under a function counted apart: for the keys and sites after those of the scene.
pub(crate) struct UnderMarker<'u> {
    under: &'u Under,
    keys: u32,
    sites: u32,
}

impl<'u> UnderMarker<'u> {
    pub(crate) fn new(under: &'u Under, scene: &Scene<'_>) -> UnderMarker<'u> {
        UnderMarker {
            under,
            keys: scene.keys.len() as u32,
            sites: scene.sites.len() as u32,
        }
    }

    /// A step as it counts.
    #[inline]
    pub(crate) fn mark(&self, mut step: Step) -> Step {
        if self.under.covers(&step.access) {
            step.key.0 += self.keys;
            step.site.0 += self.sites;
        }
        step
    }
}

/// What distinguishes a question from others about the same recording.
fn question(function: &str, code: Digest) -> Digest {
    let mut digest = Xxh3::new();
    digest.update(&code.0.to_le_bytes());
    digest.update(function.as_bytes());
    Digest(digest.digest())
}

/// Reads the recording once, in order.
fn find(
    recording: &Recording,
    transfers: &Transfers,
    code: &[Range<GuestAddr>],
    cpus: usize,
) -> Result<Under, RecordingError> {
    let roles = recording.functions().functions.iter();
    let mut watch = Watcher {
        roles: roles.map(|function| function.role).collect(),
        stacks: CallStacks::new(transfers, code, cpus),
        found: Under {
            spans: vec![Vec::new(); cpus],
            ..Under::default()
        },
        open: vec![false; cpus],
        pending: vec![Instructions::ZERO; cpus],
        running: None,
    };
    let mut decoder = Decoder::new();
    for chunk in recording.chunks() {
        recording.visit(chunk, &mut decoder, &mut watch)?;
    }
    Ok(watch.finish())
}

/// Listens to a recording.
struct Watcher<'c> {
    /// By function of the recording's table.
    roles: Vec<Role>,
    stacks: CallStacks<'c>,
    found: Under,
    /// By CPU: whether its last access was under the function.
    open: Vec<bool>,
    /// By CPU: instructions of which it is not known yet whether they were under the function.
    pending: Vec<Instructions>,
    /// The CPU that runs, and until when its instructions are counted.
    running: Option<(CpuId, VirtualTime)>,
}

impl Watcher<'_> {
    /// Counts the instructions of the running CPU up to then.
    #[inline]
    fn run(&mut self, until: VirtualTime) {
        if let Some((cpu, since)) = &mut self.running {
            if let Some(pending) = self.pending.get_mut(usize::from(cpu.0)) {
                *pending += until.since(*since);
            }
            *since = until;
        }
    }

    /// A CPU does something. Where turns are not marked, nobody knows when this one's began, if it
    /// is another's.
    #[inline]
    fn reach(&mut self, cpu: CpuId, time: VirtualTime) {
        match self.running {
            Some((running, _)) if running == cpu => self.run(time),
            _ => self.running = Some((cpu, time)),
        }
    }

    /// It is known now whether what the CPU executed was under the function.
    #[inline]
    fn count_pending(&mut self, cpu: CpuId, under: bool) {
        if let Some(pending) = self.pending.get_mut(usize::from(cpu.0)) {
            let instructions = std::mem::take(pending);
            self.found.all_instructions += instructions;
            if under {
                self.found.instructions += instructions;
            }
        }
    }

    /// At the recording's end.
    fn finish(mut self) -> Under {
        for cpu in (0..self.pending.len() as u16).map(CpuId) {
            self.count_pending(cpu, self.stacks.is_under(cpu));
        }
        Under {
            entered: self.stacks.entered,
            balance: self.stacks.balance,
            ..self.found
        }
    }
}

impl Visitor for Watcher<'_> {
    #[inline]
    fn access(&mut self, access: &Access) {
        let (cpu, time) = (access.cpu, access.time);
        self.reach(cpu, time);
        // What a call leads to is known at its first access, and is what ran since the call.
        let under = self.stacks.is_under(cpu);
        let under = under || self.stacks.is_fresh(cpu) && self.stacks.is_own(access.pc);
        self.count_pending(cpu, under);
        let under = self.stacks.access(access);
        let at = usize::from(cpu.0);
        let (Some(open), Some(spans)) = (self.open.get_mut(at), self.found.spans.get_mut(at))
        else {
            return;
        };
        match (under, spans.last_mut().filter(|_| *open)) {
            (true, Some((_, last))) => *last = time,
            (true, None) => spans.push((time, time)),
            (false, _) => {}
        }
        *open = under;
    }

    fn call(&mut self, call: &Call) {
        let role = self.roles.get(call.function.0 as usize).copied();
        // Other watched functions say nothing that their own accesses do not.
        let Some(role @ (Role::ContextSwitch | Role::Interrupt)) = role else {
            return;
        };
        let cpu = call.cpu;
        self.reach(cpu, call.time);
        self.count_pending(cpu, self.stacks.is_under(cpu));
        match role {
            Role::ContextSwitch => {
                let [from, to] = [call.values[0], call.values[1]].map(|task| task.map(GuestAddr));
                self.stacks.switch(cpu, from, to);
            }
            _ => self.stacks.interrupt(cpu, call.stack),
        }
    }

    fn ret(&mut self, _: &Return) {}

    fn marker(&mut self, marker: &Marker) {
        if marker.mark == Mark::Turn {
            self.run(marker.time);
            self.running = Some((marker.cpu, marker.time));
        }
    }
}

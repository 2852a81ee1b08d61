//! A recording on many more CPUs than it has: groups of CPUs, each as large as the recording, run
//! its tape side by side.
//!
//! ```text
//!   group 0    ──X────X─────X──X──▶      each from a place of its own on the tape, with its own
//!   group 1    ─X──X──X────X───X──▶      clock and its own rounds: no barrier is common
//!   …
//!   machine    shared lines, other groups' CPUs, locks: where they meet
//! ```
//!
//! docs/model/scaling.md says what is modelled and what is not.

use linemate_machine::{LogicalCpu, Machine, ThreadsPerCore};
use linemate_recording::{AccessKind, TimeGrid};
use linemate_units::{Accesses, Cycles};

use crate::accounts::held;
use crate::accounts::outcome::{Outcome, ScaledCounts};
use crate::cache::address::instance_line;
use crate::rounds::engine::Engine;
use crate::rounds::error::ReplayError;
use crate::rounds::interleaver::mix;
use crate::rounds::locks::{Asked, LockId, Locks};
use crate::rounds::placement::{KeyId, Sharing, SiteId};
use crate::rounds::schedule::Schedule;
use crate::rounds::waiting::{Cpu, places};
use crate::scale::mixing::{Mixer, Mixing, Moment};
use crate::scale::stretch::{TapeStretch, stretch, stretches};
use crate::scale::tape::{Own, Tape, Taped};

/// Cycles from one of several accesses to the next where the recording has one: the time before it
/// on the tape, but no more than this, which is more than a step of a scan takes.
const STEP_CYCLES_MAX: u32 = 256;

/// How a recording becomes one of more CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scaling {
    /// Groups: copies of each recorded CPU.
    pub copies: u16,
    /// How many consecutive recorded CPUs are the threads of one core.
    pub threads: ThreadsPerCore,
    /// Whether each group starts at its own place on the tape; otherwise all start where the
    /// recording does.
    pub phases: bool,
    /// Whose copies CPUs meet where they touch another CPU's memory.
    pub mixing: Mixing,
    /// Whether CPUs wait for locks.
    pub locks: bool,
    /// Whether each group counts the whole tape; otherwise many groups that start at places of
    /// their own count parts of it, and counts are multiplied.
    pub whole: bool,
}

impl Scaling {
    /// That many copies, with everything modelled.
    #[must_use]
    pub fn new(copies: u16) -> Scaling {
        Scaling {
            copies,
            threads: ThreadsPerCore::default(),
            phases: true,
            mixing: Mixing::Domains,
            locks: true,
            whole: false,
        }
    }

    /// Where the CPUs sit: recorded CPU c's copy n is number c x copies + n. If the machine's
    /// domains decide who meets whom, a group's CPUs sit side by side, because the scheduler keeps
    /// together what works together; otherwise a group is spread over the machine. A recording by
    /// itself is spread with its cores' threads together.
    ///
    /// # Errors
    /// More CPUs than the machine has; no CPUs or copies.
    pub fn cpus(&self, machine: &Machine, recorded: usize) -> Result<Vec<LogicalCpu>, ReplayError> {
        let threads = match (self.copies, self.mixing) {
            (1, _) | (_, Mixing::Domains) => self.threads,
            // A CPU's copies are next to each other, so its core's other threads are not.
            _ => ThreadsPerCore::default(),
        };
        let wanted = recorded.saturating_mul(usize::from(self.copies));
        let spread = machine.topology.spread_recorded(wanted, threads);
        let mut spread = places(machine, recorded, self.copies, spread.as_deref())?;
        if self.copies == 1 || self.mixing != Mixing::Domains {
            return Ok(spread.iter().map(|cpu| cpu.logical).collect());
        }
        spread.sort_by_key(|cpu| {
            let place = cpu.place;
            (
                place.socket,
                place.domain,
                place.core,
                place.thread,
                cpu.logical,
            )
        });
        let copies = usize::from(self.copies);
        let cpu = |at: usize| spread[at % copies * recorded + at / copies].logical;
        Ok((0..spread.len()).map(cpu).collect())
    }
}

/// The progress of one CPU through its slice.
#[derive(Clone, Default)]
struct GroupCpu {
    /// Added to an access's own time: start of the slice, and all its waiting.
    shift: u64,
    next: u32,
    end: u32,
    /// Cycles of the slice without the cost of its accesses.
    span: u32,
    /// The slice's number of its group's.
    turn: u64,
    /// How often the access has been made, and is to be made.
    made: u32,
    wanted: u32,
    /// When it requested the lock that it waits for.
    asked: u64,
    /// It waited for the lock that its access acquires, and now has it.
    granted: bool,
    held: Vec<LockId>,
}

/// CPUs that represent the recorded ones.
#[derive(Clone, Copy, Default)]
struct CpuGroup {
    /// The round on the tape.
    round: usize,
    /// Rounds that are over.
    done: usize,
    /// How many it counts.
    counted: usize,
    /// Slices of the round that are not over.
    active: u32,
    /// When the last of the others ended.
    end: u64,
    /// When the last one that it counts ended.
    counted_end: u64,
    /// Slices that have begun.
    turns: u64,
}

/// A replay of a tape by groups.
pub struct Scaled<'t> {
    tape: &'t Tape,
    scaling: Scaling,
    seed: u64,
    recorded: usize,
    engine: Engine,
    mixer: Mixer,
    locks: Locks,
    schedule: Schedule,
    /// Into how many stretches the tape is cut.
    stretches: u16,
    /// How many groups still count.
    counting: usize,
    groups: Vec<CpuGroup>,
    /// By group, then recorded CPU.
    runners: Vec<GroupCpu>,
}

impl std::fmt::Debug for Scaled<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scaled {{ {:?}, {:?} }}", self.tape, self.scaling)
    }
}

impl<'t> Scaled<'t> {
    /// On a machine as a warm-up with the tape's last accesses leaves it. `lines`: with a view of
    /// lines.
    ///
    /// # Errors
    /// CPUs that do not fit on the machine.
    pub fn new(
        machine: &Machine,
        recorded: usize,
        scaling: Scaling,
        tape: &'t Tape,
        seed: u64,
        lines: Option<TimeGrid>,
    ) -> Result<Scaled<'t>, ReplayError> {
        let logical = scaling.cpus(machine, recorded)?;
        let cpus = places(machine, recorded, scaling.copies, Some(&logical))?;
        let mixer = Mixer::new(scaling.mixing, seed, &cpus, scaling.copies);
        let mut engine = Engine::new(machine, cpus, scaling.copies, lines.is_some());
        // The warm-up touches each line once per CPU, so most CPUs meet lines for the first time
        // while counting; they are not cold.
        engine.system.set_old();
        if let (Some(transfers), Some(grid)) = (&mut engine.transfers, lines) {
            transfers.set_grid(grid);
        }
        let groups = usize::from(scaling.copies);
        let stretches = match scaling.phases && !scaling.whole {
            true => stretches(scaling.copies, tape),
            false => 1,
        };
        let mut scaled = Scaled {
            tape,
            scaling,
            seed,
            recorded,
            engine,
            mixer,
            locks: Locks::default(),
            schedule: Schedule::default(),
            stretches,
            counting: groups,
            groups: vec![CpuGroup::default(); groups],
            runners: vec![GroupCpu::default(); groups * recorded],
        };
        scaled.warm_up();
        Ok(scaled)
    }

    /// Every CPU makes the last of its accesses to each line.
    fn warm_up(&mut self) {
        self.make_room();
        let groups = self.scaling.copies;
        for (turn, (cpu, at)) in (0u64..).zip(self.tape.last_touches()) {
            let taped = &self.tape.accesses[at as usize];
            for group in 0..groups {
                // A different group comes last each time.
                let group = (group + (turn % u64::from(groups)) as u16) % groups;
                let number = usize::from(cpu.0) * usize::from(groups) + usize::from(group);
                let moment = Moment {
                    group,
                    slice: turn,
                    again: 0,
                };
                let instance = self.instance(taped, number, moment);
                // At time 0: only contents matter, and `end_transfers` frees the lines afterwards.
                self.engine.step(&taped.access, number, instance, 0);
            }
        }
        self.engine.system.end_transfers();
        self.engine.begin_counting();
        self.make_room();
    }

    fn make_room(&mut self) {
        let accesses = || self.tape.accesses.iter();
        let key = accesses().map(Taped::key).max().unwrap_or_default();
        let site = accesses().map(Taped::site).max().unwrap_or_default();
        self.engine.make_room(key, site);
        if self.stretches > 1 {
            self.engine.make_aside(KeyId(key.0 + 1), SiteId(site.0 + 1));
        }
    }

    /// Whose memory an access goes to.
    #[inline]
    fn instance(&self, taped: &Taped, number: usize, moment: Moment) -> u16 {
        let group = moment.group;
        match taped.access.sharing {
            Sharing::Shared => 0,
            Sharing::Cloned => group,
            Sharing::OfCpu(owner) => {
                let own = number / usize::from(self.scaling.copies);
                if usize::from(owner.0) == own {
                    return group;
                }
                self.mixer.group(&self.engine.cpus[number], owner, moment)
            }
        }
    }

    /// Runs it and returns the counts of what is on the tape: without `warm_up`, `skipped`,
    /// `uncached`, and hits that were left out of the tape.
    #[must_use]
    pub fn run(mut self) -> Outcome {
        let rounds = self.tape.rounds.len();
        if rounds > 0 {
            self.schedule.begin(self.runners.iter().map(|_| None));
            for group in 0..self.groups.len() {
                let TapeStretch { first, rounds } = self.stretch(group);
                self.groups[group].round = first;
                self.groups[group].counted = rounds;
                self.counting -= usize::from(rounds == 0);
                self.begin_rounds(group);
            }
            while let (Some((now, runner)), true) = (self.schedule.first(), self.counting > 0) {
                self.go_on(runner, now);
            }
        }
        self.finish()
    }

    /// What a group counts.
    fn stretch(&self, group: usize) -> TapeStretch {
        match self.scaling.phases {
            true => stretch(self.tape, self.stretches, group, self.seed),
            false => TapeStretch {
                first: 0,
                rounds: self.tape.rounds.len(),
            },
        }
    }

    /// Starts a group's next round, and those after it as long as none has an access. A group that
    /// has counted its stretch continues as long as others count, but not for ever: a tape without
    /// accesses has no end.
    fn begin_rounds(&mut self, group: usize) {
        let most = match self.stretches {
            1 => self.groups[group].counted,
            _ => usize::MAX,
        };
        let mut empty = 0;
        // A loop, not a call from end_round: thousands of rounds in a row may have nothing on the
        // tape.
        while self.groups[group].active == 0
            && self.groups[group].done < most
            && empty <= self.tape.rounds.len()
        {
            self.begin_round(group);
            if self.groups[group].active == 0 {
                self.end_round(group);
            }
            empty += 1;
        }
    }

    fn end_round(&mut self, group: usize) {
        let group = &mut self.groups[group];
        group.done += 1;
        group.round = (group.round + 1) % self.tape.rounds.len();
        if group.done == group.counted {
            group.counted_end = group.end;
            self.counting -= 1;
        }
    }

    /// Whether what the group does is counted.
    fn counts(&self, group: usize) -> bool {
        self.groups[group].done < self.groups[group].counted
    }

    fn begin_round(&mut self, number: usize) {
        let tape = self.tape;
        let CpuGroup {
            round, done, end, ..
        } = self.groups[number];
        let slices = tape.round(round);
        let longest = tape.slices[slices.clone()].iter().map(|slice| slice.span);
        let longest = longest.max().unwrap_or(0);
        for slice in &tape.slices[slices] {
            let index = number * self.recorded + usize::from(slice.cpu.0);
            // Anywhere such that it ends with the longest at the latest: a later start would make
            // rounds longer than they were. A function of round and CPU, not a generator: the draw
            // must not depend on the order in which groups come here.
            let random = mix(self.seed ^ mix(done as u64) ^ mix((index as u64) << 32));
            let late = random % u64::from(longest - slice.span + 1);
            self.groups[number].turns += 1;
            let runner = &mut self.runners[index];
            *runner = GroupCpu {
                shift: end + late,
                next: slice.begin,
                end: slice.end,
                span: slice.span,
                turn: self.groups[number].turns,
                // Empty: its last slice released everything. Reused for its allocation.
                held: std::mem::take(&mut runner.held),
                ..GroupCpu::default()
            };
            if self.find_next(index) {
                self.groups[number].active += 1;
            } else {
                self.end_slice(index);
            }
        }
    }

    /// Puts the runner's next access on the schedule; `false`: there is none.
    fn find_next(&mut self, index: usize) -> bool {
        let runner = &mut self.runners[index];
        while runner.next < runner.end {
            let taped = &self.tape.accesses[runner.next as usize];
            let random =
                mix(self.seed ^ mix(runner.turn << 16 ^ index as u64) ^ u64::from(runner.next));
            // Drawn by runner, turn and access, so that the same accesses are made in whatever
            // order runners come here.
            (runner.made, runner.wanted) = (0, times(taped.growth, random));
            if runner.wanted > 0 {
                // The tape has times as recorded; the runner's waiting since is added.
                let due = runner.shift + u64::from(taped.access.offset);
                self.schedule.set(index, Some(due));
                return true;
            }
            runner.next += 1;
        }
        self.schedule.set(index, None);
        false
    }

    /// The runner makes its access, or waits for the lock that the access acquires.
    fn go_on(&mut self, index: usize, now: u64) {
        let tape = self.tape;
        let runner = &self.runners[index];
        let taped = &tape.accesses[runner.next as usize];
        let group = index / self.recorded;
        let number = index % self.recorded * usize::from(self.scaling.copies) + group;
        let moment = Moment {
            group: group as u16,
            slice: runner.turn,
            again: runner.made,
        };
        let instance = self.instance(taped, number, moment);
        let span = taped.access.span;
        // The address of the written word, in its group's copy: a kernel locks a word, not a line.
        let lock = (
            instance_line(span.line, instance, self.engine.line),
            span.offset,
        );
        // Before the access is performed: a waiter spins on a copy of its own and does not move the
        // line.
        if self.scaling.locks && taped.acquires && !self.may_take(index, lock, now) {
            return;
        }
        let stall = self.perform(taped, number, instance, now);
        // Any write to the word by its holder releases it: an unlock may be a plain store.
        let writes = taped.access.kind != AccessKind::Load;
        if writes && !taped.acquires && self.runners[index].lets_go(lock) {
            self.release(lock, now + stall);
        }
        let runner = &mut self.runners[index];
        runner.made += 1;
        runner.shift += stall;
        if runner.made < runner.wanted {
            // Repeated accesses keep the distance of the scan that made them.
            let step = u64::from(tape.step(runner.next).clamp(1, STEP_CYCLES_MAX));
            runner.shift += step;
            self.schedule.set(index, Some(now + stall + step));
            return;
        }
        runner.next += 1;
        if !self.find_next(index) {
            self.end_slice(index);
            self.groups[group].active -= 1;
            if self.groups[group].active == 0 {
                self.end_round(group);
                self.begin_rounds(group);
            }
        }
    }

    /// Whether the runner continues with an access that acquires the lock; otherwise it waits.
    fn may_take(&mut self, index: usize, lock: LockId, now: u64) -> bool {
        let runner = &mut self.runners[index];
        if std::mem::take(&mut runner.granted) {
            return true;
        }
        match self.locks.acquire(lock, index) {
            Asked::Passed => true,
            Asked::Circle => {
                if self.counts(index / self.recorded) {
                    self.locks.count_circle();
                }
                true
            }
            Asked::Taken => {
                runner.held.push(lock);
                true
            }
            Asked::Waits => {
                runner.asked = now;
                self.schedule.set(index, None);
                false
            }
        }
    }

    /// The lock is free at that time: the longest waiter has it.
    fn release(&mut self, lock: LockId, at: u64) {
        let Some(next) = self.locks.release(lock) else {
            return;
        };
        let runner = &mut self.runners[next];
        // Saturating: a runner that asked later than the holder released has not waited, though it
        // was queued in call order.
        let waited = at.saturating_sub(runner.asked);
        runner.shift += waited;
        runner.granted = true;
        runner.held.push(lock);
        self.schedule.set(next, Some(runner.asked + waited));
        let access = &self.tape.accesses[runner.next as usize];
        if self.counts(next / self.recorded) {
            self.locks
                .count(access.key(), access.site(), Cycles(waited));
        }
    }

    /// Performs an access, with its CPU's own caches as the recorded group's were. Returns for how
    /// long the CPU stalls.
    #[inline]
    fn perform(&mut self, taped: &Taped, number: usize, instance: u16, now: u64) -> u64 {
        // The tape knows where the access was served from when its group ran alone. This machine
        // does not have what evicted the line there, so the eviction is repeated.
        if taped.own != Own::Whatever {
            let Cpu { place, .. } = self.engine.cpus[number];
            let line = instance_line(taped.access.span.line, instance, self.engine.line);
            match taped.own {
                Own::Whatever => {}
                Own::BeyondL1 => self.engine.system.evict_from_l1(place, line),
                Own::Evicted => self.engine.system.evict(place, line),
            }
        }
        let group = number % usize::from(self.scaling.copies);
        match self.counts(group) {
            true => self.engine.step(&taped.access, number, instance, now),
            false => self.engine.step_aside(&taped.access, number, instance, now),
        }
    }

    /// The runner's slice is over: it releases what it holds.
    fn end_slice(&mut self, index: usize) {
        let runner = &mut self.runners[index];
        let end = runner.shift + u64::from(runner.span);
        for lock in std::mem::take(&mut runner.held) {
            if self.counts(index / self.recorded) {
                self.locks.count_unreleased();
            }
            // The recorded release is in a later turn (a mutex held over a sleep) or wrote to
            // another word. Holding on would block all groups until the holder's next turn.
            self.release(lock, end);
        }
        let group = &mut self.groups[index / self.recorded];
        group.end = group.end.max(end);
    }

    fn finish(self) -> Outcome {
        let mut outcome = self.engine.finish();
        let (locks, circles, unreleased) = self.locks.finish();
        outcome.locks = locks;
        outcome.scaled = Some(ScaledCounts {
            taped: Accesses(self.tape.accesses.len() as u64),
            circles,
            unreleased,
        });
        // The tape's accesses, as often as they were made: growth makes that differ from its
        // length.
        outcome.accesses = outcome.totals.accesses();
        outcome.rounds = self.groups.iter().map(|group| group.counted as u64).sum();
        // As long as it takes to go around once: the stretches of consecutive groups are all of the
        // tape. Divided, because it is multiplied with the rest.
        let stretches = u64::from(self.stretches);
        let around = self.groups.chunks(stretches as usize).map(|groups| {
            let ends = groups.iter().map(|group| group.counted_end);
            ends.sum::<u64>()
        });
        outcome.cycles = Cycles(around.max().unwrap_or(0) / stretches);
        outcome.times(stretches);
        outcome.held = held::of_stretches(&outcome.held, self.stretches);
        outcome
    }
}

impl GroupCpu {
    /// Whether it held the lock, which it now has released.
    fn lets_go(&mut self, lock: LockId) -> bool {
        let at = self.held.iter().position(|held| *held == lock);
        at.map(|at| self.held.swap_remove(at)).is_some()
    }
}

/// How often an access is made whose average number is `growth`.
// The fraction by chance: rounding would turn a growth of 0.4 into no access at all.
fn times(growth: f32, random: u64) -> u32 {
    let whole = growth.max(0.0).floor();
    let part = f64::from(growth.max(0.0) - whole);
    // 53 bits, the precision of a double's fraction.
    let drawn = (random >> 11) as f64 / (1u64 << 53) as f64;
    whole as u32 + u32::from(drawn < part)
}

//! A replay of the accesses that an edit affects, at the times in a [`Timeline`](crate::Timeline).

use linemate_machine::CpuPlace;
use linemate_units::Cycles;

use crate::accounts::outcome::Outcome;
use crate::cache::array::{Evicted, Stamp};
use crate::cache::pressure::Level;
use crate::difference::timeline::{Op, TimelineReader, TimelineSlice};
use crate::rounds::error::ReplayError;
use crate::rounds::interleaver::Interleaving;
use crate::rounds::placement::{AsRecorded, NoClones, Placed};
use crate::rounds::replay::{Item, Replay};
use crate::rounds::schedule::Schedule;
use crate::rounds::slices::SliceHead;

/// A partial replay in progress. For each round, pass every slice ([`Partial::begin_slice`]); for
/// each of its accesses that the timeline's replay followed, call [`Partial::begin_step`], then
/// pass what becomes of it ([`Partial::add`]): nothing, an access, or several.
#[derive(Clone)]
pub struct Partial {
    /// Holds the round, the machine and the accounts; its own rounds are not run.
    replay: Replay<AsRecorded, NoClones>,
    /// By step: its first item in the round.
    steps: Vec<u32>,
    /// By slice: its first step.
    slices: Vec<u32>,
    schedule: Schedule,
    /// Kept to save allocations.
    evicted: Vec<(Level, Evicted)>,
    /// When the round starts in the timeline's replay.
    recorded: u64,
    /// When it starts here.
    now: u64,
    /// When counting began here.
    since: u64,
    rounds: u64,
    drift: Drift,
}

/// How much earlier or later the slices of a partial replay ended than in the timeline's replay.
///
/// It bounds what a partial replay cannot see: accesses to other lines stay where they were, so
/// those of a CPU that is early or late get another order relative to other CPUs'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    /// The sum over the slices, in cycles.
    pub cycles: u64,
    /// The sum of their lengths.
    pub of: u64,
}

impl Drift {
    /// As a share of the slices' time.
    #[must_use]
    pub fn share(self) -> f64 {
        self.cycles as f64 / self.of.max(1) as f64
    }
}

/// A slice in progress.
struct Lane<'t> {
    ops: TimelineSlice<'t>,
    /// When the operation was in the timeline's replay.
    stamp: Stamp,
    op: Op,
    /// What else the same access evicted.
    with: Vec<(Level, Evicted)>,
    /// The next operation.
    next: Option<(Stamp, Op)>,
    /// What the slice's steps have lost so far; negative if they have saved.
    late: i64,
    /// How long the current step has stalled so far.
    stalled: u64,
    /// The next or current step.
    step: usize,
    item: u32,
    cpu: usize,
    place: CpuPlace,
}

impl Lane<'_> {
    /// When it has something to do, from the round's start, which was `start` in the timeline's
    /// replay.
    fn due(&self, start: u64) -> u64 {
        // Never negative: only earlier stalls can be saved, which are part of the time.
        let at = self.stamp.cycles() - start + self.stalled;
        at.saturating_add_signed(self.late)
    }

    /// Advances to the next operation and what belongs to it. Returns whether there is one.
    fn load(&mut self, start: u64) -> Result<bool, ReplayError> {
        let Some((stamp, op)) = self.next.take() else {
            return Ok(false);
        };
        (self.stamp, self.op) = (stamp, op);
        self.next = self.ops.next(start)?;
        while let Some((stamp, Op::Evict { level, gone })) = self.next {
            if !stamp.is_of(self.stamp) {
                break;
            }
            self.with.push((level, gone));
            self.next = self.ops.next(start)?;
        }
        Ok(true)
    }
}

impl Partial {
    /// Like `replay`, which has not started, on its machine.
    #[must_use]
    pub fn new(mut replay: Replay<AsRecorded, NoClones>) -> Partial {
        replay.engine.system.note_uses();
        Partial {
            replay,
            steps: Vec::new(),
            slices: Vec::new(),
            schedule: Schedule::default(),
            evicted: Vec::new(),
            recorded: 0,
            now: 0,
            since: 0,
            rounds: 0,
            drift: Drift::default(),
        }
    }

    /// Its size in bytes of the host.
    #[must_use]
    pub fn size_in_memory(&self) -> usize {
        self.replay.size_in_memory()
    }

    /// The next slice of the round.
    ///
    /// # Errors
    /// A CPU beyond the announced number.
    pub fn begin_slice(&mut self, head: SliceHead) -> Result<(), ReplayError> {
        self.slices.push(self.steps.len() as u32);
        self.replay.begin_slice(head)
    }

    /// The slice's next access that the timeline's replay followed.
    #[inline]
    pub fn begin_step(&mut self) {
        self.steps.push(self.replay.round.len() as u32);
    }

    /// What becomes of it, or one of several resulting accesses.
    ///
    /// # Errors
    /// If the access is impossible.
    #[inline]
    pub fn add(&mut self, item: &Item, placed: Placed) -> Result<(), ReplayError> {
        self.replay.add(item, placed)
    }

    /// Runs the round, which is the timeline's next.
    ///
    /// # Errors
    /// A timeline of other accesses.
    pub fn end_round(&mut self, timeline: &mut TimelineReader) -> Result<(), ReplayError> {
        if self.replay.slices.is_empty() {
            return Ok(());
        }
        let items = self.replay.round.len() as u32;
        self.slices.push(self.steps.len() as u32);
        self.steps.push(items);
        let round = timeline.round(self.replay.slices.len())?;
        let mut end = round.others_end;
        let mut lanes = Vec::with_capacity(round.slices.len());
        let mut ends = Vec::with_capacity(round.slices.len());
        for slice in round.slices {
            ends.push(slice.end);
            lanes.push(self.lane(slice)?);
        }
        let mut schedule = std::mem::take(&mut self.schedule);
        schedule.begin(lanes.iter().map(|lane| Some(lane.due(self.recorded))));
        while let Some((at, index)) = schedule.first() {
            let lane = &mut lanes[index];
            let more = self.advance(lane, at)?;
            if !more {
                end = end.max(ends[index].saturating_add_signed(lane.late));
                self.drift.cycles += lane.late.unsigned_abs();
                self.drift.of += ends[index];
            }
            schedule.set(index, more.then(|| lane.due(self.recorded)));
        }
        self.schedule = schedule;
        // What overflows here has been evicted in the timeline's replay, too, and is on the
        // timeline.
        for lane in &lanes {
            self.replay
                .engine
                .system
                .take_evicted(lane.place, &mut self.evicted);
        }
        self.recorded += round.length;
        self.now += end;
        self.rounds += 1;
        self.replay.round.clear();
        self.replay.slices.clear();
        self.slices.clear();
        self.steps.clear();
        Ok(())
    }

    fn lane<'t>(&mut self, mut ops: TimelineSlice<'t>) -> Result<Lane<'t>, ReplayError> {
        let first = ops.next(self.recorded)?.ok_or(ReplayError::Timeline)?;
        let (stamp, op) = first;
        let cpu = usize::from(self.replay.slices[ops.number].head.cpu.0);
        let step = self.slices[ops.number] as usize;
        let mut lane = Lane {
            ops,
            stamp,
            op,
            with: Vec::new(),
            next: Some(first),
            late: 0,
            stalled: 0,
            step,
            item: self.steps[step],
            cpu,
            place: self.replay.engine.cpus[cpu].place,
        };
        lane.load(self.recorded)?;
        Ok(lane)
    }

    /// Does the slice's next step, `at` cycles from the round's start. Returns whether there is
    /// more.
    fn advance(&mut self, lane: &mut Lane<'_>, at: u64) -> Result<bool, ReplayError> {
        let system = &mut self.replay.engine.system;
        match lane.op {
            Op::Evict { level, gone } => {
                system.evict_older(lane.place, level, gone);
                system.expect(lane.with.drain(..));
                system.end_access(lane.place);
            }
            Op::Step { stall } => {
                // One past the last step: where the items end.
                let end = self.steps.get(lane.step + 1);
                let end = *end.ok_or(ReplayError::Timeline)?;
                system.expect(lane.with.drain(..));
                if lane.item < end {
                    self.perform(lane, at);
                }
                self.replay.engine.system.end_access(lane.place);
                if lane.item < end {
                    return Ok(true);
                }
                lane.late += lane.stalled as i64 - stall as i64;
                lane.stalled = 0;
                lane.step += 1;
            }
        }
        if lane.load(self.recorded)? {
            return Ok(true);
        }
        match self.slices[lane.ops.number + 1] as usize == lane.step {
            true => Ok(false),
            false => Err(ReplayError::Timeline),
        }
    }

    fn perform(&mut self, lane: &mut Lane<'_>, at: u64) {
        let engine = &mut self.replay.engine;
        engine.system.set_now(lane.place, lane.stamp);
        let waiting = &self.replay.round[lane.item as usize];
        lane.stalled += engine.step(waiting, lane.cpu, 0, self.now + at);
        lane.item += 1;
    }

    /// From now on accesses are counted, on the machine as it is: the timeline of the warm-up is
    /// over, that of an interleaving follows.
    pub fn begin_counting(&mut self) {
        self.replay.begin_counting(Interleaving::Aligned);
        self.since = self.now;
        self.rounds = 0;
        self.drift = Drift::default();
    }

    /// How far it has drifted from its timelines since counting began.
    #[must_use]
    pub fn drift(&self) -> Drift {
        self.drift
    }

    /// The counts of the accesses passed.
    #[must_use]
    pub fn finish(self) -> Outcome {
        let (outcome, _) = self.replay.finish();
        Outcome {
            rounds: self.rounds,
            cycles: Cycles(self.now - self.since),
            ..outcome
        }
    }
}

//! A replay of the accesses that an edit affects, at the times of a
//! [`Timeline`](crate::Timeline).

use std::cmp::Ordering;
use std::ops::Range;

use linemate_machine::CpuPlace;
use linemate_recording::AccessKind;
use linemate_units::Cycles;

use crate::accounts::outcome::Outcome;
use crate::cache::pressure::Level;
use crate::cache::stamp::{Evicted, Stamp};
use crate::difference::timeline::{Stalled, TimelineReader, TimelineSlice};
use crate::rounds::error::ReplayError;
use crate::rounds::interleaver::Interleaving;
use crate::rounds::placement::{AsRecorded, NoClones, Placed};
use crate::rounds::replay::{Item, Replay};
use crate::rounds::schedule::Schedule;
use crate::rounds::slices::SliceHead;

/// A partial replay in progress. For each round, pass every slice ([`Partial::begin_slice`]); for
/// each of its accesses that is followed, call [`Partial::begin_step`], then pass what becomes of
/// it ([`Partial::add`]): nothing, an access, or several.
#[derive(Clone)]
pub struct Partial {
    /// Holds the round, the machine and the accounts; its own rounds are not run.
    replay: Replay<AsRecorded, NoClones>,
    /// The followed accesses of the round.
    steps: Vec<FollowedStep>,
    /// By slice: its first step.
    slices: Vec<u32>,
    schedule: Schedule,
    /// Kept to save allocations.
    evicted: Vec<Vec<(Level, Evicted)>>,
    /// When the round starts in the timeline's replay.
    recorded: u64,
    /// When it starts here.
    now: u64,
    /// When counting began here.
    since: u64,
    rounds: u64,
    drift: Drift,
}

/// An access that is followed.
#[derive(Clone, Copy, Debug)]
struct FollowedStep {
    /// Its first item in the round.
    item: u32,
    /// Instructions from its slice's start.
    at: u32,
    tie: u16,
    /// Whether the timeline's replay made it.
    needed: bool,
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
    /// The next access of the slice that stalled in the timeline's replay.
    op: Option<Stalled>,
    /// What it evicted.
    evicted: Vec<(Level, Evicted)>,
    /// How long the slice had stalled before it.
    stalls: u64,
    /// What comes next.
    event: LaneEvent,
    /// What the slice's steps have lost so far; negative if they have saved.
    late: i64,
    /// How long the current step has stalled so far.
    stalled: u64,
    /// The next step, and that after the last.
    step: usize,
    end: usize,
    item: u32,
    cpu: usize,
    place: CpuPlace,
}

/// What a slice does next.
#[derive(Clone, Copy, Debug)]
struct LaneEvent {
    /// When it was in the timeline's replay, in cycles from the round's start.
    at: u64,
    tie: u16,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// A followed access, which stalled for that many cycles in the timeline's replay.
    Step { stall: u64 },
    /// An access that is not followed evicted lines.
    Evict,
}

impl Lane<'_> {
    /// When it has something to do, from the round's start.
    fn due(&self) -> u64 {
        // Never negative: only earlier stalls can be saved, which are part of the time.
        let at = self.event.at + self.stalled;
        at.saturating_add_signed(self.late)
    }

    /// Advances to the next event. Returns whether there is one.
    fn load(&mut self, steps: &[FollowedStep], start: u64) -> Result<bool, ReplayError> {
        loop {
            let op = self.op.map(|op| self.place_of(op).map(|at| (at, op)));
            let op = op.transpose()?;
            let step = (self.step < self.end).then(|| steps[self.step]);
            let order = match (step, op) {
                (None, None) => return Ok(false),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(step), Some((at, op))) => (step.at, step.tie).cmp(&(at, op.tie)),
            };
            if let (Some(step), Ordering::Less | Ordering::Equal) = (step, order) {
                let stalled = op.filter(|_| order == Ordering::Equal);
                let at = self.stalls.checked_add(u64::from(step.at));
                let at = at.and_then(|at| at.checked_add(self.ops.start));
                self.event = LaneEvent {
                    at: at.ok_or(ReplayError::Timeline)?,
                    tie: step.tie,
                    what: What::Step {
                        stall: stalled.map_or(0, |(_, op)| op.stall),
                    },
                };
                self.item = step.item;
                return Ok(true);
            }
            if let (Some((_, op)), false) = (op, self.evicted.is_empty()) {
                self.event = LaneEvent {
                    at: op.at,
                    tie: op.tie,
                    what: What::Evict,
                };
                return Ok(true);
            }
            self.next_op(start)?;
        }
    }

    /// How many instructions after its slice's start an access is made.
    fn place_of(&self, op: Stalled) -> Result<u32, ReplayError> {
        let at = op.at.checked_sub(self.ops.start);
        let at = at.and_then(|at| u32::try_from(at.checked_sub(self.stalls)?).ok());
        at.ok_or(ReplayError::Timeline)
    }

    /// Goes past the next access that stalled.
    fn next_op(&mut self, start: u64) -> Result<(), ReplayError> {
        let stalls = self.stalls.checked_add(self.op.map_or(0, |op| op.stall));
        self.stalls = stalls.ok_or(ReplayError::Timeline)?;
        self.evicted.clear();
        self.op = self.ops.next(start, &mut self.evicted)?;
        Ok(())
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

    /// The slice's next access that is followed: how many instructions after the slice's start it
    /// is, its tie ([`Item::tie`]), and whether the timeline's replay made it; if not, it was left
    /// out there as a hit.
    #[inline]
    pub fn begin_step(&mut self, at: u32, tie: u16, needed: bool) {
        let item = self.replay.round.len() as u32;
        self.steps.push(FollowedStep {
            item,
            at,
            tie,
            needed,
        });
    }

    /// A followed access that hits in L1 whatever the interleaving, of a layout as recorded: it is
    /// counted, and not replayed.
    ///
    /// # Errors
    /// As [`Replay::add_hit`].
    #[inline]
    pub fn add_hit(&mut self, kind: AccessKind, placed: Placed) -> Result<(), ReplayError> {
        self.replay.add_hit(kind, placed)
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
        self.slices.push(self.steps.len() as u32);
        let round = timeline.round(self.replay.slices.len())?;
        // A slice that no CPU ran there has no time for its accesses.
        let ran: usize = round
            .slices
            .iter()
            .map(|s| self.steps_of(s.number).len())
            .sum();
        if ran != self.steps.len() {
            return Err(ReplayError::Timeline);
        }
        let mut end = 0;
        let mut lanes = Vec::with_capacity(round.slices.len());
        let mut ends = Vec::with_capacity(round.slices.len());
        for slice in round.slices {
            let ended = slice.end;
            match self.lane(slice)? {
                Some(lane) => {
                    ends.push(ended);
                    lanes.push(lane);
                }
                None => end = end.max(ended),
            }
        }
        let mut schedule = std::mem::take(&mut self.schedule);
        schedule.begin(lanes.iter().map(|lane| Some(lane.due())));
        while let Some((at, index)) = schedule.first() {
            let lane = &mut lanes[index];
            let more = self.advance(lane, at)?;
            if !more {
                end = end.max(ends[index].saturating_add_signed(lane.late));
                self.drift.cycles += lane.late.unsigned_abs();
                self.drift.of += ends[index];
            }
            schedule.set(index, more.then(|| lane.due()));
        }
        self.schedule = schedule;
        // What overflows here has been evicted in the timeline's replay, too, and is on the
        // timeline.
        let mut overflow = self.evicted.pop().unwrap_or_default();
        for lane in lanes {
            let system = &mut self.replay.engine.system;
            system.take_evicted(lane.place, &mut overflow);
            self.evicted.push(lane.evicted);
        }
        self.evicted.push(overflow);
        let recorded = self.recorded.checked_add(round.length);
        self.recorded = recorded.ok_or(ReplayError::Timeline)?;
        self.now += end;
        self.rounds += 1;
        self.replay.round.clear();
        self.replay.slices.clear();
        self.slices.clear();
        self.steps.clear();
        Ok(())
    }

    /// The steps of a slice of the round.
    fn steps_of(&self, slice: usize) -> Range<usize> {
        self.slices[slice] as usize..self.slices[slice + 1] as usize
    }

    /// A slice at its first event, if it has any.
    fn lane<'t>(&mut self, ops: TimelineSlice<'t>) -> Result<Option<Lane<'t>>, ReplayError> {
        let cpu = usize::from(self.replay.slices[ops.number].head.cpu.0);
        let steps = self.steps_of(ops.number);
        let mut evicted = self.evicted.pop().unwrap_or_default();
        evicted.clear();
        let mut lane = Lane {
            step: steps.start,
            end: steps.end,
            op: None,
            evicted,
            stalls: 0,
            event: LaneEvent {
                at: ops.start,
                tie: 0,
                what: What::Evict,
            },
            ops,
            late: 0,
            stalled: 0,
            item: 0,
            cpu,
            place: self.replay.engine.cpus[cpu].place,
        };
        lane.next_op(self.recorded)?;
        if lane.load(&self.steps, self.recorded)? {
            return Ok(Some(lane));
        }
        self.evicted.push(lane.evicted);
        Ok(None)
    }

    /// Does what the slice does next, `at` cycles from the round's start. Returns whether there is
    /// more.
    fn advance(&mut self, lane: &mut Lane<'_>, at: u64) -> Result<bool, ReplayError> {
        let system = &mut self.replay.engine.system;
        match lane.event.what {
            What::Evict => {
                for (level, gone) in lane.evicted.drain(..) {
                    system.evict_older(lane.place, level, gone);
                }
                lane.next_op(self.recorded)?;
            }
            What::Step { stall } => {
                // Past the last step: where the items end.
                let next = self.steps.get(lane.step + 1);
                let end = next.map_or(self.replay.round.len() as u32, |step| step.item);
                if stall > 0 {
                    system.expect(lane.evicted.drain(..));
                }
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
                if stall > 0 {
                    lane.next_op(self.recorded)?;
                }
            }
        }
        lane.load(&self.steps, self.recorded)
    }

    fn perform(&mut self, lane: &mut Lane<'_>, at: u64) {
        let engine = &mut self.replay.engine;
        let stamp = Stamp::new(
            self.recorded + lane.event.at,
            lane.ops.number,
            lane.event.tie,
        );
        engine.system.set_now(lane.place, stamp);
        // What the timeline says of evictions is by the uses that its replay made: a line that
        // would be evicted with its own last use there must not be younger here.
        let needed = self.steps[lane.step].needed;
        engine.system.set_unnoted(lane.place, !needed);
        let waiting = &self.replay.round[lane.item as usize];
        lane.stalled += engine.step(waiting, lane.cpu, 0, self.now + at);
        engine.system.set_unnoted(lane.place, false);
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

    /// How far it has drifted from its timelines since counting began; all the way if those are
    /// too long for stamps.
    #[must_use]
    pub fn drift(&self) -> Drift {
        match self.recorded {
            Stamp::CYCLES.. => Drift { cycles: 1, of: 1 },
            _ => self.drift,
        }
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

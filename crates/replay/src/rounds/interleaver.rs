//! The order of accesses: slices, rounds, and the CPUs' own clocks.
//!
//! In a deterministic recording one CPU runs at a time. A *slice* is a run of consecutive accesses
//! of one CPU; a *round* is a run of consecutive slices in which no CPU occurs twice. On a real
//! machine the CPUs run at once, so the slices of a round are put side by side: they start together
//! and advance by their own instruction counts, one cycle each, and a stall delays only the CPU
//! that suffers it (bound and weave, after Sanchez and Kozyrakis, "ZSim", ISCA 2013). A round ends
//! when its last slice does, and the next one starts then, so what came later in the recording
//! stays later.
//!
//! ```text
//!   recorded   a a a b b c c c c │ a a b b b …          (one after the other)
//!   replayed   a─a──────a        │ a─a                  (stalls stretch a slice)
//!              b─b               │ b───b─b
//!              c─c─c─c           │
//! ```

use linemate_recording::Cycles;

use crate::rounds::schedule::Schedule;
use crate::rounds::slices::SliceHead;

/// Cycles that an instruction takes by itself.
const CYCLES_PER_INSTRUCTION: u64 = 1;

/// The number of a round, from 0 when counting began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundNumber(pub u64);

impl RoundNumber {
    /// The next round's.
    #[must_use]
    pub fn next(self) -> RoundNumber {
        RoundNumber(self.0 + 1)
    }
}

/// When the slices of a round start relative to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interleaving {
    /// All slices of a round start together.
    Aligned,
    /// Each starts at a pseudo-random time at which it still fits into the round's longest slice,
    /// give or take an eighth of that. The same seed gives the same times; several seeds give
    /// confidence intervals.
    Seeded(u64),
}

impl Interleaving {
    /// How long after the round's start the slice with number `runner` starts, given its length
    /// `span` in instructions and that of the round's longest slice.
    #[inline]
    pub fn start(self, round: RoundNumber, runner: u64, longest: u32, span: u32) -> Cycles {
        match self {
            Interleaving::Aligned => Cycles::ZERO,
            Interleaving::Seeded(seed) => {
                let room = u64::from(longest.saturating_sub(span)) + u64::from(longest) / 8;
                // A function of seed, round and slice, not a generator: an edit that removes
                // accesses must not shift the starts of all later slices, because a what-if
                // compares two replays under the same starts.
                let random = mix(seed ^ mix(round.0) ^ mix(runner << 32));
                // The bias of the remainder is at most 2^-30: room has 34 bits at most.
                Cycles(random % (room * CYCLES_PER_INSTRUCTION + 1))
            }
        }
    }
}

/// A slice of the current round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    pub(crate) head: SliceHead,
    /// Its accesses in the round's buffer.
    pub(crate) begin: u32,
    pub(crate) end: u32,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunnerTurn {
    /// The slice, by its number in the round.
    pub(crate) slice: usize,
    /// Which copy of the recorded CPU.
    pub(crate) copy: u16,
}

/// What an access does to the clock of its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Performed {
    /// It stalls for that many cycles.
    Stalls(u64),
    /// The access is made again when the round says that the CPU continues ([`Round::woken`]).
    Waits,
}

/// A CPU that continues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Woken {
    /// The slice that it runs.
    pub(crate) slice: usize,
    /// When, in cycles.
    pub(crate) at: u64,
}

/// What happens in a round.
pub(crate) trait Round {
    /// Instructions from its slice's start to an access.
    fn offset(&self, access: usize) -> u32;

    /// Performs an access, by its number in the round, at that time.
    fn step(&mut self, access: usize, turn: RunnerTurn, at: u64) -> Performed;

    /// A slice has ended.
    fn ended(&mut self, _slice: usize, _at: u64) {}

    /// A CPU that waited and continues by what was done last: each once.
    fn woken(&mut self) -> Option<Woken> {
        None
    }
}

/// The progress of one CPU, recorded or cloned, through its slice.
#[derive(Clone, Copy, Debug)]
struct Runner {
    /// Added to an access's own time: start of the slice, and all stalls so far.
    shift: u64,
    next: u32,
    end: u32,
    slice: u32,
    /// Instructions to the slice's end.
    last: u32,
    copy: u16,
}

/// Merges a round's slices by their CPUs' clocks.
#[derive(Clone)]
pub(crate) struct Interleaver {
    interleaving: Interleaving,
    /// When the next round starts, in cycles.
    now: u64,
    /// When counting began, in cycles.
    since: u64,
    round: RoundNumber,
    runners: Vec<Runner>,
    schedule: Schedule,
}

impl Interleaver {
    pub(crate) fn new(interleaving: Interleaving) -> Interleaver {
        Interleaver {
            interleaving,
            now: 0,
            since: 0,
            round: RoundNumber::default(),
            runners: Vec::new(),
            schedule: Schedule::default(),
        }
    }

    /// Continues under another interleaving, and counts from now on.
    pub(crate) fn begin_counting(&mut self, interleaving: Interleaving) {
        self.interleaving = interleaving;
        self.since = self.now;
        self.round = RoundNumber::default();
    }

    /// From the start of the first counted round to the end of the last one, in cycles.
    pub(crate) fn cycles(&self) -> u64 {
        self.now - self.since
    }

    /// When the next round starts, in cycles.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Rounds counted so far.
    pub(crate) fn rounds(&self) -> u64 {
        self.round.0
    }

    /// Runs one round.
    pub(crate) fn round(&mut self, slices: &[Slice], copies: u16, round: &mut impl Round) {
        let mut end = self.start(slices, copies, round);
        while let Some((at, index)) = self.schedule.first() {
            let runner = &mut self.runners[index];
            let due = match round.step(runner.next as usize, runner.turn(), at) {
                Performed::Waits => None,
                Performed::Stalls(stall) => {
                    // Only its clock: others are delayed only through busy lines, and locks.
                    runner.shift += stall;
                    runner.next += 1;
                    if runner.next == runner.end {
                        let finished = runner.finished();
                        round.ended(runner.slice as usize, finished);
                        end = end.max(finished);
                        None
                    } else {
                        Some(runner.due(round.offset(runner.next as usize)))
                    }
                }
            };
            self.schedule.set(index, due);
            while let Some(Woken { slice, at }) = round.woken() {
                self.wake(slice, at, round);
            }
        }
        let done = |runner: &Runner| runner.next == runner.end;
        assert!(self.runners.iter().all(done), "a CPU still waits");
        // The barrier between rounds: it keeps what was recorded later later, at the price that a
        // CPU that finishes early waits for the longest slice of the round.
        self.now = end;
        self.round = self.round.next();
    }

    /// The CPU that runs the slice continues at that time with the access that it waited at.
    fn wake(&mut self, slice: usize, at: u64, round: &impl Round) {
        let found = self
            .runners
            .iter()
            .position(|runner| runner.slice as usize == slice);
        if let Some(index) = found {
            let runner = &mut self.runners[index];
            let due = runner.due(round.offset(runner.next as usize));
            runner.shift += at.saturating_sub(due);
            self.schedule.set(index, Some(at.max(due)));
        }
    }

    /// Sets up the runners: copy by copy, the slices in recorded order. Returns the latest end of
    /// those that have nothing to do.
    fn start(&mut self, slices: &[Slice], copies: u16, round: &mut impl Round) -> u64 {
        self.runners.clear();
        let mut end = self.now;
        let longest = slices
            .iter()
            .map(|slice| slice.head.span)
            .max()
            .unwrap_or(0);
        for copy in 0..copies {
            for (index, slice) in slices.iter().enumerate() {
                // Neither an access nor a known end: it would start and end in the same cycle. It
                // takes no number either, so that starts are those of a recording without it.
                let Some(last) = slice.head.last else {
                    continue;
                };
                let number = self.runners.len() as u64;
                let late = self
                    .interleaving
                    .start(self.round, number, longest, slice.head.span);
                let runner = Runner {
                    shift: self.now + late.0,
                    next: slice.begin,
                    end: slice.end,
                    slice: index as u32,
                    last,
                    copy,
                };
                if runner.next == runner.end {
                    round.ended(index, runner.finished());
                    end = end.max(runner.finished());
                }
                self.runners.push(runner);
            }
        }
        let due = |runner: &Runner| {
            (runner.next < runner.end).then(|| runner.due(round.offset(runner.next as usize)))
        };
        self.schedule.begin(self.runners.iter().map(due));
        end
    }
}

impl Runner {
    fn turn(&self) -> RunnerTurn {
        RunnerTurn {
            slice: self.slice as usize,
            copy: self.copy,
        }
    }

    /// When its slice ends, if it does not stall any more.
    fn finished(&self) -> u64 {
        u64::from(self.last) * CYCLES_PER_INSTRUCTION + self.shift
    }

    /// When the access at `offset` instructions is due.
    #[inline]
    fn due(&self, offset: u32) -> u64 {
        u64::from(offset) * CYCLES_PER_INSTRUCTION + self.shift
    }
}

/// SplitMix64's finaliser (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
/// OOPSLA 2014): every input bit moves every output bit.
pub fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

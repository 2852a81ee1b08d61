//! Misses of one CPU that do not wait for each other.
//!
//! A CPU that waits for a miss continues with the following instructions, as far as its window
//! extends, and so starts those of their misses whose addresses it knows. They cost not their
//! latency, but what is left of it when the earlier ones are over.
//!
//! ```text
//!   waits    0        300      600
//!            ├─ miss a ┤                  b's address does not come from a: both begin at 0, b adds what is left of it
//!            ├─ miss b ───┤
//!                      ├─ miss c ┤        c's address comes from a: it begins when a is over
//! ```
//!
//! Time here is the time that the CPU waits: instructions take their own time in addition (one
//! cycle each), whether something is in flight or not. So a miss is never hidden by work, only by
//! other misses: what a window hides of a miss by work alone is in the cycle that each instruction
//! takes.
//!
//! A miss starts at the latest of: when the youngest miss that has left the window is over
//! (instructions leave it in order); when the loads that its address comes from are over
//! ([`Dependences`]); when a fill buffer is free. An atomic starts when everything is over, and
//! nothing starts before it is over. The window is empty at a slice's start, because a round starts
//! when all of the previous one is over.
//!
//! An access takes effect in the order of the interleaving, as without overlap: when the CPU has
//! waited for everything before it, not when the miss starts, which is up to a latency earlier.
//! Loads that hit do not wait here. [`Dependences`] includes what comes from a miss through one of
//! them, so a replay needs no hits: it is the same without those that a [`crate::Filter`] leaves
//! out.

use std::collections::VecDeque;
use std::sync::Arc;

use linemate_insn::{Dependence, Dependences};
use linemate_machine::Overlap;
use linemate_recording::{AccessKind, GuestAddr};

use crate::rounds::waiting::{Cpu, Waiting};

/// A miss in a CPU's window.
#[derive(Clone, Copy, Debug)]
struct Miss {
    pc: GuestAddr,
    /// Instructions since the slice's start.
    offset: u32,
    /// When it is over.
    over: u64,
}

/// What one CPU has in flight. Times are those that it waits, since the slice's start.
#[derive(Clone, Debug)]
struct Window {
    shape: Overlap,
    round: u64,
    /// How long it has waited.
    now: u64,
    /// When everything `window` instructions before is over: no miss starts earlier.
    floor: u64,
    misses: VecDeque<Miss>,
    /// When each fill buffer is free.
    buffers: Vec<u64>,
}

impl Window {
    fn new(shape: Overlap) -> Window {
        Window {
            shape,
            round: 0,
            now: 0,
            floor: 0,
            misses: VecDeque::new(),
            buffers: vec![0; shape.outstanding as usize],
        }
    }

    fn restart(&mut self, round: u64) {
        self.round = round;
        self.now = 0;
        self.floor = 0;
        self.misses.clear();
        self.buffers.fill(0);
    }

    /// What a miss of that latency adds to the CPU's waiting. `from`: where its address comes from,
    /// if known.
    fn add(&mut self, miss: Miss, latency: u64, from: Option<&Dependence>) -> u64 {
        while let Some(oldest) = self.misses.front() {
            // Offsets never decrease within a slice, and a CPU has one slice per round, at whose
            // start the window is emptied.
            if miss.offset - oldest.offset < self.shape.window {
                break;
            }
            self.floor = self.floor.max(oldest.over);
            self.misses.pop_front();
        }
        let waited_for = self.misses.iter().filter(|before| match from {
            Some(from) => from.is_on(before.pc),
            None => true,
        });
        let known = waited_for.map(|before| before.over).max().unwrap_or(0);
        // The first free buffer. `System::serve` queues lines that two CPUs' windows request, not
        // this code.
        let free = self.buffers.iter_mut().min_by_key(|free| **free);
        let begin = known.max(self.floor);
        let over = match free {
            Some(free) => {
                let over = begin.max(*free) + latency;
                *free = over;
                over
            }
            None => begin + latency,
        };
        self.misses.push_back(Miss { over, ..miss });
        let added = over.saturating_sub(self.now);
        self.now += added;
        added
    }

    /// An access that nothing overlaps with.
    fn alone(&mut self, latency: u64) {
        self.misses.clear();
        self.now += latency;
        self.floor = self.now;
    }
}

/// The windows of all CPUs.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    dependences: Arc<Dependences>,
    cpus: Vec<Window>,
    /// The round that is replayed.
    round: u64,
    /// Cycles that were not waited because misses overlapped.
    saved: u64,
}

impl Windows {
    /// Threads of one core have equal shares of the window and of the buffers.
    pub(crate) fn new(shape: Overlap, cpus: &[Cpu], dependences: Arc<Dependences>) -> Windows {
        let windows = cpus.iter().map(|cpu| {
            let core = cpus.iter().filter(|c| c.place.core == cpu.place.core);
            // Only replayed threads: one whose sibling is not replayed has the core to itself.
            let threads = core.count() as u32;
            Window::new(Overlap {
                window: (shape.window / threads).max(1),
                outstanding: (shape.outstanding / threads).max(1),
            })
        });
        Windows {
            dependences,
            cpus: windows.collect(),
            round: 0,
            saved: 0,
        }
    }

    pub(crate) fn end_round(&mut self) {
        self.round += 1;
    }

    pub(crate) fn saved(&self) -> u64 {
        self.saved
    }

    /// Counts from now on.
    pub(crate) fn begin_counting(&mut self) {
        self.saved = 0;
    }

    fn window(&mut self, cpu: usize) -> &mut Window {
        let round = self.round;
        let window = &mut self.cpus[cpu];
        if window.round != round {
            window.restart(round);
        }
        window
    }

    /// How long the CPU waits for an access that would make it wait for `stall` cycles if nothing
    /// else were in flight.
    #[inline(never)]
    pub(crate) fn wait(&mut self, cpu: usize, waiting: &Waiting, stall: u64) -> u64 {
        if stall == 0 {
            return 0;
        }
        if waiting.kind == AccessKind::Rmw {
            self.window(cpu).alone(stall);
            return stall;
        }
        let pc = GuestAddr(waiting.pc);
        let dependences = Arc::clone(&self.dependences);
        let miss = Miss {
            pc,
            offset: waiting.offset,
            over: 0,
        };
        let waits = self.window(cpu).add(miss, stall, dependences.of(pc));
        // Never more than the stall: whatever a miss has to wait for is over by the time that its
        // CPU has already waited.
        self.saved += stall - waits.min(stall);
        waits
    }
}

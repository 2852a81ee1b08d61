//! The order of accesses: slices, rounds, and the CPUs' own clocks.
//!
//! In a deterministic recording one CPU runs at a time. A *slice* is a run of consecutive accesses of one
//! CPU; a *round* is a run of consecutive slices in which no CPU comes up twice. On a real machine the
//! CPUs run at once, so the slices of a round are put side by side: they start together and advance by
//! their own instruction counts, one cycle each, and a stall delays only the CPU that suffers it
//! (bound and weave, after Sanchez and Kozyrakis, "ZSim", ISCA 2013). A round ends when its last slice
//! does; the next one begins then, so what came later in the recording stays later.
//!
//! ```text
//!   recorded   a a a b b c c c c │ a a b b b …          (one after the other)
//!   replayed   a─a──────a        │ a─a                  (stalls stretch a slice)
//!              b─b               │ b───b─b
//!              c─c─c─c           │
//! ```

/// Cycles that an instruction takes by itself.
const CYCLES_PER_INSTRUCTION: u64 = 1;

/// Accesses after which a round is closed even though no CPU has come up twice: bounds memory when one
/// CPU runs alone.
pub(crate) const ROUND_ACCESSES_MAX: usize = 1 << 16;

/// How the slices of a round lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interleaving {
    /// All start together.
    Aligned,
    /// Each starts at a pseudo-random time so that it still fits into the round's longest slice, give or
    /// take an eighth of that. The same seed gives the same times; several seeds give error bars.
    Seeded(u64),
}

/// A slice of the current round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    /// The recorded CPU.
    pub(crate) cpu: u16,
    /// Its accesses in the round's buffer.
    pub(crate) begin: u32,
    pub(crate) end: u32,
    /// Instructions from its first access to its last.
    pub(crate) span: u32,
}

/// One CPU, recorded or cloned, on its way through its slice.
#[derive(Clone, Copy, Debug)]
struct Runner {
    /// What to add to an access's own time: start of the slice, and all stalls so far.
    shift: u64,
    next: u32,
    end: u32,
    slice: u32,
    copy: u16,
}

/// Who comes next, with its time: a heap on (time, runner).
type Due = (u64, u32);

/// Runs rounds.
pub(crate) struct Weaver {
    interleaving: Interleaving,
    /// When the next round starts, in cycles.
    now: u64,
    rounds: u64,
    runners: Vec<Runner>,
    heap: Vec<Due>,
}

impl Weaver {
    pub(crate) fn new(interleaving: Interleaving) -> Weaver {
        Weaver {
            interleaving,
            now: 0,
            rounds: 0,
            runners: Vec::new(),
            heap: Vec::new(),
        }
    }

    /// The time at the end of the last round, in cycles.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Rounds so far.
    pub(crate) fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Runs one round. `offset` gives the instructions from its slice's start to an access; `step` performs
    /// an access (its index, its slice, which copy, when) and returns for how long the CPU stalls.
    pub(crate) fn round(
        &mut self,
        slices: &[Slice],
        copies: u16,
        offset: impl Fn(usize) -> u32,
        mut step: impl FnMut(usize, usize, u16, u64) -> u64,
    ) {
        self.start(slices, copies);
        let mut end = self.now;
        while let Some(&(_, index)) = self.heap.first() {
            let second = self.second();
            let runner = &mut self.runners[index as usize];
            let mut at;
            loop {
                let access = runner.next as usize;
                at = u64::from(offset(access)) * CYCLES_PER_INSTRUCTION + runner.shift;
                if (at, index) > second {
                    break;
                }
                let stall = step(access, runner.slice as usize, runner.copy, at);
                runner.shift += stall;
                runner.next += 1;
                if runner.next == runner.end {
                    end = end.max(at + stall);
                    break;
                }
            }
            let over = runner.next == runner.end;
            self.replace_first((!over).then_some((at, index)));
        }
        self.now = end;
        self.rounds += 1;
    }

    /// Sets the runners up: copy by copy, the slices in recorded order.
    fn start(&mut self, slices: &[Slice], copies: u16) {
        self.runners.clear();
        self.heap.clear();
        let longest = slices.iter().map(|slice| slice.span).max().unwrap_or(0);
        for copy in 0..copies {
            for (index, slice) in slices.iter().enumerate() {
                if slice.begin == slice.end {
                    continue;
                }
                let runner = self.runners.len() as u32;
                let late = match self.interleaving {
                    Interleaving::Aligned => 0,
                    Interleaving::Seeded(seed) => {
                        let room = u64::from(longest - slice.span) + u64::from(longest) / 8;
                        let random = mix(seed ^ mix(self.rounds) ^ mix(u64::from(runner) << 32));
                        random % (room * CYCLES_PER_INSTRUCTION + 1)
                    }
                };
                self.runners.push(Runner {
                    shift: self.now + late,
                    next: slice.begin,
                    end: slice.end,
                    slice: index as u32,
                    copy,
                });
                // Every slice's first access is at offset 0, unless that one was skipped: its time is then
                // a lower bound, corrected when its turn comes.
                self.heap.push((self.now + late, runner));
            }
        }
        // Sorted is a heap.
        self.heap.sort_unstable();
    }

    /// The earliest of the others, or the end of time.
    fn second(&self) -> Due {
        match self.heap.len() {
            0 | 1 => (u64::MAX, u32::MAX),
            2 => self.heap[1],
            _ => self.heap[1].min(self.heap[2]),
        }
    }

    /// The first of the heap is at `due` now, or done.
    fn replace_first(&mut self, due: Option<Due>) {
        match due {
            Some(due) => self.heap[0] = due,
            None => {
                self.heap.swap_remove(0);
            }
        }
        let heap = &mut self.heap[..];
        let mut at = 0;
        loop {
            let left = 2 * at + 1;
            if left >= heap.len() {
                break;
            }
            let right = left + 1;
            let least = if right < heap.len() && heap[right] < heap[left] {
                right
            } else {
                left
            };
            if heap[at] <= heap[least] {
                break;
            }
            heap.swap(at, least);
            at = least;
        }
    }
}

/// SplitMix64's finaliser: every input bit moves every output bit.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

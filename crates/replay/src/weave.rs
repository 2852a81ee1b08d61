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

/// Bits of a [`Due`] that name the runner.
const RUNNER_BITS: u32 = 14;

/// When a runner's next access is due, with the runner below: the least one comes next, and of those at
/// the same time the one with the lowest number.
type Due = u64;

/// The runner is done.
const NEVER: Due = Due::MAX;

/// Runs rounds.
pub(crate) struct Weaver {
    interleaving: Interleaving,
    /// When the next round starts, in cycles.
    now: u64,
    rounds: u64,
    runners: Vec<Runner>,
    /// A winner tree over the runners, a power of two of them: node i is the lesser of 2i and 2i+1, the leaves
    /// are the second half, the root is 1.
    tree: Vec<Due>,
}

impl Weaver {
    pub(crate) fn new(interleaving: Interleaving) -> Weaver {
        Weaver {
            interleaving,
            now: 0,
            rounds: 0,
            runners: Vec::new(),
            tree: Vec::new(),
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
        self.start(slices, copies, &offset);
        let mut end = self.now;
        while self.tree[1] != NEVER {
            let at = self.tree[1] >> RUNNER_BITS;
            let index = (self.tree[1] & ((1 << RUNNER_BITS) - 1)) as usize;
            let runner = &mut self.runners[index];
            let stall = step(runner.next as usize, runner.slice as usize, runner.copy, at);
            runner.shift += stall;
            runner.next += 1;
            let due = if runner.next == runner.end {
                end = end.max(at + stall);
                NEVER
            } else {
                runner.due(index, offset(runner.next as usize))
            };
            self.replace(index, due);
        }
        self.now = end;
        self.rounds += 1;
    }

    /// Sets the runners up: copy by copy, the slices in recorded order.
    fn start(&mut self, slices: &[Slice], copies: u16, offset: &impl Fn(usize) -> u32) {
        self.runners.clear();
        let longest = slices.iter().map(|slice| slice.span).max().unwrap_or(0);
        for copy in 0..copies {
            for (index, slice) in slices.iter().enumerate() {
                if slice.begin == slice.end {
                    continue;
                }
                let runner = self.runners.len() as u64;
                let late = match self.interleaving {
                    Interleaving::Aligned => 0,
                    Interleaving::Seeded(seed) => {
                        let room = u64::from(longest - slice.span) + u64::from(longest) / 8;
                        let random = mix(seed ^ mix(self.rounds) ^ mix(runner << 32));
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
            }
        }
        let leaves = self.runners.len().next_power_of_two();
        assert!(leaves <= 1 << RUNNER_BITS, "{leaves} CPUs in one round");
        self.tree.clear();
        self.tree.resize(2 * leaves, NEVER);
        for (index, runner) in self.runners.iter().enumerate() {
            self.tree[leaves + index] = runner.due(index, offset(runner.next as usize));
        }
        for node in (1..leaves).rev() {
            self.tree[node] = self.tree[2 * node].min(self.tree[2 * node + 1]);
        }
    }

    /// A runner's next access is due then.
    #[inline]
    fn replace(&mut self, index: usize, due: Due) {
        let mut node = self.tree.len() / 2 + index;
        self.tree[node] = due;
        while node > 1 {
            let least = self.tree[node].min(self.tree[node ^ 1]);
            node /= 2;
            self.tree[node] = least;
        }
    }
}

impl Runner {
    /// When the access at `offset` instructions is due. Cycles beyond 50 bits (four days) would wrap.
    #[inline]
    fn due(&self, index: usize, offset: u32) -> Due {
        (u64::from(offset) * CYCLES_PER_INSTRUCTION + self.shift) << RUNNER_BITS | index as u64
    }
}

/// SplitMix64's finaliser: every input bit moves every output bit.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

//! The order of a round's accesses before any stalls.

use linemate_recording::{CpuId, Cycles};
use linemate_replay::Interleaving;
use linemate_session::step::{Slice, Step};

use crate::conditions::Seed;

/// Puts the accesses of rounds in an order: a round's slices start when a replay with the same seed starts them, and no
/// stall shifts an access. `T` is what is wanted of an access.
#[derive(Debug)]
pub struct RoundOrder<T> {
    interleaving: Interleaving,
    rounds: u64,
    wanted: Vec<T>,
    order: Vec<Turn>,
}

/// When, by whom, which of the wanted. Compared in that order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    at: Cycles,
    cpu: CpuId,
    number: u32,
}

/// An access in its round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordered<'o, T> {
    /// From the round's start.
    pub at: Cycles,
    /// The CPU that makes it.
    pub cpu: CpuId,
    /// What is wanted of it.
    pub of: &'o T,
}

impl<T> RoundOrder<T> {
    /// Before the first round.
    #[must_use]
    pub fn new(seed: Seed) -> RoundOrder<T> {
        RoundOrder {
            interleaving: Interleaving::Seeded(seed.0),
            rounds: 0,
            wanted: Vec::new(),
            order: Vec::new(),
        }
    }

    /// Takes the next round's accesses for which `want` gives something; it is called as they were recorded.
    pub fn take(&mut self, slices: &[Slice<'_>], mut want: impl FnMut(&Step) -> Option<T>) {
        self.wanted.clear();
        self.order.clear();
        let longest = slices.iter().map(|(head, _)| head.span).max().unwrap_or(0);
        // As numbered by the replay's interleaver: slices without a part in the round take no
        // number, or the starts would differ from the replay's.
        let running = slices.iter().filter(|(head, _)| head.last.is_some());
        for (runner, (head, steps)) in (0u64..).zip(running) {
            let start = self
                .interleaving
                .start(self.rounds, runner, longest, head.span);
            for step in *steps {
                if let Some(wanted) = want(step) {
                    self.order.push(Turn {
                        at: start + Cycles::from(step.at),
                        cpu: step.access.cpu,
                        number: self.wanted.len() as u32,
                    });
                    self.wanted.push(wanted);
                }
            }
        }
        self.order.sort_unstable();
        self.rounds += 1;
    }

    /// The accesses of the round that was taken last: by time, then CPU, then as recorded.
    pub fn iter(&self) -> impl Iterator<Item = Ordered<'_, T>> {
        self.order.iter().map(|turn| Ordered {
            at: turn.at,
            cpu: turn.cpu,
            of: &self.wanted[turn.number as usize],
        })
    }
}

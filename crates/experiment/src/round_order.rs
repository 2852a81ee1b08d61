//! The order of a round's accesses before any stalls.

use linemate_recording::{CpuId, Cycles};
use linemate_replay::{Interleaving, RoundNumber};
use linemate_session::step::{Slice, Step};

use crate::conditions::Seed;

/// Puts the accesses of rounds in an order: a round's slices start when a replay with the same seed
/// starts them, and no stall shifts an access. `T` is what is wanted of an access.
#[derive(Debug)]
pub struct RoundOrder<T> {
    interleaving: Interleaving,
    round: RoundNumber,
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
            round: RoundNumber::default(),
            wanted: Vec::new(),
            order: Vec::new(),
        }
    }

    /// Takes the next round's accesses for which `want` gives something; it is called as they were
    /// recorded.
    pub fn take(&mut self, slices: &[Slice<'_>], mut want: impl FnMut(&Step) -> Option<T>) {
        self.wanted.clear();
        self.order.clear();
        let longest = slices.iter().map(|(head, _)| head.span).max().unwrap_or(0);
        // As numbered by the replay's interleaver: slices without a part in the round take no
        // number, or the starts would differ from the replay's.
        let running = slices.iter().filter(|(head, _)| head.last.is_some());
        for (runner, (head, steps)) in (0..).zip(running) {
            let start = self
                .interleaving
                .start(self.round, runner, longest, head.span);
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
        self.round = self.round.next();
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

#[cfg(test)]
mod tests {
    use linemate_attribution::SubjectId;
    use linemate_recording::{Access, AccessKind, GuestAddr, VirtualTime};
    use linemate_replay::SliceHead;

    use super::*;

    fn step(cpu: u16, at: u32) -> Step {
        let access = Access {
            time: VirtualTime(0),
            cpu: CpuId(cpu),
            pc: GuestAddr(0),
            addr: GuestAddr(0),
            size: 8,
            kind: AccessKind::Load,
            silent: false,
            user_mapping: false,
        };
        Step {
            at,
            ..Step::new(&access, SubjectId(0), 0)
        }
    }

    fn head(cpu: u16, last: Option<u32>) -> SliceHead {
        SliceHead {
            last,
            span: 1000,
            ..SliceHead::new(CpuId(cpu))
        }
    }

    /// Of three rounds of the same slices: when which CPU's access takes effect.
    fn orders(slices: &[Slice<'_>]) -> Vec<Vec<(u64, u16)>> {
        let mut order = RoundOrder::new(Seed(42));
        let mut round = || {
            order.take(slices, |step| (step.at != 7).then_some(()));
            order.iter().map(|turn| (turn.at.0, turn.cpu.0)).collect()
        };
        vec![round(), round(), round()]
    }

    /// A slice that has nothing in the round takes no number: the starts of those after it are as
    /// if it were not there.
    #[test]
    fn a_slice_without_a_part_in_a_round_changes_no_start() {
        let (a, b) = ([step(0, 0), step(0, 7), step(0, 9)], [step(2, 3)]);
        let running = [(head(0, Some(900)), &a[..]), (head(2, Some(900)), &b[..])];
        let [first, last] = running;
        let with_idle = [first, (head(1, None), &[][..]), last];
        assert_eq!(orders(&with_idle), orders(&running));
        // One that runs does take a number, and the same slices start otherwise in each round.
        let with_running = [first, (head(1, Some(900)), &[][..]), last];
        assert_ne!(orders(&with_running), orders(&running));
        let [one, two, _] = &orders(&running)[..] else {
            panic!("three rounds");
        };
        assert_ne!(one, two);
        // What is not wanted is left out; times are those of the slice's start and the access.
        assert_eq!(one.len(), 3);
        let of_first: Vec<u64> = one.iter().filter(|of| of.1 == 0).map(|of| of.0).collect();
        let apart = Cycles::from(9u32).0;
        assert_eq!(of_first[1] - of_first[0], apart);
    }
}

//! For how long lines that move between cores are held: the service demands of a closed queue.
//!
//! A request that leaves its core holds its line ([`System::serve`](crate::System)): until
//! ownership has arrived, or for as long as a clean copy is served. Nobody else gets the line
//! meanwhile. A line is counted from its first hand-over on, because before that no core could have
//! waited for another. What prefetchers request is not counted: no CPU waits for it.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;

use linemate_machine::LineSize;
use linemate_recording::GuestAddr;
use linemate_units::{Accesses, Cycles};
use serde::{Deserialize, Serialize};

use crate::accounts::counts::Tally;
use crate::cache::address::{Line, address};
use crate::cache::directory::{LineHasher, Slot};
use crate::size;

/// A line that moved between cores, and the requests that held it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldLine {
    /// Its first byte, as placed.
    pub addr: GuestAddr,
    /// The clone whose memory it is; 0 for the recorded one.
    pub instance: u16,
    /// How many such lines there are: one, or one for each group of CPUs.
    pub lines: u16,
    /// How many requests held one of them, and for how many cycles; waiting before that is not
    /// included.
    pub requests: Tally,
}

/// All of them so far.
#[derive(Clone, Default)]
pub(crate) struct HeldLines {
    lines: HashMap<Slot, Tally, BuildHasherDefault<LineHasher>>,
    /// Whether requests are left out: another replay counts them, or none does.
    pub(crate) elsewhere: bool,
}

impl HeldLines {
    /// A request holds the line for that many cycles; `handed`: another core gives it up.
    pub(crate) fn add(&mut self, slot: Slot, cycles: Cycles, handed: bool) {
        if self.elsewhere {
            return;
        }
        if handed {
            self.lines.entry(slot).or_default().add(cycles);
        } else if let Some(requests) = self.lines.get_mut(&slot) {
            requests.add(cycles);
        }
    }

    pub(crate) fn begin_counting(&mut self) {
        self.lines.clear();
    }

    pub(crate) fn size_in_memory(&self) -> usize {
        size::of_table(&self.lines)
    }

    /// The lines by address and instance.
    pub(crate) fn take(&mut self, line_of: impl Fn(Slot) -> Line, size: LineSize) -> Vec<HeldLine> {
        let lines = std::mem::take(&mut self.lines).into_iter();
        let line = |(slot, requests)| {
            let (addr, instance) = address(line_of(slot), size);
            HeldLine {
                addr,
                instance,
                lines: 1,
                requests,
            }
        };
        let mut lines: Vec<HeldLine> = lines.map(line).collect();
        lines.sort_by_key(|line| (line.addr, line.instance));
        lines
    }
}

/// Replaces `before` by `after` in all lines; `None` if that would be negative.
pub(crate) fn changed(
    all: &[HeldLine],
    before: &[HeldLine],
    after: &[HeldLine],
) -> Option<Vec<HeldLine>> {
    let mut sums: BTreeMap<(GuestAddr, u16), HeldLine> = BTreeMap::new();
    for line in all.iter().chain(after) {
        let at = (line.addr, line.instance);
        let sum = sums.entry(at).or_insert(HeldLine {
            requests: Tally::default(),
            ..*line
        });
        sum.requests.merge(line.requests);
    }
    for line in before {
        let sum = sums.get_mut(&(line.addr, line.instance))?;
        sum.requests = sum.requests.less(line.requests)?;
    }
    let mut lines: Vec<HeldLine> = sums.into_values().collect();
    lines.retain(|line| line.requests.count > Accesses::ZERO);
    Some(lines)
}

/// Lines that groups of CPUs share, and each group's own lines.
pub(crate) fn joined(own: &[HeldLine], together: &[HeldLine], groups: u16) -> Vec<HeldLine> {
    let each = own.iter().map(|line| HeldLine {
        lines: groups,
        ..*line
    });
    let mut lines: Vec<HeldLine> = each.chain(together.iter().copied()).collect();
    lines.sort_by_key(|line| (line.addr, line.instance, line.lines));
    lines
}

/// What groups request of lines that each of them has, if each counted one of that many stretches,
/// times as many: together with those before and after it in the tape, a group requests what any
/// one does that goes around it. `lines` are by address, then instance; a line of instance 0 alone
/// is one for all groups.
pub(crate) fn of_stretches(lines: &[HeldLine], stretches: u16) -> Vec<HeldLine> {
    let mut all: Vec<HeldLine> = Vec::with_capacity(lines.len());
    for of_address in lines.chunk_by(|a, b| a.addr == b.addr) {
        if stretches == 1 || of_address.iter().all(|line| line.instance == 0) {
            all.extend(of_address);
            continue;
        }
        for of_ring in of_address.chunk_by(|a, b| a.instance / stretches == b.instance / stretches)
        {
            let mut sum = Tally::default();
            of_ring.iter().for_each(|line| sum.merge(line.requests));
            // Exact: each was multiplied by it.
            sum.count = Accesses(sum.count.0 / u64::from(stretches));
            sum.cycles = Cycles(sum.cycles.0 / u64::from(stretches));
            all.push(HeldLine {
                lines: stretches,
                requests: sum,
                ..of_ring[0]
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(addr: u64, count: u64, cycles: u64) -> HeldLine {
        HeldLine {
            addr: GuestAddr(addr),
            instance: 0,
            lines: 1,
            requests: Tally {
                count: Accesses(count),
                cycles: Cycles(cycles),
            },
        }
    }

    #[test]
    fn a_line_counts_from_its_first_hand_over_on() {
        let mut held = HeldLines::default();
        held.add(1, Cycles(8), false);
        held.add(1, Cycles(100), true);
        held.add(1, Cycles(8), false);
        held.add(0, Cycles(8), false);
        held.elsewhere = true;
        held.add(1, Cycles(100), true);
        let lines = held.take(Line::from, LineSize::B64);
        assert_eq!(lines, [line(64, 2, 108)]);
    }

    /// Three stretches, six groups: of each three groups' lines one request in three counts.
    #[test]
    fn each_of_the_groups_lines_is_held_as_if_its_group_went_around() {
        let of = |instance, count| HeldLine {
            instance,
            ..line(64, count, 10 * count)
        };
        let lines = [line(0, 9, 90), of(0, 3), of(2, 30), of(4, 6)];
        let around = |instance, count| HeldLine {
            lines: 3,
            ..of(instance, count)
        };
        let expected = [line(0, 9, 90), around(0, 11), around(4, 2)];
        assert_eq!(of_stretches(&lines, 3), expected);
        assert_eq!(of_stretches(&lines, 1), lines);
    }

    #[test]
    fn a_change_takes_away_what_was_before() {
        let all = [line(0, 3, 300), line(64, 2, 20)];
        let (before, after) = ([line(0, 3, 300)], [line(64, 1, 10), line(128, 1, 100)]);
        let lines = changed(&all, &before, &after).unwrap();
        assert_eq!(lines, [line(64, 3, 30), line(128, 1, 100)]);
        assert_eq!(changed(&all, &[line(0, 4, 300)], &[]), None);
        assert_eq!(changed(&all, &[line(192, 1, 1)], &[]), None);
    }
}

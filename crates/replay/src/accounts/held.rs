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
    /// Whether requests are left out, because another replay counts them.
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

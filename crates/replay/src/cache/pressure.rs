//! Evictions from full sets, noted in one replay and repeated in another.
//!
//! Two replays of one recording differ in the lines that an edit moves. All other lines press on
//! the sets of the caches as before, so the second replay does not need them: for each eviction it
//! is enough to know when the line was last used ([`Evicted`]).

use linemate_machine::{CpuPlace, DomainId};

use crate::cache::address::Line;
use crate::cache::array::{DIRTY, Held};
use crate::cache::stamp::{Evicted, Stamp};
use crate::cache::system::System;

/// One of the caches that a CPU fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The core's L1.
    L1,
    /// The core's L2.
    L2,
    /// A domain's last-level cache: mostly its own, or another one if that domain's core has to
    /// write back data.
    Llc(DomainId),
}

impl System {
    /// From now on, notes when lines are used, and what is evicted. Must be called before the first
    /// access.
    pub(crate) fn note_uses(&mut self) {
        let private = self.l1.iter_mut().chain(&mut self.l2);
        private.for_each(|cache| cache.note_uses());
        self.llc.iter_mut().for_each(|cache| cache.note_uses());
    }

    /// The stamp for the uses of the next access.
    #[inline]
    pub(crate) fn set_now(&mut self, place: CpuPlace, now: Stamp) {
        let core = usize::from(place.core.0);
        self.now = now;
        self.l1[core].set_now(now);
        self.l2[core].set_now(now);
    }

    /// Whether the CPU's uses of lines in its L1 are noted from now on.
    #[inline]
    pub(crate) fn set_unnoted(&mut self, place: CpuPlace, unnoted: bool) {
        self.l1[usize::from(place.core.0)].set_unnoted(unnoted);
    }

    /// The evictions since the last call, from the CPU's caches and from the last-level caches, in
    /// order.
    pub(crate) fn take_evicted(&mut self, place: CpuPlace, into: &mut Vec<(Level, Evicted)>) {
        let core = usize::from(place.core.0);
        into.clear();
        // A missed line is inserted into the last-level cache, into L2 and into L1, in this order;
        // then what fell back from L1 goes into L2.
        for (domain, cache) in (0..).map(DomainId).zip(&mut self.llc) {
            cache.take_evicted(|gone| into.push((Level::Llc(domain), gone)));
        }
        self.l2[core].take_evicted(|gone| into.push((Level::L2, gone)));
        self.l1[core].take_evicted(|gone| into.push((Level::L1, gone)));
        into.sort_by_key(|(_, gone)| gone.now);
    }

    /// The evictions by the next access ([`System::evict_older`]), each at its place in the access,
    /// or at the latest at [`System::end_access`]: a line evicted from L2 and then from L1 is in L2
    /// again; so is one that is evicted and then fetched as another one's pair.
    pub(crate) fn expect(&mut self, gone: impl Iterator<Item = (Level, Evicted)>) {
        self.expected.extend(gone);
    }

    /// The access has inserted its line into L2.
    #[inline]
    pub(crate) fn before_l1(&mut self, place: CpuPlace) {
        if !self.expected.is_empty() {
            self.evict_expected(place, |level, gone| {
                level != Level::L1 && gone.now.is_first()
            });
        }
    }

    /// The access has made room for its line.
    #[inline]
    pub(crate) fn before_pair(&mut self, place: CpuPlace) {
        if !self.expected.is_empty() {
            self.evict_expected(place, |_, gone| !gone.now.is_pair());
        }
    }

    /// The access is over.
    pub(crate) fn end_access(&mut self, place: CpuPlace) {
        self.evict_expected(place, |_, _| true);
    }

    fn evict_expected(&mut self, place: CpuPlace, now: impl Fn(Level, &Evicted) -> bool) {
        let expected = std::mem::take(&mut self.expected);
        for (level, gone) in expected {
            match now(level, &gone) {
                true => self.evict_older(place, level, gone),
                false => self.expected.push((level, gone)),
            }
        }
    }

    /// Lines that were used no later than the evicted one have to go, too.
    pub(crate) fn evict_older(&mut self, place: CpuPlace, level: Level, gone: Evicted) {
        let core = usize::from(place.core.0);
        let Evicted { set, used, now } = gone;
        let before = self.now;
        self.set_now(place, now);
        match level {
            Level::L1 => {
                while let Some(victim) = self.l1[core].take_older(set, used) {
                    self.fall_back(place, Some(victim));
                }
            }
            Level::L2 => {
                while let Some((line, held)) = self.l2[core].take_older(set, used) {
                    self.leave_l2(place, line, held);
                }
            }
            Level::Llc(domain) => {
                let mut cache = self.llc.get_mut(usize::from(domain.0));
                while let Some(slot) = cache.as_mut().and_then(|c| c.take_older(set, used)) {
                    self.directory.entry_mut(slot).llc &= !(1 << domain.0);
                }
            }
        }
        self.set_now(place, before);
    }

    /// A line has left L2; it may still be in L1.
    pub(crate) fn leave_l2(&mut self, place: CpuPlace, line: Line, gone: Held) {
        let core = usize::from(place.core.0);
        let dirty = gone.flags & DIRTY != 0;
        let Some(way) = self.l1[core].find(line) else {
            return self.lose(place, line, gone.slot, dirty);
        };
        // L2 does not include L1: the copy there stays, and the core still holds the line.
        self.l1[core].add_touched(way, gone.touched);
        if dirty {
            self.write_back(place.domain, gone.slot);
            // L1's clean copy now equals the LLC's: M has become E, and another core's read of it
            // is not a HITM.
            if self.l1[core].flags(way) & DIRTY == 0 {
                self.directory.entry_mut(gone.slot).dirty = false;
            }
        }
    }
}

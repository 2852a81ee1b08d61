//! How lines enter the caches of a core and its domain, what they evict, and what is noted about
//! them.

use linemate_machine::{CoreId, CpuPlace, DomainId, LogicalCpu};
use linemate_recording::AccessKind;

use crate::cache::address::Line;
use crate::cache::array::{CHECK, DIRTY, Held, Way};
use crate::cache::directory::{History, Slot};
use crate::cache::stamp::Stamp;
use crate::cache::system::System;
use crate::cache::verdict::Piece;
use crate::rounds::filter::Later;

impl System {
    /// Notes the words of accesses that were left out after one to the line, which is in L1 and
    /// stays there until they would have been made ([`crate::Filter`]).
    pub(crate) fn use_later(&mut self, cpu: LogicalCpu, core: CoreId, line: u64, later: Later) {
        let cache = &mut self.l1[usize::from(core.0)];
        // Found, not used: the line is the most recently used in its set when the filter leaves
        // accesses out, so the order of use does not change. It may be gone if an edit moved the
        // line's other accesses, which stay.
        let Some(way) = cache.find(line) else {
            return;
        };
        cache.add_touched(way, later.touched);
        let slot = cache.slot(way);
        let check = cache.flags(way) & CHECK != 0;
        if later.written != 0 {
            let entry = self.directory.entry_mut(slot);
            // The core owns the line: the filter leaves stores out only after one that stays, with
            // no other core in between, and by the same CPU.
            entry.dirty = true;
            entry.written |= later.written;
            entry.last_writer = cpu;
            cache.set_flags(way, DIRTY);
        }
        if check {
            self.check(core, slot, way, later.touched);
        }
    }

    /// Inserts a missed line into the domain's LLC, L2 and L1, in this order.
    pub(crate) fn fill(&mut self, place: CpuPlace, slot: Slot, piece: Piece, check: bool) {
        self.fill_llc(place.domain, slot);
        let flags = if check { CHECK } else { 0 };
        let new = Held {
            slot,
            flags,
            touched: 0,
        };
        // From outside in: L2's victim is looked up in an L1 from which nothing has been displaced
        // yet, and L1's victim then falls back to L2.
        self.insert_l2(place, piece.line, new);
        self.before_l1(place);
        let way = self.fill_l1(place, piece.line, new);
        let l1 = &mut self.l1[usize::from(place.core.0)];
        l1.add_touched(way, piece.words);
        if piece.kind != AccessKind::Load {
            l1.set_flags(way, DIRTY);
        }
    }

    pub(crate) fn fill_llc(&mut self, domain: DomainId, slot: Slot) {
        let entry = self.directory.entry(slot);
        if entry.in_llc(domain) {
            let cache = &mut self.llc[usize::from(domain.0)];
            cache.set_now(self.now);
            cache.touch(entry.line, slot);
        } else {
            self.insert_llc(domain, slot, self.now);
        }
    }

    fn insert_llc(&mut self, domain: DomainId, slot: Slot, now: Stamp) {
        let entry = self.directory.entry_mut(slot);
        entry.llc |= 1 << domain.0;
        let line = entry.line;
        // Cores keep their copies of what the LLC evicts: it is not inclusive. A write-back to
        // memory takes no CPU's time, and memory has no queue here, so nothing else happens.
        let cache = &mut self.llc[usize::from(domain.0)];
        cache.set_now(now);
        if let Some(gone) = cache.insert(line, slot) {
            self.directory.entry_mut(gone).llc &= !(1 << domain.0);
        }
    }

    /// Modified data goes to the domain's LLC. Refreshing an existing copy is not a use of it.
    pub(crate) fn write_back(&mut self, domain: DomainId, slot: Slot) {
        if !self.directory.entry(slot).in_llc(domain) {
            self.insert_llc(domain, slot, self.now.after());
        }
    }

    /// Inserts a line that is not in L1; the evicted line falls back to L2.
    pub(crate) fn fill_l1(&mut self, place: CpuPlace, line: Line, new: Held) -> Way {
        let core = usize::from(place.core.0);
        let (way, victim) = self.l1[core].insert(line, new);
        self.fall_back(place, victim);
        way
    }

    /// A line evicted from L1 falls back to L2.
    pub(crate) fn fall_back(&mut self, place: CpuPlace, victim: Option<(Line, Held)>) {
        let core = usize::from(place.core.0);
        let Some((line, gone)) = victim else { return };
        if let Some(at) = self.l2[core].find(line) {
            // The lifetime continues in L2, and an invalidation needs the words that the core used
            // in either level. A `CHECK` that L2 has and L1 had cleared stays: it costs a look at
            // the record, which then clears it.
            self.l2[core].add_touched(at, gone.touched);
            self.l2[core].set_flags(at, gone.flags & DIRTY);
        } else if gone.flags & DIRTY != 0 {
            self.l2[core].set_now(self.now.after());
            self.insert_l2(place, line, gone);
            self.l2[core].set_now(self.now);
        } else {
            // L2 is not a victim cache: a clean line that it evicted while L1 had it is gone with
            // L1's copy.
            self.lose(place, line, gone.slot, false);
        }
    }

    /// Inserts a line that is not in L2; the evicted line may still be in L1.
    pub(crate) fn insert_l2(&mut self, place: CpuPlace, line: Line, new: Held) {
        let core = usize::from(place.core.0);
        if let (_, Some((line, gone))) = self.l2[core].insert(line, new) {
            self.leave_l2(place, line, gone);
        }
    }

    /// The core's caches have no room for the line any more.
    pub(crate) fn lose(&mut self, place: CpuPlace, line: Line, slot: Slot, dirty: bool) {
        assert!(
            self.directory.entry(slot).line == line,
            "a way names another line's entry"
        );
        if dirty {
            self.write_back(place.domain, slot);
        }
        self.directory.remove_sharer(slot, place.core);
        let entry = self.directory.entry_mut(slot);
        if entry.owner() == Some(place.core) {
            // While the core is still the owner: `publish` exempts the owner from its own writes.
            self.sharing.publish(entry);
            entry.set_owner(None);
            entry.dirty = false;
        }
        if entry.forwarder() == Some(place.core) {
            // No S copy takes over: MESIF passes F on only with data. Until the next read the line
            // comes from an LLC or from memory.
            entry.set_forwarder(None);
        }
        self.end_lifetime(place.core, slot, History::Evicted);
    }
}

//! Prefetched lines on their way into a core's caches: fetches from the machine what
//! [`Prefetchers`] request.

use linemate_machine::CpuPlace;
use linemate_recording::AccessKind;

use crate::accounts::counts::{Cause, Source};
use crate::accounts::outcome::FetchedAhead;
use crate::cache::address::Line;
use crate::cache::array::{CHECK, Held, PREFETCHED};
use crate::cache::directory::{History, Slot};
use crate::cache::prefetch::{Arrival, Flight, Level, Prefetchers, Seen};
use crate::cache::system::System;
use crate::cache::verdict::{Asked, Pending, Piece};

impl System {
    /// Whether there are prefetchers that need to see accesses.
    #[inline]
    pub(crate) fn has_prefetchers(&self) -> bool {
        self.prefetchers.is_some()
    }

    /// What was fetched ahead.
    pub fn fetched_ahead(&self) -> FetchedAhead {
        let prefetchers = self.prefetchers.as_ref();
        prefetchers.map_or_else(FetchedAhead::default, |all| all.fetched)
    }

    /// Shows the core's prefetchers an access that [`System::access`] has done, and does their
    /// fetches.
    #[inline(never)]
    pub(crate) fn prefetch(&mut self, place: CpuPlace, seen: &Seen, now: u64) {
        let Some(all) = &mut self.prefetchers else {
            return;
        };
        // The stride prefetcher before the streamer: its request to L2 is one that the streamer
        // sees.
        let next = match seen.kind {
            AccessKind::Load => all.load(place, seen),
            AccessKind::Store | AccessKind::Rmw => None,
        };
        if seen.asked == Asked::Request {
            all.request(place, seen.line);
        }
        if let Some(line) = next {
            self.fetch_to_l1(place, line, now);
        }
        let Some(all) = &mut self.prefetchers else {
            return;
        };
        let mut wanted = std::mem::take(&mut all.wanted);
        for line in wanted.drain(..) {
            self.fetch(place, line, Level::L2, now);
        }
        if let Some(all) = &mut self.prefetchers {
            all.wanted = wanted;
        }
    }

    /// The stride prefetcher's line: from L2, or through it.
    fn fetch_to_l1(&mut self, place: CpuPlace, line: Line, now: u64) {
        let core = usize::from(place.core.0);
        // With one way there is no second place: the fetched line would displace the most recently
        // used one, which the filter assumes to be in L1.
        if self.l1[core].find(line).is_some() || self.l1[core].ways() == 1 {
            return;
        }
        if let Some(all) = &mut self.prefetchers {
            // L2 cannot distinguish an L1 prefetch from a load's request: Intel's manual lists both
            // as the streamer's input.
            all.request(place, line);
        }
        let Some(way) = self.l2[core].find(line) else {
            return self.fetch(place, line, Level::L1, now);
        };
        let (slot, flags) = (self.l2[core].slot(way), self.l2[core].flags(way));
        let mut flight = Flight {
            line,
            ready: now + u64::from(self.latency.l2),
            source: Source::L2,
            history: History::Held,
            to: Level::L1,
        };
        let Some(all) = &mut self.prefetchers else {
            return;
        };
        if !all.may_send(place, Level::L1, now) {
            return;
        }
        if flags & PREFETCHED != 0 {
            // The streamer's: it may still be in flight.
            let flights = &all.core(place).flights;
            if let Some(other) = flights.iter().find(|other| other.line == line) {
                let (to, ready) = (Level::L1, flight.ready.max(other.ready));
                flight = Flight {
                    to,
                    ready,
                    ..*other
                };
            }
        }
        all.send(place, flight);
        let new = Held {
            slot,
            flags: flags & CHECK | PREFETCHED,
            touched: 0,
        };
        self.fill_second(place, line, new);
    }

    fn fill_second(&mut self, place: CpuPlace, line: Line, new: Held) {
        let victim = self.l1[usize::from(place.core.0)].insert_second(line, new);
        self.fall_back(place, victim);
    }

    /// Brings a line that the core does not have into L2, and into L1 if requested.
    fn fetch(&mut self, place: CpuPlace, line: Line, to: Level, now: u64) {
        let slot = self.directory.slot(line, place.core, place.socket);
        // A line in E or M stays with its core: taking it would cost the owner a permission that
        // the filter assumes it has.
        if self.directory.holds(slot, place.core) || self.directory.entry(slot).owner().is_some() {
            return;
        }
        let may_send = |all: &mut Prefetchers| all.may_send(place, to, now);
        if !self.prefetchers.as_mut().is_some_and(may_send) {
            return;
        }
        let supply = self.supply(place, slot);
        let history = self.sharing.history(self.directory.entry(slot), place.core);
        self.share(place, slot, &supply);
        // No CPU waits, but the line is busy while it is served: a prefetch delays other cores'
        // requests as a load does.
        let (_, cycles) = self.serve(slot, AccessKind::Load, now, supply.latency, false);
        let pending = self.begin_lifetime(place.core, slot, 0);
        self.fill_llc(place.domain, slot);
        let check = if pending == Pending::Nothing {
            0
        } else {
            CHECK
        };
        let new = Held {
            slot,
            flags: check | PREFETCHED,
            touched: 0,
        };
        self.insert_l2(place, line, new);
        if to == Level::L1 {
            self.fill_second(place, line, new);
        }
        if let Some(all) = &mut self.prefetchers {
            all.send(
                place,
                Flight {
                    line,
                    ready: now + cycles,
                    source: supply.source,
                    history,
                    to,
                },
            );
        }
    }

    /// Takes back what was fetched since it was that.
    pub(crate) fn set_fetched_ahead(&mut self, before: FetchedAhead) {
        if let Some(all) = &mut self.prefetchers {
            all.fetched = before;
        }
    }

    /// The first use of a line that was fetched ahead: whether it has arrived.
    #[inline(never)]
    pub(crate) fn arrival(
        &mut self,
        place: CpuPlace,
        slot: Slot,
        piece: Piece,
        now: u64,
    ) -> Arrival {
        let Some(all) = &mut self.prefetchers else {
            return Arrival::Here;
        };
        let flights = &mut all.core(place).flights;
        let under_way = |flight: &Flight| flight.line == piece.line && flight.ready > now;
        let Some(at) = flights.iter().position(under_way) else {
            return Arrival::Here;
        };
        let flight = flights.swap_remove(at);
        all.fetched.late += 1;
        let atomic = match piece.kind {
            AccessKind::Rmw => u64::from(self.latency.atomic),
            AccessKind::Load | AccessKind::Store => 0,
        };
        // From L2 into L1 the line never left the core, so there is no cause.
        let (cause, undecided) = if flight.source.is_private() {
            (None, false)
        } else {
            // Before the access uses the line: its use consumes the pending words that decide the
            // class.
            let record = self.sharing.find(self.directory.entry(slot), place.core);
            let taken = record.is_some_and(|record| record.pending & piece.words != 0);
            match flight.history {
                History::Never => (Some(Cause::Cold), false),
                History::Evicted => (Some(Cause::Capacity), false),
                _ if taken => (Some(Cause::TrueSharing), false),
                _ => (None, true),
            }
        };
        Arrival::Late {
            // The whole remaining time, not beyond L1's latency: `Arrival::delay` takes the longer
            // of this and the hit.
            cycles: flight.ready - now + atomic,
            source: flight.source,
            cause,
            undecided,
        }
    }

    /// The other line of a pair, fetched into L2 as if read, without anybody waiting for it.
    pub(crate) fn fetch_pair(&mut self, place: CpuPlace, line: Line, now: u64) {
        // A pair is within a page, so an untouched line gets its home from the CPU that touches the
        // page, as it would by a load.
        let slot = self.directory.slot(line, place.core, place.socket);
        if self.directory.holds(slot, place.core) {
            return;
        }
        self.set_now(place, self.now.pair());
        let supply = self.supply(place, slot);
        self.prefetched.0 += 1;
        // Modified lines are taken as well: this mechanism models false sharing between the lines
        // of a pair.
        self.prefetched.1 += u64::from(supply.exclusive);
        self.share(place, slot, &supply);
        self.serve(
            slot,
            AccessKind::Load,
            now,
            supply.latency,
            supply.exclusive,
        );
        let pending = self.begin_lifetime(place.core, slot, 0);
        self.fill_llc(place.domain, slot);
        let flags = if pending == Pending::Nothing {
            0
        } else {
            CHECK
        };
        self.insert_l2(
            place,
            line,
            Held {
                slot,
                flags,
                touched: 0,
            },
        );
    }
}

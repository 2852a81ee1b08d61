//! Where a core without a copy of a line gets it from.

use linemate_machine::{CpuPlace, Distance, DomainId};

use crate::accounts::counts::Source;
use crate::cache::directory::Slot;
use crate::cache::system::System;
use crate::cache::verdict::LineSource;

impl System {
    /// Where a core without a copy gets the line from. Changes nothing.
    pub(crate) fn supply(&self, place: CpuPlace, slot: Slot) -> LineSource {
        let entry = self.directory.entry(slot);
        let latency = &self.latency;
        let clean = |distance| {
            let (source, cycles) = match distance {
                Distance::Domain => (Source::Llc, latency.llc),
                Distance::Socket => (Source::ForwardSocket, latency.hitm_same_socket),
                Distance::Remote => (Source::ForwardRemote, latency.hitm_other_socket),
            };
            LineSource {
                source,
                latency: u64::from(cycles),
                exclusive: false,
                writer: None,
            }
        };
        // The owner before the LLCs: while a core has the line in E or M, its own domain's LLC copy
        // may be stale.
        if let Some(owner) = entry.owner() {
            let distance = self
                .topology
                .distance(place.domain, self.topology.domain_of(owner));
            // E answers like any clean copy. That a transfer of clean data between domains takes as
            // long as one of modified data is an approximation: 5 to 25 % apart in David, Guerraoui
            // and Trigonakis (SOSP 2013, table 2).
            if !entry.dirty {
                return clean(distance);
            }
            let source = match distance {
                Distance::Domain => Source::HitmDomain,
                Distance::Socket => Source::HitmSocket,
                Distance::Remote => Source::HitmRemote,
            };
            return LineSource {
                source,
                latency: u64::from(latency.hitm(distance)),
                exclusive: true,
                writer: Some(entry.last_writer),
            };
        }
        // Of several clean copies in cores only F answers, as in MESIF; if it was evicted, those in
        // S are as good as absent.
        let forwarder = entry.forwarder().map(|core| self.topology.domain_of(core));
        let mut nearest = forwarder.map(|domain| self.topology.distance(place.domain, domain));
        let mut copies = entry.llc;
        if entry.in_llc(place.domain) {
            nearest = Some(Distance::Domain);
            // Nothing is nearer than the own domain.
            copies = 0;
        }
        while copies != 0 {
            let domain = DomainId(copies.trailing_zeros() as u16);
            copies &= copies - 1;
            let distance = self.topology.distance(place.domain, domain);
            nearest = Some(nearest.map_or(distance, |nearest| nearest.min(distance)));
        }
        match nearest {
            Some(distance) => clean(distance),
            None => {
                let (source, cycles) = if entry.home == place.socket {
                    (Source::DramLocal, latency.dram_local)
                } else {
                    (Source::DramRemote, latency.dram_remote)
                };
                LineSource {
                    source,
                    latency: u64::from(cycles),
                    exclusive: false,
                    writer: None,
                }
            }
        }
    }
}

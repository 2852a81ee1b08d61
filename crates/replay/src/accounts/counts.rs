//! The counts: every access once by where it was served from, and once by why it had to go there.

use linemate_units::{Accesses, Cycles};
use serde::{Deserialize, Serialize};

/// Where an access was served from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Source {
    /// The core's L1, with the permission the access needs.
    L1,
    /// The core's L2, likewise.
    L2,
    /// The domain's last-level cache, or a clean copy in another core of the domain.
    Llc,
    /// A clean copy in another domain of the socket.
    ForwardSocket,
    /// A clean copy on another socket.
    ForwardRemote,
    /// A modified copy in another core of the domain.
    HitmDomain,
    /// A modified copy in another domain of the socket.
    HitmSocket,
    /// A modified copy on another socket.
    HitmRemote,
    /// The core had the line but not the permission to write it.
    Upgrade,
    /// Memory of the same socket.
    DramLocal,
    /// Memory of another socket.
    DramRemote,
}

impl Source {
    /// All of them, in the order of their numbers.
    // [`Counts`] indexes its sums by `as usize`, so the order here must be that of the declaration;
    // an entry missing here is counted and never shown.
    pub const ALL: [Source; 11] = [
        Source::L1,
        Source::L2,
        Source::Llc,
        Source::ForwardSocket,
        Source::ForwardRemote,
        Source::HitmDomain,
        Source::HitmSocket,
        Source::HitmRemote,
        Source::Upgrade,
        Source::DramLocal,
        Source::DramRemote,
    ];

    /// A short lower-case name, stable for machine-readable output.
    pub fn name(self) -> &'static str {
        match self {
            Source::L1 => "l1",
            Source::L2 => "l2",
            Source::Llc => "llc",
            Source::ForwardSocket => "forward_socket",
            Source::ForwardRemote => "forward_remote",
            Source::HitmDomain => "hitm_domain",
            Source::HitmSocket => "hitm_socket",
            Source::HitmRemote => "hitm_remote",
            Source::Upgrade => "upgrade",
            Source::DramLocal => "dram_local",
            Source::DramRemote => "dram_remote",
        }
    }

    /// Served without leaving the core.
    pub fn is_private(self) -> bool {
        matches!(self, Source::L1 | Source::L2)
    }

    /// Not served from the last-level cache of the core's own domain, nor by a core of that domain:
    /// what processors count as misses of that cache. An upgrade is not one: the line is here.
    pub fn is_llc_miss(self) -> bool {
        matches!(
            self,
            Source::ForwardSocket
                | Source::ForwardRemote
                | Source::HitmSocket
                | Source::HitmRemote
                | Source::DramLocal
                | Source::DramRemote
        )
    }

    /// A modified copy of another core.
    pub fn is_hitm(self) -> bool {
        matches!(
            self,
            Source::HitmDomain | Source::HitmSocket | Source::HitmRemote
        )
    }
}

/// Why an access left its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Cause {
    /// The core never had the line.
    Cold,
    /// The core's own caches had evicted the line for lack of room (capacity or conflict).
    Capacity,
    /// Another core's access took away the line or the permission, and words really are exchanged.
    TrueSharing,
    /// Another core's access took it away, but neither core uses a word that the other wrote.
    FalseSharing,
    /// Write permission was requested although no other core held the line any more.
    // The last sharer of a line stays in S or F when the others evict their copies: nothing informs
    // the cache that it is alone, so its write requests permission.
    Unshared,
}

impl Cause {
    /// All of them, in the order of their numbers.
    pub const ALL: [Cause; 5] = [
        Cause::Cold,
        Cause::Capacity,
        Cause::TrueSharing,
        Cause::FalseSharing,
        Cause::Unshared,
    ];

    /// A short lower-case name, stable for machine-readable output.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Cold => "cold",
            Cause::Capacity => "capacity",
            Cause::TrueSharing => "true_sharing",
            Cause::FalseSharing => "false_sharing",
            Cause::Unshared => "unshared",
        }
    }
}

/// A number of accesses, and their cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// How many accesses there were.
    pub count: Accesses,
    /// Their latency, waiting included.
    pub cycles: Cycles,
}

impl Tally {
    #[inline]
    pub(crate) fn add(&mut self, cycles: Cycles) {
        self.count += Accesses::ONE;
        self.cycles += cycles;
    }

    pub(crate) fn times(&mut self, copies: u64) {
        self.count *= copies;
        self.cycles *= copies;
    }

    /// Adds another's to these.
    pub fn merge(&mut self, other: Tally) {
        self.count += other.count;
        self.cycles += other.cycles;
    }

    /// Subtracts another's; `None` if that would be negative.
    pub(crate) fn less(self, other: Tally) -> Option<Tally> {
        Some(Tally {
            count: self.count.checked_sub(other.count)?,
            cycles: self.cycles.checked_sub(other.cycles)?,
        })
    }
}

/// The counts of one key, one site or the whole recording.
///
/// `accesses()` = the sum over [`Source`] = L1 + L2 + the sum over [`Cause`]; cycles likewise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// How many of the accesses were plain loads.
    pub loads: Accesses,
    /// How many were plain stores.
    pub stores: Accesses,
    /// How many were atomic read-modify-writes, each counted as one access.
    pub rmws: Accesses,
    sources: [Tally; Source::ALL.len()],
    causes: [Tally; Cause::ALL.len()],
    /// Cycles spent waiting for lines that were being handed to others: included in the cycles
    /// above.
    pub waited: Cycles,
    /// Accesses that touched two lines.
    pub split: Accesses,
    /// Accesses that missed the last-level cache ([`Source::is_llc_miss`]): loads, stores, RMWs.
    pub llc_misses: [Accesses; 3],
}

impl Counts {
    /// Loads, stores and atomics together.
    pub fn accesses(&self) -> Accesses {
        self.loads + self.stores + self.rmws
    }

    /// The cycles of all accesses, including private hits.
    pub fn cycles(&self) -> Cycles {
        self.sources.iter().map(|tally| tally.cycles).sum()
    }

    /// Accesses served from there.
    pub fn source(&self, source: Source) -> Tally {
        self.sources[source as usize]
    }

    /// Accesses that left the core for that reason.
    pub fn cause(&self, cause: Cause) -> Tally {
        self.causes[cause as usize]
    }

    /// Accesses that left their core, and their cycles: what a layout can change, and what reports
    /// call cost.
    pub fn left_core(&self) -> Tally {
        let mut sum = Tally::default();
        // By cause, because sources include L1 and L2. An access has a cause exactly if it left its
        // core, which `Engine::settle` asserts over the whole recording.
        for cause in &self.causes {
            sum.merge(*cause);
        }
        sum
    }

    /// Modified lines fetched from other cores, at any distance.
    pub fn hitm(&self) -> Tally {
        let mut sum = Tally::default();
        for source in Source::ALL.into_iter().filter(|source| source.is_hitm()) {
            sum.merge(self.source(source));
        }
        sum
    }

    /// Adds another's counts to these.
    pub fn merge(&mut self, other: &Counts) {
        self.loads += other.loads;
        self.stores += other.stores;
        self.rmws += other.rmws;
        self.waited += other.waited;
        self.split += other.split;
        for (mine, theirs) in self.llc_misses.iter_mut().zip(other.llc_misses) {
            *mine += theirs;
        }
        for (mine, theirs) in self.sources.iter_mut().zip(&other.sources) {
            mine.merge(*theirs);
        }
        for (mine, theirs) in self.causes.iter_mut().zip(&other.causes) {
            mine.merge(*theirs);
        }
    }

    /// Replaces `before` by `after`; `None` if a count would be negative.
    pub(crate) fn changed(mut self, before: &Counts, after: &Counts) -> Option<Counts> {
        self.merge(after);
        let numbers = [
            (&mut self.loads, before.loads),
            (&mut self.stores, before.stores),
            (&mut self.rmws, before.rmws),
            (&mut self.split, before.split),
        ];
        let misses = self.llc_misses.iter_mut().zip(before.llc_misses);
        for (mine, theirs) in numbers.into_iter().chain(misses) {
            *mine = mine.checked_sub(theirs)?;
        }
        self.waited = self.waited.checked_sub(before.waited)?;
        let sources = self.sources.iter_mut().zip(&before.sources);
        let causes = self.causes.iter_mut().zip(&before.causes);
        for (mine, theirs) in sources.chain(causes) {
            *mine = mine.less(*theirs)?;
        }
        Some(self)
    }

    /// The counts of `copies` that each did the same.
    pub(crate) fn times(&mut self, copies: u64) {
        let counts = [
            &mut self.loads,
            &mut self.stores,
            &mut self.rmws,
            &mut self.split,
        ];
        counts.into_iter().for_each(|count| *count *= copies);
        self.waited *= copies;
        self.llc_misses
            .iter_mut()
            .for_each(|count| *count *= copies);
        let tallies = self.sources.iter_mut().chain(&mut self.causes);
        tallies.for_each(|tally| tally.times(copies));
    }

    /// Adds L1 hits, given by kind (load, store, RMW), with that many cycles each, and `atomic`
    /// more for RMWs.
    pub(crate) fn add_l1_hits(&mut self, kinds: [Accesses; 3], cycles: Cycles, atomic: Cycles) {
        let [loads, stores, rmws] = kinds;
        self.loads += loads;
        self.stores += stores;
        self.rmws += rmws;
        let count = loads + stores + rmws;
        self.sources[Source::L1 as usize].merge(Tally {
            count,
            cycles: count.cycles(cycles) + rmws.cycles(atomic),
        });
    }

    #[inline]
    pub(crate) fn add_source(&mut self, source: Source, cycles: Cycles) {
        self.sources[source as usize].add(cycles);
    }

    pub(crate) fn add_cause(&mut self, cause: Cause, cycles: Cycles) {
        self.causes[cause as usize].add(cycles);
    }
}

//! Which object an address belongs to at a time.
//!
//! Built once from all lifetimes, then read by any number of threads. By page, because heap objects
//! are small and pages many: a page has its *places* (start, end) in order of start, and a place
//! its *tenants* in order of birth.
//!
//! ```text
//! page 0xffff888004b1c ─► place 0x000..0x0c0 ─► tenants: object 17 [@100, @250)  object 90 [@300, …)
//!                         place 0x0c0..0x180 ─► tenants: object 18 [@120, …)
//! ```
//!
//! It does not know what an object is: objects are numbers.

use std::ops::Range;

use linemate_recording::{GuestAddr, VirtualTime};
use rustc_hash::FxHashMap;

/// log2 of the page size of the index. It need not be the guest's, but objects rarely cross a page.
const PAGE_BITS: u32 = 12;

/// The maximum number of pages that one object is entered in: 1 GiB. A larger extent can only come
/// from a broken recording.
const PAGES_MAX: u64 = 1 << 18;

/// "Still alive at the end."
pub const NEVER: VirtualTime = VirtualTime(u64::MAX);

/// An object's number; the builder decides what it represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u32);

/// An extent of addresses during a span of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifetime {
    pub range: Range<u64>,
    /// The first time at which it is alive.
    pub birth: VirtualTime,
    /// The first time at which it is no longer alive.
    pub death: VirtualTime,
    pub object: ObjectId,
}

/// What is known about an address at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenant {
    /// An object is alive there.
    Alive { object: ObjectId, start: GuestAddr },
    /// An object was alive there earlier or will be later, but none is now.
    Vacant {
        /// When the last one died; `None` if there was none yet.
        since: Option<VirtualTime>,
    },
    /// There was never an object.
    Unknown,
}

impl Tenant {
    /// When the last object there died.
    #[must_use]
    pub fn since(self) -> Option<VirtualTime> {
        match self {
            Tenant::Vacant { since } => since,
            Tenant::Alive { .. } | Tenant::Unknown => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct TenantRange {
    start: u64,
    end: u64,
    tenants: (u32, u32),
}

#[derive(Clone, Copy, Debug)]
struct Tenancy {
    birth: u64,
    death: u64,
    object: ObjectId,
}

/// All lifetimes by address.
#[derive(Debug, Default)]
pub struct LifetimeIndex {
    pages: FxHashMap<u64, (u32, u32)>,
    places: Vec<TenantRange>,
    tenants: Vec<Tenancy>,
}

impl LifetimeIndex {
    /// Builds the index. Lifetimes of one place may not overlap in time; if they do (a missed
    /// free), the later birth ends the earlier life, because a look-up takes the latest birth
    /// before a time.
    #[must_use]
    pub fn new(lifetimes: &[Lifetime]) -> LifetimeIndex {
        let mut rows: Vec<(u64, u64, u64, u32)> = Vec::with_capacity(lifetimes.len());
        for (i, life) in lifetimes.iter().enumerate() {
            if life.range.is_empty() {
                continue;
            }
            let first = life.range.start >> PAGE_BITS;
            let last = (life.range.end - 1) >> PAGE_BITS;
            for page in first..=last.min(first.saturating_add(PAGES_MAX)) {
                rows.push((page, life.range.start, life.range.end, i as u32));
            }
        }
        // One sort instead of a tree for each page: the index is built once and read by all threads
        // without locks.
        rows.sort_unstable_by_key(|&(page, start, end, i)| {
            (page, start, end, lifetimes[i as usize].birth, i)
        });
        let mut index = LifetimeIndex::default();
        for &(page, start, end, i) in &rows {
            index.push(page, start, end, &lifetimes[i as usize]);
        }
        index
    }

    fn push(&mut self, page: u64, start: u64, end: u64, life: &Lifetime) {
        let place_count = self.places.len() as u32;
        let span = self.pages.entry(page).or_insert((place_count, place_count));
        let same = span.1 > span.0
            && self
                .places
                .last()
                .is_some_and(|p| p.start == start && p.end == end);
        if !same {
            span.1 += 1;
            let at = self.tenants.len() as u32;
            self.places.push(TenantRange {
                start,
                end,
                tenants: (at, at),
            });
        }
        if let Some(place) = self.places.last_mut() {
            place.tenants.1 += 1;
        }
        self.tenants.push(Tenancy {
            birth: life.birth.0,
            death: life.death.0,
            object: life.object,
        });
    }

    /// What is known about `addr` at `time`. If places overlap (a page that was first one slab,
    /// then another), the live one that starts last wins.
    #[must_use]
    pub fn at(&self, addr: GuestAddr, time: VirtualTime) -> Tenant {
        let Some(&(from, to)) = self.pages.get(&(addr.0 >> PAGE_BITS)) else {
            return Tenant::Unknown;
        };
        let places = &self.places[from as usize..to as usize];
        let mut answer = Tenant::Unknown;
        for place in places[..places.partition_point(|p| p.start <= addr.0)]
            .iter()
            // From the last that starts at or before the address: the innermost one comes first.
            .rev()
        {
            if addr.0 >= place.end {
                // Places of one geometry do not overlap, so without a hit so far the previous one
                // may still be long enough.
                continue;
            }
            let tenants = &self.tenants[place.tenants.0 as usize..place.tenants.1 as usize];
            let next = tenants.partition_point(|t| t.birth <= time.0);
            match next.checked_sub(1).map(|i| tenants[i]) {
                Some(t) if time.0 < t.death => {
                    return Tenant::Alive {
                        object: t.object,
                        start: GuestAddr(place.start),
                    };
                }
                last => {
                    let since = last.map(|t| VirtualTime(t.death));
                    answer = Tenant::Vacant {
                        since: since.max(answer.since()),
                    };
                }
            }
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(range: Range<u64>, birth: u64, death: u64, object: u32) -> Lifetime {
        Lifetime {
            range,
            birth: VirtualTime(birth),
            death: VirtualTime(death),
            object: ObjectId(object),
        }
    }

    fn alive(object: u32, start: u64) -> Tenant {
        Tenant::Alive {
            object: ObjectId(object),
            start: GuestAddr(start),
        }
    }

    fn vacant(since: Option<u64>) -> Tenant {
        Tenant::Vacant {
            since: since.map(VirtualTime),
        }
    }

    fn at(index: &LifetimeIndex, addr: u64, time: u64) -> Tenant {
        index.at(GuestAddr(addr), VirtualTime(time))
    }

    #[test]
    fn a_place_changes_its_tenant() {
        let index = LifetimeIndex::new(&[
            life(0x1000..0x1040, 10, 20, 0),
            life(0x1000..0x1040, 30, u64::MAX, 1),
        ]);
        assert_eq!(at(&index, 0x1000, 9), vacant(None));
        assert_eq!(at(&index, 0x103f, 10), alive(0, 0x1000));
        assert_eq!(at(&index, 0x1000, 20), vacant(Some(20)));
        assert_eq!(at(&index, 0x1000, 30), alive(1, 0x1000));
        assert_eq!(at(&index, 0x1040, 30), Tenant::Unknown);
        assert_eq!(at(&index, 0x9000, 30), Tenant::Unknown);
    }

    #[test]
    fn objects_cross_pages() {
        let index = LifetimeIndex::new(&[life(0x1f00..0x3100, 0, u64::MAX, 7)]);
        for addr in [0x1f00, 0x2000, 0x2fff, 0x30ff] {
            assert_eq!(at(&index, addr, 5), alive(7, 0x1f00));
        }
        assert_eq!(at(&index, 0x3100, 5), Tenant::Unknown);
    }

    #[test]
    fn a_page_can_change_its_geometry() {
        let index = LifetimeIndex::new(&[
            life(0x1000..0x1100, 0, 50, 0),
            life(0x1040..0x1080, 60, 70, 1),
        ]);
        assert_eq!(
            at(&index, 0x1050, 10),
            alive(0, 0x1000),
            "the later, inner place is not alive yet"
        );
        assert_eq!(at(&index, 0x1050, 60), alive(1, 0x1040));
        assert_eq!(at(&index, 0x1090, 60), vacant(Some(50)));
    }

    #[test]
    fn a_missed_free_ends_with_the_next_birth() {
        let index = LifetimeIndex::new(&[
            life(0x1000..0x1040, 10, u64::MAX, 0),
            life(0x1000..0x1040, 30, 40, 1),
        ]);
        assert_eq!(at(&index, 0x1000, 29), alive(0, 0x1000));
        assert_eq!(at(&index, 0x1000, 30), alive(1, 0x1000));
        assert_eq!(
            at(&index, 0x1000, 40),
            vacant(Some(40)),
            "the first does not come back"
        );
    }

    #[test]
    fn a_broken_extent_is_bounded() {
        let index = LifetimeIndex::new(&[life(0..u64::MAX, 0, 1, 0)]);
        assert_eq!(at(&index, 0x5000, 0), alive(0, 0));
    }
}

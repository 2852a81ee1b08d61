//! What programs map themselves, by address and time.
//!
//! Not by page as [`crate::index::LifetimeIndex`]: a mapping may have millions of pages, and a
//! program may map and unmap all the time. So by place, and a place's mappings by time.

use linemate_recording::{GuestAddr, VirtualTime};

use crate::index::{Lifetime, ObjectId, Tenant};

/// The mappings that were at one place.
#[derive(Debug)]
struct MappedRange {
    start: u64,
    end: u64,
    /// The largest end of this place and of those before it.
    reach: u64,
    /// Ascending by birth.
    tenants: Vec<Mapped>,
}

#[derive(Clone, Copy, Debug)]
struct Mapped {
    birth: VirtualTime,
    death: VirtualTime,
    object: ObjectId,
}

/// All mappings of all processes.
#[derive(Debug, Default)]
pub(super) struct MappingIndex {
    /// Ascending by start and end.
    places: Vec<MappedRange>,
}

impl MappingIndex {
    pub(super) fn new(mut mappings: Vec<Lifetime>) -> MappingIndex {
        mappings.retain(|mapping| !mapping.range.is_empty());
        mappings.sort_by_key(|m| (m.range.start, m.range.end, m.birth, m.object));
        let mut places: Vec<MappedRange> = Vec::new();
        for mapping in mappings {
            let (start, end) = (mapping.range.start, mapping.range.end);
            let before = places.last().map_or(0, |place| place.reach);
            let same = |place: &&mut MappedRange| (place.start, place.end) == (start, end);
            let tenancy = Mapped {
                birth: mapping.birth,
                death: mapping.death,
                object: mapping.object,
            };
            match places.last_mut().filter(same) {
                Some(place) => place.tenants.push(tenancy),
                None => places.push(MappedRange {
                    start,
                    end,
                    reach: before.max(end),
                    tenants: vec![tenancy],
                }),
            }
        }
        MappingIndex { places }
    }

    /// What is at an address at a time. Of several the youngest, which replaced what was there.
    pub(super) fn at(&self, addr: GuestAddr, time: VirtualTime) -> Tenant {
        let after = self.places.partition_point(|place| place.start <= addr.0);
        let candidates = self.places[..after].iter().rev();
        let candidates = candidates.take_while(|place| place.reach > addr.0);
        let mut youngest: Option<(VirtualTime, Tenant)> = None;
        let mut answer = Tenant::Unknown;
        for place in candidates.filter(|place| place.end > addr.0) {
            let next = place.tenants.partition_point(|t| t.birth <= time);
            match next.checked_sub(1).map(|at| place.tenants[at]) {
                Some(t) if time < t.death => {
                    let here = Tenant::Alive {
                        object: t.object,
                        start: GuestAddr(place.start),
                    };
                    if youngest.is_none_or(|(birth, _)| birth < t.birth) {
                        youngest = Some((t.birth, here));
                    }
                }
                last => {
                    let since = last.map(|t| t.death).max(answer.since());
                    answer = Tenant::Vacant { since };
                }
            }
        }
        youngest.map_or(answer, |(_, here)| here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::NEVER;

    /// Mappings, numbered in this order.
    fn index(mappings: &[(std::ops::Range<u64>, u64, VirtualTime)]) -> MappingIndex {
        let lifetimes = (0u32..)
            .zip(mappings)
            .map(|(id, (range, birth, death))| Lifetime {
                range: range.clone(),
                birth: VirtualTime(*birth),
                death: *death,
                object: ObjectId(id),
            });
        MappingIndex::new(lifetimes.collect())
    }

    fn at(index: &MappingIndex, addr: u64, time: u64) -> Option<(u32, u64)> {
        match index.at(GuestAddr(addr), VirtualTime(time)) {
            Tenant::Alive { object, start } => Some((object.0, addr - start.0)),
            Tenant::Vacant { .. } | Tenant::Unknown => None,
        }
    }

    #[test]
    fn a_mapping_is_there_while_it_lives() {
        let index = index(&[
            (0x1000..0x3000, 10, VirtualTime(20)),
            (0x1000..0x3000, 30, NEVER),
            (0x5000..0x5001, 10, NEVER),
        ]);
        assert_eq!(at(&index, 0x2fff, 10), Some((0, 0x1fff)));
        assert_eq!(at(&index, 0x1000, 9), None);
        assert_eq!(at(&index, 0x1000, 20), None, "unmapped");
        assert_eq!(at(&index, 0x1000, 30), Some((1, 0)));
        assert_eq!(at(&index, 0x3000, 30), None, "after its end");
        assert_eq!(at(&index, 0x5000, 30), Some((2, 0)));
        let since = |addr, time| index.at(GuestAddr(addr), VirtualTime(time)).since();
        assert_eq!(since(0x1000, 25), Some(VirtualTime(20)));
        assert_eq!(since(0x4000, 25), None);
    }

    /// A reservation of which a part is mapped again, and a short mapping between the start of a
    /// long one and the address.
    #[test]
    fn the_youngest_of_several_is_there() {
        let index = index(&[
            (0x1000..0x9000, 10, NEVER),
            (0x2000..0x3000, 20, VirtualTime(40)),
            (0x2000..0x6000, 30, VirtualTime(40)),
        ]);
        assert_eq!(at(&index, 0x2800, 15), Some((0, 0x1800)));
        assert_eq!(at(&index, 0x2800, 25), Some((1, 0x800)));
        assert_eq!(at(&index, 0x2800, 35), Some((2, 0x800)));
        assert_eq!(at(&index, 0x2800, 45), Some((0, 0x1800)));
        assert_eq!(at(&index, 0x8fff, 35), Some((0, 0x7fff)));
    }
}

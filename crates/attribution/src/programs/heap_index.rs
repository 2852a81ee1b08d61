//! Programs' heap objects by address and time, through forks: a child has what its parent had.

use rustc_hash::FxHashMap;

use linemate_recording::{GuestAddr, VirtualTime};

use super::mappings::MappingIndex;
use super::places::{Space, UserAddr};
use super::processes::Fork;
use crate::index::{LifetimeIndex, ObjectId, Tenant};

/// How many generations back a process's memory is searched. A choice: servers have two, shells a
/// few; a recording could chain any number.
const GENERATIONS: usize = 16;

/// The forks of a recording, by child.
#[derive(Clone, Debug, Default)]
pub(super) struct Forks(FxHashMap<Space, Fork>);

impl Forks {
    pub(super) fn add(&mut self, fork: Fork) {
        self.0.insert(fork.child, fork);
    }

    /// The fork that a process comes from.
    pub(super) fn of(&self, child: Space) -> Option<Fork> {
        self.0.get(&child).copied()
    }
}

/// An address in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeapPlace {
    pub(super) object: ObjectId,
    /// Bytes from the object's start.
    pub(super) offset: u64,
}

/// All objects of all processes.
#[derive(Debug, Default)]
pub(crate) struct HeapIndex {
    lifetimes: LifetimeIndex,
    mappings: MappingIndex,
    forks: Forks,
}

impl HeapIndex {
    /// `lifetimes` of blocks, and `mappings`, both by [`UserAddr::flat`].
    pub(super) fn new(
        lifetimes: LifetimeIndex,
        mappings: MappingIndex,
        forks: &Forks,
    ) -> HeapIndex {
        HeapIndex {
            lifetimes,
            mappings,
            forks: forks.clone(),
        }
    }

    /// The block at an address. It is the parent's if the process has had none there.
    pub(super) fn at(&self, at: UserAddr, time: VirtualTime) -> Option<HeapPlace> {
        self.find(at, time, |addr, time| self.lifetimes.at(addr, time))
    }

    /// The mapping at an address, in the same way.
    pub(super) fn mapped_at(&self, at: UserAddr, time: VirtualTime) -> Option<HeapPlace> {
        self.find(at, time, |addr, time| self.mappings.at(addr, time))
    }

    fn find(
        &self,
        at: UserAddr,
        time: VirtualTime,
        look: impl Fn(GuestAddr, VirtualTime) -> Tenant,
    ) -> Option<HeapPlace> {
        let (mut at, mut time) = (at, time);
        for _ in 0..=GENERATIONS {
            let addr = at.flat();
            match look(addr, time) {
                Tenant::Alive { object, start } => {
                    return Some(HeapPlace {
                        object,
                        offset: addr.0 - start.0,
                    });
                }
                Tenant::Vacant { since: Some(_) } => return None,
                Tenant::Vacant { since: None } | Tenant::Unknown => {}
            }
            let fork = self.forks.of(at.space)?;
            at.space = fork.parent;
            time = fork.time;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Lifetime, NEVER};

    const PARENT: Space = Space(3);
    const CHILD: Space = Space(5);
    const OTHER: Space = Space(6);

    fn at(space: Space, addr: u64) -> UserAddr {
        UserAddr { space, addr }
    }

    /// A parent that forks at 100, with an object of 64 bytes for each birth and death.
    fn index(objects: &[(UserAddr, u64, VirtualTime)]) -> HeapIndex {
        let lifetimes: Vec<Lifetime> = (0u32..)
            .zip(objects)
            .map(|(id, (at, birth, death))| Lifetime {
                range: at.flat().0..at.flat().0 + 64,
                birth: VirtualTime(*birth),
                death: *death,
                object: ObjectId(id),
            })
            .collect();
        let mut forks = Forks::default();
        forks.add(Fork {
            child: CHILD,
            parent: PARENT,
            time: VirtualTime(100),
        });
        HeapIndex::new(
            LifetimeIndex::new(&lifetimes),
            MappingIndex::default(),
            &forks,
        )
    }

    fn found(index: &HeapIndex, at: UserAddr, time: u64) -> Option<(u32, u64)> {
        let place = index.at(at, VirtualTime(time))?;
        Some((place.object.0, place.offset))
    }

    #[test]
    fn a_child_has_what_its_parent_had_at_the_fork() {
        let index = index(&[
            (at(PARENT, 0x1000), 10, VirtualTime(150)),
            (at(PARENT, 0x2000), 10, VirtualTime(90)),
            (at(PARENT, 0x3000), 110, NEVER),
        ]);
        assert_eq!(found(&index, at(CHILD, 0x1010), 200), Some((0, 16)));
        assert_eq!(found(&index, at(CHILD, 0x2000), 200), None, "freed before");
        assert_eq!(found(&index, at(CHILD, 0x3000), 200), None, "made after");
        assert_eq!(found(&index, at(OTHER, 0x1010), 200), None, "no relative");
        assert_eq!(found(&index, at(PARENT, 0x1010), 200), None);
    }

    #[test]
    fn what_a_child_has_of_its_own_comes_first() {
        let index = index(&[
            (at(PARENT, 0x1000), 10, NEVER),
            (at(CHILD, 0x1000), 120, VirtualTime(130)),
        ]);
        assert_eq!(found(&index, at(CHILD, 0x1000), 110), Some((0, 0)));
        assert_eq!(found(&index, at(CHILD, 0x1000), 125), Some((1, 0)));
        assert_eq!(found(&index, at(CHILD, 0x1000), 135), None, "freed");
    }

    #[test]
    fn a_process_that_is_its_own_parent_has_an_end() {
        let mut forks = Forks::default();
        forks.add(Fork {
            child: CHILD,
            parent: CHILD,
            time: VirtualTime(1),
        });
        let index = HeapIndex::new(LifetimeIndex::default(), MappingIndex::default(), &forks);
        assert_eq!(found(&index, at(CHILD, 0x1000), 110), None);
    }
}

//! The process and address of an access through a user mapping, from its program's point of view.
//!
//! The recorder reports a CPU's page tables when they change, and a page's place when it is
//! accessed elsewhere than before. In between both hold.

use linemate_recording::{Access, CpuId, GuestAddr, MappedPage, Mark, Marker, PAGE, VirtualTime};
use rustc_hash::FxHashMap;

/// An address space, numbered in order of appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Space(pub(crate) u32);

/// An address in a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct UserAddr {
    pub(crate) space: Space,
    pub(crate) addr: u64,
}

/// User-space addresses have this many bits.
const ADDRESS_BITS: u32 = 47;

impl UserAddr {
    /// As one number, for tables by address: spaces do not overlap.
    pub(crate) fn flat(self) -> GuestAddr {
        GuestAddr(u64::from(self.space.0) << ADDRESS_BITS | self.addr & ((1 << ADDRESS_BITS) - 1))
    }

    pub(crate) fn offset(self, by: i64) -> UserAddr {
        UserAddr {
            addr: self.addr.wrapping_add_signed(by),
            ..self
        }
    }
}

/// Values with the time from which they hold.
type History<T> = Vec<(VirtualTime, T)>;

/// The state at a time: that of the latest entry before it.
fn at<T: Copy>(history: &History<T>, time: VirtualTime) -> Option<T> {
    let after = history.partition_point(|(from, _)| *from <= time);
    Some(history.get(after.checked_sub(1)?)?.1)
}

/// Everything that the recorder reported about spaces and pages.
#[derive(Debug, Default)]
pub(crate) struct UserPlaces {
    /// By the root of the page tables: the process that has them now.
    numbers: FxHashMap<u64, Space>,
    /// How many spaces there have been.
    count: u32,
    /// By CPU: the root of its page tables.
    roots: Vec<Option<u64>>,
    /// The space that each CPU is in.
    spaces: Vec<History<Space>>,
    /// By frame: the user-space page it is mapped at.
    pages: FxHashMap<u64, History<u64>>,
    direct_map: u64,
}

impl UserPlaces {
    /// Nothing reported. Frames are seen from `direct_map` on.
    pub(crate) fn new(direct_map: u64) -> UserPlaces {
        UserPlaces {
            direct_map,
            ..UserPlaces::default()
        }
    }

    /// Handles a marker, in order.
    pub(crate) fn mark(&mut self, marker: &Marker) {
        match marker.mark {
            Mark::Space => {
                // By the address of the page tables, which is all that a CPU knows about a process.
                let space = match self.numbers.get(&marker.value) {
                    Some(space) => *space,
                    None => self.number(marker.value),
                };
                let cpu = usize::from(marker.cpu.0);
                if cpu >= self.spaces.len() {
                    self.spaces.resize(cpu + 1, Vec::new());
                    self.roots.resize(cpu + 1, None);
                }
                self.roots[cpu] = Some(marker.value);
                self.spaces[cpu].push((marker.time, space));
            }
            Mark::Page => {
                let mapped = MappedPage::of(marker.value);
                let history = self.pages.entry(mapped.frame).or_default();
                // Markers come in order, so histories are sorted as they are written.
                history.push((marker.time, mapped.page));
            }
            _ => {}
        }
    }

    /// Gives the process with these page tables the next number.
    fn number(&mut self, root: u64) -> Space {
        let space = Space(self.count);
        self.count = self.count.saturating_add(1);
        self.numbers.insert(root, space);
        space
    }

    /// A process begins on a CPU: its page tables are its own from here on, even if another one
    /// had their memory. `None` if they were not reported.
    pub(super) fn begin(&mut self, cpu: CpuId, time: VirtualTime) -> Option<Space> {
        let cpu = usize::from(cpu.0);
        let root = (*self.roots.get(cpu)?)?;
        let space = self.number(root);
        self.spaces[cpu].push((time, space));
        Some(space)
    }

    /// The space that a CPU runs in.
    pub(crate) fn space(&self, cpu: CpuId, time: VirtualTime) -> Option<Space> {
        at(self.spaces.get(usize::from(cpu.0))?, time)
    }

    /// Where an access through a user mapping went. `None` if its page or space was not reported,
    /// as at the very start.
    pub(crate) fn of(&self, access: &Access) -> Option<UserAddr> {
        let physical = access.addr.0.checked_sub(self.direct_map)?;
        let page = at(self.pages.get(&(physical / PAGE))?, access.time)?;
        Some(UserAddr {
            space: self.space(access.cpu, access.time)?,
            addr: page * PAGE + physical % PAGE,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use linemate_recording::AccessKind;

    const MAP: u64 = 0xffff_8880_0000_0000;

    fn marker(time: u64, cpu: u16, mark: Mark, value: u64) -> Marker {
        Marker {
            time: VirtualTime(time),
            cpu: CpuId(cpu),
            mark,
            value,
        }
    }

    fn page(time: u64, frame: u64, page: u64) -> Marker {
        marker(
            time,
            0,
            Mark::Page,
            MappedPage { frame, page }.value().unwrap(),
        )
    }

    fn access(time: u64, cpu: u16, addr: u64) -> Access {
        Access {
            time: VirtualTime(time),
            cpu: CpuId(cpu),
            pc: GuestAddr(0x1000),
            addr: GuestAddr(addr),
            size: 8,
            kind: AccessKind::Load,
            silent: false,
            user_mapping: true,
        }
    }

    #[test]
    fn an_access_is_where_its_page_was_at_that_time() {
        let mut places = UserPlaces::new(MAP);
        for marker in [
            marker(0, 0, Mark::Space, 0x7000),
            marker(0, 1, Mark::Space, 0x9000),
            page(1, 5, 0x5_5555),
            marker(20, 0, Mark::Space, 0x9000),
            page(21, 5, 0x7_7777),
        ] {
            places.mark(&marker);
        }
        let of = |time, cpu| {
            let found = places.of(&access(time, cpu, MAP + 5 * 4096 + 24))?;
            Some((found.space.0, found.addr))
        };
        assert_eq!(of(0, 0), None, "the page was not told yet");
        assert_eq!(of(1, 0), Some((0, 0x5555_5018)));
        assert_eq!(of(20, 0), Some((1, 0x5555_5018)));
        assert_eq!(of(21, 1), Some((1, 0x7777_7018)));
        assert_eq!(of(21, 2), None, "a CPU of which nothing was told");
        assert_eq!(
            places.of(&access(30, 0, 0x1000)),
            None,
            "not in the direct map"
        );
    }

    #[test]
    fn page_tables_of_a_process_that_begins_are_its_own() {
        let mut places = UserPlaces::new(MAP);
        assert_eq!(places.begin(CpuId(0), VirtualTime(0)), None);
        places.mark(&marker(1, 0, Mark::Space, 0x7000));
        let old = places.space(CpuId(0), VirtualTime(9));
        let new = places.begin(CpuId(0), VirtualTime(10));
        assert_ne!(old, new);
        assert_eq!(places.space(CpuId(0), VirtualTime(9)), old);
        assert_eq!(places.space(CpuId(0), VirtualTime(10)), new);
        places.mark(&marker(20, 1, Mark::Space, 0x7000));
        assert_eq!(places.space(CpuId(1), VirtualTime(20)), new);
    }

    #[test]
    fn spaces_do_not_overlap() {
        let addr = |space, addr| UserAddr {
            space: Space(space),
            addr,
        };
        assert_ne!(addr(0, 0x1000).flat(), addr(1, 0x1000).flat());
        assert_eq!(
            addr(3, 0x1000).offset(-8).flat().0 + 8,
            addr(3, 0x1000).flat().0
        );
    }
}

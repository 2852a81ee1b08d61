//! The first pass over programs: their allocators' calls and returns in, objects out.

use linemate_recording::{
    Call, FunctionTable, GuestAddr, Meaning, PAGE, Return, Role, VirtualTime,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::heap_index::{Forks, HeapIndex};
use super::mappings::MappingIndex;
use super::places::{Space, UserAddr, UserPlaces};
use super::processes::Fork;
use crate::collect::Object;
use crate::index::{Lifetime, LifetimeIndex, NEVER, ObjectId};
use crate::kinds::{KindId, Kinds, ObjectKind, Origin, SILENT};
use crate::sites::SiteUse;
use crate::votes::Bounds;

/// The largest plausible object: 64 GiB. Larger sizes belong to failing calls.
const SIZE_MAX: u64 = 1 << 36;

/// An allocation in progress.
#[derive(Clone, Copy, Debug)]
struct PendingCall {
    time: VirtualTime,
    site: Option<GuestAddr>,
    size: u64,
    /// `realloc`: the old block.
    old: Option<u64>,
    origin: Origin,
}

/// The result of the pass.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    /// By [`ObjectId`]; addresses are [`UserAddr::flat`].
    pub(crate) objects: Vec<Object>,
    pub(crate) kinds: Kinds,
    living: FxHashMap<GuestAddr, ObjectId>,
    /// Objects inside others: those of an allocator that puts something before them.
    inside: FxHashMap<ObjectId, ObjectId>,
    /// By space and stack pointer. A function that jumps to another leaves two.
    pending: FxHashMap<(Space, u64), Vec<PendingCall>>,
    forks: Forks,
    /// Mappings that live, by their first byte: a block may start there, too.
    mapped: FxHashMap<GuestAddr, ObjectId>,
    /// What processes with a parent freed that they had not allocated, and when.
    freed_elsewhere: Vec<(UserAddr, VirtualTime)>,
}

impl Heap {
    /// Handles a call of a program's function; `site` is the calling instruction, if known.
    pub(crate) fn call(
        &mut self,
        table: &FunctionTable,
        places: &UserPlaces,
        call: &Call,
        site: Option<GuestAddr>,
    ) {
        let Some(function) = table.functions.get(call.function.0 as usize) else {
            return;
        };
        let Some(space) = places.space(call.cpu, call.time) else {
            return;
        };
        let (mut size, mut count, mut object) = (None, 1, None);
        for (parameter, value) in function.parameters.iter().zip(&call.values) {
            let Some(value) = *value else { continue };
            match parameter.meaning {
                Meaning::Size => size = Some(value),
                Meaning::Count => count = value,
                Meaning::Object => object = Some(value),
                _ => {}
            }
        }
        match (function.role, size) {
            (Role::HeapAlloc | Role::VirtualAlloc, Some(size)) => {
                let pending = PendingCall {
                    time: call.time,
                    site,
                    size: size.saturating_mul(count),
                    old: object,
                    origin: match function.role {
                        Role::VirtualAlloc => Origin::Mapping,
                        _ => Origin::Program,
                    },
                };
                let calls = self.pending.entry((space, call.stack.0)).or_default();
                calls.push(pending);
            }
            (Role::HeapFree, _) => {
                if let Some(addr) = object {
                    self.free(UserAddr { space, addr }, call.time);
                }
            }
            (Role::VirtualFree, Some(size)) => {
                if let Some(addr) = object {
                    self.unmap(UserAddr { space, addr }, size, call.time);
                }
            }
            _ => {}
        }
    }

    /// Handles a return.
    pub(crate) fn returned(&mut self, places: &UserPlaces, ret: &Return) {
        let Some(space) = places.space(ret.cpu, ret.time) else {
            return;
        };
        let Some(calls) = self.pending.remove(&(space, ret.stack.0)) else {
            return;
        };
        // Of functions that jump to one another the first has the site, the last the size.
        let (Some(first), Some(last)) = (calls.first(), calls.last()) else {
            return;
        };
        if ret.value == 0 || last.size > SIZE_MAX {
            return;
        }
        let addr = ret.value;
        // `realloc` freed the old block only if it succeeded, which the return shows.
        if let Some(old) = calls.iter().find_map(|c| c.old).filter(|old| *old != 0) {
            // A block that moves is read until it has been copied; one that stays is the new one
            // from the call on.
            let end = if old == addr { first.time } else { ret.time };
            self.freed_by(UserAddr { space, addr: old }, first.time, end);
        }
        let call = PendingCall {
            site: first.site,
            time: first.time,
            origin: first.origin,
            ..*last
        };
        match call.origin {
            Origin::Mapping => self.map(UserAddr { space, addr }, &call),
            _ => self.born(UserAddr { space, addr }, &call),
        }
    }

    /// A program has mapped memory. Where it failed, the value is not a page's address.
    fn map(&mut self, at: UserAddr, call: &PendingCall) {
        if at.addr % PAGE != 0 {
            return;
        }
        if let Some(old) = self.mapped.get(&at.flat()).copied() {
            self.objects[old.0 as usize].death = call.time;
        }
        let id = self.object(at.flat(), call);
        self.mapped.insert(at.flat(), id);
    }

    /// What is unmapped in part stays: allocators cut ends off to align what is left.
    fn unmap(&mut self, at: UserAddr, size: u64, time: VirtualTime) {
        let Some(id) = self.mapped.get(&at.flat()).copied() else {
            return;
        };
        let object = &mut self.objects[id.0 as usize];
        if size.saturating_add(PAGE) > length(object) {
            object.death = time;
            self.mapped.remove(&at.flat());
        }
    }

    /// Handles a fork: the child has what its parent has.
    pub(crate) fn forked(&mut self, fork: Fork) {
        self.forks.add(fork);
    }

    /// All objects by address, when all calls have been handled. What a process freed that was its
    /// parent's becomes an object of its own, which ends there.
    pub(crate) fn index(&mut self) -> HeapIndex {
        let index = self.index_of_all();
        let before = self.objects.len();
        let mut seen = FxHashSet::default();
        for (at, time) in std::mem::take(&mut self.freed_elsewhere) {
            let Some(place) = index.at(at, time).filter(|place| place.offset == 0) else {
                continue;
            };
            let original = &self.objects[place.object.0 as usize];
            let Some(birth) = self.forks.of(at.space).map(|fork| fork.time) else {
                continue;
            };
            let start = at.flat().0;
            if seen.insert(start) {
                self.objects.push(Object {
                    range: start..start.saturating_add(length(original)),
                    birth,
                    death: time,
                    ..original.clone()
                });
            }
        }
        match self.objects.len() == before {
            true => index,
            false => self.index_of_all(),
        }
    }

    fn index_of_all(&self) -> HeapIndex {
        let (mut blocks, mut mappings) = (Vec::new(), Vec::new());
        for (id, object) in (0u32..).zip(&self.objects) {
            let list = match self.kinds.get(object.kind).origin {
                Origin::Mapping => &mut mappings,
                _ => &mut blocks,
            };
            list.push(Lifetime {
                range: object.range.clone(),
                birth: object.birth,
                death: object.death,
                object: ObjectId(id),
            });
        }
        let blocks = LifetimeIndex::new(&blocks);
        HeapIndex::new(blocks, MappingIndex::new(mappings), &self.forks)
    }

    fn born(&mut self, at: UserAddr, call: &PendingCall) {
        let start = at.flat();
        if let Some(&inner) = self.living.get(&start) {
            let object = &self.objects[inner.0 as usize];
            if object.birth >= call.time {
                // An allocator called another: the object exists; the outer call knows better who
                // asked for it.
                let size = length(object);
                let kind = self.kind(&PendingCall { size, ..*call });
                self.objects[inner.0 as usize].kind = kind;
                return;
            }
            self.end(inner, call.time);
        }
        let container = self.begun_around(start, call);
        let id = self.object(start, call);
        self.living.insert(start, id);
        if let Some(container) = container {
            self.inside.insert(container, id);
        }
    }

    fn object(&mut self, start: GuestAddr, call: &PendingCall) -> ObjectId {
        let id = ObjectId(self.objects.len() as u32);
        let kind = self.kind(call);
        self.objects.push(Object {
            range: start.0..start.0.saturating_add(call.size.max(1)),
            birth: call.time,
            death: NEVER,
            kind,
            signature: SILENT,
            cpu: None,
            ready: call.time,
        });
        id
    }

    /// An object that this call got from another allocator, and that starts a little before what it
    /// hands out.
    fn begun_around(&self, start: GuestAddr, call: &PendingCall) -> Option<ObjectId> {
        // Up to four words, a choice: wrappers put a size or a pointer or both before the block
        // that they hand out.
        (1..=4).find_map(|words| {
            let before = GuestAddr(start.0.checked_sub(8 * words)?);
            let id = *self.living.get(&before)?;
            let object = &self.objects[id.0 as usize];
            (object.birth >= call.time && object.range.contains(&start.0)).then_some(id)
        })
    }

    fn kind(&mut self, call: &PendingCall) -> KindId {
        let kind = ObjectKind {
            origin: call.origin,
            site: Some(call.site.unwrap_or_default()),
            size: call.size,
            usage: SiteUse::Other,
        };
        self.kinds.number(kind, Bounds::Exact(call.size), None)
    }

    fn free(&mut self, at: UserAddr, time: VirtualTime) {
        match self.living.get(&at.flat()).copied() {
            Some(id) => self.end(id, time),
            None => self.end_elsewhere(at, time),
        }
    }

    fn end_elsewhere(&mut self, at: UserAddr, time: VirtualTime) {
        if self.forks.of(at.space).is_some() {
            self.freed_elsewhere.push((at, time));
        }
    }

    /// Ends what a call that began at `call` freed at `end`, unless it has been handed out again in
    /// between.
    fn freed_by(&mut self, at: UserAddr, call: VirtualTime, end: VirtualTime) {
        match self.living.get(&at.flat()).copied() {
            Some(id) if self.objects[id.0 as usize].birth < call => self.end(id, end),
            Some(_) => {}
            None => self.end_elsewhere(at, end),
        }
    }

    /// Ends an object and those nested in it, of which there may be any number.
    fn end(&mut self, id: ObjectId, time: VirtualTime) {
        let mut next = Some(id);
        // A loop, because a recording may nest objects arbitrarily deep.
        while let Some(id) = next {
            let object = &mut self.objects[id.0 as usize];
            object.death = time;
            self.living.remove(&GuestAddr(object.range.start));
            next = self.inside.remove(&id);
        }
    }
}

fn length(object: &Object) -> u64 {
    object.range.end - object.range.start
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use linemate_recording::{
        CpuId, Function, FunctionId, MAX_PARAMETERS, Mark, Marker, Parameter, Register,
    };

    const MALLOC: u32 = 0;
    const REALLOC: u32 = 1;
    const FREE: u32 = 2;
    const NEW: u32 = 3;
    const MMAP: u32 = 4;
    const MUNMAP: u32 = 5;

    fn table() -> FunctionTable {
        let function = |entry, role, parameters: &[Meaning]| Function {
            entry: GuestAddr(entry),
            size: 16,
            name: "f".into(),
            role,
            returns: matches!(role, Role::HeapAlloc | Role::VirtualAlloc),
            parameters: parameters
                .iter()
                .map(|meaning| Parameter {
                    register: Register::Rdi,
                    meaning: *meaning,
                })
                .collect(),
        };
        let alloc = Role::HeapAlloc;
        FunctionTable {
            functions: vec![
                function(0x1000, alloc, &[Meaning::Size]),
                function(0x2000, alloc, &[Meaning::Object, Meaning::Size]),
                function(0x3000, Role::HeapFree, &[Meaning::Object]),
                function(0x4000, alloc, &[Meaning::Size]),
                function(0x5000, Role::VirtualAlloc, &[Meaning::Size]),
                function(0x6000, Role::VirtualFree, &[Meaning::Object, Meaning::Size]),
            ],
        }
    }

    /// A heap, and the space that CPU 0 runs in.
    struct World {
        heap: Heap,
        places: UserPlaces,
        time: u64,
    }

    impl World {
        fn new() -> World {
            let mut world = World {
                heap: Heap::default(),
                places: UserPlaces::new(0),
                time: 0,
            };
            world.space(0x7000);
            world
        }

        fn now(&mut self) -> VirtualTime {
            self.time += 1;
            VirtualTime(self.time)
        }

        fn space(&mut self, root: u64) {
            let marker = Marker {
                time: self.now(),
                cpu: CpuId(0),
                mark: Mark::Space,
                value: root,
            };
            self.places.mark(&marker);
        }

        fn call(&mut self, function: u32, stack: u64, arguments: &[u64], site: u64) {
            let mut values = [None; MAX_PARAMETERS];
            for (slot, value) in values.iter_mut().zip(arguments) {
                *slot = Some(*value);
            }
            let call = Call {
                time: self.now(),
                cpu: CpuId(0),
                function: FunctionId(function),
                stack: GuestAddr(stack),
                caller: GuestAddr(0),
                values,
            };
            self.heap
                .call(&table(), &self.places, &call, Some(GuestAddr(site)));
        }

        fn returns(&mut self, function: u32, stack: u64, value: u64) {
            let ret = Return {
                time: self.now(),
                cpu: CpuId(0),
                function: FunctionId(function),
                stack: GuestAddr(stack),
                value,
            };
            self.heap.returned(&self.places, &ret);
        }

        /// First byte in its space, bytes, whether it lives, and its site, of every object.
        fn objects(&self) -> Vec<(u64, u64, bool, u64)> {
            let objects = self.heap.objects.iter().map(|object| {
                let site = self.heap.kinds.get(object.kind).site;
                (
                    object.range.start & ((1 << 47) - 1),
                    object.range.end - object.range.start,
                    object.death == NEVER,
                    site.unwrap_or_default().0,
                )
            });
            objects.collect()
        }
    }

    #[test]
    fn an_object_lives_from_its_allocation_to_its_free() {
        let mut world = World::new();
        world.call(MALLOC, 0x100, &[48], 1);
        assert_eq!(world.objects(), [], "it has not returned");
        world.returns(MALLOC, 0x100, 0x5000);
        world.call(MALLOC, 0x100, &[48], 1);
        world.returns(MALLOC, 0x100, 0);
        assert_eq!(world.objects(), [(0x5000, 48, true, 1)], "one has failed");
        world.call(FREE, 0x100, &[0x5000], 2);
        assert_eq!(world.objects(), [(0x5000, 48, false, 1)]);
    }

    #[test]
    fn what_is_moved_is_another_object() {
        let mut world = World::new();
        world.call(MALLOC, 0x100, &[48], 1);
        world.returns(MALLOC, 0x100, 0x5000);
        world.call(REALLOC, 0x100, &[0x5000, 64], 2);
        world.returns(REALLOC, 0x100, 0x5000);
        assert_eq!(
            world.objects(),
            [(0x5000, 48, false, 1), (0x5000, 64, true, 2)]
        );
        world.call(REALLOC, 0x100, &[0x5000, 128], 3);
        world.returns(REALLOC, 0x100, 0);
        assert!(
            world.objects()[1].2,
            "a realloc that fails leaves what there was"
        );
    }

    /// When every object died.
    fn deaths(world: &World) -> Vec<VirtualTime> {
        let objects = world.heap.objects.iter();
        objects.map(|object| object.death).collect()
    }

    #[test]
    fn a_block_that_moves_lives_until_it_has_been_copied() {
        let mut world = World::new();
        world.call(MALLOC, 0x100, &[48], 1);
        world.returns(MALLOC, 0x100, 0x5000);
        world.call(REALLOC, 0x100, &[0x5000, 4096], 2);
        let called = world.time;
        world.returns(REALLOC, 0x100, 0x9000);
        let returned = world.time;
        assert_eq!(deaths(&world), [VirtualTime(returned), NEVER]);
        world.call(REALLOC, 0x100, &[0x9000, 8192], 3);
        world.returns(REALLOC, 0x100, 0x9000);
        let in_place = VirtualTime(called + 2);
        assert_eq!(deaths(&world), [VirtualTime(returned), in_place, NEVER]);
    }

    #[test]
    fn a_block_that_another_thread_got_meanwhile_stays() {
        let mut world = World::new();
        world.call(MALLOC, 0x100, &[48], 1);
        world.returns(MALLOC, 0x100, 0x5000);
        world.call(REALLOC, 0x100, &[0x5000, 4096], 2);
        world.call(MALLOC, 0x900, &[48], 3);
        world.returns(MALLOC, 0x900, 0x5000);
        world.returns(REALLOC, 0x100, 0x9000);
        let living: Vec<bool> = deaths(&world).iter().map(|death| *death == NEVER).collect();
        assert_eq!(living, [false, true, true]);
    }

    #[test]
    fn the_outer_of_two_allocators_has_the_site() {
        let mut world = World::new();
        world.call(NEW, 0x200, &[24], 7);
        world.call(MALLOC, 0x180, &[24], 8);
        world.returns(MALLOC, 0x180, 0x6000);
        world.returns(NEW, 0x200, 0x6000);
        assert_eq!(world.objects(), [(0x6000, 24, true, 7)]);
    }

    #[test]
    fn an_allocator_may_keep_something_before_what_it_hands_out() {
        let mut world = World::new();
        world.call(NEW, 0x200, &[24], 7);
        world.call(MALLOC, 0x180, &[40], 8);
        world.returns(MALLOC, 0x180, 0x6000);
        world.returns(NEW, 0x200, 0x6010);
        let objects = world.objects();
        assert_eq!(objects, [(0x6000, 40, true, 8), (0x6010, 24, true, 7)]);
        world.call(FREE, 0x180, &[0x6000], 9);
        assert!(
            world.objects().iter().all(|object| !object.2),
            "both are gone"
        );
    }

    /// A parent with objects at 0x5000 and 0x6000, and its child, which runs.
    fn forked() -> World {
        let mut world = World::new();
        for (size, addr) in [(48, 0x5000), (96, 0x6000)] {
            world.call(MALLOC, 0x100, &[size], 1);
            world.returns(MALLOC, 0x100, addr);
        }
        let space = |world: &World| {
            let now = VirtualTime(world.time);
            world.places.space(CpuId(0), now).expect("it runs")
        };
        let parent = space(&world);
        let time = world.now();
        world.space(0x9000);
        let child = space(&world);
        world.heap.forked(Fork {
            child,
            parent,
            time,
        });
        world
    }

    /// Which object CPU 0's process has at an address.
    fn object_at(world: &mut World, addr: u64) -> Option<u32> {
        let now = VirtualTime(world.time);
        let space = world.places.space(CpuId(0), now)?;
        let place = world.heap.index().at(UserAddr { space, addr }, now)?;
        Some(place.object.0)
    }

    #[test]
    fn a_mapping_lives_until_all_of_it_is_unmapped() {
        let mut world = World::new();
        world.call(MMAP, 0x100, &[0x2800], 1);
        world.returns(MMAP, 0x100, 0x5000);
        world.call(MMAP, 0x100, &[0x2800], 1);
        world.returns(MMAP, 0x100, u64::MAX);
        assert_eq!(
            world.objects(),
            [(0x5000, 0x2800, true, 1)],
            "one has failed"
        );
        world.call(MUNMAP, 0x100, &[0x5000, 0x1000], 2);
        assert!(world.objects()[0].2, "its first page alone");
        // With the rest of its last page, which its size may leave out.
        world.call(MUNMAP, 0x100, &[0x5000, 0x2001], 2);
        assert!(!world.objects()[0].2);
    }

    #[test]
    fn blocks_are_in_mappings_and_do_not_end_them() {
        let mut world = World::new();
        world.call(MMAP, 0x100, &[0x8000], 1);
        world.returns(MMAP, 0x100, 0x5000);
        // An allocator in it, by `--allocator`.
        world.call(NEW, 0x100, &[64], 2);
        world.returns(NEW, 0x100, 0x5000);
        let kinds = |world: &mut World, addr| {
            let now = VirtualTime(world.time);
            let space = world.places.space(CpuId(0), now).unwrap();
            let (index, at) = (world.heap.index(), UserAddr { space, addr });
            let number =
                |place: Option<super::super::heap_index::HeapPlace>| place.map(|p| p.object.0);
            (number(index.at(at, now)), number(index.mapped_at(at, now)))
        };
        world.now();
        assert_eq!(kinds(&mut world, 0x5010), (Some(1), Some(0)));
        assert_eq!(kinds(&mut world, 0x5100), (None, Some(0)));
        world.call(FREE, 0x100, &[0x5000], 3);
        world.now();
        assert_eq!(kinds(&mut world, 0x5010), (None, Some(0)));
        // The same place is mapped again.
        world.call(MMAP, 0x100, &[0x8000], 4);
        world.returns(MMAP, 0x100, 0x5000);
        world.now();
        assert_eq!(kinds(&mut world, 0x5010), (None, Some(2)));
    }

    #[test]
    fn a_child_has_its_parents_mappings() {
        let mut world = forked();
        world.space(0x7000);
        world.call(MMAP, 0x100, &[0x8000], 1);
        world.returns(MMAP, 0x100, 0x9000);
        let now = world.now();
        let parent = world.places.space(CpuId(0), now).unwrap();
        world.space(0xb000);
        let now = world.now();
        let child = world.places.space(CpuId(0), now).unwrap();
        let time = now;
        world.heap.forked(Fork {
            child,
            parent,
            time,
        });
        let now = world.now();
        let at = UserAddr {
            space: child,
            addr: 0x9010,
        };
        let place = world.heap.index().mapped_at(at, now).unwrap();
        assert_eq!((place.object.0, place.offset), (2, 0x10));
    }

    #[test]
    fn what_a_child_frees_of_its_parents_ends_in_the_child_alone() {
        let mut world = forked();
        world.call(FREE, 0x100, &[0x5000], 2);
        // Never allocated, and not the start of anything.
        world.call(FREE, 0x100, &[0x4000], 2);
        world.call(FREE, 0x100, &[0x6010], 2);
        world.now();
        assert_eq!(object_at(&mut world, 0x5010), None);
        assert_eq!(object_at(&mut world, 0x6010), Some(1));
        let expected = [
            (0x5000, 48, true, 1),
            (0x6000, 96, true, 1),
            (0x5000, 48, false, 1),
        ];
        assert_eq!(world.objects(), expected);
        world.space(0x7000);
        assert_eq!(object_at(&mut world, 0x5010), Some(0));
    }

    #[test]
    fn what_a_child_moves_of_its_parents_ends_with_the_return() {
        let mut world = forked();
        world.call(REALLOC, 0x100, &[0x5000, 4096], 2);
        world.returns(REALLOC, 0x100, 0x8000);
        let returned = VirtualTime(world.time);
        world.now();
        assert_eq!(object_at(&mut world, 0x5010), None);
        assert_eq!(deaths(&world), [NEVER, NEVER, NEVER, returned]);
    }

    #[test]
    fn processes_do_not_share_addresses() {
        let mut world = World::new();
        world.call(MALLOC, 0x100, &[48], 1);
        world.space(0x9000);
        world.returns(MALLOC, 0x100, 0x5000);
        assert_eq!(world.objects(), [], "another process returns there");
        world.call(FREE, 0x100, &[0x5000], 2);
        world.space(0x7000);
        world.returns(MALLOC, 0x100, 0x5000);
        world.space(0x9000);
        world.call(FREE, 0x100, &[0x5000], 2);
        assert_eq!(world.objects(), [(0x5000, 48, true, 1)]);
    }
}

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
const SHMGET: u32 = 6;
const SHMAT: u32 = 7;

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
            function(0x7000, Role::Plain, &[Meaning::Size]),
            function(0x8000, Role::VirtualAlloc, &[Meaning::Object]),
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
fn a_segment_has_its_size_wherever_it_is_attached() {
    let mut world = World::new();
    // The first segment's number is 0 (ipc/util.c).
    for (id, size) in [(0, 0x1800), (5, 96)] {
        world.call(SHMGET, 0x100, &[size], 1);
        world.returns(SHMGET, 0x100, id);
    }
    world.space(0x9000);
    for (id, at) in [(5, 0x5000), (0, 0x6000), (7, 0x9000)] {
        world.call(SHMAT, 0x100, &[id], 2);
        world.returns(SHMAT, 0x100, at);
    }
    let expected = [(0x5000, 96, true, 2), (0x6000, 0x1800, true, 2)];
    assert_eq!(world.objects(), expected, "the last is unknown");
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
        let number = |place: Option<super::super::heap_index::HeapPlace>| place.map(|p| p.object.0);
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

//! Synthetic recordings of objects that come and go: where each starts and ends, in addresses and
//! in time.

mod common;

use common::named;
use linemate_attribution::Bucket::{self, *};
use linemate_testkit::world::*;

/// Return addresses in functions whose names say nothing about memory.
const SITE: u64 = IMAGE + 0x850;
const OTHER_SITE: u64 = IMAGE + 0x860;
/// A page of the kernel's from before the recording, and its `struct page`.
const PAGE: u64 = DIRECT + 20 * 4096;
const STRUCT_PAGE: u64 = PAGES + 20 * 64;
/// Of the vmalloc area, far from stacks and devices.
const AREA: u64 = VMALLOC + 0x10_0000;

/// Non-empty buckets, and the accesses to each type or label by offset, after `events`.
fn recorded(events: impl FnOnce(&mut World)) -> (Vec<(Bucket, u64)>, common::Places) {
    let mut w = World::new();
    events(&mut w);
    named(&w.record())
}

fn buckets(events: impl FnOnce(&mut World)) -> Vec<(Bucket, u64)> {
    recorded(events).0
}

fn fields(events: impl FnOnce(&mut World)) -> common::Places {
    recorded(events).1
}

fn place(name: &str, offset: u32) -> (String, u32) {
    (name.to_owned(), offset)
}

#[test]
fn an_object_outlives_its_neighbours() {
    let (first, second) = (KMALLOC_SLAB, KMALLOC_SLAB + 64);
    let all = fields(|w| {
        w.alloc(F::Kmalloc, &[64], SITE, first);
        w.alloc(F::Kmalloc, &[40], OTHER_SITE, second);
        w.sight(F::LockVector, second);
        w.free(second);
        w.sight(F::UpdateEntity, first);
        w.load(0, first + 40);
    });
    assert_eq!(all, [place("entity", 40)]);
}

#[test]
fn a_birth_ends_the_object_whose_free_was_not_seen() {
    let all = recorded(|w| {
        w.alloc(F::Kmalloc, &[64], SITE, KMALLOC_SLAB);
        w.sight(F::UpdateEntity, KMALLOC_SLAB);
        w.alloc(F::Kmalloc, &[40], OTHER_SITE, KMALLOC_SLAB);
        w.sight(F::LockVector, KMALLOC_SLAB);
        w.load(0, KMALLOC_SLAB + 8);
        w.alloc(F::Kmalloc, &[40], OTHER_SITE, KMALLOC_SLAB + 64);
        w.load(0, KMALLOC_SLAB + 64 + 8);
    });
    assert_eq!(all, (vec![(Field, 2)], vec![place("vector", 8)]));
}

#[test]
fn the_free_of_an_address_inside_an_object_is_not_its_free() {
    let all = fields(|w| {
        w.alloc(F::Kmalloc, &[64], SITE, KMALLOC_SLAB);
        w.free(KMALLOC_SLAB + 8);
        w.sight(F::UpdateEntity, KMALLOC_SLAB);
        w.load(0, KMALLOC_SLAB + 40);
    });
    assert_eq!(all, [place("entity", 40)]);
}

#[test]
fn a_free_of_an_object_of_several_pages_ends_it_on_each() {
    let all = buckets(|w| {
        w.alloc(F::Kmalloc, &[8192], SITE, PAGE);
        w.sight(F::UpdateEntity, PAGE + 4096);
        w.load(0, PAGE + 4096 + 40);
        w.load(0, PAGE + 8192 - 4); // its last word
        w.load(0, PAGE + 8192); // what is after it
        w.free(PAGE);
        w.sight(F::LockVector, PAGE + 4096); // too late to be in it
        w.load(0, PAGE + 4096 + 40);
        w.load(0, PAGE + 40);
    });
    let expected = [
        (Field, 1),
        (HeapTail, 1),
        (HeapVacant, 2),
        (UnknownKernelPage, 1),
    ];
    assert_eq!(all, expected);
}

#[test]
fn an_allocation_by_count_has_that_many_times_the_size() {
    let all = buckets(|w| {
        w.alloc(F::KmallocArray, &[3, 16], SITE, KMALLOC_SLAB);
        w.load(0, KMALLOC_SLAB + 44);
        w.load(0, KMALLOC_SLAB + 48); // the rest of the slot
    });
    assert_eq!(all, [(HeapSite, 1), (HeapCache, 1)]);
}

#[test]
fn a_size_that_cannot_be_is_not_believed() {
    for size in [0, 1 << 31, u64::MAX] {
        let all = buckets(|w| {
            w.alloc(F::Kmalloc, &[size], SITE, KMALLOC_SLAB);
            w.load(0, KMALLOC_SLAB + 60); // the slot of the cache
            w.load(0, KMALLOC_SLAB + 64);
        });
        assert_eq!(all, [(HeapSite, 1), (HeapCache, 1)], "{size:#x}");
    }
}

#[test]
fn a_size_alone_means_the_smallest_general_cache_that_fits() {
    let page = DIRECT + 30 * 4096; // of no slab that an image shows
    let all = fields(|w| {
        w.alloc(F::Kmalloc, &[64], SITE, page);
        w.load(0, page);
        w.alloc(F::Kmalloc, &[65], SITE, page + 128);
        w.load(0, page + 128);
    });
    assert_eq!(all, [place("kmalloc(65)", 0), place("slab(kmalloc-64)", 0)]);
}

#[test]
fn wrappers_of_one_allocator_are_sites_of_their_own() {
    let wrapped = |w: &mut World, caller, addr| {
        w.call_from(F::Kmalloc, &[64], caller);
        w.alloc(F::Kmalloc, &[64], IMAGE + 0x870, addr);
        w.ret(F::Kmalloc, addr);
    };
    let all = buckets(|w| {
        wrapped(w, SITE, KMALLOC_SLAB);
        w.sight(F::UpdateEntity, KMALLOC_SLAB);
        w.load(0, KMALLOC_SLAB + 40);
        wrapped(w, OTHER_SITE, KMALLOC_SLAB + 64); // nobody says what that is
        w.load(0, KMALLOC_SLAB + 64 + 40);
    });
    assert_eq!(all, [(Field, 1), (HeapSite, 1)]);
}

#[test]
fn a_tail_call_has_the_first_ones_site_and_size_and_the_last_ones_cache() {
    let slot = DIRECT + 30 * 4096; // of no slab that an image shows
    let all = fields(|w| {
        w.sight(F::Kmalloc, 40); // continues as the call of the next line
        w.call_from(F::CacheAlloc, &[CACHE_KMALLOC], SITE);
        w.ret(F::CacheAlloc, slot);
        w.load(0, slot + 36);
        w.load(0, slot + 40);
    });
    assert_eq!(all, [place("slab(kmalloc-64)", 36)]);
}

#[test]
fn the_free_of_a_percpu_allocation_ends_every_cpus_copy() {
    let all = recorded(|w| {
        w.alloc(F::AllocPercpu, &[64], SITE, 0x800);
        w.sight(F::UpdateEntity, UNITS[1] + 0x800);
        w.sight(F::FreePercpu, 0); // nothing
        w.sight(F::FreePercpu, 0x820); // not where it starts
        w.store(0, UNITS[0] + 0x800 + 60);
        w.store(1, UNITS[1] + 0x800 + 60);
        w.store(1, UNITS[1] + 0x800 + 64); // after it
        w.sight(F::FreePercpu, 0x800);
        w.store(0, UNITS[0] + 0x800);
        w.store(1, UNITS[1] + 0x800);
    });
    let expected = vec![(Field, 2), (UnknownPercpu, 3)];
    assert_eq!(all, (expected, vec![place("entity", 60)]));
}

#[test]
fn a_percpu_allocation_that_failed_is_none() {
    let all = buckets(|w| {
        w.alloc(F::AllocPercpu, &[64], SITE, 0);
        w.sight(F::UpdateEntity, UNITS[0] + 0x800);
        w.store(0, UNITS[0] + 0x800);
        w.store(0, UNITS[0]); // where nothing would be
    });
    assert_eq!(all, [(Field, 1), (UnknownPercpu, 1)]);
}

#[test]
fn vmalloc_maps_objects_until_vfree() {
    let all = recorded(|w| {
        w.alloc(F::Vmalloc, &[0x1800], SITE, AREA);
        w.sight(F::UpdateEntity, AREA);
        w.load(0, AREA + 40);
        w.load(0, AREA + 0x17fc);
        w.load(0, AREA + 0x1800); // after it
        w.sight(F::Vfree, AREA);
        w.load(0, AREA + 40);
    });
    let expected = [(Field, 1), (HeapTail, 1), (UnknownVmalloc, 2)];
    assert_eq!(all.0, expected);
    assert!(all.1.contains(&place("entity", 40)), "{:?}", all.1);
}

#[test]
fn an_allocator_of_the_vmalloc_area_inside_another_makes_one_object() {
    let all = buckets(|w| {
        w.call_from(F::Vmalloc, &[0x1000], SITE);
        w.alloc(F::Vmalloc, &[0x2000], OTHER_SITE, AREA); // with a guard page
        w.ret(F::Vmalloc, AREA);
        w.load(0, AREA + 0x1800);
        w.sight(F::Vfree, AREA);
        w.load(0, AREA + 0x1800);
    });
    assert_eq!(all, [(HeapSite, 1), (UnknownVmalloc, 1)]);
}

#[test]
fn what_vmalloc_returns_elsewhere_is_no_object() {
    let all = buckets(|w| {
        w.alloc(F::Vmalloc, &[0x1000], SITE, 0); // out of memory
        w.alloc(F::Vmalloc, &[0x1000], SITE, PAGE);
        w.load(0, PAGE);
    });
    assert_eq!(all, [(UnknownKernelPage, 1)]);
}

#[test]
fn pages_of_an_order_are_that_power_of_two_pages() {
    let all = buckets(|w| {
        w.alloc(F::PteAlloc, &[2], site(F::PteAlloc), STRUCT_PAGE);
        for page in 0..5 {
            w.load(0, PAGE + page * 4096); // the fifth is not one of them
        }
        w.call(F::FreePages, &[STRUCT_PAGE, 2]);
        for page in 0..5 {
            w.load(0, PAGE + page * 4096);
        }
    });
    let expected = [(PageTable, 4), (UnknownKernelPage, 2), (UnknownFreePage, 4)];
    assert_eq!(all, expected);
}

#[test]
fn pages_from_before_the_recording_are_free_after_their_free() {
    let all = buckets(|w| {
        w.sight(F::UpdateEntity, PAGE + 4096);
        w.load(0, PAGE + 4096 + 40);
        w.call(F::FreePages, &[STRUCT_PAGE, 1]);
        for page in 0..3 {
            w.load(0, PAGE + page * 4096);
        }
    });
    let expected = [(Field, 1), (UnknownKernelPage, 1), (UnknownFreePage, 2)];
    assert_eq!(all, expected);
}

#[test]
fn freed_pages_take_the_objects_in_them_along() {
    let all = buckets(|w| {
        w.alloc(F::Kmalloc, &[64], SITE, KMALLOC_SLAB + 4096); // the page after the slab
        w.sight(F::UpdateEntity, KMALLOC_SLAB + 4096);
        w.load(0, KMALLOC_SLAB + 4096);
        w.call(F::FreePages, &[PAGES + 9 * 64, 1]);
        w.load(0, KMALLOC_SLAB + 4096);
    });
    assert_eq!(all, [(Field, 1), (UnknownFreePage, 1)]);
}

#[test]
fn the_page_of_a_page_table_entry_is_a_page_table() {
    let all = buckets(|w| {
        w.load(0, PAGE + 8); // before anybody says so: known all the same
        w.sight(F::SetPte, PAGE + 16);
        w.load(0, PAGE + 4096);
        w.alloc(F::PteAlloc, &[0], SITE, STRUCT_PAGE + 64);
        w.sight(F::SetPte, PAGE + 4096 + 16);
        w.load(0, PAGE + 4096 + 32);
    });
    assert_eq!(all, [(PageTable, 2), (UnknownKernelPage, 1)]);
}

#[test]
fn the_callers_name_shows_what_pages_are_for() {
    let all = buckets(|w| {
        w.call(F::AllocateSlab, &[]);
        w.alloc(F::PteAlloc, &[0], SITE, STRUCT_PAGE);
        w.load(0, PAGE);
    });
    assert_eq!(all, [(HeapVacant, 1)], "a slab of no known cache");
}

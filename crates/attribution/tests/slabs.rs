//! Synthetic recordings of what no allocation event shows: objects in bulk, pages in bulk, what
//! existed before, aliases.

mod common;

use common::named;
use linemate_attribution::Bucket;
use linemate_recording::AccessKind;
use linemate_testkit::world::*;

/// A free page, and its `struct page`.
const PAGE: u64 = DIRECT + 12 * 4096;
const STRUCT_PAGE: u64 = PAGES + 12 * 64;

/// A slab for tasks, allocated while tasks are handed out in bulk. Ends before that call returns.
fn slab_in_bulk(w: &mut World) {
    w.call_from(F::BulkAlloc, &[CACHE_TASK, 1], IMAGE + 0x850);
    w.call_from(F::PteAlloc, &[0, 0], site(F::AllocateSlab));
    w.ret(F::PteAlloc, STRUCT_PAGE);
}

#[test]
fn objects_handed_out_in_bulk_are_of_their_caches_type() {
    let mut w = World::new();
    w.store(0, PAGE + 256); // nobody has that slot
    slab_in_bulk(&mut w);
    w.store(0, PAGE + 256 + 8); // cleared for the task
    w.ret(F::BulkAlloc, 16);
    w.store(0, PAGE + 256 + 200);
    w.load(0, PAGE + 512 + 200);
    w.free(PAGE + 256);
    w.store(0, PAGE + 256); // the allocator's list again
    w.alloc(F::BulkAlloc, &[CACHE_TASK, 1], IMAGE + 0x850, 1);
    w.load(0, PAGE + 256 + 204);
    let (buckets, fields) = named(&w.record());
    assert_eq!(buckets, [(Bucket::Field, 4), (Bucket::HeapVacant, 2)]);
    let task = |offset| ("task".to_owned(), offset);
    let free = ("1 page".to_owned(), 256);
    assert_eq!(fields, [free, task(8), task(200), task(200), task(204)]);
}

#[test]
fn objects_out_of_a_stock_are_of_their_caches_type() {
    let mut w = World::new();
    w.call_from(F::CacheAlloc, &[CACHE_TASK], IMAGE + 0x850);
    w.call_from(F::PteAlloc, &[0, 0], site(F::AllocateSlab));
    w.ret(F::PteAlloc, STRUCT_PAGE);
    w.ret(F::CacheAlloc, PAGE);
    w.store(0, PAGE + 256); // nobody has that slot
    w.sight(F::FromSheaf, CACHE_TASK);
    w.store(0, PAGE + 256 + 200);
    let (buckets, fields) = named(&w.record());
    assert_eq!(buckets, [(Bucket::Field, 1), (Bucket::HeapVacant, 1)]);
    assert!(fields.contains(&("task".to_owned(), 200)), "{fields:?}");
}

#[test]
fn a_slab_of_another_cache_is_not_touched_by_a_bulk_allocation() {
    let mut w = World::new();
    w.call_from(F::Kmalloc, &[64], IMAGE + 0x850);
    w.call_from(F::PteAlloc, &[0, 0], site(F::AllocateSlab));
    w.ret(F::PteAlloc, STRUCT_PAGE);
    w.ret(F::Kmalloc, PAGE);
    w.alloc(F::BulkAlloc, &[CACHE_TASK, 1], IMAGE + 0x850, 16);
    w.store(0, PAGE + 256);
    let (buckets, _) = named(&w.record());
    assert_eq!(buckets, [(Bucket::HeapVacant, 1)]);
}

#[test]
fn a_page_that_is_being_cleared_is_not_free() {
    let mut w = World::new();
    w.access(0, AccessKind::Store, PAGE, 8, F::ClearPage, false);
    w.store(0, PAGE); // by somebody else
    let (buckets, _) = named(&w.record());
    let expected = [(Bucket::PageCleared, 1), (Bucket::UnknownFreePage, 1)];
    assert_eq!(buckets, expected);
}

#[test]
fn the_first_idle_stack_is_a_stack_whatever_else_has_its_address() {
    let mut w = World::new();
    w.sight(F::WakeTask, INIT_STACK + 0x3000);
    w.load(0, INIT_STACK);
    w.load(0, INIT_STACK + 0x3000 + 200);
    let (buckets, fields) = named(&w.record());
    assert_eq!(buckets, [(Bucket::Stack, 2)]);
    let stack = |offset| ("init_stack".to_owned(), offset);
    assert_eq!(fields, [stack(0), stack(0x3000 + 200)]);
}

#[test]
fn a_tail_page_keeps_its_heads_address_or_a_mask_of_it() {
    for compound_masks in [false, true] {
        let mut w = World::of(Variant {
            compound_masks,
            ..Variant::default()
        });
        w.load(0, TASK_SLAB + 200);
        w.load(0, TAIL_PAGE + 256 + 204);
        let (buckets, fields) = named(&w.record());
        assert_eq!(buckets, [(Bucket::Field, 2)]);
        let task = |offset| ("task".to_owned(), offset);
        assert_eq!(fields, [task(200), task(204)]);
    }
}

#[test]
fn a_caches_name_names_objects_of_which_no_event_tells() {
    let mut w = World::new();
    w.load(0, TASK_SLAB + 256 + 200);
    let (buckets, fields) = named(&w.record());
    assert_eq!(buckets, [(Bucket::Field, 1)]);
    assert_eq!(fields, [("task".to_owned(), 200)]);
}

#[test]
fn the_name_of_a_merged_cache_names_only_what_sightings_agree_with() {
    let load = |sighted: bool| {
        let mut w = World::of(Variant {
            merged_caches: true,
            ..Variant::default()
        });
        let task = TASK_SLAB + 256;
        if sighted {
            w.sight(F::UpdateEntity, task + 64);
        }
        w.load(0, task + 200);
        named(&w.record()).0
    };
    assert_eq!(load(false), [(Bucket::HeapCache, 1)]);
    assert_eq!(
        load(true),
        [(Bucket::Field, 1)],
        "a task has an entity there"
    );
}

#[test]
fn what_a_pointer_of_a_typed_struct_points_to_has_its_type() {
    let accesses = |w: &mut World| {
        w.store(1, UNITS[1] + STATS + 8);
        w.load(0, POINTED + 40);
        w.load(0, POINTED + 64); // its neighbour
    };
    let mut w = World::of(Variant {
        pointers: true,
        ..Variant::default()
    });
    accesses(&mut w);
    let (buckets, fields) = named(&w.record());
    assert_eq!(buckets, [(Bucket::Field, 2), (Bucket::HeapCache, 1)]);
    let expected = [("entity", 40), ("slab(kmalloc-64)", 0), ("vector", 8)];
    assert_eq!(fields, expected.map(|(name, at)| (name.to_owned(), at)));

    let mut w = World::new();
    accesses(&mut w);
    let (buckets, _) = named(&w.record());
    assert_eq!(
        buckets,
        [(Bucket::HeapCache, 2), (Bucket::UnknownPercpu, 1)]
    );
}

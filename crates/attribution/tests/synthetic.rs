//! Synthetic recordings with exact ledgers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use linemate_attribution::counted::Users;
use linemate_attribution::couse::By;
use linemate_attribution::tally::{CpuCount, Key};
use linemate_attribution::times::TimedPlace;
use linemate_attribution::{Analysis, AnalysisFacts, Bucket, Counted, Located, Subject, Tally};
use linemate_recording::{AccessKind, CpuId, GuestAddr, Recording, VirtualTime};
use linemate_testkit::world::*;

fn counted(recording: &Recording) -> (Analysis<'_>, Counted) {
    let analysis = Analysis::new(recording).unwrap();
    let counted = analysis.count().unwrap();
    (analysis, counted)
}

/// Non-empty buckets.
fn ledger(counted: &Counted) -> Vec<(Bucket, u64)> {
    let ledger = counted.tally.ledger();
    Bucket::ALL
        .iter()
        .map(|b| (*b, ledger.of(*b)))
        .filter(|(_, n)| *n > 0)
        .collect()
}

/// (type or label, offset, accesses, of those remote), summed over instructions.
fn fields(analysis: &Analysis<'_>, counted: &Counted) -> Vec<(String, u32, u64, u64)> {
    let names = analysis.names().unwrap();
    let name = |s: &Subject| {
        s.ty.map_or(s.label.clone(), |t| analysis.schema().name(t).to_owned())
    };
    let mut sums = std::collections::BTreeMap::new();
    for (key, count) in counted.tally.rows() {
        let sum: &mut (u64, u64) = sums
            .entry((name(&names.subjects()[key.subject.0 as usize]), key.offset))
            .or_default();
        sum.0 += count.count;
        sum.1 += count.remote;
    }
    sums.into_iter()
        .filter(|((n, _), _)| !n.is_empty())
        .map(|((n, o), (c, r))| (n, o, c, r))
        .collect()
}

#[test]
fn every_kind_of_address_has_its_bucket() {
    let mut w = World::new();
    w.sight(F::WakeTask, TASK_SLAB);
    w.load(0, TASK_SLAB + 200); // Field
    w.load(0, UNITS[0] + RQ); // PercpuTyped
    w.load(0, UNITS[0] + 0x200); // PercpuTyped: a number
    w.load(0, UNITS[0] + 0x300); // PercpuNamed
    w.load(0, UNITS[0] + 0x80); // UnknownPercpu: before the first variable
    w.load(0, NOHZ + 8); // GlobalTyped
    w.load(0, COUNTER); // GlobalNamed
    w.load(0, KMALLOC_SLAB + 64); // HeapCache
    w.load(0, VMALLOC + 0x100); // Stack
    w.load(0, 0xffff_fe00_0000_1000); // EntryArea
    w.load(0, DIRECT + 10 * 4096); // PageTable
    w.load(0, PAGES + 128); // StructPage
    w.access(
        0,
        AccessKind::Load,
        DIRECT + 11 * 4096,
        8,
        F::WakeTask,
        true,
    ); // UserMapping
    w.load(0, DIRECT + 11 * 4096 + 64); // PageContents
    w.load(0, DIRECT + 20 * 4096); // UnknownKernelPage
    w.load(0, DIRECT + 12 * 4096); // UnknownFreePage
    w.load(0, UNITS[1] + 0x1000); // UnknownPercpu
    w.load(0, VMALLOC + 0x10_0000); // UnknownVmalloc
    w.load(0, DEVICE + 0xf0); // Device
    w.load(0, DEVICE - 8); // UnknownVmalloc: the page before
    w.load(0, APIC + 0xb0); // Device
    w.load(0, APIC + 0x1000); // UnknownArea: the page after
    w.load(0, IMAGE - 0x1001); // UnknownArea: just below the image
    let recording = w.record();
    let (_, counted) = counted(&recording);
    let expected = [
        (Bucket::Field, 1),
        (Bucket::PercpuTyped, 2),
        (Bucket::PercpuNamed, 1),
        (Bucket::GlobalTyped, 1),
        (Bucket::GlobalNamed, 1),
        (Bucket::HeapCache, 1),
        (Bucket::Stack, 1),
        (Bucket::EntryArea, 1),
        (Bucket::Device, 2),
        (Bucket::PageTable, 1),
        (Bucket::StructPage, 1),
        (Bucket::UserMapping, 1),
        (Bucket::PageContents, 1),
        (Bucket::UnknownKernelPage, 1),
        (Bucket::UnknownFreePage, 1),
        (Bucket::UnknownPercpu, 2),
        (Bucket::UnknownVmalloc, 2),
        (Bucket::UnknownArea, 2),
    ];
    assert_eq!(ledger(&counted), expected);
    assert_eq!(
        counted.tally.ledger().total(),
        recording.totals().accesses()
    );
}

#[test]
fn a_reused_address_does_not_keep_its_type() {
    let (a, site, other) = (KMALLOC_SLAB, IMAGE + 0x850, IMAGE + 0x860);
    let mut w = World::new();
    w.alloc(F::Kmalloc, &[64], site, a);
    w.sight(F::UpdateEntity, a);
    w.store(0, a);
    w.free(a);
    w.store(0, a); // the allocator's list
    w.alloc(F::Kmalloc, &[40], other, a);
    w.sight(F::LockVector, a);
    w.store(0, a + 8);
    w.free(a);
    w.alloc(F::Kmalloc, &[48], IMAGE + 0x870, a);
    w.store(0, a); // nobody says what it is now
    let recording = w.record();
    let (analysis, counted) = counted(&recording);
    assert_eq!(
        ledger(&counted),
        [
            (Bucket::Field, 2),
            (Bucket::HeapSite, 1),
            (Bucket::HeapVacant, 1)
        ]
    );
    let expected = [
        ("entity", 0, 1, 0),
        ("slab(kmalloc-64)", 0, 1, 0),
        ("vector", 8, 1, 0),
    ];
    assert_eq!(
        fields(&analysis, &counted),
        expected.map(|(n, o, c, r)| (n.to_owned(), o, c, r))
    );
}

#[test]
fn what_happens_during_the_allocation_belongs_to_the_object() {
    let mut w = World::new();
    w.call_from(F::Kmalloc, &[64], IMAGE + 0x850);
    w.store(0, KMALLOC_SLAB + 128); // clearing
    w.ret(F::Kmalloc, KMALLOC_SLAB + 128);
    w.sight(F::UpdateEntity, KMALLOC_SLAB + 128);
    let recording = w.record();
    let (_, counted) = counted(&recording);
    assert_eq!(ledger(&counted), [(Bucket::Field, 1)]);
}

#[test]
fn the_first_slot_of_a_new_slab_is_an_object() {
    let page = DIRECT + 12 * 4096;
    let mut w = World::new();
    w.call_from(F::CacheAlloc, &[CACHE_TASK], IMAGE + 0x850);
    w.call_from(F::PteAlloc, &[0, 0], IMAGE + 0x860);
    w.store(0, page); // the page allocator clears it
    w.ret(F::PteAlloc, PAGES + 12 * 64);
    w.ret(F::CacheAlloc, page);
    w.sight(F::WakeTask, page);
    w.store(0, page);
    w.free(page);
    w.store(0, page); // the allocator's list
    let recording = w.record();
    let (analysis, counted) = counted(&recording);
    let expected = [
        (Bucket::Field, 1),
        (Bucket::HeapVacant, 1),
        (Bucket::PageCleared, 1),
    ];
    assert_eq!(ledger(&counted), expected);
    let expected = [("task".to_owned(), 0, 1, 0)];
    assert_eq!(fields(&analysis, &counted), expected);
}

#[test]
fn nested_objects_are_named_by_the_outermost() {
    let mut w = World::new();
    w.alloc(F::CacheAlloc, &[CACHE_TASK], IMAGE + 0x850, TASK_SLAB);
    for _ in 0..9 {
        w.sight(F::UpdateEntity, TASK_SLAB + 64);
    }
    w.sight(F::WakeTask, TASK_SLAB);
    w.store(0, TASK_SLAB + 64 + 40);
    w.sight(F::UpdateEntity, KMALLOC_SLAB);
    w.store(0, KMALLOC_SLAB + 40);
    let recording = w.record();
    let (analysis, counted) = counted(&recording);
    let expected = [
        ("entity".to_owned(), 40, 1, 0),
        ("task".to_owned(), 104, 1, 0),
    ];
    assert_eq!(fields(&analysis, &counted), expected);
}

#[test]
fn wrong_sightings_are_outvoted_by_the_siblings() {
    let mut w = World::new();
    for i in 0..16 {
        let a = KMALLOC_SLAB + 64 * i;
        w.alloc(F::Kmalloc, &[64], IMAGE + 0x850, a);
        w.sight(
            if i == 3 {
                F::LockVector
            } else {
                F::UpdateEntity
            },
            a,
        );
        w.load(0, a + 40);
    }
    let recording = w.record();
    let (analysis, counted) = counted(&recording);
    assert_eq!(
        fields(&analysis, &counted),
        [("entity".to_owned(), 40, 16, 0)]
    );
}

#[test]
fn stack_objects_are_no_fields() {
    let mut w = World::new();
    w.sight(F::WakeTask, VMALLOC + 0x1000);
    w.load(0, VMALLOC + 0x1000 + 200);
    // The same, but the stack is only known to be one later.
    w.sight(F::WakeTask, VMALLOC + 0x3000);
    w.load(0, VMALLOC + 0x3000);
    let recording = w.record();
    let (analysis, counted) = counted(&recording);
    assert_eq!(ledger(&counted), [(Bucket::Stack, 2)]);
    let facts = analysis.facts();
    assert_eq!((facts.sightings, facts.sightings_unused), (2, 2));
}

#[test]
fn percpu_objects_have_an_owner() {
    let mut w = World::new();
    w.load(0, UNITS[0] + RQ + 64);
    w.load(1, UNITS[0] + RQ + 64);
    w.load(1, UNITS[0] + RQ + 64);
    w.load(1, UNITS[1] + RQ + 64);
    // A dynamic allocation has an object on each CPU.
    w.alloc(F::AllocPercpu, &[64], IMAGE + 0x850, 0x800);
    w.sight(F::UpdateEntity, UNITS[1] + 0x800);
    w.store(0, UNITS[0] + 0x800);
    w.store(0, UNITS[1] + 0x800);
    let recording = w.record();
    let (analysis, counted) = counted(&recording);
    let expected = [("entity".to_owned(), 0, 2, 1), ("rq".to_owned(), 64, 4, 2)];
    assert_eq!(fields(&analysis, &counted), expected);
    assert_eq!(
        counted
            .tally
            .per_cpu()
            .iter()
            .map(|c| c.remote)
            .collect::<Vec<_>>(),
        [1, 2]
    );
}

#[test]
fn what_has_no_type_is_identified_by_its_cache_its_site_and_its_owner() {
    let site = IMAGE + 0x850;
    let mut w = World::new();
    w.alloc(F::Kmalloc, &[64], site, KMALLOC_SLAB);
    w.load(1, KMALLOC_SLAB);
    w.alloc(F::AllocPercpu, &[64], site, 0x800);
    w.load(1, UNITS[0] + 0x800);
    w.load(1, UNITS[0] + 0x300);
    w.load(1, UNITS[0] + 0x1000); // nobody's, in CPU 0's area
    let recording = w.record();
    let (analysis, counted) = counted(&recording);
    let subject = |bucket, label: &str, site: Option<u64>, percpu| Subject {
        bucket,
        ty: None,
        label: label.to_owned(),
        site: site.map(GuestAddr),
        percpu,
        program: false,
        of_threads: false,
    };
    let expected = [
        subject(Bucket::UnknownPercpu, "", None, false),
        subject(Bucket::PercpuNamed, "untyped_percpu", None, true),
        subject(Bucket::HeapSite, "slab(kmalloc-64)", Some(site), false),
        subject(
            Bucket::HeapSite,
            "per-CPU allocation of 64",
            Some(site),
            true,
        ),
    ];
    let rows = counted.tally.rows();
    let found = |subject: &Subject| {
        let of = |key: &Key| analysis.subjects()[key.subject.0 as usize] == *subject;
        rows.iter()
            .find(|(key, _)| of(key))
            .map(|(_, count)| count.remote)
    };
    // Whether a CPU other than the owner made the access; a heap object has none.
    assert_eq!(
        expected.each_ref().map(found),
        [Some(1), Some(1), Some(0), Some(1)]
    );
}

#[test]
fn pages_change_their_use() {
    let frame = 20;
    let (page, addr) = (PAGES + 64 * frame, DIRECT + 4096 * frame);
    let mut w = World::new();
    w.load(0, addr); // the kernel's, unnamed
    w.call(F::FreePages, &[page, 0]);
    w.load(0, addr); // free
    w.call_from(F::PteAlloc, &[0, 0], IMAGE + 0x650); // inside pte_alloc_one: a page table
    w.store(0, addr); // clearing
    w.ret(F::PteAlloc, page);
    w.load(0, addr);
    w.call(F::FreePages, &[page, 0]);
    w.load(0, addr);
    let recording = w.record();
    let (_, counted) = counted(&recording);
    let expected = [
        (Bucket::PageTable, 1),
        (Bucket::PageCleared, 1),
        (Bucket::UnknownKernelPage, 1),
        (Bucket::UnknownFreePage, 2),
    ];
    assert_eq!(ledger(&counted), expected);
}

#[test]
fn globals_without_a_type_in_btf_are_named() {
    let mut w = World::new();
    w.load(0, NOHZ + 8);
    w.load(0, COUNTER + 4);
    let recording = w.record();
    let (analysis, counted) = counted(&recording);
    let names = analysis.names().unwrap();
    let subject = |label: &str| names.subjects().iter().find(|s| s.label == label).unwrap();
    assert_eq!(analysis.schema().size(subject("nohz").ty.unwrap()), 40);
    assert_eq!(subject("counter").ty, None);
    assert_eq!(
        ledger(&counted),
        [(Bucket::GlobalTyped, 1), (Bucket::GlobalNamed, 1)]
    );
}

fn busy(chunk: u32) -> Recording {
    let mut w = World::with_chunks_of(chunk);
    for i in 0..400u64 {
        let (cpu, a) = ((i % 2) as u16, KMALLOC_SLAB + 64 * (i % 7));
        w.alloc(F::Kmalloc, &[64], IMAGE + 0x850, a);
        w.sight(F::UpdateEntity, a);
        w.store(cpu, a + 8 * (i % 5));
        w.load(cpu, UNITS[usize::from(cpu)] + RQ + 8 * (i % 3));
        w.free(a);
        w.load(0, VMALLOC + 0x3f00 - 8 * (i % 9));
        w.rmw(1, UNITS[0] + RQ);
        w.silent_store_at(1, UNITS[0] + RQ, site(F::UpdateRq));
    }
    w.record()
}

#[test]
fn counts_do_not_depend_on_threads() {
    let recording = busy(37);
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| counted(&recording))
    };
    let (analysis, one) = with(1);
    let expected = [
        (Bucket::Field, 400),
        (Bucket::PercpuTyped, 1200),
        (Bucket::Stack, 400),
    ];
    assert_eq!(ledger(&one), expected);
    let cpu = |loads, stores, rmws, remote| CpuCount {
        loads,
        stores,
        rmws,
        remote,
    };
    let expected = [cpu(600, 200, 0, 0), cpu(200, 600, 400, 800)];
    assert_eq!(one.tally.per_cpu(), expected);
    let silent = one.tally.rows().iter().map(|(_, c)| c.silent).sum::<u64>();
    assert_eq!(silent, 400);
    let users = one.objects.iter().flat_map(|objects| objects.values());
    let uses: u64 = users.map(Users::total).sum();
    assert_eq!(uses, 1600, "each access to a typed object");
    let rows = one.tally.rows().into_iter();
    let rows = rows.map(|(key, count)| (key, count.clone())).collect();
    let kept = Tally::of(analysis.subjects(), rows, one.tally.per_cpu().to_vec());
    assert_eq!(kept.rows(), one.tally.rows());
    assert_eq!(kept.per_cpu(), one.tally.per_cpu());
    assert_eq!(kept.ledger(), one.tally.ledger());
    for threads in [2, 5] {
        let (_, more) = with(threads);
        assert_eq!(ledger(&more), ledger(&one));
        assert_eq!(more.tally.rows(), one.tally.rows());
        assert_eq!(more.tally.per_cpu(), one.tally.per_cpu());
        assert_eq!(more.co_uses, one.co_uses);
        assert_eq!(more.objects, one.objects);
    }
}

#[test]
fn counts_do_not_depend_on_where_chunks_end() {
    let rows = |recording: &Recording| ledger(&counted(recording).1);
    assert_eq!(rows(&busy(37)), rows(&busy(100_000)));
}

#[test]
fn a_cut_recording_is_analysed_as_far_as_it_goes() {
    let mut w = World::new();
    w.load(0, UNITS[0] + RQ);
    let recording = w.cut();
    assert!(recording.cut().is_some());
    assert_eq!(ledger(&counted(&recording).1), [(Bucket::PercpuTyped, 1)]);
}

#[test]
fn fields_are_used_together_within_a_window_on_one_object() {
    let mut w = World::new();
    let (own, other) = (UNITS[0] + RQ, UNITS[1] + RQ);
    w.load(0, own);
    w.load(0, own + 64); // together: 1 instruction later
    w.wait(linemate_attribution::couse::WINDOW);
    w.load(0, own + 72); // too late for both
    w.load(0, other); // another object, and another CPU's
    w.load(0, other + 72); // together, by others
    let recording = w.record();
    let analysis = Analysis::new(&recording).unwrap();
    let rq = analysis.schema().named("rq")[0];
    let counted = analysis.count().unwrap();
    let co_use = counted.co_uses.of(rq);
    let (nr_running, clock, lock) = (0, 2, 3);
    assert_eq!(co_use.together(By::Owner, nr_running, clock), 1);
    assert_eq!(co_use.together(By::Owner, clock, lock), 0);
    assert_eq!(co_use.together(By::Owner, nr_running, lock), 0);
    assert_eq!(co_use.together(By::Others, nr_running, lock), 1);
}

#[test]
fn a_window_ends_with_its_chunk() {
    let together = |chunk: u32| {
        let mut w = World::with_chunks_of(chunk);
        w.load(0, UNITS[0] + RQ);
        w.load(0, UNITS[0] + RQ + 64);
        let recording = w.record();
        // One thread counts all chunks.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        let (analysis, counted) = pool.unwrap().install(|| counted(&recording));
        let rq = analysis.schema().named("rq")[0];
        let (nr_running, clock) = (0, 2);
        counted
            .co_uses
            .of(rq)
            .together(By::Owner, nr_running, clock)
    };
    assert_eq!(together(2), 1);
    assert_eq!(together(1), 0, "so that chunks can be counted in any order");
}

#[test]
fn what_the_first_pass_met_is_reported() {
    let mut w = World::new();
    for i in 0..3 {
        w.alloc(
            F::CacheAlloc,
            &[CACHE_TASK],
            IMAGE + 0x850,
            TASK_SLAB + 256 * i,
        );
    }
    w.sight(F::WakeTask, TASK_SLAB);
    w.call(F::WakeTask, &[]);
    w.ret(F::Kmalloc, KMALLOC_SLAB); // whose call was not seen
    w.call_from(F::Kmalloc, &[64], IMAGE + 0x850); // whose return comes too late
    let recording = w.record();
    let (analysis, _) = counted(&recording);
    let expected = AnalysisFacts {
        objects: 3,
        sightings: 1,
        sightings_unused: 0,
        unpaired: 2,
        caches: 2,
        stacks: 1,
    };
    assert_eq!(analysis.facts(), expected);
    let directory = analysis.directory().clone();
    assert_eq!(directory.facts, expected);
    let task = analysis.schema().named("task")[0];
    let names = analysis.names().unwrap();
    let is_task = |at: &Located| names.subjects()[at.subject.index()].ty == Some(task);
    let tasks = names.objects().filter(|(_, _, at)| is_task(at)).count();
    assert_eq!(tasks, 3, "its siblings are alike");
    // A caller that has the directory gets the same counts.
    let again = Analysis::known(&recording, directory).unwrap();
    assert_eq!(again.subjects(), analysis.subjects());
}

#[test]
fn what_is_named_is_at_its_offset_in_its_object() {
    let array = DIRECT + 30 * 4096;
    let mut w = World::new();
    w.alloc(F::Kmalloc, &[192], IMAGE + 0x850, array);
    w.sight(F::UpdateEntity, array);
    w.sight(F::UpdateEntity, array + 64);
    w.sight(F::UpdateEntity, UNITS[0] + 0x800);
    w.sight(F::LockVector, VMALLOC + 0x10_0000);
    w.sight(F::UpdateEntity, COUNTER + 64);
    let recording = w.record();
    let analysis = Analysis::new(&recording).unwrap();
    let names = analysis.names().unwrap();
    let at = |object: u64, offset: u32| {
        let addr = GuestAddr(object + u64::from(offset));
        let located = names.locate_at(addr, VirtualTime(u64::MAX - 1));
        let Located { subject, owner, .. } = located;
        assert_eq!(
            (located.object.0, located.offset),
            (object, offset),
            "{addr:?}"
        );
        let ty = names.subjects()[subject.0 as usize].ty;
        (ty.map_or("", |ty| analysis.schema().name(ty)), owner)
    };
    // Elements of an array are objects of their own.
    for element in [array, array + 64, array + 128] {
        assert_eq!(at(element, 40), ("entity", None));
    }
    assert_eq!(at(TASK_SLAB + 256, 200), ("task", None));
    assert_eq!(at(TAIL_PAGE + 256, 200), ("task", None));
    assert_eq!(at(VMALLOC + 0x10_0000, 32), ("vector", None));
    assert_eq!(at(COUNTER + 64, 40), ("entity", None));
    assert_eq!(at(NOHZ, 8), ("(anonymous)", None));
    for (cpu, unit) in (0u16..).zip(UNITS) {
        let owner = Some(CpuId(cpu));
        assert_eq!(at(unit + RQ, 72), ("rq", owner));
        assert_eq!(at(unit + 0x800, 40), ("entity", owner));
    }
}

#[test]
fn counts_over_time_are_the_tallys() {
    let mut w = World::with_chunks_of(16);
    let rq = UNITS[0] + RQ;
    for turn in 0..200u64 {
        let cpu = (turn % 2) as u16;
        w.access(cpu, AccessKind::Store, rq, 4, F::WakeTask, false);
        w.access(cpu, AccessKind::Store, rq, 4, F::UpdateRq, false);
        w.access(1, AccessKind::Rmw, rq + 72, 4, F::UpdateRq, false);
        w.load(0, COUNTER);
        w.wait(if turn == 100 { 5000 } else { 10 });
    }
    let recording = w.record();
    let (analysis, counted) = counted(&recording);
    let mut sums = std::collections::BTreeMap::new();
    for (key, count) in counted.tally.rows() {
        if analysis.subjects()[key.subject.0 as usize].ty.is_some() {
            let place = TimedPlace {
                subject: key.subject,
                offset: key.offset,
                size: key.size,
                kind: key.kind,
            };
            *sums.entry(place).or_insert(0) += count.count;
        }
    }
    let timed = counted.times.places.iter();
    let timed = timed.map(|(place, cells)| {
        assert!(cells.windows(2).all(|pair| pair[0].0 < pair[1].0));
        (
            *place,
            cells.iter().map(|(_, count)| u64::from(*count)).sum(),
        )
    });
    assert_eq!(timed.collect::<std::collections::BTreeMap<_, _>>(), sums);
    assert_eq!(sums.len(), 2);
    // Both CPUs store, only the second one uses the lock; nothing happens while everybody waits.
    let grid = recording.time_grid();
    let cells = |kind| {
        let found = counted.times.places.iter().find(|(p, _)| p.kind == kind);
        found.unwrap().1.clone()
    };
    let rows = |kind| {
        cells(kind)
            .iter()
            .map(|(cell, _)| cell.row)
            .collect::<Vec<_>>()
    };
    assert!(rows(AccessKind::Store).contains(&0) && rows(AccessKind::Store).contains(&1));
    assert!(rows(AccessKind::Rmw).iter().all(|row| *row == 1));
    let busy: Vec<u16> = cells(AccessKind::Rmw)
        .iter()
        .map(|(cell, _)| cell.bin)
        .collect();
    let longest = busy.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(longest > grid.bins / 4, "{busy:?} of {grid:?}");
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build()
            .unwrap()
            .install(|| analysis.count().unwrap().times)
    };
    assert_eq!(on(1), on(3));
}

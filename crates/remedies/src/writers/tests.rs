//! Which members share a line, by who writes and who reads them.

use linemate_recording::GuestAddr;

use super::*;

fn used(accesses: u64, writes: &[(u64, u16)]) -> MemberUse {
    let set = |cpu: u16| {
        let mut set = CpuSet::default();
        set.insert(cpu);
        set
    };
    let mut cpus = CpuSet::default();
    writes.iter().for_each(|(_, cpu)| cpus.insert(*cpu));
    let mut all = UsersByPc::default();
    for (pc, (count, cpu)) in (0..).map(GuestAddr).zip(writes) {
        all.add(pc, *count, &set(*cpu));
    }
    MemberUse {
        accesses,
        cpus,
        users: all.clone(),
        writes: all,
        roles: RoleUse::default(),
        is_bit_field: false,
    }
}

fn cpus(cpus: &[u16]) -> Writers {
    Writers::Cpus(cpus.to_vec())
}

/// What those CPUs write, and nobody else uses.
fn by(writers: &[u16]) -> Sharers {
    Sharers {
        writers: cpus(writers),
        is_read: false,
    }
}

/// [`used`] by readers, too.
fn read(mut used: MemberUse, times: u64, reader: u16) -> MemberUse {
    let mut cpus = CpuSet::default();
    cpus.insert(reader);
    used.accesses += times;
    used.cpus.merge(&cpus);
    used.users.add(GuestAddr(0x1000), times, &cpus);
    used
}

#[test]
fn what_others_read_is_apart_from_what_the_writer_alone_uses() {
    let mut leaves: Leaves = [
        ("top", read(used(400, &[(400, 0)]), 4000, 1)),
        ("bottom", used(4000, &[(4000, 0)])),
        // The writer is its only reader.
        ("pushed", read(used(400, &[(400, 0)]), 400, 0)),
        // Read by another at the end.
        ("stolen", read(used(400, &[(400, 0)]), 1, 1)),
    ]
    .map(|(name, used)| (name.to_owned(), used))
    .into();
    let shown = Sharers {
        writers: cpus(&[0]),
        is_read: true,
    };
    let expected = [
        (by(&[0]), vec!["bottom", "pushed", "stolen"]),
        (shown.clone(), vec!["top"]),
    ];
    assert_eq!(by_sharers(&members(&leaves, "")), expected.into());
    assert_eq!(
        super::by(&shown, "top"),
        "CPU 0 writes top, which others read"
    );
    assert_eq!(
        super::by(&by(&[0, 1]), "top, size"),
        "2 CPUs write top, size"
    );
    // One that a lock in the struct guards is one writer's for all that.
    leaves.insert("lock".to_owned(), used(9000, &[(9000, 0), (9000, 1)]));
    assert!(!is_guarded(&members(&leaves, ""), &leaves["lock"]));
    leaves.insert("lock".to_owned(), used(9000, &[(9000, 0)]));
    assert!(is_guarded(&members(&leaves, ""), &leaves["lock"]));
}

#[test]
fn objects_that_every_cpu_owns_one_of_are_split_by_their_owners() {
    let role = |owner_loads, owner_writes, other_loads, other_writes| RoleUse {
        owner_loads,
        owner_writes,
        other_loads,
        other_writes,
    };
    let by_all = |roles: RoleUse| MemberUse {
        roles,
        ..used(roles.total(), &[(500, 0), (500, 1)])
    };
    let mut leaves: Leaves = [
        // Others post, and set up the rest.
        ("inbox", by_all(role(300, 4, 0, 1000))),
        ("done", by_all(role(1000, 1000, 4, 4))),
        ("seen", by_all(role(0, 1000, 2, 4))),
        ("top", by_all(role(400, 1000, 300, 0))),
        ("stolen", by_all(role(400, 1000, 300, 300))),
        ("limit", by_all(role(9000, 4, 9000, 4))),
    ]
    .map(|(name, used)| (name.to_owned(), used))
    .into();
    let roles = |writers, is_read| Sharers { writers, is_read };
    let expected = [
        (Sharers::NONE, vec!["limit"]),
        (roles(Writers::Owner, false), vec!["done", "seen"]),
        (roles(Writers::Owner, true), vec!["top"]),
        (roles(Writers::Others, true), vec!["inbox"]),
        (roles(Writers::Both, false), vec!["stolen"]),
    ];
    assert_eq!(by_sharers(&members(&leaves, "")), expected.into());
    let who = |writers, is_read| super::by(&roles(writers, is_read), "x");
    assert_eq!(
        who(Writers::Others, true),
        "CPUs other than an object's owner write x, which the owner reads"
    );
    assert_eq!(
        who(Writers::Owner, true),
        "one CPU of each object, its owner, writes x, which others read"
    );
    // Without owners, no role.
    assert_eq!(used(1000, &[(1000, 5)]).by_role(), Sharers::NONE);
    // What CPUs of their own write is apart without owners.
    leaves.insert("total".to_owned(), used(1000, &[(1000, 5)]));
    let by_cpu = by_sharers(&members(&leaves, ""));
    assert_eq!(by_cpu[&by(&[5])], ["total"]);
}

#[test]
fn what_sets_an_object_up_does_not_count_as_a_writer() {
    let leaves: Leaves = [
        ("head", used(1000, &[(1, 0), (400, 1)])),
        ("tail", used(1000, &[(1, 0), (400, 2)])),
        ("mask", used(2000, &[(1, 0)])),
        ("size", used(2000, &[(1, 0)])),
        // By many instructions, none of which does much.
        ("state", used(1000, &[(50, 3); 20])),
        // The CPU that sets it up uses it, too.
        ("spare", used(100, &[(1, 0), (50, 0)])),
    ]
    .into_iter()
    .map(|(name, used)| (name.to_owned(), used))
    .collect();
    let sets = by_sharers(&members(&leaves, ""));
    let expected: Vec<(Sharers, Vec<&str>)> = vec![
        (Sharers::NONE, vec!["mask", "size"]),
        (by(&[0]), vec!["spare"]),
        (by(&[1]), vec!["head"]),
        (by(&[2]), vec!["tail"]),
        (by(&[3]), vec!["state"]),
    ];
    assert_eq!(sets.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(contended(&leaves), "");
}

#[test]
fn wrappers_are_passed_and_what_only_sets_up_is_no_writer() {
    let leaves: Leaves = [
        ("_vptr", used(1, &[(1, 3)])),
        ("_M_use_count", used(4, &[(2, 0)])),
        (
            "_M_impl._M_storage._M_storage.reads",
            used(4000, &[(2000, 1)]),
        ),
        (
            "_M_impl._M_storage._M_storage.writes",
            used(4000, &[(2000, 2)]),
        ),
    ]
    .map(|(path, used)| (path.to_owned(), used))
    .into();
    assert_eq!(contended(&leaves), "_M_impl._M_storage._M_storage.");
    // Of 8005 accesses, one or two writes: no writer's members.
    let sets = by_sharers(&members(&leaves, ""));
    let expected = [
        (Sharers::NONE, vec!["_M_use_count", "_vptr"]),
        (by(&[1, 2]), vec!["_M_impl"]),
    ];
    assert_eq!(sets, expected.into());
}

#[test]
fn what_the_kernel_writes_of_a_program_has_no_writer() {
    let key = |pc| Key {
        subject: linemate_attribution::SubjectId(0),
        offset: 0,
        pc: GuestAddr(pc),
        kind: AccessKind::Store,
        size: 8,
    };
    let mut count = Count {
        count: 4,
        ..Count::default()
    };
    count.cpus.insert(2);
    let writers = |pc, of_program| {
        let mut used = MemberUse::default();
        used.add(&key(pc), &count, of_program);
        used.by_cpu().writers
    };
    let kernel = 0xffff_ffff_8100_0000;
    assert_eq!(writers(kernel, true), Writers::Nobody);
    assert_eq!(writers(kernel, false), cpus(&[2]));
    assert_eq!(writers(0x40_1000, true), cpus(&[2]));
}

#[test]
fn what_is_under_a_lock_stays_with_it() {
    let lock = used(400, &[(100, 0), (100, 1)]);
    let leaves = |reads: u64, reader: u16, counts: u16| -> Leaves {
        [
            ("lock", lock.clone()),
            ("total", used(400, &[(100, 0), (100, 1)])),
            ("counts", used(400, &[(200, counts)])),
            ("poisoned", used(reads, &[(1, reader)])),
        ]
        .map(|(path, used)| (path.to_owned(), used))
        .into()
    };
    let guarded = |leaves: Leaves, locks: &MemberUse| is_guarded(&members(&leaves, ""), locks);
    let without_counts = |reads, reader| {
        let mut leaves = leaves(reads, reader, 2);
        leaves.remove("counts");
        leaves
    };
    let other_writer = leaves(200, 0, 2);
    assert!(
        !guarded(other_writer, &lock),
        "one CPU writes without the lock"
    );
    assert!(guarded(without_counts(200, 0), &lock));
    let none = MemberUse::default();
    assert!(!guarded(without_counts(200, 0), &none), "no lock");
    assert!(
        !guarded(without_counts(1000, 0), &lock),
        "read without the lock, too"
    );
    assert!(
        !guarded(without_counts(200, 5), &lock),
        "read by a CPU that never takes it"
    );
}

#[test]
fn what_holds_an_object_with_several_writers_is_not_what_they_share() {
    let arc = |beside: u64| -> Leaves {
        [
            ("strong", used(4, &[(4, 0)])),
            ("data.beside", used(beside, &[(1, 0)])),
            ("data.queue.head.value", used(1000, &[(400, 1)])),
            ("data.queue.tail.value", used(1000, &[(400, 2)])),
            ("data.queue.slots", used(2000, &[(1, 0)])),
        ]
        .map(|(path, used)| (path.to_owned(), used))
        .into()
    };
    let leaves = arc(9);
    assert_eq!(contended(&leaves), "data.queue.");
    let sets = by_sharers(&members(&leaves, "data.queue."));
    let expected = [
        (Sharers::NONE, vec!["slots"]),
        (by(&[1]), vec!["head"]),
        (by(&[2]), vec!["tail"]),
    ];
    assert_eq!(sets, expected.into());
    assert_eq!(
        contended(&arc(9000)),
        "data.",
        "most of it is beside the queue"
    );
}

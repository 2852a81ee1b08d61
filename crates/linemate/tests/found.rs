//! What the published works found with fleets and PMUs, found here on unmodified Debian kernels.
//!
//! Each test boots a guest, records, and examines the report's JSON. The lists of fields are the
//! published ones; nothing in the product knows them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;

use common::{items, record, report, workload};
use serde_json::Value;

const BOTH: [&str; 2] = ["6.12", "6.1"];

/// The lock; what is read when picking a task and when balancing; the clocks.
const RQ_GROUPS: [&[&str]; 3] = [
    &["__lock"],
    &[
        "nr_running",
        "nr_numa_running",
        "nr_preferred_running",
        "ttwu_pending",
        "cpu_capacity",
        "curr",
        "idle",
    ],
    &[
        "clock_task",
        "clock_pelt",
        "clock",
        "lost_idle_time",
        "clock_update_flags",
        "clock_pelt_idle",
        "clock_idle",
    ],
];

/// Later 6.12 kernels have `curr` in a union with `donor`.
fn same_field(reported: &str, published: &str) -> bool {
    reported == published || (published == "curr" && reported == "donor")
}

fn field_names(group: &Value) -> Vec<&str> {
    items(group, "/fields")
        .iter()
        .filter_map(Value::as_str)
        .collect()
}

/// The index of the reported group that holds a field.
fn group_of(groups: &[Value], field: &str) -> Option<usize> {
    groups.iter().position(|group| {
        field_names(group)
            .iter()
            .any(|name| same_field(name, field))
    })
}

#[test]
fn sleepers_show_the_three_groups_of_rq() {
    for series in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let sleepers = workload("sleepers");
        let command = [&*sleepers, "-m", "1", "-l", "6", "-c", "64"];
        let data = record(folder.path(), series, &["--smp", "8"], &command);
        let report = report(&data, "rq");
        let groups = items(&report, "/type/groups");
        let found: Vec<BTreeSet<Option<usize>>> = RQ_GROUPS
            .iter()
            .map(|fields| fields.iter().map(|field| group_of(groups, field)).collect())
            .collect();
        let picture: Vec<_> = groups.iter().map(field_names).collect();
        for (published, places) in RQ_GROUPS.iter().zip(&found) {
            assert!(
                !places.contains(&None),
                "{series}: {published:?} not all in {picture:#?}"
            );
            assert_eq!(
                places.len(),
                1,
                "{series}: {published:?} torn apart in {picture:#?}"
            );
        }
        let apart: BTreeSet<_> = found.iter().flatten().collect();
        assert_eq!(
            apart.len(),
            3,
            "{series}: groups not kept apart in {picture:#?}"
        );
    }
}

/// Fields that at least two CPUs read and at least two write.
fn shared_fields(report: &Value) -> BTreeSet<&str> {
    items(report, "/type/fields")
        .iter()
        .filter(|field| {
            field["readers"].as_u64() >= Some(2) && field["writers"].as_u64() >= Some(2)
        })
        .filter_map(|field| field["field"].as_str())
        .collect()
}

#[test]
fn pinned_real_time_threads_show_what_root_domain_shares() {
    for series in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let (setup, threads) = (workload("rtpush.sh"), workload("rtpinned"));
        let options = ["--smp", "16", "--setup", &setup];
        let command = [&*threads, "-g", "4", "-p", "4", "-t", "8", "-i", "20"];
        let data = record(folder.path(), series, &options, &command);
        let report = report(&data, "root_domain");
        let shared = shared_fields(&report);
        // Line 0 of the published table: offsets 4 and 0x28. Line 2: 0x0 to 0x38 after 128, of
        // which 0x0 is the end of rto_push_work; rto_mask (0x30) is a pointer with this
        // configuration, so that it is only read.
        let published = [
            "rto_count",
            // Its name before Linux 6.10.
            if series == "6.1" {
                "overload"
            } else {
                "overloaded"
            },
            "rto_push_work.node.u_flags",
            "rto_lock",
            "rto_cpu",
            "rto_loop_next",
            "rto_loop_start",
            "cpupri.pri_to_cpu[0].count",
        ];
        for field in published {
            assert!(
                shared.contains(field),
                "{series}: {field} is not among {shared:?}"
            );
        }
        let on_the_lines: BTreeSet<&str> = items(&report, "/type/fields")
            .iter()
            .filter(|field| matches!(field["line"].as_u64(), Some(0 | 2)))
            .filter_map(|field| field["field"].as_str())
            .filter(|field| shared.contains(field))
            .collect();
        // Nothing else on those two lines is written by several CPUs, except for the counters that
        // keep the domain alive and the fields that real-time pushes share with the published ones.
        let mut expected: BTreeSet<&str> = published.into();
        expected.extend(on_the_lines.iter().filter(|field| {
            ["refcount", "rto_loop", "rcu", "visit"]
                .iter()
                .any(|name| field.starts_with(name))
        }));
        assert_eq!(on_the_lines, expected, "{series}");
        let mask = items(&report, "/type/fields")
            .iter()
            .find(|field| field["field"] == "rto_mask")
            .unwrap();
        assert!(
            mask["readers"].as_u64() > Some(8) && mask["writers"] == 0,
            "{series}: {mask}"
        );
    }
}

/// The accesses of a type by where its objects are.
fn owners(report: &Value) -> Vec<(&str, u64)> {
    items(report, "/type/places")
        .iter()
        .filter_map(|place| Some((place["owner"].as_str()?, place["accesses"].as_u64()?)))
        .collect()
}

#[test]
fn a_tree_of_cgroups_shows_groups_from_tasks() {
    for series in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let (setup, tree) = (workload("cgtree.sh"), workload("cgtree"));
        let options = ["--smp", "8", "--setup", &setup];
        let data = record(
            folder.path(),
            series,
            &options,
            &[&tree, "-i", "10", "/cg/tree"],
        );

        let entities = report(&data, "sched_entity");
        let entities = owners(&entities);
        let of_tasks: u64 = accesses_of(&entities, |owner| owner.starts_with("task_struct"));
        let of_groups: u64 = accesses_of(&entities, |owner| !owner.starts_with("task_struct"));
        assert!(
            of_tasks > 10_000 && of_groups > 10_000,
            "{series}: {entities:?}"
        );

        let queues = report(&data, "cfs_rq");
        let queues = owners(&queues);
        let of_cpus: u64 = accesses_of(&queues, |owner| owner.starts_with("rq"));
        let of_groups: u64 = accesses_of(&queues, |owner| owner == "heap");
        assert!(
            of_cpus > 10_000 && of_groups > 10_000,
            "{series}: {queues:?}"
        );

        let group = report(&data, "task_group");
        let shared = shared_fields(&group);
        for field in ["load_avg", "cfs_bandwidth.lock", "cfs_bandwidth.runtime"] {
            assert!(
                shared.contains(field),
                "{series}: {field} is not among {shared:?}"
            );
        }

        // A global of an anonymous type, of which BTF has no variable.
        let nohz = report(&data, "nohz");
        let fields: BTreeSet<&str> = items(&nohz, "/type/fields")
            .iter()
            .filter_map(|field| field["field"].as_str())
            .collect();
        for field in ["nr_cpus", "has_blocked", "idle_cpus_mask"] {
            assert!(
                fields.contains(field),
                "{series}: {field} is not among {fields:?}"
            );
        }
    }
}

fn accesses_of(owners: &[(&str, u64)], wanted: impl Fn(&str) -> bool) -> u64 {
    owners
        .iter()
        .filter(|(owner, _)| wanted(owner))
        .map(|(_, accesses)| accesses)
        .sum()
}

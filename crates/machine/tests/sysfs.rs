//! The machine `this` from hand-written sysfs trees.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use linemate_machine::{LogicalCpu, Machine, MachineError};

const CPU: &str = "devices/system/cpu";

/// A tree as Linux shows it: two sockets of two cores of two threads, second threads numbered last.
fn tree() -> BTreeMap<String, String> {
    let mut tree = BTreeMap::new();
    tree.insert(format!("{CPU}/online"), "0-7\n".to_owned());
    for cpu in 0..8 {
        let core = cpu % 4;
        let socket = core / 2;
        let root = format!("{CPU}/cpu{cpu}");
        let mut put = |path: &str, text: String| {
            tree.insert(format!("{root}/{path}"), text + "\n");
        };
        put("topology/physical_package_id", (socket * 7).to_string());
        put("topology/core_cpus_list", format!("{core},{}", core + 4));
        let own = format!("{core},{}", core + 4);
        let all = if socket == 0 { "0-1,4-5" } else { "2-3,6-7" }.to_owned();
        for (index, level, kind, size, ways, sets, shared) in [
            (0, 1, "Data", "48K", 12, 64, &own),
            (1, 1, "Instruction", "32K", 8, 64, &own),
            (2, 2, "Unified", "2048K", 16, 2048, &own),
            (3, 3, "Unified", "3072K", 16, 3072, &all),
        ] {
            put(&format!("cache/index{index}/level"), level.to_string());
            put(&format!("cache/index{index}/type"), kind.to_owned());
            put(&format!("cache/index{index}/size"), size.to_owned());
            put(
                &format!("cache/index{index}/ways_of_associativity"),
                ways.to_string(),
            );
            put(
                &format!("cache/index{index}/number_of_sets"),
                sets.to_string(),
            );
            put(
                &format!("cache/index{index}/coherency_line_size"),
                "64".to_owned(),
            );
            put(
                &format!("cache/index{index}/shared_cpu_list"),
                shared.clone(),
            );
        }
    }
    tree
}

fn read(tree: &BTreeMap<String, String>) -> Result<Machine, MachineError> {
    Machine::from_sysfs(|path| tree.get(path).cloned())
}

#[test]
fn a_whole_tree_is_read() {
    let machine = read(&tree()).unwrap();
    let topology = &machine.topology;
    assert_eq!(
        (
            topology.cpus(),
            topology.cores(),
            topology.domains(),
            topology.sockets()
        ),
        (8, 4, 2, 2)
    );
    let place = topology.place(LogicalCpu(6)).unwrap();
    assert_eq!(
        (place.core.0, place.domain.0, place.socket.0, place.thread),
        (2, 1, 1, 1)
    );
    assert_eq!((machine.l1.sets, machine.l1.ways), (64, 12));
    assert_eq!((machine.l2.sets, machine.l2.ways), (2048, 16));
    // 3072 sets = 3 slices of 1024.
    assert_eq!(
        (
            machine.llc.slices,
            machine.llc.slice.sets,
            machine.llc.slice.ways
        ),
        (3, 1024, 16)
    );
    assert_eq!(machine.frequency_mhz, 3000);
    assert!(
        machine
            .title
            .contains("3000 MHz assumed, latencies estimated"),
        "{}",
        machine.title
    );
}

#[test]
fn the_frequency_is_taken_where_the_tree_has_one() {
    let mut tree = tree();
    tree.insert(
        format!("{CPU}/cpu0/cpufreq/cpuinfo_max_freq"),
        "2600000\n".to_owned(),
    );
    assert_eq!(read(&tree).unwrap().frequency_mhz, 2600);
    tree.insert(
        format!("{CPU}/cpu0/cpufreq/base_frequency"),
        "2100000\n".to_owned(),
    );
    assert_eq!(read(&tree).unwrap().frequency_mhz, 2100);
    tree.insert(
        format!("{CPU}/cpu0/cpufreq/base_frequency"),
        "0\n".to_owned(),
    );
    assert_eq!(
        read(&tree).unwrap_err().to_string(),
        "devices/system/cpu/cpu0/cpufreq/base_frequency in the sysfs tree says \"0\", expected a \
         frequency in kHz"
    );
}

#[test]
fn offline_cpus_are_left_out() {
    let mut tree = tree();
    tree.insert(format!("{CPU}/online"), "0,2-3\n".to_owned());
    let topology = read(&tree).unwrap().topology;
    assert_eq!(
        (topology.cpus(), topology.cores(), topology.domains()),
        (3, 3, 2)
    );
    assert_eq!(topology.place(LogicalCpu(1)).unwrap().domain.0, 1);
}

#[test]
fn a_missing_last_level_cache_is_named() {
    let mut tree = tree();
    for cpu in 0..8 {
        tree.remove(&format!("{CPU}/cpu{cpu}/cache/index3/type"));
    }
    assert_eq!(
        read(&tree).unwrap_err().to_string(),
        "the sysfs tree lists no L3 cache for CPU 0 (virtual machines may hide it); describe the \
         machine in a file"
    );
}

#[test]
fn mixed_cores_are_refused() {
    let mut tree = tree();
    tree.insert(format!("{CPU}/cpu5/cache/index0/size"), "32K\n".to_owned());
    assert_eq!(
        read(&tree).unwrap_err(),
        MachineError::Mixed {
            first: 0,
            cpu: 5,
            cache: "L1"
        }
    );
}

#[test]
fn broken_files_are_named_with_their_text() {
    let mut broken = tree();
    broken.insert(format!("{CPU}/online"), "0-99999999\n".to_owned());
    assert_eq!(
        read(&broken).unwrap_err().to_string(),
        "devices/system/cpu/online in the sysfs tree says \"0-99999999\", expected a list of CPUs \
         such as 0-3,8"
    );
    let mut broken = tree();
    broken.insert(format!("{CPU}/cpu0/cache/index0/size"), "lots\n".to_owned());
    assert!(matches!(
        read(&broken).unwrap_err(),
        MachineError::SysfsValue { value, .. } if value == "lots"
    ));
    let mut broken = tree();
    broken.remove(&format!("{CPU}/online"));
    assert_eq!(
        read(&broken).unwrap_err().to_string(),
        "devices/system/cpu/online is missing from the sysfs tree"
    );
    let mut broken = tree();
    broken.insert(
        format!("{CPU}/cpu0/cache/index2/ways_of_associativity"),
        "0\n".to_owned(),
    );
    for cpu in 1..8 {
        broken.insert(
            format!("{CPU}/cpu{cpu}/cache/index2/ways_of_associativity"),
            "0\n".to_owned(),
        );
    }
    assert_eq!(read(&broken).unwrap_err(), MachineError::Zero("l2.ways"));
}

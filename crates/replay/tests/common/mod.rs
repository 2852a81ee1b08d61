//! The machines that the tests run on.

use linemate_machine::Machine;

/// 2 sockets x 2 domains x 2 cores x 2 threads; L1 2 ways, L2 4 ways, LLC 8 ways, one set each. CPU
/// n and CPU n + 8 are threads of core n; cores 0 1 | 2 3 || 4 5 | 6 7.
pub(crate) const SMALL: &str = r#"
name = "small"
title = "small"
cpus = 16
sockets = 2
llc_domains_per_socket = 2
cores_per_llc_domain = 2
threads_per_core = 2
line_bytes = 64
frequency_mhz = 1000
[l1]
size = 128
ways = 2
[l2]
size = 256
ways = 4
[llc]
size = 512
ways = 8
slices = 1
index = "plain"
[latency_cycles]
l1 = 4
l2 = 14
llc = 50
hitm_same_domain = 100
hitm_same_socket = 200
hitm_other_socket = 400
dram_local = 300
dram_remote = 500
atomic = 20
serve = 10
"#;

/// [`SMALL`] with some texts replaced.
pub(crate) fn machine(changes: &[(&str, &str)]) -> Machine {
    let mut text = SMALL.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{from:?} is not in the description");
        text = text.replace(from, to);
    }
    Machine::from_toml(&text).expect("a sound description")
}

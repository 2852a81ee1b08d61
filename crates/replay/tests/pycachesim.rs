//! Capacity on one CPU against an independent cache simulator, pycachesim: hits at every level are
//! equal, for several geometries, store shares and address ranges. The script that makes the
//! expectations is `pycachesim/expectations.py`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;

use linemate_machine::Machine;
use linemate_recording::{Access, AccessKind, CpuId, GuestAddr, VirtualTime};
use linemate_replay::{AsRecorded, Config, Interleaving, NoClones, Replay, Source};

const TABLE: &str = include_str!("pycachesim/expectations.txt");

fn machine(row: &[u64]) -> Machine {
    let [line, s1, w1, s2, w2, s3, w3] = row[..7] else {
        panic!("{row:?}")
    };
    let text = format!(
        "name = \"one\"\ntitle = \"one CPU\"\ncpus = 1\nsockets = 1\nllc_domains_per_socket = 1\n\
         cores_per_llc_domain = 1\nthreads_per_core = 1\nline_bytes = {line}\n\
         frequency_mhz = 1000\n\
         [l1]\nsize = {}\nways = {w1}\n[l2]\nsize = {}\nways = {w2}\n\
         [llc]\nsize = {}\nways = {w3}\nslices = 1\nindex = \"plain\"\n\
         [latency_cycles]\nl1 = 4\nl2 = 14\nllc = 50\nhitm_same_domain = 100\ndram_local = 300\n\
         atomic = 20\nserve = 0\n",
        s1 * w1 * line,
        s2 * w2 * line,
        s3 * w3 * line
    );
    Machine::from_toml(&text).unwrap()
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Hits in L1, L2, L3 and accesses to memory, by the replay.
fn replayed(row: &[u64]) -> [u64; 4] {
    let [stores, size, count, seed] = row[7..11] else {
        panic!("{row:?}")
    };
    let config = Config {
        recorded_cpus: 1,
        cpus: None,
        interleaving: Interleaving::Aligned,
        lines: false,
    };
    let mut replay = Replay::new(&machine(row), &config, AsRecorded, NoClones).unwrap();
    let (mut state, mut last) = (seed, 0);
    for time in 0..count {
        let r = splitmix(&mut state);
        let (far, near) = ((r >> 8) % size, (last + (r >> 8) % 512) % size);
        last = if r & 1 == 1 { near } else { far };
        let kind = if (r >> 1) % 100 < stores {
            AccessKind::Store
        } else {
            AccessKind::Load
        };
        replay
            .push(&Access {
                time: VirtualTime(time),
                cpu: CpuId(0),
                pc: GuestAddr(0),
                addr: GuestAddr(last),
                size: 1,
                kind,
                silent: false,
                user_mapping: false,
            })
            .unwrap();
    }
    let totals = replay.finish().0.totals;
    [Source::L1, Source::L2, Source::Llc, Source::DramLocal].map(|s| totals.source(s).count.0)
}

#[test]
fn hits_equal_pycachesims() {
    let rows: Vec<Vec<u64>> = TABLE
        .lines()
        .map(|line| {
            line.split_whitespace()
                .map(|word| word.parse().unwrap())
                .collect()
        })
        .collect();
    assert_eq!(rows.len(), 54);
    for row in &rows {
        assert_eq!(replayed(row)[..], row[11..], "{row:?}");
    }
    // The table exercises every level.
    for level in 11..15 {
        assert!(
            rows.iter().filter(|row| row[level] > 1000).count() >= 9,
            "column {level}"
        );
    }
}

/// Runs pycachesim again and compares its table with the one that is kept. The Python to use is in
/// LINEMATE_PYTHON, `python3` if not set.
#[test]
#[ignore = "needs Python with pycachesim 0.3.1 (pip install pycachesim==0.3.1); fails without"]
fn the_table_is_what_pycachesim_says() {
    let python = std::env::var("LINEMATE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/pycachesim/expectations.py"
    );
    let output = Command::new(&python).arg(script).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {python}: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{python} {script}: {stderr}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), TABLE);
}

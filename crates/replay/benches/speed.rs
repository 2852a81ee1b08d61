//! How fast a replay is, and how much memory it takes, on a synthetic stream shaped like a
//! scheduler recording: `cargo bench -p linemate-replay --bench speed [-- ACCESSES] [CASE…]`, where
//! a case is `usual-8`, `usual-8x2` (two replays at once on two threads), `usual-480`, `hard-8`,
//! `hard-480`, or `ahead-8`: `usual-8` with the machine's stream and stride prefetchers, which the
//! others do without.
//!
//! The stream: 8 CPUs in slices of 40 to 70 accesses, three instructions apart; 30 % of the
//! accesses to own data are stores, 3 % atomics. Where they go, in per cent of all accesses:
//!
//! | to | `usual` | `hard` |
//! |---|---|---|
//! | the CPU's stack, 1 KiB | 60 | 0 |
//! | its hot data, 4 KiB | 31 | 84 |
//! | its warm data, 128 KiB: mostly in L2 | 4 | 2 |
//! | its cold data, 4 MiB: mostly beyond L2 | 1 | 8 |
//! | 16 KiB that everybody reads | 3 | 4 |
//! | 64 lines that everybody writes | 1 | 2 |
//!
//! `usual` leaves L1 in about 6 % of the accesses (`ls -lR` as recorded by valgrind's lackey: 1 %;
//! a kernel more often), `hard` shows what a miss costs.

use std::io::Write;
use std::time::Instant;

use linemate_machine::{Machine, Mechanism, find};
use linemate_recording::{Access, AccessKind, Accesses, CpuId, GuestAddr, VirtualTime};
use linemate_replay::{
    Clones, Config, Interleaving, KeyId, Outcome, Placed, Replay, Sharing, SiteId,
};

const CASES: [&str; 6] = [
    "usual-8",
    "usual-8x2",
    "usual-480",
    "hard-8",
    "hard-480",
    "ahead-8",
];
const CPUS: u64 = 8;
const USUAL: [u64; 5] = [60, 91, 95, 96, 99];
const HARD: [u64; 5] = [0, 84, 86, 94, 98];
const PRIVATE: u64 = 0xffff_8880_0000_0000;
const READ_SHARED: u64 = 0xffff_8881_0000_0000;
const WRITTEN_SHARED: u64 = 0xffff_8882_0000_0000;

/// The stream, from one seed.
struct AccessStream {
    /// Upper bounds of the classes of the table above, in per cent.
    classes: [u64; 5],
    state: u64,
    time: u64,
    cpu: u64,
    left: u64,
}

impl AccessStream {
    fn new(classes: [u64; 5]) -> AccessStream {
        AccessStream {
            classes,
            state: 0x1234_5678_9abc_def1,
            time: 0,
            cpu: CPUS - 1,
            left: 0,
        }
    }

    /// Xorshift64: fast enough not to dominate the measurement.
    #[inline]
    fn random(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    #[inline]
    fn next(&mut self) -> Access {
        let random = self.random();
        if self.left == 0 {
            self.left = 40 + random % 31;
            self.cpu = (self.cpu + 1) % CPUS;
        }
        self.left -= 1;
        self.time += 3;
        let place = (random >> 8) % 100;
        let word = random >> 16;
        let own = PRIVATE + self.cpu * (64 << 20);
        let class = self.classes.iter().filter(|&&bound| place >= bound).count();
        let addr = match class {
            0 => own + word % (1 << 10) / 8 * 8,
            1 => own + (1 << 12) + word % (4 << 10) / 8 * 8,
            2 => own + (1 << 20) + word % (128 << 10) / 8 * 8,
            3 => own + (4 << 20) + word % (4 << 20) / 8 * 8,
            4 => READ_SHARED + word % (16 << 10) / 8 * 8,
            _ => WRITTEN_SHARED + word % (64 * 64) / 8 * 8,
        };
        let kind = match (random >> 48) % 100 {
            _ if class == 4 => AccessKind::Load,
            0..67 => AccessKind::Load,
            67..97 => AccessKind::Store,
            _ => AccessKind::Rmw,
        };
        Access {
            time: VirtualTime(self.time),
            cpu: CpuId(self.cpu as u16),
            pc: GuestAddr(0xffff_ffff_8100_0000 + word % 512 * 4),
            addr: GuestAddr(addr),
            size: 8,
            kind,
            silent: false,
            user_mapping: false,
        }
    }
}

/// Keys in a realistic number: some thousands.
#[inline]
fn place(access: &Access) -> Placed {
    let addr = access.addr.0;
    Placed {
        addr: access.addr,
        key: KeyId((addr as u32 >> 3) % 4096),
        site: SiteId((access.pc.0 as u32 >> 2) % 512),
        sharing: if addr < READ_SHARED {
            Sharing::Cloned
        } else {
            Sharing::Shared
        },
        fate: linemate_replay::Fate::Cached,
    }
}

fn replay(machine: &Machine, classes: [u64; 5], recorded: u64, copies: u16) -> Outcome {
    let config = Config {
        recorded_cpus: CPUS as usize,
        cpus: None,
        interleaving: Interleaving::Seeded(1),
        lines: true,
    };
    let mut replay =
        Replay::new(machine, &config, place, Clones { copies }).expect("the CPUs fit the machine");
    let mut stream = AccessStream::new(classes);
    for _ in 0..recorded {
        replay.push(&stream.next()).expect("the stream is sound");
    }
    replay.finish().0
}

/// Processor time in seconds of all threads of the process, which other work on the computer does
/// not affect. Linux counts it in hundredths.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name, in parentheses, may contain anything; user and system time are the 12th
    // and 13th field after it.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = rest
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|word| word.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

/// The process's peak memory in MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .unwrap_or(0)
        / 1024
}

fn main() -> std::io::Result<()> {
    let accesses = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse::<u64>().ok())
        .unwrap_or(100_000_000);
    let mut out = std::io::stdout().lock();
    let start = cpu_seconds();
    let mut stream = AccessStream::new(USUAL);
    let sum = (0..accesses).fold(0, |sum, _| sum ^ stream.next().addr.0);
    let alone = cpu_seconds() - start;
    writeln!(
        out,
        "stream alone: {:.1} M accesses per processor second ({sum:#x})",
        accesses as f64 / alone / 1e6
    )?;
    let all = find("gnr-2s-480").expect("shipped");
    let pairs = all
        .clone()
        .with_only(|mechanism| mechanism == Mechanism::AdjacentLinePairs);
    let wanted: Vec<String> = std::env::args().filter(|word| word.contains("-")).collect();
    for (name, classes, copies) in [
        ("usual-8", USUAL, 1),
        ("usual-8x2", USUAL, 1),
        ("usual-480", USUAL, 60),
        ("hard-8", HARD, 1),
        ("hard-480", HARD, 60),
        ("ahead-8", USUAL, 1),
    ] {
        let machine = if name == "ahead-8" { &all } else { &pairs };
        if wanted.iter().any(|word| CASES.contains(&word.as_str()))
            && !wanted.iter().any(|word| word == name)
        {
            continue;
        }
        let recorded = accesses / u64::from(copies);
        let (start, cpu) = (Instant::now(), cpu_seconds());
        let outcome = if name == "usual-8x2" {
            // As a what-if runs its replays: one per thread.
            std::thread::scope(|scope| {
                let other = scope.spawn(|| replay(machine, classes, recorded, copies));
                let outcome = replay(machine, classes, recorded, copies);
                assert_eq!(
                    Some(&outcome),
                    other.join().ok().as_ref(),
                    "same stream, same counts"
                );
                outcome
            })
        } else {
            replay(machine, classes, recorded, copies)
        };
        let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
        let replays = if name == "usual-8x2" { 2 } else { 1 };
        let done = outcome.totals.accesses() * replays;
        writeln!(
            out,
            "{name}: {done} accesses in {seconds:.2} s, of which {cpu:.2} s on a processor: \
             {:.1} M accesses per processor second, {:.1} M per second, peak {} MiB; {} left their core, {} HITM, \
             {} cycles",
            f64::from(done) / cpu / 1e6,
            f64::from(done) / seconds / 1e6,
            peak_mib(),
            outcome
                .sites
                .iter()
                .map(linemate_replay::Counts::accesses)
                .sum::<Accesses>(),
            outcome.totals.hitm().count,
            outcome.cycles,
        )?;
    }
    Ok(())
}

//! Where a question's replays get their accesses from, and how many of them are held in memory at a
//! time.
//!
//! A replay remembers every line that was touched, so what it takes depends on the recording: 50 MB
//! for a scheduler's, more than 1 GB for 48 CPUs that go through programs' memory. How many replays
//! fill their caches at a time follows from an estimate by the number of accesses; how many count
//! at a time follows from what the filled ones take. Outcomes do not depend on either.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use linemate_recording::Accesses;
use linemate_replay::L1s;
use linemate_session::progress::StepParts;
use linemate_session::stream::{Stream, Tables};
use linemate_types::ByteSize;

/// How many simulated CPUs are held in memory at a time: each has its caches, some 10 to 100 KiB
/// when used.
const SIMULATED_CPUS_MAX: usize = 4096;

/// How many replays are held in memory at a time, at most.
const REPLAYS_MAX: usize = 12;

/// How many replays of more CPUs than were recorded: each also has a tape.
const SCALED_AT_ONCE: usize = 4;

/// Bytes of all replays together that any computer has, so that a question stays below 1 GiB where
/// its replays are small.
const BYTES_LEAST: usize = 768 << 20;

/// What a replay takes at least, and for each thousand accesses that it gets. From the peaks of
/// what-ifs with four and with eight replays, of 11 and of 38 million accesses on gnr-2s-480: 50
/// and 77 MB.
const REPLAY_BYTES: ByteSize = ByteSize(45_000_000);
const REPLAY_BYTES_PER_1000: ByteSize = ByteSize(850);

/// Where accesses come from.
pub(crate) enum StepSource {
    /// What is kept of the recording.
    Stream { stream: Arc<Stream>, tables: Tables },
    /// The recording, without what always hits in these L1s.
    Recording { filter: Option<L1s> },
}

impl StepSource {
    /// How many parts of it are reported as progress, given the recording's accesses.
    pub(crate) fn parts(&self, accesses: Accesses) -> StepParts {
        match self {
            StepSource::Stream { stream, .. } => stream.blocks().into(),
            StepSource::Recording { .. } => accesses.into(),
        }
    }

    /// How many accesses a replay gets of it, given the recording's.
    fn accesses(&self, accesses: Accesses) -> Accesses {
        match self {
            StepSource::Stream { stream, .. } => accesses.saturating_sub(stream.left_out()),
            StepSource::Recording { .. } => accesses,
        }
    }
}

/// What replays of some variants get.
pub(crate) struct Supply {
    pub(crate) source: StepSource,
    /// By subject: whether a variant moves it, so that all of its accesses are needed.
    pub(crate) moved: Vec<bool>,
    /// How many replays are begun at a time.
    pub(crate) at_once: usize,
    /// How many batches of as many are still to come at most.
    pub(crate) waves: usize,
    /// Bytes of all replays together.
    memory: usize,
    /// How many count at a time, at most: of more CPUs than were recorded each holds a tape of
    /// hundreds of megabytes, and then all CPUs on one thread.
    counted_at_once: Option<usize>,
}

impl Supply {
    /// For these replays, in about that many bytes together.
    pub(crate) fn new(
        source: StepSource,
        moved: Vec<bool>,
        replays: &Replays,
        memory: usize,
    ) -> Supply {
        let at_once = replays.at_once(source.accesses(replays.accesses));
        Supply {
            source,
            moved,
            at_once,
            waves: replays.batches * replays.in_batch.div_ceil(at_once),
            memory,
            counted_at_once: (replays.cpus.1 > 1).then(rayon::current_num_threads),
        }
    }

    /// In which parts to count a wave's replays, given the variant of each, in order, and what a
    /// filled replay takes: as many at a time as fit next to the filled ones that are needed later,
    /// but one at least.
    pub(crate) fn parts<'j, J>(
        &self,
        mut jobs: &'j [J],
        variant: impl Fn(&J) -> usize,
        bytes: usize,
    ) -> Vec<&'j [J]> {
        let most = self.memory / bytes.max(1);
        let mut parts = Vec::new();
        while !jobs.is_empty() {
            // What counts now, and a filled replay for each variant that is still to be counted:
            // jobs of a variant are side by side, so `dedup` finds them.
            let held = |count: usize| {
                let mut later: Vec<usize> = jobs[count..].iter().map(&variant).collect();
                later.dedup();
                count + later.len()
            };
            let threads = self.counted_at_once.unwrap_or(jobs.len()).max(1);
            let mut counts = (1..=jobs.len().min(threads)).rev();
            let count = counts.find(|count| held(*count) <= most).unwrap_or(1);
            let (now, later) = jobs.split_at(count);
            parts.push(now);
            jobs = later;
        }
        parts
    }
}

/// Replays to be done, in batches of about the same size.
#[derive(Clone, Copy)]
pub(crate) struct Batches {
    /// How many batches, at most.
    pub(crate) count: usize,
    /// How many replays the first has.
    pub(crate) replays: usize,
}

impl Batches {
    pub(crate) const ONE_REPLAY: Batches = Batches {
        count: 1,
        replays: 1,
    };
}

/// The replays that a question is made of.
pub(crate) struct Replays {
    /// How many accesses the recording has.
    pub(crate) accesses: Accesses,
    /// The recording's CPUs, and how many each represents.
    pub(crate) cpus: (usize, usize),
    /// The most batches that can be needed.
    pub(crate) batches: usize,
    /// Replays of a batch.
    pub(crate) in_batch: usize,
    /// Replays of a batch that are of one variant: they begin with one warm-up and are not parted
    /// without need.
    pub(crate) of_variant: usize,
}

impl Replays {
    /// How many to begin at a time, each of that many accesses.
    fn at_once(&self, accesses: Accesses) -> usize {
        let bytes = REPLAY_BYTES + REPLAY_BYTES_PER_1000 * (accesses.0 / 1000);
        let by_memory = usize::try_from(bytes.0).map_or(0, |bytes| BYTES_LEAST / bytes);
        let by_cpus = match self.cpus {
            (recorded, 1) => SIMULATED_CPUS_MAX / recorded,
            _ => SCALED_AT_ONCE,
        };
        let most = by_memory.min(by_cpus).clamp(1, REPLAYS_MAX);
        match most / self.of_variant.max(1) {
            // Not all replays of one variant fit: its interleavings are then counted in several
            // readings.
            0 => most,
            // Whole variants, because each part that is begun fills its caches anew.
            variants => variants * self.of_variant.max(1),
        }
    }
}

/// Bytes for all replays of a question: a quarter of what this computer, the control group this
/// runs in, or this process may have.
pub(crate) fn memory() -> usize {
    let read = |path: &Path| fs::read_to_string(path).ok();
    let computer = read(Path::new("/proc/meminfo")).and_then(|text| total(&text));
    let group = read(Path::new("/proc/self/cgroup")).and_then(|text| limit(&text, read));
    let process = read(Path::new("/proc/self/limits")).and_then(|text| address_space(&text));
    let least = computer.into_iter().chain(group).chain(process).min();
    // A quarter is a choice: the recording, its stream and its names are in memory as well.
    least.map_or(BYTES_LEAST, |bytes| BYTES_LEAST.max(bytes / 4))
}

/// The computer's memory, from `/proc/meminfo`.
fn total(meminfo: &str) -> Option<usize> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The process's own limit (`ulimit -v`), from `/proc/self/limits`; `None` if there is none.
fn address_space(limits: &str) -> Option<usize> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The least `memory.max` of the control group (v2) that `/proc/self/cgroup` names and of those
/// around it.
fn limit(cgroup: &str, read: impl Fn(&Path) -> Option<String>) -> Option<usize> {
    let name = cgroup.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = Path::new("/sys/fs/cgroup");
    let whole = root.join(name);
    let groups = whole
        .ancestors()
        .take_while(|group| group.starts_with(root));
    let limit = |group: &Path| read(&group.join("memory.max"))?.trim().parse().ok();
    groups.filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn supply(memory: usize) -> Supply {
        let replays = Replays {
            accesses: Accesses(1000),
            cpus: (8, 1),
            batches: 1,
            in_batch: 8,
            of_variant: 4,
        };
        let source = StepSource::Recording { filter: None };
        Supply::new(source, Vec::new(), &replays, memory)
    }

    #[test]
    fn a_wave_counts_as_many_as_fit_beside_the_filled_ones() {
        let parts = |memory: usize| -> Vec<usize> {
            let supply = supply(memory);
            let parts = supply.parts(&[0, 0, 0, 0, 1, 1, 1, 1], |variant| *variant, 100);
            parts.iter().map(|part| part.len()).collect()
        };
        assert_eq!(parts(800), [8], "the last of each is no copy");
        assert_eq!(parts(799), [6, 2], "six, and one that is filled");
        assert_eq!(parts(500), [4, 4]);
        assert_eq!(parts(499), [2, 3, 3], "two, and two that are filled");
        assert_eq!(parts(0), [1; 8], "one at least");
    }

    #[test]
    fn no_more_count_at_once_than_there_are_threads() {
        let supply = Supply {
            counted_at_once: Some(2),
            ..supply(800)
        };
        let parts = supply.parts(&[0, 0, 0, 0, 1], |variant| *variant, 100);
        assert_eq!(parts, [&[0, 0][..], &[0, 0], &[1]]);
    }

    #[test]
    fn variants_are_not_parted_without_need() {
        let replays = |in_batch, of_variant| Replays {
            accesses: Accesses(1000),
            cpus: (8, 1),
            batches: 1,
            in_batch,
            of_variant,
        };
        assert_eq!(replays(20, 4).at_once(Accesses(1000)), 12);
        assert_eq!(replays(20, 5).at_once(Accesses(1000)), 10);
        let many = replays(8, 4).at_once(Accesses(200_000_000));
        assert_eq!(many, 3, "805 million bytes hold three of 215");
    }

    #[test]
    fn the_computers_memory_is_reported_in_kilobytes() {
        let meminfo = "MemTotal:       24554812 kB\nMemFree:        1000 kB\n";
        assert_eq!(total(meminfo), Some(24_554_812 * 1024));
        assert_eq!(total("MemTotal: much\n"), None);
        assert_eq!(total(""), None);
    }

    #[test]
    fn a_limit_of_the_process_is_in_bytes() {
        let limits = |value: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units\n\
                 Max address space         {value}            unlimited            bytes\n"
            )
        };
        assert_eq!(address_space(&limits("1024000000")), Some(1_024_000_000));
        assert_eq!(address_space(&limits("unlimited")), None);
        assert_eq!(address_space(""), None);
    }

    #[test]
    fn the_least_limit_of_the_groups_around_counts() {
        let read = |path: &Path| match path.to_str()? {
            "/sys/fs/cgroup/a/b/memory.max" => Some("max\n".to_owned()),
            "/sys/fs/cgroup/a/memory.max" => Some("4000\n".to_owned()),
            "/sys/fs/cgroup/memory.max" => Some("9000\n".to_owned()),
            _ => None,
        };
        assert_eq!(limit("0::/a/b\n", read), Some(4000));
        assert_eq!(limit("0::/\n", read), Some(9000));
        assert_eq!(limit("0::/c\n", read), Some(9000));
        assert_eq!(limit("1:cpu:/a\n", read), None, "version 1 alone");
    }
}

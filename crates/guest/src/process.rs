//! QEMU's process, which never outlives this one.

use std::fs;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::GuestError;
use crate::qemu::GuestFiles;
use crate::text::{last_words, read_lossy};

/// How often to check whether it has ended.
const TICK: Duration = Duration::from_millis(10);

/// What a thread can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Other threads.
    Threads,
    /// Files and timers.
    Events,
}

impl Awaited {
    /// The number of the system call that waits: `futex`, `ppoll`.
    fn call(self) -> u32 {
        let generic = cfg!(not(target_arch = "x86_64"));
        match self {
            Awaited::Threads if generic => 98,
            Awaited::Threads => 202,
            Awaited::Events if generic => 73,
            Awaited::Events => 271,
        }
    }
}

/// QEMU's process: killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) child: Child,
    /// Its processor time, in the system's ticks, and since when it has that value.
    used: (u64, Instant),
}

impl Process {
    pub(crate) fn new(child: Child) -> Self {
        Process {
            child,
            used: (0, Instant::now()),
        }
    }

    /// Whether it has ended (or cannot be waited for, which is no better).
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Its processor time; `None` if the system does not report it.
    pub(crate) fn processor_time(&self) -> Option<Duration> {
        let hertz = rustix::param::clock_ticks_per_second().max(1);
        let milliseconds = self.ticks()?.saturating_mul(1000) / hertz;
        Some(Duration::from_millis(milliseconds))
    }

    fn ticks(&self) -> Option<u64> {
        let path = format!("/proc/{}/stat", self.child.id());
        processor_ticks(&fs::read_to_string(path).ok()?)
    }

    /// How long it has used no processor time.
    pub(crate) fn idle_for(&mut self) -> Duration {
        let ticks = self.ticks();
        // A system that does not report it counts as busy: a run does not end for lack of an
        // answer.
        if ticks.is_none_or(|ticks| ticks != self.used.0) {
            self.used = (ticks.unwrap_or(0), Instant::now());
        }
        self.used.1.elapsed()
    }

    /// Whether its main thread waits for that; `None` if the system does not report it.
    pub(crate) fn main_thread_waits_for(&self, awaited: Awaited) -> Option<bool> {
        let path = format!("/proc/{}/syscall", self.child.id());
        let words = fs::read_to_string(path).ok()?;
        let number = words.split_ascii_whitespace().next()?;
        Some(number.parse() == Ok(awaited.call()))
    }

    /// Why a QEMU that closed its connection did so, in its own words.
    pub(crate) fn died(&mut self, files: &GuestFiles, doing: &'static str) -> GuestError {
        // It may close its connection before it has written its last words.
        let deadline = Instant::now() + Duration::from_secs(10);
        while !self.has_ended() && Instant::now() < deadline {
            thread::sleep(TICK);
        }
        let words = last_words(&read_lossy(&files.qemu_words()));
        let words = words.unwrap_or_else(|| match self.child.try_wait() {
            Ok(Some(status)) => format!("no output, {status}"),
            _ => "no output".to_owned(),
        });
        GuestError::QemuDied { doing, words }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// User and system time from `/proc/PID/stat` (proc(5): fields 14 and 15; the name before them may
/// contain anything).
fn processor_ticks(stat: &str) -> Option<u64> {
    // Field 3 is the first after the name, so 14 is 11 further.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11);
    let mut field = || fields.next()?.parse::<u64>().ok();
    field()?.checked_add(field()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_after_any_name() {
        let stat = "1 (a) b) S 2 3 4 5 6 7 8 9 10 11 120 34 0 0 20";
        assert_eq!(processor_ticks(stat), Some(154));
        assert_eq!(processor_ticks("1 (a) S 2"), None);
    }
}

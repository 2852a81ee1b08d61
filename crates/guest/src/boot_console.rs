//! How far a boot is, from the kernel's console.

use std::time::Duration;

use crate::error::GuestError;
use crate::observer::BootProgress;
use crate::text::last_line;

/// The longest line that is read to its end: twice what the numbers of 255 CPUs take.
const LINE_BYTES: usize = 4 << 10;

/// The kernel's words before it starts the other CPUs, and when all are up (`smp_init()`).
const STARTING: &str = "smp: Bringing up secondary CPUs";
const STARTED: &str = "smp: Brought up ";

/// Its words when it starts a CPU that was plugged in.
const PLUGGED: &str = "smpboot: Booting Node";

/// What a kernel that hangs says again and again: no sign of progress.
const COMPLAINTS: [&str; 4] = [
    "rcu:",
    "soft lockup",
    "hard LOCKUP",
    "blocked for more than",
];

/// The console of a booting kernel, read as it grows.
///
/// The kernel writes `.... node  #0, CPUs:        #1   #2` with one number after the other as it
/// starts the CPUs, on a line for each node. The first threads of all cores may come first, so the
/// numbers are counted, not read.
#[derive(Debug)]
pub(crate) struct BootConsole {
    started: u16,
    /// Those before the line that is being read.
    before: u16,
    /// CPUs of the guest, whatever the console says.
    cpus: u16,
    starting: bool,
    line: Vec<u8>,
    last: String,
    lines: u64,
    /// What there was of lines and CPUs when they last grew, and QEMU's processor time then.
    reached: (u64, u16),
    since: Duration,
}

impl BootConsole {
    pub(crate) fn new(cpus: u16) -> Self {
        BootConsole {
            // CPU 0 runs from the beginning.
            started: 1,
            before: 1,
            cpus,
            starting: false,
            line: Vec::new(),
            last: "nothing".to_owned(),
            lines: 0,
            reached: (0, 0),
            since: Duration::ZERO,
        }
    }

    /// How far the boot is, if further than at the last call.
    ///
    /// `now` is QEMU's processor time: on a busy computer a boot takes longer and hangs no more.
    ///
    /// # Errors
    /// It has come no further for `limit`.
    pub(crate) fn check(
        &mut self,
        now: Duration,
        limit: Duration,
    ) -> Result<Option<BootProgress>, GuestError> {
        let reached = (self.lines, self.started);
        if reached != self.reached {
            (self.reached, self.since) = (reached, now);
            return Ok(Some(self.progress()));
        }
        if now.saturating_sub(self.since) <= limit {
            return Ok(None);
        }
        let BootProgress {
            started,
            cpus,
            last,
            ..
        } = self.progress();
        Err(GuestError::BootHangs {
            started,
            cpus,
            seconds: limit.as_secs(),
            console: last,
        })
    }

    /// Takes what was written since the last call.
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                self.end_line();
            } else if self.line.len() < LINE_BYTES {
                self.line.push(byte);
            }
        }
        if self.starting && !bytes.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.count(&String::from_utf8_lossy(&line));
            self.line = line;
        }
    }

    fn progress(&self) -> BootProgress {
        BootProgress {
            started: self.started,
            cpus: self.cpus,
            lines: self.lines,
            last: self.last.clone(),
        }
    }

    fn end_line(&mut self) {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
        if !COMPLAINTS.iter().any(|words| line.contains(words)) {
            self.lines += 1;
        }
        if self.starting {
            self.count(&line);
        }
        if line.contains(STARTING) {
            self.starting = true;
        }
        // `smpboot: Booting Node 1 Processor 240 APIC 0x100`: they start in order.
        let plugged = line.split_once(PLUGGED);
        let plugged = plugged.and_then(|(_, rest)| rest.split_once("Processor "));
        let number = plugged.and_then(|(_, rest)| rest.split_once(' ')?.0.parse::<u16>().ok());
        if let Some(number) = number {
            self.reach(number.saturating_add(1));
        }
        if let Some((_, all)) = line.split_once(STARTED) {
            // `2 nodes, 480 CPUs`
            let numbers = all.split(|c: char| !c.is_ascii_digit());
            let cpus = numbers.filter_map(|n| n.parse().ok()).next_back();
            cpus.into_iter().for_each(|cpus| self.reach(cpus));
            self.starting = false;
        }
        self.before = self.started;
        if !line.trim().is_empty() {
            self.last = last_line(&line);
        }
    }

    /// Counts the CPUs of a line, `#1 #2 …`. The number of a node, before `CPUs:`, is none.
    fn count(&mut self, line: &str) {
        let numbers = line.split_once("CPUs:").map_or(line, |(_, rest)| rest);
        let numbers = numbers.split_ascii_whitespace();
        let numbers = numbers.filter(|word| {
            let number = word.strip_prefix('#').map(str::parse::<u16>);
            number.is_some_and(|number| number.is_ok())
        });
        let all = numbers.fold(self.before, |all, _| all.saturating_add(1));
        self.reach(all);
    }

    fn reach(&mut self, started: u16) {
        self.started = self.started.max(started.min(self.cpus));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From a boot of 6.12.117 on 8 CPUs in two nodes.
    const CONSOLE: &str = include_str!("boot_console/console.txt");

    fn started(console: &[u8], piece: usize) -> Vec<u16> {
        let mut boot = BootConsole::new(8);
        let mut all = vec![1];
        for bytes in console.chunks(piece) {
            boot.read(bytes);
            all.push(boot.progress().started);
        }
        all.dedup();
        all
    }

    #[test]
    fn cpus_are_counted_as_the_kernel_starts_them() {
        assert_eq!(started(CONSOLE.as_bytes(), 1), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(started(CONSOLE.as_bytes(), 1 << 20), [1, 8]);
        let mut boot = BootConsole::new(8);
        boot.read(CONSOLE.as_bytes());
        let progress = boot.progress();
        assert_eq!(progress.lines, CONSOLE.lines().count() as u64);
        assert_eq!(
            progress.last,
            "NET: Registered PF_NETLINK/PF_ROUTE protocol family"
        );
    }

    #[test]
    fn cpus_that_are_plugged_in_are_counted() {
        let line =
            |cpu: u16| format!("[ 9.8] smpboot: Booting Node 0 Processor {cpu} APIC 0x{cpu:x}\r\n");
        let console: String = (1..=9).map(line).collect();
        assert_eq!(started(console.as_bytes(), 1), [1, 2, 3, 4, 5, 6, 7, 8]);
        // A later wave.
        assert_eq!(started(line(4).as_bytes(), 1), [1, 5]);
        assert_eq!(started(b"smpboot: Booting Node 0 Processor\n", 1), [1]);
    }

    #[test]
    fn numbers_elsewhere_are_no_cpus() {
        for console in ["#5\n", "a #5\r\n", "Bringing up\n.... node #0, CPUs: #5\n"] {
            assert_eq!(started(console.as_bytes(), 1), [1], "{console}");
        }
        let start = "[ 0.1] smp: Bringing up secondary CPUs ...\n";
        let after = |rest: &str| started(format!("{start}{rest}").as_bytes(), 1 << 20);
        assert_eq!(after(".... node  #3, CPUs:"), [1]);
        assert_eq!(after(".... node  #0, CPUs: #2"), [1, 2]);
        // A message of another kind in between ends the line.
        assert_eq!(after(".... node  #0, CPUs: #2\nx\n #3"), [1, 3]);
        assert_eq!(after("smp: Brought up 1 node, 3 CPUs\n#7"), [1, 3]);
        assert_eq!(after("smp: Brought up 2 nodes, 1 CPU\n"), [1]);
    }

    #[test]
    fn a_boot_hangs_if_neither_a_cpu_nor_a_line_comes() {
        let second = Duration::from_secs;
        let mut boot = BootConsole::new(8);
        assert_eq!(
            boot.check(second(1), second(9)).unwrap().map(|b| b.cpus),
            Some(8)
        );
        assert_eq!(boot.check(second(10), second(9)).unwrap(), None);
        boot.read(b"smp: Bringing up secondary CPUs\n");
        assert!(boot.check(second(11), second(9)).unwrap().is_some());
        assert_eq!(boot.check(second(20), second(9)).unwrap(), None);
        // A CPU alone, in the middle of a line.
        boot.read(b".... node  #0, CPUs: #1");
        let progress = boot.check(second(21), second(9)).unwrap();
        assert_eq!(progress.map(|b| b.started), Some(2));
        assert_eq!(boot.check(second(30), second(9)).unwrap(), None);
        let error = boot.check(second(31), second(9)).unwrap_err().to_string();
        assert!(error.contains("after 2 of 8 CPUs, "), "{error}");
        assert!(
            error.contains("for 9 s of processor time (console: smp: Bringing up"),
            "{error}"
        );
    }

    #[test]
    fn a_kernel_that_only_complains_hangs() {
        let second = Duration::from_secs;
        let mut boot = BootConsole::new(8);
        for now in 1..=9 {
            boot.read(b"[ 60.1] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:\n");
            let progress = boot.check(second(now), second(9)).unwrap();
            assert_eq!(progress.is_some(), now == 1, "{now}");
        }
        boot.read(b"watchdog: BUG: soft lockup - CPU#1 stuck for 22s!\n");
        let error = boot.check(second(11), second(9)).unwrap_err().to_string();
        assert!(error.contains("soft lockup"), "{error}");
    }

    #[test]
    fn a_hostile_console_costs_little_and_counts_no_more_than_there_are() {
        let mut boot = BootConsole::new(8);
        boot.read(b"smp: Bringing up secondary CPUs\n#99 #99999999999 #-1 # ## #x \xff #\xff");
        assert_eq!(boot.progress().started, 2);
        boot.read(&b" #1".repeat(100_000));
        assert_eq!(boot.progress().started, 8);
        boot.read(&vec![b'#'; 1 << 20]);
        assert!(boot.line.len() <= LINE_BYTES);
        boot.read(b"\nsmp: Brought up 70000 nodes, 65535 CPUs\n\x1b[31mred\n");
        assert_eq!(boot.progress().started, 8);
        assert_eq!(boot.progress().last, "[31mred");
    }
}

//! What a run reports to its caller while it runs. The library itself prints nothing.

use std::io;
use std::path::Path;

/// One of the workload's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    Stdout,
    /// Its standard error, and all output of the set-up script.
    Stderr,
}

/// What the guest is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Making the snapshot: the kernel boots.
    Booting,
    Restoring,
    /// Unpacking, and running the set-up script.
    SettingUp,
    /// Between start and stop.
    Recording,
    Writing,
}

/// Receives the events of a run.
pub trait Observer {
    /// A killed run left this unfinished recording of the same output.
    fn left_over(&mut self, _recording: &Path) {}
    fn stage(&mut self, stage: Stage);
    /// The workload or the set-up script wrote something.
    ///
    /// # Errors
    /// Nobody reads it any more: the run ends, like a program that cannot write.
    fn output(&mut self, stream: OutputStream, bytes: &[u8]) -> io::Result<()>;
    /// A one-line note to the user.
    fn note(&mut self, _note: &str) {}
    /// Called many times a second while the guest runs.
    fn progress(&mut self, _progress: &Progress) {}
    /// The boot has come further.
    fn booting(&mut self, _progress: &BootProgress) {}
}

/// How far a boot is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootProgress {
    /// CPUs that the kernel has started.
    pub started: u16,
    /// CPUs of the guest.
    pub cpus: u16,
    /// Lines on the console.
    pub lines: u64,
    /// The last of them, without its time stamp.
    pub last: String,
}

/// The recorder's progress, reported every few million events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub accesses: u64,
    /// Guest instructions since recording started.
    pub instructions: u64,
    /// Bytes of the recording so far.
    pub bytes: u64,
}

/// How the recorder's lines of progress start.
pub(crate) const PROGRESS: &str = "linemate-recorder: progress ";

/// How the recorder's complaints start.
pub(crate) const RECORDER_ERROR: &str = "linemate-recorder: error: ";

/// How its lines about failed system calls start.
const REFUSED: &str = "linemate-recorder: refused ";

/// A failed system call of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCall {
    /// The call: `open`, `connect`.
    pub call: String,
    /// The error's number: 2 is ENOENT.
    pub error: i32,
    /// The file's name, or the peer's address.
    pub what: String,
}

impl RefusedCall {
    /// Those that a recorder reported, in its order: the latest first.
    pub(crate) fn parse_all(words: &str) -> Vec<RefusedCall> {
        let lines = words.lines().filter_map(|line| line.strip_prefix(REFUSED));
        lines.filter_map(RefusedCall::parse).collect()
    }

    /// From a line `CALL ERROR NAME-IN-HEXADECIMAL`; `None` for any other.
    fn parse(line: &str) -> Option<RefusedCall> {
        // In hexadecimal, because a name may contain spaces and line ends.
        let mut parts = line.split(' ');
        let (call, error, digits) = (parts.next()?, parts.next()?, parts.next()?);
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        let pair = |pair: &[u8]| Some((digit(pair.first()?)? * 16 + digit(pair.get(1)?)?) as u8);
        let what: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(pair).collect();
        Some(RefusedCall {
            call: call.to_owned(),
            error: error.parse().ok()?,
            what: String::from_utf8_lossy(&what?).into_owned(),
        })
    }
}

impl Progress {
    /// Handles a line of QEMU's output.
    pub(crate) fn learn(&mut self, line: &str) {
        let Some(words) = line.strip_prefix(PROGRESS) else {
            return;
        };
        for (key, value) in words.split(' ').filter_map(|word| word.split_once('=')) {
            match (key, value.parse()) {
                ("accesses", Ok(value)) => self.accesses = value,
                ("time", Ok(value)) => self.instructions = value,
                _ => {}
            }
        }
    }
}

impl Stage {
    /// For messages: "while booting".
    pub(crate) fn name(self) -> &'static str {
        match self {
            Stage::Booting => "booting",
            Stage::Restoring => "loading the snapshot",
            Stage::SettingUp => "setting up",
            Stage::Recording => "running the command",
            Stage::Writing => "finishing the recording",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_read_in_their_order_and_broken_lines_are_none() {
        let words = "linemate-recorder: refused open 2 2f61\n\
                     linemate-recorder: refused open x 2f61\n\
                     linemate-recorder: refused open 2 2f6\n\
                     linemate-recorder: refused\n\
                     linemate-recorder: done accesses=1\n\
                     linemate-recorder: refused connect 111 313a32\n";
        let refusal = |call: &str, error, what: &str| RefusedCall {
            call: call.to_owned(),
            error,
            what: what.to_owned(),
        };
        let expected = [refusal("open", 2, "/a"), refusal("connect", 111, "1:2")];
        assert_eq!(RefusedCall::parse_all(words), expected);
    }

    #[test]
    fn progress_is_read_and_other_lines_are_not() {
        let mut progress = Progress::default();
        progress.learn("linemate-recorder: progress accesses=12 time=99 else=x");
        progress.learn("linemate-recorder: error: accesses=1");
        assert_eq!(
            progress,
            Progress {
                accesses: 12,
                instructions: 99,
                bytes: 0
            }
        );
    }
}

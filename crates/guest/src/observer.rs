//! What a run tells its caller while it goes on. The library itself prints nothing.

use std::path::Path;

/// Which of the workload's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Its standard output.
    Stdout,
    /// Its standard error, and all output of the set-up script.
    Stderr,
}

/// What the guest is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Making the snapshot: the kernel boots.
    Booting,
    /// Loading the snapshot.
    Restoring,
    /// Unpacking, and running the set-up script.
    SettingUp,
    /// Between start and stop.
    Recording,
    /// Finishing the file.
    Writing,
}

/// Someone who watches a run.
pub trait Observer {
    /// A run that was killed left this unfinished recording of the same output.
    fn left_over(&mut self, _recording: &Path) {}
    /// A stage begins.
    fn stage(&mut self, stage: Stage);
    /// The workload or the set-up script wrote something.
    fn output(&mut self, stream: OutputStream, bytes: &[u8]);
    /// Something that the user should know, in one line.
    fn note(&mut self, _note: &str) {}
    /// Called many times a second while the guest runs.
    fn progress(&mut self, _progress: &Progress) {}
}

/// How far the recorder is; it tells every few million events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Accesses recorded.
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

impl Progress {
    /// Takes in a line of QEMU's output.
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

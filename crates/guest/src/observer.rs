//! What a run tells its caller while it goes on. The library itself prints nothing.

/// Which of the workload's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
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
    /// A stage begins.
    fn stage(&mut self, stage: Stage);
    /// The workload or the set-up script wrote something.
    fn output(&mut self, stream: Stream, bytes: &[u8]);
    /// Called several times a second while the guest runs.
    fn tick(&mut self) {}
}

impl Stage {
    /// For messages: "while booting".
    pub(crate) fn words(self) -> &'static str {
        match self {
            Stage::Booting => "booting",
            Stage::Restoring => "loading the snapshot",
            Stage::SettingUp => "setting up",
            Stage::Recording => "running the command",
            Stage::Writing => "finishing the recording",
        }
    }
}

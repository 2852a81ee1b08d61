//! A whole run: snapshot, restore, set-up, start, stop, and the recording around it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::control::{ExitStatus, Message, Pause};
use crate::error::GuestError;
use crate::initramfs;
use crate::kernel::Kernel;
use crate::observer::{Observer, Stage};
use crate::payload::{self, Workload};
use crate::qemu::{self, GuestFiles, PluginOptions, Qemu};
use crate::shape::{Shape, Timing};
use crate::snapshot::{Boot, Snapshot};
use crate::vm::{Vm, Watch};

/// Host time for a run, unless the user says otherwise.
const RUN_LIMIT: Duration = Duration::from_secs(3600);

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct Session {
    /// The emulator.
    pub qemu: Qemu,
    /// The kernel.
    pub kernel: Kernel,
    /// The guest's hardware.
    pub shape: Shape,
    /// What runs.
    pub workload: Workload,
    /// Where snapshots are.
    pub cache: PathBuf,
    /// The recorder's library; without it the guest runs unrecorded.
    pub recorder: Option<PathBuf>,
    /// Where the recording goes.
    pub output: PathBuf,
    /// Record user-mode code too.
    pub user: bool,
    /// Record from power-on.
    pub whole_boot: bool,
    /// Host time for the boot and for the run each.
    pub timeout: Option<Duration>,
}

/// A run that went well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// How the command ended.
    pub status: ExitStatus,
}

/// A run that failed, and what is left of it.
#[derive(Debug, Error)]
#[error("{cause}{}", kept_words(kept.as_deref()))]
pub struct Failure {
    /// Why.
    pub cause: GuestError,
    /// The recording, if it holds anything.
    pub kept: Option<PathBuf>,
}

fn kept_words(kept: Option<&Path>) -> String {
    kept.map_or_else(String::new, |path| {
        format!(
            "; what was recorded until then is kept in {}",
            path.display()
        )
    })
}

impl From<GuestError> for Failure {
    fn from(cause: GuestError) -> Self {
        Failure { cause, kept: None }
    }
}

impl Session {
    /// Does the run. Returns when QEMU has ended and the recording is complete.
    ///
    /// The calling thread has to live until then: QEMU is killed with it.
    ///
    /// # Errors
    /// A [`Failure`]: the cause, and whether a readable part of the recording is left.
    pub fn record(
        &self,
        cancel: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Recorded, Failure> {
        let search_path = env::var("PATH").unwrap_or_default();
        let payload = payload::pack(&self.workload, &search_path)?;
        let initramfs = initramfs::build(&search_path)?;
        let boot = Boot {
            qemu: &self.qemu,
            shape: &self.shape,
            kernel: &self.kernel.path,
            kernel_bytes: &self.kernel.bytes,
            initramfs: &initramfs,
            limit: self.timeout,
        };
        let snapshot = boot.snapshot(&self.cache, cancel, observer)?;
        let folder = tempfile::Builder::new()
            .prefix("linemate-")
            .tempdir()
            .map_err(GuestError::io("create a folder in", &env::temp_dir()))?;
        let files = GuestFiles::new(folder.path());
        for (path, bytes) in [(files.payload(), &payload), (files.initramfs(), &initramfs)] {
            fs::write(&path, bytes).map_err(GuestError::io("write", &path))?;
        }
        Ok(self.run(&boot, &snapshot, &files, cancel, observer)?)
    }

    fn run(
        &self,
        boot: &Boot<'_>,
        snapshot: &Snapshot,
        files: &GuestFiles,
        cancel: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Recorded, GuestError> {
        let plugin = self.recorder.clone().map(|library| PluginOptions {
            library,
            recording: self.output.clone(),
            memory_bytes: self.shape.memory_bytes,
            user: self.user,
            whole_boot: self.whole_boot,
            parallel: self.shape.timing == Timing::Parallel,
        });
        let incoming = !self.whole_boot;
        let arguments = qemu::arguments(
            &self.shape,
            &self.kernel.path,
            files,
            plugin.as_ref(),
            incoming,
        )?;
        observer.stage(Stage::Restoring);
        let mut vm = Vm::start(&self.qemu.program, &arguments, files)?;
        if incoming {
            vm.restore(&snapshot.state())?;
        } else {
            observer.stage(Stage::Booting);
            boot.boot(&mut vm, cancel, observer)?;
        }
        let limit = self.timeout.unwrap_or(RUN_LIMIT);
        let limit = Some((Instant::now() + limit, limit.as_secs()));

        observer.stage(Stage::SettingUp);
        vm.resume()?;
        let doing = Stage::SettingUp.words();
        let mut watch = Watch {
            doing,
            limit,
            cancel,
            observer,
        };
        let (pause, said) = vm.run_to_pause(&mut watch)?;
        expect(pause, Pause::Start, doing, &said)?;

        observer.stage(Stage::Recording);
        vm.resume()?;
        let doing = Stage::Recording.words();
        let mut watch = Watch {
            doing,
            limit,
            cancel,
            observer,
        };
        let (pause, said) = vm.run_to_pause(&mut watch)?;
        expect(pause, Pause::Stop, doing, &said)?;
        let status = command_status(&said)?;

        observer.stage(Stage::Writing);
        if let Some(words) = vm.out_of_memory() {
            return Err(GuestError::OutOfMemory { words });
        }
        vm.quit()?;
        Ok(Recorded { status })
    }
}

fn expect(
    found: Pause,
    expected: Pause,
    doing: &'static str,
    said: &[Message],
) -> Result<(), GuestError> {
    if found == expected {
        return Ok(());
    }
    Err(GuestError::Protocol {
        doing,
        message: format!("{said:?}"),
    })
}

fn command_status(said: &[Message]) -> Result<ExitStatus, GuestError> {
    for message in said {
        match message {
            Message::CommandEnded(status) => return Ok(*status),
            Message::Error(text) => return Err(GuestError::Agent(text.clone())),
            _ => {}
        }
    }
    Err(GuestError::Protocol {
        doing: Stage::Recording.words(),
        message: "no status of the command".to_owned(),
    })
}

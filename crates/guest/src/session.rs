//! A whole run: snapshot, head, guest, images, end.

use std::env;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use linemate_files::{Draft, FileKind, Replacement, private_folder, write_private};
use linemate_recording::{Moment, Totals, Writer, is_recording};
use thiserror::Error;

use crate::conditions::Conditions;
use crate::control::{ExitStatus, Message, Pause};
use crate::error::GuestError;
use crate::head::{self, KnownKernel, RunFacts};
use crate::images::{self, Images};
use crate::initramfs;
use crate::kernel::BootableKernel;
use crate::observer::{Observer, RefusedCall, Stage};
use crate::payload::Payload;
use crate::processors::Processors;
use crate::programs::Programs;
use crate::qemu::{GuestFiles, Plugin, PluginOptions, Start};
use crate::ram::{self, KernelMemory, Ram};
use crate::run_folder::{RUN, RunFolder};
use crate::shape::{GuestShape, Timing};
use crate::snapshot::Boot;
use crate::space;
use crate::vm::{GuestWatch, Vm};

/// Host time for a run, unless the user says otherwise.
const RUN_LIMIT: Duration = Duration::from_secs(3600);

/// What a new recording moves to `.old`: only an older one.
const RECORDING: FileKind = FileKind {
    name: "a recording",
    recognize: is_recording,
};

/// A recording to be made, and where it goes.
#[derive(Clone, Debug)]
pub struct Session {
    /// What the recording depends on apart from its kernel.
    pub conditions: Conditions,
    pub kernel: BootableKernel,
    pub cache: PathBuf,
    /// Where the recording goes. Until it is complete it is next to that, as `OUTPUT.*.partial`;
    /// then an older recording becomes `OUTPUT.old`; another file there is refused.
    pub output: PathBuf,
    /// Host time for the boot and the run each. A boot without it takes as long as it makes
    /// progress.
    pub timeout: Option<Duration>,
}

/// What a run that succeeded leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// How the command ended.
    pub status: ExitStatus,
    /// Events in the recording; `None` without a recorder.
    pub totals: Option<Totals>,
    /// Host time between start and stop.
    pub duration: Duration,
    /// The last failed system calls of programs, the latest first; none without a recorder, or if
    /// CPUs run in parallel.
    pub refusals: Vec<RefusedCall>,
}

/// A failed run, and what is left of it.
#[derive(Debug, Error)]
#[error("{cause}{}", kept_words(kept.as_deref()))]
pub struct Failure {
    pub cause: GuestError,
    /// The recording up to there, if it has any event.
    pub kept: Option<PathBuf>,
}

fn kept_words(kept: Option<&Path>) -> String {
    kept.map_or_else(String::new, |path| {
        format!("; what was recorded is in {}", path.display())
    })
}

impl From<GuestError> for Failure {
    fn from(cause: GuestError) -> Self {
        Failure { cause, kept: None }
    }
}

/// The limits of a run, whatever the guest does.
struct Watching<'a> {
    limit: (Instant, u64),
    lively: bool,
    recording: Option<&'a File>,
    cancel: &'a AtomicBool,
}

impl<'a> Watching<'a> {
    fn watch<'w>(&self, doing: &'static str, observer: &'w mut dyn Observer) -> GuestWatch<'w>
    where
        'a: 'w,
    {
        GuestWatch {
            doing,
            limit: Some(self.limit),
            lively: self.lively,
            silence: None,
            recording: self.recording,
            cancel: self.cancel,
            observer,
        }
    }
}

/// How a guest is started.
struct Starting<'a> {
    start: Start,
    files: &'a GuestFiles,
    /// The recorder's library, and what it does; none of an unrecorded run.
    plugin: Option<(&'a Path, &'a Plugin)>,
}

/// What the guest reported of its run.
struct Ran {
    status: ExitStatus,
    duration: Duration,
    refusals: Vec<RefusedCall>,
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
        let shape = &self.shape();
        shape.topology().map_err(GuestError::from)?;
        if self.conditions.whole_boot {
            shape.check_power_on().map_err(GuestError::from)?;
        }
        shape.check_host().map_err(GuestError::from)?;
        // Before the boot: a wrong path should not be reported only after it.
        let draft = match self.conditions.bare {
            true => None,
            false => Some(self.draft(observer)?),
        };
        private_folder(&self.cache).map_err(GuestError::from)?;
        // QEMU is started in another folder.
        let recorder = std::fs::canonicalize(&self.conditions.recorder)
            .map_err(|_| GuestError::RecorderMissing(self.conditions.recorder.clone()))?;
        let payload = self.conditions.payload(&search_path)?;
        report_notes(&payload, observer);
        let initramfs = initramfs::build(shape, &search_path)?;
        let boot = Boot {
            qemu: &self.conditions.qemu,
            shape,
            kernel_bytes: &self.kernel.bytes,
            initramfs: &initramfs,
            recorder: &recorder,
            limit: self.timeout,
        };
        let snapshot = boot.snapshot(&self.cache, cancel, observer)?;
        let known = self.known(snapshot.symbols()?, payload.programs.as_ref())?;
        let folder = RunFolder::new(&self.cache.join("runs"), RUN)?;
        let files = self.files(folder.path(), &payload, &initramfs, &snapshot.disk())?;
        let mut images = Images::new(folder.path())?;
        let start = match self.conditions.whole_boot {
            true => Start::WholeBoot,
            false => Start::Snapshot(snapshot.processors),
        };
        let mut starting = Starting {
            start,
            files: &files,
            plugin: None,
        };
        let Some(draft) = draft else {
            let ran = self.run(&starting, &known, &mut images, cancel, observer)?;
            return Ok(Recorded {
                status: ran.status,
                totals: None,
                duration: ran.duration,
                refusals: ran.refusals,
            });
        };
        let file = draft.file();
        let open = || {
            file.try_clone()
                .map_err(GuestError::io("open", draft.path()))
        };
        // The recorder appends to it, and so does this process when QEMU has ended.
        self.write_head(open()?, start.processors(), &known, &payload)?;
        let plugin = self.plugin(open()?);
        starting.plugin = Some((&recorder, &plugin));
        let ran = self.run(&starting, &known, &mut images, cancel, observer);
        observer.stage(Stage::Writing);
        self.finish(draft, ran, images)
    }

    /// The requested shape, with what only the kernel's image says.
    fn shape(&self) -> GuestShape {
        GuestShape {
            distrusts_clocks: self.kernel.distrusts_clocks(),
            ..self.conditions.shape.clone()
        }
    }

    /// What is known about the guest before it runs.
    fn known(
        &self,
        symbols: Vec<u8>,
        programs: Option<&Programs>,
    ) -> Result<KnownKernel, GuestError> {
        let mut known = KnownKernel::new(
            &self.kernel.path,
            &self.kernel.bytes,
            self.conditions.names_kernel(),
            symbols,
            &self.conditions.events,
        )?;
        if let Some(programs) = programs {
            known.watch.add(&programs.functions);
        }
        Ok(known)
    }

    /// Puts the guest's starting state into `folder`.
    fn files(
        &self,
        folder: &Path,
        payload: &Payload,
        initramfs: &[u8],
        disk: &Path,
    ) -> Result<GuestFiles, GuestError> {
        let files = GuestFiles::new(folder);
        for (path, bytes) in [
            (files.payload(), &*payload.bytes),
            (files.initramfs(), initramfs),
            (files.kernel(), &*self.kernel.bytes),
        ] {
            write_private(&path, bytes).map_err(GuestError::io("write", &path))?;
        }
        // QEMU writes to a disk that it loads from, and other runs start from this one.
        copy(disk, &files.disk()).map_err(|error| {
            let needed = std::fs::metadata(disk).map_or(0, |disk| disk.len());
            let full = space::full("a copy of the booted guest", &files.disk(), needed);
            full.unwrap_or_else(|| GuestError::io("copy", disk)(error))
        })?;
        Ok(files)
    }

    /// Writes the part of the recording that precedes its events.
    fn write_head(
        &self,
        file: File,
        processors: Processors,
        known: &KnownKernel,
        payload: &Payload,
    ) -> Result<(), GuestError> {
        let shape = &self.shape();
        let run = RunFacts {
            shape,
            kernel_command_line: &shape.kernel_command_line(processors)?,
            kernel: &self.kernel.bytes,
            command: &self.conditions.workload.command,
            payload: &payload.bytes,
            qemu_version: &self.conditions.qemu.version,
            user: self.conditions.records_user(),
            program: self.conditions.program.is_some(),
            whole_boot: self.conditions.whole_boot,
            turn: self.conditions.turn,
        };
        let metadata = head::metadata(&run, known);
        head::write(file, &metadata, known, payload.programs.as_ref())
            .map_err(|e| self.recording_error(&e))
    }

    /// The file that becomes the recording.
    fn draft(&self, observer: &mut dyn Observer) -> Result<Draft, GuestError> {
        let output = Replacement::new(&self.output)?;
        output.check_old(RECORDING)?;
        for path in output.abandoned() {
            observer.left_over(&path);
        }
        Ok(output.draft()?)
    }

    /// Runs the guest and copies the images.
    fn run(
        &self,
        starting: &Starting<'_>,
        known: &KnownKernel,
        images: &mut Images,
        cancel: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Ran, GuestError> {
        let Starting {
            start,
            files,
            plugin,
        } = *starting;
        let limit = self.timeout.unwrap_or(RUN_LIMIT);
        let watching = Watching {
            // One limit for both parts of the run: set-up and command.
            limit: (Instant::now() + limit, limit.as_secs()),
            lively: self.conditions.shape.timing == Timing::Deterministic,
            recording: plugin.and_then(|(_, plugin)| plugin.recording()),
            cancel,
        };
        observer.stage(match start {
            Start::WholeBoot => Stage::Booting,
            _ => Stage::Restoring,
        });
        let (qemu, shape) = (&self.conditions.qemu, &self.shape());
        let mut vm = Vm::start(qemu, shape, files, plugin, start)?;

        let doing = Stage::SettingUp.name();
        let reached = vm.run_to_pause(&mut watching.watch(doing, observer));
        // The guest waits within one instruction meanwhile: it does not notice how long the images
        // take.
        let reached = reached.and_then(|(pause, said)| {
            expect(pause, Pause::Start, doing, &said)?;
            self.take_images(&vm, Moment::Start, known, images)
        });
        if let Err(error) = reached {
            return Err(vm.give_up(error));
        }
        vm.release()?;

        // After the release: the time for the images does not count as the command's.
        let started = Instant::now();
        observer.stage(Stage::Recording);
        let doing = Stage::Recording.name();
        let status = vm.run_to_pause(&mut watching.watch(doing, observer));
        let status = status.and_then(|(pause, said)| {
            expect(pause, Pause::Stop, doing, &said)?;
            self.take_images(&vm, Moment::Stop, known, images)?;
            command_status(&said)
        });
        let duration = started.elapsed();
        match status {
            Ok(status) => Ok(Ran {
                status,
                duration,
                refusals: ended(vm)?,
            }),
            Err(error) => Err(vm.give_up(error)),
        }
    }

    fn plugin(&self, recording: File) -> Plugin {
        // The highest physical address, which exceeds the amount of memory if there is a hole.
        let end = ram::ranges(self.conditions.shape.memory_bytes)
            .last()
            .map_or(0, |(_, end)| *end);
        Plugin::Record(PluginOptions {
            recording,
            memory_bytes: end,
            user: self.conditions.records_user(),
            program: self.conditions.program.is_some(),
            contents_unknown: !self.conditions.names_kernel(),
            whole_boot: self.conditions.whole_boot,
            parallel: self.conditions.shape.timing == Timing::Parallel,
            turn: self.conditions.turn,
            seed: self.conditions.shape.seed,
            encode_here: thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1),
        })
    }

    fn take_images(
        &self,
        vm: &Vm,
        moment: Moment,
        known: &KnownKernel,
        images: &mut Images,
    ) -> Result<(), GuestError> {
        if self.conditions.bare {
            return Ok(());
        }
        let table = known.symbols.address_of("init_top_pgt").ok_or_else(|| {
            GuestError::Symbols(
                "init_top_pgt is not among them: the kernel's memory cannot be read".into(),
            )
        })?;
        // The image's mapping needs no table.
        let table = table.wrapping_sub(ram::IMAGE_BASE);
        let ram = Ram::open(vm.pid(), &self.conditions.shape, table)?;
        let memory = KernelMemory::new(&ram, table);
        let kernel = images::ImageSearch {
            types: known.types.as_ref().map(|types| &types.model),
            symbols: &known.symbols,
            shape: &self.conditions.shape,
        };
        images.take(moment, kernel, &memory)
    }

    /// Completes the file, or keeps what there is of it.
    fn finish(
        &self,
        draft: Draft,
        ran: Result<Ran, GuestError>,
        images: Images,
    ) -> Result<Recorded, Failure> {
        let complete = ran.is_ok();
        let written = self.complete(&draft, complete, images);
        // What cannot be counted may have events.
        let worth = written
            .as_ref()
            .map_or(true, |totals| *totals != Totals::default());
        let (ran, totals) = match (ran, written) {
            (Ok(ran), Ok(totals)) => (ran, totals),
            // The recorder's own words say why, and this process knows for which file.
            (Err(GuestError::Recorder(reason)), _) => {
                let path = self.output.clone();
                return Err(keep(draft, GuestError::Recording { path, reason }, worth));
            }
            // A pipeline whose reader has had enough leaves no recording.
            (Err(cause @ GuestError::Output { .. }), _) => {
                return Err(keep(draft, cause, false));
            }
            (Err(cause), _) | (Ok(_), Err(cause)) => return Err(keep(draft, cause, worth)),
        };
        let path = draft.path().to_owned();
        draft
            .replace_keeping_old(RECORDING)
            .map_err(|cause| Failure {
                cause: cause.into(),
                kept: Some(path),
            })?;
        Ok(Recorded {
            status: ran.status,
            totals: Some(totals),
            duration: ran.duration,
            refusals: ran.refusals,
        })
    }

    /// Appends the images and, if the recording is complete, the end.
    fn complete(
        &self,
        draft: &Draft,
        complete: bool,
        images: Images,
    ) -> Result<Totals, GuestError> {
        let wrong = |e: linemate_recording::Error| self.recording_error(&e);
        let file = draft.file().try_clone();
        let file = file.map_err(GuestError::io("open", draft.path()))?;
        // Cuts off a partial chunk that QEMU may have left.
        let mut writer = Writer::append_to(file).map_err(wrong)?;
        let totals = writer.totals();
        // Even a failed run has its images: they name what was recorded.
        images.write(&mut writer)?.map_err(wrong)?;
        // Without its end the file shows that it is truncated.
        if complete {
            writer.finish().map_err(wrong)
        } else {
            Ok(totals)
        }
    }

    fn recording_error(&self, error: &linemate_recording::Error) -> GuestError {
        GuestError::Recording {
            path: self.output.clone(),
            reason: format!("{error}{}", error.remedy()),
        }
    }
}

/// Reports the findings from packing the workload to the user.
fn report_notes(payload: &Payload, observer: &mut dyn Observer) {
    if let Some(note) = &payload.note {
        observer.note(note);
    }
    for note in payload.programs.iter().flat_map(Programs::notes) {
        observer.note(&note);
    }
}

/// Ends a guest whose command has ended; returns the failed system calls of programs.
fn ended(mut vm: Vm) -> Result<Vec<RefusedCall>, GuestError> {
    // A killed command has a status of its own: the kernel's message says more.
    let out_of_memory = vm.out_of_memory();
    vm.release()?;
    let words = vm.quit()?;
    if let Some(reason) = words.complaint {
        return Err(GuestError::Recorder(reason));
    }
    match out_of_memory {
        Some(words) => Err(GuestError::OutOfMemory { words }),
        None => Ok(words.refusals),
    }
}

/// What is left of a failed run. The older recording stays where it is.
fn keep(draft: Draft, cause: GuestError, worth: bool) -> Failure {
    // Without events it answers no question. Kept under the draft's name.
    let kept = if worth { draft.keep().ok() } else { None };
    Failure { cause, kept }
}

/// A copy that only its owner can read.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut copy = write_private(to, b"")?;
    io::copy(&mut File::open(from)?, &mut copy).map(drop)
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
        doing: Stage::Recording.name(),
        message: "no status of the command".to_owned(),
    })
}

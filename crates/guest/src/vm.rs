//! A running QEMU: started, watched until the guest pauses or fails, read, and never left behind.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use linemate_files::write_private;
use serde_json::{Value, json};

use crate::barrier::{BARRIER_BYTES, PIPE_BYTES, make_barrier, make_pipe};
use crate::boot_console::BootConsole;
use crate::control::{Message, Pause};
use crate::error::GuestError;
use crate::observer::{Observer, OutputStream, Progress, RECORDER_ERROR, RefusedCall};
use crate::process::{Awaited, Process};
use crate::processors::CpuSlot;
use crate::qemu::{self, GuestFiles, Inherited, Plugin, Qemu, Start};
use crate::qmp::{Qmp, QmpError};
use crate::shape::GuestShape;
use crate::space;
use crate::text::{
    Tail, console_lines, contains, find_line, last_line, last_words, read_lossy, take_line,
};

/// How often output and limits are checked while the guest runs.
const TICK: Duration = Duration::from_millis(10);

/// How long QEMU may take to end after `quit`: the recorder flushes its data.
const QUIT_LIMIT: Duration = Duration::from_secs(120);

/// How long a panicked kernel may take to end QEMU.
const PANIC_LIMIT: Duration = Duration::from_secs(5);

/// How long QEMU may do nothing at all while the guest should run.
const STALL_LIMIT: Duration = Duration::from_secs(60);

/// For how many checks in a row, a millisecond apart, QEMU's main thread has to wait for its other
/// threads, or for events, until this counts: it waits briefly for other things, too.
const ORDER_TICKS: u32 = 50;

/// How long QEMU gets to take an order if the system does not report what its threads do.
const ORDER_TIME: Duration = Duration::from_secs(3);

/// The prefix of the agent's lines in the kernel's log.
const AGENT: &str = "linemate: ";

/// A running guest.
///
/// While it runs, nothing is sent to QEMU: anything that wakes its main loop at a host time can
/// move the guest's clock when all processors are idle. The control connection is greeted only when
/// the guest has stopped.
#[derive(Debug)]
pub(crate) struct Vm {
    process: Process,
    monitor: Monitor,
    files: GuestFiles,
    barrier: File,
    /// Releases a held guest.
    hold: Option<File>,
    control: Tail,
    stdout: Tail,
    stderr: Tail,
    console: Tail,
    words: Tail,
    progress: Progress,
    boot: BootConsole,
    partial_line: Vec<u8>,
    partial_words: Vec<u8>,
    recorder_error: Option<String>,
    panicked: Option<Instant>,
}

#[derive(Debug)]
enum Monitor {
    Silent(Option<UnixStream>),
    Greeted(Qmp),
}

/// The recorder's reports until it ended.
pub(crate) struct RecorderWords {
    /// Its error, if any.
    pub(crate) complaint: Option<String>,
    /// Failed system calls of programs, the latest first.
    pub(crate) refusals: Vec<RefusedCall>,
}

/// The limits under which a guest is watched.
pub(crate) struct GuestWatch<'a> {
    /// What the guest is doing, for messages.
    pub(crate) doing: &'static str,
    /// When time is up, and the limit behind it.
    pub(crate) limit: Option<(Instant, u64)>,
    /// A guest whose processors all do nothing for this long is dead: true with deterministic
    /// timing, where an idle guest's clock jumps to its next timer at once.
    pub(crate) lively: bool,
    /// For a boot: the processor time that may pass without a new CPU or line on the console.
    pub(crate) silence: Option<Duration>,
    /// The file whose growth counts as progress.
    pub(crate) recording: Option<&'a File>,
    /// Set when the user wants to stop.
    pub(crate) cancel: &'a AtomicBool,
    pub(crate) observer: &'a mut dyn Observer,
}

/// Makes the files that QEMU and the guest write, and the pipe that holds the guest.
fn make_empty(files: &GuestFiles) -> Result<(), GuestError> {
    for path in [
        files.console(),
        files.control(),
        files.stdout(),
        files.stderr(),
        files.memory(),
    ] {
        write_private(&path, b"").map_err(GuestError::io("create", &path))?;
    }
    make_pipe(&files.hold()).map_err(GuestError::io("create a pipe in", &files.hold()))
}

impl Vm {
    /// Starts QEMU, with the recorder from `library` if there is one; the guest runs at once.
    pub(crate) fn start(
        qemu: &Qemu,
        shape: &GuestShape,
        files: &GuestFiles,
        plugin: Option<(&Path, &Plugin)>,
        start: Start,
    ) -> Result<Self, GuestError> {
        let mut arguments = qemu::arguments(shape, start)?;
        let user = qemu.confinement.user();
        let mut inherited = Inherited::default();
        if let Some((library, plugin)) = plugin {
            let library =
                files.library(library, qemu.confinement.has_fewer_rights(), &mut inherited)?;
            arguments.extend(qemu::plugin_arguments(plugin, &library, &mut inherited)?);
        }
        // An unnamed pair: nobody else can talk to QEMU.
        let (ours, theirs) =
            UnixStream::pair().map_err(GuestError::io("make a socket for", &files.control()))?;
        make_empty(files)?;
        let barrier = make_barrier(&files.barrier())
            .map_err(GuestError::io("create a pipe in", &files.barrier()))?;
        let words_path = files.qemu_words();
        let words =
            write_private(&words_path, b"").map_err(GuestError::io("create", &words_path))?;
        let clone = words
            .try_clone()
            .map_err(GuestError::io("create", &words_path))?;
        // When all files exist: QEMU may not add any.
        if let Some(user) = user {
            files.give_to(user)?;
        }
        let mut command = qemu.confinement.command(&qemu.program);
        let child = command
            .args(arguments)
            .args(qemu.confinement.arguments())
            .current_dir(files.folder())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(words)
            .stderr(clone)
            // Ctrl-C is for this process: the guest is then ended cleanly.
            .process_group(0)
            .spawn()
            .map_err(|_| GuestError::QemuMissing {
                program: qemu.program.clone(),
            })?;
        drop(inherited);
        // QEMU's end of the socket must close with QEMU, and the builder still holds it.
        drop(command);
        Ok(Vm {
            process: Process::new(child),
            monitor: Monitor::Silent(Some(ours)),
            barrier,
            hold: None,
            control: Tail::new(files.control()),
            stdout: Tail::new(files.stdout()),
            stderr: Tail::new(files.stderr()),
            console: Tail::new(files.console()),
            words: Tail::new(words_path),
            files: files.clone(),
            progress: Progress::default(),
            boot: BootConsole::new(shape.cpus),
            partial_line: Vec::new(),
            partial_words: Vec::new(),
            recorder_error: None,
            panicked: None,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.child.id()
    }

    /// The control connection, greeted when first needed.
    fn qmp(&mut self) -> Result<&mut Qmp, QmpError> {
        if let Monitor::Silent(stream) = &mut self.monitor {
            let stream = stream.take().ok_or(QmpError::Closed)?;
            self.monitor = Monitor::Greeted(Qmp::new(stream)?);
        }
        match &mut self.monitor {
            Monitor::Greeted(qmp) => Ok(qmp),
            Monitor::Silent(_) => Err(QmpError::Closed),
        }
    }

    fn execute(&mut self, command: &str, arguments: Value) -> Result<Value, GuestError> {
        let answer = self.qmp().and_then(|qmp| qmp.execute(command, arguments));
        answer.map_err(|error| self.monitor_error(error))
    }

    /// The error behind a failed conversation.
    fn monitor_error(&mut self, error: QmpError) -> GuestError {
        match error {
            QmpError::Closed => self.process.died(&self.files, "being asked to stop"),
            other => other.into(),
        }
    }

    /// Plugs CPUs into a held guest, and releases it.
    ///
    /// It executes nothing meanwhile, so QEMU's work for these commands falls between two of its
    /// instructions, whenever that is done.
    pub(crate) fn plug(&mut self, slots: &[CpuSlot]) -> Result<(), GuestError> {
        for slot in slots {
            self.execute("device_add", slot.arguments())?;
        }
        let Some(pipe) = self.hold.take() else {
            return Ok(());
        };
        // As soon as all CPUs are idle, whatever the main thread still does can move the clock.
        self.until_main_thread_waits_for(Awaited::Events)?;
        self.end_hold(pipe)
    }

    /// Ends a held guest's blocks of one instruction.
    pub(crate) fn allow_long_blocks(&mut self) -> Result<(), GuestError> {
        let command = json!({ "command-line": "one-insn-per-tb off" });
        self.execute("human-monitor-command", command).map(drop)
    }

    fn end_hold(&self, mut pipe: File) -> Result<(), GuestError> {
        let written = pipe.write_all(b".");
        written.map_err(GuestError::io("write", &self.files.hold()))
    }

    /// Saves the paused machine of this shape to its disk.
    pub(crate) fn save(&mut self, shape: &GuestShape) -> Result<(), GuestError> {
        let command = format!("savevm {}", qemu::SNAPSHOT);
        let said = self.execute("human-monitor-command", json!({ "command-line": command }))?;
        // The command has no machine-readable form that takes the disk by name on all versions; it
        // prints nothing on success.
        match said.as_str().map(str::trim) {
            Some("") => Ok(()),
            said => {
                if let Some(full) =
                    space::full("the booted guest", &self.files.disk(), shape.state_bytes())
                {
                    return Err(full);
                }
                let source = io::Error::other(said.unwrap_or("no answer").to_owned());
                Err(GuestError::Io {
                    doing: "save the guest to",
                    path: self.files.disk(),
                    source,
                })
            }
        }
    }

    /// Runs until the guest is paused, passing its output on, and returns its reports until then.
    pub(crate) fn run_to_pause(
        &mut self,
        watch: &mut GuestWatch<'_>,
    ) -> Result<(Pause, Vec<Message>), GuestError> {
        let mut said = Vec::new();
        loop {
            // Before its output is read: its last words are then included.
            let ended = self.process.has_ended();
            self.read_messages(&mut said, watch)?;
            // The last message: after it the guest says nothing until it is released.
            if let Some(Message::Pause(pause)) = said.last() {
                let pause = *pause;
                self.until_still(pause)?;
                return Ok((pause, said));
            }
            if ended {
                return Err(self.why_ended(&said, watch.doing));
            }
            // Not every kernel ends QEMU when it panics.
            if self.panicked.is_some_and(|at| at.elapsed() > PANIC_LIMIT) {
                return Err(self.ended(watch.doing));
            }
            self.check(watch)?;
            self.check_boot(watch)?;
            thread::sleep(TICK);
        }
    }

    /// Whether the guest may run on.
    fn check(&mut self, watch: &mut GuestWatch<'_>) -> Result<(), GuestError> {
        // Anything that still runs would not be recorded.
        if let Some(reason) = self.recorder_error.take() {
            return Err(GuestError::Recorder(reason));
        }
        if watch.cancel.load(Ordering::Relaxed) {
            return Err(GuestError::Interrupted { doing: watch.doing });
        }
        if let Some((when, seconds)) = watch.limit {
            if Instant::now() >= when {
                return Err(GuestError::Timeout {
                    doing: watch.doing,
                    seconds,
                });
            }
        }
        // In processor time of QEMU, because a spinning guest makes progress of a kind.
        if watch.lively && self.process.idle_for() > STALL_LIMIT {
            let (seconds, doing) = (STALL_LIMIT.as_secs(), watch.doing);
            return Err(GuestError::Stalled {
                doing,
                seconds,
                console: self.console_end(),
            });
        }
        if let Some(recording) = watch.recording {
            self.progress.bytes = recording.metadata().map_or(0, |file| file.len());
        }
        watch.observer.progress(&self.progress);
        Ok(())
    }

    /// Reports the progress of a boot, and ends one that makes none.
    fn check_boot(&mut self, watch: &mut GuestWatch<'_>) -> Result<(), GuestError> {
        let Some(limit) = watch.silence else {
            return Ok(());
        };
        let Some(now) = self.process.processor_time() else {
            return Ok(());
        };
        if let Some(progress) = self.boot.check(now, limit)? {
            watch.observer.booting(&progress);
        }
        Ok(())
    }

    /// The agent announces a pause just before it makes it.
    fn until_still(&mut self, pause: Pause) -> Result<(), GuestError> {
        let deadline = Instant::now() + QUIT_LIMIT;
        while Instant::now() < deadline {
            let still = match pause {
                Pause::Processors | Pause::Snapshot => self.at_hold()?,
                // The pipe is full: QEMU waits with the last byte.
                Pause::Start | Pause::Stop => self.at_barrier(),
            };
            if still {
                return Ok(());
            }
            if self.process.has_ended() {
                return Err(self.process.died(&self.files, "stopping the guest"));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Err(GuestError::Timeout {
            doing: "standing still",
            seconds: QUIT_LIMIT.as_secs(),
        })
    }

    /// Whether the guest is held where it is saved.
    fn at_hold(&mut self) -> Result<bool, GuestError> {
        let path = self.files.hold();
        // Opening the writing end succeeds only when the other side reads: that is the signal.
        let mut options = OpenOptions::new();
        options
            .write(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
        match options.open(&path) {
            Ok(pipe) => self.hold = Some(pipe),
            // Nobody reads it yet.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {}
            Err(source) => return Err(GuestError::io("open", &path)(source)),
        }
        Ok(self.hold.is_some())
    }

    /// Stops a held guest at the mark that holds it.
    ///
    /// QEMU's main thread receives the order and then waits for the processors. The guest must not
    /// be released before: it would run on until the order arrives.
    pub(crate) fn stop_held(&mut self) -> Result<(), GuestError> {
        let Some(pipe) = self.hold.take() else {
            return Ok(());
        };
        let sent = self.qmp().and_then(|qmp| qmp.send("stop", json!({})));
        sent.map_err(|error| self.monitor_error(error))?;
        // The only sign that the order has arrived is that the main thread waits for the
        // processors.
        self.until_main_thread_waits_for(Awaited::Threads)?;
        self.end_hold(pipe)?;
        let answer = self.qmp().and_then(|qmp| qmp.answer("stop"));
        answer.map_err(|error| self.monitor_error(error))?;
        Ok(())
    }

    /// Returns when QEMU's main thread has done what it had to do and waits for that.
    fn until_main_thread_waits_for(&self, awaited: Awaited) -> Result<(), GuestError> {
        let deadline = Instant::now() + QUIT_LIMIT;
        let mut waiting = 0;
        while Instant::now() < deadline {
            match self.process.main_thread_waits_for(awaited) {
                Some(true) => waiting += 1,
                Some(false) => waiting = 0,
                None => {
                    thread::sleep(ORDER_TIME);
                    return Ok(());
                }
            }
            if waiting == ORDER_TICKS {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(1));
        }
        Err(GuestError::Timeout {
            doing: "taking an order",
            seconds: QUIT_LIMIT.as_secs(),
        })
    }

    /// Releases a guest that waits at the barrier.
    pub(crate) fn release(&mut self) -> Result<(), GuestError> {
        // All of it, including the waiting byte: the next barrier counts from an empty pipe.
        let mut left = BARRIER_BYTES;
        let mut buffer = [0; BARRIER_BYTES];
        while left > 0 {
            match self
                .barrier
                .read(buffer.get_mut(..left).unwrap_or_default())
            {
                Ok(bytes) => left -= bytes,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if self.process.has_ended() {
                        return Err(self.process.died(&self.files, "waiting for the host"));
                    }
                    thread::sleep(Duration::from_micros(200));
                }
                Err(source) => {
                    let path = self.files.barrier();
                    return Err(GuestError::Io {
                        doing: "read",
                        path,
                        source,
                    });
                }
            }
        }
        Ok(())
    }

    /// Reads the new control lines and passes new output on.
    fn read_messages(
        &mut self,
        said: &mut Vec<Message>,
        watch: &mut GuestWatch<'_>,
    ) -> Result<(), GuestError> {
        let console = self.console.read()?;
        self.boot.read(&console);
        if contains(&console, b"Kernel panic") {
            self.panicked.get_or_insert_with(Instant::now);
        }
        self.partial_words.extend(self.words.read()?);
        while let Some(line) = take_line(&mut self.partial_words) {
            self.progress.learn(&line);
            // The first one: those that follow are its consequences.
            if let (None, Some(reason)) = (&self.recorder_error, line.strip_prefix(RECORDER_ERROR))
            {
                self.recorder_error = Some(reason.to_owned());
            }
        }
        for (tail, stream) in [
            (&mut self.stdout, OutputStream::Stdout),
            (&mut self.stderr, OutputStream::Stderr),
        ] {
            let bytes = tail.read()?;
            if !bytes.is_empty() {
                let passed = watch.observer.output(stream, &bytes);
                passed.map_err(|reason| GuestError::Output { reason })?;
            }
        }
        self.partial_line.extend(self.control.read()?);
        while let Some(line) = take_line(&mut self.partial_line) {
            said.push(Message::parse(&line).ok_or_else(|| GuestError::Protocol {
                doing: watch.doing,
                message: line.clone(),
            })?);
        }
        Ok(())
    }

    /// Reads guest memory by CPU 0's page tables.
    pub(crate) fn read_virtual(&mut self, addr: u64, len: u64) -> Result<Vec<u8>, GuestError> {
        let arguments = json!({ "val": addr, "size": len, "cpu-index": 0,
            "filename": qemu::MEMORY });
        self.execute("memsave", arguments)?;
        self.take_memory()
    }

    fn take_memory(&mut self) -> Result<Vec<u8>, GuestError> {
        let path = self.files.memory();
        fs::read(&path).map_err(GuestError::io("read", &path))
    }

    /// Ends QEMU and waits for it: the recorder finishes its file meanwhile.
    pub(crate) fn quit(mut self) -> Result<RecorderWords, GuestError> {
        match self.qmp().and_then(|qmp| qmp.execute("quit", json!({}))) {
            // QEMU may close the connection before its answer has been sent.
            Ok(_) | Err(QmpError::Closed) => {}
            Err(error) => return Err(error.into()),
        }
        let deadline = Instant::now() + QUIT_LIMIT;
        while Instant::now() < deadline {
            match self.process.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(self.recorder_words()),
                Ok(Some(_)) => return Err(self.process.died(&self.files, "ending")),
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                Err(_) => break,
            }
        }
        Err(GuestError::Timeout {
            doing: "ending",
            seconds: QUIT_LIMIT.as_secs(),
        })
    }

    /// Ends a failed guest, so that the recorder can still flush its data; returns the failure.
    pub(crate) fn give_up(mut self, error: GuestError) -> GuestError {
        if self.process.has_ended() {
            return error;
        }
        // A guest at the barrier holds QEMU's lock; one that is elsewhere has nothing to release.
        if self.at_barrier() && self.release().is_err() {
            return error;
        }
        // Whatever goes wrong now, the first failure is the one to report.
        let _ = self.quit();
        error
    }

    fn at_barrier(&self) -> bool {
        rustix::io::ioctl_fionread(&self.barrier).is_ok_and(|bytes| bytes >= PIPE_BYTES as u64)
    }

    fn recorder_words(&self) -> RecorderWords {
        let words = read_lossy(&self.files.qemu_words());
        let complaint = words
            .lines()
            .find_map(|line| line.strip_prefix(RECORDER_ERROR));
        RecorderWords {
            complaint: complaint.map(str::to_owned),
            refusals: RefusedCall::parse_all(&words),
        }
    }

    fn why_ended(&self, said: &[Message], doing: &'static str) -> GuestError {
        for message in said {
            match message {
                Message::Error(text) => return GuestError::Agent(text.clone()),
                Message::SetupEnded(status) if !status.is_success() => {
                    return GuestError::Setup {
                        status: status.to_string(),
                    };
                }
                _ => {}
            }
        }
        // A kernel that never printed anything was not started: QEMU knows why.
        if self.console_is_silent() {
            let mut words = read_lossy(&self.files.qemu_words());
            words.retain(|c| c != '\r');
            if let Some(line) = last_words(&words) {
                return GuestError::QemuDied { doing, words: line };
            }
        }
        self.ended(doing)
    }

    fn ended(&self, doing: &'static str) -> GuestError {
        let console = console_lines(&self.files);
        if let Some(words) = find_line(&console, "Kernel panic") {
            // With no process left to kill, the kernel panics.
            if words.contains("deadlocked on memory") || words.contains("Out of memory") {
                return GuestError::OutOfMemory { words };
            }
            return GuestError::Panic { doing, words };
        }
        // The agent's own words if it has no other way to the host.
        if let Some(words) = find_line(&console, AGENT) {
            return GuestError::Agent(words.trim_start_matches(AGENT).to_owned());
        }
        GuestError::Ended {
            doing,
            console: last_line(&console),
        }
    }

    /// The kernel's message when it kills a process for memory.
    pub(crate) fn out_of_memory(&self) -> Option<String> {
        find_line(&console_lines(&self.files), "Out of memory: Killed process")
            .or_else(|| find_line(&console_lines(&self.files), "Memory cgroup out of memory"))
    }

    fn console_is_silent(&self) -> bool {
        console_lines(&self.files).trim().is_empty()
    }

    /// The last line on the console.
    pub(crate) fn console_end(&self) -> String {
        last_line(&console_lines(&self.files))
    }
}

//! A running QEMU: started, watched until the guest pauses or fails, read, and never left behind.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::control::{Message, Pause};
use crate::error::GuestError;
use crate::observer::{Observer, Stream};
use crate::qemu::GuestFiles;
use crate::qmp::{Qmp, QmpError};

/// How often output and limits are looked at while the guest runs.
const TICK: Duration = Duration::from_millis(50);

/// How long QEMU may take to end after it was asked to: the recorder writes out what it holds.
const QUIT_LIMIT: Duration = Duration::from_secs(120);

/// A running guest.
#[derive(Debug)]
pub(crate) struct Vm {
    process: Process,
    qmp: Qmp,
    files: GuestFiles,
    control: Tail,
    stdout: Tail,
    stderr: Tail,
    partial_line: Vec<u8>,
}

/// The limits under which a guest is watched.
pub(crate) struct Watch<'a> {
    /// What the guest is doing, for messages.
    pub(crate) doing: &'static str,
    /// When time is up, and the limit that it stands for.
    pub(crate) limit: Option<(Instant, u64)>,
    /// Set when the user wants to stop.
    pub(crate) cancel: &'a AtomicBool,
    /// Whom to tell.
    pub(crate) observer: &'a mut dyn Observer,
}

impl Vm {
    /// Starts QEMU with `arguments`.
    pub(crate) fn start(
        program: &str,
        arguments: &[std::ffi::OsString],
        files: &GuestFiles,
    ) -> Result<Self, GuestError> {
        let (ours, theirs) =
            UnixStream::pair().map_err(GuestError::io("make a socket for", &files.control()))?;
        for path in [
            files.console(),
            files.control(),
            files.stdout(),
            files.stderr(),
        ] {
            File::create(&path).map_err(GuestError::io("create", &path))?;
        }
        let words_path = files.qemu_words();
        let words = File::create(&words_path).map_err(GuestError::io("create", &words_path))?;
        let clone = words
            .try_clone()
            .map_err(GuestError::io("create", &words_path))?;
        let mut command = tied_to_us(program);
        let child = command
            .args(arguments)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(words)
            .stderr(clone)
            // Ctrl-C is for us: the guest is then ended in an orderly way.
            .process_group(0)
            .spawn()
            .map_err(|_| GuestError::QemuMissing {
                program: program.to_owned(),
            })?;
        // QEMU's end of the socket must close with QEMU, and the builder still holds it.
        drop(command);
        let mut process = Process(child);
        let qmp = match Qmp::new(ours) {
            Ok(qmp) => qmp,
            Err(QmpError::Closed) => return Err(process.died(files, "starting")),
            Err(error) => return Err(error.into()),
        };
        Ok(Vm {
            process,
            qmp,
            control: Tail::new(files.control()),
            stdout: Tail::new(files.stdout()),
            stderr: Tail::new(files.stderr()),
            files: files.clone(),
            partial_line: Vec::new(),
        })
    }

    /// Lets the guest go on.
    pub(crate) fn resume(&mut self) -> Result<(), GuestError> {
        self.qmp.execute("cont", json!({}))?;
        Ok(())
    }

    /// Saves the paused machine.
    pub(crate) fn save(&mut self, path: &Path) -> Result<(), GuestError> {
        self.qmp.execute(
            "migrate",
            json!({ "uri": format!("file:{}", path.display()) }),
        )?;
        loop {
            let answer = self.qmp.execute("query-migrate", json!({}))?;
            match answer["status"].as_str() {
                Some("completed") => return Ok(()),
                Some("failed" | "cancelled") => {
                    let source = io::Error::other(
                        answer["error-desc"]
                            .as_str()
                            .unwrap_or("QEMU gives no reason")
                            .to_owned(),
                    );
                    return Err(GuestError::Io {
                        doing: "save the guest to",
                        path: path.to_owned(),
                        source,
                    });
                }
                _ => thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Loads a saved machine into a QEMU that was started to wait for it. It stays paused.
    pub(crate) fn restore(&mut self, path: &Path) -> Result<(), GuestError> {
        // Announcing the machine on the network wakes the main loop at host times, which the guest's timers
        // would see.
        self.qmp
            .execute("migrate-set-parameters", json!({ "announce-rounds": 0 }))?;
        let uri = format!("file:{}", path.display());
        self.qmp
            .execute("migrate-incoming", json!({ "uri": uri }))?;
        loop {
            let status = self.qmp.execute("query-status", json!({}));
            let status = status.map_err(|error| self.explain(error, "loading the snapshot"))?;
            match status["status"].as_str() {
                Some("inmigrate" | "finish-migrate" | "prelaunch") => {
                    thread::sleep(Duration::from_millis(5));
                }
                _ => return Ok(()),
            }
        }
    }

    /// Runs until the guest pauses itself, passing its output on, and returns what it said until then.
    pub(crate) fn run_to_pause(
        &mut self,
        watch: &mut Watch<'_>,
    ) -> Result<(Pause, Vec<Message>), GuestError> {
        let mut said = Vec::new();
        loop {
            let event = match self.qmp.event(TICK) {
                Ok(event) => event,
                Err(error) => {
                    self.hear(&mut said, watch)?;
                    return Err(self.explain(error, watch.doing));
                }
            };
            self.hear(&mut said, watch)?;
            match event.as_deref() {
                Some("GUEST_PANICKED") => {
                    self.until_stopped()?;
                    self.hear(&mut said, watch)?;
                    if let Some(Message::Pause(pause)) = said.last() {
                        return Ok((*pause, said));
                    }
                    // A kernel with its own pvpanic driver announces its panics there too.
                    return Err(self.ended(watch.doing));
                }
                Some("SHUTDOWN") => {
                    self.hear(&mut said, watch)?;
                    return Err(self.why_ended(&said, watch.doing));
                }
                _ => {}
            }
            if watch.cancel.load(Ordering::Relaxed) {
                return Err(GuestError::Interrupted { doing: watch.doing });
            }
            if let Some((when, seconds)) = watch.limit
                && Instant::now() >= when
            {
                return Err(GuestError::Timeout {
                    doing: watch.doing,
                    seconds,
                });
            }
            watch.observer.tick();
        }
    }

    /// Takes the new control lines and passes new output on.
    fn hear(&mut self, said: &mut Vec<Message>, watch: &mut Watch<'_>) -> Result<(), GuestError> {
        for (tail, stream) in [
            (&mut self.stdout, Stream::Stdout),
            (&mut self.stderr, Stream::Stderr),
        ] {
            let bytes = tail.read()?;
            if !bytes.is_empty() {
                watch.observer.output(stream, &bytes);
            }
        }
        self.partial_line.extend(self.control.read()?);
        while let Some(end) = self.partial_line.iter().position(|&b| b == b'\n') {
            let line: Vec<u8> = self.partial_line.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            said.push(Message::parse(&line).ok_or_else(|| GuestError::Protocol {
                doing: watch.doing,
                message: line.clone(),
            })?);
        }
        Ok(())
    }

    fn until_stopped(&mut self) -> Result<(), GuestError> {
        loop {
            let status = self.qmp.execute("query-status", json!({}))?;
            if status["running"] == json!(false) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Reads guest memory by CPU 0's page tables.
    pub(crate) fn read_virtual(&mut self, addr: u64, len: u64) -> Result<Vec<u8>, GuestError> {
        let arguments = json!({ "val": addr, "size": len, "cpu-index": 0,
            "filename": self.files.memory().to_string_lossy() });
        self.qmp.execute("memsave", arguments)?;
        self.take_memory()
    }

    /// Reads guest memory by physical address.
    pub(crate) fn read_physical(&mut self, addr: u64, len: u64) -> Result<Vec<u8>, GuestError> {
        let arguments = json!({ "val": addr, "size": len,
            "filename": self.files.memory().to_string_lossy() });
        self.qmp.execute("pmemsave", arguments)?;
        self.take_memory()
    }

    fn take_memory(&mut self) -> Result<Vec<u8>, GuestError> {
        let path = self.files.memory();
        fs::read(&path).map_err(GuestError::io("read", &path))
    }

    /// Ends QEMU and waits until it has: the recorder finishes its file on the way.
    pub(crate) fn quit(mut self) -> Result<(), GuestError> {
        match self.qmp.execute("quit", json!({})) {
            Ok(_) | Err(QmpError::Closed) => {}
            Err(error) => return Err(error.into()),
        }
        let deadline = Instant::now() + QUIT_LIMIT;
        while Instant::now() < deadline {
            match self.process.0.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(_)) => return Err(self.process.died(&self.files, "ending")),
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                Err(_) => break,
            }
        }
        let seconds = QUIT_LIMIT.as_secs();
        Err(GuestError::Timeout {
            doing: "ending",
            seconds,
        })
    }

    /// What QEMU and the recorder wrote to their standard error.
    pub(crate) fn words(&self) -> String {
        fs::read_to_string(self.files.qemu_words()).unwrap_or_default()
    }

    /// A closed connection means that QEMU has ended: says how.
    fn explain(&mut self, error: QmpError, doing: &'static str) -> GuestError {
        match error {
            QmpError::Closed => self.process.died(&self.files, doing),
            other => other.into(),
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
        self.ended(doing)
    }

    fn ended(&self, doing: &'static str) -> GuestError {
        let console = console_lines(&self.files);
        if let Some(words) = find_line(&console, "Kernel panic") {
            if words.contains("deadlocked on memory") || words.contains("Out of memory") {
                return GuestError::OutOfMemory { words };
            }
            return GuestError::Panic { doing, words };
        }
        GuestError::Ended {
            doing,
            console: last_line(&console),
        }
    }

    /// The kernel's message when it killed a process for memory.
    pub(crate) fn out_of_memory(&self) -> Option<String> {
        find_line(&console_lines(&self.files), "Out of memory: Killed process")
            .or_else(|| find_line(&console_lines(&self.files), "Memory cgroup out of memory"))
    }

    /// The last line on the console.
    pub(crate) fn console_end(&self) -> String {
        last_line(&console_lines(&self.files))
    }
}

/// QEMU's process: killed when it is forgotten.
#[derive(Debug)]
struct Process(Child);

impl Process {
    /// Waits for a process that is known to end, and says how it did.
    fn died(&mut self, files: &GuestFiles, doing: &'static str) -> GuestError {
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut status = "still running".to_owned();
        while Instant::now() < deadline {
            if let Ok(Some(found)) = self.0.try_wait() {
                status = found.to_string();
                break;
            }
            thread::sleep(TICK);
        }
        let words = fs::read_to_string(files.qemu_words()).unwrap_or_default();
        let words = words
            .lines()
            .rfind(|line| !line.trim().is_empty())
            .unwrap_or("it said nothing");
        GuestError::QemuDied {
            doing,
            status,
            words: words.to_owned(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when it has ended and was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command whose process is killed when we die, by whatever signal: by `setpriv`, because the system call
/// has to be made by the child itself. Without `setpriv` (util-linux) only an orderly end takes QEMU along.
fn tied_to_us(program: &str) -> Command {
    let setpriv = Path::new("/usr/bin/setpriv");
    if !setpriv.is_file() {
        return Command::new(program);
    }
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--", program]);
    command
}

/// A file that grows, read from where the last reading ended.
#[derive(Debug)]
struct Tail {
    path: PathBuf,
    at: u64,
}

impl Tail {
    fn new(path: PathBuf) -> Self {
        Tail { path, at: 0 }
    }

    fn read(&mut self) -> Result<Vec<u8>, GuestError> {
        let mut bytes = Vec::new();
        let mut read = || -> io::Result<()> {
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(self.at))?;
            file.read_to_end(&mut bytes)?;
            Ok(())
        };
        read().map_err(GuestError::io("read", &self.path))?;
        self.at += bytes.len() as u64;
        Ok(bytes)
    }
}

fn console_lines(files: &GuestFiles) -> String {
    String::from_utf8_lossy(&fs::read(files.console()).unwrap_or_default()).into_owned()
}

fn find_line(console: &str, words: &str) -> Option<String> {
    console
        .lines()
        .find(|line| line.contains(words))
        .map(without_time_stamp)
}

fn last_line(console: &str) -> String {
    let line = console.lines().rfind(|line| !line.trim().is_empty());
    line.map_or_else(|| "nothing".to_owned(), without_time_stamp)
}

/// `[    1.234567] words` → `words`, and no control characters.
fn without_time_stamp(line: &str) -> String {
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    let rest = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "));
    match rest {
        Some((stamp, words)) if stamp.trim().parse::<f64>().is_ok() => words.to_owned(),
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn console_lines_lose_their_time_stamps() {
        let console = "[    0.1] one\r\n[    2.345] Kernel panic - not syncing: No init\r\n\r\n";
        assert_eq!(
            find_line(console, "Kernel panic").as_deref(),
            Some("Kernel panic - not syncing: No init")
        );
        assert_eq!(last_line(console), "Kernel panic - not syncing: No init");
        assert_eq!(last_line("\r\n"), "nothing");
        assert_eq!(last_line("[x] y"), "[x] y");
    }

    #[test]
    fn a_tail_gives_each_byte_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "ab").unwrap();
        let mut tail = Tail::new(path.clone());
        assert_eq!(tail.read().unwrap(), b"ab");
        assert_eq!(tail.read().unwrap(), b"");
        fs::write(&path, "abc").unwrap();
        assert_eq!(tail.read().unwrap(), b"c");
    }
}

//! Finds QEMU, and builds a guest's command line.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use linemate_files::write_private;

use crate::confinement::Confinement;
use crate::error::GuestError;
use crate::processors::{CpuSlot, Processors};
use crate::run_folder::LOCK;
use crate::shape::{GuestShape, ShapeError};

/// The emulator's name; `LINEMATE_QEMU` overrides it.
const PROGRAM: &str = "qemu-system-x86_64";

/// Plugin API 4: values in memory callbacks.
const OLDEST: (u32, u32) = (9, 2);

/// An emulator that can record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qemu {
    pub program: String,
    /// Its version line, part of every snapshot's key.
    pub version: String,
    /// What QEMU may do on the host.
    pub confinement: Confinement,
}

impl Qemu {
    /// Finds QEMU (`LINEMATE_QEMU`, or `qemu-system-x86_64` in the search path) and checks its
    /// version.
    ///
    /// # Errors
    /// Missing, too old, without plugins, or not QEMU.
    pub fn find() -> Result<Self, GuestError> {
        let program = std::env::var("LINEMATE_QEMU").unwrap_or_else(|_| PROGRAM.to_owned());
        // QEMU is started in the run's folder.
        let program = absolute(program);
        let version = words(&program, "--version")?;
        let version = version.lines().next().unwrap_or_default().to_owned();
        check_version(&program, &version)?;
        let help = words(&program, "-help")?;
        // By its options: a version does not show how it was built.
        if !help.contains("-plugin ") {
            return Err(GuestError::QemuWithoutPlugins { program });
        }
        let confinement = Confinement::find(&program);
        Ok(Qemu {
            program,
            version,
            confinement,
        })
    }
}

/// A path that means the same in another folder; a bare name is looked up in the search path.
fn absolute(program: String) -> String {
    if !program.contains('/') {
        return program;
    }
    let path = std::path::absolute(&program).ok();
    path.and_then(|path| path.into_os_string().into_string().ok())
        .unwrap_or(program)
}

fn words(program: &str, argument: &str) -> Result<String, GuestError> {
    let output =
        Command::new(program)
            .arg(argument)
            .output()
            .map_err(|_| GuestError::QemuMissing {
                program: program.to_owned(),
            })?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn check_version(program: &str, line: &str) -> Result<(), GuestError> {
    let number = line.split_once("version ").and_then(|(_, rest)| {
        let mut parts = rest.split(|c: char| !c.is_ascii_digit());
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    });
    match number {
        None => Err(GuestError::QemuUnknown {
            program: program.to_owned(),
            said: line.to_owned(),
        }),
        Some(version) if version < OLDEST => {
            let found = format!("{}.{}", version.0, version.1);
            Err(GuestError::QemuTooOld {
                program: program.to_owned(),
                found,
            })
        }
        Some(_) => Ok(()),
    }
}

/// The purpose of loading the recorder.
#[derive(Debug)]
pub(crate) enum Plugin {
    Record(PluginOptions),
    /// To hold the guest where it is saved.
    Hold,
}

impl Plugin {
    /// The recording that it writes.
    pub(crate) fn recording(&self) -> Option<&File> {
        match self {
            Plugin::Record(options) => Some(&options.recording),
            Plugin::Hold => None,
        }
    }

    /// `recording` is the number of the recording's descriptor in QEMU.
    fn to_argument(&self, library: &str, recording: RawFd) -> String {
        match self {
            Plugin::Record(options) => options.to_argument(library, recording),
            Plugin::Hold => format!("{library},hold={HOLD}"),
        }
    }
}

/// The recorder's options, as QEMU's `-plugin` takes them.
#[derive(Debug)]
pub(crate) struct PluginOptions {
    /// Open for reading and writing.
    pub(crate) recording: File,
    pub(crate) memory_bytes: u64,
    pub(crate) user: bool,
    pub(crate) program: bool,
    /// The kernel's silent stores are not wanted.
    pub(crate) contents_unknown: bool,
    pub(crate) whole_boot: bool,
    pub(crate) parallel: bool,
    /// Instructions of a CPU's turn.
    pub(crate) turn: Option<u32>,
    /// The run's seed, from which the differences between turns are drawn.
    pub(crate) seed: u32,
    /// The host has one CPU for QEMU: an encoding thread would only take turns with the guest's.
    pub(crate) encode_here: bool,
}

impl PluginOptions {
    fn to_argument(&self, library: &str, recording: RawFd) -> String {
        let mut argument = format!(
            "{library},descriptor={recording},memory={}",
            self.memory_bytes
        );
        let switches = [
            ("user", self.user),
            ("program", self.program),
            ("contents_unknown", self.contents_unknown),
            ("whole_boot", self.whole_boot),
            ("parallel", self.parallel),
            ("encode_here", self.encode_here),
        ];
        for (name, on) in switches {
            if on {
                argument.push_str(&format!(",{name}=on"));
            }
        }
        if let Some(turn) = self.turn {
            argument.push_str(&format!(",turn={turn},seed={}", self.seed));
        }
        argument
    }
}

/// Files that QEMU inherits open: it may not be able to open them by name.
#[derive(Debug, Default)]
pub(crate) struct Inherited(Vec<OwnedFd>);

impl Inherited {
    /// Duplicates `file`'s descriptor for a child of this process to inherit; returns its number.
    fn add(&mut self, file: &File) -> Result<RawFd, GuestError> {
        // The copy has no close-on-exec flag, and lives until QEMU has been started.
        let copy = rustix::io::dup(file)
            .map_err(|e| GuestError::io("hand over", Path::new("an open file"))(e.into()))?;
        let number = copy.as_raw_fd();
        self.0.push(copy);
        Ok(number)
    }
}

// The files of a guest by their names. Their folder is QEMU's current folder, so that no path of
// this computer has to be spelled in its options.
const CONSOLE: &str = "console";
const CONTROL: &str = "control";
const STDOUT: &str = "stdout";
const STDERR: &str = "stderr";
const WORDS: &str = "qemu";
const PAYLOAD: &str = "payload";
const KERNEL: &str = "kernel";
const INITRAMFS: &str = "initramfs";
const DISK: &str = "disk";
const BARRIER: &str = "barrier";
const HOLD: &str = "hold";
/// Where QEMU writes memory when asked to.
pub(crate) const MEMORY: &str = "memory";
/// The recorder's library, if QEMU could not read it at its path.
const RECORDER: &str = "recorder.so";

/// The files of a guest, all in one folder of its own.
#[derive(Clone, Debug)]
pub(crate) struct GuestFiles {
    folder: PathBuf,
}

impl GuestFiles {
    pub(crate) fn new(folder: &Path) -> Self {
        GuestFiles {
            folder: folder.to_owned(),
        }
    }
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
    pub(crate) fn console(&self) -> PathBuf {
        self.folder.join(CONSOLE)
    }
    pub(crate) fn control(&self) -> PathBuf {
        self.folder.join(CONTROL)
    }
    pub(crate) fn stdout(&self) -> PathBuf {
        self.folder.join(STDOUT)
    }
    pub(crate) fn stderr(&self) -> PathBuf {
        self.folder.join(STDERR)
    }
    pub(crate) fn qemu_words(&self) -> PathBuf {
        self.folder.join(WORDS)
    }
    pub(crate) fn payload(&self) -> PathBuf {
        self.folder.join(PAYLOAD)
    }
    pub(crate) fn kernel(&self) -> PathBuf {
        self.folder.join(KERNEL)
    }
    pub(crate) fn initramfs(&self) -> PathBuf {
        self.folder.join(INITRAMFS)
    }
    pub(crate) fn disk(&self) -> PathBuf {
        self.folder.join(DISK)
    }
    pub(crate) fn barrier(&self) -> PathBuf {
        self.folder.join(BARRIER)
    }
    pub(crate) fn hold(&self) -> PathBuf {
        self.folder.join(HOLD)
    }
    pub(crate) fn memory(&self) -> PathBuf {
        self.folder.join(MEMORY)
    }

    /// Gives the files to the user and group that QEMU runs as. The folder stays ours: that user
    /// may enter it, but not list it, add to it or replace a file.
    pub(crate) fn give_to(&self, user: u32) -> Result<(), GuestError> {
        use std::os::unix::fs::{chown, lchown};
        let failed = GuestError::io("hand to QEMU", &self.folder);
        let give = || {
            for entry in fs::read_dir(&self.folder)? {
                let entry = entry?;
                // Anyone who can open the lock can hold it, and the folder would never count as
                // abandoned.
                if entry.file_name() != LOCK {
                    lchown(entry.path(), Some(user), Some(user))?;
                }
            }
            chown(&self.folder, None, Some(user))?;
            // Last: until then only the owner can enter the folder.
            fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o710))
        };
        give().map_err(failed)
    }

    /// Takes the folder and the files back, after QEMU has ended.
    pub(crate) fn take_back(&self) -> Result<(), GuestError> {
        use std::os::unix::fs::{chown, lchown};
        let failed = GuestError::io("take back from QEMU", &self.folder);
        let me = (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        let take = || {
            // First: from here on nobody else can reach the files.
            fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o700))?;
            chown(&self.folder, None, Some(me.1))?;
            for entry in fs::read_dir(&self.folder)? {
                lchown(entry?.path(), Some(me.0), Some(me.1))?;
            }
            Ok(())
        };
        take().map_err(failed)
    }

    /// The path by which QEMU loads the recorder's library: its descriptor, so that no path of this
    /// computer has to be spelled or searched; or a copy, if only its owner can read it and QEMU is
    /// another user.
    pub(crate) fn library(
        &self,
        library: &Path,
        has_fewer_rights: bool,
        inherited: &mut Inherited,
    ) -> Result<String, GuestError> {
        let file = File::open(library).map_err(GuestError::io("read", library))?;
        let about = file.metadata().map_err(GuestError::io("read", library))?;
        // The loader reopens the descriptor's path, with QEMU's own privileges.
        if has_fewer_rights && about.mode() & 0o004 == 0 {
            let bytes = fs::read(library).map_err(GuestError::io("read", library))?;
            let copy = self.folder.join(RECORDER);
            write_private(&copy, &bytes).map_err(GuestError::io("write", &copy))?;
            return Ok(format!("./{RECORDER}"));
        }
        Ok(format!("/proc/self/fd/{}", inherited.add(&file)?))
    }

    /// Removes what a QEMU that has ended and its guest talked through.
    pub(crate) fn remove_channels(&self) -> Result<(), GuestError> {
        for path in [
            self.barrier(),
            self.hold(),
            self.memory(),
            self.control(),
            self.stdout(),
            self.stderr(),
            self.qemu_words(),
        ] {
            fs::remove_file(&path).map_err(GuestError::io("remove", &path))?;
        }
        self.remove_library()
    }

    /// Removes the library's copy, if there is one.
    fn remove_library(&self) -> Result<(), GuestError> {
        let copy = self.folder.join(RECORDER);
        match fs::remove_file(&copy) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(GuestError::io("remove", &copy)(error))
            }
            _ => Ok(()),
        }
    }
}

/// Where a guest starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// At power-on, to be held and saved when it has booted: with all CPUs, or with the first one.
    Boot(Processors),
    /// At power-on, continuing straight to the command.
    WholeBoot,
    /// In the snapshot on its disk, whose CPUs were all there at power-on or are plugged in.
    Snapshot(Processors),
}

impl Start {
    /// The CPUs that QEMU has to have before the start.
    pub(crate) fn processors(self) -> Processors {
        match self {
            Start::Boot(processors) | Start::Snapshot(processors) => processors,
            Start::WholeBoot => Processors::AtPowerOn,
        }
    }
}

/// The snapshot's name on the disk.
pub(crate) const SNAPSHOT: &str = "boot";

/// QEMU's arguments. The control connection is its standard input, its current folder is that of
/// the guest's files.
///
/// Every channel out of the guest is a plain file: a file accepts each byte at once, while a pipe
/// or terminal could make the guest wait for the host.
pub(crate) fn arguments(shape: &GuestShape, start: Start) -> Result<Vec<String>, ShapeError> {
    let processors = start.processors();
    let mut arguments = shape.qemu_arguments(processors)?;
    let mut option = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    option("-kernel", KERNEL.to_owned());
    option("-initrd", INITRAMFS.to_owned());
    option("-serial", format!("file:{CONSOLE}"));
    let channels = [
        ("control", 0x4e0, CONTROL),
        ("out", 0x4e1, STDOUT),
        ("err", 0x4e2, STDERR),
        ("barrier", 0x4e3, BARRIER),
    ];
    for (name, port, file) in channels {
        option("-chardev", format!("file,id={name},path={file}"));
        option(
            "-device",
            format!("isa-debugcon,iobase={port:#x},chardev={name}"),
        );
    }
    option(
        "-fw_cfg",
        format!("name=opt/linemate/payload,file={PAYLOAD}"),
    );
    // `if=none`: no device of the guest uses it. `cache=unsafe`: a disk that is lost when the host
    // crashes is a copy, or is made again.
    let drive = "if=none,id=snapshot,format=qcow2,cache=unsafe,file=";
    option("-drive", format!("{drive}{DISK}"));
    option("-chardev", "socket,id=qmp,fd=0".to_owned());
    option("-mon", "chardev=qmp,mode=control".to_owned());
    if processors == Processors::Plugged {
        for slot in CpuSlot::but_first(shape.topology()?) {
            option("-device", slot.option());
        }
    }
    match start {
        Start::Boot(_) => {}
        Start::Snapshot(_) => option("-loadvm", SNAPSHOT.to_owned()),
        // The agent reads it where it would wait to be saved.
        Start::WholeBoot => option("-fw_cfg", "name=opt/linemate/straight,string=1".to_owned()),
    }
    Ok(arguments)
}

/// QEMU's option for the recorder, which loads `library` as described at [`GuestFiles::library`].
pub(crate) fn plugin_arguments(
    plugin: &Plugin,
    library: &str,
    inherited: &mut Inherited,
) -> Result<[String; 2], GuestError> {
    let recording = plugin.recording().map(|file| inherited.add(file));
    let recording = recording.transpose()?.unwrap_or(-1);
    let argument = plugin.to_argument(library, recording);
    Ok(["-plugin".to_owned(), argument])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let check = |line| check_version("q", line);
        check("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)").unwrap();
        check("QEMU emulator version 9.2.0").unwrap();
        let error = check("QEMU emulator version 9.1.3").unwrap_err();
        assert!(matches!(error, GuestError::QemuTooOld { ref found, .. } if found == "9.1"));
        let error = check("hello").unwrap_err();
        assert!(matches!(error, GuestError::QemuUnknown { .. }));
    }

    #[test]
    fn plugin_options_leave_out_what_is_off() {
        let mut options = PluginOptions {
            recording: tempfile::tempfile().unwrap(),
            memory_bytes: 1 << 30,
            user: false,
            program: false,
            contents_unknown: false,
            whole_boot: false,
            parallel: false,
            turn: None,
            seed: 42,
            encode_here: false,
        };
        let argument = options.to_argument("/r.so", 5);
        assert_eq!(argument, "/r.so,descriptor=5,memory=1073741824");
        options.user = true;
        options.contents_unknown = true;
        options.whole_boot = true;
        options.parallel = true;
        options.encode_here = true;
        options.turn = Some(1000);
        let switches = ",user=on,contents_unknown=on,whole_boot=on,parallel=on,encode_here=on,turn=1000,seed=42";
        assert_eq!(options.to_argument("/r.so", 5), argument + switches);
        assert_eq!(Plugin::Hold.to_argument("/r.so", -1), "/r.so,hold=hold");
    }

    #[test]
    fn no_path_of_this_computer_is_in_the_options() {
        let shape = GuestShape::default();
        let boot = arguments(&shape, Start::Boot(Processors::AtPowerOn)).unwrap();
        assert!(!boot.contains(&"-loadvm".into()) && !boot.contains(&"-plugin".into()));
        assert_eq!(
            boot.iter().find(|word| word.contains('/')),
            Some(&"name=opt/linemate/payload,file=payload".into())
        );
        let restored = arguments(&shape, Start::Snapshot(Processors::AtPowerOn)).unwrap();
        assert_eq!(restored[..boot.len()], boot);
        assert_eq!(restored[boot.len()..], ["-loadvm", "boot"]);
    }

    #[test]
    fn a_library_that_only_its_owner_can_read_is_copied() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, library) = (dir.path().join("run"), dir.path().join("r.so"));
        fs::create_dir(&folder).unwrap();
        fs::write(&library, "library").unwrap();
        let files = GuestFiles::new(&folder);
        let reach = |mode, fewer| {
            fs::set_permissions(&library, fs::Permissions::from_mode(mode)).unwrap();
            let mut inherited = Inherited::default();
            let path = files.library(&library, fewer, &mut inherited).unwrap();
            let name = path.replace("/proc/self/fd/", "/proc/thread-self/fd/");
            (fs::read_to_string(folder.join(name)).unwrap(), path)
        };
        for (mode, fewer) in [(0o755, true), (0o700, false)] {
            let (text, path) = reach(mode, fewer);
            assert_eq!(text, "library");
            assert!(path.starts_with("/proc/self/fd/"), "{path}");
        }
        assert_eq!(
            reach(0o700, true),
            ("library".into(), "./recorder.so".into())
        );
        files.remove_library().unwrap();
        assert!(!folder.join("recorder.so").exists());
        files.remove_library().unwrap();
    }

    #[test]
    fn a_missing_emulator_is_named() {
        let error = words("no-such-qemu", "--version").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("no-such-qemu is not installed: install QEMU 9.2 or later")
        );
    }
}

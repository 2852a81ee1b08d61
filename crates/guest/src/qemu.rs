//! Which QEMU there is, and the command line of a guest.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::GuestError;
use crate::shape::Shape;

/// The emulator's name; `LINEMATE_QEMU` overrides it.
const PROGRAM: &str = "qemu-system-x86_64";

/// Plugin API 4: values in memory callbacks.
const OLDEST: (u32, u32) = (9, 2);

/// An emulator that can record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qemu {
    /// The program.
    pub program: String,
    /// Its version line, part of every snapshot's key.
    pub version: String,
}

impl Qemu {
    /// Finds QEMU (`LINEMATE_QEMU`, or `qemu-system-x86_64` in the search path) and checks its version.
    ///
    /// # Errors
    /// Missing, too old, without plugins, or not QEMU.
    pub fn find() -> Result<Self, GuestError> {
        let program = std::env::var("LINEMATE_QEMU").unwrap_or_else(|_| PROGRAM.to_owned());
        let version = words(&program, "--version")?;
        let version = version.lines().next().unwrap_or_default().to_owned();
        check_version(&program, &version)?;
        let help = words(&program, "-help")?;
        if !help.contains("-plugin ") {
            return Err(GuestError::QemuWithoutPlugins { program });
        }
        Ok(Qemu { program, version })
    }
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

/// What the recorder is loaded for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plugin {
    /// To record.
    Record(PluginOptions),
    /// To hold the guest where it is to be saved.
    Hold {
        /// The recorder's file.
        library: PathBuf,
        /// The pipe on which it hears when to let go.
        pipe: PathBuf,
    },
}

impl Plugin {
    /// The recording that it writes.
    pub(crate) fn recording(&self) -> Option<&Path> {
        match self {
            Plugin::Record(options) => Some(&options.recording),
            Plugin::Hold { .. } => None,
        }
    }

    fn to_argument(&self) -> OsString {
        match self {
            Plugin::Record(options) => options.to_argument(),
            Plugin::Hold { library, pipe } => {
                let mut argument = escape(library);
                argument.push(",hold=");
                argument.push(escape(pipe));
                argument
            }
        }
    }
}

/// The recorder's options, as QEMU's `-plugin` takes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PluginOptions {
    pub(crate) library: PathBuf,
    pub(crate) recording: PathBuf,
    pub(crate) memory_bytes: u64,
    pub(crate) user: bool,
    pub(crate) whole_boot: bool,
    pub(crate) parallel: bool,
}

impl PluginOptions {
    fn to_argument(&self) -> OsString {
        let mut argument = escape(&self.library);
        argument.push(",recording=");
        argument.push(escape(&self.recording));
        argument.push(format!(",memory={}", self.memory_bytes));
        let switches = [
            ("user", self.user),
            ("whole_boot", self.whole_boot),
            ("parallel", self.parallel),
        ];
        for (name, on) in switches {
            if on {
                argument.push(format!(",{name}=on"));
            }
        }
        argument
    }
}

/// Doubles commas: QEMU splits its options there.
fn escape(path: &Path) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut bytes = Vec::new();
    for &byte in path.as_os_str().as_bytes() {
        bytes.push(byte);
        if byte == b',' {
            bytes.push(byte);
        }
    }
    OsString::from_vec(bytes)
}

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
    pub(crate) fn console(&self) -> PathBuf {
        self.folder.join("console")
    }
    pub(crate) fn control(&self) -> PathBuf {
        self.folder.join("control")
    }
    pub(crate) fn stdout(&self) -> PathBuf {
        self.folder.join("stdout")
    }
    pub(crate) fn stderr(&self) -> PathBuf {
        self.folder.join("stderr")
    }
    pub(crate) fn qemu_words(&self) -> PathBuf {
        self.folder.join("qemu")
    }
    pub(crate) fn payload(&self) -> PathBuf {
        self.folder.join("payload")
    }
    pub(crate) fn initramfs(&self) -> PathBuf {
        self.folder.join("initramfs")
    }
    pub(crate) fn disk(&self) -> PathBuf {
        self.folder.join("disk")
    }
    pub(crate) fn barrier(&self) -> PathBuf {
        self.folder.join("barrier")
    }
    pub(crate) fn hold(&self) -> PathBuf {
        self.folder.join("hold")
    }
    pub(crate) fn memory(&self) -> PathBuf {
        self.folder.join("memory")
    }
}

/// Where a guest starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// At power-on, to be held and saved when it has booted.
    Boot,
    /// At power-on, to go straight on to the command.
    WholeBoot,
    /// In the snapshot on its disk.
    Snapshot,
}

/// The snapshot's name on the disk.
pub(crate) const SNAPSHOT: &str = "boot";

/// QEMU's arguments. The control connection is its standard input.
///
/// Every channel out of the guest is a plain file: a file takes each byte at once, where a pipe or terminal
/// could make the guest wait for the host.
pub(crate) fn arguments(
    shape: &Shape,
    kernel: &Path,
    files: &GuestFiles,
    plugin: Option<&Plugin>,
    start: Start,
) -> Result<Vec<OsString>, GuestError> {
    let mut arguments: Vec<OsString> = shape
        .qemu_arguments()?
        .into_iter()
        .map(OsString::from)
        .collect();
    let mut option = |name: &str, value: OsString| arguments.extend([OsString::from(name), value]);
    option("-kernel", kernel.into());
    option("-initrd", files.initramfs().into());
    option("-serial", with_path("file:", &files.console()));
    let channels = [
        ("control", 0x4e0, files.control()),
        ("out", 0x4e1, files.stdout()),
        ("err", 0x4e2, files.stderr()),
    ];
    for (name, port, path) in channels {
        option(
            "-chardev",
            with_path(&format!("file,id={name},path="), &path),
        );
        option(
            "-device",
            format!("isa-debugcon,iobase={port:#x},chardev={name}").into(),
        );
    }
    option(
        "-chardev",
        with_path("file,id=barrier,path=", &files.barrier()),
    );
    option(
        "-device",
        "isa-debugcon,iobase=0x4e3,chardev=barrier".into(),
    );
    option(
        "-fw_cfg",
        with_path("name=opt/linemate/payload,file=", &files.payload()),
    );
    let drive = "if=none,id=snapshot,format=qcow2,cache=unsafe,file=";
    option("-drive", with_path(drive, &files.disk()));
    option("-chardev", "socket,id=qmp,fd=0".into());
    option("-mon", "chardev=qmp,mode=control".into());
    if let Some(plugin) = plugin {
        option("-plugin", plugin.to_argument());
    }
    match start {
        Start::Boot => {}
        Start::Snapshot => option("-loadvm", SNAPSHOT.into()),
        Start::WholeBoot => option("-fw_cfg", "name=opt/linemate/straight,string=1".into()),
    }
    Ok(arguments)
}

fn with_path(prefix: &str, path: &Path) -> OsString {
    let mut value = OsString::from(prefix);
    value.push(escape(path));
    value
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
    fn plugin_options_double_commas_and_leave_out_what_is_off() {
        let mut options = PluginOptions {
            library: "/a,b/r.so".into(),
            recording: "/x/y".into(),
            memory_bytes: 1 << 30,
            user: false,
            whole_boot: false,
            parallel: false,
        };
        assert_eq!(
            options.to_argument(),
            "/a,,b/r.so,recording=/x/y,memory=1073741824"
        );
        options.user = true;
        options.whole_boot = true;
        options.parallel = true;
        assert_eq!(
            options.to_argument(),
            "/a,,b/r.so,recording=/x/y,memory=1073741824,user=on,whole_boot=on,parallel=on"
        );
    }

    #[test]
    fn a_restored_guest_has_the_plugin() {
        let files = GuestFiles::new(Path::new("/g"));
        let shape = Shape::default();
        let plain = arguments(&shape, Path::new("/k"), &files, None, Start::Boot).unwrap();
        assert!(!plain.contains(&"-loadvm".into()) && !plain.contains(&"-plugin".into()));
        let plugin = Plugin::Record(PluginOptions {
            library: "/r.so".into(),
            recording: "/o".into(),
            memory_bytes: shape.memory_bytes,
            user: false,
            whole_boot: false,
            parallel: false,
        });
        let restored = arguments(
            &shape,
            Path::new("/k"),
            &files,
            Some(&plugin),
            Start::Snapshot,
        )
        .unwrap();
        assert_eq!(&restored[..plain.len()], &plain[..]);
        assert_eq!(
            &restored[plain.len()..],
            [
                "-plugin",
                "/r.so,recording=/o,memory=1073741824",
                "-loadvm",
                "boot"
            ]
            .map(OsString::from)
        );
    }

    #[test]
    fn a_guest_to_be_saved_is_held() {
        let plugin = Plugin::Hold {
            library: "/r.so".into(),
            pipe: "/a,b".into(),
        };
        assert_eq!(plugin.to_argument(), "/r.so,hold=/a,,b");
    }

    #[test]
    fn a_missing_emulator_is_named() {
        let error = words("no-such-qemu", "--version").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("no-such-qemu is not installed: run `make setup`")
        );
    }
}

//! Boot snapshots: a kernel is booted once per machine shape, and every later run starts where that
//! boot ended.
//!
//! A snapshot is a folder named by a hash of everything that affects the boot. It is made under
//! another name and renamed when it is complete, so there is never half a snapshot; if two runs
//! make it at once, one wins and both have the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use linemate_files::{Recipe, check_trusted, write_private};

use crate::booting::Booting;
use crate::control::PROTOCOL;
use crate::disk;
use crate::error::GuestError;
use crate::observer::{Observer, Stage};
use crate::processors::Processors;
use crate::qemu::{GuestFiles, Qemu};
use crate::run_folder::{MAKING, RunFolder};
use crate::shape::GuestShape;
use crate::space;

/// Changes when the contents of a snapshot's folder, or the way a guest is started, change.
const FORMAT: u32 = 3;

/// What a boot depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Boot<'a> {
    pub(crate) qemu: &'a Qemu,
    pub(crate) shape: &'a GuestShape,
    pub(crate) kernel_bytes: &'a [u8],
    pub(crate) initramfs: &'a [u8],
    /// The recorder's library, which holds the guest where it is saved.
    pub(crate) recorder: &'a Path,
    /// Host time that a boot may take; as long as it makes progress if absent.
    pub(crate) limit: Option<Duration>,
}

/// A snapshot in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    folder: PathBuf,
    /// How its CPUs came to be.
    pub(crate) processors: Processors,
}

/// Marks a snapshot of a shape whose CPUs are plugged in, and of a kernel that does not take them.
const AT_POWER_ON: &str = "at-power-on";

impl Snapshot {
    /// The disk with the saved machine. QEMU writes to a disk that it loads from: run from a copy.
    pub(crate) fn disk(&self) -> PathBuf {
        self.folder.join("disk")
    }

    /// `/proc/kallsyms` of the booted kernel.
    pub(crate) fn symbols(&self) -> Result<Vec<u8>, GuestError> {
        let path = self.folder.join("symbols");
        fs::read(&path).map_err(GuestError::io("read", &path))
    }
}

impl Boot<'_> {
    /// The hash that names the snapshot.
    pub(crate) fn key(&self) -> Result<String, GuestError> {
        let mut recipe = Recipe::new(&FORMAT.to_le_bytes());
        recipe.part(&PROTOCOL.to_le_bytes());
        recipe.part(self.qemu.version.as_bytes());
        recipe.part(self.kernel_bytes);
        recipe.part(self.initramfs);
        for argument in self.shape.qemu_arguments(self.shape.processors())? {
            // Last, so that their number need not be included.
            recipe.part(argument.as_bytes());
        }
        Ok(recipe.key())
    }

    /// The cached snapshot, made first if there is none.
    pub(crate) fn snapshot(
        &self,
        cache: &Path,
        cancel: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Snapshot, GuestError> {
        let parent = cache.join("snapshots");
        let folder = parent.join(self.key()?);
        // A folder gets this name when it is complete.
        if folder.join("disk").is_file() {
            for file in ["disk", "symbols"] {
                check_trusted(&folder.join(file))?;
            }
            return Ok(self.found(folder));
        }
        // The state, and the copy of it that each run starts from.
        let needed = self.shape.state_bytes().saturating_mul(2);
        space::check("the booted guest and a copy", cache, needed)?;
        observer.stage(Stage::Booting);
        let making = RunFolder::new(&parent, MAKING)?;
        self.make(making.path(), cancel, observer)?;
        match making.rename(&folder) {
            Ok(()) => {}
            // Another run was faster; its snapshot is the same.
            Err(_) if folder.join("disk").is_file() => {}
            Err(source) => {
                return Err(GuestError::Io {
                    doing: "create",
                    path: folder,
                    source,
                });
            }
        }
        Ok(self.found(folder))
    }

    /// The complete snapshot in a folder.
    fn found(&self, folder: PathBuf) -> Snapshot {
        let processors = match folder.join(AT_POWER_ON).is_file() {
            true => Processors::AtPowerOn,
            false => self.shape.processors(),
        };
        Snapshot { folder, processors }
    }

    /// Makes the snapshot in `folder`.
    fn make(
        &self,
        folder: &Path,
        cancel: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<(), GuestError> {
        let files = GuestFiles::new(folder);
        write(&files.kernel(), self.kernel_bytes)?;
        write(&files.initramfs(), self.initramfs)?;
        // QEMU needs the file; the agent reads it only after the snapshot.
        write(&files.payload(), b"-")?;
        write(&files.disk(), &disk::empty())?;
        let mut booting = Booting {
            qemu: self.qemu,
            shape: self.shape,
            recorder: self.recorder,
            limit: self.limit,
            started: Instant::now(),
            files: &files,
            cancel,
            observer,
        };
        let symbols = match self.shape.processors() {
            Processors::AtPowerOn => booting.at_power_on()?,
            _ => match booting.plugged()? {
                Some(symbols) => symbols,
                None => {
                    self.shape.check_power_on()?;
                    write(&folder.join(AT_POWER_ON), b"")?;
                    booting.at_power_on()?
                }
            },
        };
        write(&folder.join("symbols"), &symbols)?;
        for path in [files.kernel(), files.initramfs(), files.payload()] {
            fs::remove_file(&path).map_err(GuestError::io("remove", &path))?;
        }
        Ok(())
    }
}

/// Writes a file of a snapshot that is being made.
fn write(path: &Path, bytes: &[u8]) -> Result<(), GuestError> {
    let written = write_private(path, bytes).map(drop);
    written.map_err(|error| {
        let full = space::full("what a guest boots from", path, bytes.len() as u64);
        full.unwrap_or_else(|| GuestError::io("write", path)(error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confinement::Confinement;

    fn key(version: &str, kernel: &[u8], initramfs: &[u8], shape: &GuestShape) -> String {
        let qemu = Qemu {
            program: "q".into(),
            version: version.into(),
            confinement: Confinement::default(),
        };
        let boot = Boot {
            qemu: &qemu,
            shape,
            kernel_bytes: kernel,
            initramfs,
            recorder: Path::new("/r"),
            limit: None,
        };
        boot.key().unwrap()
    }

    #[test]
    fn everything_that_shapes_the_boot_is_in_the_key() {
        let shape = GuestShape::default();
        let base = key("1", b"kernel", b"initramfs", &shape);
        assert_eq!(base.len(), 32);
        assert_eq!(base, key("1", b"kernel", b"initramfs", &shape));
        let other = |change: fn(&mut GuestShape)| {
            let mut shape = GuestShape::default();
            change(&mut shape);
            key("1", b"kernel", b"initramfs", &shape)
        };
        let keys = [
            base,
            key("2", b"kernel", b"initramfs", &shape),
            key("1", b"kerne", b"linitramfs", &shape),
            key("1", b"kernel", b"Initramfs", &shape),
            other(|s| s.cpus = 4),
            other(|s| s.sockets = Some(2)),
            other(|s| s.threads = Some(2)),
            other(|s| s.numa_nodes = 2),
            other(|s| s.memory_bytes = 2 << 30),
            other(|s| s.seed = 1),
            other(|s| s.append = "debug".into()),
            other(|s| s.timing = crate::Timing::Parallel),
        ];
        for (i, a) in keys.iter().enumerate() {
            for b in &keys[i + 1..] {
                assert_ne!(a, b);
            }
        }
    }
}

//! Which kernel image to boot.

use std::fs;
use std::path::{Path, PathBuf};

use linemate_files::{check_trusted, read_file};
use sha2::{Digest, Sha256};

use crate::error::GuestError;

/// The folder of the cache with kernels fetched by name: booted only if they are named.
const NAMED_KERNELS: &str = "named-kernels";

/// From this version on, x86 kernels believe the TSCs of one socket of any vendor. Before, they
/// believe only those of Intel's processors and those that say that they agree, which QEMU's do not
/// (`unsynchronized_tsc()` of arch/x86/kernel/tsc.c).
const TRUSTS_ONE_SOCKET: KernelVersion = KernelVersion {
    major: 6,
    minor: 12,
};

/// The first two numbers of a release: `6.1` of `6.1.0-55-cloud-amd64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct KernelVersion {
    major: u32,
    minor: u32,
}

/// A kernel image, read and found bootable.
#[derive(Clone, Debug)]
pub struct BootableKernel {
    pub path: PathBuf,
    pub bytes: Vec<u8>,
}

impl BootableKernel {
    /// Reads an image.
    ///
    /// # Errors
    /// The file cannot be read, or is not an x86 kernel.
    pub fn read(path: &Path) -> Result<Self, GuestError> {
        let bytes = read_file(path).map_err(GuestError::io("read the kernel image", path))?;
        // The boot header's magic: QEMU would boot anything else as a disk's first sector.
        if bytes.get(0x202..0x206) != Some(b"HdrS") {
            return Err(GuestError::KernelUnusable {
                path: path.to_owned(),
                reason: "not an x86 kernel image (bzImage): give --kernel a vmlinuz file".into(),
            });
        }
        Ok(BootableKernel {
            path: path.to_owned(),
            bytes,
        })
    }

    /// Whether this kernel takes the TSCs of several emulated processors for unsynchronized, also
    /// of one socket. Without a version in the image: no.
    #[must_use]
    pub fn distrusts_clocks(&self) -> bool {
        self.version()
            .is_some_and(|version| version < TRUSTS_ONE_SOCKET)
    }

    /// By the boot header, whose `kernel_version` is the text's offset after the first sector
    /// (Documentation/arch/x86/boot.rst).
    fn version(&self) -> Option<KernelVersion> {
        let offset = usize::from(u16::from_le_bytes([
            *self.bytes.get(0x20e)?,
            *self.bytes.get(0x20f)?,
        ]));
        let text = self.bytes.get(0x200 + offset..)?;
        let mut numbers = text.split(|byte| !byte.is_ascii_digit());
        let mut number = || std::str::from_utf8(numbers.next()?).ok()?.parse().ok();
        Some(KernelVersion {
            major: number()?,
            minor: number()?,
        })
    }

    /// The digest of the image: 64 hexadecimal digits.
    #[must_use]
    pub fn sha256(&self) -> String {
        format!("{:x}", Sha256::digest(&self.bytes))
    }
}

/// The running kernel's image if it can be used, else the latest of those that set-up put into the
/// cache.
///
/// # Errors
/// There is none.
pub fn default_kernel(cache: &Path) -> Result<BootableKernel, GuestError> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let running = PathBuf::from(format!("/boot/vmlinuz-{}", release.trim()));
    choose(&running, cache)
}

fn choose(running: &Path, cache: &Path) -> Result<BootableKernel, GuestError> {
    let reason = match BootableKernel::read(running) {
        Ok(kernel) => return Ok(kernel),
        Err(GuestError::Io { source, .. }) => source.to_string(),
        Err(GuestError::KernelUnusable { reason, .. }) => reason,
        Err(other) => other.to_string(),
    };
    let folder = cache.join("kernels");
    match pinned(&folder).last() {
        Some(path) => {
            // Nobody else may own what is booted: the folder was checked, its files were not.
            check_trusted(path)?;
            BootableKernel::read(path)
        }
        None => Err(GuestError::NoKernel {
            running: running.to_owned(),
            reason,
            cache: folder,
        }),
    }
}

/// The bytes of the image with that SHA-256 (in hexadecimal digits): from the files in `given`; if
/// there are none, from the images of that release in `/boot` and in the cache. `None` if none of
/// them matches.
///
/// # Errors
/// A file in `given` that cannot be read.
pub fn recorded_kernel(
    sha256: &str,
    release: &str,
    given: &[PathBuf],
    cache: &Path,
) -> Result<Option<Vec<u8>>, GuestError> {
    // By the checksum: two builds of a release have the same name and different code.
    let is_it = |bytes: &Vec<u8>| format!("{:x}", Sha256::digest(bytes)) == sha256;
    if given.is_empty() {
        let name = format!("vmlinuz-{release}");
        let boot = Path::new("/boot").join(&name);
        let named = |path: &PathBuf| path.file_name().is_some_and(|n| n == name.as_str());
        let cached = ["kernels", NAMED_KERNELS].map(|folder| pinned(&cache.join(folder)));
        let images = std::iter::once(boot).chain(cached.into_iter().flatten());
        let read = |path: PathBuf| read_file(&path).ok();
        return Ok(images.filter(named).filter_map(read).find(is_it));
    }
    for path in given {
        let bytes = read_file(path).map_err(GuestError::io("read the kernel image", path))?;
        if is_it(&bytes) {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

/// `VERSION/boot/vmlinuz-*` of the cache, by version.
fn pinned(folder: &Path) -> Vec<PathBuf> {
    let children = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let mut images: Vec<PathBuf> = children(folder)
        .iter()
        .flat_map(|version| children(&version.join("boot")))
        .filter(|path| {
            path.file_name()
                .is_some_and(|n| n.to_string_lossy().starts_with("vmlinuz-"))
        })
        .collect();
    images.sort_by_key(|path| version_key(&path.to_string_lossy()));
    images
}

/// Numbers compare as numbers: 6.12 comes after 6.1.
fn version_key(text: &str) -> Vec<(u64, String)> {
    let mut key = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, tail) = rest.split_at(digits);
        let words = tail
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (word, tail) = tail.split_at(words);
        key.push((number.parse().unwrap_or(0), word.to_owned()));
        rest = tail;
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(path: &Path, magic: &[u8; 4]) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut bytes = vec![0; 0x300];
        bytes[0x202..0x206].copy_from_slice(magic);
        fs::write(path, bytes).unwrap();
    }

    #[test]
    fn the_running_kernel_comes_first_then_the_latest_pinned_one() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("cache");
        let running = dir.path().join("boot/vmlinuz-1");
        let error = choose(&running, &cache).unwrap_err();
        assert!(matches!(error, GuestError::NoKernel { .. }), "{error}");
        for version in ["6.1.0-55", "6.12.117", "6.2"] {
            image(
                &cache.join(format!("kernels/{version}/boot/vmlinuz-{version}")),
                b"HdrS",
            );
        }
        assert!(
            choose(&running, &cache)
                .unwrap()
                .path
                .ends_with("vmlinuz-6.12.117")
        );
        image(&running, b"....");
        assert!(
            choose(&running, &cache)
                .unwrap()
                .path
                .ends_with("vmlinuz-6.12.117")
        );
        image(&running, b"HdrS");
        assert_eq!(choose(&running, &cache).unwrap().path, running);
    }

    #[test]
    fn a_recorded_kernel_is_known_by_its_checksum() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("cache");
        let (pinned, given) = (
            cache.join("kernels/6.1-x/boot/vmlinuz-6.1"),
            dir.path().join("bzImage"),
        );
        image(&pinned, b"HdrS");
        image(&given, b"SrdH");
        let [a, b] = [&pinned, &given].map(|path| fs::read(path).unwrap());
        let sum = |bytes: &[u8]| format!("{:x}", Sha256::digest(bytes));
        let find = |sum: &str, release: &str, given: &[PathBuf]| {
            recorded_kernel(sum, release, given, &cache).unwrap()
        };
        assert_eq!(find(&sum(&a), "6.1", &[]), Some(a.clone()));
        assert_eq!(find(&sum(&a), "6.2", &[]), None, "another release's");
        assert_eq!(find(&sum(&b), "6.1", &[]), None, "another build");
        assert_eq!(find(&sum(&a), "../6.1-x/boot/vmlinuz-6.1", &[]), None);
        let given = [pinned, given];
        assert_eq!(find(&sum(&b), "6.2", &given), Some(b));
        assert_eq!(find(&sum(b"c"), "6.1", &given), None);
        let missing = [dir.path().join("none")];
        let error = recorded_kernel(&sum(&a), "6.1", &missing, &cache).unwrap_err();
        assert!(error.to_string().contains("none"), "{error}");
    }

    #[test]
    fn the_boot_header_has_the_version() {
        let kernel = |release: &str, pointer: u16| {
            let mut bytes = vec![0; 0x300];
            bytes[0x20e..0x210].copy_from_slice(&pointer.to_le_bytes());
            bytes[0x280..0x280 + release.len()].copy_from_slice(release.as_bytes());
            BootableKernel {
                path: PathBuf::new(),
                bytes,
            }
        };
        for (release, distrusts) in [
            ("6.1.0-55-cloud-amd64 (x@y)", true),
            ("6.11.10-amd64", true),
            ("6.12-rc1", false),
            ("6.12.117+deb12-cloud-amd64", false),
            ("7.3.4", false),
            ("5.10", true),
            ("no number", false),
            ("99999999999.1", false),
        ] {
            let found = kernel(release, 0x80).distrusts_clocks();
            assert_eq!(found, distrusts, "{release}");
        }
        for pointer in [0, 0x100, u16::MAX] {
            assert_eq!(kernel("6.1.0", pointer).version(), None);
        }
    }

    #[test]
    fn a_file_that_is_no_kernel_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vmlinuz");
        image(&path, b"....");
        let error = BootableKernel::read(&path).unwrap_err();
        assert!(
            error.to_string().contains("not an x86 kernel image"),
            "{error}"
        );
    }
}

//! Where the names of a case lead, and digests of what is there.
//!
//! A name is looked up in the case's folder, then among the checkout's compiled workloads, then
//! among its set-up scripts. The checkout is the nearest folder above the case that has them; a
//! case elsewhere does without.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, anyhow, bail};
use linemate_cases::{Digests, GuestRun, Ingredient, KernelTree, Key};
use linemate_guest::cache_folder;
use sha2::{Digest, Sha256};

use super::guest_run;

/// The paths of a case.
#[derive(Debug)]
pub(super) struct Files {
    folder: PathBuf,
    /// The checkout that it is in.
    checkout: Option<PathBuf>,
    /// The images of series that were asked for.
    images: BTreeMap<String, PathBuf>,
    digests: BTreeMap<Ingredient, String>,
}

impl Files {
    /// # Errors
    /// The folder does not exist.
    pub(super) fn new(folder: &Path) -> anyhow::Result<Self> {
        let folder = fs::canonicalize(folder).with_context(|| folder.display().to_string())?;
        let is_checkout = |folder: &&Path| folder.join("scripts/kernel-image.sh").is_file();
        let checkout = folder.ancestors().find(is_checkout).map(Path::to_owned);
        Ok(Files {
            folder,
            checkout,
            images: BTreeMap::new(),
            digests: BTreeMap::new(),
        })
    }

    /// The folder that steps run in: paths in recordings are relative to it, so that they do not
    /// depend on its location.
    pub(super) fn base(&self) -> &Path {
        self.checkout.as_deref().unwrap_or(&self.folder)
    }

    /// The path of a file of the case, relative to [`Files::base`] where it is below.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn find(&self, name: &str) -> anyhow::Result<PathBuf> {
        if let Some(path) = self.look(name) {
            return Ok(path);
        }
        let mut places = vec![self.folder.display().to_string()];
        if let Some(checkout) = &self.checkout {
            places.push(checkout.join("target/workloads").display().to_string());
            places.push(checkout.join("workloads").display().to_string());
        }
        bail!(
            "{name} not found in {} (`make workloads` compiles workloads)",
            places.join(", ")
        )
    }

    fn look(&self, name: &str) -> Option<PathBuf> {
        let mut places = vec![self.folder.join(name)];
        if let Some(checkout) = &self.checkout {
            places.push(checkout.join("target/workloads").join(name));
            places.push(checkout.join("workloads").join(name));
        }
        let path = places.into_iter().find(|path| path.is_file())?;
        let short = path.strip_prefix(self.base()).map(Path::to_owned);
        Some(short.unwrap_or(path))
    }

    /// The program of a command: a file of the case, else what the search path has, under its own
    /// name.
    ///
    /// # Errors
    /// Neither.
    pub(super) fn program(&self, name: &str) -> anyhow::Result<PathBuf> {
        if let Some(path) = self.look(name) {
            // With a slash in it, or it would be taken for something installed.
            let bare = path.parent().is_some_and(|p| p.as_os_str().is_empty());
            return Ok(if bare {
                Path::new(".").join(path)
            } else {
                path
            });
        }
        if name.contains('/') || in_search_path(name).is_some() {
            return Ok(PathBuf::from(name));
        }
        bail!(
            "the program {name} is neither a file of the case, nor a workload (`make workloads`), nor installed"
        )
    }

    /// `HOST[:GUEST]` with the host's part found: a file of the case, else a program that is
    /// installed.
    ///
    /// # Errors
    /// The host has neither.
    pub(super) fn extra(&self, file: &str) -> anyhow::Result<String> {
        let (host, guest) = match file.split_once(':') {
            Some((host, guest)) => (host, Some(guest)),
            None => (file, None),
        };
        let host = match (self.look(host), in_search_path(host)) {
            (None, Some(installed)) => installed,
            _ => self.find(host)?,
        };
        let host = host.display().to_string();
        Ok(guest.map_or(host.clone(), |guest| format!("{host}:{guest}")))
    }

    /// The image of a series.
    ///
    /// # Errors
    /// No checkout, or no image.
    pub(super) fn series(&mut self, series: &str) -> anyhow::Result<PathBuf> {
        if let Some(known) = self.images.get(series) {
            return Ok(known.clone());
        }
        let Some(checkout) = &self.checkout else {
            bail!(
                "kernel.series needs linemate's checkout around the case: give kernel.image instead"
            )
        };
        let script = checkout.join("scripts/kernel-image.sh");
        let output = Command::new(&script)
            .arg(series)
            .output()
            .with_context(|| format!("cannot run {}", script.display()))?;
        if !output.status.success() {
            bail!("{}", last_line(&output.stderr));
        }
        let image = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim_end());
        self.images.insert(series.to_owned(), image.clone());
        Ok(image)
    }

    /// A machine as the other verbs take it in [`Files::base`]: a file of the case, or a name.
    pub(super) fn machine(&self, name: &str) -> PathBuf {
        self.look(name).unwrap_or_else(|| PathBuf::from(name))
    }

    /// The same wherever it is read.
    pub(super) fn machine_anywhere(&self, name: &str) -> PathBuf {
        match self.look(name) {
            Some(file) => self.base().join(file),
            None => PathBuf::from(name),
        }
    }

    /// The script that builds kernels.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn build_script(&self, named: Option<&str>) -> anyhow::Result<PathBuf> {
        if let Some(name) = named {
            return Ok(self.base().join(self.find(name)?));
        }
        let script = self.base().join("scripts/build-kernel.sh");
        if script.is_file() {
            return Ok(script);
        }
        bail!(
            "{} not found: kernels are built from linemate's checkout, or by build.script",
            script.display()
        )
    }

    /// A kernel's source tree.
    ///
    /// # Errors
    /// It is not there, or no kernel's.
    pub(super) fn source(&self, source: &KernelTree) -> anyhow::Result<PathBuf> {
        let (places, remedy) = match source {
            KernelTree::Folder(folder) => (vec![self.folder.join(folder)], String::new()),
            KernelTree::Package(name) => {
                let unpacked = cache_folder()?.join("sources").join(name);
                let remedy = format!(
                    ": `scripts/setup.sh cases` gets it (Debian's package {name}, unpacked to {})",
                    unpacked.display()
                );
                (vec![unpacked, Path::new("/usr/src").join(name)], remedy)
            }
        };
        let found = places.iter().find(|path| path.join("Makefile").is_file());
        found.cloned().ok_or_else(|| {
            let places: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
            anyhow!("no kernel source in {}{remedy}", places.join(" or "))
        })
    }

    fn make(&mut self, ingredient: &Ingredient) -> anyhow::Result<String> {
        match ingredient {
            Ingredient::Series(series) => file_digest(&self.series(series)?),
            Ingredient::File(name) => file_digest(&self.base().join(self.find(name)?)),
            Ingredient::Patch(name) => patch_digest(&self.base().join(self.find(name)?)),
            Ingredient::Machine(name) => match self.look(name) {
                Some(path) => file_digest(&self.base().join(path)),
                // Shipped descriptions are part of the program, `this` is this computer.
                None => Ok(name.clone()),
            },
            Ingredient::Source(source) => tree_digest(&self.source(source)?),
            Ingredient::BuildScript(named) => file_digest(&self.build_script(named.as_deref())?),
            Ingredient::Analyser => Ok(env!("LINEMATE_ANALYSIS").to_owned()),
        }
    }
}

impl Digests for Files {
    type Error = anyhow::Error;

    fn run(&mut self, kernel: &str, run: &GuestRun<'_>) -> anyhow::Result<Key> {
        guest_run::key(run, kernel, self).map(Key)
    }

    fn digest(&mut self, ingredient: &Ingredient) -> anyhow::Result<String> {
        if let Some(known) = self.digests.get(ingredient) {
            return Ok(known.clone());
        }
        let made = self.make(ingredient)?;
        self.digests.insert(ingredient.clone(), made.clone());
        Ok(made)
    }
}

/// This program, called with a verb, where a case's steps run.
pub(super) fn own_command(base: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new(own_program()?);
    command.current_dir(base);
    Ok(command)
}

/// This program's file.
pub(super) fn own_program() -> anyhow::Result<PathBuf> {
    env::current_exe().context("cannot find this program's file")
}

/// The last line that says something.
pub(super) fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.unwrap_or("no output").trim().to_owned()
}

pub(super) fn in_search_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

fn hexadecimal(hash: Sha256) -> String {
    format!("{:x}", hash.finalize())
}

fn file_digest(path: &Path) -> anyhow::Result<String> {
    let name = || format!("cannot read {}", path.display());
    let mut file = fs::File::open(path).with_context(name)?;
    let mut hash = Sha256::new();
    io::copy(&mut file, &mut hash).with_context(name)?;
    Ok(hexadecimal(hash))
}

/// A patch is what it changes: its message, in which figures are that come from the case itself, is
/// not part of it.
fn patch_digest(path: &Path) -> anyhow::Result<String> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut hash = Sha256::new();
    hash.update(changes(&text));
    Ok(hexadecimal(hash))
}

/// The part of a patch from its first difference on; all of it where there is none.
fn changes(patch: &[u8]) -> &[u8] {
    let mut at = 0;
    for line in patch.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b"diff ") || line.starts_with(b"--- ") {
            return &patch[at..];
        }
        at += line.len();
    }
    patch
}

/// A source tree has 80,000 files: names, sizes and times of change represent their content, as for
/// `make`.
fn tree_digest(root: &Path) -> anyhow::Result<String> {
    let mut hash = Sha256::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let name = || format!("cannot read {}", folder.display());
        let entries = fs::read_dir(&folder).with_context(name)?;
        let mut entries: Vec<fs::DirEntry> =
            entries.collect::<Result<_, _>>().with_context(name)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            // git writes there although no source changes.
            if entry.file_name() == OsStr::new(".git") {
                continue;
            }
            let path = entry.path();
            let about = entry.metadata().with_context(name)?;
            if about.is_dir() {
                folders.push(path);
                continue;
            }
            let below = path.strip_prefix(root).unwrap_or(&path);
            let line = format!("{} {} {}\n", below.display(), about.len(), about.mtime());
            hash.update(line.as_bytes());
        }
    }
    Ok(hexadecimal(hash))
}

#[cfg(test)]
mod tests {
    use super::changes;

    #[test]
    fn a_patchs_message_is_no_part_of_it() {
        let differences = "diff --git a/x b/x\n--- a/x\n+++ b/x\n";
        let mail = format!("Subject: x\n\nIt has a --- inside.\n---\n x | 2 +-\n\n{differences}");
        assert_eq!(changes(mail.as_bytes()), differences.as_bytes());
        assert_eq!(changes(b"x\n--- a/x\n+++ b/x\n"), b"--- a/x\n+++ b/x\n");
        assert_eq!(changes(b"no patch"), b"no patch");
    }
}

//! Packs programs, files and folders into a guest's archive, with what they need there.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use crate::cpio::{Archive, ArchiveEntry};
use crate::error::GuestError;
use crate::payload::ExtraFile;
use crate::python::{self, Python};
use crate::{guess, program};

/// Where a guest's command starts, and what relative paths refer to.
pub(crate) const HOME: &str = "/root";

/// Folders that a loader searches by default (the initramfs makes `/lib` a link to `/usr/lib`).
const LOADER_FOLDERS: [&str; 6] = [
    "/lib",
    "/usr/lib",
    "/lib64",
    "/usr/lib64",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
];

/// An archive that is being filled.
pub(crate) struct Packing<'a> {
    pub(crate) archive: Archive,
    /// Folders of libraries that the guest's loader does not search by default.
    pub(crate) library_folders: BTreeSet<String>,
    /// Files that were packed although something they need is missing here, and why, in order.
    lacking: Vec<String>,
    search_path: &'a str,
}

impl<'a> Packing<'a> {
    pub(crate) fn new(search_path: &'a str) -> Self {
        Packing {
            archive: Archive::default(),
            library_folders: BTreeSet::new(),
            lacking: Vec::new(),
            search_path,
        }
    }

    /// Where programs are searched for on this computer.
    pub(crate) fn search_path(&self) -> &'a str {
        self.search_path
    }

    /// The note about files that lack something.
    pub(crate) fn note(&self) -> Option<String> {
        let first = self.lacking.first()?;
        let others = match self.lacking.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        Some(format!(
            "copied into the guest, but cannot run there: {first}{others}"
        ))
    }

    /// A program with its loader and libraries, or its interpreter; returns these.
    pub(crate) fn add_program(
        &mut self,
        host: &Path,
        guest: &str,
    ) -> Result<Vec<PathBuf>, GuestError> {
        self.add_file(host, guest)?;
        let needed = program::needs(host, self.search_path)?;
        self.add_needed(&needed)?;
        Ok(needed)
    }

    fn add_needed(&mut self, needed: &[PathBuf]) -> Result<(), GuestError> {
        for needed in needed {
            let Some(path) = guest_path(needed) else {
                continue;
            };
            self.add_file(needed, &path)?;
            let folder = Path::new(&path)
                .parent()
                .and_then(Path::to_str)
                .unwrap_or("/");
            let is_library = needed
                .file_name()
                .is_some_and(|n| n.to_string_lossy().contains(".so"));
            if is_library && !LOADER_FOLDERS.contains(&folder) {
                self.library_folders.insert(folder.to_owned());
            }
        }
        Ok(())
    }

    /// A regular file's contents, through whatever link it was named by.
    fn add_file(&mut self, host: &Path, guest: &str) -> Result<(), GuestError> {
        // `read` follows links, and so does `metadata`: the guest gets the file, not a link to a
        // path that it lacks.
        let data = fs::read(host).map_err(GuestError::io("read", host))?;
        let mode = fs::metadata(host)
            .map_err(GuestError::io("read", host))?
            .permissions()
            .mode();
        self.archive.insert_from(
            host,
            &through_links(guest),
            ArchiveEntry::File {
                mode: mode & 0o7777,
                data,
            },
        );
        Ok(())
    }

    /// Adds what a `--file` names, with everything that needs.
    pub(crate) fn add_extra(&mut self, file: &ExtraFile) -> Result<(), GuestError> {
        let guest = file.guest.clone().or_else(|| guest_path(&file.host));
        let guest = guest.ok_or_else(|| GuestError::File {
            given: file.host.display().to_string(),
            reason: "it is outside the current folder: give its place as FILE:/PATH/IN/GUEST"
                .into(),
        })?;
        // All of it: the user named it, even parts that a Python's library would omit.
        self.add_tree(&file.host, &guest, |_| false)
    }

    /// A file, or a folder with everything in it that `left_out` does not exclude by path.
    fn add_tree(
        &mut self,
        host: &Path,
        guest: &str,
        left_out: impl Fn(&Path) -> bool,
    ) -> Result<(), GuestError> {
        // Folders are walked with a list, not by recursion: their depth is not ours to bound. A
        // link that the user names is followed; links below it stay links.
        let mut left = vec![(host.to_owned(), guest.to_owned(), fs::metadata(host))];
        while let Some((host, guest, metadata)) = left.pop() {
            let metadata = metadata.map_err(GuestError::io("read", &host))?;
            let mode = metadata.permissions().mode() & 0o7777;
            if metadata.is_dir() {
                let entry = ArchiveEntry::Directory { mode };
                self.archive.insert(&through_links(&guest), entry);
                for entry in fs::read_dir(&host).map_err(GuestError::io("read", &host))? {
                    let entry = entry.map_err(GuestError::io("read", &host))?;
                    let name = entry.file_name().to_string_lossy().into_owned();
                    let path = entry.path();
                    if !left_out(&path) {
                        let metadata = fs::symlink_metadata(&path);
                        left.push((path, format!("{guest}/{name}"), metadata));
                    }
                }
            } else if metadata.is_symlink() {
                let target = fs::read_link(&host).map_err(GuestError::io("read", &host))?;
                let target = target.to_string_lossy().into_owned();
                let entry = ArchiveEntry::Symlink { target };
                self.archive.insert(&through_links(&guest), entry);
            } else if metadata.is_file() && mode & 0o111 != 0 && program::is_program(&host) {
                self.add_lenient(&host, &guest)?;
            } else if metadata.is_file() {
                self.add_file(&host, &guest)?;
            } else {
                let reason = "it is neither a file nor a folder".to_owned();
                return Err(GuestError::File {
                    given: host.display().to_string(),
                    reason,
                });
            }
        }
        Ok(())
    }

    /// A program that the command may or may not start: missing parts are noted.
    fn add_lenient(&mut self, host: &Path, guest: &str) -> Result<(), GuestError> {
        self.add_file(host, guest)?;
        match program::needs(host, self.search_path) {
            Ok(needed) => self.add_needed(&needed),
            Err(error) => {
                let told = error.to_string();
                let host = host.display().to_string();
                self.lacking.push(match told.contains(&host) {
                    true => told,
                    false => format!("{host}: {told}"),
                });
                Ok(())
            }
        }
    }

    /// What a Python and these scripts need: its standard library, their modules, and the libraries
    /// of compiled modules.
    pub(crate) fn add_python(
        &mut self,
        python: &Python,
        scripts: &[PathBuf],
    ) -> Result<(), GuestError> {
        for library in &python.library {
            if let Some(guest) = guess::guest_path(library) {
                self.add_tree(library, &guest, |path| {
                    path.file_name().is_some_and(python::is_left_out)
                })?;
            }
        }
        for file in python.modules.iter().chain(scripts) {
            if let Some(guest) = guess::guest_path(file) {
                self.add_tree(file, &guest, |path| path.ends_with("__pycache__"))?;
            }
        }
        let folders = || python.library.iter().chain(&python.modules);
        let is_compiled = |path: &&Path| {
            path.extension().is_some_and(|end| end == "so")
                && folders().any(|folder| path.starts_with(folder))
        };
        let compiled = self.archive.hosts().filter(is_compiled);
        let compiled: Vec<PathBuf> = compiled.map(Path::to_owned).collect();
        for module in compiled {
            // One that lacks a library fails where it is imported, as it does here.
            let needed = program::module_needs(&python.interpreter, &module);
            self.add_needed(&needed.unwrap_or_default())?;
        }
        Ok(())
    }
}

/// The same path in the guest; `None` for a relative path that leaves the current folder. Libraries
/// are found at paths such as `/usr/bin/../lib`, from their programs' own search paths.
pub(crate) fn guest_path(host: &Path) -> Option<String> {
    let mut guest = if host.is_absolute() {
        PathBuf::from("/")
    } else {
        PathBuf::from(HOME)
    };
    for part in host.components() {
        match part {
            Component::Normal(name) => guest.push(name),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir if host.is_absolute() => {
                guest.pop();
            }
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    guest.to_str().map(str::to_owned)
}

/// The guest has a merged `/usr`: an archive must not put a folder where the link is.
fn through_links(guest: &str) -> String {
    let first = guest
        .trim_start_matches('/')
        .split('/')
        .next()
        .unwrap_or_default();
    match first {
        "bin" | "sbin" | "lib" | "lib64" => format!("/usr{guest}"),
        _ => guest.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCH: &str = "/usr/bin:/bin";

    #[test]
    fn the_current_folder_is_the_guests_home() {
        let guest = |host: &str| guest_path(Path::new(host));
        assert_eq!(
            guest("/usr/bin/hackbench").as_deref(),
            Some("/usr/bin/hackbench")
        );
        assert_eq!(guest("./a/b").as_deref(), Some("/root/a/b"));
        assert_eq!(guest("../a"), None);
        assert_eq!(
            guest("/usr/bin/../lib/libx.so.1").as_deref(),
            Some("/usr/lib/libx.so.1")
        );
        assert_eq!(guest("/../a").as_deref(), Some("/a"));
        assert_eq!(through_links("/lib64/ld.so"), "/usr/lib64/ld.so");
        assert_eq!(through_links("/library/x"), "/library/x");
    }

    #[test]
    fn what_cannot_run_is_taken_along_and_noted() {
        let dir = tempfile::tempdir().unwrap();
        for (name, line) in [
            ("bad", "#!/no/such/one\n"),
            ("good", "#!/bin/sh\n"),
            ("worse", "#!\n\n\n"),
        ] {
            let path = dir.path().join(name);
            fs::write(&path, line).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut packing = Packing::new(SEARCH);
        let folder = ExtraFile {
            host: dir.path().to_owned(),
            guest: Some("/data".into()),
        };
        packing.add_extra(&folder).unwrap();
        for name in ["bad", "good", "worse"] {
            assert!(
                packing.archive.get(&format!("data/{name}")).is_some(),
                "{name}"
            );
        }
        let note = packing.note().unwrap();
        assert!(
            note.starts_with("copied into the guest, but cannot run there: "),
            "{note}"
        );
        assert!(note.ends_with(" (and 1 more)"), "{note}");
        // Files without what they need, in a folder or on their own.
        let mut packing = Packing::new(SEARCH);
        let file = ExtraFile {
            host: dir.path().join("bad"),
            guest: Some("/bad".into()),
        };
        packing.add_extra(&file).unwrap();
        let note = packing.note().unwrap();
        let bad = dir.path().join("bad");
        let expected = format!("{}: /no/such/one: command not found", bad.display());
        assert!(note.contains(&expected), "{note}");
    }

    #[test]
    fn a_python_comes_with_its_library_and_a_script_with_its_modules() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name);
        fs::write(place("x.py"), "import helper\n").unwrap();
        fs::write(place("helper.py"), "").unwrap();
        fs::write(place("other.py"), "").unwrap();
        let scripts = [place("x.py")];
        let python = python::ask(Path::new("/usr/bin/python3"), &scripts).unwrap();
        let mut packing = Packing::new(SEARCH);
        packing.add_python(&python, &scripts).unwrap();
        let has = |packing: &Packing<'_>, path: PathBuf| {
            packing.archive.get(path.to_str().unwrap()).is_some()
        };
        assert!(has(&packing, python.library[0].join("os.py")));
        assert!(has(&packing, python.library[0].join("encodings/utf_8.py")));
        assert!(!has(&packing, python.library[0].join("__pycache__")));
        assert!(has(&packing, place("x.py")) && has(&packing, place("helper.py")));
        assert!(!has(&packing, place("other.py")));
        // A compiled module of the standard library links with OpenSSL or another library that
        // Python itself does not.
        let libraries = packing.archive.entries();
        let mut names = libraries.map(|(name, _)| name);
        assert!(names.any(|name| name.contains("/libz.so")
            || name.contains("/libssl.so")
            || name.contains("/libffi.so")));
    }
}

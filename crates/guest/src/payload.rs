//! What is taken into the guest: the command, its libraries, files, the set-up script.
//!
//! Paths in the guest mirror this computer's, with its current folder as the guest's `/root`: absolute paths stay,
//! relative ones are below `/root`. So nothing in the guest depends on the folder a recording is made in.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use crate::cpio::{Archive, ArchiveEntry};
use crate::error::GuestError;
use crate::programs::{OwnAllocator, Programs};
use crate::{guess, program, programs};

/// Where a guest's command starts, and where relative paths go.
const HOME: &str = "/root";

/// The guest's own search path.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where the agent looks for what to run.
const SPEC: &str = ".linemate";

/// Folders that a loader searches on its own (the initramfs makes `/lib` a link to `/usr/lib`).
const LOADER_FOLDERS: [&str; 6] = [
    "/lib",
    "/usr/lib",
    "/lib64",
    "/usr/lib64",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
];

/// A file or folder to take along: `--file HOST[:GUEST]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraFile {
    /// Here.
    pub host: PathBuf,
    /// There; derived from `host` when absent.
    pub guest: Option<String>,
}

/// What to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Files and folders it needs.
    pub files: Vec<ExtraFile>,
    /// A shell script that runs before recording starts.
    pub setup: Option<PathBuf>,
}

impl ExtraFile {
    /// Parses `HOST[:GUEST]`.
    ///
    /// # Errors
    /// Either part is empty.
    pub fn parse(given: &str) -> Result<Self, GuestError> {
        let (host, guest) = match given.split_once(':') {
            Some((host, guest)) => (host, Some(guest.to_owned())),
            None => (given, None),
        };
        if host.is_empty() || guest.as_ref().is_some_and(|g| !g.starts_with('/')) {
            let reason = "it has to be FILE or FILE:/PATH/IN/GUEST".to_owned();
            return Err(GuestError::File {
                given: given.to_owned(),
                reason,
            });
        }
        Ok(ExtraFile {
            host: host.into(),
            guest,
        })
    }
}

/// A packed workload.
#[derive(Debug)]
pub(crate) struct Payload {
    /// The archive.
    pub(crate) bytes: Vec<u8>,
    /// The programs in it, if they are wanted.
    pub(crate) programs: Option<Programs>,
    /// What to tell of programs that only the command's words name, if there are any.
    pub(crate) note: Option<String>,
}

/// Packs a workload; with `allocators`, its programs are looked at, these allocators among them.
///
/// # Errors
/// A program or file that cannot be read, or that cannot run in the guest.
pub(crate) fn pack(
    workload: &Workload,
    allocators: Option<&[OwnAllocator]>,
    search_path: &str,
) -> Result<Payload, GuestError> {
    let mut archive = Archive::default();
    let mut library_folders = BTreeSet::new();
    let name = workload.command.first().map_or("", String::as_str);
    let host = program::find(name, search_path)?;
    let guest = guest_path(&host).unwrap_or_else(|| {
        let file = host.file_name().unwrap_or_default().to_string_lossy();
        format!("{HOME}/{file}")
    });
    add_program(
        &mut archive,
        &host,
        &guest,
        search_path,
        &mut library_folders,
    )?;
    let note = add_guessed(
        &mut archive,
        workload,
        &guest,
        search_path,
        &mut library_folders,
    )?;
    for file in &workload.files {
        add_extra(&mut archive, file, search_path, &mut library_folders)?;
    }
    let mut environment = vec![
        format!("PATH={SEARCH_PATH}"),
        format!("HOME={HOME}"),
        format!("PWD={HOME}"),
        "TERM=dumb".to_owned(),
        "LANG=C".to_owned(),
    ];
    if !library_folders.is_empty() {
        let folders: Vec<String> = library_folders.into_iter().collect();
        environment.push(format!("LD_LIBRARY_PATH={}", folders.join(":")));
    }
    let mut spec = |name: &str, data: Vec<u8>| {
        archive.insert(
            &format!("{SPEC}/{name}"),
            ArchiveEntry::File { mode: 0o600, data },
        );
    };
    spec("program", guest.into_bytes());
    spec("cwd", HOME.as_bytes().to_vec());
    spec("argv", words(&workload.command));
    spec("env", words(&environment));
    if let Some(script) = &workload.setup {
        spec(
            "setup",
            linemate_files::read_text(script)
                .map_err(GuestError::io("read the set-up script", script))?
                .into_bytes(),
        );
    }
    Ok(Payload {
        programs: allocators
            .map(|own| programs::find(&archive, own))
            .transpose()?,
        bytes: archive.to_bytes(),
        note,
    })
}

/// Takes the programs along that the command's words name, as far as they can run in the guest; gives what to tell of it.
fn add_guessed(
    archive: &mut Archive,
    workload: &Workload,
    command: &str,
    search_path: &str,
    library_folders: &mut BTreeSet<String>,
) -> Result<Option<String>, GuestError> {
    let provided = guess::busybox_programs(search_path);
    let mut guessed = guess::programs(&workload.command, search_path, &provided);
    guessed.remove(command);
    let (mut taken, mut left) = (Vec::new(), Vec::new());
    for (guest, host) in guessed {
        match program::needs(&host, search_path) {
            Ok(_) => {
                add_program(archive, &host, &guest, search_path, library_folders)?;
                taken.push(host.display().to_string());
            }
            Err(error) => left.push(error.to_string()),
        }
    }
    let mut notes = Vec::new();
    if !taken.is_empty() {
        notes.push(format!(
            "taken into the guest, as the command names them: {}",
            taken.join(", ")
        ));
    }
    notes.extend(left.iter().map(|error| format!("not taken along: {error}")));
    Ok((!notes.is_empty()).then(|| notes.join("; ")))
}

fn words(words: &[String]) -> Vec<u8> {
    words
        .iter()
        .flat_map(|word| word.bytes().chain([0]))
        .collect()
}

/// The same place in the guest; `None` for a relative path that leaves the current folder. Libraries are found at places such as
/// `/usr/bin/../lib`, which their programs' own search paths lead to.
fn guest_path(host: &Path) -> Option<String> {
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

fn add_program(
    archive: &mut Archive,
    host: &Path,
    guest: &str,
    search_path: &str,
    library_folders: &mut BTreeSet<String>,
) -> Result<(), GuestError> {
    add_file(archive, host, guest)?;
    for needed in program::needs(host, search_path)? {
        let Some(path) = guest_path(&needed) else {
            continue;
        };
        add_file(archive, &needed, &path)?;
        let folder = Path::new(&path)
            .parent()
            .and_then(Path::to_str)
            .unwrap_or("/");
        let is_library = needed
            .file_name()
            .is_some_and(|n| n.to_string_lossy().contains(".so"));
        if is_library && !LOADER_FOLDERS.contains(&folder) {
            library_folders.insert(folder.to_owned());
        }
    }
    Ok(())
}

/// A regular file's contents, under whatever link it was named by.
fn add_file(archive: &mut Archive, host: &Path, guest: &str) -> Result<(), GuestError> {
    let data = fs::read(host).map_err(GuestError::io("read", host))?;
    let mode = fs::metadata(host)
        .map_err(GuestError::io("read", host))?
        .permissions()
        .mode();
    archive.insert_from(
        host,
        &through_links(guest),
        ArchiveEntry::File {
            mode: mode & 0o7777,
            data,
        },
    );
    Ok(())
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

fn add_extra(
    archive: &mut Archive,
    file: &ExtraFile,
    search_path: &str,
    library_folders: &mut BTreeSet<String>,
) -> Result<(), GuestError> {
    let guest = file.guest.clone().or_else(|| guest_path(&file.host));
    let guest = guest.ok_or_else(|| GuestError::File {
        given: file.host.display().to_string(),
        reason: "it is outside the current folder: give its place as FILE:/PATH/IN/GUEST".into(),
    })?;
    add_tree(archive, &file.host, &guest, search_path, library_folders)
}

fn add_tree(
    archive: &mut Archive,
    host: &Path,
    guest: &str,
    search_path: &str,
    library_folders: &mut BTreeSet<String>,
) -> Result<(), GuestError> {
    // Folders are walked with a list, not by recursion: their depth is not ours to bound.
    // What the user names is followed if it is a link; links below it stay links.
    let mut left = vec![(host.to_owned(), guest.to_owned(), fs::metadata(host))];
    while let Some((host, guest, metadata)) = left.pop() {
        let metadata = metadata.map_err(GuestError::io("read", &host))?;
        let mode = metadata.permissions().mode() & 0o7777;
        if metadata.is_dir() {
            archive.insert(&through_links(&guest), ArchiveEntry::Directory { mode });
            for entry in fs::read_dir(&host).map_err(GuestError::io("read", &host))? {
                let entry = entry.map_err(GuestError::io("read", &host))?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = entry.path();
                let metadata = fs::symlink_metadata(&path);
                left.push((path, format!("{guest}/{name}"), metadata));
            }
        } else if metadata.is_symlink() {
            let target = fs::read_link(&host).map_err(GuestError::io("read", &host))?;
            let target = target.to_string_lossy().into_owned();
            archive.insert(&through_links(&guest), ArchiveEntry::Symlink { target });
        } else if metadata.is_file() && mode & 0o111 != 0 && program::is_program(&host) {
            add_program(archive, &host, &guest, search_path, library_folders)?;
        } else if metadata.is_file() {
            add_file(archive, &host, &guest)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCH: &str = "/usr/bin:/bin";

    fn contains(bytes: &[u8], text: &str) -> bool {
        bytes.windows(text.len()).any(|w| w == text.as_bytes())
    }

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
    fn a_payload_is_a_function_of_what_is_asked() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("data")).unwrap();
        fs::write(dir.path().join("data/one"), "1").unwrap();
        std::os::unix::fs::symlink("one", dir.path().join("data/two")).unwrap();
        let setup = dir.path().join("setup.sh");
        fs::write(&setup, "echo hi\n").unwrap();
        let workload = Workload {
            command: vec!["env".into(), "A=1".into()],
            files: vec![ExtraFile {
                host: dir.path().join("data"),
                guest: Some("/data".into()),
            }],
            setup: Some(setup),
        };
        let bytes = pack(&workload, None, SEARCH).unwrap().bytes;
        assert_eq!(bytes, pack(&workload, None, SEARCH).unwrap().bytes);
        let expected = [
            "usr/bin/env\0",
            "usr/lib64/ld-linux-x86-64.so.2\0",
            "data/two\0",
            "env\0A=1\0",
            ".linemate/setup\0",
            "echo hi\n",
            "HOME=/root\0",
        ];
        for text in expected {
            assert!(contains(&bytes, text), "{text:?} missing");
        }
        // Nothing of this computer's folders.
        assert!(!contains(&bytes, dir.path().to_str().unwrap()));
    }

    #[test]
    fn programs_that_the_command_names_are_taken_along_and_told() {
        let dir = tempfile::tempdir().unwrap();
        let server = dir.path().join("made-up-server");
        fs::write(&server, "#!/usr/bin/env\n").unwrap();
        fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).unwrap();
        let search = format!("{}:{SEARCH}", dir.path().display());
        let words = ["sh", "-c", "made-up-server -s & sleep 1"];
        let workload = Workload {
            command: words.map(str::to_owned).to_vec(),
            ..Workload::default()
        };
        let payload = pack(&workload, None, &search).unwrap();
        let place = server.display().to_string();
        assert!(contains(&payload.bytes, &format!("{}\0", &place[1..])));
        assert!(contains(&payload.bytes, "usr/bin/env\0"), "its interpreter");
        let note = payload.note.unwrap();
        assert_eq!(
            note,
            format!("taken into the guest, as the command names them: {place}")
        );
        // What cannot run there is told and left out.
        fs::write(&server, "#!/no/such/interpreter\n").unwrap();
        let payload = pack(&workload, None, &search).unwrap();
        assert!(!contains(&payload.bytes, &format!("{}\0", &place[1..])));
        let note = payload.note.unwrap();
        assert!(
            note.starts_with("not taken along: /no/such/interpreter: "),
            "{note}"
        );
        // A command whose words name nothing brings nothing.
        let workload = Workload {
            command: ["env", "A=1"].map(str::to_owned).to_vec(),
            ..Workload::default()
        };
        assert_eq!(pack(&workload, None, &search).unwrap().note, None);
    }

    #[test]
    fn files_are_named_when_they_cannot_be_taken() {
        let error = ExtraFile::parse("a:b").unwrap_err();
        assert!(error.to_string().starts_with("--file a:b:"), "{error}");
        let workload = |host: &str| Workload {
            command: vec!["env".into()],
            files: vec![ExtraFile {
                host: host.into(),
                guest: None,
            }],
            setup: None,
        };
        let error = pack(&workload("../x"), None, SEARCH).unwrap_err();
        assert!(
            error.to_string().contains("outside the current folder"),
            "{error}"
        );
        let error = pack(&workload("/no/such/file"), None, SEARCH).unwrap_err();
        assert!(
            error.to_string().starts_with("cannot read /no/such/file"),
            "{error}"
        );
    }
}

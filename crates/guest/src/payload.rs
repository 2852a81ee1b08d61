//! What is copied into the guest: the command, its libraries, files, the set-up script.
//!
//! Paths in the guest mirror this computer's, with its current folder as the guest's `/root`:
//! absolute paths stay, relative ones are below `/root`. So nothing in the guest depends on the
//! folder in which a recording is made.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::cpio::ArchiveEntry;
use crate::error::GuestError;
use crate::packing::{HOME, Packing, guest_path};
use crate::programs::{OwnAllocator, Programs};
use crate::{guess, program, programs, python};

/// The guest's own search path.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where the agent finds what to run.
const SPEC: &str = ".linemate";

/// A file or folder to copy: `--file HOST[:GUEST]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraFile {
    pub host: PathBuf,
    /// The path in the guest; derived from `host` if absent.
    pub guest: Option<String>,
}

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
            let reason = "must be FILE or FILE:/PATH/IN/GUEST".to_owned();
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

#[derive(Debug)]
pub(crate) struct Payload {
    pub(crate) bytes: Vec<u8>,
    /// The programs in it, if they are wanted.
    pub(crate) programs: Option<Programs>,
    /// The note about programs that only the command's words name, if there are any.
    pub(crate) note: Option<String>,
}

/// Packs a workload; with `allocators`, its programs are analysed, with these as additional
/// allocators.
///
/// # Errors
/// A program or file that cannot be read, or that cannot run in the guest.
pub(crate) fn pack(
    workload: &Workload,
    allocators: Option<&[OwnAllocator]>,
    search_path: &str,
) -> Result<Payload, GuestError> {
    let mut packing = Packing::new(search_path);
    let name = workload.command.first().map_or("", String::as_str);
    let host = command(program::find(name, search_path)?);
    // A command outside the current folder, given by a relative path, has no path in the guest.
    let guest = guest_path(&host).unwrap_or_else(|| {
        let file = host.file_name().unwrap_or_default().to_string_lossy();
        format!("{HOME}/{file}")
    });
    let mut programs = BTreeSet::from([host.clone()]);
    programs.extend(packing.add_program(&host, &guest)?);
    let mut notes = add_guessed(&mut packing, workload, &guest, &mut programs)?;
    // After the guessed ones: a Python may be the interpreter of one of them.
    notes.extend(add_pythons(&mut packing, workload, &host, &programs)?);
    // Last: what the user names replaces what was guessed.
    for file in &workload.files {
        packing.add_extra(file)?;
    }
    notes.extend(packing.note());
    let Packing {
        mut archive,
        library_folders,
        ..
    } = packing;
    let mut environment = vec![
        format!("PATH={SEARCH_PATH}"),
        format!("HOME={HOME}"),
        format!("PWD={HOME}"),
        "TERM=dumb".to_owned(),
        // Nothing of this computer's environment: the recording would depend on it.
        "LANG=C".to_owned(),
    ];
    if !library_folders.is_empty() {
        let folders: Vec<String> = library_folders.into_iter().collect();
        // The guest has no `ld.so.cache` that would name them.
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
        note: (!notes.is_empty()).then(|| notes.join("; ")),
    })
}

/// The program behind a command's name, past a script that finds the Python to start (pyenv's).
fn command(found: PathBuf) -> PathBuf {
    if !python::is_python(&found) || !program::is_script(&found) {
        return found;
    }
    python::ask(&found, &[]).map_or(found, |python| python.interpreter)
}

/// Copies the programs that the command's words name, as far as they can run in the guest; returns
/// the note about it. `programs` gets these and what they need.
fn add_guessed(
    packing: &mut Packing<'_>,
    workload: &Workload,
    command: &str,
    programs: &mut BTreeSet<PathBuf>,
) -> Result<Vec<String>, GuestError> {
    let search_path = packing.search_path();
    let provided = guess::busybox_programs(search_path);
    let mut guessed = guess::programs(&workload.command, search_path, &provided);
    // It exists, so if it lacks something that is an error, not a note.
    guessed.remove(command);
    let (mut taken, mut left) = (Vec::new(), Vec::new());
    for (guest, host) in guessed {
        match program::needs(&host, search_path) {
            Ok(_) => {
                programs.extend(packing.add_program(&host, &guest)?);
                taken.push(host.display().to_string());
                programs.insert(host);
            }
            Err(error) => left.push(error.to_string()),
        }
    }
    let mut notes = Vec::new();
    if !taken.is_empty() {
        notes.push(format!(
            "copied into the guest, as the command names them: {}",
            taken.join(", ")
        ));
    }
    notes.extend(
        left.iter()
            .map(|error| format!("not copied into the guest: {error}")),
    );
    Ok(notes)
}

/// Copies what the Pythons among the programs need for the command and its scripts; returns the
/// note about it.
fn add_pythons(
    packing: &mut Packing<'_>,
    workload: &Workload,
    command: &Path,
    programs: &BTreeSet<PathBuf>,
) -> Result<Option<String>, GuestError> {
    let interpreters: Vec<&PathBuf> = programs
        .iter()
        .filter(|program| python::is_python(program) && !program::is_script(program))
        .collect();
    let mut scripts = python::scripts(&guess::words(&workload.command));
    // A command that is itself a script with a `#!` line, whatever its name ends in.
    if program::is_script(command) && !interpreters.is_empty() {
        scripts.push(command.to_owned());
    }
    let mut taken = BTreeSet::new();
    for interpreter in interpreters {
        if let Some(python) = python::ask(interpreter, &scripts) {
            packing.add_python(&python, &scripts)?;
            taken.extend(python.library);
            taken.extend(python.modules);
            taken.extend(scripts.iter().filter(|script| *script != command).cloned());
        }
    }
    let taken: Vec<String> = taken
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let note = format!(
        "copied into the guest, as Python needs them: {}",
        taken.join(", ")
    );
    Ok((!taken.is_empty()).then_some(note))
}

fn words(words: &[String]) -> Vec<u8> {
    words
        .iter()
        .flat_map(|word| word.bytes().chain([0]))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const SEARCH: &str = "/usr/bin:/bin";

    fn contains(bytes: &[u8], text: &str) -> bool {
        bytes.windows(text.len()).any(|w| w == text.as_bytes())
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
    fn programs_that_the_command_names_are_copied_and_reported() {
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
            format!("copied into the guest, as the command names them: {place}")
        );
        // Programs that cannot run there are reported and left out.
        fs::write(&server, "#!/no/such/interpreter\n").unwrap();
        let payload = pack(&workload, None, &search).unwrap();
        assert!(!contains(&payload.bytes, &format!("{}\0", &place[1..])));
        let note = payload.note.unwrap();
        assert!(
            note.starts_with("not copied into the guest: /no/such/interpreter: "),
            "{note}"
        );
        // A command whose words name no program copies none.
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

//! What a program needs to run in the guest: its loader and shared libraries, or its interpreter.
//!
//! The program's own loader lists the libraries, so that search paths, caches and `$ORIGIN` mean
//! what they mean on this computer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::elf::{EM_X86_64, FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{LittleEndian, elf};
use thiserror::Error;

/// A program that cannot be copied into the guest.
#[derive(Debug, Error)]
pub enum ProgramError {
    #[error("{0}: command not found: give its path, or install it on this computer")]
    NotFound(String),
    #[error("{0} is a folder: give the path of a program in it")]
    Folder(PathBuf),
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{0} is not executable: chmod +x it")]
    NotExecutable(PathBuf),
    #[error("{path} is for another architecture (ELF machine {machine}): the guest is x86-64")]
    OtherArchitecture {
        path: PathBuf,
        /// The processor that it is for, ELF's `e_machine`.
        machine: u16,
    },
    /// Neither ELF nor a script.
    #[error("{0} is neither an x86-64 program nor a script with a #! line")]
    NotAProgram(PathBuf),
    /// The ELF file is broken.
    #[error("{path} is not a sound ELF file: {reason}")]
    BrokenElf { path: PathBuf, reason: String },
    /// The dynamic loader is not on this computer.
    #[error(
        "{program} needs the loader {loader}, which is not on this computer: install its C library, or link it statically"
    )]
    NoLoader {
        program: PathBuf,
        /// The loader that its `PT_INTERP` names.
        loader: PathBuf,
    },
    /// A shared library is not on this computer.
    #[error("{program} needs {library}, which is not on this computer: install it")]
    NoLibrary { program: PathBuf, library: String },
    /// The loader could not list the libraries.
    #[error("{loader} cannot list the libraries of {program}: {reason}")]
    Loader {
        loader: PathBuf,
        program: PathBuf,
        reason: String,
    },
    /// Scripts whose interpreters are scripts, in a loop.
    #[error("{0}: its #! lines form a loop")]
    EndlessInterpreter(PathBuf),
}

/// Finds a command as a shell would: by its path if it has a slash, else in `search_path`.
///
/// # Errors
/// [`ProgramError::NotFound`], [`ProgramError::Folder`] or [`ProgramError::NotExecutable`].
pub(crate) fn find(command: &str, search_path: &str) -> Result<PathBuf, ProgramError> {
    if command.contains('/') && Path::new(command).is_dir() {
        return Err(ProgramError::Folder(PathBuf::from(command)));
    }
    let path = if command.contains('/') {
        Some(PathBuf::from(command)).filter(|path| path.is_file())
    } else {
        // A relative one means another folder in the guest.
        let directories = search_path.split(':').filter(|d| d.starts_with('/'));
        directories
            .map(|d| Path::new(d).join(command))
            .find(|path| is_executable(path))
    };
    let path = path.ok_or_else(|| ProgramError::NotFound(command.to_owned()))?;
    if is_executable(&path) {
        Ok(path)
    } else {
        Err(ProgramError::NotExecutable(path))
    }
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Whether an executable file's libraries are copied with it.
pub(crate) fn is_program(host: &Path) -> bool {
    start(host).is_some_and(|start| start == object::elf::ELFMAG || start.starts_with(b"#!"))
}

/// Whether an executable file is run by another.
pub(crate) fn is_script(host: &Path) -> bool {
    start(host).is_some_and(|start| start.starts_with(b"#!"))
}

fn start(host: &Path) -> Option<[u8; 4]> {
    use std::io::Read;
    let mut start = [0; 4];
    fs::File::open(host).ok()?.read_exact(&mut start).ok()?;
    Some(start)
}

/// Files that must be at the same path in the guest for `program` to run, without the program
/// itself.
///
/// # Errors
/// A [`ProgramError`] that names the program and what it lacks.
pub(crate) fn needs(program: &Path, search_path: &str) -> Result<Vec<PathBuf>, ProgramError> {
    // A script's interpreter may be a script; the kernel stops after four.
    const DEPTH: usize = 4;
    let mut needed = Vec::new();
    let mut current = program.to_owned();
    for _ in 0..=DEPTH {
        let data = read(&current)?;
        let Some(line) = data.strip_prefix(b"#!") else {
            needed.extend(libraries(&current, &data)?);
            return Ok(needed);
        };
        let line = line.split(|&b| b == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line).into_owned();
        let mut words = line.split_whitespace();
        let Some(interpreter) = words.next() else {
            return Err(ProgramError::NotAProgram(current));
        };
        let interpreter = find(interpreter, search_path)?;
        needed.push(interpreter.clone());
        // `env` looks up its argument in the search path: that program is needed, and its needs
        // come next.
        if interpreter.ends_with("env") {
            let named = words.find(|w| !w.starts_with('-') && !w.contains('='));
            needed.extend(libraries(&interpreter, &read(&interpreter)?)?);
            let Some(named) = named else {
                return Ok(needed);
            };
            current = find(named, search_path)?;
            needed.push(current.clone());
        } else {
            current = interpreter;
        }
    }
    Err(ProgramError::EndlessInterpreter(program.to_owned()))
}

fn read(path: &Path) -> Result<Vec<u8>, ProgramError> {
    fs::read(path).map_err(|source| ProgramError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

/// The loader and libraries of an ELF program; none if it is static.
fn libraries(program: &Path, data: &[u8]) -> Result<Vec<PathBuf>, ProgramError> {
    let Some(loader) = loader(program, data)? else {
        return Ok(Vec::new());
    };
    if !loader.is_file() {
        return Err(ProgramError::NoLoader {
            program: program.to_owned(),
            loader,
        });
    }
    let mut files = vec![loader.clone()];
    files.extend(listed(&loader, program)?);
    Ok(files)
}

/// The libraries of a compiled module that a program loads at run time.
///
/// # Errors
/// One of them is missing on this computer, or the module is for another architecture.
pub(crate) fn module_needs(program: &Path, module: &Path) -> Result<Vec<PathBuf>, ProgramError> {
    match loader(program, &read(program)?)? {
        Some(loader) => listed(&loader, module),
        None => Ok(Vec::new()),
    }
}

/// The libraries that a loader lists for a program or library.
fn listed(loader: &Path, program: &Path) -> Result<Vec<PathBuf>, ProgramError> {
    let failed = |reason: String| ProgramError::Loader {
        loader: loader.to_owned(),
        program: program.to_owned(),
        reason,
    };
    let output = Command::new(loader)
        .arg("--list")
        // A bare name would be looked up among the libraries.
        .arg(Path::new(".").join(program))
        // It would be listed as one of the program's libraries.
        .env_remove("LD_PRELOAD")
        .output()
        .map_err(|e| failed(e.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let files = parse_list(&text).map_err(|library| ProgramError::NoLibrary {
        program: program.to_owned(),
        library,
    })?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let line = words.lines().next().unwrap_or("no reason given");
        // glibc: "PROGRAM: error while loading shared libraries: libx.so: cannot open shared object
        // file: …"
        if let Some((_, rest)) = line.split_once("loading shared libraries: ") {
            let library = rest.split(':').next().unwrap_or(rest).to_owned();
            return Err(ProgramError::NoLibrary {
                program: program.to_owned(),
                library,
            });
        }
        return Err(failed(line.to_owned()));
    }
    Ok(files)
}

/// Parses the loader's listing: `name => path (address)`, or `path (address)`. The error is a
/// library that was not found.
fn parse_list(text: &str) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        let (name, path) = line.split_once(" => ").unwrap_or((line, line));
        if path.starts_with("not found") {
            return Err(name.to_owned());
        }
        let path = path.rsplit_once(" (0x").map_or(path, |(path, _)| path);
        if path.starts_with('/') {
            files.push(PathBuf::from(path));
        }
    }
    Ok(files)
}

/// `PT_INTERP` of an x86-64 program.
fn loader(program: &Path, data: &[u8]) -> Result<Option<PathBuf>, ProgramError> {
    if !data.starts_with(&elf::ELFMAG) {
        return Err(ProgramError::NotAProgram(program.to_owned()));
    }
    let broken = |e: object::Error| ProgramError::BrokenElf {
        path: program.to_owned(),
        reason: e.to_string(),
    };
    let (class, order) = (data.get(4).copied(), data.get(5).copied());
    let machine = data
        .get(18..20)
        .and_then(|b| b.try_into().ok())
        .map_or(0, |b: [u8; 2]| {
            if order == Some(elf::ELFDATA2MSB) {
                u16::from_be_bytes(b)
            } else {
                u16::from_le_bytes(b)
            }
        });
    // Before the parser, whose error would not name the machine.
    if class != Some(elf::ELFCLASS64) || machine != EM_X86_64 {
        return Err(ProgramError::OtherArchitecture {
            path: program.to_owned(),
            machine,
        });
    }
    let header = FileHeader64::<LittleEndian>::parse(data).map_err(broken)?;
    for segment in header.program_headers(LittleEndian, data).map_err(broken)? {
        if segment.p_type(LittleEndian) == PT_INTERP {
            if let Some(path) = segment.interpreter(LittleEndian, data).map_err(broken)? {
                return Ok(Some(PathBuf::from(
                    String::from_utf8_lossy(path).into_owned(),
                )));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCH: &str = "/usr/bin:/bin";

    #[test]
    fn listing_of_glibc_and_musl() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd5b3f2000)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f0a)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f0b)\n";
        let expected: Vec<PathBuf> = [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib64/ld-linux-x86-64.so.2",
        ]
        .map(Into::into)
        .into();
        assert_eq!(parse_list(text), Ok(expected));
        assert_eq!(
            parse_list("\tlibx.so.1 => not found\n"),
            Err("libx.so.1".to_owned())
        );
    }

    #[test]
    fn a_dynamic_program_needs_its_loader_and_the_c_library() {
        let program = find("env", SEARCH).unwrap();
        let needed = needs(&program, SEARCH).unwrap();
        assert!(
            needed.contains(&PathBuf::from("/lib64/ld-linux-x86-64.so.2")),
            "{needed:?}"
        );
        assert!(
            needed.iter().any(|p| p.ends_with("libc.so.6")),
            "{needed:?}"
        );
    }

    #[test]
    fn a_script_needs_its_interpreter_and_what_that_needs() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        fs::write(&script, "#!/usr/bin/env -S sh -e\nexit 0\n").unwrap();
        let needed = needs(&script, SEARCH).unwrap();
        for name in ["env", "sh", "libc.so.6"] {
            assert!(
                needed.iter().any(|p| p.ends_with(name)),
                "{name} not in {needed:?}"
            );
        }
    }

    #[test]
    fn failures_name_their_cause() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, data: &[u8]| {
            let path = dir.path().join(name);
            fs::write(&path, data).unwrap();
            path
        };
        let mut arm = vec![0; 64];
        arm[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        arm[18] = 183;
        let error = needs(&file("arm", &arm), SEARCH).unwrap_err();
        assert!(
            matches!(error, ProgramError::OtherArchitecture { machine: 183, .. }),
            "{error}"
        );
        let error = needs(&file("text", b"hello"), SEARCH).unwrap_err();
        assert!(matches!(error, ProgramError::NotAProgram(_)), "{error}");
        let mut cut = arm.clone();
        cut[18] = 62;
        cut.truncate(40);
        let error = needs(&file("cut", &cut), SEARCH).unwrap_err();
        assert!(matches!(error, ProgramError::BrokenElf { .. }), "{error}");
        let own = file("own", b"#!own\n");
        let error = needs(&own, SEARCH).unwrap_err();
        assert!(matches!(error, ProgramError::NotFound(_)), "{error}");
        let error = find("no-such-command-here", SEARCH).unwrap_err();
        assert!(matches!(error, ProgramError::NotFound(_)), "{error}");
        let error = find("/", SEARCH).unwrap_err();
        assert!(matches!(error, ProgramError::Folder(_)), "{error}");
        let error = find(own.to_str().unwrap(), SEARCH).unwrap_err();
        assert!(matches!(error, ProgramError::NotExecutable(_)), "{error}");
    }
}

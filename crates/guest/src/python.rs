//! What a Python program needs beyond a loader's list: the modules of its interpreter, and those
//! that its script imports.
//!
//! The interpreter is asked, as a loader is for libraries, so that prefixes, environments and path
//! files mean what they mean on this computer.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The question to the interpreter.
const QUESTION: &str = include_str!("python.py");

/// Parts of the standard library that no program needs to run: its own tests, what links other
/// programs with it, what was compiled on this computer (stale by the file times in the guest).
/// Modules in other folders are copied one by one.
const LEFT_OUT: [&str; 4] = ["__pycache__", "test", "site-packages", "dist-packages"];

/// A Python on this computer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Python {
    /// The program itself, if its name led to a script that starts it (pyenv).
    pub(crate) interpreter: PathBuf,
    /// Folders of the standard library.
    pub(crate) library: Vec<PathBuf>,
    /// Modules (files) and packages (folders) elsewhere.
    pub(crate) modules: Vec<PathBuf>,
}

/// Whether a program has a name like Python's interpreters: `python`, `python3`, `python3.11`.
pub(crate) fn is_python(program: &Path) -> bool {
    let name = program.file_name().and_then(OsStr::to_str);
    name.and_then(|name| name.strip_prefix("python"))
        .is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// Whether a part of the standard library is left out.
pub(crate) fn is_left_out(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    LEFT_OUT.contains(&&*name) || name.starts_with("config-")
}

/// The scripts among the words of a command.
pub(crate) fn scripts(words: &[&str]) -> Vec<PathBuf> {
    let named = words.iter().filter(|word| word.ends_with(".py"));
    let paths = named.map(PathBuf::from);
    paths.filter(|path| path.is_file()).collect()
}

/// Asks an interpreter what it and these scripts need; `None` if it does not answer, for example
/// because it is not a Python.
pub(crate) fn ask(interpreter: &Path, scripts: &[PathBuf]) -> Option<Python> {
    let output = Command::new(interpreter)
        // Isolated from this shell's environment, and without writing compiled files into other
        // folders.
        .args(["-I", "-B", "-c", QUESTION])
        .args(scripts)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| parse(&text))?
}

fn parse(text: &str) -> Option<Python> {
    let of = |kind: &str| -> Vec<PathBuf> {
        let lines = text.lines().filter_map(|line| line.split_once('\t'));
        let paths = lines.filter(|(k, _)| *k == kind);
        paths.map(|(_, path)| PathBuf::from(path)).collect()
    };
    Some(Python {
        interpreter: of("interpreter").pop()?,
        library: of("library"),
        modules: of("module"),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn interpreters_are_known_by_their_names() {
        for name in ["python", "/usr/bin/python3", "./python3.11"] {
            assert!(is_python(Path::new(name)), "{name}");
        }
        for name in ["python-config", "/usr/bin/pythonw", "perl", "python3/x"] {
            assert!(!is_python(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn an_interpreter_shows_its_library_and_what_a_script_imports() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name);
        fs::write(
            place("x.py"),
            "import json, helper\nfrom pack.part import f\n",
        )
        .unwrap();
        fs::write(place("helper.py"), "def g():\n    import late\n").unwrap();
        fs::write(place("late.py"), "raise SystemExit('it was run')\n").unwrap();
        fs::write(place("other.py"), "").unwrap();
        fs::create_dir(place("pack")).unwrap();
        fs::write(place("pack/__init__.py"), "").unwrap();
        fs::write(place("pack/part.py"), "f = 1\n").unwrap();
        let python = ask(Path::new("/usr/bin/python3"), &[place("x.py")]).unwrap();
        assert!(python.library[0].join("os.py").is_file(), "{python:?}");
        let expected = ["helper.py", "late.py", "pack"].map(place);
        assert_eq!(python.modules, expected);
        // By a relative name, from there: the guest starts in another folder.
        let mut relative = Command::new("/usr/bin/python3");
        relative.args(["-I", "-B", "-c", QUESTION, "x.py"]);
        let output = relative.current_dir(dir.path()).output().unwrap();
        let python = parse(&String::from_utf8(output.stdout).unwrap()).unwrap();
        assert_eq!(
            python.modules,
            ["helper.py", "late.py", "pack"].map(PathBuf::from)
        );
        // A package without `__init__.py` ends the search; what was found before it counts.
        fs::create_dir(place("space")).unwrap();
        fs::write(place("space/part.py"), "").unwrap();
        fs::write(place("x.py"), "import helper\nimport space.part\n").unwrap();
        let python = ask(Path::new("/usr/bin/python3"), &[place("x.py")]).unwrap();
        assert_eq!(python.modules, ["helper.py", "late.py"].map(place));
        // A script that is not Python needs nothing more.
        fs::write(place("x.py"), "import helper (\n").unwrap();
        let python = ask(Path::new("/usr/bin/python3"), &[place("x.py")]).unwrap();
        assert!(python.modules.is_empty() && !python.library.is_empty());
        assert_eq!(ask(Path::new("/bin/false"), &[]), None);
        assert_eq!(ask(Path::new("/bin/echo"), &[]), None);
    }
}

//! Programs that the guest did not find, recognised by the messages of shells and `env` on standard
//! error.

use std::collections::BTreeSet;
use std::env;

use linemate_guest::ExitStatus;

/// A shell's exit code if it did not find its command.
const NOT_FOUND: ExitStatus = ExitStatus::Exit(127);

/// The longest line that is examined.
const LINE_MAX: usize = 4096;

/// The maximum number of names stored.
const NAMES_MAX: usize = 16;

/// Reads the workload's standard error.
#[derive(Debug, Default)]
pub(super) struct NotFound {
    line: Vec<u8>,
    names: BTreeSet<String>,
}

impl NotFound {
    /// Handles written text.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                self.end_of_line();
            } else if self.line.len() < LINE_MAX {
                self.line.push(byte);
            }
        }
    }

    fn end_of_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        if let Some(name) = missing(line.trim_end()).filter(|_| self.names.len() < NAMES_MAX) {
            self.names.insert(name.to_owned());
        }
    }

    /// The notes at the end: the programs with the option that copies them.
    pub(super) fn note(mut self, status: ExitStatus) -> Option<String> {
        self.end_of_line();
        if self.names.is_empty() {
            return (status == NOT_FOUND).then(|| {
                "exit status 127: the guest did not find a program; copy it with --file PROGRAM"
                    .to_owned()
            });
        }
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let flags: Vec<String> = names.iter().map(|name| flag(name)).collect();
        Some(format!(
            "the guest did not find {}; copy it with {}",
            names.join(", "),
            flags.join(" ")
        ))
    }
}

/// The program that a line reports as not found: `sh: 1: prog: not found`,
/// `bash: line 1: prog: command not found`, `env: 'prog': No such file or directory`.
fn missing(line: &str) -> Option<&str> {
    let told = line
        .strip_suffix(": not found")
        .or_else(|| line.strip_suffix(": command not found"))
        .or_else(|| {
            line.strip_prefix("env: ")?
                .strip_suffix(": No such file or directory")
        })?;
    let name = told.rsplit(": ").next()?;
    let name = name.trim_matches(|c| matches!(c, '\'' | '‘' | '’'));
    (!name.is_empty() && !name.contains(char::is_whitespace)).then_some(name)
}

/// The option for a program: with its path, if this computer has it.
fn flag(name: &str) -> String {
    let folders = env::var_os("PATH").unwrap_or_default();
    let paths = env::split_paths(&folders).map(|folder| folder.join(name));
    let found = paths
        .filter(|path| path.is_absolute())
        .find(|path| path.is_file());
    match found {
        Some(path) => format!("--file {}", path.display()),
        None => format!("--file PATH/{}", name.rsplit('/').next().unwrap_or(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(said: &str, status: u8) -> Option<String> {
        let mut reader = NotFound::default();
        for piece in said.as_bytes().chunks(3) {
            reader.read(piece);
        }
        reader.note(ExitStatus::Exit(status))
    }

    #[test]
    fn shells_show_what_they_do_not_find() {
        for said in [
            "sh: 1: made-up: not found\n",
            "sh: made-up: not found\n",
            "/root/run.sh: line 3: made-up: not found\n",
            "bash: line 1: made-up: command not found\nmore\n",
            "env: 'made-up': No such file or directory",
            "env: can't execute 'x'\nenv: ‘made-up’: No such file or directory\n",
        ] {
            let expected = "the guest did not find made-up; copy it with --file PATH/made-up";
            assert_eq!(note(said, 0).as_deref(), Some(expected), "{said}");
        }
        let two = note("sh: 1: env: not found\nsh: 2: made-up: not found\n", 127).unwrap();
        assert!(
            two.starts_with("the guest did not find env, made-up; "),
            "{two}"
        );
        assert!(two.contains("--file /"), "{two}");
    }

    #[test]
    fn other_failures_are_none_of_it() {
        assert_eq!(note("cat: x: No such file or directory\n", 1), None);
        assert_eq!(
            note("HTTP 404: page not found\nlast: not found at all\n", 1),
            None
        );
        assert!(note("", 127).unwrap().contains("--file PROGRAM"));
        let endless = "x".repeat(1 << 20);
        assert_eq!(note(&endless, 0), None);
    }
}

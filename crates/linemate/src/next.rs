//! The command that usually follows, printed at the end of an answer.

use std::path::Path;

use crate::files::{InFile, MachineName};
use crate::input::{DEFAULT, DEFAULT_MACHINE};

/// The line with it. `why`: the purpose of the command.
pub(crate) fn step(why: &str, command: &str) -> String {
    format!("Next, {why}: linemate {command}")
}

/// The option that names a recording, with a space before it; empty for the default one.
pub(crate) fn input(path: &Path) -> String {
    match path == Path::new(DEFAULT) {
        true => String::new(),
        false => format!(" -i {}", quoted(&path.to_string_lossy())),
    }
}

/// The options that name recordings, with a space before each.
pub(crate) fn inputs(paths: &[InFile]) -> String {
    paths.iter().map(|path| input(path)).collect()
}

/// The options that name machines, with a space before each; empty for the default one.
pub(crate) fn machines(names: &[MachineName]) -> String {
    match names {
        [only] if **only == *DEFAULT_MACHINE => String::new(),
        names => each_machine(names),
    }
}

/// The same of all of them.
pub(crate) fn each_machine(names: &[MachineName]) -> String {
    names
        .iter()
        .map(|name| format!(" --machine {}", quoted(name)))
        .collect()
}

/// As a shell reads it back.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_named_unless_it_is_the_usual_one() {
        assert_eq!(input(Path::new("linemate.data")), "");
        assert_eq!(input(Path::new("/tmp/a.data")), " -i /tmp/a.data");
        assert_eq!(input(Path::new("it's")), " -i 'it'\\''s'");
    }

    #[test]
    fn machines_are_named_unless_it_is_the_usual_one() {
        let of = |names: &[&str]| {
            machines(
                &names
                    .iter()
                    .map(|n| MachineName::from((*n).to_owned()))
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(of(&["gnr-2s-480"]), "");
        assert_eq!(of(&["turin-2s"]), " --machine turin-2s");
        assert_eq!(
            of(&["gnr-2s-480", "a b"]),
            " --machine gnr-2s-480 --machine 'a b'"
        );
    }
}

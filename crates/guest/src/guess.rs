//! Programs that a command will start, guessed from its words: `taskset 1 iperf3 -s`,
//! `sh -c 'iperf3 -s & stress-ng'`.
//!
//! A word counts that names a program on the search path or by its path. What busybox has in the
//! guest is not copied into the guest: such a word is as often no program's name, and the guest can
//! run it already.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::packing::HOME;
use crate::program;

/// Shells: the word after their option `-c` is a script.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "ksh", "zsh"];

/// What is between words in a shell's script.
const SEPARATORS: &[char] = &[
    ';', '|', '&', '(', ')', '<', '>', '{', '}', '`', '$', '"', '\'', '=', '\\',
];

/// The programs named by the words after the first one: paths in the guest and here.
pub(crate) fn programs(
    command: &[String],
    search_path: &str,
    provided: &BTreeSet<String>,
) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    for word in words(command) {
        if word.starts_with('-') || provided.contains(word) {
            continue;
        }
        // Most words name no program: that is not an error, because nobody said that they do.
        let Ok(host) = program::find(word, search_path) else {
            continue;
        };
        let guest = Some(&host).filter(|host| program::is_program(host));
        if let Some(guest) = guest.and_then(|host| guest_path(host)) {
            found.insert(guest, host);
        }
    }
    found
}

/// The words after the command's first one; of a shell's script its words.
pub(crate) fn words(command: &[String]) -> Vec<&str> {
    let mut words = Vec::new();
    let mut has_shell = false;
    for (index, word) in command.iter().enumerate() {
        let option = index.checked_sub(1).and_then(|before| command.get(before));
        let is_script = has_shell
            && option.is_some_and(|o| {
                o.strip_prefix('-')
                    .is_some_and(|letters| !letters.starts_with('-') && letters.ends_with('c'))
            });
        if is_script {
            words.extend(word.split(|c: char| c.is_whitespace() || SEPARATORS.contains(&c)));
        } else if index > 0 {
            words.push(word);
        }
        let name = Path::new(word).file_name().and_then(OsStr::to_str);
        // After the word itself: another program may start the shell (`taskset 1 sh -c '…'`).
        has_shell |= name.is_some_and(|name| SHELLS.contains(&name));
    }
    words
}

/// The same path in the guest, where relative paths start at its `/root`.
pub(crate) fn guest_path(host: &Path) -> Option<String> {
    let mut guest = PathBuf::from(HOME);
    for part in host.components() {
        match part {
            Component::RootDir => guest = PathBuf::from("/"),
            Component::Normal(name) => guest.push(name),
            // The root is its own parent.
            Component::ParentDir => drop(guest.pop()),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    guest.to_str().map(str::to_owned)
}

/// The programs that busybox provides in the guest; none if it does not list them.
pub(crate) fn busybox_programs(search_path: &str) -> BTreeSet<String> {
    let Ok(busybox) = program::find("busybox", search_path) else {
        return BTreeSet::new();
    };
    // Asked, because each distribution's has a different set.
    let listed = Command::new(busybox).arg("--list").output();
    let text = listed.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn scripts_are_read_word_by_word() {
        let command = strings(&["sh", "-ec", "a=1; (iperf3 -s)&\nx|`y` \"$z\"", "last one"]);
        let expected = [
            "-ec", "a", "1", "", "", "iperf3", "-s", "", "", "x", "", "y", "", "", "", "z", "",
            "last one",
        ];
        assert_eq!(words(&command), expected);
        // Not a shell: `-c` is some other option, and its value one word.
        assert_eq!(
            words(&strings(&["taskset", "-c", "0 1", "prog"])),
            ["-c", "0 1", "prog"]
        );
        assert_eq!(
            words(&strings(&["env", "bash", "-c", "a b"])),
            ["bash", "-c", "a", "b"]
        );
    }

    #[test]
    fn programs_are_found_on_the_search_path_and_by_their_path() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name);
        for (name, mode) in [("server", 0o755), ("sort", 0o755), ("text", 0o644)] {
            fs::write(place(name), "#!/bin/sh\n").unwrap();
            fs::set_permissions(place(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::write(place("data"), "neither program nor script").unwrap();
        fs::set_permissions(place("data"), fs::Permissions::from_mode(0o755)).unwrap();
        let search = dir.path().to_str().unwrap();
        let provided = BTreeSet::from(["sort".to_owned()]);
        let found = |script: &str| -> Vec<PathBuf> {
            let command = strings(&["sh", "-c", script]);
            programs(&command, search, &provided)
                .into_values()
                .collect()
        };
        assert_eq!(
            found("server -x & sort; text; data; nobody"),
            [place("server")]
        );
        let path = place("server").display().to_string();
        assert_eq!(found(&format!("exec {path}")), [place("server")]);
        assert!(found("-server --server").is_empty());
    }

    #[test]
    fn paths_start_at_the_guests_home() {
        let guest = |host: &str| guest_path(Path::new(host)).unwrap();
        assert_eq!(guest("./a/b"), "/root/a/b");
        assert_eq!(guest("../a"), "/a");
        assert_eq!(guest("../../../a"), "/a");
        assert_eq!(guest("/usr/bin/iperf3"), "/usr/bin/iperf3");
    }
}

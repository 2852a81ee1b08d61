//! Text that QEMU, the guest's console and the agent write into files.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::error::GuestError;
use crate::observer::PROGRESS;
use crate::qemu::GuestFiles;

/// A growing file, read from where the last read ended.
#[derive(Debug)]
pub(crate) struct Tail {
    path: PathBuf,
    at: u64,
}

impl Tail {
    pub(crate) fn new(path: PathBuf) -> Self {
        Tail { path, at: 0 }
    }

    pub(crate) fn read(&mut self) -> Result<Vec<u8>, GuestError> {
        let mut bytes = Vec::new();
        let mut read = || -> io::Result<()> {
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(self.at))?;
            file.read_to_end(&mut bytes)?;
            Ok(())
        };
        read().map_err(GuestError::io("read", &self.path))?;
        self.at += bytes.len() as u64;
        Ok(bytes)
    }
}

pub(crate) fn contains(bytes: &[u8], words: &[u8]) -> bool {
    bytes.windows(words.len()).any(|window| window == words)
}

/// The first complete line, without its end.
pub(crate) fn take_line(bytes: &mut Vec<u8>) -> Option<String> {
    let end = bytes.iter().position(|&b| b == b'\n')?;
    let line: Vec<u8> = bytes.drain(..=end).collect();
    Some(String::from_utf8_lossy(&line).trim_end().to_owned())
}

pub(crate) fn read_lossy(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// QEMU's last line other than progress.
pub(crate) fn last_words(words: &str) -> Option<String> {
    let told = |line: &&str| !line.trim().is_empty() && !line.starts_with(PROGRESS);
    words.lines().rfind(told).map(str::to_owned)
}

pub(crate) fn console_lines(files: &GuestFiles) -> String {
    read_lossy(&files.console())
}

pub(crate) fn find_line(console: &str, words: &str) -> Option<String> {
    console
        .lines()
        .find(|line| line.contains(words))
        .map(without_time_stamp)
}

pub(crate) fn last_line(console: &str) -> String {
    let line = console.lines().rfind(|line| !line.trim().is_empty());
    line.map_or_else(|| "nothing".to_owned(), without_time_stamp)
}

/// `[    1.234567] words` → `words`, and no control characters.
fn without_time_stamp(line: &str) -> String {
    // A hostile guest writes this, and it ends up on the user's terminal.
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    let rest = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "));
    match rest {
        Some((stamp, words)) if stamp.trim().parse::<f64>().is_ok() => words.to_owned(),
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn console_lines_lose_their_time_stamps() {
        let console = "[    0.1] one\r\n[    2.345] Kernel panic - not syncing: No init\r\n\r\n";
        assert_eq!(
            find_line(console, "Kernel panic").as_deref(),
            Some("Kernel panic - not syncing: No init")
        );
        assert_eq!(last_line(console), "Kernel panic - not syncing: No init");
        assert_eq!(last_line("\r\n"), "nothing");
        assert_eq!(last_line("[x] y"), "[x] y");
    }

    #[test]
    fn a_tail_gives_each_byte_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "ab").unwrap();
        let mut tail = Tail::new(path.clone());
        assert_eq!(tail.read().unwrap(), b"ab");
        assert_eq!(tail.read().unwrap(), b"");
        fs::write(&path, "abc").unwrap();
        assert_eq!(tail.read().unwrap(), b"c");
    }
}

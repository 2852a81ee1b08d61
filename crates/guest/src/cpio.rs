//! Writing of cpio archives (newc form): the initramfs for the kernel and the payload for the
//! agent.
//!
//! Owner, times and inode numbers are constants, so that an archive is a function of names, modes
//! and contents.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The contents of an archive entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ArchiveEntry {
    Directory { mode: u32 },
    File { mode: u32, data: Vec<u8> },
    Symlink { target: String },
}

/// An archive being built: names without a leading slash, each once, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Archive {
    nodes: BTreeMap<String, ArchiveEntry>,
    /// The paths on this computer of files' contents, if they are known.
    hosts: BTreeMap<String, PathBuf>,
}

impl Archive {
    /// Adds a node, replacing one of the same name. Missing parent directories are added.
    pub(crate) fn insert(&mut self, name: &str, node: ArchiveEntry) {
        let name = name.trim_matches('/');
        for (at, _) in name.match_indices('/') {
            let parent = name.get(..at).unwrap_or_default().to_owned();
            self.nodes
                .entry(parent)
                // Not in place of an existing folder: its mode was taken from this computer.
                .or_insert(ArchiveEntry::Directory { mode: 0o755 });
        }
        // Generated contents have no path on this computer, even if a file with one had the name
        // before.
        self.hosts.remove(name);
        self.nodes.insert(name.to_owned(), node);
    }

    /// Adds the file at `host` on this computer.
    pub(crate) fn insert_from(&mut self, host: &Path, name: &str, node: ArchiveEntry) {
        self.insert(name, node);
        let name = name.trim_matches('/').to_owned();
        self.hosts.insert(name, host.to_owned());
    }

    /// The path on this computer of the entry with that name; `None` if it is generated.
    pub(crate) fn host(&self, name: &str) -> Option<&Path> {
        self.hosts.get(name).map(PathBuf::as_path)
    }

    /// All paths on this computer that files come from.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &Path> {
        self.hosts.values().map(PathBuf::as_path)
    }

    /// Its contents, by name.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &ArchiveEntry)> {
        self.nodes
            .iter()
            .map(|(name, entry)| (name.as_str(), entry))
    }

    #[cfg(test)]
    pub(crate) fn get(&self, name: &str) -> Option<&ArchiveEntry> {
        self.nodes.get(name.trim_matches('/'))
    }

    /// The archive's bytes. `BTreeMap` order puts a directory before its contents.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (index, (name, node)) in self.nodes.iter().enumerate() {
            let (mode, data): (u32, &[u8]) = match node {
                ArchiveEntry::Directory { mode } => (0o040_000 | mode, &[]),
                ArchiveEntry::File { mode, data } => (0o100_000 | mode, data),
                ArchiveEntry::Symlink { target } => (0o120_777, target.as_bytes()),
            };
            entry(&mut out, index + 1, name, mode, data);
        }
        entry(&mut out, 0, "TRAILER!!!", 0, &[]);
        out
    }
}

fn entry(out: &mut Vec<u8>, inode: usize, name: &str, mode: u32, data: &[u8]) {
    let links = 1;
    let (name_size, size) = (name.len() + 1, data.len());
    // inode mode uid gid nlink mtime size devmajor devminor rdevmajor rdevminor namesize check
    let header = format!(
        "070701{inode:08x}{mode:08x}{0:08x}{0:08x}{links:08x}{0:08x}{size:08x}{0:08x}{0:08x}{0:08x}{0:08x}{name_size:08x}{0:08x}",
        0
    );
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    // Both the name and the contents end at a multiple of 4 from the archive's start.
    pad(out);
    out.extend_from_slice(data);
    pad(out);
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_come_before_children_and_everything_is_aligned() {
        let mut archive = Archive::default();
        archive.insert(
            "/a/b/c",
            ArchiveEntry::File {
                mode: 0o755,
                data: b"hello".to_vec(),
            },
        );
        archive.insert("/a", ArchiveEntry::Directory { mode: 0o700 });
        let bytes = archive.to_bytes();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8_lossy(&bytes);
        let at = |s: &str| text.find(s).unwrap_or_else(|| panic!("{s} missing"));
        assert!(at("a\0") < at("a/b\0") && at("a/b\0") < at("a/b/c\0"));
        assert!(at("hello") < at("TRAILER!!!\0"));
        assert_eq!(
            archive.get("/a"),
            Some(&ArchiveEntry::Directory { mode: 0o700 })
        );
    }

    #[test]
    fn header_fields_are_where_newc_has_them() {
        let mut archive = Archive::default();
        archive.insert(
            "f",
            ArchiveEntry::File {
                mode: 0o644,
                data: vec![7; 300],
            },
        );
        let bytes = archive.to_bytes();
        let field = |i: usize| {
            std::str::from_utf8(&bytes[6 + 8 * i..14 + 8 * i])
                .unwrap()
                .to_owned()
        };
        assert_eq!(&bytes[..6], b"070701");
        assert_eq!(
            (field(1), field(6), field(11)),
            ("000081a4".into(), "0000012c".into(), "00000002".into())
        );
        assert_eq!(&bytes[112..412], [7; 300]);
    }
}

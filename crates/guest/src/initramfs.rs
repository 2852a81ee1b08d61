//! The guest's first file system: the agent and busybox, nothing of the workload, so that a
//! snapshot serves every workload.

use std::fs;

use crate::cpio::{Archive, ArchiveEntry};
use crate::error::GuestError;
use crate::program::{self, ProgramError};

/// Compiled from `agent/` by the build script.
const AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agent"));

/// Builds the archive from the agent and this computer's static busybox.
///
/// # Errors
/// No busybox in `search_path`, or one that needs libraries.
pub(crate) fn build(search_path: &str) -> Result<Vec<u8>, GuestError> {
    let busybox = program::find("busybox", search_path)
        .map_err(|_| GuestError::Busybox("no busybox on this computer".into()))?;
    let needs = program::needs(&busybox, search_path);
    // This archive has no loader and no library: they would be part of every snapshot's key.
    if !matches!(needs.as_deref(), Ok([])) {
        let reason = match needs {
            Err(error @ ProgramError::OtherArchitecture { .. }) => error.to_string(),
            _ => format!("{} is not static", busybox.display()),
        };
        return Err(GuestError::Busybox(reason));
    }
    let busybox = fs::read(&busybox).map_err(GuestError::io("read", &busybox))?;
    Ok(archive(AGENT, busybox))
}

fn archive(agent: &[u8], busybox: Vec<u8>) -> Vec<u8> {
    let mut archive = Archive::default();
    for folder in [
        "dev",
        "etc",
        "proc",
        "root",
        "run",
        "sys",
        "tmp",
        "usr/bin",
        "usr/sbin",
        "usr/lib",
        "usr/lib64",
    ] {
        archive.insert(folder, ArchiveEntry::Directory { mode: 0o755 });
    }
    // As in distributions, so that their programs find their loaders and libraries.
    for link in ["bin", "sbin", "lib", "lib64"] {
        archive.insert(
            link,
            ArchiveEntry::Symlink {
                target: format!("usr/{link}"),
            },
        );
    }
    let file = |mode, data: &[u8]| ArchiveEntry::File {
        mode,
        data: data.to_vec(),
    };
    archive.insert("init", file(0o755, agent));
    archive.insert(
        "usr/bin/busybox",
        ArchiveEntry::File {
            mode: 0o755,
            data: busybox,
        },
    );
    archive.insert(
        "etc/passwd",
        // Some programs look their user up and fail without an entry.
        file(0o644, b"root:x:0:0:root:/root:/bin/sh\n"),
    );
    archive.insert("etc/group", file(0o644, b"root:x:0:\n"));
    archive.insert("etc/hosts", file(0o644, b"127.0.0.1 localhost\n"));
    archive.to_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_is_a_static_program() {
        assert!(AGENT.starts_with(&object::elf::ELFMAG));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent");
        fs::write(&path, AGENT).unwrap();
        assert_eq!(
            program::needs(&path, "").unwrap(),
            Vec::<std::path::PathBuf>::new()
        );
    }

    #[test]
    fn a_missing_busybox_is_named_with_its_remedy() {
        let error = build("/nonexistent").unwrap_err();
        let remedy = ": install Debian's package busybox-static";
        assert!(error.to_string().ends_with(remedy), "{error}");
    }
}

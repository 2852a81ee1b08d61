//! The guest's first file system: the agent and busybox, nothing of the workload, so that a
//! snapshot serves every workload.

use std::fs;

use crate::cpio::{Archive, ArchiveEntry};
use crate::error::GuestError;
use crate::processors::{PROCESSORS_PATH, Processors};
use crate::program::{self, ProgramError};
use crate::shape::GuestShape;

/// Compiled from `agent/` by the build script.
const AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agent"));

/// Has the other CPUs plugged in and becomes the agent.
const PROCESSORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/processors"));

/// Builds the archive from the agent and this computer's static busybox.
///
/// # Errors
/// No busybox in `search_path`, or one that needs libraries.
pub(crate) fn build(shape: &GuestShape, search_path: &str) -> Result<Vec<u8>, GuestError> {
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
    // Not where it has no use: what is in memory is part of what a guest does.
    let processors = (shape.processors() == Processors::Plugged).then_some(PROCESSORS);
    Ok(archive(AGENT, processors, busybox))
}

fn archive(agent: &[u8], processors: Option<&[u8]>, busybox: Vec<u8>) -> Vec<u8> {
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
    if let Some(processors) = processors {
        let path = PROCESSORS_PATH.trim_start_matches('/');
        archive.insert(path, file(0o755, processors));
    }
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
    fn the_first_processes_are_static_programs() {
        for bytes in [AGENT, PROCESSORS] {
            assert!(bytes.starts_with(&object::elf::ELFMAG));
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("program");
            fs::write(&path, bytes).unwrap();
            assert_eq!(
                program::needs(&path, "").unwrap(),
                Vec::<std::path::PathBuf>::new()
            );
        }
    }

    #[test]
    fn a_missing_busybox_is_named_with_its_remedy() {
        let error = build(&GuestShape::default(), "/nonexistent").unwrap_err();
        let remedy = ": install Debian's package busybox-static";
        assert!(error.to_string().ends_with(remedy), "{error}");
    }
}

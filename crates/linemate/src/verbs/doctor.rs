//! `linemate doctor`: whether this computer can record, and the recorder sees what it should.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use linemate_answers::DoctorCheck;
use linemate_documents::doctor_document;
use linemate_guest::{
    BootableKernel, Conditions, GuestShape, Observer, OutputStream, Qemu, Session, Stage, Workload,
    cache_folder,
};
use linemate_recording::{Event, Recording};
use linemate_report::doctor_text;

use crate::files::InFile;
use crate::named_kernel;
use crate::outcome::Outcome;
use crate::output;
use crate::selftest::{PROGRAM, SelfTest};
use crate::verbs::record;

/// Room for a snapshot and a recording of an ordinary workload.
const ENOUGH_SPACE: u64 = 2 << 30;
/// The self-test's guest: two CPUs, so that the recorder's switching is part of it.
const CPUS: u16 = 2;
const MEMORY: u64 = 512 << 20;
/// Booting takes seconds; more than this is a hang.
const TIMEOUT: Duration = Duration::from_secs(240);

/// Check this computer: QEMU, the recorder, a kernel, and whether known memory accesses are
/// recorded exactly
///
/// Boots a guest (a few seconds the first time) and compares count, address, size and kind of some
/// ninety known access patterns with what was recorded; docs/reference/recorder-plugin.md lists
/// what QEMU does not show. What only one verb needs is marked. Exit code: 0 if recording works, 1
/// if something it needs is missing or wrong, 2 if the checks themselves failed.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The kernel for the self-test: an image, or a name such as debian:6.12 [default: as for
    /// record]
    #[arg(long, value_name = "IMAGE")]
    kernel: Option<InFile>,
    /// Write JSON (docs/reference/json/doctor.md)
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let cache = cache_folder()?;
    let mut checks = Vec::new();
    let qemu = note(&mut checks, "qemu", Qemu::find().map_err(Into::into), |q| {
        q.version.clone()
    });
    if let Some(qemu) = &qemu {
        checks.push(DoctorCheck {
            name: "sandbox".into(),
            verb: None,
            ok: true,
            detail: qemu.confinement.describe(),
        });
    }
    let recorder = note(&mut checks, "recorder", record::recorder(), |path| {
        path.display().to_string()
    });
    note(&mut checks, "busybox", busybox(), |path| {
        path.display().to_string()
    });
    let kernel = note(
        &mut checks,
        "kernel",
        named_kernel::to_boot(args.kernel.as_deref(), &cache),
        |kernel| kernel.path.display().to_string(),
    );
    note(&mut checks, "space", free_space(&cache), |words| {
        words.clone()
    });
    checks.push(pahole());
    match (qemu, recorder, kernel) {
        (Some(qemu), Some(recorder), Some(kernel)) => {
            let found = self_test(qemu, recorder, kernel, cache);
            report_self_test(&mut checks, found);
        }
        _ => checks.push(DoctorCheck {
            name: "self-test".into(),
            verb: None,
            ok: false,
            detail: "not run: see above".to_owned(),
        }),
    }
    let document = doctor_document(checks);
    if args.json {
        output::json(&document)?;
    } else {
        output::text(&doctor_text(&document))?;
    }
    Ok(if document.ok {
        Outcome::Fine
    } else {
        Outcome::Findings
    })
}

/// Adds the answer to a question; returns what was found.
fn note<T>(
    checks: &mut Vec<DoctorCheck>,
    name: &'static str,
    found: anyhow::Result<T>,
    describe: impl FnOnce(&T) -> String,
) -> Option<T> {
    let (ok, detail) = match &found {
        Ok(found) => (true, describe(found)),
        Err(error) => (false, output::one_line(error)),
    };
    checks.push(DoctorCheck {
        name: name.into(),
        verb: None,
        ok,
        detail,
    });
    found.ok()
}

fn in_search_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

fn busybox() -> anyhow::Result<PathBuf> {
    in_search_path("busybox").ok_or_else(|| {
        anyhow!("busybox is not in the search path: install Debian's package busybox-static")
    })
}

/// `patch` reads layouts with it; nothing else needs it.
fn pahole() -> DoctorCheck {
    let found = in_search_path("pahole");
    DoctorCheck {
        name: "pahole".into(),
        verb: Some("patch".into()),
        ok: found.is_some(),
        detail: match found {
            Some(path) => path.display().to_string(),
            None => "not in the search path, and `linemate patch` needs it: install Debian's package dwarves".to_owned(),
        },
    }
}

/// Free space where snapshots go; the folder may not exist yet.
fn free_space(cache: &Path) -> anyhow::Result<String> {
    let existing = cache
        .ancestors()
        .find(|folder| folder.is_dir())
        .unwrap_or(Path::new("/"));
    let stat = rustix::fs::statvfs(existing)
        .with_context(|| format!("cannot get the free space of {}", existing.display()))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let words = format!(
        "{} free in {}",
        indicatif::HumanBytes(free),
        cache.display()
    );
    if free < ENOUGH_SPACE {
        bail!(
            "only {words}: make room for {}",
            indicatif::HumanBytes(ENOUGH_SPACE)
        );
    }
    Ok(words)
}

/// Collects the guest program's output.
#[derive(Default)]
struct Listener {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Observer for Listener {
    fn stage(&mut self, _stage: Stage) {}

    fn output(&mut self, stream: OutputStream, bytes: &[u8]) -> io::Result<()> {
        match stream {
            OutputStream::Stdout => self.stdout.extend_from_slice(bytes),
            OutputStream::Stderr => self.stderr.extend_from_slice(bytes),
        }
        Ok(())
    }
}

/// Records the self-test program in a guest and compares.
fn self_test(
    qemu: Qemu,
    recorder: PathBuf,
    kernel: BootableKernel,
    cache: PathBuf,
) -> anyhow::Result<SelfTest> {
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let program = folder.path().join("selftest");
    fs::write(&program, PROGRAM)
        .and_then(|()| fs::set_permissions(&program, fs::Permissions::from_mode(0o755)))
        .with_context(|| format!("cannot write {}", program.display()))?;
    let command = vec![program.display().to_string()];
    let session = Session {
        conditions: Conditions {
            qemu,
            shape: GuestShape {
                cpus: CPUS,
                memory_bytes: MEMORY,
                ..GuestShape::default()
            },
            workload: Workload {
                command,
                ..Workload::default()
            },
            recorder,
            bare: false,
            user: true,
            program: None,
            whole_boot: false,
            turn: None,
            events: Vec::new(),
        },
        kernel,
        cache,
        output: folder.path().join("selftest.data"),
        timeout: Some(TIMEOUT),
    };
    let mut listener = Listener::default();
    let recorded = session.record(&AtomicBool::new(false), &mut listener)?;
    if !recorded.status.is_success() {
        let said = String::from_utf8_lossy(&listener.stderr);
        bail!(
            "the self-test program failed: {}: {}",
            recorded.status,
            said.trim()
        );
    }
    let mut test = SelfTest::parse(&String::from_utf8_lossy(&listener.stdout))?;
    for event in Recording::open(&session.output)?.events() {
        if let Event::Access(access) = event? {
            test.see(&access);
        }
    }
    Ok(test)
}

fn report_self_test(checks: &mut Vec<DoctorCheck>, found: anyhow::Result<SelfTest>) {
    let test = match found {
        Ok(test) => test,
        Err(error) => {
            checks.push(DoctorCheck {
                name: "self-test".into(),
                verb: None,
                ok: false,
                detail: output::one_line(&error),
            });
            return;
        }
    };
    let mismatches = test.mismatches();
    let (count, wrong) = (test.count(), mismatches.len());
    checks.push(DoctorCheck {
        name: "self-test".into(),
        verb: None,
        ok: wrong == 0,
        detail: format!(
            "{} of {count} known access patterns recorded exactly",
            count - wrong
        ),
    });
    checks.extend(mismatches.into_iter().map(|m| DoctorCheck {
        name: "self-test".into(),
        verb: None,
        ok: false,
        detail: format!("{}: expected {}; recorded {}", m.test, m.expected, m.seen),
    }));
}

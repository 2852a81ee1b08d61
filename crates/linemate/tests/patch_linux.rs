//! `linemate patch` over Debian's Linux sources: the patches apply, compile and have the layouts of
//! their edits.
//!
//! Not part of the usual tests: the sources take 3 GB, and none of their text can be part of this
//! tree. The reviewed patches are therefore identified by the git hash of the resulting file, which
//! is in the patch.
//!
//! `--nocapture` shows the table of evidence/validation.md. Run with `--ignored`; needs what
//! `scripts/setup.sh patches` leaves in the cache folder (`LINEMATE_CACHE`, else
//! `~/.cache/linemate`): `kernels/*/boot/vmlinuz-*` and, for 6.1 and 6.12 each,
//! `sources/linux-source-VERSION` and `headers/linux-headers-RELEASE`. Fails when they are missing.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod common;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

fn cache() -> PathBuf {
    if let Some(folder) = std::env::var_os("LINEMATE_CACHE") {
        return folder.into();
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    cache.unwrap_or_else(home).join("linemate")
}

/// The one entry of `folder` whose name starts and ends so.
fn entry(folder: &Path, start: &str, end: &str) -> PathBuf {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let fits = |path: &PathBuf| {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
        name.starts_with(start) && name.ends_with(end)
    };
    let mut found: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).filter(fits).collect();
    found.sort();
    found
        .pop()
        .unwrap_or_else(|| panic!("{}: nothing is called {start}*{end}", folder.display()))
}

fn image(version: &str) -> PathBuf {
    let kernels = cache().join("kernels");
    let folders =
        fs::read_dir(&kernels).unwrap_or_else(|error| panic!("{}: {error}", kernels.display()));
    let boots = folders.map(|e| e.unwrap().path().join("boot"));
    let name = format!("vmlinuz-{version}.");
    let has = |boot: &PathBuf| {
        fs::read_dir(boot).is_ok_and(|mut entries| {
            entries.any(|e| {
                e.unwrap()
                    .file_name()
                    .to_str()
                    .is_some_and(|n| n.starts_with(&name))
            })
        })
    };
    let boot = boots.into_iter().find(has);
    entry(
        &boot.unwrap_or_else(|| panic!("{}: no {name}*", kernels.display())),
        &name,
        "amd64",
    )
}

/// The sources of a version.
fn sources(version: &str) -> PathBuf {
    cache()
        .join("sources")
        .join(format!("linux-source-{version}"))
}

/// The generated headers of a version's flavour.
fn headers(version: &str, flavour: &str) -> PathBuf {
    let start = format!("linux-headers-{version}.");
    entry(&cache().join("headers"), &start, flavour)
}

/// The command with everything but the edit's file and the output.
fn linemate((version, kernel): (&str, &str), edit: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linemate"));
    command
        .args(["patch", "--signoff", "--author"])
        .arg("A U Thor <author@example.org>")
        .arg("--edit")
        .arg(edit)
        .arg("--source")
        .arg(sources(version))
        .arg("--kernel")
        .arg(image(kernel))
        .arg("--config")
        .arg(headers(version, "-cloud-amd64"));
    command
}

/// What a patch came to.
struct Patched {
    /// The first file that it changes, as `git am` left it.
    text: String,
    /// The patch.
    patch: String,
}

/// Writes the patch, without comments about cache lines that it makes stale, applies it to a
/// repository with the files that it changes, and has the tree's own checkpatch.pl look at it.
fn patched(version: &str, edit: &str) -> Patched {
    let folder = tempfile::tempdir().unwrap();
    let (edit_file, path) = (folder.path().join("edit"), folder.path().join("patch"));
    fs::write(&edit_file, edit).unwrap();
    let start = Instant::now();
    let mut rewords: Vec<String> = Vec::new();
    loop {
        let mut command = linemate((version, version), &edit_file);
        for reword in &rewords {
            command.arg("--reword").arg(reword);
        }
        let output = command.arg("-o").arg(&path).output().unwrap();
        if output.status.success() {
            break;
        }
        // A comment that the edit makes stale goes: the refusal says how.
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let quoted = said.split_once("with --reword '");
        let stale = quoted.and_then(|(_, quoted)| quoted.split_once("=NEW'"));
        let Some((stale, _)) = stale else {
            panic!("{version}: {edit}{said}");
        };
        rewords.push(format!("{stale}="));
        assert!(rewords.len() < 8, "{version}: {edit}{said}");
    }
    let seconds = start.elapsed().as_secs_f64();
    let patch = fs::read_to_string(&path).unwrap();
    let text = applied(version, folder.path(), &path);
    let said = remarks(version, &path, &["--no-tree", "--no-summary"]);
    assert!(!said.contains("ERROR"), "{version}: {edit}{said}");
    let _ = writeln!(
        io::stdout(),
        "| {} | {version} | +{} −{} | {seconds:.1} | {} | {} |",
        edit.trim_end().replace('\n', "; "),
        changed(&patch, '+'),
        changed(&patch, '-'),
        said.matches("WARNING").count(),
        rewords.len()
    );
    Patched { text, patch }
}

/// The lines of a patch that start with `sign`, but for the heads of its files and its signature.
fn changed(patch: &str, sign: char) -> usize {
    let lines = patch.lines().skip_while(|line| !line.starts_with("diff "));
    let heads = ["+++ b/", "--- a/", "-- "];
    lines
        .filter(|line| line.starts_with(sign) && !heads.iter().any(|head| line.starts_with(head)))
        .count()
}

/// What the tree's own checkpatch.pl says about a patch.
fn remarks(version: &str, path: &Path, more: &[&str]) -> String {
    let mut checkpatch = Command::new("perl");
    checkpatch
        .arg(sources(version).join("scripts/checkpatch.pl"))
        .arg("--terse")
        .args(more)
        .arg(path);
    // It leaves a list of names where it is run.
    checkpatch.current_dir(path.parent().unwrap());
    let said = checkpatch.output().unwrap();
    String::from_utf8_lossy(&said.stdout).into_owned()
}

/// Applies a patch to a repository in `folder` with the files that it changes; the first one's
/// text.
fn applied(version: &str, folder: &Path, path: &Path) -> String {
    let tree = sources(version);
    let patch = fs::read_to_string(path).unwrap();
    let files: Vec<&str> = patch
        .lines()
        .filter_map(|line| line.strip_prefix("+++ b/"))
        .collect();
    let repository = folder.join("repository");
    for file in &files {
        fs::create_dir_all(repository.join(file).parent().unwrap()).unwrap();
        fs::copy(tree.join(file), repository.join(file)).unwrap();
    }
    for arguments in [
        vec!["init", "-q"],
        vec!["add", "."],
        vec!["commit", "-qm", "base"],
        vec!["am", "-q", path.to_str().unwrap()],
    ] {
        let mut git = Command::new("git");
        git.arg("-C").arg(&repository);
        git.args(["-c", "user.name=C", "-c", "user.email=c@example.org"])
            .args(&arguments);
        succeed(&mut git);
    }
    fs::read_to_string(repository.join(files[0])).unwrap()
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The one line that it says when it writes nothing, and its exit code.
fn refused(version: &str, edit: &str, more: &[&str]) -> (Option<i32>, String) {
    refused_of((version, version), edit, more)
}

/// Likewise, of the sources of one version and the kernel of another.
fn refused_of(versions: (&str, &str), edit: &str, more: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let (edit_file, path) = (folder.path().join("edit"), folder.path().join("patch"));
    fs::write(&edit_file, edit).unwrap();
    let mut command = linemate(versions, &edit_file);
    let output = command.args(more).arg("-o").arg(&path).output().unwrap();
    assert!(!path.exists(), "{versions:?}: {edit}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    let folder = folder.path().display().to_string();
    let sources = cache().join("sources").display().to_string();
    let said = said.replace(&folder, "FOLDER").replace(&sources, "SOURCES");
    (output.status.code(), said.trim_end().to_owned())
}

/// The hash of the file that a patch makes.
fn blob(patch: &str) -> &str {
    let line = patch.lines().find_map(|line| line.strip_prefix("index "));
    line.and_then(|l| l.split("..").nth(1)?.split(' ').next())
        .unwrap()
}

/// The edit that docs/reference/edits.md has under the heading.
fn published(heading: &str) -> String {
    let text = include_str!("../../../docs/reference/edits.md");
    let (_, section) = text.split_once(&format!("\n## {heading}")).unwrap();
    let (_, block) = section.split_once("```\n").unwrap();
    block.split_once("```").unwrap().0.to_owned()
}

#[test]
#[ignore = "needs Linux sources in the cache folder"]
fn published_edits_of_rq_and_root_domain() {
    let rq = patched("6.12", &published("`struct rq`"));
    assert_eq!(blob(&rq.patch), "1d7ba912f7b3a6b4aa2b33c6029dfe805b5213da");
    assert!(rq.text.contains(
        "struct rq {\n\t/* read mostly: used together, on cache lines of their own */\n"
    ));
    assert!(rq.text.contains(
        "\n\n\t/* runqueue lock: */\n\traw_spinlock_t\t\t__lock ____cacheline_aligned;\n"
    ));
    let domain = published("`struct root_domain`");
    assert_eq!(
        blob(&patched("6.12", &domain).patch),
        "756ed928e4ef244cd473b5ef0a7f9f3f8e5aa051"
    );
    // 6.1 called it otherwise.
    patched("6.1", &domain.replace("overloaded", "overload"));
}

/// The edits of a list in scripts/lib/edits: its paragraphs but the first, which says what it is.
fn listed(list: &str) -> impl Iterator<Item = &str> {
    list.split("\n\n").skip(1)
}

#[test]
#[ignore = "needs Linux sources in the cache folder"]
fn listed_edits_of_6_1() {
    for edit in listed(include_str!("../../../scripts/lib/edits/linux-6.1.txt")) {
        patched("6.1", edit);
    }
}

#[test]
#[ignore = "needs Linux sources in the cache folder"]
fn listed_edits_of_6_12() {
    for edit in listed(include_str!("../../../scripts/lib/edits/linux-6.12.txt")) {
        patched("6.12", edit);
    }
}

/// The comment about clocks: `advise` takes one of them to another line.
const CLOCKS: &str = "Ensure that all clocks are in the same cache line";

#[test]
#[ignore = "needs Linux sources in the cache folder"]
fn advised_layouts_are_small_clean_and_hold_under_two_configs() {
    let rq = format!("{CLOCKS}=");
    for (name, more) in [
        ("rq", &["--reword", &rq][..]),
        ("cfs_rq", &[]),
        ("root_domain", &[]),
        ("task_group", &[]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        // What `advise -o` wrote, with the evidence next to it (evidence/validation.md).
        let advised = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/advised");
        let path = folder.path().join("patch");
        let command = || {
            let mut command = linemate(("6.12", "6.12"), &advised.join(format!("{name}.edit")));
            command.arg("--config").arg(headers("6.12", "-rt-amd64"));
            command.arg("-o").arg(&path);
            command
        };
        succeed(command().args(more));
        let patch = fs::read_to_string(&path).unwrap();
        let tree = format!("--root={}", sources("6.12").display());
        let said = remarks("6.12", &path, &["--strict", &tree]);
        assert_eq!(said, "", "{name}");
        let lines = changed(&patch, '+') + changed(&patch, '-');
        assert!((1..=60).contains(&lines), "{name}: {lines} lines");
        assert!(patch.contains("Predicted effect"), "{name}: {patch}");
        common::sizes_agree(&patch);
        applied("6.12", folder.path(), &path);
        if !more.is_empty() {
            let stale = command().output().unwrap();
            assert_eq!(stale.status.code(), Some(2), "{name}");
            assert!(String::from_utf8_lossy(&stale.stderr).contains(CLOCKS));
        }
        let _ = writeln!(io::stdout(), "| `{name}` | {lines} lines |");
    }
}

#[test]
#[ignore = "needs Linux sources in the cache folder"]
fn what_cannot_be_patched_gets_one_line() {
    let stays = "type rq\norder __lock nr_running nr_numa_running\nmove idle after dl_server\n";
    let nothing = "linemate: the edit changes nothing: no patch is written";
    assert_eq!(refused("6.12", stays, &[]), (Some(0), nothing.to_owned()));
    for (version, edit, more, message) in [
        (
            "6.12",
            "type task_struct\nmove stack first\n",
            &[][..],
            "linemate: include/linux/sched.h:801: `stack` would cross this line, which bounds the members that are laid out at random",
        ),
        (
            "6.12",
            "type trace_event_raw_sched_switch\nmove next_pid first\n",
            &[],
            "linemate: no definition of struct trace_event_raw_sched_switch in SOURCES/linux-source-6.12; a macro may make it: include/trace/trace_events.h:51",
        ),
        (
            "6.12",
            "type psi_group_cpu\nmove state_mask first\n",
            &[],
            "linemate: include/linux/psi_types.h: the patched struct psi_group_cpu does not have the edit's layout; nothing is written: `tasks` is at byte 64 in the compiled unit, not at byte 4",
        ),
        (
            "6.12",
            "type nosuch\nmove x first\n",
            &[],
            "linemate: FOLDER/edit:2:1: nosuch: there is no such struct",
        ),
        (
            "6.12",
            "type rq\nmove nr_running first\n",
            &["--file", "kernel/sched/nosuch.h"],
            "linemate: cannot read SOURCES/linux-source-6.12/kernel/sched/nosuch.h: No such file or directory",
        ),
    ] {
        assert_eq!(refused(version, edit, more), (Some(2), message.to_owned()));
    }
    // The sources of one version, the kernel of the other.
    let mixed = ("6.1", "6.12");
    let message = "linemate: kernel/sched/sched.h:835: `overload` is not a recorded member: the tree is of another version";
    assert_eq!(
        refused_of(mixed, "type root_domain\nmove rto_mask first\n", &[]),
        (Some(2), message.to_owned())
    );
}

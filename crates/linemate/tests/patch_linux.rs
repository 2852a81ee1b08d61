//! `linemate patch` over Debian's Linux sources: the patches apply, compile and have the layouts of their edits.
//!
//! Not part of the usual tests: the sources take 3 GB. Run with `--ignored`; needs, in the cache folder (`LINEMATE_CACHE`, else
//! `~/.cache/linemate`), `kernels/*/boot/vmlinuz-*` and, for 6.1 and 6.12 each, `sources/VERSION` (package linux-source-VERSION,
//! unpacked) and `headers/linux-headers-RELEASE` (package of that name). Fails when they are missing.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// Writes the patch, applies it to a repository with the files that it changes, and gives the first of them back.
fn patched(version: &str, edit: &str) -> String {
    let tree = cache().join("sources").join(version);
    let headers = entry(
        &cache().join("headers"),
        &format!("linux-headers-{version}."),
        "-cloud-amd64",
    );
    let folder = tempfile::tempdir().unwrap();
    let (edit_file, patch) = (folder.path().join("edit"), folder.path().join("patch"));
    fs::write(&edit_file, edit).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_linemate"))
        .args([
            "patch",
            "--author",
            "A U Thor <author@example.org>",
            "--edit",
        ])
        .arg(&edit_file)
        .arg("--source")
        .arg(&tree)
        .arg("--kernel")
        .arg(image(version))
        .arg("--config")
        .arg(headers)
        .arg("-o")
        .arg(&patch)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{version}: {edit}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = fs::read_to_string(&patch).unwrap();
    let files: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("+++ b/"))
        .collect();
    let repository = folder.path().join("repository");
    for file in &files {
        fs::create_dir_all(repository.join(file).parent().unwrap()).unwrap();
        fs::copy(tree.join(file), repository.join(file)).unwrap();
    }
    for arguments in [
        vec!["init", "-q"],
        vec!["add", "."],
        vec!["commit", "-qm", "base"],
        vec!["am", "-q", patch.to_str().unwrap()],
    ] {
        let mut git = Command::new("git");
        git.arg("-C").arg(&repository);
        git.args(["-c", "user.name=C", "-c", "user.email=c@example.org"])
            .args(&arguments);
        let output = git.output().unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    fs::read_to_string(repository.join(files[0])).unwrap()
}

const READ_MOSTLY: &str =
    "nr_running nr_numa_running nr_preferred_running ttwu_pending cpu_capacity curr idle";

#[test]
#[ignore = "needs Linux sources in the cache folder"]
fn the_scheduler_of_6_1() {
    let text = patched(
        "6.1",
        &format!(
            "type rq\ngroup read_mostly first {{ {READ_MOSTLY} }}\nmove __lock after read_mostly\n"
        ),
    );
    assert!(text.contains(
        "struct rq {\n\t/* read mostly: used together, on cache lines of their own */\n"
    ));
    assert!(text.contains(
        "\tunsigned int\t\tnr_running ____cacheline_aligned;\n#ifdef CONFIG_NUMA_BALANCING\n"
    ));
    patched(
        "6.1",
        "type root_domain\nalign cpupri line\norder cpupri rto_mask pd overload overutilized\nalign rto_mask line\n",
    );
    patched("6.1", "type task_group\nisolate load_avg shares\n");
    patched(
        "6.1",
        "type cfs_rq\ngroup hot first { nr_running h_nr_running curr }\nmove tg after rq\nmove h_load first\n",
    );
    patched("6.1", "type with idle_cpus_mask nr_cpus\nisolate nr_cpus\n");
    patched(
        "6.1",
        "type sched_entity\nmove on_rq first\ntype rt_rq\nmove rt_nr_running first\ntype rq\nmove nr_switches first\n",
    );
}

#[test]
#[ignore = "needs Linux sources in the cache folder"]
fn the_scheduler_of_6_12() {
    let text = patched(
        "6.12",
        &format!(
            "type rq\ngroup read_mostly first {{ {READ_MOSTLY} }}\nmove __lock after read_mostly\n"
        ),
    );
    assert!(
        text.contains(
            "\t/* runqueue lock: */\n\traw_spinlock_t\t\t__lock ____cacheline_aligned;\n"
        )
    );
    patched(
        "6.12",
        "type root_domain\nalign cpupri line\norder cpupri rto_mask pd overloaded overutilized\nalign rto_mask line\n",
    );
    patched("6.12", "type task_group\nisolate load_avg shares\n");
    patched(
        "6.12",
        "type cfs_rq\ngroup hot first { nr_running h_nr_queued curr }\nmove tg after rq\nmove h_load first\n",
    );
    patched(
        "6.12",
        "type with idle_cpus_mask nr_cpus\nisolate nr_cpus\n",
    );
}

#[test]
#[ignore = "needs Linux sources in the cache folder"]
fn other_structs_of_6_12() {
    patched(
        "6.12",
        "type task_struct\nmove prio after on_cpu\nisolate wakee_flips\n",
    );
    patched("6.12", "type sched_domain\nmove flags first\n");
    patched("6.12", "type dentry\nmove d_flags last\n");
    patched("6.12", "type sock\nmove sk_err first\n");
    patched("6.12", "type dl_rq\nmove running_bw first\n");
    patched("6.12", "type file\nmove f_pos first\nisolate f_mode\n");
    patched("6.12", "type inode\nisolate i_count\n");
    patched("6.12", "type hrtimer_cpu_base\nisolate lock\n");
    patched("6.12", "type zone\nmove present_pages first\n");
    patched(
        "6.12",
        "type signal_struct\nisolate sigcnt\nmove curr_target first\n",
    );
}

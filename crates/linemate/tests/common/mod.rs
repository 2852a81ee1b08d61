//! Runs the built command on real kernels. A missing kernel, QEMU or workload fails the test:
//! `make setup` and `make workloads` provide them.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The top of the source tree.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// The cached kernel image of a series of `scripts/kernels.list`.
pub(crate) fn kernel(series: &str) -> PathBuf {
    let script = root().join("scripts/kernel-image.sh");
    let output = Command::new(script).arg(series).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim_end())
}

/// A compiled workload or a set-up script.
pub(crate) fn workload(name: &str) -> String {
    let built = root().join("target/workloads").join(name);
    let path = if name.ends_with(".sh") {
        root().join("workloads").join(name)
    } else {
        built
    };
    assert!(
        path.is_file(),
        "{} is missing: run `make workloads`",
        path.display()
    );
    path.to_str().unwrap().to_owned()
}

/// The command with these arguments.
pub(crate) fn linemate(arguments: &[&str]) -> Output {
    linemate_in(Path::new("."), arguments)
}

/// The same in a folder. A program there that is named as `./NAME` is at one place in the guest,
/// wherever the folder is: a program's name is on its stack, and moves the rest of the stack.
pub(crate) fn linemate_in(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_linemate"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

/// What happened, for a failed assertion.
pub(crate) fn story(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Records `command` into `folder`, with these options; gives the recording, which `verify` finds
/// sound.
pub(crate) fn record(folder: &Path, series: &str, options: &[&str], command: &[&str]) -> String {
    let data = folder.join("linemate.data").to_str().unwrap().to_owned();
    let kernel = kernel(series);
    let mut arguments = vec!["record", "-o", &data, "--kernel", kernel.to_str().unwrap()];
    arguments.extend(options);
    arguments.push("--");
    arguments.extend(command);
    let output = linemate_in(folder, &arguments);
    assert!(output.status.success(), "{}", story(&output));
    let verified = linemate(&["verify", "-i", &data]);
    assert!(verified.status.success(), "{}", story(&verified));
    data
}

/// The report on one type of a recording.
pub(crate) fn report(data: &str, type_name: &str) -> Value {
    let output = linemate(&["report", "-i", data, "--type", type_name, "--json"]);
    assert!(output.status.success(), "{}", story(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The items of an array of the report.
pub(crate) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Checks that a patch's table of configs has the sizes of the first config that its table of line
/// sizes has.
pub(crate) fn sizes_agree(patch: &str) {
    let words = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let sized = patch
        .lines()
        .find(|line| line.starts_with("  64-byte lines "));
    let sized = words(sized.unwrap_or_else(|| panic!("{patch}")));
    let sizes: Vec<&String> = (1..sized.len())
        .filter(|at| sized[*at].starts_with("bytes,"))
        .map(|at| &sized[at - 1])
        .collect();
    let rows = patch
        .lines()
        .skip_while(|line| !line.starts_with("  config "));
    // A long name takes several lines, and the last one has the figures.
    let mut first = rows
        .map(words)
        .skip_while(|row| !row.contains(&"64".to_owned()));
    let first = first.next().unwrap_or_else(|| panic!("{patch}"));
    let line = first.iter().rposition(|word| word == "64").unwrap();
    let found = &first[line + 1..];
    match sizes[..] {
        [before, after] if before == after => assert_eq!(&found[0], before, "{patch}"),
        [before, after] => {
            assert_eq!(
                [&found[0], &found[1], &found[2]],
                [before, "->", after],
                "{patch}"
            );
        }
        _ => panic!("{sizes:?}: {patch}"),
    }
}

//! `linemate layout` as a user calls it: output, messages and exit codes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::process::{Command, Output};

use linemate_recording::AccessKind;
use linemate_testkit::world::{Contents, F, RQ, UNITS, Variant, World};
use serde_json::Value;

/// A small BTF blob with `struct outer` and `outer_t`, and an arm64 image that holds the same.
const BTF: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/btf/sample");
const ARM64: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../fuzz/seeds/kernel_image/flat"
);

fn layout(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_linemate"))
        .arg("layout")
        .args(arguments)
        .output()
        .unwrap()
}

/// Standard output of a call that works and has nothing to say on standard error.
fn works(arguments: &[&str]) -> String {
    let output = layout(arguments);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stdout).unwrap()
}

/// The one line that a call that fails with exit code 2 leaves on standard error.
fn fails(arguments: &[&str]) -> String {
    let output = layout(arguments);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

#[test]
fn one_kernel_prints_in_paholes_form() {
    let expected = "\
struct flags {
\tint                        x:3;                  /*     0: 0  4 */
\tint                        y:13;                 /*     0: 3  4 */

\t/* size: 4, cachelines: 1, members: 2 */
\t/* bit_padding: 16 bits */
\t/* last cacheline: 4 bytes */
};
";
    for name in ["flags", "struct flags", " flags "] {
        assert_eq!(works(&[name, "--kernel", BTF]), expected);
    }
}

#[test]
fn several_kernels_stand_side_by_side() {
    let text = works(&["outer", "--kernel", BTF, "--kernel", ARM64, "--line", "128"]);
    let row = |name: &str| -> Vec<&str> {
        let row = text
            .lines()
            .find(|line| line.split_whitespace().next() == Some(name));
        row.unwrap_or_else(|| panic!("no row {name} in\n{text}"))
            .split_whitespace()
            .collect()
    };
    assert_eq!(row("array"), ["array", "8", "24", "0", "8", "24", "0"]);
    assert_eq!(
        row("b"),
        ["b", "32", "8", "0", "32", "8", "0"],
        "of an anonymous union"
    );
    assert_eq!(row("size"), ["size", "48", "48"]);
    assert!(text.starts_with("outer, lines of 128 bytes;"), "{text}");
    assert!(text.contains("6.12.0-arm"), "{text}");
    assert!(!text.contains("\n*"), "nothing differs:\n{text}");
}

#[test]
fn json_follows_its_schema() {
    let text = works(&["outer", "--json", "--kernel", ARM64]);
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema"], "linemate.layout/2");
    let kernel = &document["kernels"][0];
    assert_eq!(
        (&kernel["release"], &kernel["arch"]),
        (&"6.12.0-arm".into(), &"aarch64".into())
    );
    assert_eq!(kernel["layout"]["size"], 48);
    let fields = kernel["layout"]["fields"].as_array().unwrap();
    let array = fields
        .iter()
        .find(|field| field["path"] == "array[]")
        .unwrap();
    assert_eq!(
        array["arrays"],
        serde_json::json!([{ "stride": 8, "count": 3 }])
    );
    let y = fields
        .iter()
        .find(|field| field["path"] == "flags.y")
        .unwrap();
    assert_eq!(
        *y,
        serde_json::json!({
            "path": "flags.y", "type": y["type"], "offset": y["offset"], "size": y["size"],
            "bits": { "start": 3, "width": 13 },
        }),
        "a field has what it has as `type.layout` of a report"
    );
}

#[test]
fn mistakes_are_named_in_one_line() {
    let missing = fails(&["flag", "--kernel", BTF]);
    assert_eq!(
        missing,
        format!("linemate: no type `flag` in {BTF}; the nearest: flags")
    );
    let enumeration = fails(&["sign", "--kernel", BTF]);
    assert_eq!(
        enumeration,
        format!("linemate: `sign` is neither a struct nor a union in {BTF}")
    );
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let other = fails(&["flags", "--kernel", manifest]);
    assert!(
        other.contains("not a kernel image, ELF file or BTF"),
        "{other}"
    );
    let none = fails(&["flags", "--kernel", "/no/such/file"]);
    assert!(
        none.starts_with("linemate: cannot read /no/such/file: "),
        "{none}"
    );
}

#[test]
fn a_recordings_kernel_is_shown_with_heat_beside_each_member() {
    let folder = tempfile::tempdir().unwrap();
    let mut w = World::with_chunks_of(64);
    let rq = UNITS[0] + RQ;
    for _ in 0..7 {
        w.access(0, AccessKind::Store, rq, 4, F::WakeTask, false);
        w.access(1, AccessKind::Load, rq, 4, F::UpdateRq, false);
        w.access(1, AccessKind::Rmw, rq + 72, 4, F::UpdateRq, false);
    }
    let bytes = w.bytes(true, Contents::of(Variant::default()));
    let data = folder.path().join("linemate.data");
    fs::write(&data, bytes).unwrap();
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_linemate"))
            .args(["layout", "rq", "--no-cache"])
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .unwrap()
    };
    let data = data.to_str().unwrap();
    let named = run(&["-i", data]);
    let text = String::from_utf8(named.stdout).unwrap();
    let said = String::from_utf8(named.stderr).unwrap();
    assert!(said.starts_with("linemate: kernel 6.12-test ("), "{said}");
    let row = |name: &str| text.lines().find(|line| line.contains(name)).unwrap();
    assert!(
        row("nr_running;").ends_with(" */ 7 loads, 7 stores"),
        "{text}"
    );
    assert!(row("lock;").ends_with(" */ 7 RMW"), "{text}");
    assert!(row("curr;").ends_with(" */"), "{text}");
    // The one in linemate.data unless a kernel is named.
    assert_eq!(String::from_utf8(run(&[]).stdout).unwrap(), text);
    let json: Value = serde_json::from_slice(&run(&["--json"]).stdout).unwrap();
    let members = json["kernels"][0]["layout"]["members"].as_array().unwrap();
    let heat = |name: &str| {
        let member = members.iter().find(|m| m["name"] == name).unwrap();
        let heat = &member["heat"];
        ["loads", "stores", "rmws"].map(|figure| heat[figure].as_u64().unwrap())
    };
    assert_eq!(heat("nr_running"), [7, 7, 0]);
    assert_eq!(heat("lock"), [0, 0, 7]);
    assert_eq!(heat("curr"), [0, 0, 0]);
    let other = run(&["--kernel", BTF]);
    assert_eq!(other.status.code(), Some(2), "the named kernel has no rq");
    let both = run(&["--kernel", BTF, "-i", data]);
    assert_eq!(both.status.code(), Some(2));
}

//! What is shown on a terminal: a real one, which script(1) of util-linux makes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::process::{Command, Stdio};

use linemate_recording::AccessKind;
use linemate_testkit::world::{Contents, F, RQ, UNITS, Variant, World};
use tempfile::TempDir;

/// A folder with a recording in which apart is better than together, and a cache.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("cache")).unwrap();
    let mut w = World::with_chunks_of(64);
    let rq = UNITS[0] + RQ;
    for _ in 0..200 {
        w.access(0, AccessKind::Store, rq, 4, F::WakeTask, false);
        w.access(1, AccessKind::Load, rq + 8, 8, F::UpdateRq, false);
    }
    let bytes = w.bytes(true, Contents::of(Variant::default()));
    fs::write(folder.path().join("linemate.data"), bytes).unwrap();
    folder
}

const WHATIF: &str = "whatif --type rq -e 'isolate curr' --machine westmere-4s-80";

/// What the command shows on a terminal of that many rows and columns, with these variables set.
fn on_terminal(
    folder: &TempDir,
    (rows, columns): (u32, u32),
    set: &[(&str, &str)],
    arguments: &str,
) -> String {
    let linemate = env!("CARGO_BIN_EXE_linemate");
    // Progress is shown on the error output.
    let line =
        format!("stty rows {rows} cols {columns} -onlcr; exec {linemate} {arguments} 2>/dev/null");
    let mut command = Command::new("script");
    command
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .current_dir(folder.path())
        .env("LINEMATE_CACHE", folder.path().join("cache"))
        .env("TERM", "xterm")
        .stdin(Stdio::null());
    for name in ["PAGER", "NO_COLOR", "COLUMNS", "LESS"] {
        command.env_remove(name);
    }
    let output = command.envs(set.iter().copied()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    text
}

const GREEN: &str = "\u{1b}[32mbetter\u{1b}[0m";

#[test]
fn better_is_green_unless_colours_are_not_wanted() {
    let folder = folder();
    let shown = |set: &[(&str, &str)]| on_terminal(&folder, (500, 200), set, WHATIF);
    assert!(shown(&[]).contains(GREEN), "{}", shown(&[]));
    assert!(
        shown(&[("NO_COLOR", "")]).contains(GREEN),
        "empty is not set"
    );
    for set in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let text = shown(&[set]);
        assert!(!text.contains("\u{1b}[3"), "{set:?}: {text}");
        assert!(text.contains("  better"), "{set:?}: {text}");
    }
    let piped = Command::new(env!("CARGO_BIN_EXE_linemate"))
        .args(["whatif", "--type", "rq", "-e", "isolate curr"])
        .args(["--machine", "westmere-4s-80"])
        .current_dir(folder.path())
        .env("LINEMATE_CACHE", folder.path().join("cache"))
        .output()
        .unwrap();
    assert!(!piped.stdout.contains(&0x1b), "no terminal, no colours");
}

#[test]
fn what_does_not_fit_the_screen_goes_through_the_pager() {
    let folder = folder();
    let pager = ("PAGER", "sed s/^/paged:/");
    let shown =
        |rows, set: &[(&str, &str)]| on_terminal(&folder, (rows, 100), set, "report --type rq");
    let paged = shown(10, &[pager]);
    assert!(
        paged.lines().all(|line| line.starts_with("paged:")),
        "{paged}"
    );
    let whole = shown(500, &[pager]);
    assert!(!whole.contains("paged:"), "it fits: {whole}");
    let text: String = paged
        .lines()
        .map(|line| line.replace("paged:", "") + "\n")
        .collect();
    assert_eq!(text, whole, "the same text either way");
    assert_eq!(shown(10, &[]), whole, "no pager is named");
    assert_eq!(shown(10, &[("PAGER", "cat")]), whole);
    assert_eq!(
        shown(10, &[("PAGER", "true")]),
        "",
        "a user who has read enough"
    );
}

#[test]
fn no_row_is_wider_than_the_terminal() {
    let folder = folder();
    for columns in [80, 120, 200] {
        for arguments in [
            "report",
            "report --all --by field",
            "report --by line",
            "report --type rq",
            "report --type rq --by function",
            "report --machine westmere-4s-80 --by line",
            WHATIF,
        ] {
            let text = on_terminal(&folder, (500, columns), &[("NO_COLOR", "1")], arguments);
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(
                widest <= Some(columns as usize),
                "{arguments}, {columns}:\n{text}"
            );
            assert!(text.lines().count() > 3, "{arguments}: {text}");
        }
    }
}

#[test]
fn a_page_ends_with_its_path_and_the_sentence_that_it_shows() {
    let folder = folder();
    let output = Command::new(env!("CARGO_BIN_EXE_linemate"))
        .args(["report", "--type", "rq", "--machine", "westmere-4s-80"])
        .args(["--html", "rq.html"])
        .current_dir(folder.path())
        .env("LINEMATE_CACHE", folder.path().join("cache"))
        .stdout(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let page = fs::read_to_string(folder.path().join("rq.html")).unwrap();
    let (_, data) = page.split_once(r#"id="data">"#).unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let headline = data["headline"].as_str().unwrap();
    assert!(headline.starts_with("rq on westmere-4s-80: "), "{headline}");
    assert_eq!(said, format!("linemate: wrote rq.html: {headline}\n"));
}

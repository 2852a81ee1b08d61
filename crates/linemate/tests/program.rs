//! `linemate layout --program` as a user calls it: where debug information is searched for, output,
//! messages and exit codes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SOURCE: &str = "\
struct connection { char state; long bytes; int user : 3; };
typedef struct { short x, y; } point;
enum mode { OFF };
struct connection connections[4];
point at;
enum mode mode;
int main(int count, char **words) { return connections[count & 3].state + at.x + mode + !words; }
";

const CONNECTION: &str = "\
struct connection {
\tchar                       state;                /*     0     1 */

\t/* XXX 7 bytes hole, try to pack */

\tlong int                   bytes;                /*     8     8 */
\tint                        user:3;               /*    16: 0  4 */

\t/* size: 24, cachelines: 1, members: 3 */
\t/* sum members: 9, holes: 1, sum holes: 7 */
\t/* sum bitfield members: 3 bits (0 bytes) */
\t/* padding: 4 */
\t/* bit_padding: 29 bits */
\t/* last cacheline: 24 bytes */
};
";

fn run(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}: run `make setup`"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Moves a program's debug information to `server.debug` next to it; `rest`, next to it or itself,
/// has what is left and says where that is.
fn separate(program: &Path, rest: &Path) {
    let folder = program.parent().unwrap();
    run(Command::new("objcopy")
        .arg("--only-keep-debug")
        .arg(program)
        .arg(folder.join("server.debug")));
    run(Command::new("objcopy")
        .arg("--strip-debug")
        .arg("--add-gnu-debuglink=server.debug")
        .args([program, rest])
        .current_dir(folder));
}

/// Compiles the program into `folder`.
fn program(folder: &Path, flags: &[&str]) -> PathBuf {
    let source = folder.join("server.c");
    fs::write(&source, SOURCE).unwrap();
    let path = folder.join("server");
    run(Command::new("gcc")
        .arg("-Wl,--build-id=sha1")
        .args(flags)
        .arg("-o")
        .arg(&path)
        .arg(&source));
    path
}

fn layout(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_linemate"))
        .arg("layout")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn works(folder: &Path, arguments: &[&str]) -> String {
    let output = layout(folder, arguments);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stdout).unwrap()
}

fn fails(folder: &Path, arguments: &[&str]) -> String {
    let output = layout(folder, arguments);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

#[test]
fn a_programs_types_print_in_paholes_form() {
    let folder = tempfile::tempdir().unwrap();
    program(folder.path(), &["-g", "-O2"]);
    for name in ["connection", "struct connection"] {
        assert_eq!(
            works(folder.path(), &[name, "--program", "server"]),
            CONNECTION
        );
    }
    let text = works(folder.path(), &["point", "--program", "./server"]);
    assert!(
        text.starts_with("typedef struct {\n") && text.ends_with("} point;\n"),
        "{text}"
    );
}

#[test]
fn several_programs_are_side_by_side() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    program(one.path(), &["-g"]);
    let other = program(two.path(), &["-g", "-m64", "-fpack-struct"]);
    let arguments = [
        "connection",
        "--program",
        "server",
        "--program",
        other.to_str().unwrap(),
    ];
    let text = works(one.path(), &arguments);
    let row = text.lines().find(|line| line.contains("bytes  ")).unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        words,
        ["*", "bytes", "8", "8", "0", "1", "8", "0"],
        "{text}"
    );
    let text = works(one.path(), &["connection", "--program", "server", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let program = &document["kernels"][0];
    assert_eq!(program["path"], "server");
    assert_eq!(program["release"], serde_json::Value::Null);
    assert_eq!(program["layout"]["size"], 24);
    assert_eq!(program["layout"]["members"][2]["bits"]["width"], 3);
}

#[test]
fn a_separate_debug_file_is_found_where_debuggers_find_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let path = program(folder.path(), &["-g"]);
    separate(&path, &path);
    assert_eq!(
        works(folder.path(), &["connection", "--program", "server"]),
        CONNECTION
    );
    fs::create_dir(at(".debug")).unwrap();
    fs::rename(at("server.debug"), at(".debug/server.debug")).unwrap();
    assert_eq!(
        works(folder.path(), &["connection", "--program", "server"]),
        CONNECTION
    );
    // Through a link it is searched for next to the link's target.
    let elsewhere = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&path, elsewhere.path().join("link")).unwrap();
    assert_eq!(
        works(elsewhere.path(), &["connection", "--program", "link"]),
        CONNECTION
    );
    // That of another build is none.
    let other = tempfile::tempdir().unwrap();
    let wrong = program(other.path(), &["-g", "-O1"]);
    fs::copy(wrong, at(".debug/server.debug")).unwrap();
    let message = fails(folder.path(), &["connection", "--program", "server"]);
    assert!(
        message.starts_with("linemate: server: no debug information: compile with -g"),
        "{message}"
    );
    for place in [
        "/usr/lib/debug/.build-id/",
        "/.debug/server.debug",
        "/server.debug, ",
    ] {
        assert!(message.contains(place), "{place} in {message}");
    }
}

#[test]
fn what_cannot_be_shown_is_reported_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    program(folder.path(), &["-g"]);
    let fails = |arguments: &[&str]| fails(folder.path(), arguments);
    assert_eq!(
        fails(&["conection", "--program", "server"]),
        "linemate: no type `conection` in server; the nearest: connection"
    );
    assert_eq!(
        fails(&["mode", "--program", "server"]),
        "linemate: `mode` is neither a struct nor a union in server"
    );
    let text = fails(&["connection", "--program", "server.c"]);
    assert!(
        text.starts_with("linemate: server.c: not an ELF program"),
        "{text}"
    );
    let text = fails(&["connection", "--program", "missing"]);
    assert!(
        text.starts_with("linemate: cannot read missing: "),
        "{text}"
    );
    program(folder.path(), &["-g0"]);
    let text = fails(&["connection", "--program", "server"]);
    assert!(
        text.contains("no debug information: compile with -g"),
        "{text}"
    );
}

#[test]
fn without_build_ids_the_checksum_says_which_debug_file_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let path = program(folder.path(), &["-g", "-Wl,--build-id=none"]);
    separate(&path, &path);
    let arguments = ["connection", "--program", "server"];
    assert_eq!(works(folder.path(), &arguments), CONNECTION);
    let mut changed = fs::read(at("server.debug")).unwrap();
    changed.push(0);
    fs::write(at("server.debug"), changed).unwrap();
    let message = fails(folder.path(), &arguments);
    assert!(message.contains("no debug information"), "{message}");
}

/// Compiles the program and a second unit of it in a folder of their own, with split debug
/// information.
fn split_program(folder: &Path, flags: &[&str]) -> PathBuf {
    let objects = folder.join("objects");
    fs::create_dir_all(&objects).unwrap();
    fs::write(objects.join("server.c"), SOURCE).unwrap();
    fs::write(
        objects.join("other.c"),
        "struct other { long a; char b; } other;\n",
    )
    .unwrap();
    for source in ["server.c", "other.c"] {
        run(Command::new("gcc")
            .args(["-g", "-gsplit-dwarf", "-c", source])
            .args(flags)
            .current_dir(&objects));
    }
    let path = folder.join("server");
    run(Command::new("gcc")
        .args(["server.o", "other.o", "-o"])
        .arg(&path)
        .current_dir(&objects));
    path
}

#[test]
fn split_debug_information_is_found() {
    for version in ["-gdwarf-5", "-gdwarf-4"] {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let path = split_program(folder.path(), &[version]);
        let arguments = ["connection", "--program", "server"];
        // Where the compiler wrote it, and next to the program.
        assert_eq!(works(folder.path(), &arguments), CONNECTION);
        for name in ["server.dwo", "other.dwo"] {
            fs::rename(at("objects").join(name), at(name)).unwrap();
        }
        assert_eq!(works(folder.path(), &arguments), CONNECTION);
        // The link leads to the program's folder.
        let elsewhere = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(&path, elsewhere.path().join("link")).unwrap();
        let linked = ["connection", "--program", "link"];
        assert_eq!(works(elsewhere.path(), &linked), CONNECTION);
        // A separate debug file has the skeletons.
        separate(&path, &at("stripped"));
        let stripped = ["connection", "--program", "stripped"];
        assert_eq!(works(folder.path(), &stripped), CONNECTION);
    }
}

#[test]
fn packages_are_found_beside_the_program_and_its_debug_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let path = split_program(folder.path(), &["-gdwarf-4"]);
    run(Command::new("dwp")
        .args(["-e", "../server", "-o", "../server.dwp"])
        .current_dir(at("objects")));
    fs::remove_dir_all(at("objects")).unwrap();
    let arguments = ["connection", "--program", "server"];
    assert_eq!(works(folder.path(), &arguments), CONNECTION);
    separate(&path, &path);
    fs::create_dir(at(".debug")).unwrap();
    fs::rename(at("server.debug"), at(".debug/server.debug")).unwrap();
    fs::rename(at("server.dwp"), at(".debug/server.dwp")).unwrap();
    assert_eq!(works(folder.path(), &arguments), CONNECTION);
}

#[test]
fn split_units_that_are_missing_are_reported_and_cost_their_types_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join("objects").join(name);
    split_program(folder.path(), &[]);
    fs::remove_file(at("other.dwo")).unwrap();
    let output = layout(folder.path(), &["connection", "--program", "server"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), CONNECTION);
    let missing = |name: &str, others: &str| {
        let place = fs::canonicalize(at("")).unwrap().join(name);
        let place = place.display();
        format!("split debug information is missing: {place}{others} not found")
    };
    let said = String::from_utf8(output.stderr).unwrap();
    let note = missing("other.dwo", " was");
    assert_eq!(said, format!("linemate: note: server: {note}\n"));
    // One of another build is not the one that is meant.
    let other = tempfile::tempdir().unwrap();
    split_program(other.path(), &["-O2", "-DSTATE=1", "-fpack-struct"]);
    for name in ["server.dwo", "other.dwo"] {
        fs::copy(other.path().join("objects").join(name), at(name)).unwrap();
    }
    let said = fails(folder.path(), &["connection", "--program", "server"]);
    let missing = missing("server.dwo", " and another file were");
    assert_eq!(said, format!("linemate: server: {missing}"));
}

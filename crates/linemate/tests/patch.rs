//! `linemate patch` as a user calls it, over small trees. Needs cc, git and pahole, and fails
//! without.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A header that the tests move members in.
const QUEUE: &str = "\
#ifndef QUEUE_H
#define QUEUE_H

/* A queue. */
struct queue {
	/* guards all below */
	int lock;
	unsigned flags:3, state:5;
#ifdef WITH_STATS
	unsigned long seen;	/* total */
#endif
	long head, tail;
	union {
		void *first;
		long token;
	};
	unsigned long hits;
	void (*done)(struct queue *q);
};

#endif
";

struct TestTree {
    folder: TempDir,
}

impl TestTree {
    fn new(files: &[(&str, &str)]) -> TestTree {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join("tree").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        TestTree { folder }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("tree")
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// The types of a unit that includes `header`, as a blob that `--kernel` takes.
    fn types(&self, header: &str, flags: &[&str]) -> PathBuf {
        let unit = self.file(
            "types.c",
            &format!("#include \"{header}\"\nstruct queue *q;\n"),
        );
        let object = self.folder.path().join("types.o");
        let mut cc = Command::new("cc");
        cc.args(["-g", "-gdwarf-4", "-c", "-o"])
            .arg(&object)
            .arg(unit)
            .arg("-I")
            .arg(self.root())
            .args(flags);
        succeed(&mut cc);
        let btf = self.folder.path().join("types.btf");
        let detached = format!("--btf_encode_detached={}", btf.display());
        succeed(Command::new("pahole").arg(detached).arg(&object));
        btf
    }

    fn patch(&self, edit: &str, types: &Path, more: &[&str]) -> Output {
        self.command(edit, types, more).output().unwrap()
    }

    fn command(&self, edit: &str, types: &Path, more: &[&str]) -> Command {
        let edit = self.file("edit", edit);
        let mut command = Command::new(env!("CARGO_BIN_EXE_linemate"));
        command
            .args([
                "patch",
                "--author",
                "A U Thor <author@example.org>",
                "--edit",
            ])
            .arg(edit)
            .arg("--source")
            .arg(self.root())
            .arg("--kernel")
            .arg(types)
            .args(more);
        command
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        git.arg("-C").arg(self.root());
        git.args([
            "-c",
            "user.name=C O Mitter",
            "-c",
            "user.email=c@example.org",
        ])
        .args(arguments);
        succeed(&mut git)
    }
}

fn succeed(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The patch on standard output.
fn written(output: &Output) -> String {
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The one line of complaint, without the folder's name.
fn refusal(tree: &TestTree, output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    said.replace(&tree.folder.path().display().to_string(), "FOLDER")
        .trim_end()
        .to_owned()
}

const EDIT: &str = "type queue\ngroup hot first { head hits first }\nmove flags last\n";

/// A tree is not blamed for what the computer lacks.
#[test]
fn a_missing_tool_of_the_proof_is_named_with_its_package() {
    let tree = TestTree::new(&[("lib/queue.h", QUEUE)]);
    let types = tree.types("lib/queue.h", &[]);
    let without = |variable: &str, value: &Path, more: &[&str]| {
        let mut command = tree.command(EDIT, &types, more);
        command.env(variable, value).output().unwrap()
    };
    let build = "cc -g -c \"$LINEMATE_UNIT\" -o \"$LINEMATE_OBJECT\"";
    // A folder with the compiler and what it runs, and without pahole.
    let tools = tree.folder.path().join("tools");
    fs::create_dir(&tools).unwrap();
    for tool in ["cc", "as", "ld", "git", "sh"] {
        let found = succeed(Command::new("sh").args(["-c", &format!("command -v {tool}")]));
        std::os::unix::fs::symlink(found.trim(), tools.join(tool)).unwrap();
    }
    // Which is for kernels alone.
    assert!(written(&without("PATH", &tools, &["--build", build])).contains("+++ b/lib/queue.h"));
    assert_eq!(
        refusal(&tree, &without("CC", Path::new("no-such-cc"), &[])),
        "linemate: no-such-cc is not installed, and the proof needs it: install a C compiler (Debian's package gcc), or set CC to one"
    );
}

#[test]
fn atomic_members_of_a_program_are_proven() {
    let source = "struct gate {\n\t_Atomic unsigned long count;\n\tunsigned long limit;\n};\n";
    let main =
        "#include \"gate.h\"\nstruct gate gate;\nint main(void) { return gate.limit != 0; }\n";
    let tree = TestTree::new(&[("gate.h", source), ("main.c", main)]);
    let program = tree.folder.path().join("program");
    let mut cc = Command::new("cc");
    succeed(
        cc.arg("-g")
            .arg("-o")
            .args([&program, &tree.root().join("main.c")]),
    );
    let edit = tree.file("gate.edit", "type gate\nisolate count\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_linemate"));
    command.args([
        "patch",
        "--author",
        "A U Thor <author@example.org>",
        "--edit",
    ]);
    command.arg(&edit).arg("--source");
    command.arg(tree.root()).arg("--program").arg(&program);
    let patch = written(&command.output().unwrap());
    assert!(patch.contains("+\t_Atomic unsigned long count"), "{patch}");
    let build = "cc -g -c \"$LINEMATE_UNIT\" -o \"$LINEMATE_OBJECT\"";
    let patch = written(&command.args(["--build", build]).output().unwrap());
    assert!(patch.contains("+\t_Atomic unsigned long count"), "{patch}");
}

#[test]
fn a_patch_applies_compiles_and_is_the_same_again() {
    let tree = TestTree::new(&[
        ("lib/queue.h", QUEUE),
        ("lib/other.h", "struct other { int a; };\n"),
    ]);
    let types = tree.types("lib/queue.h", &[]);
    let evidence = tree.file(
        "evidence.json",
        r#"{"problem": "Everything is on one line — and all CPUs write it.", "workload": "pings",
            "groups": [{"name": "hot", "intent": "Read by every push.", "reasons": ["push() loads head"]}],
            "effect": [{"metric": "HITM", "before": "100", "after": "60", "change": "-40 % ± 2"}]}"#,
    );
    let more = ["--signoff", "--evidence", evidence.to_str().unwrap()];
    let patch = written(&tree.patch(EDIT, &types, &more));
    assert_eq!(written(&tree.patch(EDIT, &types, &more)), patch);
    assert!(
        patch.contains("Subject: [PATCH] queue: Group members of struct queue by use\n"),
        "{patch}"
    );
    assert!(
        patch.contains("\n        before  after     change\n  HITM     100     60  -40 % ± 2\n")
    );

    tree.git(&["init", "-q"]);
    tree.git(&["add", "."]);
    tree.git(&["commit", "-q", "-m", "base"]);
    assert!(!patch.contains("base-commit"), "{patch}");
    let patch = written(&tree.patch(EDIT, &types, &more));
    let base = tree.git(&["rev-parse", "HEAD"]);
    let end = format!("\n\nbase-commit: {}\n-- \n", base.trim());
    assert!(patch.contains(&end), "{patch}");
    let header = tree.root().join("lib/queue.h");
    let text = fs::read_to_string(&header).unwrap();
    fs::write(&header, format!("{text}/* changed since */\n")).unwrap();
    let changed = written(&tree.patch(EDIT, &types, &more));
    assert!(!changed.contains("base-commit"), "{changed}");
    fs::write(&header, text).unwrap();
    let mail = tree.file("0001.patch", &patch);
    tree.git(&["am", "-q", mail.to_str().unwrap()]);
    assert_eq!(
        tree.git(&["log", "-1", "--format=%an <%ae>|%s"]),
        "A U Thor <author@example.org>|queue: Group members of struct queue by use\n"
    );
    let message = tree.git(&["log", "-1", "--format=%b"]);
    assert!(message.starts_with("Everything is on one line — and all CPUs write it.\n\nPut 3 members of struct queue on cache lines of their own (hot). 5\nmembers move in all.\n\nhot:\n\n  - push() loads head\n"), "{message}");
    assert!(
        message.contains("struct queue has exactly the layout\nthat was predicted."),
        "{message}"
    );
    assert!(message.trim_end().ends_with(&format!(
        "Written by linemate {}.\n\nSigned-off-by: A U Thor <author@example.org>",
        env!("CARGO_PKG_VERSION")
    )));
    let text = fs::read_to_string(tree.root().join("lib/queue.h")).unwrap();
    assert_eq!(
        text,
        "\
#ifndef QUEUE_H
#define QUEUE_H

/* A queue. */
struct queue {
	/* Read by every push. */
	long head __attribute__((aligned(64)));
	unsigned long hits;
	union {
		void *first;
		long token;
	};

	/* guards all below */
	int lock __attribute__((aligned(64)));
	long tail;
	void (*done)(struct queue *q);
	unsigned flags:3, state:5;
#ifdef WITH_STATS
	unsigned long seen;	/* total */
#endif
};

#endif
"
    );
}

#[test]
fn a_linux_tree_has_its_own_words() {
    let cache = "#define ____cacheline_aligned __attribute__((__aligned__(64)))\n";
    let header = format!("#include <linux/cache.h>\n{QUEUE}");
    let files = [
        ("Kbuild", ""),
        ("include/linux/cache.h", cache),
        ("kernel/q/queue.h", &header),
        ("tools/queue.h", QUEUE),
    ];
    let tree = TestTree::new(&files);
    let include = format!("-I{}/include", tree.root().display());
    let types = tree.types("kernel/q/queue.h", &[&include, "-DWITH_STATS"]);
    let build = "cc -g -DWITH_STATS -I include -c -o $LINEMATE_OBJECT $LINEMATE_UNIT && test -h tools -o -d tools";
    let edit = "type queue\nisolate seen\n";
    let none = tree.patch(edit, &types, &[]);
    assert_eq!(
        refusal(&tree, &none),
        "linemate: nothing to prove the patch with: give --config (a build or headers folder of that kernel) or --build"
    );
    let patch = written(&tree.patch(edit, &types, &["--build", build]));
    assert!(patch.contains("Subject: [PATCH] q: Group members of struct queue by use\n"));
    let diff = &patch[patch.find("@@").unwrap()..patch.find("-- \n").unwrap()];
    assert_eq!(
        diff,
        "\
@@ -7,10 +7,14 @@ struct queue {
 	/* guards all below */
 	int lock;
 	unsigned flags:3, state:5;
+
+	/* On cache lines of its own */
 #ifdef WITH_STATS
-	unsigned long seen;	/* total */
+	unsigned long seen ____cacheline_aligned;	/* total */
 #endif
-	long head, tail;
+
+	long head ____cacheline_aligned;
+	long tail;
 	union {
 		void *first;
 		long token;
"
    );
    // Without the config the member is missing: nothing counts as proven.
    let other = "cc -g -I include -c -o $LINEMATE_OBJECT $LINEMATE_UNIT";
    let refused = refusal(&tree, &tree.patch(edit, &types, &["--build", other]));
    assert_eq!(
        refused,
        "linemate: kernel/q/queue.h: the unpatched tree is not what was recorded, or its config differs: member 3 is `head` in the compiled unit, not `seen`"
    );
    let failing = refusal(
        &tree,
        &tree.patch(edit, &types, &["--build", "echo bad: error: no >&2; false"]),
    );
    assert!(
        failing.ends_with("sh failed (exit status: 1): bad: error: no"),
        "{failing}"
    );
}

/// With a member that only some configs have, before what shares its line.
const PARTS: &str = "\
struct queue {
	long a;
	/* the first two on one cache line */
	long b;
	long c;

#ifdef WITH_STATS
	long seen;
#endif
#ifdef WITH_PAD
	char pad[64];
#endif
	long d;
	long e;
};
";

fn build(flags: &str) -> String {
    format!("cc -g {flags} -I . -c -o $LINEMATE_OBJECT $LINEMATE_UNIT")
}

#[test]
fn an_alignment_is_where_every_config_has_it() {
    let tree = TestTree::new(&[("queue.h", PARTS)]);
    let types = tree.types("queue.h", &["-DWITH_STATS"]);
    let (stats, plain) = (build("-DWITH_STATS"), build(""));
    let edit = "type queue\ngroup hot first { seen e }\n";
    let more = ["--build", &stats, "--build", &plain];
    let patch = written(&tree.patch(edit, &types, &more));
    common::sizes_agree(&patch);
    assert!(
        patch.contains("+\tlong e __attribute__((aligned(64)));\n"),
        "{patch}"
    );
    assert!(!patch.contains("+\tlong seen __attribute__"), "{patch}");
    let said = patch.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains(
            ", too. Under each config its field groups start cache lines and stay together."
        ),
        "{patch}"
    );
    // Another member first would put some on other lines.
    let wide = "type queue\ngroup hot first { seen e pad }\n";
    let types = tree.types("queue.h", &["-DWITH_STATS", "-DWITH_PAD"]);
    let both = build("-DWITH_STATS -DWITH_PAD");
    let alone = "type queue\ngroup hot first { pad seen e }\n";
    written(&tree.patch(wide, &types, &["--build", &both]));
    let refused = refusal(&tree, &tree.patch(alone, &types, &["--build", &both]));
    assert_eq!(
        refused,
        "linemate: queue.h: `pad` would carry its field group's alignment, but a config can remove the member: start the group in FOLDER/edit with another one"
    );
}

#[test]
fn an_alignment_is_on_a_member_with_a_name() {
    let tree = TestTree::new(&[("queue.h", QUEUE)]);
    let types = tree.types("queue.h", &["-DWITH_STATS"]);
    let build = build("-DWITH_STATS");
    let patch = |edit: &str| written(&tree.patch(edit, &types, &["--build", &build]));
    // checkpatch.pl takes `_Alignas`, the only way for the union, for a name in CamelCase.
    let both = patch("type queue\ngroup hot last { first hits }\n");
    assert!(
        both.contains("\tunsigned long hits __attribute__((aligned(64)));\n"),
        "{both}"
    );
    assert!(!both.contains("_Alignas"), "{both}");
    // A condition is worse: without the config nothing would be aligned.
    let worse = patch("type queue\ngroup hot last { first seen }\n");
    assert!(worse.contains("\t_Alignas(64) union {\n"), "{worse}");
    assert!(!worse.contains("seen __attribute__"), "{worse}");
}

#[test]
fn how_many_new_neighbours_share_a_line_under_a_second_config_is_reported() {
    let wide = "struct queue {\n#ifdef WIDE\n\tchar wide[56];\n#endif\n\tlong a;\n\tlong b;\n\tlong c;\n\tlong d;\n};\n";
    let tree = TestTree::new(&[("queue.h", wide)]);
    let types = tree.types("queue.h", &[]);
    let (plain, other) = (build(""), build("-DWIDE"));
    let mail = |second: &str| {
        let edit = "type queue\norder c b d a\n";
        let configs = ["--build", &plain, "--build", second];
        let mail = written(&tree.patch(edit, &types, &configs));
        common::sizes_agree(&mail);
        mail.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let reported = |second: &str, row: &str| {
        let mail = mail(second);
        assert!(mail.contains(row), "{row}: {mail}");
        assert!(!mail.contains("its field groups"), "{mail}");
    };
    reported(&plain, "` 64 32 3 of 3");
    // `c` ends a line there.
    reported(&other, "` 64 88 2 of 3");
}

#[test]
fn groups_keep_together_under_a_second_config() {
    let tree = TestTree::new(&[("queue.h", PARTS)]);
    let types = tree.types("queue.h", &["-DWITH_STATS"]);
    let (stats, pad) = (build("-DWITH_STATS"), build("-DWITH_PAD"));
    // What the recorded kernel lacks stays between the two.
    let edit = "type queue\ngroup hot after seen { d e }\n";
    written(&tree.patch(edit, &types, &["--build", &stats, "--build", &pad]));
    let edit = "type queue\ngroup hot after c { seen d }\n";
    let output = tree.patch(edit, &types, &["--build", &stats, "--build", &pad]);
    let refused = refusal(&tree, &output);
    assert!(
        refused.contains("queue.h: struct queue: with `cc"),
        "{refused}"
    );
    assert!(refused.ends_with("; nothing is written"), "{refused}");
}

#[test]
fn no_comment_about_lines_is_left_contradicting() {
    let tree = TestTree::new(&[("queue.h", PARTS)]);
    let types = tree.types("queue.h", &[]);
    let edit = "type queue\ngroup hot first { c }\n";
    let refused = refusal(&tree, &tree.patch(edit, &types, &[]));
    let words = "the first two on one cache line";
    assert_eq!(
        refused,
        format!(
            "linemate: queue.h:3: the comment \"{words}\" is about b, c, whose cache lines change: say what is true now with --reword '{words}=NEW' (the same words to keep it, none to remove it)"
        )
    );
    let reword = format!("{words}=b is counted");
    let patch = written(&tree.patch(edit, &types, &["--reword", &reword]));
    assert!(patch.contains("+\t/* b is counted */\n"), "{patch}");
    assert!(patch.contains(&format!("-\t/* {words} */\n")), "{patch}");
    let gone = format!("{words}=");
    let patch = written(&tree.patch(edit, &types, &["--reword", &gone]));
    assert!(patch.contains(&format!("-\t/* {words} */\n")), "{patch}");
    let same = format!("{words}={words}");
    written(&tree.patch(edit, &types, &["--reword", &same]));
    let unknown = refusal(&tree, &tree.patch(edit, &types, &["--reword", "nobody=x"]));
    assert!(
        unknown.contains("nobody") || unknown.contains(words),
        "{unknown}"
    );
    // As in struct file and struct zone: the words may begin with a hyphen and have a sign in them,
    // and the refusal's remedy is taken as it is.
    let boundary = "--- cacheline 1 boundary (64 = 2 * 32 bytes) ---";
    let marked = TestTree::new(&[("queue.h", &PARTS.replace(words, boundary))]);
    let refused = refusal(&marked, &marked.patch(edit, &types, &[]));
    assert!(refused.contains(&format!("--reword '{boundary}=NEW'")));
    let gone = format!("{boundary}=");
    let patch = written(&marked.patch(edit, &types, &["--reword", &gone]));
    assert!(patch.contains(&format!("-\t/* {boundary} */\n")), "{patch}");
    // Members that keep their company leave it true.
    written(&tree.patch("type queue\norder e d\n", &types, &[]));
}

#[test]
fn evidence_beside_the_edit_is_taken_and_has_to_be_its_own() {
    let tree = TestTree::new(&[("lib/queue.h", QUEUE)]);
    let types = tree.types("lib/queue.h", &[]);
    let evidence = |edit: &str| {
        let text = format!(r#"{{"edit": {edit:?}, "problem": "Everything is on one line."}}"#);
        tree.file("edit.json", &text)
    };
    let path = evidence(EDIT);
    let patch = written(&tree.patch(EDIT, &types, &[]));
    assert!(patch.contains("\nEverything is on one line.\n"), "{patch}");
    evidence("type queue\nisolate head\n");
    let refused = refusal(&tree, &tree.patch(EDIT, &types, &[]));
    assert_eq!(
        refused,
        "linemate: FOLDER/edit.json: evidence for an edit other than FOLDER/edit: remove it, or name the right one with --evidence"
    );
    fs::remove_file(path).unwrap();
    assert!(!written(&tree.patch(EDIT, &types, &[])).contains("Everything"));
}

#[test]
fn what_changes_nothing_writes_nothing() {
    let tree = TestTree::new(&[("queue.h", QUEUE)]);
    let types = tree.types("queue.h", &[]);
    let output = tree.patch("type queue\norder lock flags head\n", &types, &[]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        said,
        "linemate: the edit changes nothing: no patch is written\n"
    );
}

#[test]
fn bad_input_gets_one_line() {
    let good = TestTree::new(&[("queue.h", QUEUE)]);
    let types = good.types("queue.h", &[]);
    let changed = QUEUE.replace("long head, tail", "long head, middle, tail");
    let wider = QUEUE.replace("int lock", "long lock");
    let swapped = QUEUE.replace("head, tail", "tail, head");
    let in_macro = format!(
        "#define DEFINE_QUEUE \\\n{}\n",
        QUEUE
            .lines()
            .skip(4)
            .take(2)
            .collect::<Vec<_>>()
            .join(" \\\n")
    )
    .replace("struct queue {", "struct queue { int a; };");
    let torn = QUEUE.replace(
        "int lock;",
        "int lock\n#ifdef X\n\t__aligned(8)\n#endif\n\t;",
    );
    let crlf = QUEUE.replace('\n', "\r\n");
    let move_tail = "type queue\nmove tail first\n";
    for (files, edit, message) in [
        (
            vec![("a.h", "int x;\n")],
            move_tail,
            "linemate: no definition of struct queue in FOLDER/tree",
        ),
        (
            vec![("a.h", QUEUE), ("b.h", QUEUE)],
            move_tail,
            "linemate: struct queue is defined in several places that all fit the recording: a.h:5, b.h:5; name the file (--file)",
        ),
        (
            vec![("a.h", in_macro.as_str())],
            move_tail,
            "linemate: a.h:1: this macro generates struct queue: its members cannot be moved here",
        ),
        (
            vec![("a.h", &changed)],
            move_tail,
            "linemate: a.h:12: `middle` is not a recorded member: the tree is of another version",
        ),
        (
            vec![("a.h", &swapped)],
            move_tail,
            "linemate: a.h:12: `head` is after `tail` here, but before it in the recording: the tree is of another version",
        ),
        (
            vec![("a.h", &wider)],
            move_tail,
            "linemate: a.h: the unpatched tree is not what was recorded, or its config differs: `lock` has 8 bytes in the compiled unit, not 4 bytes",
        ),
        (
            vec![("a.h", &torn)],
            move_tail,
            "linemate: a.h:7: preprocessor lines split this declaration, so `lock` cannot be moved",
        ),
        (
            vec![("a.h", &crlf)],
            move_tail,
            "linemate: a.h:1: the line ends with CR LF, which git am would change",
        ),
        (
            vec![("a.h", QUEUE)],
            "type queue\nremove tail\n",
            "linemate: FOLDER/edit:2:1: `remove tail` changes code beyond the definition, which a patch of the definition cannot do: leave it out",
        ),
        (
            vec![("a.h", QUEUE)],
            "type queue\npad lock to 64\n",
            "linemate: FOLDER/edit:2:1: `pad lock to 64` cannot be written as C that follows the machine: align or isolate what comes next instead",
        ),
    ] {
        let tree = TestTree::new(&files);
        assert_eq!(refusal(&tree, &tree.patch(edit, &types, &[])), message);
    }
    let two = TestTree::new(&[("a.h", QUEUE), ("b.h", QUEUE)]);
    let patch = written(&two.patch(move_tail, &types, &["--file", "b.h"]));
    assert!(patch.contains("+++ b/b.h\n") && !patch.contains("a/a.h"));
}

#[test]
fn a_date_that_is_none_and_an_empty_subject_are_refused() {
    let tree = TestTree::new(&[("lib/queue.h", QUEUE)]);
    let types = tree.types("lib/queue.h", &[]);
    for (option, value, says) in [
        ("--date", "yesterday", "not an RFC 2822 date"),
        ("--date", "", "not an RFC 2822 date"),
        ("--subject", "", "a patch needs a subject"),
        ("--subject", " \t", "a patch needs a subject"),
    ] {
        let output = tree.patch(EDIT, &types, &[option, value]);
        assert_eq!(output.status.code(), Some(2), "{option} {value:?}");
        assert!(output.stdout.is_empty(), "{option} {value:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(says), "{option} {value:?}: {said}");
    }
    let more = [
        "--date",
        "Tue, 24 Nov 2026 12:00:00 +0000",
        "--subject",
        "queue: sort",
    ];
    let patch = written(&tree.patch(EDIT, &types, &more));
    assert!(
        patch.contains("\nDate: Tue, 24 Nov 2026 12:00:00 +0000\nSubject: [PATCH] queue: sort\n")
    );
}

/// A struct whose size shows that something in it starts a line: `refs` does, `list` is there by
/// chance, and only the source says which.
const AREA: &str = "\
struct area {
	long start, end, mm, prot, flags;
	int seq;
	long chain[2];
	long list, ops, offset, file, data, ahead, policy, state;
	int refs __attribute__((aligned(64)));
	long shared[4];
	long context;
};
";

#[test]
fn the_source_says_which_member_starts_its_line() {
    let tree = TestTree::new(&[("lib/area.h", AREA)]);
    let types = tree.types("lib/area.h", &["-fno-eliminate-unused-debug-types"]);
    let output = tree.patch("type area\nmove seq after refs\n", &types, &[]);
    let patch = written(&output);
    assert!(
        patch.contains("struct area has exactly the layout"),
        "{patch}"
    );
    assert!(!patch.contains("\n+\tlong list"), "{patch}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        said.trim_end(),
        "linemate: note: as the source has it: area: align list 8"
    );
    // What is moved keeps the alignment that its declaration asks for.
    let patch = written(&tree.patch("type area\nmove refs after end\n", &types, &[]));
    assert!(
        patch.contains("struct area has exactly the layout"),
        "{patch}"
    );
}

//! Patches of types in C++ and Rust, proven by their compilers. Needs c++ and rustc, and fails
//! without.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fs;
use std::path::Path;
use std::process::Command;

use linemate_answers::PatchEvidence;
use linemate_dwarf::{ProgramFiles, ProgramTypes, relocated};
use linemate_layout::parse;
use linemate_patch::{Draft, Letter, PatchError, Request, SourceTree, Toolchain};
use linemate_types::{LineSize, TypeModel};
use tempfile::TempDir;

const CPP: &str = "c++ -std=c++20 -g -c -o $LINEMATE_OBJECT $LINEMATE_UNIT";
const RUST: &str = "rustc --edition 2024 -A warnings -g -o $LINEMATE_OBJECT $LINEMATE_UNIT";

/// Files, of which the first is the program.
struct Program {
    folder: TempDir,
    build: &'static str,
    model: TypeModel,
    evidence: PatchEvidence,
}

impl Program {
    fn new(build: &'static str, files: &[(&str, &str)]) -> Program {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("tree");
        fs::create_dir(&root).unwrap();
        for (name, text) in files {
            fs::write(root.join(name), text).unwrap();
        }
        let object = folder.path().join("object");
        let mut shell = Command::new("sh");
        shell.args(["-c", build]).current_dir(&root);
        shell.env("LINEMATE_UNIT", root.join(files[0].0));
        assert!(
            shell
                .env("LINEMATE_OBJECT", &object)
                .status()
                .unwrap()
                .success()
        );
        let bytes = relocated(fs::read(&object).unwrap()).unwrap();
        let types = ProgramTypes::read(&ProgramFiles::new(&bytes, None, None).unwrap());
        Program {
            model: types.unwrap().into_model(),
            evidence: PatchEvidence::default(),
            build,
            folder,
        }
    }

    fn tree(&self) -> SourceTree {
        SourceTree::open(&self.folder.path().join("tree"), "x86").unwrap()
    }

    fn request<'r>(&'r self, tree: &'r SourceTree) -> Request<'r> {
        Request {
            edit: "the edit",
            model: &self.model,
            tree,
            file: None,
            line: LineSize::B64,
            rewordings: &[],
            evidence: &self.evidence,
        }
    }

    /// The notes and the lines that an edit's patch adds and removes, or the refusal.
    fn patch(&self, edits: &str) -> Result<(Vec<String>, String), String> {
        let tree = self.tree();
        let mut notes = Vec::new();
        let mail = self.mail(self.request(&tree), edits, &mut |note| {
            notes.push(note.to_owned())
        });
        mail.map(|mail| (notes, changed(&mail))).map_err(whole)
    }

    fn mail(
        &self,
        request: Request<'_>,
        edits: &str,
        note: &mut dyn FnMut(&str),
    ) -> Result<String, PatchError> {
        let draft = Draft::new(request, parse(edits).unwrap(), note)?.unwrap();
        let builds = [self.build.to_owned()];
        let compilers = Toolchain::all::<&Path>(request.tree, "x86", &builds, &[]).unwrap();
        draft.prove(&compilers)?.mail(&Letter {
            author: Some("A <a@example.org>"),
            date: None,
            subject: None,
            signoff: false,
            tool: "a test",
        })
    }
}

fn whole(error: PatchError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text
}

/// The lines that a mail's diff adds and removes.
fn changed(mail: &str) -> String {
    let diff = mail.split("\n+++ ").nth(1).unwrap();
    let lines = diff.lines().filter(|line| line.starts_with(['+', '-']));
    let lines = lines.filter(|line| *line != "-- ");
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_comment_in_a_class_with_bases_is_checked() {
    let gauge = "class Base { int base; };\nclass Gauge : public Base {\n public:\n  virtual ~Gauge() {}\n\
                 \x20 /* Both on one cache line. */\n  long a = 0;\n  long b = 0;\n};\n\
                 int main() { Gauge gauge; return gauge.a; }\n";
    let program = Program::new(CPP, &[("main.cpp", gauge)]);
    let refused = program.patch("type Gauge\nisolate b\n").unwrap_err();
    assert!(
        refused.starts_with("main.cpp:5: the comment \"Both on one cache line.\" is about a, b"),
        "{refused}"
    );
}

#[test]
fn a_line_at_the_end_of_a_base_class_is_not_left_to_derived_ones() {
    let shapes = "class Counted {\n public:\n  virtual ~Counted() {}\n  long limit = 0;\n  long refs = 0;\n};\n\
                  class Shape : public Counted {\n public:\n  int width = 0;\n};\n\
                  int main() { Shape shape; return shape.width; }\n";
    let program = Program::new(CPP, &[("main.cpp", shapes)]);
    assert_eq!(
        program.patch("type Counted\nisolate refs\n").unwrap_err(),
        "Counted is a base of Shape, whose members would follow on its last line: first end \
         Counted with a member that fills it, then edit that"
    );
    // What leaves no more room at the end than there was is as good as in any class.
    assert!(program.patch("type Counted\norder refs limit\n").is_ok());
}

/// A class with what classes have.
const QUEUE: &str = "\
#pragma once
namespace app {
class Base {
 protected:
  int base_ = 0;
};

template <class T, int N>
class Queue final : public Base {
 public:
  explicit Queue(long limit) : limit_{limit}, hits_(0) { slots_[0] = T{}; }
  struct Cell { T value; int used() const { return 1; } };
  virtual ~Queue() {}
  static int made;
  long hits() const { return hits_; }

 private:
  T slots_[N];  // what is queued
#ifdef STATS
  long seen_ = 0;
#endif
  /* how many fit */
  const long limit_;
  void (*on_full_)(int) = nullptr;
  alignas(8) long hits_;  // of all threads
  Cell *first_{nullptr}, *last_ = nullptr;
};
}  // namespace app
";
const MAIN: &str =
    "#include \"queue.hpp\"\nint main() { app::Queue<short, 3> q(4); return q.hits(); }\n";

#[test]
fn members_of_a_class_move_with_what_belongs_to_them() {
    let program = Program::new(CPP, &[("main.cpp", MAIN), ("queue.hpp", QUEUE)]);
    let edit = "type \"app::Queue<short int, 3>\"\nmove limit_ before slots_\nisolate hits_\n";
    let (notes, diff) = program.patch(edit).unwrap();
    let proven = "note: queue.hpp: Queue changes with any arguments, and is proven for app::Queue<short int, 3> alone";
    assert_eq!(notes, [proven]);
    assert_eq!(
        diff,
        "\
+  /* how many fit */
+  const long limit_;
-  /* how many fit */
-  const long limit_;
-  alignas(8) long hits_;  // of all threads
-  Cell *first_{nullptr}, *last_ = nullptr;
+
+  /* On cache lines of its own */
+  alignas(64) long hits_;  // of all threads
+
+  alignas(64) Cell *first_{nullptr};
+  Cell *last_ = nullptr;
"
    );
    let (notes, _) = program
        .patch("type \"app::Queue<short int, 3>\"\nmove hits_ before slots_\n")
        .unwrap();
    assert!(notes[1].ends_with("(-Wreorder)"), "{notes:?}");
}

#[test]
fn what_the_compiler_or_the_language_forbids_is_refused() {
    let config = "\
#include <new>
class Config {
  int size;
 public:
  int limit, used;
  Config(int x);
};
struct alignas(std::hardware_destructive_interference_size) Plain { int a; long b = a; long c; };
Plain plain = { .a = 1, .c = 2 };
";
    let main = "#include \"config.h\"\nConfig::Config(int x) : size(x), limit(2), used(limit) {}\n\
                int main() { return Config(1).used + (int)plain.c; }\n";
    let program = Program::new(CPP, &[("main.cc", main), ("config.h", config)]);
    let refused = |edit: &str| program.patch(edit).unwrap_err();
    assert_eq!(
        refused("type Config\nmove used before limit\n"),
        "main.cc:2: `used` is initialised from `limit`, which the edit's order initialises after it"
    );
    assert_eq!(
        refused("type Config\nmove size last\n"),
        "config.h:3: `limit` would come under another access specifier: move it there by hand first"
    );
    assert_eq!(
        refused("type Plain\nmove b first\n"),
        "config.h:8: `b` is initialised from `a`, which the edit's order initialises after it"
    );
    let designated = refused("type Plain\nmove c first\n");
    assert!(
        designated.starts_with("config.h: the patched Plain does not have the edit's layout; nothing is written: sh failed")
            && designated.contains("error:"),
        "{designated}"
    );
    let (_, diff) = program.patch("type Plain\nalign c line\n").unwrap();
    assert!(
        diff.contains("alignas(std::hardware_destructive_interference_size) long c;"),
        "{diff}"
    );
}

const POOL: &str = "\
use std::sync::atomic::AtomicU64;
mod shared {
    use super::*;
    /// For the device.
    #[repr(C)]
    #[derive(Default)]
    pub(crate) struct Ring<'a> {
        /// Of the device.
        pub head: AtomicU64, // written
        name: Option<&'a str>,
        #[cfg(feature = \"more\")]
        more: u64,
        pub(crate) tail: AtomicU64
    }
}
#[derive(Default)]
struct Worker { done: bool, steps: AtomicU64 }
struct Slot(AtomicU64);
fn main() {
    let (ring, worker, slot) = (shared::Ring::default(), Worker::default(), Slot(AtomicU64::new(1)));
    println!(\"{:?} {:?} {:?} {}\", ring.head, worker.steps, slot.0, worker.done);
}
";

#[test]
fn structs_of_rust_are_ordered_and_aligned() {
    let program = Program::new(RUST, &[("pool.rs", POOL)]);
    let (_, diff) = program
        .patch("type Ring\nmove tail first\nalign tail line\n")
        .unwrap();
    assert_eq!(
        diff,
        "\
-    #[repr(C)]
+    #[repr(C, align(64))]
+        pub(crate) tail: AtomicU64,
-        pub(crate) tail: AtomicU64
"
    );
    let (_, diff) = program.patch("type Worker\nalign steps line\n").unwrap();
    assert_eq!(diff, "+#[repr(align(64))]\n");
    let (_, diff) = program.patch("type Slot\nalign __0 128\n").unwrap();
    assert_eq!(diff, "+#[repr(align(128))]\n");
    let refused = |edit: &str| program.patch(edit).unwrap_err();
    assert_eq!(
        refused("type Worker\nmove done first\n"),
        "pool.rs:17: rustc orders the fields of `Worker` itself: give it #[repr(C)], then record and advise again"
    );
    let own_line = "pool.rs:17: Rust aligns types, not fields: give `done` a type";
    assert!(refused("type Worker\nalign done line\n").starts_with(own_line));
}

#[test]
fn an_order_that_has_a_meaning_is_refused_or_noted() {
    let version = "#[derive(PartialEq, PartialOrd)]\n#[repr(C)]\nstruct Version { major: u32, minor: u32 }\n\
                   #[repr(C)]\nstruct Header { kind: u32, length: u32 }\nfn main() {\n\
                   let (one, header) = (Version { major: 1, minor: 2 }, Header { kind: 1, length: 2 });\n\
                   println!(\"{} {}\", one < one, header.kind + header.length);\n}\n";
    let program = Program::new(RUST, &[("main.rs", version)]);
    let refused = program
        .patch("type Version\nmove minor first\n")
        .unwrap_err();
    assert!(
        refused.starts_with("main.rs:3: `Version` compares its members in the order of the source"),
        "{refused}"
    );
    let (notes, _) = program.patch("type Header\nmove length first\n").unwrap();
    assert!(
        notes[0].starts_with("note: main.rs:5: Header is #[repr(C)]: check"),
        "{notes:?}"
    );
}

#[test]
fn a_library_of_rust_is_compiled_as_one() {
    let build =
        "rustc --edition 2024 -g --crate-type lib --emit obj -o $LINEMATE_OBJECT $LINEMATE_UNIT";
    let text = "#[repr(C)]\npub struct Q { pub a: u32, pub b: u32 }\npub fn sum(q: &Q) -> u32 { q.a + q.b }\n";
    let program = Program::new(build, &[("lib.rs", text)]);
    let tree = program.tree();
    let request = program.request(&tree);
    let edits = parse("type Q\nmove b first\n").unwrap();
    let draft = Draft::new(request, edits, &mut |_| ()).unwrap().unwrap();
    let compilers = Toolchain::all::<&Path>(&tree, "x86", &[], &[]).unwrap();
    draft.prove(&compilers).unwrap();
}

#[test]
fn fields_of_rust_are_wrapped_if_their_uses_allow_it() {
    let program = Program::new(RUST, &[("pool.rs", POOL)]);
    let (_, diff) = program
        .patch("type Ring\nisolate head\nisolate tail\n")
        .unwrap();
    for line in [
        "+        pub head: CacheLine<AtomicU64>, // written\n",
        "+        pub(crate) tail: CacheLine<AtomicU64>\n",
        "+#[repr(align(64))]\n",
    ] {
        assert!(diff.contains(line), "{line}{diff}");
    }
    // rustc puts the aligned field first, so the lines are in another order than the edit's.
    let pair = "use std::sync::atomic::AtomicU64;\nstruct Pair { first: AtomicU64, second: AtomicU64 }\nfn main() {\n\
                let pair = Pair { first: AtomicU64::new(1), second: AtomicU64::new(2) };\n\
                println!(\"{:?} {:?}\", pair.first, pair.second);\n}\n";
    let ordered = Program::new(RUST, &[("pair.rs", pair)]);
    let (_, diff) = ordered.patch("type Pair\nisolate second\n").unwrap();
    assert!(
        diff.contains("second: CacheLine::new(AtomicU64::new(2)) }"),
        "{diff}"
    );
    let derived = "#[derive(Debug, Hash, PartialEq, PartialOrd)]\nstruct Pair { first: u64, second: u64 }\n\
                   fn main() { println!(\"{:?}\", Pair { first: 1, second: 2 }); }\n";
    let derived = Program::new(RUST, &[("derived.rs", derived)]);
    let (_, diff) = derived.patch("type Pair\nisolate second\n").unwrap();
    assert!(
        diff.contains("core::fmt::Debug::fmt(&self.value, f)"),
        "{diff}"
    );
    let marked = pair
        .replace(
            "second: AtomicU64 }",
            "second: AtomicU64, of: std::marker::PhantomData<u8> }",
        )
        .replace("new(2) }", "new(2), of: Default::default() }");
    let marked = Program::new(RUST, &[("marked.rs", &marked)]);
    marked.patch("type Pair\nisolate first\n").unwrap();
    let refused = program.patch("type Worker\nisolate done\n").unwrap_err();
    assert!(
        refused.starts_with("pool.rs: the patched pool::Worker does not have the edit's layout; nothing is written: sh failed")
            && refused.contains("error[E0277]"),
        "{refused}"
    );
}

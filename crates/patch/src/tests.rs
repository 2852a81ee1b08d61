//! What a patch promises, with a compiler that runs no program.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use linemate_answers::PatchEvidence;
use linemate_layout::{EditFile, parse};
use linemate_testkit::btf_writer::{TypeList, member};
use linemate_types::{LineSize, Member, TypeModel};
use tempfile::TempDir;

use crate::*;

/// Compiles one struct of `long` members, of which some ask for an alignment and some are under
/// `#ifdef`.
#[derive(Clone, Default)]
struct FakeCompiler {
    /// Its name, and the condition that is true.
    config: &'static str,
    /// A member that it puts last whatever the source says, as if the tree were another kernel's.
    moves: Option<&'static str>,
    /// A file in the tree that it cannot compile without.
    needs: Option<&'static str>,
    /// Bytes of a line, as a kernel's unit says, and of what it aligns; 64 if absent.
    line: Option<u64>,
    aligns: Option<u64>,
    /// Where it was called.
    trees: RefCell<BTreeSet<PathBuf>>,
}

impl FakeCompiler {
    fn config(config: &'static str) -> FakeCompiler {
        FakeCompiler {
            config,
            ..FakeCompiler::default()
        }
    }

    fn model(&self, text: &str) -> TypeModel {
        let mut types = TypeList::default();
        let long = types.int("long", 8);
        let (mut names, mut is_on) = (Vec::new(), true);
        for line in text.lines().map(str::trim) {
            match line.split_once(' ') {
                Some(("#ifdef", condition)) => is_on = condition == self.config,
                Some(("long", declared)) if is_on => {
                    names.push(
                        declared
                            .trim_end_matches(';')
                            .split_once(' ')
                            .map_or((declared.trim_end_matches(';'), false), |(name, _)| {
                                (name, true)
                            }),
                    );
                }
                _ if line == "#endif" => is_on = true,
                _ => {}
            }
        }
        names.sort_by_key(|(name, _)| Some(*name) == self.moves);
        let line = self.aligns.unwrap_or(64);
        let (mut members, mut end, mut is_aligned): (Vec<Member>, u64, bool) =
            (Vec::new(), 0, false);
        for (name, aligned) in names {
            let start = if aligned {
                end.next_multiple_of(line)
            } else {
                end
            };
            members.push(member(name, long, start));
            (end, is_aligned) = (start + 8, is_aligned || aligned);
        }
        let size = end.next_multiple_of(if is_aligned { line } else { 8 });
        types.structure("queue", u32::try_from(size).unwrap(), &members);
        if let Some(bytes) = self.line {
            types.structure("linemate_line", u32::try_from(bytes).unwrap(), &[]);
        }
        TypeModel::new(types.types, 8).unwrap()
    }
}

impl Compiler for FakeCompiler {
    fn name(&self) -> String {
        format!("config {}", self.config)
    }

    fn config(&self) -> String {
        self.config.to_owned()
    }

    fn types(&self, unit: &CompileUnit<'_>) -> Result<TypeModel, CompileError> {
        self.trees.borrow_mut().insert(unit.tree.to_owned());
        if self
            .needs
            .is_some_and(|needs| !unit.tree.join(needs).exists())
        {
            return Err(CompileError::MissingTool {
                program: "cc".to_owned(),
                remedy: "install one",
            });
        }
        Ok(self.model(&fs::read_to_string(unit.file).unwrap()))
    }
}

/// A tree with one header, and the edit of its one struct.
struct World {
    folder: TempDir,
    model: TypeModel,
    edits: EditFile,
    notes: RefCell<Vec<String>>,
}

const QUEUE: &str = "struct queue {\n\tlong a;\n\tlong b;\n#ifdef STATS\n\tlong seen;\n#endif\n\tlong c;\n\tlong d;\n};\n";

impl World {
    fn new(text: &str, edits: &str) -> World {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("lib")).unwrap();
        fs::create_dir_all(folder.path().join("include/sys")).unwrap();
        fs::write(folder.path().join("include/sys/other.h"), "int other;\n").unwrap();
        fs::write(folder.path().join("lib/near.h"), "int near;\n").unwrap();
        fs::write(folder.path().join("lib/queue.h"), text).unwrap();
        World {
            model: FakeCompiler::config("STATS").model(text),
            edits: parse(&format!("type queue\n{edits}\n")).unwrap(),
            folder,
            notes: RefCell::default(),
        }
    }

    /// The draft for the edit `ask`.
    fn with_draft<T>(
        &self,
        rewordings: &[String],
        ask: impl FnOnce(&Draft<'_>) -> Result<T, PatchError>,
    ) -> Result<Option<T>, String> {
        let tree = SourceTree::open(self.folder.path(), "x86").unwrap();
        let request = Request {
            edit: "the edit",
            model: &self.model,
            tree: &tree,
            file: None,
            line: LineSize::B64,
            rewordings,
            evidence: &PatchEvidence::default(),
        };
        let mut note = |text: &str| self.notes.borrow_mut().push(text.to_owned());
        let draft = Draft::new(request, self.edits.clone(), &mut note).map_err(whole)?;
        draft.map(|draft| ask(&draft).map_err(whole)).transpose()
    }

    fn mail(&self, compilers: &Compilers<FakeCompiler>) -> Result<String, String> {
        let mail = self.with_draft(&[], |draft| {
            draft.prove(compilers)?.mail(&Letter {
                author: Some("A <a@example.org>"),
                date: Some("Thu, 1 Jan 1970 00:00:00 +0000"),
                subject: None,
                signoff: false,
                tool: "a test",
            })
        });
        mail.map(|mail| mail.unwrap_or_default())
    }

    /// All files of the tree with their texts.
    fn files(&self) -> Vec<(PathBuf, String)> {
        let paths = ["include/sys/other.h", "lib/near.h", "lib/queue.h"];
        let paths = paths.map(|path| self.folder.path().join(path));
        let read = |path: PathBuf| (path.clone(), fs::read_to_string(path).unwrap());
        paths.into_iter().map(read).collect()
    }
}

fn whole(error: PatchError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

fn compilers(recorded: FakeCompiler, others: Vec<FakeCompiler>) -> Compilers<FakeCompiler> {
    Compilers { recorded, others }
}

fn stats() -> FakeCompiler {
    FakeCompiler::config("STATS")
}

#[test]
fn a_patch_is_proven_on_both_sides_and_leaves_the_tree_as_it_was() {
    let world = World::new(QUEUE, "group hot first { d a }");
    let before = world.files();
    let both = compilers(stats(), vec![FakeCompiler::config("PLAIN")]);
    let mail = world.mail(&both).unwrap();
    assert!(
        mail.contains("+\tlong d __attribute__((aligned(64)));\n"),
        "{mail}"
    );
    let words = mail.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("Compiled with config STATS: struct queue has exactly the layout that was predicted. Compiled with config PLAIN, too. Under each config its field groups start cache lines and stay together."),
        "{mail}"
    );
    // Of the same struct under both configs; one has a member less, and none has new neighbours.
    assert!(
        mail.contains("\nstruct queue by config, before -> after:\n"),
        "{mail}"
    );
    for row in [
        "  config   line size      bytes",
        "  1 STATS         64  40 -> 128",
        "  2 PLAIN         64  32 -> 128",
        "  member       1       2",
        "  d            0       0",
        "  b       0 -> 1  0 -> 1",
    ] {
        assert!(mail.lines().any(|line| line == row), "{row}: {mail}");
    }
    let alone = world.mail(&compilers(stats(), Vec::new())).unwrap();
    assert!(!alone.contains("by config"), "{alone}");
    assert_eq!(world.files(), before);
    // The unpatched tree and a patched one, which is deleted.
    let trees = both.recorded.trees.into_inner();
    let tree = fs::canonicalize(world.folder.path()).unwrap();
    assert_eq!((trees.len(), trees.contains(&tree)), (2, true));
    assert!(trees.iter().all(|path| path == &tree || !path.exists()));
}

#[test]
fn the_patched_tree_is_the_tree_with_the_changed_files() {
    let world = World::new(QUEUE, "move d first");
    let files = change::ChangedFiles::from([(
        "lib/queue.h".to_owned(),
        change::FileText {
            old: QUEUE.to_owned(),
            new: "new".to_owned(),
        },
    )]);
    let tree = prove::PatchedTree::new(world.folder.path(), &files).unwrap();
    let text = |path: &str| fs::read_to_string(tree.patched.join(path)).unwrap();
    assert_eq!(text("lib/queue.h"), "new");
    assert_eq!(text("lib/near.h"), "int near;\n");
    assert_eq!(text("include/sys/other.h"), "int other;\n");
    assert!(tree.patched.join("include").is_symlink(), "as a whole");
    assert_eq!(world.files()[2].1, QUEUE);
    let none = prove::PatchedTree::new(Path::new("/no/such"), &files);
    let error = none.err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("cannot read /no/such"));
}

#[test]
fn a_tree_of_another_kernel_is_refused() {
    let world = World::new(QUEUE, "move d first");
    let other = FakeCompiler {
        moves: Some("b"),
        ..stats()
    };
    assert_eq!(
        world.mail(&compilers(other, Vec::new())).unwrap_err(),
        "lib/queue.h: the unpatched tree is not what was recorded, or its config differs: member 1 is `seen` in the compiled unit, not `b`"
    );
    let without = FakeCompiler::config("PLAIN");
    let refused = world.mail(&compilers(without, Vec::new())).unwrap_err();
    assert!(
        refused.contains("its config differs: member 2"),
        "{refused}"
    );
}

#[test]
fn a_patch_that_does_not_give_the_layout_is_refused() {
    let world = World::new(QUEUE, "move d first");
    // Last in the source, so only the patched side shows it.
    let stubborn = FakeCompiler {
        moves: Some("d"),
        ..stats()
    };
    assert_eq!(
        world.mail(&compilers(stubborn, Vec::new())).unwrap_err(),
        "lib/queue.h: the patched struct queue does not have the edit's layout; nothing is written: member 0 is `a` in the compiled unit, not `d`"
    );
}

#[test]
fn what_the_computer_lacks_is_no_fault_of_the_tree() {
    let world = World::new(QUEUE, "move d first");
    let lacking = FakeCompiler {
        needs: Some("no/such"),
        ..stats()
    };
    let refused = world.mail(&compilers(lacking.clone(), Vec::new()));
    let message = "cc is not installed, and the proof needs it: install one";
    assert_eq!(refused.unwrap_err(), message);
    // The config that needs it is named if several were given.
    let refused = world.mail(&compilers(stats(), vec![lacking]));
    assert_eq!(
        refused.unwrap_err(),
        format!("lib/queue.h: struct queue: {message}")
    );
}

#[test]
fn groups_and_new_neighbours_are_looked_at_under_every_config() {
    let text = QUEUE.replace("\tlong c;", "#ifdef OTHER\n\tlong o;\n#endif\n\tlong c;");
    let mail = |edits: &str| {
        let world = World::new(&text, edits);
        world.mail(&compilers(stats(), vec![FakeCompiler::config("OTHER")]))
    };
    // What the recorded kernel lacks moves with the member after it.
    let refused = mail("group hot after a { seen d c }").unwrap_err();
    assert_eq!(
        refused,
        "lib/queue.h: struct queue: with config OTHER, the field group of `d` has other members between; nothing is written"
    );
    let mail = mail("order a d").unwrap();
    assert!(
        mail.contains("Compiled with config OTHER, too.\n"),
        "{mail}"
    );
    let row = "  1 STATS         64     40      2 of 2\n  2 OTHER         64     40      2 of 2\n";
    assert!(mail.contains(row), "{mail}");
}

#[test]
fn lines_are_those_of_the_config() {
    let world = World::new(QUEUE, "group hot first { d a }");
    let with = |line, aligns| {
        let other = FakeCompiler {
            line: Some(line),
            aligns: Some(aligns),
            ..FakeCompiler::config("WIDE")
        };
        world.mail(&compilers(stats(), vec![other]))
    };
    let mail = with(256, 256).unwrap();
    for row in [
        "  2 WIDE         256  32 -> 512",
        "  b       0 -> 1  0 -> 1",
    ] {
        assert!(mail.lines().any(|line| line == row), "{row}: {mail}");
    }
    // What ends a line of 64 bytes shares one of 256 with what comes after it.
    let refused = with(256, 64).unwrap_err();
    assert_eq!(
        refused,
        "lib/queue.h: struct queue: with config WIDE, the field group of `d` shares its last cache line with what comes after it; nothing is written"
    );
    // No line has 0 bytes.
    assert!(with(0, 64).is_ok());
}

#[test]
fn an_alignment_goes_to_a_member_that_no_config_removes() {
    let aligned = |edits: &str| {
        let world = World::new(QUEUE, edits);
        let mail = world.mail(&compilers(stats(), Vec::new()))?;
        let lines = mail.lines().filter(|line| line.starts_with('+'));
        let aligned = lines.filter(|line| line.contains("aligned(64)"));
        Ok::<_, String>(aligned.map(str::to_owned).collect::<Vec<_>>())
    };
    let first = aligned("group hot first { seen d }").unwrap();
    assert!(first[0].contains("long d "), "{first:?}");
    // Nothing else can carry it, and a config that removes it removes the group.
    let alone = aligned("group hot first { seen }").unwrap();
    assert!(alone[0].contains("long seen "), "{alone:?}");
}

#[test]
fn a_comment_that_would_lie_is_refused_until_it_is_reworded() {
    let text = QUEUE.replace("\tlong a;", "\t/* both on one cache line */\n\tlong a;");
    let world = World::new(&text, "group hot first { d }\nmove b last");
    let drafted = |rewordings: &[&str]| {
        let rewordings: Vec<String> = rewordings.iter().map(|r| rewording(r).unwrap()).collect();
        world.with_draft(&rewordings, |draft| {
            Ok(draft.files["lib/queue.h"].new.clone())
        })
    };
    let refused = drafted(&[]).unwrap_err();
    assert!(
        refused.starts_with("lib/queue.h:2: the comment \"both on one cache line\" is about a"),
        "{refused}"
    );
    let text = drafted(&["both on  one cache line = as = they are"])
        .unwrap()
        .unwrap();
    assert!(text.contains("/* as = they are */"), "{text}");
    let unused = drafted(&["both on one cache line=", "no such=x"]).unwrap_err();
    assert_eq!(unused, "--reword: the definition has no comment `no such`");
    assert!(rewording("no sign").is_err() && rewording(" =x").is_err());
}

#[test]
fn an_edit_inside_an_anonymous_struct_is_no_patch() {
    let mut t = TypeList::default();
    let long = t.int("long", 8);
    let inside = t.structure("", 16, &[member("a", long, 0), member("b", long, 8)]);
    let whole = [member("", inside, 0), member("c", long, 16)];
    t.structure("queue", 24, &whole);
    let text = "struct queue {\n\tstruct {\n\t\tlong a;\n\t\tlong b;\n\t};\n\tlong c;\n};\n";
    let refusal = |edits| {
        let mut world = World::new(text, edits);
        world.model = TypeModel::new(t.types.clone(), 8).unwrap();
        world.mail(&compilers(stats(), Vec::new())).unwrap_err()
    };
    assert_eq!(
        refusal("order b a"),
        "an edit of struct queue arranges members of an anonymous struct in it, which no patch is written for: leave it out, or change the source by hand"
    );
    assert!(!refusal("order c b").contains("arranges"));
}

#[test]
fn what_changes_nothing_is_no_draft() {
    let world = World::new(QUEUE, "order a b seen c d");
    let draft = world.with_draft(&[], |_| Ok(()));
    assert_eq!(draft, Ok(None));
    assert!(world.notes.borrow().is_empty());
}

#[test]
fn evidence_is_of_the_same_edit() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let edit = file("edit", "type queue\nmove d first\n");
    let edits = read_edits(&edit).unwrap();
    let read = |text: &str| {
        let path = file("evidence.json", text);
        read_evidence(&path, &edit, &edits).map_err(whole)
    };
    assert!(read(r#"{"edit": "type queue\nmove  d first"}"#).is_ok());
    assert!(read("{}").is_ok());
    let other = read(r#"{"edit": "type queue\nmove a last"}"#).unwrap_err();
    assert!(other.contains("evidence for an edit other than"), "{other}");
    assert!(read("{").unwrap_err().contains("evidence.json: EOF"));
    let none = read_edits(&file("none", "# nothing\n")).unwrap_err();
    assert!(none.to_string().ends_with("none has no edits"));
    let removed = read_edits(&file("more", "type queue\nremove d\n")).unwrap_err();
    assert!(removed.to_string().contains("more:2:1: `remove d`"));
}

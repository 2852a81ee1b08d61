//! Split DWARF gives the same as the same program compiled without it: every type, function,
//! variable and line.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::package;
use linemate_dwarf::{
    DwarfError, ElfAddr, ProgramCode, ProgramFiles, ProgramTypes, Register, skeletons, split_ids,
};
use linemate_types::{LineSize, Type, TypeModel, pahole};

const C: (&str, &[&str]) = ("gcc", &["code.c", "second.c"]);
const CPP: (&str, &[&str]) = ("g++", &["classes.cpp", "second.c"]);

/// A program and its `.dwo` files.
struct Built {
    folder: PathBuf,
    program: Vec<u8>,
    objects: Vec<Vec<u8>>,
}

impl Drop for Built {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn build((compiler, sources): (&str, &[&str]), flags: &[&str]) -> Built {
    let folder = common::scratch("split");
    fs::create_dir_all(&folder).unwrap();
    let mut objects = Vec::new();
    let mut link = Command::new(compiler);
    link.args(["-no-pie", "-o", "program"]).current_dir(&folder);
    for source in sources {
        let stem = source.split('.').next().unwrap();
        common::run(
            Command::new(compiler)
                .current_dir(&folder)
                .args(["-g", "-c", "-o", &format!("{stem}.o")])
                .args(flags)
                .arg(common::source(source)),
        );
        link.arg(format!("{stem}.o"));
        objects.extend(fs::read(folder.join(format!("{stem}.dwo"))));
    }
    common::run(&mut link);
    Built {
        program: fs::read(folder.join("program")).unwrap(),
        objects,
        folder,
    }
}

/// Everything known about a program, one line per fact, wherever it was compiled.
fn told(built: &Built, split: &[&[u8]]) -> BTreeSet<String> {
    let folder = built.folder.display().to_string();
    let facts = facts(&built.program, split).into_iter();
    facts.map(|fact| fact.replace(&folder, "FOLDER")).collect()
}

fn facts(program: &[u8], split: &[&[u8]]) -> BTreeSet<String> {
    let files = ProgramFiles::new(program, None, None);
    let files = files.unwrap().with_split(split).unwrap();
    let types = ProgramTypes::read(&files).unwrap();
    let model = types.model();
    let mut facts = BTreeSet::new();
    for (id, t) in model.iter() {
        if let Type::Composite(composite) = t {
            let text = pahole::print(model, id, LineSize::B64).unwrap();
            facts.insert(format!("{text}at {:?}", composite.declared));
        }
    }
    let code = ProgramCode::read(&files, &types).unwrap();
    for global in code.globals() {
        let ty = model.type_name(global.type_id);
        facts.insert(format!(
            "global {} {:?} {:?} {ty} {} {:?}",
            global.name, global.linkage_name, global.storage, global.size, global.declared
        ));
    }
    for function in code.functions() {
        let mut fact = format!(
            "function {} {:?} {:?} {:?}",
            function.name, function.linkage_name, function.ranges, function.declared
        );
        for parameter in &function.parameters {
            let ty = model.type_name(parameter.type_id);
            write!(fact, " {ty} {}", parameter.name).unwrap();
        }
        facts.insert(fact);
        for range in &function.ranges {
            for pc in (range.start.0..range.end.0).map(ElfAddr) {
                at(&code, model, pc, &mut facts);
            }
        }
    }
    facts
}

fn at(code: &ProgramCode<'_>, model: &TypeModel, pc: ElfAddr, facts: &mut BTreeSet<String>) {
    facts.insert(format!("{pc:?}: {:?}", code.source(pc).unwrap()));
    for register in (0..16).map(Register) {
        for pointer in code.pointers_in(pc, register) {
            let ty = model.type_name(pointer.type_id);
            let (name, offset) = (&pointer.variable, pointer.offset);
            facts.insert(format!("{pc:?}: {register:?} is {name}, {ty} {offset}"));
        }
    }
    for register in [Register::RBP, Register::RSP] {
        for displacement in (-64..64).step_by(8) {
            if let Some(found) = code.variable_at(pc, register, displacement) {
                let ty = model.type_name(found.type_id);
                facts.insert(format!(
                    "{pc:?}: {displacement}({register:?}) is {}, {ty} {}",
                    found.variable, found.offset
                ));
            }
        }
    }
}

/// Asserts that the same facts are known, and shows the first missing one.
fn same(split: &BTreeSet<String>, whole: &BTreeSet<String>, what: &str) {
    let missing = whole.difference(split).next();
    // g++ leaves types that nothing uses in split units.
    let is_type = |fact: &&String| {
        !["global", "function", "ElfAddr"]
            .iter()
            .any(|k| fact.starts_with(k))
    };
    let mut more = split.difference(whole);
    let more = more.find(|fact| what.contains("gcc") || !is_type(fact));
    assert_eq!((missing, more), (None, None), "{what}");
    let count = |is: &dyn Fn(&str) -> bool| whole.iter().filter(|fact| is(fact)).count();
    let counts = [
        count(&|fact| fact.starts_with("struct") || fact.starts_with("class")),
        count(&|fact| fact.starts_with("global")),
        count(&|fact| fact.starts_with("function")),
        count(&|fact| fact.matches("SourceFrame").count() > 1),
        count(&|fact| fact.contains(" is ")),
    ];
    let least = if what.contains("gcc") {
        [3, 4, 5, 4, 4]
    } else {
        [3, 1, 2, 0, 4]
    };
    assert!(
        counts.iter().zip(least).all(|(n, l)| *n >= l),
        "{counts:?} {what}"
    );
}

/// Kinds of debug information: the flags, and how packages of it are made.
const KINDS: [&[&str]; 4] = [
    &["-gdwarf-5"],
    &["-gdwarf-5", "-fdebug-types-section"],
    &["-gdwarf-4"],
    &["-gdwarf-4", "-fdebug-types-section"],
];

fn check(sources: (&str, &[&str]), level: &str, kinds: &[&[&str]]) {
    for kind in kinds {
        let what = format!("{sources:?} {level} {kind:?}");
        let mut flags = vec![level];
        flags.extend(*kind);
        let whole = build(sources, &flags);
        flags.push("-gsplit-dwarf");
        let split = build(sources, &flags);
        assert_eq!((whole.objects.len(), split.objects.len()), (0, 2));
        let expected = told(&whole, &[]);
        let objects: Vec<&[u8]> = split.objects.iter().rev().map(Vec::as_slice).collect();
        same(&told(&split, &objects), &expected, &what);
        let package = match kind[0] {
            // dwp of binutils 2.40 does not support DWARF 5.
            "-gdwarf-5" => package::of(&split.folder, &objects),
            _ => packed(&split.folder),
        };
        same(&told(&split, &[&package]), &expected, &what);
        // Duplicates do no harm, nor do units of other programs.
        let mut all = vec![&package[..]];
        all.extend(&objects);
        all.push(&whole.program);
        same(&told(&split, &all), &expected, &what);
        let ids: Vec<u64> = skeletons(&split.program)
            .unwrap()
            .iter()
            .map(|s| s.id)
            .collect();
        let all: BTreeSet<u64> = ids.iter().copied().collect();
        assert_eq!(split_ids(&package, &all).unwrap(), all);
        let some = BTreeSet::from([1, ids[1]]);
        let last = BTreeSet::from([ids[1]]);
        assert_eq!(split_ids(&package, &some).unwrap(), last);
        assert_eq!(split_ids(objects[0], &all).unwrap(), last);
    }
}

/// A package made by the binutils.
fn packed(folder: &Path) -> Vec<u8> {
    common::run(
        Command::new("dwp")
            .args(["-e", "program", "-o", "program.dwp"])
            .current_dir(folder),
    );
    fs::read(folder.join("program.dwp")).unwrap()
}

#[test]
fn c_says_the_same() {
    check(C, "-O2", &KINDS);
}

#[test]
fn c_without_optimisation_says_the_same() {
    check(C, "-O0", &KINDS);
}

#[test]
fn cpp_says_the_same() {
    // g++ 12 leaves more scopes of types in split type units, and puts variables elsewhere in split
    // units of DWARF 4.
    check(CPP, "-O2", &KINDS[..1]);
}

#[test]
fn skeletons_name_their_units() {
    for kind in KINDS {
        let mut flags = vec!["-O2", "-gsplit-dwarf"];
        flags.extend(kind);
        let built = build(C, &flags);
        let found = skeletons(&built.program).unwrap();
        let names: Vec<&str> = found.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["code.dwo", "second.dwo"]);
        for skeleton in &found {
            assert_eq!(
                skeleton.folder.as_deref().map(Path::new),
                Some(built.folder.as_path())
            );
        }
    }
    let whole = build(C, &["-O2"]);
    assert_eq!(skeletons(&whole.program).unwrap(), []);
}

#[test]
fn units_that_are_missing_cost_what_they_have() {
    for kind in KINDS {
        let mut flags = vec!["-O2", "-gsplit-dwarf"];
        flags.extend(kind);
        let built = build(C, &flags);
        let other = build(C, &["-O1", "-gsplit-dwarf"]);
        let names = |split: &[&[u8]]| {
            let files = ProgramFiles::new(&built.program, None, None).unwrap();
            let types = ProgramTypes::read(&files.with_split(split).unwrap())?;
            let model = types.into_model();
            let has = |name: &str| model.lookup(name).is_some();
            Ok::<_, DwarfError>((has("right"), has("only_here")))
        };
        let [code, second] = &built.objects[..] else {
            panic!("two objects")
        };
        assert_eq!(names(&[code, second]).unwrap(), (true, true));
        assert_eq!(names(&[code]).unwrap(), (true, false));
        assert_eq!(names(&[second]).unwrap(), (false, true));
        // Another build has another id.
        assert_eq!(names(&[second, &other.objects[0]]).unwrap(), (false, true));
        let error = names(&[&other.objects[0]]).unwrap_err();
        let DwarfError::Split(missing) = &error else {
            panic!("{error}")
        };
        assert_eq!((missing.first.as_str(), missing.count), ("code.dwo", 2));
    }
}

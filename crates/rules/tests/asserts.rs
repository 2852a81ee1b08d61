//! Rules as assertions, given to the compilers of the three languages: a layout that keeps the
//! rules compiles, and each layout that breaks one does not, with the rule's place in the message.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use linemate_rules::{AssertionLanguage, Assertions, assertions, parse};
use linemate_types::LineSize;

const RULES: &str = r#"type conn
group hot on 1 line { mask table }
	because "read by \ every {request}"
apart refs from hot
start refs
apart lock.owner from hot
size at most 3 lines
size at most 192 bytes
isolate refs
hole at most 8 bytes
type? gone
start x
"#;

/// A layout of `conn` with the rules that it breaks, by their lines.
struct Case {
    /// Words before `mask`: with six, `table` ends a line, and `refs` starts the next one.
    before: usize,
    align: bool,
    /// Words at the end.
    after: usize,
    broken: &'static [u32],
}

const CASES: [Case; 5] = [
    Case {
        before: 6,
        align: false,
        after: 1,
        broken: &[],
    },
    Case {
        before: 6,
        align: true,
        after: 1,
        broken: &[],
    },
    Case {
        before: 1,
        align: false,
        after: 1,
        broken: &[4, 5, 6],
    },
    Case {
        before: 7,
        align: false,
        after: 1,
        broken: &[2, 4, 5, 6],
    },
    Case {
        before: 6,
        align: true,
        after: 20,
        broken: &[7, 8],
    },
];

const LANGUAGES: [AssertionLanguage; 3] = [
    AssertionLanguage::C,
    AssertionLanguage::Cpp,
    AssertionLanguage::Rust,
];

fn source(language: AssertionLanguage, case: &Case) -> String {
    let Case {
        before,
        align,
        after,
        ..
    } = case;
    match language {
        AssertionLanguage::C | AssertionLanguage::Cpp => {
            let align = match (align, language) {
                (false, _) => "",
                (true, AssertionLanguage::C) => "_Alignas(64)",
                (true, _) => "alignas(64)",
            };
            format!(
                "struct lock {{ int word, owner; }};\nstruct conn {{ long a[{before}]; long mask, table; {align} long refs; \
                 struct lock lock; long z[{after}]; }};\n#include \"asserts.h\"\nint main(void) {{ return 0; }}\n"
            )
        }
        AssertionLanguage::Rust => {
            let refs = if *align { "Line" } else { "i64" };
            format!(
                "#![allow(dead_code, non_camel_case_types)]\n#[repr(C, align(64))] struct Line(i64);\n\
                 #[repr(C)] struct lock {{ word: i32, owner: i32 }}\n\
                 #[repr(C)] struct conn {{ a: [i64; {before}], mask: i64, table: i64, refs: {refs}, lock: lock, z: [i64; {after}] }}\n\
                 include!(\"asserts.h\");\nfn main() {{}}\n"
            )
        }
    }
}

fn asserts(language: AssertionLanguage, rules: &str) -> Assertions {
    let rules = parse(rules).unwrap();
    assertions(&rules, language, LineSize::B64, "conn.rules")
}

/// A source that includes the rules' assertions.
fn compile(folder: &Path, language: AssertionLanguage, rules: &str, source: &str) -> Output {
    fs::write(folder.join("asserts.h"), asserts(language, rules).text).unwrap();
    let (name, compiler, flags) = match language {
        AssertionLanguage::C => (
            "t.c",
            "cc",
            &["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"][..],
        ),
        AssertionLanguage::Cpp => (
            "t.cpp",
            "c++",
            &["-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"][..],
        ),
        AssertionLanguage::Rust => (
            "t.rs",
            "rustc",
            &["--edition", "2021", "-D", "warnings", "--emit", "metadata"][..],
        ),
    };
    fs::write(folder.join(name), source).unwrap();
    Command::new(compiler)
        .current_dir(folder)
        .args(flags)
        .arg(name)
        .output()
        .unwrap()
}

/// The rules' lines in what a compiler says, once each.
fn broken(output: &Output) -> Vec<u32> {
    let text = String::from_utf8_lossy(&output.stderr);
    let places = text
        .split("conn.rules:")
        .skip(1)
        .filter_map(|rest| rest.split(':').next()?.parse().ok());
    let mut lines: Vec<u32> = places.collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

#[test]
fn compilers_refuse_what_breaks_a_rule_and_nothing_else() {
    for language in LANGUAGES {
        let folder = tempfile::tempdir().unwrap();
        for case in &CASES {
            let output = compile(folder.path(), language, RULES, &source(language, case));
            let about = format!(
                "{language:?}, {} before: {}",
                case.before,
                String::from_utf8_lossy(&output.stderr)
            );
            assert_eq!(output.status.success(), case.broken.is_empty(), "{about}");
            let found = broken(&output);
            // rustc stops at the first.
            let wanted = match language {
                AssertionLanguage::Rust => case.broken.get(..1).unwrap_or_default(),
                AssertionLanguage::C | AssertionLanguage::Cpp => case.broken,
            };
            assert_eq!(found, wanted, "{about}");
        }
    }
}

#[test]
fn a_member_of_no_bytes_is_on_the_line_that_it_starts() {
    let rules = "type conn\napart mark from refs\napart mark from table\n";
    let c = "struct conn { long table[8]; char mark[0]; long refs; };\n#include \"asserts.h\"\n\
             int main(void) { return 0; }\n";
    let rust = "#![allow(dead_code, non_camel_case_types)]\n\
                #[repr(C)] struct conn { table: [i64; 8], mark: [u8; 0], refs: i64 }\n\
                include!(\"asserts.h\");\nfn main() {}\n";
    for language in LANGUAGES {
        let source = match language {
            AssertionLanguage::C | AssertionLanguage::Cpp => c,
            AssertionLanguage::Rust => rust,
        };
        let folder = tempfile::tempdir().unwrap();
        let output = compile(folder.path(), language, rules, source);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(broken(&output), [2], "{language:?}: {text}");
    }
}

#[test]
fn what_a_compiler_cannot_know_is_named() {
    let found = asserts(AssertionLanguage::C, RULES);
    assert_eq!((found.asserted, found.left_out), (6, 3));
    let left_out: Vec<&str> = found
        .text
        .lines()
        .filter(|line| line.contains("cannot be an assertion"))
        .collect();
    assert_eq!(
        left_out,
        [
            "// cannot be an assertion, `linemate check` checks it: conn.rules:9: conn, isolate refs",
            "// cannot be an assertion, `linemate check` checks it: conn.rules:10: conn, hole at most 8 bytes",
            "// cannot be an assertion, `linemate check` checks it: conn.rules:12: gone, start x",
        ]
    );
    // An optional member, an element in Rust, a group over several lines.
    for (rule, language) in [
        ("apart a from b?", AssertionLanguage::C),
        ("apart a[0].b from c", AssertionLanguage::Rust),
        ("start type", AssertionLanguage::Rust),
        ("start __0", AssertionLanguage::Rust),
        (
            "size at most 18446744073709551615 lines",
            AssertionLanguage::C,
        ),
        ("group g { a b }", AssertionLanguage::C),
        ("start \"a); int x\"", AssertionLanguage::C),
    ] {
        let rules = parse(&format!("type t\n{rule}")).unwrap();
        assert_eq!(
            assertions(&rules, language, LineSize::B64, "r").asserted,
            0,
            "{rule}"
        );
    }
    let rules = parse("type t\napart a[0].b from c").unwrap();
    assert_eq!(
        assertions(&rules, AssertionLanguage::C, LineSize::B64, "r").asserted,
        1
    );
}

#[test]
fn a_name_or_reason_cannot_leave_its_comment_or_string() {
    let rules = parse("type t\nisolate a\napart a from b\n\tbecause \"back\\slash\"").unwrap();
    let text = assertions(&rules, AssertionLanguage::C, LineSize::B64, "odd\\\nname").text;
    assert!(
        text.lines()
            .all(|line| !line.trim_start().starts_with("//") || !line.ends_with('\\'))
    );
    // In messages, too, where it would end the string.
    assert!(text.contains("\"odd??name:3: "), "{text}");
    assert!(!text.contains("\nname"), "{text}");
    assert!(text.contains("back\\\\slash"));
}

//! Rules against synthetic types: exact findings.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeSet;

use linemate_rules::{Checked, Fault, Lines, check, parse};
use linemate_testkit::btf_writer::{TypeList, bit_field, member};
use linemate_types::{LineSize, Member, TypeModel};

/// A kernel with one `struct t` of u64 arrays: name and bytes of each member, in order, without
/// holes; `-` is a hole.
fn kernel(members: &[(&str, u32)]) -> TypeModel {
    let mut list = TypeList::default();
    let word = list.unsigned("u64", 8);
    let mut offset = 0;
    let mut placed: Vec<Member> = Vec::new();
    for (name, bytes) in members {
        if *name != "-" {
            let array = list.array(word, bytes / 8);
            placed.push(member(name, array, u64::from(offset)));
        }
        offset += bytes;
    }
    list.structure("t", offset, &placed);
    TypeModel::new(list.types, 8).unwrap()
}

fn checked(rules: &str, model: &TypeModel, line: LineSize) -> Checked {
    check(&parse(&format!("type t\n{rules}\n")).unwrap(), model, line).unwrap()
}

/// The findings as sentences.
fn findings(rules: &str, model: &TypeModel, line: LineSize) -> Vec<String> {
    let checked = checked(rules, model, line);
    let text = |f: &linemate_rules::Finding| format!("{}: {}", f.rule, f.fault);
    checked.findings.iter().map(text).collect()
}

fn fails(rules: &str, model: &TypeModel) -> String {
    let rules = parse(rules).unwrap();
    check(&rules, model, LineSize::B64).unwrap_err().to_string()
}

const NONE: [&str; 0] = [];

#[test]
fn a_member_moved_out_of_its_group_is_found() {
    let rules = "group hot { a b c }\nbecause \"read by all\"";
    let before = kernel(&[("a", 8), ("b", 8), ("c", 8), ("x", 40), ("y", 64)]);
    assert_eq!(findings(rules, &before, LineSize::B64), NONE);
    let after = kernel(&[("a", 8), ("b", 8), ("x", 48), ("y", 64), ("c", 8)]);
    let checked = checked(rules, &after, LineSize::B64);
    let [finding] = checked.findings.as_slice() else {
        panic!("{checked:?}")
    };
    let on = |line| Lines {
        first: line,
        last: line,
    };
    let places = vec![
        (on(0), vec!["a".to_owned(), "b".to_owned()]),
        (on(2), vec!["c".to_owned()]),
    ];
    let fault = Fault::Scattered {
        lines: 2,
        enough: 1,
        places,
    };
    assert_eq!(finding.fault, fault);
    assert_eq!(
        (
            finding.subject.as_str(),
            finding.rule.as_str(),
            finding.at.line
        ),
        ("t", "group hot", 2)
    );
    assert_eq!(finding.reason.as_deref(), Some("read by all"));
    assert_eq!(finding.measure(), 1);
    assert_eq!(finding.members(), BTreeSet::from(["c".to_owned()]));
    assert_eq!(
        finding.fault.to_string(),
        "on 2 lines where 1 is enough: a and b are on line 0; c is on line 2"
    );
}

#[test]
fn a_member_grown_into_a_neighbours_line_is_found() {
    let rules = "apart lock from hot\ngroup hot on 1 line { a b }\nstart a\nisolate hot";
    let before = kernel(&[("lock", 40), ("-", 24), ("a", 8), ("b", 56)]);
    assert_eq!(findings(rules, &before, LineSize::B64), NONE);
    // The lock extends over its line's end, and what was aligned is not any more.
    let after = kernel(&[("lock", 72), ("a", 8), ("b", 48)]);
    assert_eq!(
        findings(rules, &after, LineSize::B64),
        [
            "apart lock from hot: lock shares line 1 with a and b",
            "start a: starts 8 bytes into line 1, at byte 72",
            "isolate hot: lock is on line 1 too",
        ]
    );
}

#[test]
fn lines_of_128_bytes_have_other_neighbours_and_holes() {
    let model = kernel(&[("lock", 8), ("-", 56), ("a", 8), ("-", 56), ("b", 8)]);
    let rules = "apart lock from a b\nstart a\nstart b\nhole at most 56 bytes\nsize at most 3 lines\nsize at most 136 bytes";
    assert_eq!(findings(rules, &model, LineSize::B64), NONE);
    let rules = rules.replace("56", "55").replace("3 lines", "1 line");
    assert_eq!(
        findings(&rules, &model, LineSize::B128),
        [
            "apart lock from a: lock shares line 0 with a",
            "start a: starts 64 bytes into line 0, at byte 64",
            "hole: 56 bytes after lock and 56 bytes after a are unused, at most 55 are allowed",
            "size in lines: the type has 2 lines, at most 1 line are allowed",
        ]
    );
    let size = findings("size at most 135 bytes", &model, LineSize::B64);
    assert_eq!(
        size,
        ["size in bytes: the type has 136 bytes, at most 135 bytes are allowed"]
    );
}

#[test]
fn a_group_may_take_the_lines_that_its_bytes_need() {
    // 72 bytes need two lines of 64, wherever they start.
    let packed = kernel(&[("x", 8), ("a", 40), ("b", 32), ("y", 64)]);
    assert_eq!(findings("group g { a b }", &packed, LineSize::B64), NONE);
    let strewn = kernel(&[("a", 40), ("x", 64), ("b", 32), ("y", 64)]);
    assert_eq!(
        findings("group g { a b }", &strewn, LineSize::B64),
        ["group g: on 3 lines where 2 are enough: a is on line 0; b is on lines 1 to 2"]
    );
}

#[test]
fn only_what_is_marked_may_be_missing() {
    let model = kernel(&[("alpha", 8), ("beta", 8)]);
    let rules = "group g { alpha gamma? }\ngroup h { gamma? delta? }\nstart gamma?\napart beta from gamma? h\nisolate h";
    let checked = checked(rules, &model, LineSize::B64);
    assert_eq!(checked.findings, []);
    let skipped: Vec<&str> = checked.skipped.iter().map(|s| s.rule.as_str()).collect();
    assert_eq!(
        skipped,
        [
            "group h",
            "start gamma",
            "apart beta from gamma",
            "apart beta from h",
            "isolate h"
        ]
    );
    assert_eq!(checked.compared, 1);
    let expected =
        "3:1: t has no member `alhpa`; the nearest: alpha; if it may be missing, write `alhpa?`";
    assert_eq!(fails("type t\nstart alpha\nstart alhpa", &model), expected);
    let expected =
        "1:1: there is no type `tt`; the nearest: t; if it may be missing, write `type? tt`";
    assert_eq!(fails("type tt\nstart a", &model), expected);
    let rules = parse("type? tt\nstart a\napart a from b c").unwrap();
    let checked = check(&rules, &model, LineSize::B64).unwrap();
    assert_eq!(checked.skipped.len(), 3);
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let model = kernel(&[("a", 8), ("b", 64)]);
    let expected = "3:1: group `g` has 72 bytes, more than 1 line of 64 bytes can hold (64)";
    assert_eq!(
        fails("type t\nstart a\ngroup g on 1 line { a b }", &model),
        expected
    );
    let expected = "2:1: group `b` has the name of a member: give the group another name";
    assert_eq!(fails("type t\ngroup b { a }", &model), expected);
}

/// ```text
/// struct t { u64 head; struct { u32 x : 4, y : 28; }; union { u64 one; struct two two; }; struct e arr[4]; u64 *p; }
/// ```
fn nested() -> TypeModel {
    let mut list = TypeList::default();
    let (word, half) = (list.unsigned("u64", 8), list.unsigned("u32", 4));
    let pointer = list.pointer(word);
    let bits = [bit_field("x", half, 0, 4), bit_field("y", half, 4, 28)];
    let bits = list.structure("", 4, &bits);
    let two = [member("near", word, 0), member("far", word, 64)];
    let two = list.structure("two", 72, &two);
    let either = [member("one", word, 0), member("two", two, 0)];
    let either = list.union("", 72, &either);
    list.union("u", 8, &[member("one", word, 0)]);
    let element = [member("key", word, 0), member("value", word, 8)];
    let element = list.structure("e", 16, &element);
    let array = list.array(element, 4);
    let members = [
        member("head", word, 0),
        member("", bits, 8),
        member("", either, 16),
        member("arr", array, 88),
        member("p", pointer, 152),
    ];
    list.structure("t", 160, &members);
    list.typedef("t_t", half);
    TypeModel::new(list.types, 8).unwrap()
}

#[test]
fn members_inside_of_members_have_their_places() {
    let model = nested();
    let found = |rules: &str| findings(rules, &model, LineSize::B64);
    // head 0, x and y 8 to 12, near 16, far 80, arr[0] 88, arr[2].key 120, arr[2].value 128, p 152.
    assert_eq!(found("group g { head x y one two.near }"), NONE);
    assert_eq!(found("group g { two.far arr[0] arr[2].key }"), NONE);
    assert_eq!(
        found("group g { arr[2] p }"),
        ["group g: on 2 lines where 1 is enough: arr[2] is on lines 1 to 2; p is on line 2"]
    );
    assert_eq!(
        found("start arr[2].value\nstart two.far"),
        ["start two.far: starts 16 bytes into line 1, at byte 80"]
    );
    assert_eq!(
        found("apart x from y"),
        ["apart x from y: x shares line 0 with y"]
    );
    // The other alternative of the union is on the same bytes, but reaches further; arr is on line
    // 1 for itself too.
    assert_eq!(
        found("isolate two.far"),
        ["isolate two.far: arr is on line 1 too"]
    );
    assert_eq!(
        found("isolate arr[2].value"),
        ["isolate arr[2].value: arr and p are on line 2 too"]
    );
    assert_eq!(
        found("isolate one"),
        ["isolate one: head, x and y are on line 0 too"]
    );
}

#[test]
fn paths_that_lead_nowhere_are_refused() {
    let model = nested();
    for (path, expected) in [
        (
            "arr.key",
            "`arr` is an array: write `arr[0].key`, or name the array itself",
        ),
        ("arr[4]", "`arr` has 4 elements, so none of index 4"),
        ("arr[0][1]", "`arr[0]` is not an array"),
        ("head[0]", "`head` is not an array"),
        (
            "p.x",
            "`p` is not a struct or union, so it has no member `x`",
        ),
        (
            "head.x",
            "`head` is not a struct or union, so it has no member `x`",
        ),
        (
            "arr[]",
            "`arr[]` is not a member's path: names are separated by dots, indices are in [ ]",
        ),
        (
            "two..far",
            "`two..far` is not a member's path: names are separated by dots, indices are in [ ]",
        ),
        (
            "two.fat",
            "two has no member `fat`; the nearest: far; if it may be missing, write `two.fat`?",
        ),
    ] {
        let expected = match path {
            "two.fat" => expected.replace("`two.fat`?", "`two.fat?`"),
            _ => expected.to_owned(),
        };
        let found = fails(&format!("type t\nstart {path}"), &model);
        assert_eq!(found, format!("2:1: {expected}"));
        // A mark excuses what is missing, not what is misunderstood.
        let marked = parse(&format!("type t\nstart {path}?")).unwrap();
        let result = check(&marked, &model, LineSize::B64);
        assert_eq!(result.is_ok(), path == "two.fat", "{path}");
    }
    assert_eq!(
        fails("type u\nstart one", &model),
        "1:1: `u` is a union: its members share bytes anyway: write rules about a struct that contains it"
    );
    assert_eq!(
        fails("type t_t\nstart one", &model),
        "1:1: `t_t` is not a struct"
    );
}

#[test]
fn a_struct_without_a_tag_is_identified_by_its_members() {
    let mut list = TypeList::default();
    let word = list.unsigned("u64", 8);
    let (a, b) = (member("a", word, 0), member("b", word, 8));
    list.structure("", 16, &[a.clone(), b.clone()]);
    list.structure("", 16, &[a, b]);
    list.structure("other", 16, &[member("b", word, 0), member("c", word, 8)]);
    let model = TypeModel::new(list.types, 8).unwrap();
    let rules = parse("type with a b\nstart b").unwrap();
    let checked = check(&rules, &model, LineSize::B64).unwrap();
    assert_eq!(checked.findings.len(), 1, "laid out alike: one struct");
    assert_eq!(checked.findings[0].subject, "with a b");
    assert_eq!(
        fails("type with b\nstart b", &model),
        "1:1: 2 different structs match `with b`: name more members"
    );
    assert_eq!(
        fails("type with z\nstart b", &model),
        "1:1: there is no type `with z`; if it may be missing, write `type? with z`"
    );
}

//! The edit language: every statement, every refusal, and parse ∘ print = identity.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use linemate_layout::{
    Alignment, Edit, EditFile, EditSubject, Section, Statement, Target, parse, parse_flags,
};
use linemate_types::ByteSize;
use proptest::prelude::*;

fn names(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn edits(text: &str) -> Vec<Edit> {
    parse(text)
        .unwrap()
        .statements()
        .map(|(_, s)| s.edit.clone())
        .collect()
}

#[test]
fn every_statement_is_read() {
    let text = "
        # what the lock drags along
        base-align task_group 0x40
        type rq                         # a header
        order  a b   c
        move f after g
        move f before g
        move f first
        move f last
        align f 64
        align f line
        isolate f g
        group hot { a
                    b   # why
                    c }
        group cold after hot { d }
        pad f to 64
        pad after f 8
        pad elements of f to 64
        pad elements to 64
        pad ranges of \"long[] allocated at a.c:7 f\" to line
        pad ranges to 64
        remove f
        reuse RMW of load_avg in update_tg_load_avg
        skip silent stores of overloaded
        skip silent stores in \"has_pinned (flags)\"
        skip array of se
        colocate cfs_rq sched_entity
        percpu counter
        allocate-percpu cfs_rq
        layout-from \"a dir/vmlinuz\"
        type with idle_cpus_mask nr_cpus
        remove nr_cpus
    ";
    let f = || "f".to_owned();
    let moved = |target| Edit::Move { field: f(), target };
    let expected = vec![
        Edit::BaseAlign {
            type_name: "task_group".into(),
            alignment: Alignment::Bytes(ByteSize(64)),
        },
        Edit::Order(names("a b c")),
        moved(Target::After("g".into())),
        moved(Target::Before("g".into())),
        moved(Target::First),
        moved(Target::Last),
        Edit::Align {
            field: f(),
            alignment: Alignment::Bytes(ByteSize(64)),
        },
        Edit::Align {
            field: f(),
            alignment: Alignment::Line,
        },
        Edit::Isolate(names("f g")),
        Edit::Group {
            name: "hot".into(),
            target: None,
            fields: names("a b c"),
        },
        Edit::Group {
            name: "cold".into(),
            target: Some(Target::After("hot".into())),
            fields: names("d"),
        },
        Edit::PadTo {
            field: f(),
            bytes: ByteSize(64),
        },
        Edit::PadAfter {
            field: f(),
            bytes: ByteSize(8),
        },
        Edit::PadElements {
            field: f(),
            stride: Alignment::Bytes(ByteSize(64)),
        },
        Edit::PadTo {
            field: "elements".into(),
            bytes: ByteSize(64),
        },
        Edit::PadRanges {
            name: "long[] allocated at a.c:7 f".into(),
            alignment: Alignment::Line,
        },
        Edit::PadTo {
            field: "ranges".into(),
            bytes: ByteSize(64),
        },
        Edit::Remove(f()),
        Edit::Reuse {
            field: "load_avg".into(),
            function: "update_tg_load_avg".into(),
        },
        Edit::SkipSilent("overloaded".into()),
        Edit::SkipSilentIn("has_pinned (flags)".into()),
        Edit::SkipArray("se".into()),
        Edit::Colocate("cfs_rq".into(), "sched_entity".into()),
        Edit::Percpu("counter".into()),
        Edit::AllocatePercpu("cfs_rq".into()),
        Edit::LayoutFrom("a dir/vmlinuz".into()),
        Edit::Remove("nr_cpus".into()),
    ];
    assert_eq!(edits(text), expected);
    let file = parse(text).unwrap();
    let subjects: Vec<_> = file.sections.iter().map(|s| s.subject.clone()).collect();
    let with = EditSubject::With(names("idle_cpus_mask nr_cpus"));
    assert_eq!(
        subjects,
        [None, Some(EditSubject::Named("rq".into())), Some(with)]
    );
    let at: Vec<_> = file
        .statements()
        .map(|(_, s)| (s.at.line, s.at.column))
        .take(2)
        .collect();
    assert_eq!(at, [(3, 9), (5, 9)]);
}

#[test]
fn statements_are_equal_wherever_they_are() {
    let of = |text: &str| parse(text).unwrap();
    assert_eq!(of("type rq\nremove f"), of("\ntype rq\n\n   remove f"));
    assert_ne!(of("type rq\nremove f"), of("type rq\nremove g"));
}

#[test]
fn the_older_word_of_skip_array_is_read_and_not_written() {
    let old = parse("type task_group\nskip array behind se\n").unwrap();
    let new = "type task_group\nskip array of se\n";
    assert_eq!(old, parse(new).unwrap());
    assert_eq!(old.to_string(), new);
}

#[test]
fn every_refusal_tells_place_and_reason() {
    let cases = [
        (
            "type rq\nmove f over g",
            "2:8: expected `after F`, `before F`, `first` or `last`, found `over`",
        ),
        (
            "order a b",
            "1:1: `order` names fields of no type: write `type T` before it, or give --type T",
        ),
        (
            "type rq\n  shuffle a",
            "2:3: unknown statement `shuffle`; known are type, order, move, align, isolate, group, pad, remove, reuse, skip, colocate, percpu, allocate-percpu, base-align, layout-from",
        ),
        (
            "type rq\nalign f",
            "2:8: expected a number of bytes or `line`, found the end of the statement",
        ),
        (
            "type rq\nalign f sixty",
            "2:9: expected a number of bytes or `line`, found `sixty`",
        ),
        (
            "type rq\nalign f 64 128",
            "2:12: expected `;` or the end of the line, found `128`",
        ),
        (
            "type rq\ngroup g { }",
            "2:11: expected a field's name, found `}`",
        ),
        (
            "type rq\ngroup g { a\nb",
            "3:2: expected a field's name or `}`, found the end of the statement",
        ),
        (
            "type rq\ngroup g a",
            "2:9: expected `{`, `after F`, `before F`, `first` or `last`, found `a`",
        ),
        ("type rq\npad f 8", "2:7: expected `to`, found `8`"),
        (
            "type rq\npad after f -8",
            "2:13: expected a number of bytes, found `-8`",
        ),
        (
            "type rq\nreuse of f in g",
            "2:7: expected `RMW`, found `of`",
        ),
        ("type rq\nremove \"f", "2:8: the quote is not closed"),
        (
            "type rq\nremove \"\"",
            "2:8: expected a field's name, found \"\"",
        ),
        (
            "type",
            "1:5: expected a type's name, found the end of the statement",
        ),
        ("type rq\n{", "2:1: expected a statement, found `{`"),
        (
            "type rq\nisolate a } b",
            "2:11: expected a field's name, found `}`",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text:?}");
    }
    let long = " ".repeat((1 << 20) + 1);
    let expected = "1048577 bytes are too many to read (1048576 at most)";
    assert_eq!(parse(&long).unwrap_err().to_string(), expected);
}

#[test]
fn a_semicolon_ends_a_statement_as_a_line_does() {
    let lines = "type rq\nisolate a b\nmove c after d\ngroup g { e f }\n";
    let all = "type rq; isolate a b;move c after d;; group g { e; f; } # move x last; remove y";
    assert_eq!(parse(all).unwrap().to_string(), lines);
    let flag = ["isolate a b; move c after d; group g { e f };".to_owned()];
    let file = parse_flags(EditSubject::Named("rq".into()), &flag).unwrap();
    assert_eq!(file.to_string(), lines);
    // In quotes it is part of a name.
    let array = parse("type \"[u8; 4]\"; remove \"a;b\"").unwrap();
    assert_eq!(array.to_string(), "type \"[u8; 4]\"\nremove \"a;b\"\n");
    for (text, expected) in [
        (
            "type rq; move f after ; remove g",
            "1:23: expected a field's name, found the end of the statement",
        ),
        (
            "type rq; remove g h; remove i",
            "1:19: expected `;` or the end of the line, found `h`",
        ),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), expected);
    }
}

#[test]
fn flags_are_lines_of_their_own() {
    let flags = ["align a 64".to_owned(), "group g {\n b\n c }".to_owned()];
    let file = parse_flags(EditSubject::Named("rq".into()), &flags).unwrap();
    assert_eq!(file.to_string(), "type rq\nalign a 64\ngroup g { b c }\n");
    let bad = ["align a 64".to_owned(), "align a".to_owned()];
    let error = parse_flags(EditSubject::Named("rq".into()), &bad).unwrap_err();
    assert_eq!(
        error.to_string(),
        "2:8: expected a number of bytes or `line`, found the end of the statement"
    );
}

#[test]
fn a_filter_keeps_headers_and_chosen_statements() {
    let file = parse("type a\nremove x\nremove y\ntype b\nremove z").unwrap();
    assert_eq!(file.len(), 3);
    assert_eq!(
        file.filtered(|n| n != 1).to_string(),
        "type a\nremove x\ntype b\nremove z\n"
    );
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z_][a-zA-Z0-9_.]{0,12}",
        prop_oneof![
            Just("after"),
            Just("to"),
            Just("first"),
            Just("line"),
            Just("with"),
            Just("type"),
            Just("struct"),
            Just("of"),
            Just("a b"),
            Just("8"),
            Just("#x"),
            Just("{"),
        ]
        .prop_map(str::to_owned),
    ]
}

fn some_names() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(name(), 1..5)
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        Just(Target::First),
        Just(Target::Last),
        name().prop_map(Target::After),
        name().prop_map(Target::Before),
    ]
}

fn alignment() -> impl Strategy<Value = Alignment> {
    prop_oneof![
        Just(Alignment::Line),
        any::<u64>().prop_map(|bytes| Alignment::Bytes(ByteSize(bytes)))
    ]
}

fn object_edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (name(), name()).prop_map(|(a, b)| Edit::Colocate(a, b)),
        name().prop_map(Edit::Percpu),
        name().prop_map(Edit::AllocatePercpu),
        (name(), alignment()).prop_map(|(type_name, alignment)| Edit::BaseAlign {
            type_name,
            alignment
        }),
        (name(), alignment()).prop_map(|(name, alignment)| Edit::PadRanges { name, alignment }),
        name().prop_map(Edit::SkipSilentIn),
    ]
}

fn any_edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        object_edit(),
        some_names().prop_map(Edit::Order),
        some_names().prop_map(Edit::Isolate),
        (name(), target()).prop_map(|(field, target)| Edit::Move { field, target }),
        (name(), alignment()).prop_map(|(field, alignment)| Edit::Align { field, alignment }),
        (name(), prop::option::of(target()), some_names()).prop_map(|(name, target, fields)| {
            Edit::Group {
                name,
                target,
                fields,
            }
        }),
        (name(), any::<u64>()).prop_map(|(field, bytes)| Edit::PadTo {
            field,
            bytes: ByteSize(bytes)
        }),
        (name(), alignment()).prop_map(|(field, stride)| Edit::PadElements { field, stride }),
        any::<u64>().prop_map(|bytes| Edit::PadTo {
            field: "elements".to_owned(),
            bytes: ByteSize(bytes)
        }),
        (name(), any::<u64>()).prop_map(|(field, bytes)| Edit::PadAfter {
            field,
            bytes: ByteSize(bytes)
        }),
        name().prop_map(Edit::Remove),
        (name(), name()).prop_map(|(field, function)| Edit::Reuse { field, function }),
        name().prop_map(Edit::SkipSilent),
        name().prop_map(Edit::SkipArray),
        name().prop_map(Edit::LayoutFrom),
    ]
}

fn section(
    subject: Option<EditSubject>,
    edit: impl Strategy<Value = Edit>,
    least: usize,
) -> impl Strategy<Value = Section> {
    prop::collection::vec(edit, least..6).prop_map(move |edits| Section {
        subject: subject.clone(),
        statements: edits
            .into_iter()
            .map(|edit| Statement {
                edit,
                at: Default::default(),
            })
            .collect(),
    })
}

fn subject() -> impl Strategy<Value = EditSubject> {
    prop_oneof![
        name().prop_map(EditSubject::Named),
        some_names().prop_map(EditSubject::With)
    ]
}

fn file() -> impl Strategy<Value = EditFile> {
    let head = prop::option::of(section(None, object_edit(), 1));
    let rest = prop::collection::vec(
        subject().prop_flat_map(|s| section(Some(s), any_edit(), 0)),
        0..4,
    );
    (head, rest).prop_map(|(head, rest)| EditFile {
        sections: head.into_iter().chain(rest).collect(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..Default::default() })]
    #[test]
    fn what_is_printed_reads_back_the_same(file in file()) {
        let text = file.to_string();
        prop_assert_eq!(parse(&text), Ok(file), "{}", text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[a-z \n{}\"#0-9]{0,60}|\\PC{0,40}") {
        if let Ok(file) = parse(&text) {
            prop_assert_eq!(parse(&file.to_string()), Ok(file));
        }
    }
}

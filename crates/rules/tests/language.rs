//! The language of rules: every rule, every refusal, and parse ∘ print = identity.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use linemate_rules::{
    Limit, Position, Reason, Rule, RuleMember, RuleSubject, Rules, Statement, TypeRules, parse,
};
use proptest::prelude::*;

fn members(text: &str) -> Vec<RuleMember> {
    let member = |word: &str| match word.strip_suffix('?') {
        Some(path) => RuleMember::optional(path),
        None => RuleMember::new(word),
    };
    text.split(' ').map(member).collect()
}

#[test]
fn every_rule_is_read() {
    let text = r#"
        # what the scheduler promises
        type struct rq
        group clocks on 1 line { clock_task     # a comment
                                 clock_pelt? "from" "line"? }
            because "moved together"
        group wide on 2 lines { a }  because "on its line"
        group loose { cfs.avg pri[0].count }
        apart __lock from clocks curr? because "read by all"
        isolate avg
        start clocks
        size at most 0x40 lines
        size at most 1 byte
        hole at most 63 bytes
        type? with idle_cpus_mask nr_cpus
        start idle_cpus_mask
    "#;
    let group = |name: &str, lines, text| Statement::Group {
        name: name.into(),
        lines,
        members: members(text),
    };
    let apart = Statement::Apart {
        what: RuleMember::new("__lock"),
        from: members("clocks curr?"),
    };
    let rq = TypeRules::new(RuleSubject::Named("rq".into()))
        .because(
            group("clocks", Some(1), "clock_task clock_pelt? from line?"),
            Reason::new("moved together"),
        )
        .because(group("wide", Some(2), "a"), Reason::new("on its line"))
        .rule(group("loose", None, "cfs.avg pri[0].count"))
        .because(apart, Reason::new("read by all"))
        .rule(Statement::Isolate(RuleMember::new("avg")))
        .rule(Statement::Start(RuleMember::new("clocks")))
        .rule(Statement::Size(Limit::Lines(64)))
        .rule(Statement::Size(Limit::Bytes(1)))
        .rule(Statement::Hole(63));
    let names = vec!["idle_cpus_mask".to_owned(), "nr_cpus".to_owned()];
    let mut nohz = TypeRules::new(RuleSubject::With(names))
        .rule(Statement::Start(RuleMember::new("idle_cpus_mask")));
    nohz.optional = true;
    let expected = Rules {
        types: vec![rq, nohz],
    };
    let rules = parse(text).unwrap();
    assert_eq!(rules, expected);
    assert_eq!((rules.len(), rules.is_empty()), (10, false));
    let rule = &rules.types[0].rules[1];
    let at = Position { line: 7, column: 9 };
    assert_eq!(rule.at, at);
}

#[test]
fn a_semicolon_ends_a_rule_as_a_line_does() {
    let lines = parse("type rq\nstart a because \"b; c\"\nisolate d").unwrap();
    let line = parse("type rq; start a because \"b; c\"; isolate d;").unwrap();
    assert_eq!(line.to_string(), lines.to_string());
}

#[test]
fn rules_print_in_one_spelling() {
    let text = r#"type rq
group clocks on 1 line { clock_task "from"? "odd?" }
	because "it's so"
apart a? from clocks b
size at most 1 line
hole at most 8 bytes

type? with a b
isolate a
"#;
    assert_eq!(parse(text).unwrap().to_string(), text);
}

#[test]
fn reasons_stay_on_their_line() {
    let reason = Reason::new("a \"b\"\n\tc");
    assert_eq!(reason.text(), "a 'b'  c");
    let rules = Rules {
        types: vec![
            TypeRules::new(RuleSubject::Named("t".into())).because(Statement::Hole(1), reason),
        ],
    };
    assert_eq!(parse(&rules.to_string()).unwrap(), rules);
}

#[test]
fn every_refusal_tells_place_and_reason() {
    for (text, expected) in [
        ("", "1:1: it has no rules"),
        ("# nothing", "1:1: it has no rules"),
        ("type rq", "1:1: there is no rule about `rq`"),
        (
            "start a",
            "1:1: `start` is a rule about a type, but there is no `type` line above it",
        ),
        (
            "type t\n begin a",
            "2:2: unknown rule `begin`; known are type, type?, group, apart, isolate, start, size, hole, because",
        ),
        (
            "type t\ngroup { a }",
            "2:7: expected the group's name, found `{`",
        ),
        (
            "type t\ngroup g a",
            "2:9: expected `{` or `on N lines`, found `a`",
        ),
        (
            "type t\ngroup g on 1 { a }",
            "2:14: expected `line` or `lines`, found `{`",
        ),
        (
            "type t\ngroup g on 0 lines { a }",
            "2:12: expected a number of lines, found `0`",
        ),
        (
            "type t\ngroup g on 1 line a",
            "2:19: expected `{`, found `a`",
        ),
        (
            "type t\ngroup g { }",
            "2:11: expected a field's name, found `}`",
        ),
        (
            "type t\ngroup g { a\nb",
            "3:2: expected a field's name or `}`, found the end of the statement",
        ),
        (
            "type t\ngroup g { ? }",
            "2:11: expected the name of a field or group, found `?`",
        ),
        ("type t\napart a b", "2:9: expected `from`, found `b`"),
        (
            "type t\napart a from",
            "2:13: expected the name of a field or group, found the end of the statement",
        ),
        (
            "type t\nstart a b",
            "2:9: expected `;` or the end of the line, found `b`",
        ),
        (
            "type t\nsize at most 4 apples",
            "2:16: expected `bytes` or `lines`, found `apples`",
        ),
        ("type t\nsize 4 bytes", "2:6: expected `at most`, found `4`"),
        (
            "type t\nsize at most many bytes",
            "2:14: expected a number, found `many`",
        ),
        (
            "type t\nhole at most 2 lines",
            "2:21: expected `bytes`, found the end of the statement",
        ),
        (
            "type t\nbecause \"x\"",
            "2:1: `because` gives the reason of the rule above it, but there is none without one",
        ),
        (
            "type t\nstart a because \"x\"\nbecause \"y\"",
            "3:1: `because` gives the reason of the rule above it, but there is none without one",
        ),
        (
            "type t\nstart a because x",
            "2:17: expected the reason, in quotes, found `x`",
        ),
        ("type t\nstart \"a", "2:7: the quote is not closed"),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text}");
    }
    let long = "#".repeat((1 << 20) + 1);
    let expected = "1048577 bytes are too many to read (1048576 at most)";
    assert_eq!(parse(&long).unwrap_err().to_string(), expected);
}

#[test]
fn rules_that_contradict_each_other_are_refused() {
    for (text, expected) in [
        (
            "type t\nstart a\ntype u\nstart a\ntype t\nstart b",
            "5:1: the rules about `t` started on line 1 already",
        ),
        ("type t\ngroup g { a b a }", "2:1: `a` is in the list twice"),
        ("type t\napart a from b b", "2:1: `b` is in the list twice"),
        (
            "type t\ngroup g { a }\ngroup g { b }",
            "3:1: `group g` is on line 2 already",
        ),
        (
            "type t\napart a from b\napart b from c a",
            "3:1: `apart a from b` is on line 2 already",
        ),
        (
            "type t\nsize at most 1 line\nsize at most 2 lines",
            "3:1: `size in lines` is on line 2 already",
        ),
        (
            "type t\nhole at most 1 byte\nhole at most 1 byte",
            "3:1: `hole` is on line 2 already",
        ),
        (
            "type t\napart a from a",
            "2:1: `a` is in `a`, which it must be apart from",
        ),
        (
            "type t\ngroup g { a b }\napart g from b",
            "3:1: `b` is in `g`, which it must be apart from",
        ),
        (
            "type t\napart b from g\ngroup g { a b }",
            "2:1: `b` is in `g`, which it must be apart from",
        ),
        (
            "type t\ngroup g { a b }\ngroup h { b c }\napart g from h",
            "4:1: groups `g` and `h` must be apart, but `b` is in both",
        ),
        (
            "type t\ngroup g { a b }\napart a from c b",
            "3:1: `a` and `b` must be apart, but group `g` (line 2) has both",
        ),
        (
            "type t\ngroup g { a b }\nisolate b",
            "3:1: `b` must have its lines to itself, but is in group `g` (line 2)",
        ),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.to_string(), expected, "{text}");
        assert!(expected.starts_with(&format!("{}:", error.at())));
    }
    // In company of itself alone, or as a whole group.
    parse("type t\ngroup g { b }\nisolate b\n").unwrap();
    parse("type t\ngroup g { a b }\nisolate g\nsize at most 1 line\nsize at most 64 bytes")
        .unwrap();
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "[a-z_]{1,6}",
        1 => "[a-z #{}.?;\\[\\]]{1,6}",
        1 => prop::sample::select(vec!["from", "on", "because", "line", "lines", "struct", "with", "type"])
            .prop_map(str::to_owned),
    ]
}

fn any_member() -> impl Strategy<Value = RuleMember> {
    (any_name(), any::<bool>()).prop_map(|(path, optional)| RuleMember { path, optional })
}

fn any_statement() -> impl Strategy<Value = Statement> {
    let some = || prop::collection::vec(any_member(), 1..5);
    prop_oneof![
        (any_name(), prop::option::of(1u64..4), some()).prop_map(|(name, lines, members)| {
            Statement::Group {
                name,
                lines,
                members,
            }
        }),
        (any_member(), some()).prop_map(|(what, from)| Statement::Apart { what, from }),
        any_member().prop_map(Statement::Isolate),
        any_member().prop_map(Statement::Start),
        any::<u64>().prop_map(|n| Statement::Size(Limit::Bytes(n))),
        any::<u64>().prop_map(|n| Statement::Size(Limit::Lines(n))),
        any::<u64>().prop_map(Statement::Hole),
    ]
}

fn any_rules() -> impl Strategy<Value = Rules> {
    let subject = prop_oneof![
        any_name().prop_map(RuleSubject::Named),
        prop::collection::vec(any_name(), 1..3).prop_map(RuleSubject::With),
    ];
    let reason = prop::option::of("\\PC{0,20}".prop_map(|text| Reason::new(&text)));
    let rule = (any_statement(), reason).prop_map(|(statement, reason)| Rule {
        statement,
        reason,
        at: Position::default(),
    });
    let rules = prop::collection::vec(rule, 1..6);
    let type_rules =
        (subject, any::<bool>(), rules).prop_map(|(subject, optional, rules)| TypeRules {
            subject,
            optional,
            rules,
            at: Position::default(),
        });
    prop::collection::vec(type_rules, 1..3).prop_map(|types| Rules { types })
}

proptest! {
    #[test]
    fn what_is_printed_reads_the_same(rules in any_rules()) {
        match parse(&rules.to_string()) {
            Ok(read) => prop_assert_eq!(read, rules),
            // Generated rules can contradict each other; they are spelt right all the same.
            Err(linemate_rules::ParseError::Sanity(_)) => {}
            Err(error) => return Err(TestCaseError::fail(format!("{error}\n{rules}"))),
        }
    }

    #[test]
    fn no_text_is_too_odd(text in "(type t\n)?([a-z?\"{} #0-9;\n]{0,12}|group|apart|from|start|size at most|because \"x\"|\n){0,30}") {
        if let Ok(rules) = parse(&text) {
            prop_assert_eq!(parse(&rules.to_string()).unwrap(), rules);
        }
    }
}

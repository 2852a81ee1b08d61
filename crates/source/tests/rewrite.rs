//! Definitions rewritten: golden texts of awkward C, errors with their lines, and what no order can
//! lose.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use linemate_source::definition::{self, Sought};
use linemate_source::{
    Align, Dialect, Group, Idiom, Recorded, Wanted, check, check_rewritten, rewrite,
};
use linemate_types::LineSize;
use proptest::prelude::*;

/// Members by name (`a+b` for the names of one anonymous member or the bit-fields of one run), in
/// the recorded order. In `order` the same; `>` before a name requests a line, `(` and `)` surround
/// a group.
fn wanted(recorded: &str, order: &str) -> Wanted {
    let mut members: Vec<Recorded> = Vec::new();
    for (unit, words) in recorded.split_whitespace().enumerate() {
        // `x:y` is a run of bit-fields: two members that move as one.
        for names in words.split(':') {
            let names = names.split('+').map(str::to_owned).collect();
            members.push(Recorded {
                names,
                align: None,
                group: None,
                unit,
                is_inherited: false,
            });
        }
    }
    let (mut indices, mut groups, mut group, mut boundary) = (Vec::new(), Vec::new(), None, false);
    for word in order.split_whitespace() {
        let inner = word.trim_start_matches('(').trim_end_matches(')');
        if word.starts_with('(') {
            group = Some(groups.len());
            groups.push(Group { name: None });
            boundary = true;
        }
        let (aligned, inner) = (inner.starts_with('>'), inner.trim_start_matches('>'));
        for (i, names) in inner.split(':').enumerate() {
            let first = names.split('+').next().unwrap();
            let index = members.iter().position(|m| m.names[0] == first).unwrap();
            members[index].group = group;
            members[index].align = ((aligned || boundary) && i == 0).then_some(Align::Line);
            boundary = false;
            indices.push(index);
        }
        if word.ends_with(')') {
            group = None;
            boundary = true;
        }
    }
    Wanted {
        members,
        order: indices,
        groups,
        line: LineSize::B64,
    }
}

fn moved_with(text: &str, recorded: &str, order: &str, idiom: &Idiom) -> Result<String, String> {
    let found = definition::find(text, &Sought::Tag("t".to_owned()));
    assert_eq!(found.len(), 1);
    let wanted = wanted(recorded, order);
    let intents: Vec<String> = (0..wanted.groups.len())
        .map(|i| format!("group {i}"))
        .collect();
    rewrite(text, &found[0], &wanted, idiom, &intents).map_err(|e| e.to_string())
}

fn moved(text: &str, recorded: &str, order: &str) -> Result<String, String> {
    moved_with(
        text,
        recorded,
        order,
        &Idiom::of(true, Dialect::C, text, text, 64),
    )
}

#[track_caller]
fn golden(text: &str, recorded: &str, order: &str, expected: &str) {
    let new = moved(text, recorded, order).unwrap();
    assert_eq!(new, expected, "\n{new}");
}

#[test]
fn comments_and_blank_lines() {
    golden(
        "struct t {\n\t/* about a */\n\tint a;\n\n\t/*\n\t * about b\n\t */\n\tint b;\t/* b */\n\n\tint c;\n};\n",
        "a b c",
        "b c a",
        "struct t {\n\t/*\n\t * about b\n\t */\n\tint b;\t/* b */\n\n\tint c;\n\t/* about a */\n\tint a;\n};\n",
    );
}

#[test]
fn a_member_that_a_macro_renames() {
    golden(
        "struct t {\n\tint a;\n\tstruct rcu_head rcu_head;\n\tint b;\n};\n",
        "a callback_head+rcu_head b",
        "a b >callback_head",
        "struct t {\n\tint a;\n\tint b;\n\n\tstruct rcu_head rcu_head ____cacheline_aligned;\n};\n",
    );
}

#[test]
fn a_member_takes_its_condition_along() {
    golden(
        "struct t {\n\tint a;\n#ifdef X\n\tint b;\n\tint c;\n#endif /* X */\n\tint d;\n\tint e;\n\tint f;\n};\n",
        "a b c d e f",
        "a b d c e f",
        "struct t {\n\tint a;\n#ifdef X\n\tint b;\n#endif\n\tint d;\n#ifdef X\n\tint c;\n#endif /* X */\n\tint e;\n\tint f;\n};\n",
    );
}

#[test]
fn into_the_middle_of_a_condition() {
    golden(
        "struct t {\n#ifdef X\n\tint b;\n\t/* c */\n\tint c;\n#endif /* X */\n\tint d;\n};\n",
        "b c d",
        "b d c",
        "struct t {\n#ifdef X\n\tint b;\n#endif\n\tint d;\n#ifdef X\n\t/* c */\n\tint c;\n#endif /* X */\n};\n",
    );
}

#[test]
fn what_was_not_compiled_in_does_not_come_to_the_front() {
    golden(
        "struct t {\n\tint a;\n#ifdef X\n\t/* n */\n\tint n;\n#endif\n\tint b;\n\tint c;\n\tint d;\n};\n",
        "a b c d",
        "(b c) a d",
        "struct t {\n\t/* group 0 */\n\tint b ____cacheline_aligned;\n\tint c;\n\n\tint a ____cacheline_aligned;\n#ifdef X\n\t/* n */\n\tint n;\n#endif\n\tint d;\n};\n",
    );
}

#[test]
fn what_was_not_compiled_in_does_not_come_into_a_group() {
    golden(
        "struct t {\n\tint a;\n#ifdef X\n\tint n;\n#endif\n\t/* b */\n\tint b;\n\tint c;\n\tint d;\n};\n",
        "a b c d",
        "b (a c) d",
        "struct t {\n\t/* b */\n\tint b;\n\n\t/* group 0 */\n\tint a ____cacheline_aligned;\n\tint c;\n\n#ifdef X\n\tint n;\n#endif\n\n\tint d ____cacheline_aligned;\n};\n",
    );
}

#[test]
fn long_conditions_say_at_their_end_what_they_are() {
    golden(
        "struct t {\n#if defined(X)\n\tint a;\n\tint b;\n\tint c;\n\tint d;\n\tint e;\n\tint f;\n#endif /* X */\n\tint g;\n};\n",
        "a b c d e f g",
        "a b c d e g f",
        "struct t {\n#if defined(X)\n\tint a;\n\tint b;\n\tint c;\n\tint d;\n\tint e;\n#endif /* X */\n\tint g;\n#if defined(X)\n\tint f;\n#endif /* X */\n};\n",
    );
    golden(
        "struct t {\n#ifdef X\n\tint a;\n#endif /* X */\n\tint m;\n#ifdef X\n\tint b;\n#endif\n\tint c;\n};\n",
        "a m b c",
        "a b c m",
        "struct t {\n#ifdef X\n\tint a;\n\tint b;\n#endif /* X */\n\tint c;\n\tint m;\n};\n",
    );
}

#[test]
fn paragraphs_stay_apart() {
    golden(
        "struct t {\n\t/* a */\n\tint a;\n\tint b;\n\n\t/* c */\n\tint c;\n\tint d;\n\tint e;\n\tint f;\n};\n",
        "a b c d e f",
        "f a b d c e",
        "struct t {\n\tint f;\n\n\t/* a */\n\tint a;\n\tint b;\n\tint d;\n\n\t/* c */\n\tint c;\n\tint e;\n};\n",
    );
    golden(
        "struct t {\n\tint a;\n\n\t/* b */\n\tint b;\n\n\tint c;\n\tint d;\n\tint e;\n\tint f;\n};\n",
        "a b c d e f",
        "a c d e f b",
        "struct t {\n\tint a;\n\n\tint c;\n\tint d;\n\tint e;\n\tint f;\n\n\t/* b */\n\tint b;\n};\n",
    );
    // What starts a line is a paragraph; alone in its group, its own comment comes first.
    golden(
        "struct t {\n\tint a;\n\tint b;\n\t/* c */\n\tint c;\n};\n",
        "a b c",
        "a >b (c)",
        "struct t {\n\tint a;\n\n\tint b ____cacheline_aligned;\n\n\t/* c */\n\t/* group 0 */\n\tint c ____cacheline_aligned;\n};\n",
    );
}

#[test]
fn a_comment_about_several_stays_with_those_that_stay() {
    // A shared line, and "these": the first and the second go, the comment is about the third.
    for comment in [
        "/* these are updated under the lock */",
        "/* all clocks are in the same cache line */",
    ] {
        golden(
            &format!(
                "struct t {{\n\t{comment}\n\tint a;\n\tint b;\n\tint c;\n\n\tint d;\n\tint e;\n\tint f;\n}};\n"
            ),
            "a b c d e f",
            "c d e a f b",
            &format!(
                "struct t {{\n\t{comment}\n\tint c;\n\n\tint d;\n\tint e;\n\tint a;\n\tint f;\n\tint b;\n}};\n"
            ),
        );
    }
    // What is about the first alone moves with it, and so does what is about nobody else.
    for comment in [
        "/* a is on its own cache line */",
        "/* guards those below */",
    ] {
        golden(
            &format!("struct t {{\n\t{comment}\n\tint a;\n\tint b;\n\n\tint d;\n\tint e;\n}};\n"),
            "a b d e",
            "b d e a",
            &format!("struct t {{\n\tint b;\n\n\tint d;\n\tint e;\n\t{comment}\n\tint a;\n}};\n"),
        );
    }
    golden(
        "struct t {\n\t/* these are counters */\n\tint a;\n\n\tint b;\n\tint c;\n\tint d;\n\tint e;\n};\n",
        "a b c d e",
        "b c d a e",
        "struct t {\n\tint b;\n\tint c;\n\tint d;\n\t/* these are counters */\n\tint a;\n\tint e;\n};\n",
    );
}

#[test]
fn what_comes_after_those_that_a_comment_is_about_stands_apart() {
    golden(
        "struct t {\n\tint lock;\n\t/* These are updated under the lock */\n\tint a;\n\tint b;\n\t/* These are not */\n\tint c;\n\tint d;\n};\n",
        "lock a b c d",
        "a b lock c d",
        "struct t {\n\t/* These are updated under the lock */\n\tint a;\n\tint b;\n\n\tint lock;\n\t/* These are not */\n\tint c;\n\tint d;\n};\n",
    );
}

#[test]
fn whole_conditions_move_whole() {
    golden(
        "struct t {\n\t/* X is */\n#ifdef X\n\tint b;\n#ifdef Y\n\tint n;\n#endif\n\tint c;\n#endif /* X */\n\tint d;\n\tint e;\n\tint f;\n\tint g;\n\tint h;\n\tint i;\n\tint j;\n\tint k;\n};\n",
        "b c d e f g h i j k",
        "d e f g h i j k b c",
        "struct t {\n\tint d;\n\tint e;\n\tint f;\n\tint g;\n\tint h;\n\tint i;\n\tint j;\n\tint k;\n\t/* X is */\n#ifdef X\n\tint b;\n#ifdef Y\n\tint n;\n#endif\n\tint c;\n#endif /* X */\n};\n",
    );
}

#[test]
fn out_of_an_else() {
    golden(
        "struct t {\n\tint a;\n#if defined(X)\n\tint b;\n#else\n\tint c;\n#endif\n\tint d;\n\tint e;\n};\n",
        "a c d e",
        "a d e c",
        "struct t {\n\tint a;\n\tint d;\n\tint e;\n#if defined(X)\n\tint b;\n#else\n\tint c;\n#endif\n};\n",
    );
    golden(
        "struct t {\n\tint a;\n#ifdef X\n\tint b;\n\tint f;\n#else\n\tint c;\n#endif\n\tint d;\n\tint e;\n\tint g;\n};\n",
        "a b f d e g",
        "f a d e g b",
        "struct t {\n#ifdef X\n\tint f;\n#endif\n\tint a;\n#ifndef X\n\tint c;\n#endif\n\tint d;\n\tint e;\n\tint g;\n#ifdef X\n\tint b;\n#endif\n};\n",
    );
}

#[test]
fn what_lands_beside_its_own_condition_joins_it() {
    golden(
        "struct t {\n#ifdef X\n\tint a;\n#endif\n\tint b;\n#ifdef X\n\tint c;\n#endif\n\tint d;\n\tint e;\n};\n",
        "a b c d e",
        "a c b d e",
        "struct t {\n#ifdef X\n\tint a;\n\tint c;\n#endif\n\tint b;\n\tint d;\n\tint e;\n};\n",
    );
}

#[test]
fn alternatives_of_one_name_move_together() {
    golden(
        "struct t {\n#ifdef X\n\tint a;\n#else\n\tlong a;\n#endif\n\tint b;\n\tint c;\n\tint d;\n\tint e;\n\tint f;\n\tint g;\n};\n",
        "a b c d e f g",
        "b c d e f g a",
        "struct t {\n\tint b;\n\tint c;\n\tint d;\n\tint e;\n\tint f;\n\tint g;\n#ifdef X\n\tint a;\n#else\n\tlong a;\n#endif\n};\n",
    );
}

/// `a` and `d` have a place for X and one for the others: those for the others stay.
#[test]
fn the_recorded_order_selects_one_of_several_places() {
    let text = "struct t {\n#ifdef X\n\tint a;\n#endif\n\tint b;\n\tint c;\n#ifndef X\n\tlong d;\n\tint a;\n#endif\n\tint e;\n#ifdef X\n\tlong d;\n#endif\n};\n";
    golden(
        text,
        "a b c e d",
        "a b e d c",
        "struct t {\n#ifdef X\n\tint a;\n#endif\n\tint b;\n#ifndef X\n\tlong d;\n\tint a;\n#endif\n\tint e;\n#ifdef X\n\tlong d;\n#endif\n\tint c;\n};\n",
    );
    golden(
        text,
        "b c d a e",
        "b d a c e",
        "struct t {\n#ifdef X\n\tint a;\n#endif\n\tint b;\n#ifndef X\n\tlong d;\n\tint a;\n#endif\n\tint c;\n\tint e;\n#ifdef X\n\tlong d;\n#endif\n};\n",
    );
}

/// After the move both places of `a` fit, so the text no longer shows the recorded one.
#[test]
fn a_move_may_make_a_second_place_fit() {
    let text = "struct t {\n#ifdef X\n\tint a;\n#endif\n\tint b;\n#ifndef X\n\tlong a;\n#endif\n\tint c;\n};\n";
    let new = moved(text, "b a c", "a b c").unwrap();
    let found = definition::find(&new, &Sought::Tag("t".to_owned()));
    let now = wanted("a b c", "a b c");
    let refused = check(&new, &found[0], &now).unwrap_err().to_string();
    assert!(refused.contains("`a`"), "{refused}");
    assert_eq!(
        check_rewritten(&new, &found[0], &wanted("b a c", "a b c")),
        Ok(())
    );
    assert!(check_rewritten(&new, &found[0], &wanted("b a c", "b c a")).is_err());
}

/// Style checks complain about blanks before a tab in what a member's text has, not before it.
#[test]
fn an_indentation_of_blanks_and_tabs_takes_nothing_from_the_member() {
    golden(
        "struct t {\n  \tint a;\n\tint b;\n};\n",
        "a b",
        "b a",
        "struct t {\n\tint b;\n  \tint a;\n};\n",
    );
}

/// In an `#else`, in a condition inside another one, and next to each other after the move.
#[test]
fn places_under_any_condition_are_as_good() {
    golden(
        "struct t {\n#ifdef X\n\tint o;\n#else\n\tint a;\n#endif\n\tint b;\n#ifdef X\n#ifdef Y\n\tint a;\n#endif\n#endif\n\tint c;\n\tint d;\n};\n",
        "o b a c d",
        "o b a d c",
        "struct t {\n#ifdef X\n\tint o;\n#else\n\tint a;\n#endif\n\tint b;\n#ifdef X\n#ifdef Y\n\tint a;\n#endif\n#endif\n\tint d;\n\tint c;\n};\n",
    );
    let beside = "struct t {\n#ifdef X\n\tint a;\n#endif\n\tint b;\n#ifndef X\n\tint a;\n#endif\n\tint c;\n};\n";
    golden(
        beside,
        "a b c",
        "b a c",
        "struct t {\n\tint b;\n#ifdef X\n\tint a;\n#endif\n#ifndef X\n\tint a;\n#endif\n\tint c;\n};\n",
    );
    golden(
        beside,
        "a b c",
        "a c b",
        "struct t {\n#ifdef X\n\tint a;\n#endif\n\tint c;\n\tint b;\n#ifndef X\n\tint a;\n#endif\n};\n",
    );
}

#[test]
fn declarations_of_several_names_part() {
    golden(
        "struct t {\n\tunsigned int\ta, *b, c[2];\t/* abc */\n\tint d;\n};\n",
        "a b c d",
        "a d b c",
        "struct t {\n\tunsigned int\ta;\t/* abc */\n\tint d;\n\tunsigned int\t*b;\n\tunsigned int\tc[2];\n};\n",
    );
    golden(
        "struct t {\n\tint d;\n\tint a, b;\n};\n",
        "d a b",
        "d >a b",
        "struct t {\n\tint d;\n\n\tint a ____cacheline_aligned;\n\tint b;\n};\n",
    );
    golden(
        "struct t {\n\tchar*a,b;\n\tint d;\n};\n",
        "a b d",
        "a d b",
        "struct t {\n\tchar*a;\n\tint d;\n\tchar b;\n};\n",
    );
    let tied = moved(
        "struct t {\n\tint d;\n\tstruct { int x; } a, b;\n};\n",
        "d a b",
        "a d b",
    );
    assert_eq!(
        tied.unwrap_err(),
        "3: `a` and `b` are declared together here (with the definition of their type) and cannot be separated"
    );
}

#[test]
fn nested_anonymous_unions_move_whole() {
    golden(
        "struct t {\n\tint a;\n\tunion {\n\t\tstruct {\n\t\t\tint b, c;\n\t\t};\n\t\tlong d;\n\t} ____cacheline_aligned;\n\tint e;\n\tstruct {\n\t\tint x;\n\t} removed __packed;\n};\n",
        "a b+c+d e removed",
        "removed a e b+c+d",
        "struct t {\n\tstruct {\n\t\tint x;\n\t} removed __packed;\n\tint a;\n\tint e;\n\tunion {\n\t\tstruct {\n\t\t\tint b, c;\n\t\t};\n\t\tlong d;\n\t} ____cacheline_aligned;\n};\n",
    );
}

#[test]
fn bit_fields_stay_in_their_row() {
    golden(
        "struct t {\n\tint a;\n\tunsigned f:1, g:2;\n\t/* h */\n\tunsigned h:3;\n\tunsigned :0;\n\tint b;\n\tint c;\n\tint d;\n\tint e;\n\tint i;\n};\n",
        "a f:g:h b c d e i",
        "a b c d e i f:g:h",
        "struct t {\n\tint a;\n\tint b;\n\tint c;\n\tint d;\n\tint e;\n\tint i;\n\tunsigned f:1, g:2;\n\t/* h */\n\tunsigned h:3;\n\tunsigned :0;\n};\n",
    );
}

#[test]
fn macros_that_declare_members() {
    golden(
        "struct t {\n\tDECLARE_BITMAP(mask, 8);\n\tint a;\n\tRH_KABI_RESERVE(1)\n\tstruct_group(key,\n\t\tint k;\n\t\tint l;\n\t);\n\tint z;\n\tint y;\n};\n",
        "mask a k+l+key z y",
        "k+l+key a mask z y",
        "struct t {\n\tstruct_group(key,\n\t\tint k;\n\t\tint l;\n\t);\n\tint a;\n\tRH_KABI_RESERVE(1)\n\tDECLARE_BITMAP(mask, 8);\n\tint z;\n\tint y;\n};\n",
    );
}

#[test]
fn spacing_of_other_schools() {
    golden(
        "struct t { int a; /* a */ int b; };\n",
        "a b",
        "b a",
        "struct t {\n\tint b;\n int a; /* a */\n};\n",
    );
    golden(
        "typedef struct t\n{\n  int (*fn) (int);\n  char *p , q;\n} t_t;\n",
        "fn p q",
        "p q fn",
        "typedef struct t\n{\n  char *p , q;\n  int (*fn) (int);\n} t_t;\n",
    );
}

#[test]
fn groups_are_aligned_and_say_why() {
    golden(
        "struct t {\n\t/* lock: */\n\tspinlock_t lock;\n\tint a;\n#ifdef X\n\tint b;\n#endif\n\tint c;\n\tint d;\n};\n",
        "lock a b c d",
        "(a b) >lock c d",
        "struct t {\n\t/* group 0 */\n\tint a ____cacheline_aligned;\n#ifdef X\n\tint b;\n#endif\n\n\t/* lock: */\n\tspinlock_t lock ____cacheline_aligned;\n\tint c;\n\tint d;\n};\n",
    );
}

#[test]
fn nothing_to_do_is_nothing_done() {
    for text in [
        "struct t {\n\n\n\tint a; int b;\n#ifdef X\n#endif\n\tu64 c ____cacheline_aligned;\n\n};\n",
        "struct t { int a; int b; int c ____cacheline_aligned; };\n",
    ] {
        assert_eq!(moved(text, "a b c", "a b (c)").unwrap(), text);
        assert_eq!(moved(text, "a b c", "a b c").unwrap(), text);
    }
}

#[test]
fn a_comment_between_names_is_not_lost() {
    let text = "struct t {\n\tint a, /* of b */\n\t\tb;\n\tint c;\n};\n";
    let refused = moved(text, "a b c", "b c a").unwrap_err();
    assert_eq!(
        refused,
        "2: after the move the comment `/* of b */` does not occur as often as before: this definition cannot be moved safely"
    );
    moved(text, "a b c", "c a b").unwrap();
}

#[test]
fn refusals_name_the_line() {
    for (text, recorded, order, message) in [
        (
            "struct t {\n\tint a;\n};\n",
            "a b",
            "b a",
            "2: the recorded member `b` is not in this definition: the tree is of another version, or a macro hides it",
        ),
        (
            "struct t {\n\tint a;\n\tint n;\n\tint b;\n};\n",
            "a b",
            "b a",
            "3: `n` is not a recorded member: the tree is of another version",
        ),
        (
            "struct t {\n\tint b;\n\tint a;\n};\n",
            "a b",
            "b a",
            "3: `a` is after `b` here, but before it in the recording: the tree is of another version",
        ),
        (
            "struct t {\n#ifdef X\n\tint a;\n#endif\n#ifndef X\n\tlong a;\n#endif\n\tint b;\n};\n",
            "a b",
            "b a",
            "6: `a` is declared here and at line 3, and the recorded order does not show which one the kernel has",
        ),
        (
            "struct t {\n\tint a;\n\tint b;\n#ifdef X\n\tint a;\n#endif\n};\n",
            "a b",
            "b a",
            "5: `a` is declared here and at line 2, and the recorded order does not show which one the kernel has",
        ),
        (
            "struct t {\n\tint b;\n\tint c;\n#ifdef X\n\tint a;\n#endif\n#ifndef X\n\tlong a;\n#endif\n};\n",
            "a b c",
            "b a c",
            "8: `a` is declared here and at line 5, and the recorded order does not show which one the kernel has",
        ),
        (
            "struct t {\n#ifdef X\n\tint a;\n#endif\n\tint b;\n#ifndef X\n\tint a, c;\n#endif\n};\n",
            "a b c",
            "b a c",
            "7: `a` is declared here and at line 3, and the recorded order does not show which one the kernel has",
        ),
        (
            "struct t {\n\tint a\n#ifdef X\n\t__aligned(8)\n#endif\n\t;\n\tint b;\n};\n",
            "a b",
            "b a",
            "2: preprocessor lines split this declaration, so `a` cannot be moved",
        ),
        (
            "struct t {\n\tint a;\n#ifdef X\n\tint b;\n};\n",
            "a b",
            "b a",
            "3: this condition has no #endif within the definition",
        ),
        (
            "struct t {\n\tint a;\n\trandomized_struct_fields_start\n\tint b;\n};\n",
            "a b",
            "b a",
            "3: `b` would cross this line, which bounds the members that are laid out at random",
        ),
        (
            "struct t {\n\tint a;\n#ifdef X\n\tint b;\n#else\n\tlong b;\n#endif\n};\n",
            "a b",
            ">b a",
            "3: `b` is declared in a way that takes no alignment",
        ),
        (
            "struct t {\n#if A\n\tint o;\n#elif B\n\tint a;\n\tint b;\n#else\n\tint p;\n#endif\n\tint c;\n};\n",
            "a b c",
            "a c b",
            "10: `c` would have to go between alternatives of one #if/#elif chain, which cannot be split",
        ),
    ] {
        assert_eq!(moved(text, recorded, order).unwrap_err(), message, "{text}");
    }
}

#[test]
fn intents_cannot_end_their_comment() {
    let text = "struct t {\n\tint a;\n\tint b;\n};\n";
    let found = definition::find(text, &Sought::Tag("t".to_owned()));
    let wanted = wanted("a b", "(b) a");
    let long = "a sentence that is a good deal longer than what fits on one line of eighty columns: */ int x; /*";
    let new = rewrite(
        text,
        &found[0],
        &wanted,
        &Idiom::of(false, Dialect::C, "", "", 64),
        &[long.to_owned()],
    )
    .unwrap();
    assert_eq!(
        new,
        "struct t {\n\t/*\n\t * a sentence that is a good deal longer than what fits on one line of\n\t * eighty columns: * / int x; / *\n\t */\n\tint b __attribute__((aligned(64)));\n\n\tint a __attribute__((aligned(64)));\n};\n"
    );
}

/// A definition of members `m0`, `m1`, …, some under conditions, some not compiled in; and the
/// names of those that are.
#[derive(Clone, Debug)]
struct Made {
    text: String,
    names: Vec<String>,
}

fn made(pieces: &[(u8, u8)]) -> Made {
    let (mut text, mut names, mut open) = (String::from("struct t {\n"), Vec::new(), Vec::new());
    for (i, (kind, comment)) in pieces.iter().enumerate() {
        let name = format!("m{i}");
        match comment {
            0 => text.push_str(&format!("\t/* about {name} */\n")),
            1 => text.push('\n'),
            2 => text.push_str(&format!("\n\t/* apart {name} */\n\n")),
            _ => {}
        }
        let trail = if *comment == 3 {
            format!(" /* {name} */\n")
        } else {
            "\n".to_owned()
        };
        match kind {
            0 => {
                text.push_str(&format!("#ifdef C{}\n", i % 3));
                open.push(true);
            }
            1 => {
                if let Some(first) = open.last_mut().filter(|first| **first) {
                    *first = false;
                    text.push_str("#else\n");
                }
            }
            2 => {
                if open.pop().is_some() {
                    text.push_str("#endif /* end */\n");
                }
            }
            3 if !open.is_empty() => text.push_str(&format!("\tlong {name};{trail}")),
            4 => {
                text.push_str(&format!("\tint {name}, *{name}b;{trail}"));
                names.push(name.clone());
                names.push(format!("{name}b"));
            }
            5 => {
                text.push_str(&format!(
                    "\tunion {{\n\t\tint {name};\n\t\tlong {name}b;\n\t}};{trail}"
                ));
                names.push(format!("{name}+{name}b"));
            }
            _ => {
                text.push_str(&format!("\tstruct s {name};{trail}"));
                names.push(name);
            }
        }
    }
    for _ in open {
        text.push_str("#endif\n");
    }
    text.push_str("};\n");
    Made { text, names }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Any order can be reached, and members, comments and conditions are still there (`rewrite`
    /// proves that itself and refuses with "after the move"). Going back gives a definition of the
    /// old order; doing nothing changes nothing.
    #[test]
    fn any_order_can_be_reached(
        pieces in proptest::collection::vec((0..9_u8, 0..8_u8), 1..16),
        shuffle in proptest::collection::vec(any::<u16>(), 32),
        aligned in any::<Option<u8>>(),
    ) {
        let made = made(&pieces);
        prop_assume!(!made.names.is_empty());
        let mut order: Vec<(u16, String)> = made.names.iter().enumerate()
            .map(|(i, name)| (shuffle[i % 32], name.clone())).collect();
        order.sort();
        let names: Vec<String> = order.into_iter().map(|(_, name)| name).collect();
        let mut asked = names.clone();
        if let Some(i) = aligned {
            let at = usize::from(i) % asked.len();
            asked[at].insert(0, '>');
        }
        let recorded = made.names.join(" ");
        prop_assert_eq!(moved(&made.text, &recorded, &recorded).unwrap(), made.text.as_str());
        let new = match moved(&made.text, &recorded, &asked.join(" ")) {
            Ok(new) => new,
            Err(refusal) => return Err(TestCaseError::fail(format!("{refusal}\n{}", made.text))),
        };
        let found = definition::find(&new, &Sought::Tag("t".to_owned()));
        let now = names.join(" ");
        prop_assert!(check(&new, &found[0], &wanted(&now, &now)).is_ok(), "{}\n{}", made.text, new);
        let asks = ["____cacheline_aligned", "_Alignas(SMP_CACHE_BYTES)"].map(|ask| new.matches(ask).count());
        prop_assert_eq!(asks.iter().sum::<usize>(), usize::from(aligned.is_some()));
        let back = moved(&new, &now, &recorded).unwrap();
        let found = definition::find(&back, &Sought::Tag("t".to_owned()));
        prop_assert!(check(&back, &found[0], &wanted(&recorded, &recorded)).is_ok());
    }
}

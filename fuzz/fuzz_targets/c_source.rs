//! C definitions: what can be read can be printed back byte for byte, and members that are brought
//! into another order reach it, with every word and comment still there. Refusing is always right.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use linemate_source::definition::{Sought, find, in_macros};
use linemate_source::lex::{TokenKind, lex};
use linemate_source::{
    Align, Dialect, Group, Idiom, Recorded, Wanted, body, check_rewritten, rewrite,
};
use linemate_types::LineSize;

fuzz_target!(|data: &[u8]| {
    let Some((seed, text)) = data.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let tokens: String = lex(text).iter().map(|t| t.text).collect();
    assert_eq!(tokens, text);
    in_macros(text, "t");
    if let Ok(body) = body::read(text, 0) {
        assert_eq!(body.print(), text);
        reorder(&format!("struct t {{\n{text}\n}};\n"), *seed);
    }
});

/// Brings all names of `struct t` into an order that `seed` chooses.
fn reorder(text: &str, seed: u8) {
    let sought = Sought::Tag("t".to_owned());
    let Some(definition) = find(text, &sought).into_iter().next() else {
        return;
    };
    let Ok(body) = body::read(&text[definition.body.clone()], 0) else {
        return;
    };
    let mut members: Vec<Recorded> = Vec::new();
    for (_, member) in body.members() {
        for name in member.declaration.names() {
            if members.iter().all(|m| m.names[0] != name) {
                let unit = members.len();
                members.push(Recorded {
                    names: vec![name],
                    align: None,
                    group: None,
                    unit,
                    is_inherited: false,
                });
            }
        }
    }
    if members.is_empty() || members.len() > 64 {
        return;
    }
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|i| (i * 37) ^ usize::from(seed));
    members[order[0]].align = (seed & 1 == 1).then_some(Align::Line);
    members[order[0]].group = Some(0);
    let groups = vec![Group { name: None }];
    let wanted = Wanted {
        members,
        order,
        groups,
        line: LineSize::B64,
    };
    let idiom = Idiom::of(seed & 2 == 2, Dialect::C, text, text, 64);
    match rewrite(text, &definition, &wanted, &idiom, &["together".to_owned()]) {
        Ok(new) => {
            // An attribute with another alignment may go; everything else stays, and more may come.
            let after = counted(&new);
            for (token, count) in counted(text) {
                let fewer = after.get(token).copied().unwrap_or(0) < count;
                assert!(
                    !fewer || text.contains("align"),
                    "{token:?} is lost\n{text}\n{new}"
                );
            }
            let moved = find(&new, &sought)
                .into_iter()
                .next()
                .expect("the definition is still there");
            check_rewritten(&new, &moved, &wanted).expect("the members have the wanted order");
        }
        // What is no C can read differently in another order: that nothing is written then is what
        // counts.
        Err(error) => drop(error.to_string()),
    }
}

/// How often each word, number, sign and comment is there.
fn counted(text: &str) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    let kept = |kind| {
        !matches!(
            kind,
            TokenKind::Blank | TokenKind::Newline | TokenKind::Directive
        )
    };
    // Names that part need no comma any more.
    for token in lex(text).iter().filter(|t| kept(t.kind) && t.text != ",") {
        *counts.entry(token.text).or_default() += 1;
    }
    counts
}

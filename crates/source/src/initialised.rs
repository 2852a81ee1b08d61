//! The order in which a C++ class initialises its members is the order of their declarations: which
//! initialisers a new order would break.
//!
//! Constructors are found by their name, and uses by the names of members, so a parameter that is
//! called like a member counts as one: then the move is refused where it was possible.

use crate::declaration::DeclarationShape;
use crate::definition::{Definition, Item, line_of};
use crate::dialect::cpp::{closings, is_colon, is_pair};
use crate::lex::{Token, lex};
use crate::matching::Refusal;
use crate::rewrite::{Parts, RewriteError};
use crate::wanted::Wanted;

/// The text that initialises one member.
struct Initialiser {
    member: usize,
    /// The other members in it.
    uses: Vec<usize>,
    /// Whether it passes the object on, so that any member may be used.
    uses_this: bool,
    line: u32,
}

/// The order of the members before and after.
struct Orders<'w> {
    wanted: &'w Wanted,
    ranks: Vec<usize>,
}

impl<'w> Orders<'w> {
    fn new(wanted: &'w Wanted) -> Orders<'w> {
        let mut ranks = vec![0; wanted.members.len()];
        for (rank, member) in wanted.order.iter().enumerate() {
            ranks[*member] = rank;
        }
        Orders { wanted, ranks }
    }

    fn member(&self, name: &str) -> Option<usize> {
        let named = |m: &crate::wanted::Recorded| m.names.iter().any(|n| n == name);
        self.wanted.members.iter().position(named)
    }

    fn initialiser(&self, member: usize, tokens: &[Token<'_>], line: u32) -> Initialiser {
        let words = tokens.iter().filter(|token| token.is_word());
        let used = words.filter_map(|token| self.member(token.text));
        Initialiser {
            member,
            uses: used.filter(|other| *other != member).collect(),
            uses_this: tokens.iter().any(|token| token.is("this")),
            line,
        }
    }

    /// Refuses if an initialiser would use a member that is initialised after it now; returns notes
    /// on those that pass on the object with fewer members initialised.
    fn check(&self, initialisers: &[Initialiser]) -> Result<Vec<String>, RewriteError> {
        let mut notes = Vec::new();
        for one in initialisers {
            let name = |member: usize| self.wanted.members[member].first_name();
            let broken =
                |other: &usize| *other < one.member && self.ranks[*other] > self.ranks[one.member];
            if let Some(other) = one.uses.iter().find(|other| broken(other)) {
                let (member, from) = (name(one.member), name(*other));
                return Err(RewriteError {
                    line: one.line,
                    reason: Refusal::Initialised { member, from }.into(),
                });
            }
            let later = (0..one.member).find(broken).filter(|_| one.uses_this);
            notes.extend(later.map(|later| {
                let (line, member, later) = (one.line, name(one.member), name(later));
                format!("{line}: `{member}` is initialised with `this`, and before `{later}` now: check that nothing uses `{later}` by then")
            }));
        }
        Ok(notes)
    }

    /// Whether a constructor's list has the old order of members whose order changes.
    fn is_reordered(&self, list: &[Initialiser]) -> bool {
        let mut pairs = list.windows(2);
        pairs.any(|pair| self.ranks[pair[0].member] > self.ranks[pair[1].member])
    }
}

/// Whether members change places.
#[must_use]
pub fn is_reordered(wanted: &Wanted) -> bool {
    wanted.order.windows(2).any(|pair| pair[0] > pair[1])
}

/// Checks what in the definition of a class depends on the order of its members: initialisers, and
/// comparisons that the compiler makes. Returns what its user has to look at, each with its line.
///
/// # Errors
/// If a member would be initialised before another that its initialiser uses, or `<=>` would
/// compare in another order.
pub fn check_definition(
    file: &str,
    definition: &Definition,
    item: &Item,
    wanted: &Wanted,
) -> Result<Vec<String>, RewriteError> {
    let orders = Orders::new(wanted);
    let parts = Parts::new(file, definition)?;
    let mut defaults = Vec::new();
    for (_, member) in parts.body.members() {
        let DeclarationShape::Plain(declarators) = &member.declaration.shape else {
            continue;
        };
        for declarator in declarators {
            let known = declarator
                .name
                .as_deref()
                .and_then(|name| orders.member(name));
            let tokens = lex(&member.text[declarator.range.clone()]);
            let line = parts.line + member.line;
            defaults.extend(known.map(|known| orders.initialiser(known, &tokens, line)));
        }
    }
    let mut notes = orders.check(&defaults)?;
    let body = &file[definition.body.clone()];
    let first = line_of(file, definition.body.start) - 1;
    if let Some(at) = ordered_comparison(body) {
        return Err(RewriteError {
            line: first + line_of(body, at),
            reason: Refusal::Compared(item.name.clone()).into(),
        });
    }
    let (found, constructs) = constructors(body, first, item, false, &orders)?;
    notes.extend(found);
    if !constructs {
        notes.push(format!(
            "{}: {name} has no constructor of its own: check where members are taken by position (`{name}{{1, 2}}`, `auto [a, b]`) or designated in order (`{{.a = 1, .b = 2}}`)",
            definition.line,
            name = item.name
        ));
    }
    Ok(notes)
}

/// What the user of a Rust struct with another order of fields has to look at.
#[must_use]
pub fn order_of_rust(definition: &Definition, item: &Item) -> String {
    format!(
        "{}: {} is #[repr(C)]: check what else depends on the order of its fields: C code, files and messages that share it, derives such as Hash and Serialize, the order of drops",
        definition.line, item.name
    )
}

/// Where a class has `operator<=>(…) = default`.
fn ordered_comparison(body: &str) -> Option<usize> {
    let tokens = significant(body);
    let is_spaceship = |window: &[Token<'_>]| {
        let texts = window.iter().map(|token| token.text);
        texts.eq(["operator", "<", "=", ">"])
    };
    let mut found =
        (0..tokens.len()).filter(|at| tokens.get(*at..*at + 4).is_some_and(is_spaceship));
    let is_default = |at: &usize| {
        let rest = tokens[*at..].iter();
        let mut rest = rest.take_while(|token| !token.is(";") && !token.is("{"));
        rest.any(|token| token.is("default"))
    };
    found.find(is_default).map(|at| tokens[at].start)
}

fn significant(text: &str) -> Vec<Token<'_>> {
    let tokens = lex(text).into_iter();
    tokens.filter(Token::is_significant).collect()
}

/// Checks the constructors of a class that are outside its definition.
///
/// # Errors
/// As [`check_definition`].
pub fn check_file(file: &str, item: &Item, wanted: &Wanted) -> Result<Vec<String>, RewriteError> {
    Ok(constructors(file, 0, item, true, &Orders::new(wanted))?.0)
}

/// Checks the constructors in a text whose first line follows `first`; whether there are any that
/// are written out (a class whose are all defaulted can be initialised by position before C++20).
fn constructors(
    text: &str,
    first: u32,
    item: &Item,
    qualified: bool,
    orders: &Orders<'_>,
) -> Result<(Vec<String>, bool), RewriteError> {
    let tokens = significant(text);
    let closings = closings(&tokens);
    let (mut notes, mut any) = (Vec::new(), false);
    for at in 0..tokens.len() {
        let is_call = tokens[at].is(&item.name) && tokens.get(at + 1).is_some_and(|t| t.is("("));
        let is_member = at >= 2 && is_pair(&tokens, at - 2);
        let is_destructor = at > 0 && tokens[at - 1].is("~");
        // A constructor is `Q(…)` in the class and `Q::Q(…)` outside of it: in either place the
        // other form is a call.
        if !is_call || is_member != qualified || is_destructor {
            continue;
        }
        let line = first + line_of(text, tokens[at].start);
        let after = after_parameters(&tokens, &closings, at + 1);
        any |= !tokens.get(after).is_some_and(|token| token.is("="));
        let list = initialisers(&tokens, &closings, after, line, orders);
        notes.extend(orders.check(&list)?);
        if orders.is_reordered(&list) {
            notes.push(format!(
                "{line}: the constructor's initialisers are in another order than the members now (-Wreorder)"
            ));
        }
    }
    Ok((notes, any))
}

/// One past the parameters that open at `open`, and past `noexcept(…)` and the like.
fn after_parameters(tokens: &[Token<'_>], closings: &[Option<usize>], open: usize) -> usize {
    let mut next = closings[open].map_or(tokens.len(), |close| close + 1);
    while let Some(token) = tokens.get(next) {
        next = match token.text {
            "(" | "[" => closings[next].map_or(tokens.len(), |close| close + 1),
            "noexcept" | "throw" | "requires" | "try" => next + 1,
            _ => break,
        };
    }
    next
}

/// The initialisers that begin at `start`, if there are any.
fn initialisers(
    tokens: &[Token<'_>],
    closings: &[Option<usize>],
    start: usize,
    line: u32,
    orders: &Orders<'_>,
) -> Vec<Initialiser> {
    let mut found = Vec::new();
    if start >= tokens.len() || !is_colon(tokens, start) {
        return found;
    }
    let mut next = start + 1;
    while let Some(token) = tokens.get(next) {
        let opens = |at: usize| tokens.get(at).is_some_and(|t| t.is("(") || t.is("{"));
        if !token.is_word() || !opens(next + 1) {
            // Bases with template arguments, and `...` after them; another brace ends it.
            match token.text {
                "<" | ">" | ":" | "," | "." => next += 1,
                "(" | "{" if tokens[next - 1].is(">") => match closings[next] {
                    Some(close) => next = close + 1,
                    None => break,
                },
                _ if token.is_word() => next += 1,
                _ => break,
            }
            continue;
        }
        let Some(close) = closings[next + 1] else {
            break;
        };
        let inside = &tokens[next + 2..close];
        let known = orders.member(token.text);
        found.extend(known.map(|member| orders.initialiser(member, inside, line)));
        next = close + 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{Sought, find};
    use crate::dialect::Dialect;
    use crate::wanted::tests::wanted;

    /// What is said about the order `c a b` of a class.
    fn said(body: &str, outside: &str) -> Result<Vec<String>, String> {
        let text = format!("class Q {{\n{body}\n\tint a, b, c;\n}};\n");
        let item = Item::new(Dialect::Cpp, "n::Q", None);
        let wanted = wanted(&["a", "b", "c"], &[2, 0, 1]);
        let definition = find(&text, &Sought::Item(item.clone())).remove(0);
        let inside = check_definition(&text, &definition, &item, &wanted);
        let outside = check_file(outside, &item, &wanted);
        let mut notes = inside.map_err(|e| e.to_string())?;
        notes.extend(outside.map_err(|e| e.to_string())?);
        Ok(notes)
    }

    #[test]
    fn initialisers_that_use_what_comes_later_now() {
        let refused = "2: `c` is initialised from `a`, which the edit's order initialises after it";
        assert_eq!(
            said("Q(int x) : a(x), c(a) {}", ""),
            Err(refused.to_owned())
        );
        assert_eq!(
            said("Q(int x) noexcept : a{x}, B<T>(1), c{a + 1} {}", ""),
            Err(refused.to_owned())
        );
        for between in ["noexcept(false)", "noexcept(noexcept(f())) [[x]]", "try"] {
            let text = format!("Q(int x) {between} : a(x), c(a) {{}}");
            assert_eq!(said(&text, ""), Err(refused.to_owned()), "{between}");
        }
        let outside = "\nQ<T>::Q() : a(1), c(a)\n{ }";
        assert!(said("Q();", outside).unwrap_err().starts_with("2: `c`"));
        assert_eq!(
            said(
                "Q(int x) : b(x), c(1) { a = c; }",
                "int f() { return a ? Q(c) : Q(b, a); }"
            )
            .unwrap()
            .len(),
            1
        );
        assert_eq!(said("Q(int x) : c(x), a(c), b(c) {}", ""), Ok(vec![]));
        assert!(said("Q(int x) : a(x), c(2) {}", "").unwrap()[0].ends_with("(-Wreorder)"));
    }

    #[test]
    fn without_a_constructor_positions_matter() {
        assert!(said("~Q();", "").unwrap()[0].starts_with("1: Q has no constructor of its own"));
        assert!(said("Q() = default;", "").unwrap()[0].contains("by position"));
        assert_eq!(said("Q() = default; Q(int x);", ""), Ok(vec![]));
    }

    #[test]
    fn comparisons_and_the_object_itself() {
        let compared = "Q();\n\tauto operator<=>(const Q &) const = default;";
        assert!(
            said(compared, "")
                .unwrap_err()
                .starts_with("3: `Q` compares")
        );
        let written = "Q();\n\tint operator<=>(const Q &q) const { return a - q.a; }";
        assert_eq!(said(written, ""), Ok(vec![]));
        let notes = said("Q() : c([this] { run(); }) {}", "").unwrap();
        assert!(
            notes[0].starts_with("2: `c` is initialised with `this`, and before `a` now"),
            "{notes:?}"
        );
        assert_eq!(said("Q() : a(this) {}", ""), Ok(vec![]));
    }
}

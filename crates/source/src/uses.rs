//! Which functions use a member, by its name alone.

use std::collections::{BTreeMap, BTreeSet};

use crate::lex::{Token, lex};

/// By member, the functions with `->MEMBER` or `.MEMBER`.
pub type UsesByName = BTreeMap<String, BTreeSet<String>>;

/// Adds the functions of a C file that use one of the `names` as a member, of whatever type. Macros are not expanded.
pub(crate) fn add_uses(text: &str, names: &BTreeSet<&str>, uses: &mut UsesByName) {
    let tokens = lex(text);
    let mut scope = Scope::default();
    let mut before: [Option<Token<'_>>; 2] = [None, None];
    for token in tokens.into_iter().filter(Token::is_significant) {
        if let (Some(function), true) = (scope.function(), is_member(before)) {
            if names.contains(token.text) {
                let functions = uses.entry(token.text.to_owned()).or_default();
                functions.insert(function.to_owned());
            }
        }
        scope.read(token, before[1]);
        before = [before[1], Some(token)];
    }
}

/// Whether a member's name comes next.
fn is_member([first, second]: [Option<Token<'_>>; 2]) -> bool {
    let is = |token: Option<Token<'_>>, text| token.is_some_and(|token| token.is(text));
    is(second, ".") || is(first, "-") && is(second, ">")
}

/// Which function the text is in.
#[derive(Default)]
struct Scope<'t> {
    braces: usize,
    parentheses: usize,
    /// Outside of braces: the first word before a parenthesis in the declaration.
    declared: Option<&'t str>,
}

impl<'t> Scope<'t> {
    fn function(&self) -> Option<&'t str> {
        self.declared.filter(|_| self.braces > 0)
    }

    fn read(&mut self, token: Token<'t>, before: Option<Token<'t>>) {
        match token.text {
            "{" => self.braces += 1,
            "}" => {
                self.braces = self.braces.saturating_sub(1);
                if self.braces == 0 {
                    *self = Scope::default();
                }
            }
            _ if self.braces > 0 => {}
            ";" => *self = Scope::default(),
            "(" => {
                let name = before.filter(|name| name.is_word() && name.text != "__attribute__");
                let outside = name.filter(|_| self.parentheses == 0);
                self.declared = self.declared.or(outside.map(|name| name.text));
                self.parentheses += 1;
            }
            ")" => self.parentheses = self.parentheses.saturating_sub(1),
            // After a macro without a semicolon, `MODULE(x) static int f(…)`, the next declaration begins.
            _ if self.parentheses == 0 && token.is_word() => {
                let follows_word = before.is_some_and(|before| before.is_word());
                self.declared = self.declared.filter(|_| !follows_word);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_belongs_to_the_function_around_it() {
        let text = "
#define peek(v) ((v)->count)
struct s { int count; };
static const struct ops ops = { .count = 1 };
__attribute__((cold)) static int __first(struct s *s) __must_hold(s)
{
	if (s) { return s->count; } /* s->other */
	return \"s->other\" != 0;
}
int unused(int count) { return count; }
int declared(int);
EXPORT(declared)
void second(struct s s)
{
	s.other = s . count;
}
";
        let names = BTreeSet::from(["count", "other"]);
        let mut uses = UsesByName::new();
        add_uses(text, &names, &mut uses);
        let of = |name: &str| uses[name].iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(of("count"), ["__first", "second"]);
        assert_eq!(of("other"), ["second"]);
    }
}

//! Which functions use a member, by its name alone.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::lex::{Token, lex};

/// By member, the functions with `->MEMBER` or `.MEMBER`.
pub type UsesByName = BTreeMap<String, BTreeSet<String>>;

/// Adds the functions of a C file that use one of the `names` as a member, of whatever type. Macros
/// are not expanded.
pub(crate) fn add_uses(text: &str, names: &BTreeSet<&str>, uses: &mut UsesByName) {
    let tokens = lex(text);
    let mut scope = BraceScope::default();
    let mut before: [Option<Token<'_>>; 2] = [None, None];
    for token in tokens.into_iter().filter(Token::is_significant) {
        if let (Some(function), true) = (scope.function(), is_member(before)) {
            if names.contains(token.text) {
                let functions = uses.entry(token.text.to_owned()).or_default();
                functions.insert(function.to_owned());
            }
        }
        scope.read(token, before[1], TokenLine::of(text, &token));
        before = [before[1], Some(token)];
    }
}

/// Whether a member's name comes next.
fn is_member([first, second]: [Option<Token<'_>>; 2]) -> bool {
    let is = |token: Option<Token<'_>>, text| token.is_some_and(|token| token.is(text));
    is(second, ".") || is(first, "-") && is(second, ">")
}

/// Where a token is in its line.
#[derive(Clone, Copy)]
struct TokenLine {
    /// It is in column 0.
    is_first: bool,
    /// And nothing comes after it.
    is_only: bool,
}

impl TokenLine {
    fn of(text: &str, token: &Token<'_>) -> TokenLine {
        let is_first = token.start == 0 || text[..token.start].ends_with('\n');
        let rest = &text[token.end()..];
        TokenLine {
            is_first,
            is_only: is_first && (rest.starts_with('\n') || rest.starts_with("\r\n")),
        }
    }
}

/// What the name of a system call's function begins with, by the macro that defines it: the symbols
/// that the kernel has for x86-64 whether or not the compiler inlines the body into them.
fn system_call(name: &str) -> Option<&'static str> {
    match name {
        _ if name.starts_with("SYSCALL_DEFINE") => Some("__x64_sys_"),
        _ if name.starts_with("COMPAT_SYSCALL_DEFINE") => Some("__ia32_compat_sys_"),
        _ => None,
    }
}

/// Which function the text is in.
#[derive(Default)]
struct BraceScope<'t> {
    braces: usize,
    parentheses: usize,
    /// Outside of braces: the first word before a parenthesis in the declaration.
    declared: Option<Cow<'t, str>>,
    /// The next word is a system call's name, after this.
    prefix: Option<&'static str>,
    /// After an `=`: the declaration is of a variable.
    is_value: bool,
    /// The outer brace is a line of its own, so the one that closes it is in column 0.
    is_block: bool,
}

impl<'t> BraceScope<'t> {
    fn function(&self) -> Option<&str> {
        self.declared.as_deref().filter(|_| self.braces > 0)
    }

    fn read(&mut self, token: Token<'t>, before: Option<Token<'t>>, line: TokenLine) {
        match token.text {
            "{" => {
                self.is_block |= self.braces == 0 && line.is_only;
                self.braces += 1;
            }
            "}" => self.close(line),
            _ if self.braces > 0 => {}
            ";" => *self = BraceScope::default(),
            "=" if self.parentheses == 0 => {
                self.is_value = true;
                self.declared = None;
            }
            "(" => {
                if self.parentheses == 0 && !self.is_value && self.declared.is_none() {
                    self.declare(before);
                }
                self.parentheses += 1;
            }
            ")" => self.parentheses = self.parentheses.saturating_sub(1),
            _ if token.is_word() => self.word(token, before),
            _ => {}
        }
    }

    /// All branches of an `#if` are read, so braces need not match: one in column 0 ends a
    /// function, and no other ends one that begins there.
    fn close(&mut self, line: TokenLine) {
        let inside = self.braces.saturating_sub(1);
        self.braces = inside.max(usize::from(self.is_block));
        if line.is_first || self.braces == 0 {
            *self = BraceScope::default();
        }
    }

    /// A parenthesis follows `name`.
    fn declare(&mut self, name: Option<Token<'t>>) {
        let name = name.filter(|name| name.is_word() && name.text != "__attribute__");
        self.prefix = name.and_then(|name| system_call(name.text));
        self.declared = name.map(|name| Cow::Borrowed(name.text));
    }

    fn word(&mut self, token: Token<'t>, before: Option<Token<'t>>) {
        if let Some(prefix) = self.prefix.take() {
            self.declared = Some(Cow::Owned(format!("{prefix}{}", token.text)));
        } else if self.parentheses == 0 && before.is_some_and(|before| before.is_word()) {
            // After a macro without a semicolon, `MODULE(x) static int f(…)`, the next declaration
            // begins.
            self.declared = None;
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
        assert_eq!(users(text, "count"), ["__first", "second"]);
        assert_eq!(users(text, "other"), ["second"]);
    }

    #[test]
    fn an_initializer_is_no_function() {
        let text = "
struct foo x __aligned(64) = { .count = 1 };
static DEFINE_PER_CPU(struct foo, y) = { .count = 1 };
static int (*table[])(struct foo *) = { f, .count = g };
struct foo z = MAKE(1) { .count = 1 };
int after(struct foo *s) { return s->count; }
";
        assert_eq!(users(text, "count"), ["after"]);
    }

    #[test]
    fn a_system_call_has_the_name_of_its_symbol() {
        let text = "
SYSCALL_DEFINE3(read, unsigned int, fd, char __user *, buf, size_t, count)
{
	return f->count;
}
COMPAT_SYSCALL_DEFINE2(stat, int, a, int, b) { return f->count; }
SYSCALL_DEFINE0(getpid)
{
	return f->count;
}
";
        let expected = [
            "__ia32_compat_sys_stat",
            "__x64_sys_getpid",
            "__x64_sys_read",
        ];
        assert_eq!(users(text, "count"), expected);
    }

    #[test]
    fn branches_of_the_preprocessor_do_not_shift_functions() {
        let text = "
int first(struct s *s)
{
#ifdef A
	if (s->a) {
#else
	if (s->b) {
#endif
		s->c = 1;
	}
}
int second(struct s *s)
{
	if (s->a) {
#ifdef A
		s->b = 1;
	}
#else
	}
#endif
	for (;;) {
		s->count = 1;
	}
}
int third(struct s *s)
{ return s->other; }
int fourth(struct s *s) { return s->count; }
";
        assert_eq!(users(text, "count"), ["fourth", "second"]);
        assert_eq!(users(text, "other"), ["third"]);
    }

    /// Functions that use a member.
    fn users(text: &str, name: &str) -> Vec<String> {
        let mut uses = UsesByName::new();
        add_uses(text, &BTreeSet::from([name]), &mut uses);
        uses.remove(name).into_iter().flatten().collect()
    }
}

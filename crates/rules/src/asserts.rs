//! Rules as assertions of a language, for a project that checks its own types when it compiles
//! them: [`assertions`].
//!
//! The compiler knows offsets and sizes of named members and nothing else, so some rules cannot
//! be assertions: they stay with [`crate::check()`], and the text names them.

use std::fmt::Write as _;

use linemate_types::LineSize;

use crate::{Limit, Rule, RuleMember, RuleSubject, Rules, Statement, TypeRules};

/// A language with assertions at compile time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssertionLanguage {
    /// C11 or newer.
    C,
    /// C++11 or newer.
    Cpp,
    /// Rust 1.82 or newer: before that, `offset_of!` takes no member of a member.
    Rust,
}

/// Rules as source text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assertions {
    /// To include after the types' definitions; in Rust, in the module that defines them.
    pub text: String,
    /// Rules that the text asserts in full.
    pub asserted: usize,
    /// The others: a comment in the text names each.
    pub left_out: usize,
}

/// The rules as static assertions, for lines of `line`. `source` is the rules file's name, as
/// messages give it.
///
/// ```
/// use linemate_rules::{AssertionLanguage, assertions, parse};
/// use linemate_types::LineSize;
///
/// let rules = parse("type conn\napart refs from mask").unwrap();
/// let c = assertions(&rules, AssertionLanguage::C, LineSize::B64, "conn.rules");
/// assert_eq!((c.asserted, c.left_out), (1, 0));
/// assert!(c.text.contains("\"conn.rules:2: conn, apart refs from mask\""));
/// ```
pub fn assertions(
    rules: &Rules,
    language: AssertionLanguage,
    line: LineSize,
    source: &str,
) -> Assertions {
    // A path may have a newline in it; rules have none.
    let source = &comment(source);
    let mut found = Assertions {
        text: prologue(language, line, source),
        asserted: 0,
        left_out: 0,
    };
    for of_type in &rules.types {
        of_one_type(&mut found, of_type, language, source);
    }
    if language == AssertionLanguage::Rust {
        found.text.push_str("};\n");
    }
    found
}

fn of_one_type(
    found: &mut Assertions,
    rules: &TypeRules,
    language: AssertionLanguage,
    source: &str,
) {
    let subject = match &rules.subject {
        RuleSubject::Named(name) if !rules.optional && is_identifier(name) => Some(name.as_str()),
        _ => None,
    };
    if let (Some(name), true) = (subject, language != AssertionLanguage::Rust) {
        found.text.push_str(&type_macro(name, language));
    }
    // Groups by name: other rules mean their members.
    let groups: Vec<(&str, &[RuleMember])> = rules.rules.iter().filter_map(group).collect();
    for rule in &rules.rules {
        let conditions = subject.and_then(|name| {
            let terms = Terms {
                subject: name,
                language,
                groups: &groups,
            };
            terms.conditions(&rule.statement)
        });
        let title = format!(
            "{source}:{}: {}, {}",
            rule.at.line, rules.subject, rule.statement
        );
        match conditions {
            Some(conditions) => {
                found.asserted += 1;
                for condition in conditions {
                    found
                        .text
                        .push_str(&assertion(&condition, &message(&title, rule), language));
                }
            }
            None => {
                found.left_out += 1;
                let _ = writeln!(
                    found.text,
                    "// cannot be an assertion, `linemate check` checks it: {}",
                    comment(&title)
                );
            }
        }
    }
}

fn group(rule: &Rule) -> Option<(&str, &[RuleMember])> {
    match &rule.statement {
        Statement::Group { name, members, .. } => Some((name, members)),
        _ => None,
    }
}

/// What the assertions of one type are made of.
struct Terms<'a> {
    subject: &'a str,
    language: AssertionLanguage,
    groups: &'a [(&'a str, &'a [RuleMember])],
}

impl Terms<'_> {
    /// What must be true for the rule to hold; `None` if the compiler cannot know.
    fn conditions(&self, statement: &Statement) -> Option<Vec<String>> {
        match statement {
            Statement::Apart { what, from } => self.apart(what, from),
            Statement::Start(what) => {
                let mut all = self.members(what)?.into_iter();
                // A group starts where its first member does, and only the layout says which that
                // is.
                let (only, None) = (all.next()?, all.next()) else {
                    return None;
                };
                Some(vec![format!(
                    "{} % {} == 0",
                    self.call("OFFSET", &only),
                    self.line()
                )])
            }
            Statement::Group {
                lines: Some(1),
                members,
                ..
            } => self.on_one_line(members),
            Statement::Size(Limit::Bytes(bytes)) => {
                Some(vec![format!("{} <= {bytes}", self.size())])
            }
            Statement::Size(Limit::Lines(lines)) => {
                // The compiler multiplies.
                lines.checked_mul(LineSize::B128.bytes())?;
                Some(vec![format!(
                    "{} <= {lines} * {}",
                    self.size(),
                    self.line()
                )])
            }
            // How few lines the bytes of a group need depends on which members overlap; who else
            // is on a line, and holes, on members without a name here.
            Statement::Group { .. } | Statement::Isolate(_) | Statement::Hole(_) => None,
        }
    }

    fn apart(&self, what: &RuleMember, from: &[RuleMember]) -> Option<Vec<String>> {
        let mut found = Vec::new();
        for other in from {
            for a in self.members(what)? {
                for b in self.members(other)? {
                    found.push(format!(
                        "{} < {} || {} < {}",
                        self.call("LAST", &a),
                        self.call("FIRST", &b),
                        self.call("LAST", &b),
                        self.call("FIRST", &a)
                    ));
                }
            }
        }
        Some(found)
    }

    fn on_one_line(&self, members: &[RuleMember]) -> Option<Vec<String>> {
        let mut all = Vec::new();
        for member in members {
            all.extend(self.members(member)?);
        }
        let (first, rest) = all.split_first()?;
        let alone = format!(
            "{} == {}",
            self.call("FIRST", first),
            self.call("LAST", first)
        );
        let with_first = rest.iter().map(|member| {
            let lines = ["FIRST", "LAST"].map(|name| self.call(name, member));
            let line = self.call("FIRST", first);
            format!("{} == {line} && {} == {line}", lines[0], lines[1])
        });
        Some(std::iter::once(alone).chain(with_first).collect())
    }

    /// The members that a name means: of a group, all. `None` if a member may be missing, or if
    /// the language has no expression for it.
    fn members(&self, member: &RuleMember) -> Option<Vec<String>> {
        let group = self.groups.iter().find(|(name, _)| *name == member.path);
        let all = match group {
            Some((_, members)) => members,
            None => std::slice::from_ref(member),
        };
        let named = |member: &RuleMember| !member.optional && self.is_path(&member.path);
        all.iter()
            .all(named)
            .then(|| all.iter().map(|m| m.path.clone()).collect())
    }

    /// Members of members in both; Rust's `offset_of!` takes no element of an array.
    fn is_path(&self, path: &str) -> bool {
        path.split('.').all(|part| match part.split_once('[') {
            None => is_identifier(part) && self.is_name(part),
            Some((name, index)) => {
                self.language != AssertionLanguage::Rust
                    && is_identifier(name)
                    && index
                        .strip_suffix(']')
                        .is_some_and(|i| !i.is_empty() && i.bytes().all(|b| b.is_ascii_digit()))
            }
        })
    }

    /// Debug information has a raw identifier's name without `r#`, and `__0` for the first member
    /// of a tuple.
    fn is_name(&self, part: &str) -> bool {
        let tuple = |part: &str| {
            let number = part.strip_prefix("__");
            number.is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
        };
        self.language != AssertionLanguage::Rust || !(KEYWORDS.contains(&part) || tuple(part))
    }

    fn call(&self, name: &str, member: &str) -> String {
        match self.language {
            AssertionLanguage::C | AssertionLanguage::Cpp => {
                format!("LINEMATE_{name}(LINEMATE_TYPE_{}, {member})", self.subject)
            }
            AssertionLanguage::Rust => {
                format!("{}!({}, {member})", name.to_lowercase(), self.subject)
            }
        }
    }

    fn line(&self) -> &'static str {
        match self.language {
            AssertionLanguage::C | AssertionLanguage::Cpp => "LINEMATE_LINE",
            AssertionLanguage::Rust => "LINE",
        }
    }

    fn size(&self) -> String {
        match self.language {
            AssertionLanguage::C | AssertionLanguage::Cpp => {
                format!("sizeof(LINEMATE_TYPE_{})", self.subject)
            }
            AssertionLanguage::Rust => format!("core::mem::size_of::<{}>()", self.subject),
        }
    }
}

/// Words that cannot be a member's name in Rust (the reference's strict and reserved keywords).
const KEYWORDS: [&str; 53] = [
    "Self", "abstract", "as", "async", "await", "become", "box", "break", "const", "continue",
    "crate", "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if",
    "impl", "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub",
    "ref", "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield", "_",
];

fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    let starts = bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    starts && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn prologue(language: AssertionLanguage, line: LineSize, source: &str) -> String {
    let line = line.bytes();
    match language {
        // Only LINEMATE_LINE is defined anew: a unit can include several such files, each for lines
        // of its own size, and the other macros expand it where they are used.
        AssertionLanguage::C | AssertionLanguage::Cpp => format!(
            "// {source} as static assertions, by `linemate check --emit`. Include it after the types.\n\
             #include <assert.h>\n\
             #include <stddef.h>\n\
             #undef LINEMATE_LINE\n\
             #define LINEMATE_LINE {line}\n\
             #ifndef LINEMATE_OFFSET\n\
             #define LINEMATE_OFFSET(type, member) offsetof(type, member)\n\
             #define LINEMATE_FIRST(type, member) (offsetof(type, member) / LINEMATE_LINE)\n\
             #define LINEMATE_LAST(type, member) \\\n\
             \t((offsetof(type, member) + sizeof(((type *)0)->member) - \\\n\
             \t  !!sizeof(((type *)0)->member)) / LINEMATE_LINE)\n\
             #endif\n"
        ),
        // A block, so that two such files in one module do not define LINE twice. Rust has the size
        // of a type, not of a field: `size` infers that from a closure that is never called.
        AssertionLanguage::Rust => format!(
            "// {source} as constant assertions, by `linemate check --emit`. For `include!` in the module of the types.\n\
             const _: () = {{\n\
             #[allow(dead_code)]\n\
             const LINE: usize = {line};\n\
             #[allow(dead_code)]\n\
             const fn size<T, F>(_: fn(&T) -> &F) -> usize {{\n\
             \x20   core::mem::size_of::<F>()\n\
             }}\n\
             #[allow(unused_macros)]\n\
             macro_rules! offset {{ ($type:ty, $($member:tt)+) => {{ core::mem::offset_of!($type, $($member)+) }} }}\n\
             #[allow(unused_macros)]\n\
             macro_rules! first {{ ($type:ty, $($member:tt)+) => {{ core::mem::offset_of!($type, $($member)+) / LINE }} }}\n\
             #[allow(unused_macros)]\n\
             macro_rules! last {{ ($type:ty, $($member:tt)+) => {{\n\
             \x20   (core::mem::offset_of!($type, $($member)+) + size(|t: &$type| &t.$($member)+).saturating_sub(1)) / LINE\n\
             }} }}\n"
        ),
    }
}

/// The type by a name that the project can define before: a typedef has no tag.
fn type_macro(name: &str, language: AssertionLanguage) -> String {
    let tag = if language == AssertionLanguage::C {
        "struct "
    } else {
        ""
    };
    format!("#ifndef LINEMATE_TYPE_{name}\n#define LINEMATE_TYPE_{name} {tag}{name}\n#endif\n")
}

fn message(title: &str, rule: &Rule) -> String {
    match &rule.reason {
        Some(reason) => format!("{title}: {}", reason.text()),
        None => title.to_owned(),
    }
}

fn assertion(condition: &str, message: &str, language: AssertionLanguage) -> String {
    // The same escapes in the three languages; a rule's text has no control characters.
    let message = message.replace('\\', "\\\\").replace('"', "\\\"");
    match language {
        AssertionLanguage::C | AssertionLanguage::Cpp => {
            format!("static_assert({condition},\n\t\"{message}\");\n")
        }
        // A panic's message is a format string.
        AssertionLanguage::Rust => {
            let message = message.replace('{', "{{").replace('}', "}}");
            format!("assert!({condition},\n    \"{message}\");\n")
        }
    }
}

/// Text that cannot leave its line: a backslash at the end would join the next one.
fn comment(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() || c == '\\' { '?' } else { c })
        .collect()
}

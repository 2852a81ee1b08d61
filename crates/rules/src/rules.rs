//! The elements of rules, and their canonical spelling ([`std::fmt::Display`]); [`crate::parse()`]
//! reads it back.
//!
//! Rules know no type: [`crate::check()`] decides whether a member exists. Names are written bare,
//! or in quotes if needed: a name with a quote or a newline in it has no spelling (no name in C
//! has).
//!
//! ```
//! use linemate_rules::{RuleMember, Reason, Rules, Statement, RuleSubject, TypeRules};
//!
//! let clocks = Statement::Group {
//!     name: "clocks".into(),
//!     lines: Some(1),
//!     members: vec![RuleMember::new("clock_task"), RuleMember::optional("clock_pelt")],
//! };
//! let rq = TypeRules::new(RuleSubject::Named("rq".into())).because(clocks, Reason::new("written together"));
//! let text = Rules { types: vec![rq] }.to_string();
//! assert_eq!(text, "type rq\ngroup clocks on 1 line { clock_task clock_pelt? }\n\tbecause \"written together\"\n");
//! ```

use std::fmt;

use linemate_text::{Position, written};
use linemate_types::TypeQuery;

/// Which type rules are about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleSubject {
    /// The struct of that tag, or the target of the typedef of that name.
    Named(String),
    /// The one struct that has all these members, to name a struct without a tag (the scheduler's
    /// `nohz`).
    With(Vec<String>),
}

/// A member, or a group of the same type by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleMember {
    /// `clock`, `cfs.avg`, `pri_to_cpu[0].count`, or a group's name.
    pub path: String,
    /// Whether a kernel may lack it, because of its configuration or its version.
    pub optional: bool,
}

impl RuleMember {
    /// A member that every kernel has.
    pub fn new(path: &str) -> RuleMember {
        RuleMember {
            path: path.to_owned(),
            optional: false,
        }
    }

    /// A member that a kernel may lack.
    pub fn optional(path: &str) -> RuleMember {
        RuleMember {
            path: path.to_owned(),
            optional: true,
        }
    }
}

/// Why a rule exists: shown with what breaks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(String);

impl Reason {
    /// A reason with that text, on one line: characters that cannot be in quotes are replaced
    /// (newlines by spaces, `"` by `'`).
    pub fn new(text: &str) -> Reason {
        let plain = |c: char| match c {
            '"' => '\'',
            c if c.is_control() => ' ',
            c => c,
        };
        Reason(text.chars().map(plain).collect())
    }

    pub fn text(&self) -> &str {
        &self.0
    }
}

/// How large a type may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// That many bytes, whatever the line.
    Bytes(u64),
    /// That many lines of the machine.
    Lines(u64),
}

/// What a rule requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// `group NAME { F G… }`: the members are on as few lines as their bytes need, or on as many as
    /// are given.
    Group {
        /// What other rules call it.
        name: String,
        /// The most lines; `None` for as few as possible.
        lines: Option<u64>,
        /// In the order of the text.
        members: Vec<RuleMember>,
    },
    /// `apart A from B…`: no line holds bytes of A and bytes of any of the others.
    Apart {
        /// A member or group.
        what: RuleMember,
        from: Vec<RuleMember>,
    },
    /// `isolate A`: no other member of the type is on A's lines.
    Isolate(RuleMember),
    /// `start A`: A's first byte is the first byte of a line.
    Start(RuleMember),
    /// `size at most N bytes` or `… lines`
    Size(Limit),
    /// `hole at most N bytes`: that many unused bytes between two members, and no more.
    Hole(u64),
}

/// A statement with its reason and its place. Two are equal if they say the same, wherever they
/// are.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What the rule requires of the layout.
    pub statement: Statement,
    pub reason: Option<Reason>,
    /// Where it starts; the default for rules without a text.
    pub at: Position,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Rule) -> bool {
        self.statement == other.statement && self.reason == other.reason
    }
}

impl Eq for Rule {}

/// The rules about one type.
#[derive(Clone, Debug)]
pub struct TypeRules {
    pub subject: RuleSubject,
    /// Whether a kernel may lack it.
    pub optional: bool,
    /// In the order of the text.
    pub rules: Vec<Rule>,
    /// Where its header starts.
    pub at: Position,
}

impl TypeRules {
    /// No rules yet, about a type that every kernel has.
    pub fn new(subject: RuleSubject) -> TypeRules {
        TypeRules {
            subject,
            optional: false,
            rules: Vec::new(),
            at: Position::default(),
        }
    }

    /// The same rules, and this one after them.
    #[must_use]
    pub fn rule(self, statement: Statement) -> TypeRules {
        self.with(statement, None)
    }

    /// Adds another rule, with the reason for it.
    #[must_use]
    pub fn because(self, statement: Statement, reason: Reason) -> TypeRules {
        self.with(statement, Some(reason))
    }

    fn with(mut self, statement: Statement, reason: Option<Reason>) -> TypeRules {
        self.rules.push(Rule {
            statement,
            reason,
            at: Position::default(),
        });
        self
    }
}

impl PartialEq for TypeRules {
    fn eq(&self, other: &TypeRules) -> bool {
        (&self.subject, self.optional, &self.rules)
            == (&other.subject, other.optional, &other.rules)
    }
}

impl Eq for TypeRules {}

/// A whole file of rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// In the order of the text; each type once.
    pub types: Vec<TypeRules>,
}

impl Rules {
    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.types.iter().map(|t| t.rules.len()).sum()
    }

    /// Whether there are no requirements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Keywords that can occur where a name is expected; a member with such a name is written in
/// quotes.
const KEYWORDS: [&str; 6] = ["because", "from", "lines", "on", "struct", "with"];

/// A name in quotes if it would be read as something else, for example as an optional member.
fn name(text: &str) -> String {
    if text.ends_with('?') {
        format!("\"{text}\"")
    } else {
        written(text, &KEYWORDS)
    }
}

fn members(members: &[RuleMember]) -> String {
    let all: Vec<String> = members.iter().map(RuleMember::to_string).collect();
    all.join(" ")
}

impl fmt::Display for RuleMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.optional { "?" } else { "" };
        write!(f, "{}{mark}", name(&self.path))
    }
}

impl RuleSubject {
    /// What a kernel is searched for.
    pub fn query(&self) -> TypeQuery<'_> {
        match self {
            RuleSubject::Named(name) => TypeQuery::Named(name),
            RuleSubject::With(members) => TypeQuery::With(members),
        }
    }
}

impl fmt::Display for RuleSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleSubject::Named(text) => f.write_str(&name(text)),
            RuleSubject::With(names) => {
                let names: Vec<String> = names.iter().map(|text| name(text)).collect();
                write!(f, "with {}", names.join(" "))
            }
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = match self {
            Limit::Bytes(bytes) => (bytes, "byte"),
            Limit::Lines(lines) => (lines, "line"),
        };
        let plural = if *number == 1 { "" } else { "s" };
        write!(f, "{number} {unit}{plural}")
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Statement::Group {
                name: group,
                lines,
                members: all,
            } => {
                write!(f, "group {}", name(group))?;
                if let Some(lines) = lines {
                    write!(f, " on {}", Limit::Lines(*lines))?;
                }
                write!(f, " {{ {} }}", members(all))
            }
            Statement::Apart { what, from } => write!(f, "apart {what} from {}", members(from)),
            Statement::Isolate(what) => write!(f, "isolate {what}"),
            Statement::Start(what) => write!(f, "start {what}"),
            Statement::Size(limit) => write!(f, "size at most {limit}"),
            Statement::Hole(bytes) => write!(f, "hole at most {}", Limit::Bytes(*bytes)),
        }
    }
}

impl fmt::Display for TypeRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.optional { "?" } else { "" };
        writeln!(f, "type{mark} {}", self.subject)?;
        for rule in &self.rules {
            writeln!(f, "{}", rule.statement)?;
            if let Some(reason) = &rule.reason {
                writeln!(f, "\tbecause \"{}\"", reason.text())?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, rules) in self.types.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{rules}")?;
        }
        Ok(())
    }
}

//! Contradictory and repeated rules, reported before any kernel is read.

use std::collections::{BTreeMap, BTreeSet};

use linemate_text::Position;

use crate::rules::{RuleMember, RuleSubject, Rules, Statement, TypeRules};

/// A rule that conflicts with others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {what}")]
pub struct SanityError {
    /// Where the conflicting rule is.
    pub at: Position,
    pub what: Contradiction,
}

/// Why no layout can keep both rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// A header without rules.
    #[error("there is no rule about `{0}`")]
    NoRules(RuleSubject),
    /// Two headers of one type.
    #[error("the rules about `{subject}` started on line {line} already")]
    SameType { subject: RuleSubject, line: u32 },
    /// Two rules that say the same, or two budgets.
    #[error("`{rule}` is on line {line} already")]
    SameRule {
        /// The rule, or its kind.
        rule: String,
        /// The first of the two.
        line: u32,
    },
    /// A member that is twice in a list.
    #[error("`{0}` is in the list twice")]
    Twice(String),
    /// Members that one rule keeps together and another apart.
    #[error("`{member}` is in `{other}`, which it must be apart from")]
    Within { member: String, other: String },
    /// Members of one group that must be apart.
    #[error("`{a}` and `{b}` must be apart, but group `{group}` (line {line}) has both")]
    Grouped {
        a: String,
        b: String,
        group: String,
        /// Where the group is.
        line: u32,
    },
    /// A member that is in both of two groups.
    #[error("groups `{a}` and `{b}` must be apart, but `{member}` is in both")]
    InBoth {
        a: String,
        b: String,
        member: String,
    },
    /// A member that must be both alone and in company.
    #[error("`{member}` must have its lines to itself, but is in group `{group}` (line {line})")]
    NotAlone {
        member: String,
        group: String,
        /// Where the group is.
        line: u32,
    },
}

/// Searches for contradictory rules.
///
/// # Errors
/// The first of them in the order of the text.
pub(crate) fn check(rules: &Rules) -> Result<(), SanityError> {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for type_rules in &rules.types {
        let at = type_rules.at;
        let subject = type_rules.subject.clone();
        if let Some(line) = seen.insert(subject.to_string(), at.line) {
            let what = Contradiction::SameType { subject, line };
            return Err(SanityError { at, what });
        }
        if type_rules.rules.is_empty() {
            let what = Contradiction::NoRules(subject);
            return Err(SanityError { at, what });
        }
        check_type(type_rules)?;
    }
    Ok(())
}

/// The groups of a type: name → line, members.
type MembersOfGroups<'a> = BTreeMap<&'a str, (u32, BTreeSet<&'a str>)>;

fn check_type(rules: &TypeRules) -> Result<(), SanityError> {
    let mut groups = MembersOfGroups::new();
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for rule in &rules.rules {
        let fail = |what| Err(SanityError { at: rule.at, what });
        for key in keys(&rule.statement) {
            if let Some(line) = seen.insert(key.clone(), rule.at.line) {
                return fail(Contradiction::SameRule { rule: key, line });
            }
        }
        let list = match &rule.statement {
            Statement::Group { members, .. } => members.as_slice(),
            Statement::Apart { from, .. } => from.as_slice(),
            _ => &[],
        };
        let mut names = BTreeSet::new();
        for member in list {
            if !names.insert(member.path.as_str()) {
                return fail(Contradiction::Twice(member.path.clone()));
            }
        }
        if let Statement::Group { name, .. } = &rule.statement {
            groups.insert(name, (rule.at.line, names));
        }
    }
    for rule in &rules.rules {
        let conflict = match &rule.statement {
            Statement::Apart { what, from } => from
                .iter()
                .find_map(|other| apart(&groups, &what.path, &other.path)),
            Statement::Isolate(what) => alone(&groups, what),
            _ => None,
        };
        if let Some(what) = conflict {
            return Err(SanityError { at: rule.at, what });
        }
    }
    Ok(())
}

/// A statement's meaning, in words that are equal for every statement with the same meaning.
fn keys(statement: &Statement) -> Vec<String> {
    match statement {
        Statement::Group { name, .. } => vec![format!("group {name}")],
        Statement::Apart { what, from } => {
            let pair = |other: &RuleMember| {
                let (a, b) = (&what.path, &other.path);
                format!("apart {} from {}", a.min(b), a.max(b))
            };
            let pairs: BTreeSet<String> = from.iter().map(pair).collect();
            pairs.into_iter().collect()
        }
        Statement::Isolate(what) => vec![format!("isolate {}", what.path)],
        Statement::Start(what) => vec![format!("start {}", what.path)],
        Statement::Size(crate::Limit::Bytes(_)) => vec!["size in bytes".to_owned()],
        Statement::Size(crate::Limit::Lines(_)) => vec!["size in lines".to_owned()],
        Statement::Hole(_) => vec!["hole".to_owned()],
    }
}

fn apart(groups: &MembersOfGroups<'_>, a: &str, b: &str) -> Option<Contradiction> {
    let within = |member: &str, other: &str| Contradiction::Within {
        member: member.to_owned(),
        other: other.to_owned(),
    };
    if a == b {
        return Some(within(a, b));
    }
    match (groups.get(a), groups.get(b)) {
        (Some((_, first)), Some((_, second))) => {
            first
                .intersection(second)
                .next()
                .map(|member| Contradiction::InBoth {
                    a: a.to_owned(),
                    b: b.to_owned(),
                    member: (*member).to_owned(),
                })
        }
        (Some((_, members)), None) => members.contains(b).then(|| within(b, a)),
        (None, Some((_, members))) => members.contains(a).then(|| within(a, b)),
        (None, None) => {
            let both = groups
                .iter()
                .find(|(_, (_, members))| members.contains(a) && members.contains(b));
            both.map(|(group, (line, _))| Contradiction::Grouped {
                a: a.to_owned(),
                b: b.to_owned(),
                group: (*group).to_owned(),
                line: *line,
            })
        }
    }
}

fn alone(groups: &MembersOfGroups<'_>, what: &RuleMember) -> Option<Contradiction> {
    if groups.contains_key(what.path.as_str()) {
        return None;
    }
    let company = groups
        .iter()
        .find(|(_, (_, members))| members.len() > 1 && members.contains(what.path.as_str()));
    company.map(|(group, (line, _))| Contradiction::NotAlone {
        member: what.path.clone(),
        group: (*group).to_owned(),
        line: *line,
    })
}

//! An advised layout as rules for `linemate check` (docs/guide/check.md): what shares lines, what
//! it is kept from, and why.

use linemate_advise::Tried;
use linemate_answers::{GroupReasons, MemberUse};
use linemate_rules::{Reason, RuleMember, RuleSubject, Rules, Statement, TypeRules};

/// The rules that hold for `best`, a layout of a type whose members are called `names`.
pub(super) fn of(type_name: &str, names: &[&str], best: &Tried) -> Rules {
    let mut rules = TypeRules::new(RuleSubject::Named(type_name.to_owned()));
    for group in &best.groups {
        rules = of_group(rules, group, names);
    }
    Rules { types: vec![rules] }
}

fn of_group(rules: TypeRules, group: &GroupReasons, names: &[&str]) -> TypeRules {
    let members: Vec<RuleMember> = group
        .members
        .iter()
        .map(|m| RuleMember::new(&m.name))
        .collect();
    let (rules, what) = match members.as_slice() {
        [] => return rules,
        [only] => (rules, only.clone()),
        _ => {
            let name = group_name(&group.name, names);
            let together = Statement::Group {
                name: name.clone(),
                lines: None,
                members,
            };
            (rules.because(together, used(group)), RuleMember::new(&name))
        }
    };
    if group.kept_from.is_empty() {
        return rules;
    }
    let from = group
        .kept_from
        .iter()
        .map(|kept| RuleMember::new(&kept.name));
    let apart = Statement::Apart {
        what,
        from: from.collect(),
    };
    rules.because(apart, costs(group))
}

/// A name for a group that is not a member's.
fn group_name(name: &str, names: &[&str]) -> String {
    let mut name = name.to_owned();
    while names.contains(&name.as_str()) {
        name.push_str("_group");
    }
    name
}

fn used(group: &GroupReasons) -> Reason {
    let sum = |of: fn(&MemberUse) -> u64| group.members.iter().map(of).sum::<u64>();
    let mut text = format!(
        "{} loads, {} writes",
        sum(|m| m.loads),
        sum(|m| m.stores + m.rmws)
    );
    for (what, functions) in [
        ("read in", &group.read_in),
        ("written in", &group.written_in),
    ] {
        if !functions.is_empty() {
            text.push_str(&format!("; {what} {}", functions.join(", ")));
        }
    }
    Reason::new(&text)
}

fn costs(group: &GroupReasons) -> Reason {
    let each = group
        .kept_from
        .iter()
        .map(|kept| format!("{} {:.1} %", kept.name, 100.0 * kept.share));
    let each: Vec<String> = each.collect();
    Reason::new(&format!(
        "cost of one shared line, as a share of the type's cost: {}",
        each.join(", ")
    ))
}

//! Compares rules with the types of one kernel.

use std::collections::{BTreeMap, BTreeSet};

use linemate_text::Position;
use linemate_types::{
    CompositeKind, Layout, LineSize, MAX_LEAVES, NamedMember, NotFound, SourceLine, TypeId,
    TypeModel, named_members,
};

use crate::finding::{Fault, Finding, Lines, RuleKind};
use crate::member::{self, PathError, Span};
use crate::ranges::{common, merged, touches};
use crate::rules::{Limit, Rule, RuleMember, RuleSubject, Rules, Statement, TypeRules};

/// Why rules cannot be compared with a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {reason}")]
pub struct CheckError {
    /// The rule, or the type's header.
    pub at: Position,
    pub reason: CheckReason,
}

/// Why a rule does not apply to a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckReason {
    /// The kernel has no such type.
    #[error("there is no type `{subject}`{}; if it may be missing, write `type? {subject}`", linemate_text::suggestion(.nearest))]
    NoType {
        subject: RuleSubject,
        /// The most similar names, best first.
        nearest: Vec<String>,
    },
    /// Something that has no members.
    #[error("`{0}` is not a struct")]
    NoStruct(RuleSubject),
    #[error(
        "`{0}` is a union: its members share bytes anyway: write rules about a struct that contains it"
    )]
    Union(RuleSubject),
    /// Several different structs have the members.
    #[error("{count} different structs match `{subject}`: name more members")]
    Ambiguous { subject: RuleSubject, count: usize },
    /// No such member.
    #[error("{error}; if it may be missing, write `{path}?`")]
    Missing {
        path: String,
        /// What was looked up and what there is.
        error: PathError,
    },
    /// A path that does not resolve.
    #[error(transparent)]
    Path(PathError),
    /// A group with the name of a member.
    #[error("group `{0}` has the name of a member: give the group another name")]
    NameTaken(String),
    /// A group that does not fit on its lines.
    #[error("group `{group}` has {bytes} bytes, more than {lines} of {line} bytes can hold ({room})", lines = Limit::Lines(*.lines), room = .lines.saturating_mul(*.line))]
    CannotFit {
        group: String,
        bytes: u64,
        /// The lines that it must be on.
        lines: u64,
        /// Bytes of a line.
        line: u64,
    },
}

/// A rule without anything to check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The type, as the rules call it.
    pub subject: String,
    /// The rule: `group clocks`.
    pub rule: String,
    pub at: Position,
}

/// What a kernel breaks, and what could not be checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// In the order of the rules.
    pub findings: Vec<Finding>,
    /// Rules whose members (or type) are all missing in this kernel, but optional.
    pub skipped: Vec<Skipped>,
    /// Rules that were compared.
    pub compared: usize,
}

/// Compares `rules` with the types of a kernel with lines of that size.
///
/// # Errors
/// The first rule that does not apply to this kernel: see [`CheckReason`].
pub fn check(rules: &Rules, model: &TypeModel, line: LineSize) -> Result<Checked, CheckError> {
    let mut checked = Checked::default();
    for type_rules in &rules.types {
        let id = resolve(model, type_rules)?;
        let view = View {
            model,
            id: id.unwrap_or(TypeId::VOID),
            line,
            subject: type_rules.subject.to_string(),
        };
        if id.is_none() {
            for rule in &type_rules.rules {
                for name in view.names(rule) {
                    checked.skipped.push(view.skipped(rule, name));
                }
            }
            continue;
        }
        view.check(type_rules, &mut checked)?;
    }
    Ok(checked)
}

/// The struct that rules are about; `None` if it is optional and missing.
fn resolve(model: &TypeModel, rules: &TypeRules) -> Result<Option<TypeId>, CheckError> {
    let subject = || rules.subject.clone();
    let fail = |reason| {
        let at = rules.at;
        Err(CheckError { at, reason })
    };
    let id = match model.find(rules.subject.query()) {
        Ok(found) => found.id,
        Err(NotFound::Absent(_)) if rules.optional => return Ok(None),
        Err(NotFound::Absent(nearest)) => {
            let subject = subject();
            return fail(CheckReason::NoType { subject, nearest });
        }
        Err(NotFound::Ambiguous(count)) => {
            let subject = subject();
            return fail(CheckReason::Ambiguous { subject, count });
        }
    };
    match model.composite(id).map(|composite| composite.kind) {
        Some(CompositeKind::Struct) => Ok(Some(model.strip(id))),
        Some(CompositeKind::Union) => fail(CheckReason::Union(subject())),
        None => fail(CheckReason::NoStruct(subject())),
    }
}

/// Something that a rule names, with those of its members that this kernel has.
struct Thing {
    members: Vec<(String, Span)>,
}

impl Thing {
    fn spans(&self) -> impl Iterator<Item = Span> {
        self.members.iter().map(|(_, span)| *span)
    }
}

/// The groups of a type, by name.
type GroupThings = BTreeMap<String, Thing>;

/// One type of one kernel.
struct View<'a> {
    model: &'a TypeModel,
    id: TypeId,
    line: LineSize,
    subject: String,
}

impl View<'_> {
    fn check(&self, rules: &TypeRules, checked: &mut Checked) -> Result<(), CheckError> {
        let mut groups = GroupThings::new();
        for rule in &rules.rules {
            if let Statement::Group { name, members, .. } = &rule.statement {
                let group = self.group(name, members).map_err(|r| failed(rule, r))?;
                groups.insert(name.clone(), group);
            }
        }
        for rule in &rules.rules {
            let faults = self.rule(rule, &groups).map_err(|r| failed(rule, r))?;
            for (name, fault) in self.names(rule).into_iter().zip(faults) {
                match fault {
                    RuleOutcome::Kept => checked.compared += 1,
                    RuleOutcome::Nothing => checked.skipped.push(self.skipped(rule, name)),
                    RuleOutcome::Broken(fault) => {
                        checked.compared += 1;
                        checked.findings.push(self.finding(rule, name, fault));
                    }
                }
            }
        }
        Ok(())
    }

    /// The name of a rule in findings; a separation from several counts as several.
    fn names(&self, rule: &Rule) -> Vec<String> {
        match &rule.statement {
            Statement::Group { name, .. } => vec![format!("group {name}")],
            Statement::Apart { what, from } => from
                .iter()
                .map(|other| format!("apart {} from {}", what.path, other.path))
                .collect(),
            Statement::Isolate(what) => vec![format!("isolate {}", what.path)],
            Statement::Start(what) => vec![format!("start {}", what.path)],
            Statement::Size(Limit::Bytes(_)) => vec!["size in bytes".to_owned()],
            Statement::Size(Limit::Lines(_)) => vec!["size in lines".to_owned()],
            Statement::Hole(_) => vec!["hole".to_owned()],
        }
    }

    fn skipped(&self, rule: &Rule, name: String) -> Skipped {
        Skipped {
            subject: self.subject.clone(),
            rule: name,
            at: rule.at,
        }
    }

    fn finding(&self, rule: &Rule, name: String, fault: Fault) -> Finding {
        let mut finding = Finding {
            subject: self.subject.clone(),
            kind: kind(&rule.statement),
            rule: name,
            at: rule.at,
            reason: rule.reason.as_ref().map(|r| r.text().to_owned()),
            fault,
            declared: None,
        };
        finding.declared = self.declared(&finding.members());
        finding
    }

    /// Where the source declares the last of these members, which are paths; else the type.
    fn declared(&self, members: &BTreeSet<String>) -> Option<SourceLine> {
        let composite = self.model.composite(self.id)?;
        let declared = composite.declared.clone()?;
        let names = members
            .iter()
            .filter_map(|path| path.split(['.', '[']).next());
        let lines = names.filter_map(|name| {
            let mut found = composite.members.iter();
            found
                .find(|member| member.name.as_str() == name)
                .and_then(|m| m.line)
        });
        let line = lines.max().or(declared.line);
        line.is_some().then_some(SourceLine { line, ..declared })
    }

    fn group(&self, name: &str, members: &[RuleMember]) -> Result<Thing, CheckReason> {
        let taken = member::find(self.model, self.id, name, self.line).is_ok();
        if taken {
            return Err(CheckReason::NameTaken(name.to_owned()));
        }
        let mut found = Vec::new();
        for member in members {
            if let Some(span) = self.member(member)? {
                found.push((member.path.clone(), span));
            }
        }
        Ok(Thing { members: found })
    }

    /// A member's bytes; `None` if it is optional and missing.
    fn member(&self, member: &RuleMember) -> Result<Option<Span>, CheckReason> {
        match member::find(self.model, self.id, &member.path, self.line) {
            Ok(span) => Ok(Some(span)),
            Err(PathError::Missing { .. }) if member.optional => Ok(None),
            Err(error @ PathError::Missing { .. }) => Err(CheckReason::Missing {
                path: member.path.clone(),
                error,
            }),
            Err(error) => Err(CheckReason::Path(error)),
        }
    }

    /// A group by its name, or a member.
    fn thing(&self, named: &RuleMember, groups: &GroupThings) -> Result<Thing, CheckReason> {
        if let Some(group) = groups.get(&named.path) {
            let members = group.members.clone();
            return Ok(Thing { members });
        }
        let found = self.member(named)?;
        let members = found.map(|span| (named.path.clone(), span));
        Ok(Thing {
            members: members.into_iter().collect(),
        })
    }

    /// Whether the kernel keeps a rule; one answer for each name from [`View::names`].
    fn rule(&self, rule: &Rule, groups: &GroupThings) -> Result<Vec<RuleOutcome>, CheckReason> {
        match &rule.statement {
            Statement::Group { name, lines, .. } => {
                let group = groups.get(name);
                Ok(vec![match group {
                    Some(group) => self.together(name, group, *lines)?,
                    None => RuleOutcome::Nothing,
                }])
            }
            Statement::Apart { what, from } => {
                let a = self.thing(what, groups)?;
                from.iter()
                    .map(|other| Ok(self.apart(&a, &self.thing(other, groups)?)))
                    .collect()
            }
            Statement::Isolate(what) => {
                let thing = self.thing(what, groups)?;
                Ok(vec![self.alone(&thing)?])
            }
            Statement::Start(what) => {
                let thing = self.thing(what, groups)?;
                Ok(vec![self.starts(&thing)])
            }
            Statement::Size(limit) => Ok(vec![self.size(*limit)]),
            Statement::Hole(limit) => Ok(vec![self.holes(*limit)]),
        }
    }

    fn together(
        &self,
        name: &str,
        group: &Thing,
        wanted: Option<u64>,
    ) -> Result<RuleOutcome, CheckReason> {
        let spans = group.spans().map(|span| (span.start, span.end));
        let bytes = merged(spans).iter().map(|(start, end)| end - start).sum();
        let line = self.line.bytes();
        // The sizes of C types are multiples of their alignments, so any set of members can be
        // packed without holes.
        let needed = u64::div_ceil(bytes, line).max(1);
        let enough = match wanted {
            Some(lines) if needed > lines => {
                let group = name.to_owned();
                return Err(CheckReason::CannotFit {
                    group,
                    bytes,
                    lines,
                    line,
                });
            }
            Some(lines) => lines,
            None => needed,
        };
        let lines = self.lines(group);
        if group.members.is_empty() {
            return Ok(RuleOutcome::Nothing);
        }
        let count = lines.iter().map(|(first, end)| end - first).sum();
        if count <= enough {
            return Ok(RuleOutcome::Kept);
        }
        let mut places: BTreeMap<Lines, Vec<String>> = BTreeMap::new();
        for (path, span) in &group.members {
            if let Some((first, last)) = span.lines(self.line) {
                let lines = Lines { first, last };
                places.entry(lines).or_default().push(path.clone());
            }
        }
        Ok(RuleOutcome::Broken(Fault::Scattered {
            lines: count,
            enough,
            places: places.into_iter().collect(),
        }))
    }

    /// The lines of a member or group as ranges, ascending, ends not included.
    fn lines(&self, thing: &Thing) -> Vec<(u64, u64)> {
        let ranges = thing.spans().filter_map(|span| span.lines(self.line));
        merged(ranges.map(|(first, last)| (first, last + 1)))
    }

    fn apart(&self, a: &Thing, b: &Thing) -> RuleOutcome {
        if a.members.is_empty() || b.members.is_empty() {
            return RuleOutcome::Nothing;
        }
        let (lines_a, lines_b) = (self.lines(a), self.lines(b));
        let common = common(&lines_a, &lines_b);
        let Some((first, _)) = common.first() else {
            return RuleOutcome::Kept;
        };
        let there = |thing: &Thing| {
            let members = thing.members.iter();
            let on = |span: &Span| {
                let lines = span.lines(self.line);
                lines.is_some_and(|(first, last)| touches(&common, first, last))
            };
            let on = members.filter(|(_, span)| on(span));
            on.map(|(path, _)| path.clone()).collect()
        };
        RuleOutcome::Broken(Fault::Shared {
            lines: common.iter().map(|(first, end)| end - first).sum(),
            first: *first,
            a: there(a),
            b: there(b),
        })
    }

    fn alone(&self, thing: &Thing) -> Result<RuleOutcome, CheckReason> {
        if thing.members.is_empty() {
            return Ok(RuleOutcome::Nothing);
        }
        let mut search = Intruders {
            view: self,
            own: merged(thing.spans().map(|span| (span.start, span.end))),
            lines: self.lines(thing),
            found: Vec::new(),
            visits: 0,
        };
        search
            .look(self.id, 0, "")
            .map_err(|error| CheckReason::Path(error.into()))?;
        if search.found.is_empty() {
            return Ok(RuleOutcome::Kept);
        }
        let range = |(first, end): &(u64, u64)| Lines {
            first: *first,
            last: end - 1,
        };
        Ok(RuleOutcome::Broken(Fault::Intruded {
            lines: search.lines.iter().map(range).collect(),
            others: search.found,
        }))
    }

    fn starts(&self, thing: &Thing) -> RuleOutcome {
        let Some(offset) = thing.spans().map(|span| span.start).min() else {
            return RuleOutcome::Nothing;
        };
        let line = self.line.bytes();
        match offset % line {
            0 => RuleOutcome::Kept,
            into => RuleOutcome::Broken(Fault::Inside {
                offset,
                into,
                line: offset / line,
            }),
        }
    }

    fn size(&self, limit: Limit) -> RuleOutcome {
        let bytes = self.model.size_of(self.id).unwrap_or(0);
        let (size, is_larger) = match limit {
            Limit::Bytes(most) => (Limit::Bytes(bytes), bytes > most),
            Limit::Lines(most) => {
                let lines = bytes.div_ceil(self.line.bytes());
                (Limit::Lines(lines), lines > most)
            }
        };
        match is_larger {
            true => RuleOutcome::Broken(Fault::TooLarge { size, limit }),
            false => RuleOutcome::Kept,
        }
    }

    fn holes(&self, limit: u64) -> RuleOutcome {
        let layout = Layout::new(self.model, self.id, self.line).unwrap_or_default();
        let members = self.model.composite(self.id).map(|c| c.members.as_slice());
        let mut holes = vec![(String::new(), layout.first_hole)];
        for (member, place) in members.unwrap_or(&[]).iter().zip(&layout.members) {
            let name = match member.name.as_str() {
                "" => "an anonymous member",
                name => name,
            };
            holes.push((name.to_owned(), place.hole));
        }
        holes.retain(|(_, bytes)| *bytes > limit);
        match holes.is_empty() {
            true => RuleOutcome::Kept,
            false => RuleOutcome::Broken(Fault::Holes { holes, limit }),
        }
    }
}

/// Whether a kernel keeps a rule.
enum RuleOutcome {
    Kept,
    Broken(Fault),
    /// Everything that the rule is about is optional and missing.
    Nothing,
}

fn failed(rule: &Rule, reason: CheckReason) -> CheckError {
    let at = rule.at;
    CheckError { at, reason }
}

fn kind(statement: &Statement) -> RuleKind {
    match statement {
        Statement::Group { .. } => RuleKind::Group,
        Statement::Apart { .. } => RuleKind::Apart,
        Statement::Isolate(_) => RuleKind::Isolate,
        Statement::Start(_) => RuleKind::Start,
        Statement::Size(_) => RuleKind::Size,
        Statement::Hole(_) => RuleKind::Hole,
    }
}

/// Searches for members on lines that must belong to one.
struct Intruders<'a> {
    view: &'a View<'a>,
    /// The owner's bytes: what shares them (another alternative of a union) does not intrude.
    own: Vec<(u64, u64)>,
    lines: Vec<(u64, u64)>,
    found: Vec<String>,
    /// Members visited: hostile types can nest unions so that each level doubles them.
    visits: usize,
}

impl Intruders<'_> {
    /// Visits the members of `id`, which is at byte `base`. Recursion: at most MAX_DEPTH of the
    /// types.
    fn look(
        &mut self,
        id: TypeId,
        base: u64,
        prefix: &str,
    ) -> Result<(), linemate_types::FlattenError> {
        let (model, line) = (self.view.model, self.view.line);
        for member in named_members(model, id, line)? {
            self.visits += 1;
            if self.visits > MAX_LEAVES {
                return Err(linemate_types::FlattenError::TooManyLeaves(id));
            }
            let inner = member::span(&member);
            let span = Span {
                start: base.saturating_add(inner.start),
                end: base.saturating_add(inner.end),
            };
            if !self.intrudes(span) {
                continue;
            }
            let path = format!("{prefix}{}", member.name);
            // What contains the owner intrudes only with its other members.
            let whole = [(span.start, span.end)];
            let holds = !common(&self.own, &whole).is_empty();
            match holds && self.is_struct(&member) {
                true => self.look(model.strip(member.type_id), span.start, &format!("{path}."))?,
                false => self.found.push(path),
            }
        }
        Ok(())
    }

    fn is_struct(&self, member: &NamedMember) -> bool {
        self.view.model.composite(member.type_id).is_some()
    }

    /// Whether some of these bytes are on the owner's lines without being the owner's.
    fn intrudes(&self, span: Span) -> bool {
        let line = self.view.line.bytes();
        let on_lines = |(first, end): &(u64, u64)| (first * line, end.saturating_mul(line));
        let owned: Vec<(u64, u64)> = self.lines.iter().map(on_lines).collect();
        let there = common(&owned, &[(span.start, span.end)]);
        let bytes = |ranges: &[(u64, u64)]| ranges.iter().map(|(s, e)| e - s).sum::<u64>();
        bytes(&there) > bytes(&common(&there, &self.own))
    }
}

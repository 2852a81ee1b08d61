//! Alignments as the source has them, and as every config has them: which members ask for their line is read in the definition, and a
//! group starts with a member that no config takes away.

use anyhow::bail;
use linemate_layout::plan::subject_name;
use linemate_layout::{
    Edit, EditFile, EditSubject, Layout, LineStart, Position, Section, Statement,
};
use linemate_source::tree::SourceTree;
use linemate_source::{Carriers, Wanted, carriers};
use linemate_types::{TypeId, TypeModel};

use super::prove::Together;
use super::{Args, planned, sought, subjects, wish};
use crate::output::tell;

/// The edits with a member first in each group that carries its alignment well: one that no condition is around, and that has a
/// name of its own if there is one. The others keep their lines.
pub(super) fn settle(
    args: &Args,
    tree: &SourceTree,
    model: &TypeModel,
    mut edits: EditFile,
) -> anyhow::Result<EditFile> {
    let mut plan = planned(args, model, &edits)?;
    for subject in subjects(&edits.clone()) {
        let Some((id, wanted)) = wish(model, &mut plan, &edits, subject)? else {
            continue;
        };
        let starts = plan.layouts.line_starts(id)?;
        if wanted.groups.is_empty() && starts.is_empty() {
            continue;
        }
        let found = tree.find(&sought(model, id, subject), &wanted, args.file.as_deref())?;
        let carriers = carriers(&found.text, &found.definition)
            .map_err(|error| anyhow::anyhow!("{}:{error}", found.path))?;
        edits = with_line_starts(edits, subject, &starts, &carriers);
        for place in groups_of(&edits, subject) {
            let first = place.fields(&edits).first().cloned();
            match settled(args, model, id, &edits, place, &carriers)? {
                Some(next) => edits = next,
                None => bail!(
                    "{}: `{}` would carry its field group's alignment, but a config can remove the member: start the group in {} with another one",
                    found.path,
                    first.unwrap_or_default(),
                    args.edit.display()
                ),
            }
        }
        plan = planned(args, model, &edits)?;
    }
    Ok(edits)
}

/// The edits, and for each member of `starts` of which the types do not say whether it asks for its line what the source says.
fn with_line_starts(
    mut edits: EditFile,
    subject: &EditSubject,
    starts: &[LineStart],
    carriers: &Carriers,
) -> EditFile {
    let wrong = |start: &&LineStart| carriers.aligned.contains(&start.member) != start.kept;
    let statements = starts.iter().filter(wrong).map(|start| Statement {
        edit: start.otherwise.clone(),
        at: Position::default(),
    });
    let statements: Vec<Statement> = statements.collect();
    for statement in &statements {
        tell(&format!(
            "note: as the source has it: {}: {}",
            subject_name(subject),
            statement.edit
        ));
    }
    if !statements.is_empty() {
        edits.sections.push(Section {
            subject: Some(subject.clone()),
            statements,
        });
    }
    edits
}

/// A group's statement: its section and its place there.
#[derive(Clone, Copy)]
struct GroupPlace {
    section: usize,
    statement: usize,
}

impl GroupPlace {
    fn fields(self, edits: &EditFile) -> &[String] {
        match &edits.sections[self.section].statements[self.statement].edit {
            Edit::Group { fields, .. } => fields,
            _ => &[],
        }
    }

    /// The edits with the member at `from` first.
    fn with_first(self, edits: &EditFile, from: usize) -> EditFile {
        let mut next = edits.clone();
        let statement = &mut next.sections[self.section].statements[self.statement];
        if let Edit::Group { fields, .. } = &mut statement.edit {
            let field = fields.remove(from);
            fields.insert(0, field);
        }
        next
    }
}

fn groups_of(edits: &EditFile, subject: &EditSubject) -> Vec<GroupPlace> {
    let mut found = Vec::new();
    for (section, part) in edits.sections.iter().enumerate() {
        if part.subject.as_ref() != Some(subject) {
            continue;
        }
        for (statement, said) in part.statements.iter().enumerate() {
            if matches!(said.edit, Edit::Group { .. }) {
                found.push(GroupPlace { section, statement });
            }
        }
    }
    found
}

/// The edits with the best member first that leaves all lines as they are; `None` where a condition is around the one that is first
/// and no other can take its place.
fn settled(
    args: &Args,
    model: &TypeModel,
    id: TypeId,
    edits: &EditFile,
    place: GroupPlace,
    carriers: &Carriers,
) -> anyhow::Result<Option<EditFile>> {
    let fields = place.fields(edits);
    let stays = |field: &&String| !carriers.conditional.contains(*field);
    let named = |field: &&String| stays(field) && !carriers.anonymous.contains(*field);
    let choices = [
        fields.iter().position(|field| named(&field)),
        fields.iter().position(|field| stays(&field)),
    ];
    let before = planned(args, model, edits)?.layouts.of(id)?;
    let line = args.line.bytes();
    for from in choices.into_iter().flatten() {
        if from == 0 {
            return Ok(Some(edits.clone()));
        }
        let next = place.with_first(edits, from);
        let after = planned(args, model, &next)?.layouts.of(id)?;
        if lines(&before, line) == lines(&after, line) && before.size == after.size {
            return Ok(Some(next));
        }
    }
    let all_conditional = !fields.iter().any(|field| stays(&field));
    Ok(all_conditional.then(|| edits.clone()))
}

/// By member, the line that it starts on.
pub(super) fn lines(layout: &Layout, line: u64) -> Vec<u64> {
    let offsets = layout.offsets.iter();
    offsets
        .map(|offset| offset.map_or(u64::MAX, |bit| bit.0 / 8 / line))
        .collect()
}

/// What has to keep together under other configs: the groups.
pub(super) fn groups(model: &TypeModel, wanted: &Wanted, layout: &Layout) -> Vec<Together> {
    let line = wanted.line.bytes();
    let starts = lines(layout, line);
    let of = |number: usize| {
        let ordered = wanted.order.iter().copied();
        let members: Vec<usize> = ordered
            .filter(|m| wanted.members[*m].group == Some(number))
            .collect();
        let ends = members
            .last()
            .and_then(|last| last_line(model, layout, *last, line));
        Together {
            one_line: members.first().map(|m| starts[*m]) == ends,
            members: members
                .iter()
                .map(|m| wanted.members[*m].first_name())
                .collect(),
            sealed: true,
        }
    };
    (0..wanted.groups.len()).map(of).collect()
}

/// The line that a member ends on.
fn last_line(model: &TypeModel, layout: &Layout, member: usize, line: u64) -> Option<u64> {
    let composite = model.composite(layout.id)?;
    let bytes = model.size_of(composite.members.get(member)?.type_id)?;
    let start = layout.offsets.get(member).copied()??.0 / 8;
    Some((start + bytes.max(1) - 1) / line)
}

/// The neighbours outside of groups that the edit makes and that are on one line: the first one's end, and the second.
pub(super) fn neighbours(
    model: &TypeModel,
    wanted: &Wanted,
    layout: &Layout,
) -> Vec<(String, String)> {
    let line = wanted.line.bytes();
    let starts = lines(layout, line);
    let pairs = wanted.order.windows(2).map(|pair| (pair[0], pair[1]));
    let new = pairs.filter(|(first, second)| {
        let apart = |m: usize| wanted.members[m].group.is_none();
        first + 1 != *second && apart(*first) && apart(*second)
    });
    let on_one = new
        .filter(|(first, second)| last_line(model, layout, *first, line) == Some(starts[*second]));
    let name = |m: usize| wanted.members[m].first_name();
    on_one.map(|(a, b)| (name(a), name(b))).collect()
}

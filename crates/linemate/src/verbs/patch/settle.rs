//! Alignments that every config has: a group starts with a member that no config takes away.

use anyhow::bail;
use linemate_layout::{Edit, EditFile, Layout};
use linemate_source::tree::SourceTree;
use linemate_source::{Wanted, conditional};
use linemate_types::TypeModel;

use super::prove::Together;
use super::{Args, planned, sought, subjects, wish};

/// The edits with a member first in each group that no condition is around, where its first one has one. The others keep their lines.
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
        if wanted.groups.is_empty() {
            continue;
        }
        let found = tree.find(&sought(model, id, subject), &wanted, args.file.as_deref())?;
        let can_go = conditional(&found.text, &found.definition)
            .map_err(|error| anyhow::anyhow!("{}:{error}", found.path))?;
        let before = plan.layouts.of(id)?;
        let mut next = edits.clone();
        let mut changed = Vec::new();
        let sections = next.sections.iter_mut();
        for section in sections.filter(|s| s.subject.as_ref() == Some(subject)) {
            for statement in &mut section.statements {
                let Edit::Group { fields, .. } = &mut statement.edit else {
                    continue;
                };
                let stays = fields.iter().position(|field| !can_go.contains(field));
                if let Some(place @ 1..) = stays {
                    changed.push(fields[0].clone());
                    let field = fields.remove(place);
                    fields.insert(0, field);
                }
            }
        }
        if changed.is_empty() {
            continue;
        }
        plan = planned(args, model, &next)?;
        let after = plan.layouts.of(id)?;
        let line = args.line.bytes();
        if lines(&before, line) != lines(&after, line) || before.size != after.size {
            bail!(
                "{}: `{}` would carry its group's alignment, but a config can take it away: let the group in {} start with another member",
                found.path,
                changed[0],
                args.edit.display()
            );
        }
        edits = next;
    }
    Ok(edits)
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
    let of = |number: usize| {
        let ordered = wanted.order.iter().copied();
        let members: Vec<usize> = ordered
            .filter(|m| wanted.members[*m].group == Some(number))
            .collect();
        let starts = lines(layout, line);
        let composite = model.composite(layout.id);
        let ends = members.last().and_then(|last| {
            let bytes = model.size_of(composite?.members.get(*last)?.type_id)?;
            Some((layout.offsets.get(*last).copied()??.0 / 8 + bytes.max(1) - 1) / line)
        });
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

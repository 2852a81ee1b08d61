//! Alignments as in the source, and in every config: the definition shows which members request
//! their line, and a group starts with a member that no config removes.

use linemate_layout::plan::subject_name;
use linemate_layout::{Edit, EditFile, EditSubject, LineStart, Position, Section, Statement};
use linemate_source::{Carriers, Dialect, carriers};
use linemate_types::TypeId;

use crate::change::lines;
use crate::error::{PatchError, rewriting};
use crate::request::{Request, subjects};

/// The edits, with a first member in each group that carries its alignment well: one without a
/// condition around it, and with a name of its own if there is one. The others keep their lines.
pub(crate) fn settle(
    request: &Request<'_>,
    mut edits: EditFile,
    note: &mut dyn FnMut(&str),
) -> Result<EditFile, PatchError> {
    let mut plan = request.plan(&edits, request.line)?;
    for subject in subjects(&edits.clone()) {
        let Some(target) = request.target(&mut plan, &edits, subject)? else {
            continue;
        };
        let starts = plan.layouts.line_starts(target.id)?;
        // Rust aligns the type, whatever its fields.
        let is_rust = target.sought.dialect() == Dialect::Rust;
        if is_rust || (target.wanted.groups.is_empty() && starts.is_empty()) {
            continue;
        }
        let found = request
            .tree
            .find(&target.sought, &target.wanted, request.file)?;
        let carriers = carriers(&found.text, &found.definition).map_err(rewriting(&found.path))?;
        edits = with_line_starts(edits, subject, &starts, &carriers, note);
        for place in groups_of(&edits, subject) {
            let first = place.fields(&edits).first().cloned();
            let carried = with_carrier(request, target.id, &edits, place, &carriers)?;
            edits = carried.ok_or_else(|| PatchError::Removable {
                path: found.path.clone(),
                member: first.unwrap_or_default(),
                edit: request.edit.to_owned(),
            })?;
        }
        plan = request.plan(&edits, request.line)?;
    }
    Ok(edits)
}

/// The edits, and for each member of `starts` whose types do not show whether it requests its line,
/// what the source says.
fn with_line_starts(
    mut edits: EditFile,
    subject: &EditSubject,
    starts: &[LineStart],
    carriers: &Carriers,
    note: &mut dyn FnMut(&str),
) -> EditFile {
    let wrong = |start: &&LineStart| carriers.aligned.contains(&start.member) != start.kept;
    let statements = starts.iter().filter(wrong).map(|start| Statement {
        edit: start.otherwise.clone(),
        at: Position::default(),
    });
    let statements: Vec<Statement> = statements.collect();
    for statement in &statements {
        note(&format!(
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

/// The edits with the best member first that leaves all lines unchanged; `None` if the first one is
/// under a condition and no other can take its place.
fn with_carrier(
    request: &Request<'_>,
    id: TypeId,
    edits: &EditFile,
    place: GroupPlace,
    carriers: &Carriers,
) -> Result<Option<EditFile>, PatchError> {
    let fields = place.fields(edits);
    let stays = |field: &&String| !carriers.conditional.contains(*field);
    let named = |field: &&String| stays(field) && !carriers.anonymous.contains(*field);
    let choices = [
        fields.iter().position(|field| named(&field)),
        fields.iter().position(|field| stays(&field)),
    ];
    let line = request.line;
    let before = request.plan(edits, line)?.layouts.of(id)?;
    for from in choices.into_iter().flatten() {
        if from == 0 {
            return Ok(Some(edits.clone()));
        }
        let next = place.with_first(edits, from);
        let after = request.plan(&next, line)?.layouts.of(id)?;
        if lines(&before, line) == lines(&after, line) && before.size == after.size {
            return Ok(Some(next));
        }
    }
    // A group that one config can remove as a whole needs no member that stays.
    let all_conditional = !fields.iter().any(|field| stays(&field));
    Ok(all_conditional.then(|| edits.clone()))
}

//! The groups that types declare, against what a recording shows of their members.

mod direction;
mod gathered;
#[cfg(test)]
mod tests;

use linemate_answers::{Costs, DeclaredDocument, DeclaredType, MisplacedMember};
use linemate_machine::Machine;
use linemate_recording::Recording;
use linemate_types::{TypeModel, types_with_groups};

use self::direction::Directions;
use self::gathered::GroupedType;
use crate::replayed::checksum;
use crate::report::TypeUses;

/// A type that declares groups, what is accessed of it, and what that costs.
#[derive(Debug)]
pub struct DeclaringType {
    /// The accesses to its members.
    pub uses: TypeUses,
    /// What these accesses cost.
    pub costs: Costs,
}

/// The document of these types, on the machine that their costs are of. `absent`: those that are
/// not accessed.
#[must_use]
pub fn declared_document(
    recording: &Recording,
    model: &TypeModel,
    types: &[DeclaringType],
    machine: &Machine,
    absent: Vec<String>,
) -> DeclaredDocument {
    let with_groups = types_with_groups(model);
    let gathered = types
        .iter()
        .map(|of| GroupedType::new(model, of, &with_groups));
    let gathered: Vec<GroupedType<'_>> = gathered.collect();
    let directions = Directions::new(&gathered);
    let all = gathered.iter().flat_map(|of| of.findings(&directions));
    let (mut findings, free): (Vec<_>, Vec<_>) = all.partition(|finding| finding.cost() > 0);
    findings.sort_by(|a, b| {
        let place = |of: &MisplacedMember| (of.type_name.clone(), of.offset, of.kind);
        b.cost()
            .cmp(&a.cost())
            .then_with(|| place(a).cmp(&place(b)))
    });
    let mut rows: Vec<DeclaredType> = gathered.iter().map(GroupedType::row).collect();
    rows.sort_by(|a, b| {
        let by_cost = b.cycles.cmp(&a.cycles);
        by_cost.then_with(|| a.type_name.cmp(&b.type_name))
    });
    DeclaredDocument {
        schema: DeclaredDocument::SCHEMA.into(),
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        recording: recording.metadata().clone(),
        checksum: checksum(recording),
        machine: machine.name.clone(),
        line_bytes: machine.line.bytes(),
        whole_cycles: types.first().map(|of| of.costs.whole.cycles),
        types: rows,
        absent,
        findings,
        free: free.len(),
    }
}

//! What is on programs' stacks, by the instruction that accesses it.
//!
//! An object on a stack has no allocation and no recorded end, so one access says nothing about
//! another. For an instruction that accesses its own function's frame, the debug information says
//! which variable it means; for one with a pointer to a struct, which struct. Nothing else on a
//! stack has a name.

use std::collections::BTreeSet;

use linemate_programs::Operand;
use linemate_recording::{Access, GuestAddr};
use rustc_hash::FxHashMap;

use super::code::ProgramFacts;
use super::debug::Pointee;
use super::frame::InFrame;
use super::located::{InProgram, of_program};
use crate::ledger::Bucket;
use crate::schema::{Schema, TypeIndex};
use crate::subjects::{Subject, SubjectId, Subjects, clip};

/// What an instruction accesses if that is on a stack.
#[derive(Clone, Copy, Debug)]
struct OnStack {
    subject: SubjectId,
    offset: u32,
    /// Bytes of its operand. A shorter access is an unknown part of it.
    bytes: u16,
    object: bool,
}

/// Finds what instructions access on stacks.
#[derive(Debug, Default)]
pub(super) struct StackNames(FxHashMap<GuestAddr, OnStack>);

impl StackNames {
    /// Of the instructions that reached a stack.
    pub(super) fn new(
        reached: impl Iterator<Item = GuestAddr>,
        facts: ProgramFacts<'_>,
        schema: &Schema,
        subjects: &mut Subjects,
    ) -> StackNames {
        let mut known: Vec<(GuestAddr, OnStack)> = Vec::new();
        for pc in reached.collect::<BTreeSet<_>>() {
            let Some(about) = facts.code.at(pc) else {
                continue;
            };
            let frame = facts.debug.in_frame(about.place);
            // A call through a pointer in a struct: the load is from the struct, the return address
            // goes to the stack.
            let pushes = about.instruction.uses_stack;
            let found = frame.map(|frame| of_frame(subjects, frame)).or_else(|| {
                let operand = Some(about.instruction.operand).filter(|_| !pushes)?;
                let (ty, offset) = pointed(operand, about.points_to, schema)?;
                Some((typed(subjects, ty), offset, true))
            });
            if let Some((subject, offset, object)) = found {
                let found = OnStack {
                    subject,
                    offset: clip(offset),
                    bytes: about.instruction.bytes,
                    object,
                };
                known.push((pc, found));
            }
        }
        StackNames(known.into_iter().collect())
    }

    /// What an access to a stack went to.
    pub(super) fn at(&self, access: &Access) -> Option<InProgram> {
        let found = self.0.get(&access.pc)?;
        // `rep movs` and vector instructions are recorded in parts.
        (u16::from(access.size) == found.bytes).then_some(InProgram {
            subject: found.subject,
            offset: found.offset,
            object: found.object,
        })
    }
}

fn of_frame(subjects: &mut Subjects, frame: &InFrame<TypeIndex>) -> (SubjectId, u64, bool) {
    match frame.ty {
        Some(ty) => (typed(subjects, ty), frame.offset, true),
        None => {
            let named = subjects.number(Subject {
                label: frame.name.clone(),
                ..of_program(Bucket::StackNamed)
            });
            (named, frame.offset, !frame.indexed)
        }
    }
}

/// The struct that an instruction accesses through a pointer, and which byte of it.
fn pointed(
    operand: Operand,
    points_to: Option<Pointee>,
    schema: &Schema,
) -> Option<(TypeIndex, u64)> {
    match (operand, points_to) {
        (
            Operand::Based {
                displacement,
                indexed: false,
                ..
            },
            Some(Pointee::Struct(ty)),
        ) => {
            let offset = u64::try_from(displacement).ok()?;
            (offset < schema.size(ty)).then_some((ty, offset))
        }
        _ => None,
    }
}

fn typed(subjects: &mut Subjects, ty: TypeIndex) -> SubjectId {
    subjects.number(Subject {
        ty: Some(ty),
        ..of_program(Bucket::StackTyped)
    })
}

#[cfg(test)]
mod tests {
    use linemate_programs::Base;

    use super::*;
    use crate::schema::tests::sample;

    #[test]
    fn a_pointer_leads_into_its_struct_alone() {
        let schema = sample();
        let (entity, size) = (TypeIndex(1), schema.size(TypeIndex(1)) as i64);
        let of = |displacement, indexed| {
            let operand = Operand::Based {
                base: Base(3),
                displacement,
                indexed,
            };
            pointed(operand, Some(Pointee::Struct(entity)), &schema)
        };
        assert_eq!(of(16, false), Some((entity, 16)));
        assert_eq!(of(size, false), None);
        assert_eq!(of(-8, false), None);
        assert_eq!(of(16, true), None);
    }
}

//! What is on programs' stacks, and in memory that no watched allocator gave (a mapping that the
//! program cuts up itself), by the instruction that accesses it.
//!
//! An object there has no allocation and no recorded end, so one access says nothing about another.
//! For an instruction that accesses its own function's frame, the debug information says which
//! variable it means; for one with a pointer to a struct, which struct. Nothing else there has a
//! name.

use std::collections::BTreeSet;

use linemate_programs::Operand;
use linemate_recording::{Access, GuestAddr};
use rustc_hash::FxHashMap;

use super::code::ProgramFacts;
use super::debug::Pointee;
use super::frame::InFrame;
use super::located::{InProgram, of_program};
use super::stack_objects::shared;
use crate::ledger::Bucket;
use crate::schema::{Schema, TypeIndex};
use crate::subjects::{Subject, SubjectId, Subjects, clip};

/// What an instruction accesses if that is on a stack.
#[derive(Clone, Copy, Debug)]
struct OnStack {
    subject: SubjectId,
    /// The same in memory that is not a stack.
    elsewhere: Option<SubjectId>,
    offset: u32,
    /// Bytes of its operand. A shorter access is an unknown part of it.
    bytes: u16,
    object: bool,
    reached: ReachedBy,
}

/// How an instruction reaches a stack.
#[derive(Clone, Copy, Debug)]
enum ReachedBy {
    Pointer,
    /// Its own function's frame, in which the debug information has a variable: its subject while
    /// other threads use it, if they ever do.
    Frame {
        shared: Option<SubjectId>,
    },
}

/// Finds what instructions access on stacks.
#[derive(Debug, Default)]
pub(super) struct StackNames(FxHashMap<GuestAddr, OnStack>);

impl StackNames {
    /// Of the instructions that reached a stack, after the variables that other threads use have
    /// their subjects.
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
                Some(StackPlace {
                    subject: typed(subjects, ty, Bucket::StackTyped),
                    elsewhere: Some(typed(subjects, ty, Bucket::Field)),
                    offset,
                    object: true,
                    reached: ReachedBy::Pointer,
                })
            });
            if let Some(place) = found {
                let found = OnStack {
                    subject: place.subject,
                    elsewhere: place.elsewhere,
                    offset: clip(place.offset),
                    bytes: about.instruction.bytes,
                    object: place.object,
                    reached: place.reached,
                };
                known.push((pc, found));
            }
        }
        StackNames(known.into_iter().collect())
    }

    /// What an access to a stack went to.
    pub(super) fn at(&self, access: &Access) -> Option<InProgram> {
        let found = self.found(access)?;
        Some(found.inside(found.subject))
    }

    /// What an access to memory that has neither an allocation nor a file went to.
    pub(super) fn elsewhere(&self, access: &Access) -> Option<InProgram> {
        let found = self.found(access)?;
        Some(found.inside(found.elsewhere?))
    }

    /// Whether an access can be to a variable that other threads use: not if the instruction means
    /// another variable of its function, in the same place after that one.
    pub(super) fn allows(&self, access: &Access, subject: SubjectId) -> bool {
        match self.found(access).map(|found| found.reached) {
            Some(ReachedBy::Frame { shared }) => shared == Some(subject),
            Some(ReachedBy::Pointer) | None => true,
        }
    }

    fn found(&self, access: &Access) -> Option<&OnStack> {
        let found = self.0.get(&access.pc)?;
        // `rep movs` and vector instructions are recorded in parts.
        (u16::from(access.size) == found.bytes).then_some(found)
    }
}

impl OnStack {
    fn inside(&self, subject: SubjectId) -> InProgram {
        InProgram {
            subject,
            offset: self.offset,
            object: self.object,
        }
    }
}

/// What an instruction accesses, by its operand alone.
struct StackPlace {
    subject: SubjectId,
    elsewhere: Option<SubjectId>,
    offset: u64,
    object: bool,
    reached: ReachedBy,
}

fn of_frame(subjects: &mut Subjects, frame: &InFrame<TypeIndex>) -> StackPlace {
    let shared = subjects
        .numbers
        .get(&shared(&frame.name, frame.ty))
        .copied();
    let (subject, object) = match frame.ty {
        Some(ty) => (typed(subjects, ty, Bucket::StackTyped), true),
        None => {
            let named = subjects.number(Subject {
                label: frame.name.clone(),
                ..of_program(Bucket::StackNamed)
            });
            (named, !frame.indexed)
        }
    };
    StackPlace {
        subject,
        elsewhere: None,
        offset: frame.offset,
        object,
        reached: ReachedBy::Frame { shared },
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

fn typed(subjects: &mut Subjects, ty: TypeIndex, bucket: Bucket) -> SubjectId {
    subjects.number(Subject {
        ty: Some(ty),
        ..of_program(bucket)
    })
}

#[cfg(test)]
mod tests {
    use linemate_programs::Base;
    use linemate_recording::AccessKind;
    use linemate_testkit::accesses::access;

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

    #[test]
    fn a_variable_that_took_the_place_of_a_shared_one_is_itself() {
        let mut subjects = Subjects::default();
        let sums = subjects.number(shared("f: sums", None));
        let frame = |name: &str| InFrame {
            name: name.to_owned(),
            ty: None,
            offset: 0,
            indexed: false,
        };
        let mut names = StackNames::default();
        let access = access(1, 0, AccessKind::Load, 0, 8);
        let mut allows = |reached| {
            let on_stack = OnStack {
                subject: sums,
                elsewhere: None,
                offset: 0,
                bytes: 8,
                object: true,
                reached,
            };
            names.0.insert(access.pc, on_stack);
            names.allows(&access, sums)
        };
        let mut by = |name| of_frame(&mut subjects, &frame(name)).reached;
        let (own, other) = (by("f: sums"), by("f: next"));
        assert!(allows(own));
        assert!(!allows(other));
        assert!(allows(ReachedBy::Pointer));
    }
}

//! The one check of a type model. After it every id is in range and of the right kind, every chain
//! of types that a reader follows ends within [`MAX_DEPTH`] steps, and every size is known.
//!
//! It walks with an explicit stack, so hostile types cannot overflow the thread's.

use linemate_units::BitOffset;

use crate::{Composite, Type, TypeId};

/// The longest chain of nested types: members in members, arrays of arrays, pointers to pointers,
/// typedefs of typedefs. Linux 6.12 needs 19; the kernel's own verifier stops at 32.
pub const MAX_DEPTH: u32 = 64;

/// The largest type in bytes: more than any address space in use today, and small enough for bit
/// offsets to fit.
pub const MAX_SIZE: u64 = 1 << 48;

/// Why a list of types is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The first type is not `void`.
    #[error("the first of the types is not void")]
    NoVoid,
    /// `void` does not come first, or not only there.
    #[error("type {0}: void has an id that is not 0")]
    SecondVoid(TypeId),
    /// More types than ids.
    #[error("too many types: {0}")]
    TooManyTypes(usize),
    /// A reference to a type that does not exist.
    #[error("type {id} refers to type {target}, but there are only {count}")]
    OutOfRange {
        /// The referring type.
        id: TypeId,
        /// The id it refers to.
        target: TypeId,
        /// How many types there are.
        count: usize,
    },
    /// A reference to something of the wrong kind.
    #[error("type {id} refers to type {target}, which is not {wanted}")]
    WrongKind {
        /// The referring type.
        id: TypeId,
        /// The id it refers to.
        target: TypeId,
        /// What it must be.
        wanted: &'static str,
    },
    /// A type that contains itself, or whose declaration is infinite.
    #[error("type {0} contains itself")]
    Cycle(TypeId),
    #[error("type {id} nests {depth} types, more than {MAX_DEPTH}")]
    TooDeep {
        /// The outermost type.
        id: TypeId,
        /// How deep it is.
        depth: u32,
    },
    /// An array that is too large.
    #[error("type {id}: an array of {count} elements of {element} bytes is too large")]
    ArrayTooLarge {
        id: TypeId,
        /// Its number of elements.
        count: u32,
        /// Bytes of an element.
        element: u64,
    },
    /// A bit-field that is wider than its type, or whose type cannot have bit-fields.
    #[error("type {id}: member {member} cannot be a bit-field of {bits} bits")]
    BitField {
        /// The struct or union.
        id: TypeId,
        /// Index of the member.
        member: usize,
        bits: u32,
    },
    /// A member that does not fit its struct or union.
    #[error("type {id}: member {member} (bit {}, {bits} bits) does not fit {size} bytes", offset.0)]
    MemberOutside {
        /// The struct or union.
        id: TypeId,
        /// Index of the member.
        member: usize,
        offset: BitOffset,
        bits: u64,
        /// `sizeof` the struct or union.
        size: u32,
    },
}

/// Checks `types` and returns their sizes.
pub(crate) fn check(types: &[Type], pointer_size: u32) -> Result<Vec<Option<u64>>, ModelError> {
    if u32::try_from(types.len()).is_err() {
        return Err(ModelError::TooManyTypes(types.len()));
    }
    if types.first() != Some(&Type::Void) {
        return Err(ModelError::NoVoid);
    }
    for (id, t) in (0u32..).map(TypeId).zip(types) {
        // First, so that everything after it can index without checking.
        check_references(types, id, t)?;
    }
    let sizes = measure(types, pointer_size)?;
    // For depth and cycles only: names are written along these chains.
    walk(types, for_each_spelled, |_, _| Ok(()))?;
    for (id, t) in (0u32..).map(TypeId).zip(types) {
        if let Type::Composite(composite) = t {
            check_members(types, id, composite, &sizes)?;
        }
    }
    Ok(sizes)
}

fn is_type(t: &Type) -> bool {
    !matches!(
        t,
        Type::Function { .. }
            | Type::Variable { .. }
            | Type::Section { .. }
            | Type::DeclarationTag { .. }
    )
}

fn check_references(types: &[Type], id: TypeId, t: &Type) -> Result<(), ModelError> {
    let expect = |target: TypeId, wanted: &'static str, holds: fn(&Type) -> bool| {
        let count = types.len();
        let found =
            types
                .get(target.index())
                .ok_or(ModelError::OutOfRange { id, target, count })?;
        if holds(found) {
            Ok(())
        } else {
            Err(ModelError::WrongKind { id, target, wanted })
        }
    };
    let expect_type = |target| expect(target, "a type", is_type);
    match t {
        Type::Void if id != TypeId::VOID => Err(ModelError::SecondVoid(id)),
        Type::Void
        | Type::Int { .. }
        | Type::Float { .. }
        | Type::Enum { .. }
        | Type::Forward { .. } => Ok(()),
        Type::Pointer { target }
        | Type::Typedef { target, .. }
        | Type::Qualified { target, .. }
        | Type::Variable {
            type_id: target, ..
        } => expect_type(*target),
        Type::Array { element, index, .. } => {
            expect_type(*element)?;
            expect_type(*index)
        }
        Type::Composite(composite) => composite
            .members
            .iter()
            .try_for_each(|m| expect_type(m.type_id)),
        Type::Prototype(prototype) => {
            expect_type(prototype.result)?;
            prototype
                .parameters
                .iter()
                .try_for_each(|p| expect_type(p.type_id))
        }
        Type::Function { prototype, .. } => expect(*prototype, "a prototype", |t| {
            matches!(t, Type::Prototype(_))
        }),
        Type::Section { variables, .. } => variables.iter().try_for_each(|v| {
            expect(v.variable, "a variable or function", |t| {
                matches!(t, Type::Variable { .. } | Type::Function { .. })
            })
        }),
        Type::DeclarationTag { target, .. } => expect(*target, "something to be tagged", |t| {
            !matches!(t, Type::DeclarationTag { .. })
        }),
    }
}

/// The types needed to measure `t`.
fn for_each_part(_: &[Type], t: &Type, visit: &mut dyn FnMut(TypeId)) {
    match t {
        Type::Typedef { target, .. } | Type::Qualified { target, .. } => visit(*target),
        Type::Array { element, .. } => visit(*element),
        Type::Composite(composite) => composite.members.iter().for_each(|m| visit(m.type_id)),
        _ => {}
    }
}

/// The types needed to declare something of type `t`. A named type is written as its name, which
/// ends C's own cycles (lists, trees).
fn for_each_spelled(types: &[Type], t: &Type, visit: &mut dyn FnMut(TypeId)) {
    let mut visit = |target: TypeId| match &types[target.index()] {
        Type::Composite(composite) if !composite.name.is_empty() => {}
        Type::Typedef { .. } => {}
        _ => visit(target),
    };
    match t {
        Type::Typedef { target, .. }
        | Type::Qualified { target, .. }
        | Type::Pointer { target } => visit(*target),
        Type::Array { element, .. } => visit(*element),
        Type::Composite(composite) => composite.members.iter().for_each(|m| visit(m.type_id)),
        Type::Prototype(prototype) => {
            prototype.parameters.iter().for_each(|p| visit(p.type_id));
            visit(prototype.result);
        }
        _ => {}
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Entered,
    Done,
}

enum Visit {
    Enter(TypeId),
    Leave(TypeId),
}

type EachPart = fn(&[Type], &Type, &mut dyn FnMut(TypeId));

/// Depth-first over all types: `leave` is called for each type after everything it needs.
fn walk(
    types: &[Type],
    parts: EachPart,
    mut leave: impl FnMut(TypeId, &Type) -> Result<(), ModelError>,
) -> Result<(), ModelError> {
    let mut depths = vec![0u32; types.len()];
    let mut states = vec![State::New; types.len()];
    let mut stack = Vec::new();
    for root in (0u32..).map(TypeId).take(types.len()) {
        stack.push(Visit::Enter(root));
        while let Some(step) = stack.pop() {
            match step {
                Visit::Enter(id) => {
                    // A type can be on the stack several times; only the first visit counts. It
                    // cannot be Entered here: everything pushed later has been left by now.
                    if states[id.index()] != State::New {
                        continue;
                    }
                    states[id.index()] = State::Entered;
                    stack.push(Visit::Leave(id));
                    let mut cycle = None;
                    parts(
                        types,
                        &types[id.index()],
                        &mut |part| match states[part.index()] {
                            State::New => stack.push(Visit::Enter(part)),
                            State::Entered => cycle = Some(part),
                            State::Done => {}
                        },
                    );
                    if let Some(part) = cycle {
                        return Err(ModelError::Cycle(part));
                    }
                }
                Visit::Leave(id) => {
                    let t = &types[id.index()];
                    let mut depth = 0;
                    parts(types, t, &mut |part| {
                        depth = depth.max(depths[part.index()])
                    });
                    depth += 1;
                    if depth > MAX_DEPTH {
                        return Err(ModelError::TooDeep { id, depth });
                    }
                    depths[id.index()] = depth;
                    states[id.index()] = State::Done;
                    leave(id, t)?;
                }
            }
        }
    }
    Ok(())
}

fn measure(types: &[Type], pointer_size: u32) -> Result<Vec<Option<u64>>, ModelError> {
    let mut sizes = vec![None; types.len()];
    walk(types, for_each_part, |id, t| {
        sizes[id.index()] = size(id, t, &sizes, pointer_size)?;
        Ok(())
    })?;
    Ok(sizes)
}

fn size(
    id: TypeId,
    t: &Type,
    sizes: &[Option<u64>],
    pointer_size: u32,
) -> Result<Option<u64>, ModelError> {
    Ok(match t {
        Type::Int { size, .. } | Type::Float { size, .. } | Type::Enum { size, .. } => {
            Some(u64::from(*size))
        }
        Type::Composite(composite) => Some(u64::from(composite.size)),
        Type::Pointer { .. } => Some(u64::from(pointer_size)),
        Type::Typedef { target, .. } | Type::Qualified { target, .. } => sizes[target.index()],
        Type::Array { element, count, .. } => match sizes[element.index()] {
            None => None,
            Some(element) => match element.checked_mul(u64::from(*count)) {
                Some(size) if size <= MAX_SIZE => Some(size),
                _ => {
                    return Err(ModelError::ArrayTooLarge {
                        id,
                        count: *count,
                        element,
                    });
                }
            },
        },
        _ => None,
    })
}

fn check_members(
    types: &[Type],
    id: TypeId,
    composite: &Composite,
    sizes: &[Option<u64>],
) -> Result<(), ModelError> {
    for (index, member) in composite.members.iter().enumerate() {
        let bits = match member.bits {
            Some(bits) if bits_of(types, member.type_id) < bits => {
                return Err(ModelError::BitField {
                    id,
                    member: index,
                    bits,
                });
            }
            Some(bits) => u64::from(bits),
            // A member without a size (a type that is only declared) takes no space. No overflow:
            // MAX_SIZE.
            None => sizes[member.type_id.index()].unwrap_or(0) * 8,
        };
        let fits = member
            .offset
            .0
            .checked_add(bits)
            .is_some_and(|end| end <= u64::from(composite.size) * 8);
        if !fits {
            let (offset, size) = (member.offset, composite.size);
            return Err(ModelError::MemberOutside {
                id,
                member: index,
                offset,
                bits,
                size,
            });
        }
    }
    Ok(())
}

/// The bits that a bit-field of type `id` can have; 0 if it cannot be one.
fn bits_of(types: &[Type], mut id: TypeId) -> u32 {
    // Such chains end: measure() has walked them.
    while let Type::Typedef { target, .. } | Type::Qualified { target, .. } = &types[id.index()] {
        id = *target;
    }
    match types[id.index()] {
        Type::Int { size, .. } | Type::Enum { size, .. } => size.saturating_mul(8),
        _ => 0,
    }
}

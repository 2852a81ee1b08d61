//! From the digested entries to the types of the model: one per digest, in order of first
//! description.

use std::collections::HashMap;

use linemate_types::{
    BitOffset, Composite, CompositeKind, Enumerator, Language, MAX_DEPTH, Member, MemberRole, Name,
    Parameter, Prototype, Type, TypeId,
};
use rustc_hash::FxHashMap;

use super::bases::{self, VirtualBases};
use super::digest::Digests;
use super::node::{MemberPlace, Node, RawComposite, RawMember, RawType, STORAGE, Target};
use crate::{DieKey, DwarfError};

/// By value, types nest less deeply than the model allows: arrays of several dimensions need types
/// of their own.
const DEPTH_MAX: u32 = MAX_DEPTH / 2;

/// The types of the model, before the check.
pub(crate) struct Emitted {
    pub(crate) types: Vec<Type>,
    pub(crate) ids: FxHashMap<DieKey, TypeId>,
    pub(crate) left_out: usize,
}

/// Makes the types.
///
/// # Errors
/// If they are more than can be numbered.
pub(crate) fn emit(nodes: &[Node], digests: &Digests) -> Result<Emitted, DwarfError> {
    let mut emitter = Emitter {
        nodes,
        digests,
        types: vec![Type::Void],
        ids: Vec::with_capacity(nodes.len()),
        virtual_bases: VirtualBases::new(),
        tails: Vec::new(),
        left_out: 0,
    };
    // Ids before types: a type may refer to one that is described later.
    let first = emitter.number()?;
    for node in first {
        emitter.add(node);
    }
    // After the numbered ones, because these types have no node.
    emitter.add_tails()?;
    // Last, when every type has its members.
    let not_placed = bases::place(&mut emitter.types, &emitter.virtual_bases);
    let keys = nodes.iter().map(|node| node.key);
    Ok(Emitted {
        ids: keys.zip(emitter.ids.iter().copied()).collect(),
        types: emitter.types,
        left_out: emitter.left_out + not_placed,
    })
}

struct Emitter<'n> {
    nodes: &'n [Node],
    digests: &'n Digests,
    types: Vec<Type>,
    /// The id that each node has got.
    ids: Vec<TypeId>,
    virtual_bases: VirtualBases,
    tails: Vec<Tail>,
    left_out: usize,
}

/// A member as the debug information places it.
struct PlacedMember {
    member: Member,
    /// The first bit after it.
    end: u64,
}

/// The unsized last member of a Rust struct. Its type is still that of one element.
struct Tail {
    composite: TypeId,
    member: Member,
}

/// How many ids a type takes: an array takes one per dimension.
fn ids_of(raw: &RawType) -> usize {
    match raw {
        RawType::Array { counts, .. } => counts.len().max(1),
        _ => 1,
    }
}

impl Emitter<'_> {
    /// Gives every node its id, and returns the first node of each type.
    fn number(&mut self) -> Result<Vec<usize>, DwarfError> {
        let mut known: HashMap<u128, TypeId> = HashMap::new();
        let mut first = Vec::new();
        let mut next = 1;
        for node in 0..self.nodes.len() {
            let id = TypeId(u32::try_from(next).map_err(|_| DwarfError::TooManyTypes(next))?);
            let stand_in = self.digests.same[node];
            let hash = self.digests.whole[node].hash;
            let id = *known.entry(hash).or_insert_with(|| {
                first.push(stand_in);
                next += ids_of(&self.nodes[stand_in].raw);
                id
            });
            self.ids.push(id);
        }
        Ok(first)
    }

    fn id(&self, target: Target) -> TypeId {
        match self.digests.node(target) {
            Some(node) => self.ids[node],
            None => TypeId::VOID,
        }
    }

    fn size(&self, target: Target) -> Option<u64> {
        let node = self.digests.node(target)?;
        self.digests.whole[node].size
    }

    fn add(&mut self, node: usize) {
        let t = match &self.nodes[node].raw {
            RawType::Int {
                name,
                size,
                encoding,
            } => match u8::try_from(size.saturating_mul(8)) {
                Ok(bits) => Type::Int {
                    name: name.clone(),
                    size: u32::from(bits / 8),
                    bits,
                    bit_offset: 0,
                    encoding: *encoding,
                },
                // The model counts bits in a byte, so at most 31 bytes: anything longer is opaque
                // bytes, like a float.
                Err(_) => float(name, *size),
            },
            RawType::Float { name, size } => float(name, *size),
            RawType::Pointer(target) => Type::Pointer {
                target: self.id(*target),
            },
            RawType::MemberPointer { member, class } => self.member_pointer(node, *member, *class),
            RawType::Qualified(qualifier, target) => Type::Qualified {
                qualifier: qualifier.clone(),
                target: self.id(*target),
            },
            RawType::Typedef(name, target) => Type::Typedef {
                name: name.clone(),
                target: self.id(*target),
            },
            RawType::Array { element, counts } => return self.add_array(*element, counts),
            RawType::Composite(composite) => self.composite(composite),
            RawType::Enum { name, values, .. } => {
                let size = self.digests.whole[node].size.unwrap_or(4);
                enumeration(name, size, values)
            }
            RawType::Prototype {
                result,
                parameters,
                variadic,
            } => Type::Prototype(Prototype {
                result: self.id(*result),
                parameters: parameters
                    .iter()
                    .map(|(name, target)| Parameter {
                        name: name.clone(),
                        type_id: self.id(*target),
                    })
                    .collect(),
                variadic: *variadic,
            }),
            // It refers only to itself: broken.
            RawType::Alias(_) => Type::Typedef {
                name: Name::default(),
                target: TypeId::VOID,
            },
        };
        self.types.push(t);
    }

    /// The model has no pointer to member: it becomes an integer of that size and name.
    fn member_pointer(&self, node: usize, member: Target, class: Target) -> Type {
        let name_of = |target| {
            let node = self.digests.node(target)?;
            Some(self.nodes[node].raw.name())
        };
        let member = name_of(member).unwrap_or("void");
        let name = format!("{member} {}::*", name_of(class).unwrap_or(""));
        let size = self.digests.whole[node].size.unwrap_or(0);
        float(&Name::from(name.as_str()), size)
    }

    fn add_array(&mut self, element: Target, counts: &[u64]) {
        let innermost = self.id(element);
        let believable = self.size_of_array(element, counts).is_some();
        let counts = if counts.is_empty() { &[0][..] } else { counts };
        for (index, count) in counts.iter().enumerate() {
            let element = match index + 1 == counts.len() {
                true => innermost,
                // The next dimension is the next type. It fits: they were numbered.
                false => TypeId(self.types.len() as u32 + 1),
            };
            // All or none: the inner dimensions alone could have a plausible size.
            let count = u32::try_from(*count).ok().filter(|_| believable);
            self.types.push(Type::Array {
                element,
                index: TypeId::VOID,
                count: count.unwrap_or(0),
            });
        }
    }

    fn size_of_array(&self, element: Target, counts: &[u64]) -> Option<u64> {
        let size = self.size(element).unwrap_or(1);
        let sized = counts
            .iter()
            .try_fold(size, |size, count| size.checked_mul(*count));
        sized.filter(|size| *size <= linemate_types::MAX_SIZE)
    }

    fn composite(&mut self, composite: &RawComposite) -> Type {
        let kind = match composite.is_union {
            true => CompositeKind::Union,
            false => CompositeKind::Struct,
        };
        let size = composite.size.and_then(|size| u32::try_from(size).ok());
        let Some(size) = size else {
            let name = composite.name.clone();
            return Type::Forward { name, kind };
        };
        let mut members = Vec::with_capacity(composite.members.len());
        let held = composite.held.filter(|held| {
            // An argument that is only declared has no size: the bytes are all that is known.
            self.size(Some(*held)) == Some(u64::from(size))
        });
        for raw in &composite.members {
            let stored;
            let raw = match held {
                Some(held) if raw.name.as_str() == STORAGE => {
                    stored = RawMember {
                        target: Some(held),
                        ..raw.clone()
                    };
                    &stored
                }
                _ => raw,
            };
            if raw.role == MemberRole::VirtualBase {
                // The next type is this one.
                let id = TypeId(self.types.len() as u32);
                let base = self.id(raw.target);
                self.virtual_bases.entry(id).or_default().push(base);
                continue;
            }
            match self.member(raw) {
                // The model refuses a type whose member extends past its end; so only that member
                // is lost.
                Some(placed) if placed.end <= u64::from(size) * 8 => members.push(placed.member),
                Some(placed) if is_unsized_tail(composite, raw) => self.tails.push(Tail {
                    composite: TypeId(self.types.len() as u32),
                    member: placed.member,
                }),
                _ => self.left_out += 1,
            }
        }
        // Rust places members as it likes, and lists them in declaration order. Readers go by
        // offset.
        let is_rust = composite.language == Some(Language::Rust);
        if is_rust && !composite.is_union {
            members.sort_by_key(|member| member.offset);
        }
        let alignments = composite.members.iter().filter_map(|member| {
            let node = self.digests.node(member.target)?;
            Some(self.digests.whole[node].alignment)
        });
        let natural = alignments.max().unwrap_or(1);
        // Rust gives every type's alignment, whether the source requests it or not.
        let is_asked_for = !is_rust || u64::from(composite.alignment) > natural;
        Type::Composite(Composite {
            keyword: composite.keyword,
            alignment: if is_asked_for { composite.alignment } else { 0 },
            declared: composite.declared.clone(),
            language: composite.language,
            ..Composite::new(kind, composite.name.clone(), size, members)
        })
    }

    /// Gives each unsized tail its type in C, an array without a length, and its struct the tail as
    /// its last member.
    ///
    /// # Errors
    /// If there are too many types to number.
    fn add_tails(&mut self) -> Result<(), DwarfError> {
        let mut arrays: HashMap<TypeId, TypeId> = HashMap::new();
        for Tail {
            composite,
            mut member,
        } in std::mem::take(&mut self.tails)
        {
            let element = member.type_id;
            let next = self.types.len();
            let next = u32::try_from(next).map_err(|_| DwarfError::TooManyTypes(next))?;
            member.type_id = *arrays.entry(element).or_insert_with(|| {
                self.types.push(Type::Array {
                    element,
                    index: TypeId::VOID,
                    count: 0,
                });
                TypeId(next)
            });
            if let Some(Type::Composite(composite)) = self.types.get_mut(composite.0 as usize) {
                composite.members.push(member);
            }
        }
        Ok(())
    }

    /// The member; `None` if the program computes its offset, or no number can hold it.
    fn member(&self, raw: &RawMember) -> Option<PlacedMember> {
        let size = self.size(raw.target);
        let node = self.digests.node(raw.target);
        if node.is_some_and(|node| self.digests.whole[node].depth > DEPTH_MAX) {
            return None;
        }
        let (offset, bits) = match raw.place {
            MemberPlace::Byte(byte) => (byte.checked_mul(8)?, None),
            MemberPlace::Bits { first, width } => (first, Some(width)),
            MemberPlace::BitsFromTop {
                byte,
                from_top,
                width,
                storage,
            } => {
                // It can start before its storage unit, counted from the top: in packed structs.
                let unit = storage.or(size)?.checked_mul(8)?;
                // `from_top` counts from the unit's most significant bit to the field's, so its end
                // is that far below the unit's.
                let end = unit.checked_add_signed(from_top.checked_neg()?)?;
                let first = end.checked_sub(u64::from(width))?;
                (byte.checked_mul(8)?.checked_add(first)?, Some(width))
            }
            MemberPlace::Dynamic => return None,
        };
        // Only integers and enums have bits, as the model checks.
        let bits = bits.filter(|bits| u64::from(*bits) <= size.unwrap_or(0).saturating_mul(8));
        let length = bits.map_or(size.unwrap_or(0).checked_mul(8)?, u64::from);
        Some(PlacedMember {
            end: offset.checked_add(length)?,
            member: Member {
                bits: bits.filter(|_| self.has_bits(raw.target)),
                alignment: raw.alignment,
                role: raw.role,
                line: raw.line,
                ..Member::new(raw.name.clone(), self.id(raw.target), BitOffset(offset))
            },
        })
    }

    /// Whether a bit-field can be of that type.
    fn has_bits(&self, target: Target) -> bool {
        let mut target = target;
        for _ in 0..MAX_DEPTH {
            let Some(node) = self.digests.node(target) else {
                return false;
            };
            match &self.nodes[node].raw {
                RawType::Qualified(_, inner) | RawType::Typedef(_, inner) => target = *inner,
                // As in `add`: longer ones are not integers of the model.
                RawType::Int { size, .. } => return *size < 32,
                raw => return matches!(raw, RawType::Enum { .. }),
            }
        }
        false
    }
}

/// Whether a member that extends past the end of its type is the unsized tail of a Rust struct,
/// such as `data` of `ArcInner<[u64]>`: the struct's size counts none of its elements, and the
/// compiler writes the type of one.
fn is_unsized_tail(composite: &RawComposite, raw: &RawMember) -> bool {
    let start = |member: &RawMember| match member.place {
        MemberPlace::Byte(byte) => Some(byte),
        _ => None,
    };
    // Only the last member: one in the middle that extends too far is broken.
    composite.language == Some(Language::Rust)
        && !composite.is_union
        && start(raw).is_some()
        && composite.members.iter().all(|m| start(m) <= start(raw))
}

fn float(name: &Name, size: u64) -> Type {
    Type::Float {
        name: name.clone(),
        size: u32::try_from(size).unwrap_or(0),
    }
}

fn enumeration(name: &Name, size: u64, values: &[(Name, i64)]) -> Type {
    let values = values.iter().map(|(name, value)| Enumerator {
        name: name.clone(),
        value: *value,
    });
    let values: Vec<Enumerator> = values.collect();
    Type::Enum {
        name: name.clone(),
        size: u32::try_from(size).unwrap_or(4),
        signed: values.iter().any(|v| v.value < 0),
        values,
    }
}

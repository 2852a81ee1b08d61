//! Which types are equal: a digest of each, to recognise a type that many units describe.
//!
//! A type held by value counts with everything it holds. A type behind a pointer counts by its name
//! and the names and offsets of its members: that ends the cycles of lists and trees. The walk has
//! an explicit stack.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_128;

use super::node::{Node, RawComposite, RawType, Target};
use crate::{DieKey, DwarfError};

/// How much of a type counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// Everything it holds.
    Whole,
    /// Its name and outer shape.
    Named,
}

/// What is known of a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) hash: u128,
    /// `sizeof`, if it is plausible.
    pub(crate) size: Option<u64>,
    /// How deep the types it holds by value are nested.
    pub(crate) depth: u32,
    /// The alignment that it has by itself.
    pub(crate) alignment: u64,
}

/// The nodes that are distinct types, and their digests.
pub(crate) struct Digests {
    /// The digest of each node with everything it refers to.
    pub(crate) whole: Vec<Digest>,
    /// By node: the node that represents it, which differs for declarations and aliases.
    pub(crate) same: Vec<usize>,
    pub(crate) index: FxHashMap<DieKey, usize>,
}

impl Digests {
    /// The node that `target` refers to; `None` for `void`.
    pub(crate) fn node(&self, target: Target) -> Option<usize> {
        let key = target?;
        self.index.get(&key).map(|index| self.same[*index])
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Entered,
    Done(Digest),
}

/// Digests all nodes.
///
/// # Errors
/// If one refers to something that is not a type.
pub(crate) fn digest(nodes: &[Node], pointer_size: u32) -> Result<Digests, DwarfError> {
    let index: FxHashMap<DieKey, usize> = nodes.iter().map(|n| n.key).zip(0..).collect();
    // All at once and first: the walk then follows no dangling reference.
    for node in nodes {
        check(node, &index)?;
    }
    let same = stand_ins(nodes, &index);
    let mut walk = Walk {
        nodes,
        digests: Digests {
            whole: Vec::new(),
            same,
            index,
        },
        // A type has a digest for each mode: behind a pointer it counts for less.
        states: [vec![State::New; nodes.len()], vec![State::New; nodes.len()]],
        pointer_size,
    };
    for node in 0..nodes.len() {
        let digest = walk.run(node);
        walk.digests.whole.push(digest);
    }
    Ok(walk.digests)
}

/// Whether every reference is to a type.
fn check(node: &Node, index: &FxHashMap<DieKey, usize>) -> Result<(), DwarfError> {
    let mut broken = None;
    for_each_target(&node.raw, &mut |target| {
        if let Some(key) = target {
            if !index.contains_key(&key) {
                broken = Some(key);
            }
        }
    });
    match broken {
        Some(target) => Err(DwarfError::NoSuchType {
            at: node.key,
            target,
        }),
        None => Ok(()),
    }
}

/// Visits all references of a type, by value or not.
pub(crate) fn for_each_target(raw: &RawType, visit: &mut dyn FnMut(Target)) {
    match raw {
        RawType::Int { .. } | RawType::Float { .. } => {}
        RawType::Pointer(target)
        | RawType::Qualified(_, target)
        | RawType::Typedef(_, target)
        | RawType::Array {
            element: target, ..
        }
        | RawType::Enum {
            storage: target, ..
        } => visit(*target),
        RawType::MemberPointer { member, class } => {
            visit(*member);
            visit(*class);
        }
        RawType::Composite(composite) => {
            visit(composite.specification);
            visit(composite.held);
            composite.members.iter().for_each(|m| visit(m.target));
        }
        RawType::Prototype {
            result, parameters, ..
        } => {
            visit(*result);
            parameters.iter().for_each(|(_, target)| visit(*target));
        }
        RawType::Alias(key) => visit(Some(*key)),
    }
}

/// By node, the node that represents it: the definition of a declaration, the type unit it names,
/// else itself.
fn stand_ins(nodes: &[Node], index: &FxHashMap<DieKey, usize>) -> Vec<usize> {
    // By kind and name: the only definition, or none if there are several that differ.
    let mut definitions: HashMap<(bool, &str), Option<(usize, u128)>> = HashMap::new();
    let mut of_specification = FxHashMap::default();
    for (number, node) in nodes.iter().enumerate() {
        let RawType::Composite(composite) = &node.raw else {
            continue;
        };
        // A declaration says nothing about the shape.
        if composite.size.is_none() {
            continue;
        }
        if let Some(declaration) = composite.specification {
            of_specification.insert(declaration, number);
        }
        if !composite.name.is_empty() {
            let shape = shape(composite);
            let key = (composite.is_union, composite.name.as_str());
            let entry = definitions.entry(key).or_insert(Some((number, shape)));
            // Two structs of one name in two files: which one is declared here cannot be known.
            if entry.is_some_and(|(_, known)| known != shape) {
                *entry = None;
            }
        }
    }
    let step = |number: usize| match &nodes[number].raw {
        RawType::Alias(key) => index.get(key).copied().unwrap_or(number),
        RawType::Composite(composite) if composite.size.is_none() => {
            let specified = of_specification.get(&nodes[number].key).copied();
            let named = || {
                let key = (composite.is_union, composite.name.as_str());
                let found = definitions.get(&key).copied().flatten();
                found.map(|(number, _)| number)
            };
            // The entry that refers back is certain; a name is a guess that is right while it is
            // unique.
            specified.or_else(named).unwrap_or(number)
        }
        _ => number,
    };
    // An alias of a declaration of a definition: longer chains are broken.
    (0..nodes.len()).map(|n| step(step(step(n)))).collect()
}

/// The name of a composite and the names and offsets of its members.
fn shape(composite: &RawComposite) -> u128 {
    let mut hash = Hashing::default();
    hash.add(&composite.name.as_str());
    hash.add(&composite.is_union);
    hash.add(&composite.size);
    for member in &composite.members {
        hash.add(&(member.name.as_str(), member.place, member.role));
    }
    hash.whole()
}

/// A hash of 128 bits: enough unless somebody constructs collisions, and a collision only merges
/// two types.
#[derive(Default)]
struct Hashing(Vec<u8>);

impl Hashing {
    fn add(&mut self, value: &impl Hash) {
        value.hash(self);
    }

    fn whole(&self) -> u128 {
        xxh3_128(&self.0)
    }
}

impl Hasher for Hashing {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        self.whole() as u64
    }
}

struct Walk<'n> {
    nodes: &'n [Node],
    digests: Digests,
    /// By mode and node.
    states: [Vec<State>; 2],
    pointer_size: u32,
}

impl Walk<'_> {
    fn run(&mut self, root: usize) -> Digest {
        let root = self.digests.same[root];
        let mut stack = vec![(root, Mode::Whole, false)];
        while let Some((node, mode, entered)) = stack.pop() {
            let state = self.states[mode as usize][node];
            if entered {
                let digest = self.combine(node, mode);
                self.states[mode as usize][node] = State::Done(digest);
            } else if state == State::New {
                // On a cycle the node is met again in this state and not entered twice; `known` has
                // nothing for it.
                self.states[mode as usize][node] = State::Entered;
                stack.push((node, mode, true));
                self.for_each_part(node, mode, &mut |part, mode| {
                    stack.push((part, mode, false));
                });
            }
        }
        self.known(root, Mode::Whole)
    }

    /// The digest of a part; nothing for a type that holds itself, which no compiler makes and the
    /// model refuses.
    fn known(&self, node: usize, mode: Mode) -> Digest {
        match self.states[mode as usize][node] {
            State::Done(digest) => digest,
            _ => Digest::default(),
        }
    }

    /// What has to be digested before `node`.
    fn for_each_part(&self, node: usize, mode: Mode, visit: &mut dyn FnMut(usize, Mode)) {
        let raw = &self.nodes[node].raw;
        let inner = match (raw, mode) {
            // Cycles end here. A type without a name has nothing else to be identified by, so it is
            // walked.
            (RawType::Composite(c), Mode::Named) if !c.name.is_empty() => return,
            (
                RawType::Pointer(_) | RawType::MemberPointer { .. } | RawType::Prototype { .. },
                _,
            ) => Mode::Named,
            (_, mode) => mode,
        };
        for_each_target(raw, &mut |target| {
            if let Some(part) = self.digests.node(target) {
                visit(part, inner);
            }
        });
    }

    fn combine(&self, node: usize, mode: Mode) -> Digest {
        let raw = &self.nodes[node].raw;
        let mut hash = Hashing::default();
        let mut depth = 0;
        let mut alignment = 1;
        // A typedef and a struct of one name are two types.
        hash.add(&std::mem::discriminant(raw));
        hash.add(&raw.name());
        own(raw, &mut hash);
        self.for_each_part(node, mode, &mut |part, inner| {
            let digest = self.known(part, inner);
            hash.add(&digest.hash);
            // The target of a pointer is not held by value: it neither nests nor aligns.
            if inner == Mode::Whole {
                depth = depth.max(digest.depth);
                alignment = alignment.max(digest.alignment);
            }
        });
        if let RawType::Composite(composite) = raw {
            alignment = alignment.max(u64::from(composite.alignment));
        }
        let size = self.size(raw);
        if matches!(
            raw,
            RawType::Int { .. } | RawType::Float { .. } | RawType::Pointer(_)
        ) {
            alignment = size.unwrap_or(1).max(1);
        }
        Digest {
            hash: hash.whole(),
            size,
            depth: depth + 1,
            alignment,
        }
    }

    fn size(&self, raw: &RawType) -> Option<u64> {
        let of = |target| {
            self.digests
                .node(target)
                .and_then(|node| self.known(node, Mode::Whole).size)
        };
        match raw {
            RawType::Int { size, .. } | RawType::Float { size, .. } => Some(*size),
            RawType::Pointer(_) => Some(u64::from(self.pointer_size)),
            RawType::Qualified(_, target) | RawType::Typedef(_, target) => of(*target),
            RawType::Array { element, counts } => counts
                .iter()
                .try_fold(of(*element)?, |size, count| size.checked_mul(*count))
                // What the model refuses has no size, so that nothing containing it gets a
                // plausible one.
                .filter(|size| *size <= linemate_types::MAX_SIZE),
            RawType::Composite(composite) => composite.size,
            RawType::Enum { size, storage, .. } => size.or_else(|| of(*storage)),
            // A pointer to a member function is its address and an adjustment of `this`.
            RawType::MemberPointer { member, .. } => {
                let node = self.digests.node(*member).map(|node| &self.nodes[node].raw);
                let is_function = matches!(node, Some(RawType::Prototype { .. }));
                Some(u64::from(self.pointer_size) * if is_function { 2 } else { 1 })
            }
            RawType::Prototype { .. } | RawType::Alias(_) => None,
        }
    }
}

/// The type's own attributes, without the types it refers to.
fn own(raw: &RawType, hash: &mut Hashing) {
    match raw {
        RawType::Int { size, encoding, .. } => hash.add(&(size, encoding)),
        RawType::Float { size, .. } => hash.add(size),
        RawType::Qualified(qualifier, _) => hash.add(&std::mem::discriminant(qualifier)),
        RawType::Array { element, counts } => hash.add(&(element.is_some(), counts)),
        RawType::Composite(composite) => {
            hash.add(&shape(composite));
            hash.add(&composite.alignment);
        }
        RawType::Enum { size, values, .. } => {
            hash.add(size);
            for (name, value) in values {
                hash.add(&(name.as_str(), value));
            }
        }
        RawType::Prototype {
            parameters,
            result,
            variadic,
        } => {
            hash.add(&(result.is_some(), variadic));
            for (name, target) in parameters {
                hash.add(&(name.as_str(), target.is_some()));
            }
        }
        RawType::Pointer(target) | RawType::Typedef(_, target) => hash.add(&target.is_some()),
        RawType::MemberPointer { member, class } => hash.add(&(member.is_some(), class.is_some())),
        RawType::Alias(_) => {}
    }
}

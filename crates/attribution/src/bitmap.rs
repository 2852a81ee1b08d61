//! Which fields of a recording's types are bitmaps, and which point to one.
//!
//! A bitmap is a struct of one member that is an array of `unsigned long` (`cpumask`,
//! `nodemask_t`), or a member that is such an array itself. A pointer to one is a pointer to such a
//! struct (`cpumask_var_t` of a kernel with `CONFIG_CPUMASK_OFFSTACK`).

use linemate_types::{FlatType, IntEncoding, Type, TypeId, TypeModel};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::schema::Schema;
use crate::subjects::{FieldRef, Subject, SubjectId};

/// A bitmap's number among a recording's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BitmapId(pub u32);

/// The bitmaps of a recording's subjects.
#[derive(Debug, Default)]
pub(crate) struct Bitmaps {
    /// By subject and byte: the bitmap there.
    inside: FxHashMap<FieldRef, BitmapId>,
    /// By subject and byte: the target bitmap of the pointer there.
    pointed_to: FxHashMap<FieldRef, BitmapId>,
    /// Bitmaps' names, by their number.
    names: Vec<String>,
}

/// Larger types are not searched: they hold tables, not fields.
const TYPE_BYTES_MAX: u64 = 1 << 20;

/// Bytes that are in a bitmap or in a pointer to one, at most: bounds memory to about 50 MB. Those
/// of later subjects are not known.
const BYTES_MAX: usize = 1 << 21;

impl Bitmaps {
    /// The bitmaps in the types of a recording's subjects.
    pub(crate) fn new(model: &TypeModel, schema: &Schema, subjects: &[Subject]) -> Bitmaps {
        let mut bitmaps = Bitmaps::default();
        for (number, subject) in (0u32..).map(SubjectId).zip(subjects) {
            let about = subject.ty.and_then(|ty| schema.get(ty));
            let Some(about) = about.filter(|about| about.size <= TYPE_BYTES_MAX) else {
                continue;
            };
            let owner = if about.name.is_empty() {
                &subject.label
            } else {
                &about.name
            };
            if let Ok(flat) = FlatType::new(model, about.id) {
                bitmaps.take(model, number, owner, &flat);
            }
        }
        bitmaps
    }

    fn take(&mut self, model: &TypeModel, subject: SubjectId, owner: &str, flat: &FlatType) {
        for leaf in flat.leaves() {
            let is_array = is_words(model, leaf.type_id, leaf.arrays.last());
            let points = points_to_bitmap(model, leaf.type_id);
            if !is_array && !points {
                continue;
            }
            let Ok(id) = u32::try_from(self.names.len()) else {
                return;
            };
            let id = BitmapId(id);
            self.names.push(format!("{owner}.{}", leaf.path));
            // All elements of all arrays around it; atomics on a bitmap can start at any of its
            // bytes.
            let step = if is_array { 1 } else { 8 };
            let mut starts = vec![leaf.offset.0];
            for (stride, count) in &leaf.arrays {
                // Nested arrays multiply: a hostile type must not expand into a table of all of
                // them.
                let room = TYPE_BYTES_MAX / (starts.len() as u64).max(1);
                starts = (0..(*count).min(room))
                    .flat_map(|i| starts.iter().map(move |start| start + i * stride))
                    .collect();
            }
            if self.inside.len() + self.pointed_to.len() >= BYTES_MAX {
                return;
            }
            let map = if is_array {
                &mut self.inside
            } else {
                &mut self.pointed_to
            };
            for start in starts {
                for byte in (0..leaf.size).step_by(step) {
                    if let Ok(offset) = u32::try_from(start + byte) {
                        map.insert(FieldRef { subject, offset }, id);
                    }
                }
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn of(inside: FieldRef, pointed_to: FieldRef) -> Bitmaps {
        Bitmaps {
            inside: FxHashMap::from_iter([(inside, BitmapId(0))]),
            pointed_to: FxHashMap::from_iter([(pointed_to, BitmapId(1))]),
            names: vec!["mask".to_owned(), "pointer".to_owned()],
        }
    }

    /// The bitmap that contains that byte.
    pub(crate) fn inside(&self, field: FieldRef) -> Option<BitmapId> {
        self.inside.get(&field).copied()
    }

    /// The bitmap that the pointer at that byte points to.
    pub(crate) fn pointed_to(&self, field: FieldRef) -> Option<BitmapId> {
        self.pointed_to.get(&field).copied()
    }

    /// What it is called.
    pub(crate) fn name(&self, id: BitmapId) -> &str {
        self.names.get(id.0 as usize).map_or("", String::as_str)
    }
}

/// Whether a leaf inside of an array is one of a bitmap's words.
fn is_words(model: &TypeModel, element: TypeId, array: Option<&(u64, u64)>) -> bool {
    array.is_some_and(|(stride, _)| *stride == 8) && is_word(model, element)
}

fn is_word(model: &TypeModel, id: TypeId) -> bool {
    matches!(
        model.get(model.strip(id)),
        Some(Type::Int {
            size: 8,
            // `unsigned long`: an array of signed words is a table of numbers.
            encoding: IntEncoding::Unsigned,
            ..
        })
    )
}

fn points_to_bitmap(model: &TypeModel, id: TypeId) -> bool {
    let target = model.pointer_to_composite(id);
    let Some(composite) = target.and_then(|target| model.composite(target)) else {
        return false;
    };
    let [only] = &composite.members[..] else {
        return false;
    };
    match model.get(model.strip(only.type_id)) {
        Some(Type::Array { element, .. }) => is_word(model, *element),
        _ => false,
    }
}

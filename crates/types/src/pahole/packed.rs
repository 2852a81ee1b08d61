//! Which structs must be `__packed__`: neither BTF nor DWARF says so, the offsets show it.

use super::Printer;
use crate::{Composite, CompositeKind, Member, Type, TypeId};

impl Printer<'_> {
    /// Whether a struct must be packed: it has no room left, and members at offsets they could not
    /// have otherwise.
    pub(super) fn infer_packed(&mut self, id: TypeId, composite: &Composite) -> bool {
        if let Some(known) = self.packed.get(&id) {
            return *known;
        }
        let layout = self.layout(id);
        let packed = if layout.padding != 0 || layout.holes != 0 {
            self.infer_packed_members(composite);
            // The walk over the members can only have found this very type if it contains itself.
            false
        } else {
            let mut largest = 1;
            let mut misplaced = false;
            for (member, place) in composite.members.iter().zip(&layout.members) {
                let natural = self.alignments.natural(member.type_id);
                largest = largest.max(natural);
                misplaced |= place.offset.0 % natural != 0;
            }
            misplaced || largest != 1 && composite.alignment == 1 || layout.size % largest != 0
        };
        self.packed.insert(id, packed);
        packed
    }

    /// Embedded structs at unnatural offsets must be packed.
    fn infer_packed_members(&mut self, composite: &Composite) {
        for member in &composite.members {
            if let Some(id) = self.embedded_struct(member) {
                let natural = self.alignments.natural(id);
                if member.offset.byte().0 % natural != 0 {
                    self.packed.insert(id, true);
                }
            }
        }
    }

    /// Structs in a union whose size is not a multiple of their alignment must be packed.
    pub(super) fn infer_packed_in_union(&mut self, id: TypeId, composite: &Composite) {
        if !self.unions_inferred.insert(id) {
            return;
        }
        for member in &composite.members {
            if let Some(id) = self.embedded_struct(member) {
                if u64::from(composite.size) % self.alignments.natural(id) != 0 {
                    self.packed.insert(id, true);
                }
            }
        }
    }

    fn embedded_struct(&self, member: &Member) -> Option<TypeId> {
        let id = self.model.strip(member.type_id);
        match self.model.get(id) {
            Some(Type::Composite(c)) if c.kind == CompositeKind::Struct => Some(id),
            _ => None,
        }
    }
}

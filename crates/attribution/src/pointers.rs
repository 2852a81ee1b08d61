//! The targets of pointers in imaged structs: evidence like a sighting, from before the first
//! event.
//!
//! It names objects that no function receives by type: per-CPU statistics allocated while the
//! kernel booted, and pointers that only ever go from one struct's member to the next function's
//! register.

use std::ops::Range;

use linemate_types::{ByteOffset, POINTER_ROOTS, Symbols, TypeId, TypeModel};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::map::{KernelMap, PercpuAreas};
use crate::memory::KernelMemory;
use crate::schema::{Schema, TypeIndex};
use crate::votes::EMBEDDERS_MAX;

/// The maximum number of structs whose pointers are followed: images of a broken recording may be
/// full of them.
const FOLLOWED_MAX: usize = 1 << 16;

/// What is needed to follow pointers.
pub(crate) struct Pointers<'a> {
    pub(crate) model: &'a TypeModel,
    pub(crate) schema: &'a Schema,
    /// BTF type ids to types.
    pub(crate) types: &'a FxHashMap<u32, TypeIndex>,
    pub(crate) symbols: &'a Symbols,
    pub(crate) memory: &'a KernelMemory,
}

impl Pointers<'_> {
    /// Addresses (per-CPU addresses for per-CPU pointers) and their targets, sorted, each once.
    /// Followed from CPU 0's per-CPU variables, the caches and [`POINTER_ROOTS`] as far as there
    /// are images.
    pub(crate) fn pointed(&self, map: &KernelMap) -> Vec<(u64, TypeIndex)> {
        let mut to_follow = self.roots(map);
        let mut known: FxHashSet<(u64, TypeId)> = to_follow.iter().map(|(p, _)| *p).collect();
        let init = self.init();
        let mut found = Vec::new();
        while let Some(((at, ty), flexible)) = to_follow.pop() {
            for (to, ty) in self.pointers(at, ty, flexible) {
                // Structs with pointers are aligned to 8, some others to 4: odd values are flags in
                // a pointer's low bits, or not pointers.
                let sound = to % 4 == 0 && is_place(to, map, &init);
                if !sound || known.len() >= FOLLOWED_MAX || !known.insert((to, ty)) {
                    continue;
                }
                let pointee = self.types.get(&ty.0).copied();
                // A pointer to a `list_head` names no object, but its target is followed all the
                // same.
                let telling = pointee.filter(|t| self.schema.embedder_count(*t) <= EMBEDDERS_MAX);
                found.extend(telling.map(|pointee| (to, pointee)));
                to_follow.push(((to, ty), 0));
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The pointers in a struct; none if there is no image of it.
    fn pointers(&self, at: u64, ty: TypeId, flexible: u32) -> Vec<(u64, TypeId)> {
        // Most targets have no image.
        if self.memory.bytes(at, 1).is_none() {
            return Vec::new();
        }
        let places = self.model.pointers_in(ty, flexible);
        let target = |(offset, to): (ByteOffset, TypeId)| {
            Some((self.memory.u64(at.checked_add(offset.0)?)?, to))
        };
        places.into_iter().filter_map(target).collect()
    }

    fn roots(&self, map: &KernelMap) -> Vec<((u64, TypeId), u32)> {
        let first = map.percpu.offsets.first();
        let first = first.map(|o| o.wrapping_add(self.symbols.percpu_base()));
        let variables = self.model.percpu_variables().into_iter();
        let mut found: Vec<_> = variables
            .filter_map(|v| Some(((first?.wrapping_add(v.offset.0), v.type_id), 0)))
            .collect();
        if let Some(cache) = self.model.struct_named("kmem_cache") {
            found.extend(map.caches.iter().map(|c| ((c.address.0, cache), 0)));
        }
        for root in POINTER_ROOTS {
            let variable = self.symbols.address_of(root.symbol);
            let ty = self.model.struct_named(root.struct_name);
            let (Some(variable), Some(ty)) = (variable, ty) else {
                continue;
            };
            if root.pointers == 0 {
                found.push(((variable, ty), root.flexible));
            }
            let word = |i| self.memory.u64(variable.wrapping_add(8 * i));
            let words = (0..root.pointers as u64).map(word);
            found.extend(words.map_while(|to| Some(((to?, ty), root.flexible))));
        }
        found
    }

    /// What the kernel freed after booting.
    fn init(&self) -> Range<u64> {
        let symbol = |name| self.symbols.address_of(name);
        match (symbol("__init_begin"), symbol("__init_end")) {
            (Some(start), Some(end)) if start < end => start..end,
            _ => 0..0,
        }
    }
}

/// Whether a struct can be there. A per-CPU pointer is recognised by its value: at these addresses
/// there is nothing else except what the kernel freed after booting (from Linux 6.15 on), and where
/// something else is, the pointer is not considered per-CPU.
fn is_place(address: u64, map: &KernelMap, init: &Range<u64>) -> bool {
    let image = map.image.contains(&address) && !init.contains(&address);
    let dynamic = is_dynamic_percpu(address, &map.percpu);
    image != dynamic
        || (!image && (map.direct_map.contains(&address) || map.vmalloc.contains(&address)))
}

/// Whether an address is a per-CPU address after the static section, in the first chunk.
pub(crate) fn is_dynamic_percpu(address: u64, percpu: &PercpuAreas) -> bool {
    let end = percpu.section.start.saturating_add(percpu.unit_size);
    (percpu.section.end..end).contains(&address)
}

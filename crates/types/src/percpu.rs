//! The kernel's per-CPU variables.

use linemate_units::ByteOffset;

use crate::{Name, Type, TypeId, TypeModel};

/// A variable of which each CPU has a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PercpuVariable {
    pub name: Name,
    /// From the start of the per-CPU section.
    pub offset: ByteOffset,
    /// The size in bytes.
    pub size: u32,
    pub type_id: TypeId,
}

/// The name of the kernel's per-CPU section (include/linux/percpu-defs.h: PER_CPU_BASE_SECTION).
pub const PERCPU_SECTION: &str = ".data..percpu";

impl TypeModel {
    /// The per-CPU variables, by offset; empty if the debug information has none.
    pub fn percpu_variables(&self) -> Vec<PercpuVariable> {
        let mut found = Vec::new();
        for id in self.named(PERCPU_SECTION) {
            let Some(Type::Section { variables, .. }) = self.get(*id) else {
                continue;
            };
            for place in variables {
                if let Some(Type::Variable { name, type_id, .. }) = self.get(place.variable) {
                    found.push(PercpuVariable {
                        name: name.clone(),
                        offset: ByteOffset(u64::from(place.offset)),
                        size: place.size,
                        type_id: *type_id,
                    });
                }
            }
        }
        found.sort_by(|a, b| a.offset.cmp(&b.offset).then_with(|| a.name.cmp(&b.name)));
        found
    }
}

//! The pointers to structs in a struct, and the variables from which to start following them.

use linemate_units::ByteOffset;

use crate::TypeId;
use crate::model::{CompositeKind, Type, TypeModel};

/// The deepest nesting that is followed. The kernel's deepest struct nests 12 levels.
const DEPTH_MAX: usize = 24;

/// The maximum number of pointers reported for one struct: `pglist_data` has 10,000.
const POINTERS_MAX: usize = 1 << 16;

/// A kernel variable from which pointers are followed. BTF has no types of globals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerRoot {
    pub symbol: &'static str,
    /// The struct that it is or points to.
    pub struct_name: &'static str,
    /// How many pointers to the struct it holds at most; 0 if it is the struct.
    pub pointers: usize,
    /// The least number of elements of the flexible array at the struct's end.
    pub flexible: u32,
}

/// Where the kernel keeps what no other struct leads to: its memory nodes (mm/numa.c,
/// include/linux/mmzone.h), the root of the memory groups, whose last member has an element for
/// each node (mm/memcontrol.c), the first task (init/init_task.c), the first network namespace
/// (net/core/net_namespace.c). Per-CPU variables, which BTF knows, are roots, too.
pub const POINTER_ROOTS: [PointerRoot; 5] = [
    root("node_data", "pglist_data", 64, 0),
    root("contig_page_data", "pglist_data", 0, 0),
    root("root_mem_cgroup", "mem_cgroup", 1, 1),
    root("init_task", "task_struct", 0, 0),
    root("init_net", "net", 0, 0),
];

const fn root(
    symbol: &'static str,
    struct_name: &'static str,
    pointers: usize,
    flexible: u32,
) -> PointerRoot {
    PointerRoot {
        symbol,
        struct_name,
        pointers,
        flexible,
    }
}

/// The search's criteria and results.
struct PointerSearch<'a> {
    model: &'a TypeModel,
    flexible: u32,
    found: Vec<(ByteOffset, TypeId)>,
}

impl TypeModel {
    /// Where a struct holds pointers to structs and unions, and to which, in declaration order: its
    /// own pointers and those of embedded structs and arrays. Unions are left out, because another
    /// member may be in use. A flexible array counts as one of `flexible` elements, after the
    /// struct's end.
    pub fn pointers_in(&self, id: TypeId, flexible: u32) -> Vec<(ByteOffset, TypeId)> {
        let mut search = PointerSearch {
            model: self,
            flexible,
            found: Vec::new(),
        };
        search.add(id, 0, DEPTH_MAX);
        search.found
    }
}

impl PointerSearch<'_> {
    fn add(&mut self, id: TypeId, at: u64, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else {
            return;
        };
        // Not followed here: its target is another object.
        if let Some(pointee) = self.model.pointer_to_composite(id) {
            if self.found.len() < POINTERS_MAX {
                self.found.push((ByteOffset(at), pointee));
            }
            return;
        }
        match self.model.get(self.model.strip(id)) {
            Some(Type::Composite(composite)) if composite.kind == CompositeKind::Struct => {
                for member in composite.members.iter().filter(|m| m.bits.is_none()) {
                    let offset = at.saturating_add(member.offset.0 / 8);
                    self.add(member.type_id, offset, depth);
                }
            }
            Some(Type::Array { element, count, .. }) => {
                let count = if *count == 0 { self.flexible } else { *count };
                self.add_elements(*element, count, at, depth);
            }
            _ => {}
        }
    }

    /// An array whose first element has no pointer has none, so a huge array costs nothing.
    fn add_elements(&mut self, element: TypeId, count: u32, at: u64, depth: usize) {
        let stride = self.model.size_of(element).unwrap_or(0);
        for index in 0..u64::from(count) {
            let before = self.found.len();
            self.add(
                element,
                at.saturating_add(index.saturating_mul(stride)),
                depth,
            );
            if self.found.len() == before {
                return;
            }
        }
    }
}

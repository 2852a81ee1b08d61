//! Groups of members that the source declares to belong together.
//!
//! The kernel's `__cacheline_group_begin(X)` and `__cacheline_group_end(X)` declare members of size
//! 0, `__cacheline_group_begin__X` and `__cacheline_group_end__X`, so debug information has them
//! (include/linux/cache.h, since Linux 6.8).

use std::collections::BTreeMap;

use linemate_units::ByteOffset;

use crate::{TypeId, TypeModel};

const BEGIN: &str = "__cacheline_group_begin__";
const END: &str = "__cacheline_group_end__";

/// A group that a type declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredGroup {
    /// Its name, such as `sock_read_rx`.
    pub name: String,
    /// From the first byte after its begin.
    pub start: ByteOffset,
    /// To the last one before its end.
    pub end: ByteOffset,
}

impl DeclaredGroup {
    /// Whether a member that starts there belongs to it.
    #[must_use]
    pub fn has(&self, offset: ByteOffset) -> bool {
        (self.start..self.end).contains(&offset)
    }
}

/// The groups of the struct that `id` refers to, by their place; those without an end are left out.
#[must_use]
pub fn declared_groups(model: &TypeModel, id: TypeId) -> Vec<DeclaredGroup> {
    let members = model.composite(id).map_or(&[][..], |of| &of.members);
    let mut begun: BTreeMap<&str, ByteOffset> = BTreeMap::new();
    let mut groups = Vec::new();
    for member in members {
        let at = ByteOffset(member.offset.0 / 8);
        let name: &str = &member.name;
        if let Some(name) = name.strip_prefix(BEGIN) {
            begun.insert(name, at);
        } else if let Some(name) = name.strip_prefix(END) {
            let start = begun.remove(name);
            groups.extend(start.map(|start| DeclaredGroup {
                name: name.to_owned(),
                start,
                end: at,
            }));
        }
    }
    groups.sort_by_key(|group| (group.start, group.end));
    groups
}

/// Whether the member is one of the marks that begin and end groups, or their padding.
#[must_use]
pub fn is_group_mark(name: &str) -> bool {
    name.starts_with("__cacheline_group_")
}

/// The structs with a name that declare groups, by name; of several with one name the first.
#[must_use]
pub fn types_with_groups(model: &TypeModel) -> Vec<TypeId> {
    let mut found: BTreeMap<&str, TypeId> = BTreeMap::new();
    for (id, _) in model.iter() {
        let name = model.composite_name(id);
        if !name.is_empty() && model.strip(id) == id && !declared_groups(model, id).is_empty() {
            found.entry(name).or_insert(id);
        }
    }
    found.into_values().collect()
}

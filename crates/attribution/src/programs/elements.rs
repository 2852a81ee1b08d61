//! The targets of Rust's vectors.
//!
//! A vector's pointer is declared as a pointer to bytes, whatever its elements are: `RawVec<T>`
//! holds a `RawVecInner`, which is the same for all `T`, so that code that only moves memory is
//! compiled once. `T` is only in the outer type's name.

use linemate_types::{Type, TypeId, TypeModel};
use rustc_hash::FxHashMap;

/// The text before `T`.
const VECTOR: &str = "alloc::raw_vec::RawVec<";
/// The same for Rust's only pointer type.
const BOX: &str = "alloc::boxed::Box<";
/// The prefixes of names of references and pointers.
const POINTERS: [&str; 4] = ["&mut ", "&", "*const ", "*mut "];

/// Finds the elements of vectors.
#[derive(Debug, Default)]
pub(super) struct Elements {
    /// By vector: its elements' type; `None` if no type has the name, or several do.
    of: FxHashMap<TypeId, Option<TypeId>>,
}

impl Elements {
    pub(super) fn new(model: &TypeModel) -> Elements {
        let name = |id| match model.get(id) {
            Some(Type::Composite(composite)) => Some(&*composite.name),
            Some(Type::Int { name, .. } | Type::Float { name, .. }) => Some(&**name),
            _ => None,
        };
        let ids = || (0..model.len() as u32).map(TypeId);
        let vectors = ids().filter_map(|id| Some((id, element_name(name(id)?)?)));
        let vectors: Vec<(TypeId, &str)> = vectors.collect();
        if vectors.is_empty() {
            return Elements::default();
        }
        let mut named: FxHashMap<&str, Option<TypeId>> = FxHashMap::default();
        let mut pointers: FxHashMap<TypeId, TypeId> = FxHashMap::default();
        for id in ids() {
            if let Some(Type::Pointer { target }) = model.get(id) {
                pointers.entry(model.strip(*target)).or_insert(id);
            }
            if let Some(name) = name(id) {
                let known = named.entry(name).or_insert(Some(id));
                // Two types of one name: the name does not say which of them is meant.
                *known = known.filter(|known| *known == id);
            }
        }
        let resolve = |name: &str| match (named.get(name), pointed_name(name)) {
            (Some(found), _) => *found,
            (None, Some(target)) => pointers.get(&(*named.get(target)?)?).copied(),
            (None, None) => None,
        };
        let of = vectors.into_iter().map(|(id, name)| (id, resolve(name)));
        Elements { of: of.collect() }
    }

    /// The target of a vector's pointer; the outer `None` for all other types.
    pub(super) fn of(&self, id: TypeId) -> Option<Option<TypeId>> {
        self.of.get(&id).copied()
    }
}

/// `T` of the name of a vector's type.
fn element_name(vector: &str) -> Option<&str> {
    first_parameter(vector.strip_prefix(VECTOR)?)
}

/// The target type in the name of a pointer type.
fn pointed_name(name: &str) -> Option<&str> {
    if let Some(parameters) = name.strip_prefix(BOX) {
        return first_parameter(parameters);
    }
    POINTERS.iter().find_map(|prefix| name.strip_prefix(prefix))
}

/// Up to the comma or bracket that ends the first parameter.
fn first_parameter(parameters: &str) -> Option<&str> {
    let mut open = 0u32;
    let mut before = ' ';
    for (at, c) in parameters.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => open += 1,
            // An arrow's head closes nothing.
            '>' if before == '-' => {}
            ',' | '>' if open == 0 => return Some(&parameters[..at]),
            '>' | ')' | ']' | '}' => open = open.checked_sub(1)?,
            _ => {}
        }
        before = c;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_element_is_the_first_parameter() {
        let of = |inner: &str| {
            let name = format!("alloc::raw_vec::RawVec<{inner}, alloc::alloc::Global>");
            assert_eq!(element_name(&name), Some(inner), "{name}");
        };
        of("u8");
        of("oracle::Node<u64, (i8, [u8; 4])>");
        of("(dyn core::ops::FnOnce<(), Output=()> + core::marker::Send)");
        of("fn(u8, u16) -> alloc::string::String");
        assert_eq!(element_name("alloc::raw_vec::RawVec<u8>"), Some("u8"));
        assert_eq!(element_name("alloc::raw_vec::RawVec<u8"), None);
        assert_eq!(element_name("alloc::raw_vec::RawVec<)u8>"), None);
        assert_eq!(element_name("alloc::raw_vec::RawVecInner<u8>"), None);
    }

    #[test]
    fn boxes_and_references_are_pointers() {
        let name = "alloc::boxed::Box<oracle::Conn, alloc::alloc::Global>";
        assert_eq!(pointed_name(name), Some("oracle::Conn"));
        assert_eq!(pointed_name("&mut oracle::Conn"), Some("oracle::Conn"));
        assert_eq!(pointed_name("&str"), Some("str"));
        assert_eq!(pointed_name("oracle::Conn"), None);
    }
}

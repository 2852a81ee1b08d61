//! Names that the user may have meant.

use crate::{Type, TypeModel};

impl TypeModel {
    /// The names of structs, unions and typedefs that are most like `name`, at most three: see [`linemate_text::nearest`].
    pub fn nearest_names(&self, name: &str) -> Vec<String> {
        let wanted = name.split_whitespace().last().unwrap_or("");
        let types = self.iter().map(|(_, t)| t);
        let offered = types.filter(|t| matches!(t, Type::Composite(_) | Type::Typedef { .. }));
        linemate_text::nearest(wanted, offered.map(Type::name))
    }
}

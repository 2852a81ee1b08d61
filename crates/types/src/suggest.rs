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

#[cfg(test)]
mod tests {
    use crate::TypeModel;
    use crate::btf_writer::TypeList;

    #[test]
    fn misspelt_names_find_their_neighbours() {
        let mut list = TypeList::default();
        for name in ["task_struct", "task_group", "root_domain", "rq", "rb", ""] {
            list.structure(name, 0, &[]);
        }
        let model = TypeModel::new(list.types, 8).unwrap();
        assert_eq!(model.nearest_names("task_strcut"), ["task_struct"]);
        assert_eq!(model.nearest_names("struct tsk_group"), ["task_group"]);
        assert_eq!(model.nearest_names("rr"), ["rb", "rq"]);
        assert!(model.nearest_names("").is_empty());
    }
}

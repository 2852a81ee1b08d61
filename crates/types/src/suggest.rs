//! Names that the user may have meant.

use std::collections::BTreeSet;

use crate::{Type, TypeModel};

/// Names further away than this, in edits, are no help.
const MAX_DISTANCE: usize = 3;

impl TypeModel {
    /// The names of structs, unions and typedefs nearest to `name` (fewest edits, then by alphabet), at most `count`.
    ///
    /// A name that contains `name` is as far away as it is longer, so that `domain` finds `root_domain`.
    pub fn nearest_names(&self, name: &str, count: usize) -> Vec<String> {
        let wanted = name.split_whitespace().last().unwrap_or("");
        if wanted.is_empty() {
            return Vec::new();
        }
        let limit = MAX_DISTANCE.min(wanted.len().div_ceil(3));
        let mut found = BTreeSet::new();
        for (_, t) in self.iter() {
            if !matches!(t, Type::Composite(_) | Type::Typedef { .. }) || t.name().is_empty() {
                continue;
            }
            let candidate = t.name();
            let distance = if wanted.len() >= 4 && candidate.contains(wanted) {
                1 + candidate.len() - wanted.len()
            } else if candidate.len().abs_diff(wanted.len()) <= limit {
                strsim::damerau_levenshtein(candidate, wanted)
            } else {
                continue;
            };
            // What contains the name comes after what is misspelt by as much, but is never too far.
            if distance <= limit || candidate.contains(wanted) {
                found.insert((distance, candidate));
            }
        }
        found
            .into_iter()
            .take(count)
            .map(|(_, name)| name.to_owned())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::TypeModel;
    use crate::btf_writer::TypeList;

    #[test]
    fn misspelt_names_find_their_neighbours() {
        let mut list = TypeList::default();
        for name in ["task_struct", "task_group", "root_domain", "rq", "rb"] {
            list.structure(name, 0, &[]);
        }
        let model = TypeModel::new(list.types, 8).unwrap();
        assert_eq!(model.nearest_names("task_strcut", 3), ["task_struct"]);
        assert_eq!(model.nearest_names("struct tsk_group", 3), ["task_group"]);
        assert_eq!(model.nearest_names("domain", 3), ["root_domain"]);
        assert_eq!(model.nearest_names("rr", 3), ["rb", "rq"]);
        assert_eq!(model.nearest_names("rr", 1), ["rb"]);
        assert!(model.nearest_names("nothing_like_it", 3).is_empty());
        assert!(model.nearest_names("", 3).is_empty());
    }
}

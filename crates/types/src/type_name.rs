//! The names of types as pahole writes them: `struct foo *`, `const char  *`, `void (*)(int)`.

use std::fmt::Write;

use crate::{Prototype, Qualifier, Type, TypeId, TypeModel};

/// How many more bytes of text may be made. Prototypes of prototypes can describe a text that
/// doubles with each level: the budget ends that.
pub(crate) struct Budget(pub(crate) usize);

impl Budget {
    fn spend(&mut self, bytes: usize) -> bool {
        // One more, or prototypes whose types and parameters have no names would be free.
        self.0 = self.0.saturating_sub(bytes + 1);
        self.0 != 0
    }

    /// Whether names and `written` bytes of text together have used it up.
    pub(crate) fn is_spent(&self, written: usize) -> bool {
        self.0 <= written
    }
}

/// Makes names of `model`'s types.
pub(crate) fn type_name<'a>(model: &'a TypeModel, budget: &'a mut Budget) -> TypeName<'a> {
    TypeName { model, budget }
}

pub(crate) struct TypeName<'a> {
    model: &'a TypeModel,
    budget: &'a mut Budget,
}

impl TypeName<'_> {
    /// The name of type `id`. Recursion: at most MAX_DEPTH.
    pub(crate) fn of(&mut self, id: TypeId) -> String {
        let model = self.model;
        let Some(t) = model.get(id) else {
            return String::new();
        };
        if !self.budget.spend(t.name().len()) {
            return "...".to_owned();
        }
        match t {
            Type::Void => "void".to_owned(),
            Type::Pointer { target } => self.pointer(*target),
            Type::Qualified { qualifier, target } => {
                let name = self.of(*target);
                match qualifier {
                    Qualifier::Const => format!("const {name} "),
                    Qualifier::Volatile => format!("volatile {name} "),
                    Qualifier::Restrict => format!("{name} restrict "),
                    Qualifier::Atomic => format!("_Atomic {name} "),
                    Qualifier::Tag(_) => name,
                }
            }
            // Dimensions follow the declared name, which only the caller knows.
            Type::Array { element, .. } => self.of(*element),
            Type::Prototype(prototype) => {
                let result = self.of(prototype.result);
                format!("{result} (){}", self.parameters(prototype))
            }
            Type::Composite(composite) => {
                format!("{} {}", composite.keyword(), composite.name)
            }
            Type::Forward { kind, name } => format!("{} {name}", kind.keyword()),
            Type::Enum { name, .. } => format!("enum {name}"),
            other => other.name().to_owned(),
        }
    }

    fn pointer(&mut self, target: TypeId) -> String {
        // `X * const *`: a const pointer's qualifier follows its star.
        if let Some(Type::Qualified {
            qualifier: Qualifier::Const,
            target: inner,
        }) = self.model.get(target)
        {
            if let Some(Type::Pointer { .. }) = self.model.get(*inner) {
                return format!("{} const *", self.of(*inner));
            }
        }
        format!("{} *", self.of(target))
    }

    /// `(int a, struct foo * b)`
    pub(crate) fn parameters(&mut self, prototype: &Prototype) -> String {
        let mut text = String::from("(");
        for (index, parameter) in prototype.parameters.iter().enumerate() {
            if index > 0 {
                text.push_str(", ");
            }
            let (name, id) = (&parameter.name, parameter.type_id);
            if !self.budget.spend(name.len()) {
                break;
            }
            let behind = match self.model.get(id) {
                Some(Type::Pointer { target }) => self.model.get(*target),
                _ => None,
            };
            // Writing to a String does not fail.
            let _ = match behind {
                Some(Type::Prototype(inner)) => {
                    let result = self.of(inner.result);
                    write!(text, "{result} (*{name}){}", self.parameters(inner))
                }
                _ if name.is_empty() => write!(text, "{}", self.of(id)),
                _ => write!(text, "{} {name}", self.of(id)),
            };
        }
        match (prototype.parameters.is_empty(), prototype.variadic) {
            (true, _) => text.push_str("void)"),
            (false, true) => text.push_str(", ...)"),
            (false, false) => text.push(')'),
        }
        text
    }
}

impl TypeModel {
    /// The name of type `id` in C, e.g. `struct list_head *`; an anonymous type has only its
    /// keyword.
    pub fn type_name(&self, id: TypeId) -> String {
        let mut budget = Budget(1 << 16);
        let name = type_name(self, &mut budget).of(id);
        let mut suffix = String::new();
        let mut element = id;
        while let Some(Type::Array {
            element: inner,
            count,
            ..
        }) = self.get(element)
        {
            // Writing to a String does not fail.
            let _ = write!(suffix, "[{count}]");
            element = *inner;
        }
        let words: Vec<&str> = name.split_whitespace().collect();
        words.join(" ") + &suffix
    }
}

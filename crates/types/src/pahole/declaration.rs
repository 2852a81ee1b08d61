//! Declarations of members: types and names in pahole's columns.

use super::{Printer, Style, is_anonymous, is_tagged, length};
use crate::type_name::type_name;
use crate::{Enumerator, Prototype, Qualifier, Type, TypeId};

impl Printer<'_> {
    /// A declaration of `name` as type `id`, without the semicolon. Recursion: at most MAX_DEPTH
    /// types, within the budget.
    pub(super) fn type_text(&mut self, id: TypeId, name: Option<&str>, mut style: Style) {
        let model = self.model;
        let mut id = id;
        let mut name = name.map(str::to_owned);
        style.prefix = "";
        style.suffix = name.clone().filter(|n| !n.is_empty());
        // pahole forgets to turn them off after a `const`.
        style.statistics &= !is_tagged(model, id);
        loop {
            let plain = name.as_deref().unwrap_or("");
            match model.get(id) {
                Some(Type::Pointer { target }) => {
                    if let Some(Type::Prototype(prototype)) = model.get(*target) {
                        return self.function_pointer(prototype, plain, &style);
                    }
                    if !is_tagged(model, *target) || !is_anonymous(model, *target) {
                        return self.default_text(id, plain, &style);
                    }
                    name = Some(format!("* {plain}"));
                    style.suffix.clone_from(&name);
                    style.statistics = false;
                    style.relative = true;
                    style.type_width -= 8;
                    id = *target;
                }
                Some(Type::Qualified {
                    qualifier: Qualifier::Tag(_),
                    target,
                }) => id = *target,
                Some(Type::Qualified {
                    qualifier: Qualifier::Const,
                    target,
                }) => {
                    self.out.push_str("const ");
                    style.type_width -= 6;
                    if *target == TypeId::VOID {
                        return self.default_text(id, plain, &style);
                    }
                    id = *target;
                }
                Some(Type::Prototype(prototype)) => {
                    let head = self.pad_name(prototype.result, style.type_width);
                    let parameters = type_name(model, &mut self.budget).parameters(prototype);
                    return self.text(format_args!("{head} ({plain}){parameters}"));
                }
                Some(Type::Array { .. }) => return self.array(id, plain, style),
                Some(Type::Composite(composite)) if composite.name.is_empty() => {
                    style.type_width -= 8;
                    return self.composite(id, composite, &style);
                }
                Some(Type::Composite(composite)) => {
                    return self.tagged(composite.keyword(), &composite.name, plain, &style);
                }
                Some(Type::Forward { kind, name: tag }) => {
                    return self.tagged(kind.keyword(), tag, plain, &style);
                }
                Some(Type::Enum {
                    name: tag,
                    size,
                    signed,
                    values,
                }) => {
                    if tag.is_empty() {
                        return self.enumeration(*size, *signed, values, &style);
                    }
                    let tag = pad(tag, style.type_width - 5);
                    return self.text(format_args!("enum {tag} {plain}"));
                }
                _ => return self.default_text(id, plain, &style),
            }
        }
    }

    fn tagged(&mut self, keyword: &str, tag: &str, name: &str, style: &Style) {
        let width = style.type_width - 1 - length(keyword.len());
        self.text(format_args!("{keyword} {} {name}", pad(tag, width)));
    }

    fn pad_name(&mut self, id: TypeId, width: i64) -> String {
        pad(&type_name(self.model, &mut self.budget).of(id), width)
    }

    fn default_text(&mut self, id: TypeId, name: &str, style: &Style) {
        let head = self.pad_name(id, style.type_width);
        self.text(format_args!("{head} {name}"));
    }

    fn function_pointer(&mut self, prototype: &Prototype, name: &str, style: &Style) {
        let head = self.pad_name(prototype.result, style.type_width);
        let parameters = type_name(self.model, &mut self.budget).parameters(prototype);
        self.text(format_args!("{head} (*{name}){parameters}"));
    }

    fn array(&mut self, id: TypeId, name: &str, style: Style) {
        let model = self.model;
        let mut counts = Vec::new();
        let mut element = id;
        while let Some(Type::Array {
            element: inner,
            count,
            ..
        }) = model.get(element)
        {
            counts.push(*count);
            element = *inner;
        }
        if let (
            Some(0),
            Some(Type::Qualified {
                qualifier: Qualifier::Const,
                target,
            }),
        ) = (counts.first(), model.get(element))
        {
            element = *target;
        }
        let flexible = style.last_member && !style.first_member && !style.union_member;
        self.type_text(element, Some(name), style);
        for count in counts {
            match count {
                0 if flexible => self.out.push_str("[]"),
                count => self.text(format_args!("[{count}]")),
            }
        }
    }

    fn enumeration(&mut self, size: u32, signed: bool, values: &[Enumerator], style: &Style) {
        self.out.push_str("enum");
        if values.is_empty() {
            return;
        }
        self.out.push_str(" {\n");
        let width = values.iter().map(|v| v.name.len()).max().unwrap_or(0);
        for value in values {
            self.tabs(style.indent + 1);
            self.text(format_args!("{:width$} = ", value.name));
            match (signed, size) {
                (true, _) => self.text(format_args!("{},\n", value.value)),
                (false, _) => self.text(format_args!("{},\n", value.value as u64)),
            }
        }
        self.tabs(style.indent);
        self.out.push('}');
        // Neither BTF nor DWARF says `__packed__`. pahole takes every size but int's for it,
        // the eight bytes of 64-bit values included.
        if size != 4 {
            self.out.push_str(" __attribute__((__packed__))");
        }
        if let Some(suffix) = &style.suffix {
            self.text(format_args!(" {suffix}"));
        }
    }
}

/// `text` padded with blanks to `width` bytes; C's printf takes a negative width as its absolute
/// value.
fn pad(text: &str, width: i64) -> String {
    let blanks = (length(0) + width.abs() - length(text.len())).max(0);
    let blanks = usize::try_from(blanks).unwrap_or(0);
    let mut padded = text.to_owned();
    padded.extend(std::iter::repeat_n(' ', blanks));
    padded
}

//! Prints a struct or union like pahole (`pahole -C T`, version 1.24, reading BTF).
//!
//! Columns and comments equal pahole's to the byte, so that the two can be compared and existing
//! scripts continue to work. pahole's limits do not apply: names are not cut at 127 bytes, numbers
//! do not wrap at 16 bits, and negative values of an enum are not printed as unsigned.

mod declaration;
mod packed;
mod statistics;

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::rc::Rc;

use self::statistics::LayoutSums;
use linemate_units::LineSize;

use crate::layout::{self, Alignments, Layout};
use crate::type_name::Budget;
use crate::{Composite, CompositeKind, Member, MemberRole, Type, TypeId, TypeModel};

/// The type `id` as pahole prints it, ending in a newline; `None` if it is not a struct, union, or
/// typedef of one. Cacheline comments are for lines of `line` bytes.
pub fn print(model: &TypeModel, id: TypeId, line: LineSize) -> Option<String> {
    Printer::new(model, line).print(id)
}

/// Prints several types as one run of pahole does.
///
/// pahole infers `__packed__` for an embedded struct from the outer ones it has already printed, so
/// the text of a type can depend on what the same printer printed earlier. [`print()`] uses a new
/// one each time.
pub struct Printer<'a> {
    model: &'a TypeModel,
    line: LineSize,
    alignments: Alignments<'a>,
    layouts: HashMap<TypeId, Rc<Layout>>,
    packed: HashMap<TypeId, bool>,
    unions_inferred: HashSet<TypeId>,
    out: String,
    /// The line in which the last printed member of the outermost type starts.
    current_line: u64,
    budget: Budget,
}

/// What pahole passes down from a type to its members.
#[derive(Clone, Debug)]
struct Style {
    indent: usize,
    type_width: i64,
    name_width: i64,
    /// Offset of the enclosing type in the outermost.
    base: u64,
    /// Offsets count from the enclosing type: it is behind a pointer.
    relative: bool,
    last_member: bool,
    first_member: bool,
    union_member: bool,
    statistics: bool,
    prefix: &'static str,
    suffix: Option<String>,
}

/// A member, and the one declared before it.
struct MemberPair<'a> {
    before: &'a Member,
    place_before: layout::MemberLayout,
    size_before: u64,
    member: &'a Member,
    place: layout::MemberLayout,
}

/// The size of text and type names beyond which hostile types are not expanded further.
const BUDGET: usize = 4 << 20;

fn is_anonymous(model: &TypeModel, id: TypeId) -> bool {
    match model.get(id) {
        Some(Type::Composite(composite)) => composite.name.is_empty(),
        Some(Type::Enum { name, .. }) => name.is_empty(),
        _ => false,
    }
}

/// Struct, union or enum itself, not a typedef of one.
fn is_tagged(model: &TypeModel, id: TypeId) -> bool {
    matches!(
        model.get(id),
        Some(Type::Composite(_) | Type::Enum { .. } | Type::Forward { .. })
    )
}

/// Whether member `index` starts bytes of its own, rather than sharing those of the member before
/// it.
fn starts_unit(composite: &Composite, layout: &Layout, previous: usize, index: usize) -> bool {
    let is_bit_field = |index: usize| composite.members[index].bits.is_some();
    layout.members[previous].offset != layout.members[index].offset
        || !is_bit_field(previous) && is_bit_field(index)
}

fn plural(n: u64) -> &'static str {
    if n == 1 { "" } else { "s" }
}

impl<'a> Printer<'a> {
    /// A printer for types of `model`.
    pub fn new(model: &'a TypeModel, line: LineSize) -> Printer<'a> {
        Printer {
            model,
            line,
            alignments: Alignments::new(model),
            layouts: HashMap::new(),
            packed: HashMap::new(),
            unions_inferred: HashSet::new(),
            out: String::new(),
            current_line: 0,
            budget: Budget(BUDGET),
        }
    }

    /// Like [`print()`].
    pub fn print(&mut self, id: TypeId) -> Option<String> {
        let target = self.model.strip(id);
        let Some(Type::Composite(composite)) = self.model.get(target) else {
            return None;
        };
        let (mut prefix, mut suffix) = ("", None);
        if let (Some(Type::Typedef { name, .. }), true) =
            (self.model.get(id), composite.name.is_empty())
        {
            prefix = "typedef ";
            suffix = Some(name.to_string());
        }
        let style = Style {
            indent: 0,
            type_width: 26,
            name_width: if composite.kind == CompositeKind::Union {
                21
            } else {
                23
            },
            base: 0,
            relative: false,
            last_member: false,
            first_member: false,
            union_member: false,
            statistics: true,
            prefix,
            suffix,
        };
        // Per type: what one used up is not missing in the next.
        self.budget = Budget(BUDGET);
        self.current_line = 0;
        self.composite(target, composite, &style);
        self.out.push_str(";\n");
        Some(std::mem::take(&mut self.out))
    }

    fn layout(&mut self, id: TypeId) -> Rc<Layout> {
        if let Some(known) = self.layouts.get(&id) {
            return Rc::clone(known);
        }
        let made = Rc::new(layout::layout(&mut self.alignments, id, self.line).unwrap_or_default());
        self.layouts.insert(id, Rc::clone(&made));
        made
    }

    fn tabs(&mut self, count: usize) {
        self.out.extend(std::iter::repeat_n('\t', count));
    }

    fn text(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing to a String does not fail.
        let _ = self.out.write_fmt(arguments);
    }

    fn composite(&mut self, id: TypeId, composite: &'a Composite, style: &Style) {
        match composite.kind {
            CompositeKind::Struct => self.structure(id, composite, style),
            CompositeKind::Union => self.union(id, composite, style),
        }
    }

    fn head(&mut self, composite: &Composite, style: &Style) {
        let space = if composite.name.is_empty() { "" } else { " " };
        let keyword = composite.keyword();
        self.text(format_args!(
            "{}{keyword}{space}{} {{\n",
            style.prefix, composite.name
        ));
    }

    fn union(&mut self, id: TypeId, composite: &'a Composite, style: &Style) {
        self.head(composite, style);
        self.infer_packed_in_union(id, composite);
        let layout = self.layout(id);
        let line = self.current_line;
        let inner = Style {
            indent: style.indent + 1,
            union_member: true,
            ..style.clone()
        };
        for (member, place) in composite.members.iter().zip(&layout.members) {
            // Hostile types can describe a text that doubles with each level.
            if self.budget.is_spent(self.out.len()) {
                break;
            }
            self.tabs(inner.indent);
            self.member(member, place, true, &inner);
            self.out.push('\n');
            self.current_line = line;
        }
        self.tabs(style.indent);
        self.out.push('}');
        if let Some(suffix) = &style.suffix {
            self.text(format_args!(" {suffix}"));
        }
    }

    fn structure(&mut self, id: TypeId, composite: &'a Composite, style: &Style) {
        let packed = self.infer_packed(id, composite);
        self.head(composite, style);
        let layout = self.layout(id);
        let mut inner = Style {
            indent: style.indent + 1,
            ..style.clone()
        };
        let mut sums = LayoutSums::default();
        let mut newline = false;
        self.hole_comments(&layout, None, inner.indent, &mut newline);
        let mut previous: Option<usize> = None;
        let mut previous_size = 0;
        for (index, member) in composite.members.iter().enumerate() {
            if self.budget.is_spent(self.out.len()) {
                break;
            }
            let place = layout.members[index];
            sums.forced(&layout, previous, place.forced_alignment);
            if let (Some(previous), true) = (previous, previous_size != 0) {
                let pair = MemberPair {
                    before: &composite.members[previous],
                    place_before: layout.members[previous],
                    size_before: previous_size,
                    member,
                    place,
                };
                self.bit_field_comments(&pair, &inner, &mut newline);
            }
            if std::mem::take(&mut newline) {
                self.out.push('\n');
            }
            inner.last_member = index + 1 == composite.members.len();
            inner.first_member = previous.is_none();
            self.tabs(inner.indent);
            self.member(member, &place, false, &inner);
            self.embedded_padding(member, &inner, &mut sums, &mut newline);
            self.hole_comments(&layout, Some(index), inner.indent, &mut newline);
            self.out.push('\n');
            match member.bits {
                Some(width) => sums.bits += u64::from(width),
                None => sums.bytes += place.size,
            }
            let starts_unit = previous.is_none_or(|p| starts_unit(composite, &layout, p, index));
            if starts_unit || previous_size == 0 {
                previous_size = place.size;
            }
            previous = Some(index);
        }
        self.forced_padding(composite, &layout, &inner);
        if style.statistics {
            self.statistics(composite, &layout, &sums, &inner, style);
        }
        self.tabs(style.indent);
        self.out.push('}');
        if packed {
            self.out.push_str(" __attribute__((__packed__))");
        }
        if let Some(suffix) = &style.suffix {
            self.text(format_args!(" {suffix}"));
        }
        // What is inferred to be packed is not also printed as aligned.
        if layout.forced_alignment != 0 && !packed {
            self.text(format_args!(
                " __attribute__((__aligned__({})))",
                layout.forced_alignment
            ));
        }
    }

    /// `/* XXX … hole, try to pack */` after member `index`, or before the first.
    fn hole_comments(
        &mut self,
        layout: &Layout,
        index: Option<usize>,
        indent: usize,
        newline: &mut bool,
    ) {
        let (bits, bytes) = match index {
            Some(index) => (layout.members[index].bit_hole, layout.members[index].hole),
            None => (layout.first_bit_hole, layout.first_hole),
        };
        for (count, unit) in [(bits, "bit"), (bytes, "byte")] {
            if count == 0 {
                continue;
            }
            if !std::mem::replace(newline, true) {
                self.out.push('\n');
            }
            // After a member, the comment follows on the member's own unfinished line.
            if index.is_some() {
                self.out.push('\n');
            }
            self.tabs(indent);
            self.text(format_args!(
                "/* XXX {count} {unit}{} hole, try to pack */",
                plural(count)
            ));
            if index.is_none() {
                self.out.push('\n');
            }
        }
    }

    /// The padding at the end of an embedded struct.
    fn embedded_padding(
        &mut self,
        member: &Member,
        inner: &Style,
        sums: &mut LayoutSums,
        newline: &mut bool,
    ) {
        let model = self.model;
        let Some(Type::Composite(composite)) = model.get(member.type_id) else {
            return;
        };
        if composite.kind != CompositeKind::Struct {
            return;
        }
        self.infer_packed(member.type_id, composite);
        let padding = self.layout(member.type_id).padding;
        if padding == 0 {
            return;
        }
        sums.paddings += 1;
        sums.padding_bytes += padding;
        if !std::mem::replace(newline, true) {
            self.out.push('\n');
        }
        self.out.push('\n');
        self.tabs(inner.indent);
        self.text(format_args!(
            "/* XXX last struct has {padding} byte{} of padding */",
            plural(padding)
        ));
    }

    /// pahole's remarks if bit-fields share bytes with other members, and the unnamed bit-fields
    /// that make a bit hole explicit.
    fn bit_field_comments(&mut self, pair: &MemberPair<'a>, inner: &Style, newline: &mut bool) {
        let (before, place) = (&pair.place_before, &pair.place);
        let (declared_before, declared) = (pair.before, pair.member);
        if before.bit_hole != 0 && declared.bits.is_some() {
            let mut width = before.bit_hole;
            if before.offset != place.offset {
                self.out.push('\n');
                self.tabs(inner.indent);
                self.out
                    .push_str("/* Force alignment to the next boundary: */\n");
                width = 0;
            }
            self.tabs(inner.indent);
            self.type_text(declared.type_id, Some(""), inner.clone());
            self.text(format_args!(":{width};\n"));
        }
        let combined_with = if place.offset < before.offset
            || place.offset == before.offset
                && declared_before.bits.is_none()
                && declared.bits.is_some()
        {
            "previous"
        } else if place.offset > before.offset
            && place.offset.0 - before.offset.0 < pair.size_before
        {
            "next"
        } else {
            return;
        };
        if !std::mem::replace(newline, true) {
            self.out.push('\n');
        }
        self.tabs(inner.indent);
        self.text(format_args!(
            "/* Bitfield combined with {combined_with} fields */\n"
        ));
    }

    fn member(
        &mut self,
        member: &'a Member,
        place: &layout::MemberLayout,
        in_union: bool,
        style: &Style,
    ) {
        let mut style = style.clone();
        let mut offset = place.offset.0;
        if !style.relative {
            offset += style.base;
            if !in_union {
                style.base = offset;
            }
        }
        self.line_boundary(offset, style.indent);
        let start = self.out.len();
        let id = member.type_id;
        if member.role != MemberRole::Field {
            return self.base_class(id, offset, place, &style);
        }
        let tagged = is_tagged(self.model, id);
        let inline = tagged && is_anonymous(self.model, id);
        if tagged {
            self.type_text(id, None, style.clone());
            if !member.name.is_empty() {
                let space = if inline { " " } else { "" };
                self.text(format_args!("{space}{}", member.name));
            }
        } else {
            self.type_text(id, Some(&member.name), style.clone());
        }
        if let Some((_, width)) = place.bits {
            self.text(format_args!(":{width}"));
        }
        let before_alignment = self.out.len();
        if place.forced_alignment != 0 {
            self.text(format_args!(
                " __attribute__((__aligned__({})))",
                place.forced_alignment
            ));
        }
        let alignment_length = length(self.out.len() - before_alignment);
        self.out.push(';');
        let width = match inline {
            true => {
                // Of an inline type only the last line counts: `} NAME;` is three columns more
                // than the name, `};` is two (hence -1), ` __attribute__((__packed__))` is 28.
                // printf pads to the absolute value of a negative width.
                let name = if member.name.is_empty() {
                    -1
                } else {
                    length(member.name.len())
                };
                let packed = if self.packed.get(&id) == Some(&true) {
                    28
                } else {
                    0
                };
                (style.type_width + style.name_width - name - alignment_length - packed - 3).abs()
            }
            false => style.type_width + style.name_width - length(self.out.len() - start),
        };
        self.offset_comment(width, offset, place);
    }

    /// A base class is a comment, because a declaration does not repeat it.
    fn base_class(&mut self, id: TypeId, offset: u64, place: &layout::MemberLayout, style: &Style) {
        let start = self.out.len();
        self.out.push_str("/* ");
        self.type_text(id, Some("<ancestor>"), style.clone());
        self.out.push_str("; */");
        let width = style.type_width + style.name_width - length(self.out.len() - start);
        self.offset_comment(width, offset, place);
    }

    fn offset_comment(&mut self, width: i64, offset: u64, place: &layout::MemberLayout) {
        let width = usize::try_from(width).unwrap_or(0);
        self.text(format_args!("{:>width$}/* {offset:5}", " "));
        match place.bits {
            Some((bit, _)) => self.text(format_args!(":{bit:2} {:2} */", place.size)),
            None => self.text(format_args!(" {:5} */", place.size)),
        }
    }

    fn line_boundary(&mut self, offset: u64, indent: usize) {
        let line = offset / self.line.bytes();
        if line <= self.current_line {
            return;
        }
        self.current_line = line;
        let past = offset % self.line.bytes();
        self.text(format_args!(
            "/* --- cacheline {line} boundary ({} bytes)",
            offset - past
        ));
        if past != 0 {
            self.text(format_args!(" was {past} byte{} ago", plural(past)));
        }
        self.out.push_str(" --- */\n");
        self.tabs(indent);
    }
}

fn length(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX / 4)
}

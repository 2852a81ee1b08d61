//! Prints a struct or union in pahole's form (`pahole -C T`, version 1.24, reading BTF).
//!
//! It keeps pahole's columns and comments to the byte, so that the two can be compared and existing scripts go
//! on working. It does not keep pahole's limits: names are not cut at 127 bytes, and numbers do not wrap at 16 bits.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::rc::Rc;

use crate::layout::{self, Alignments, Layout};
use crate::type_name::{Budget, type_name};
use crate::{
    Composite, CompositeKind, Enumerator, LineSize, Member, Prototype, Qualifier, Type, TypeId,
    TypeModel,
};

/// The type `id` in pahole's form, ending in a newline; `None` when it is no struct, union, or typedef of one.
/// Cacheline comments are for lines of `line` bytes.
pub fn print(model: &TypeModel, id: TypeId, line: LineSize) -> Option<String> {
    Printer::new(model, line).print(id)
}

/// Prints several types as one run of pahole does.
///
/// pahole infers `__packed__` of an embedded struct from the outer ones that it has printed before, so the
/// text of a type can depend on what was printed earlier by the same printer. [`print`] uses a new one each time.
pub struct Printer<'a> {
    model: &'a TypeModel,
    line: LineSize,
    alignments: Alignments<'a>,
    layouts: HashMap<TypeId, Rc<Layout>>,
    packed: HashMap<TypeId, bool>,
    unions_inferred: HashSet<TypeId>,
    out: String,
    /// The line that the last printed member of the outermost type starts in.
    current_line: u64,
    budget: Budget,
}

/// What pahole hands down from a type to its members.
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

/// Bytes of text and type names after which hostile types are not expanded further.
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

    /// Like [`print`].
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
        let keyword = composite.kind.keyword();
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
        let mut sums = Sums::default();
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
                self.bit_field_comments(
                    composite,
                    &layout,
                    (previous, index),
                    previous_size,
                    &inner,
                    &mut newline,
                );
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
            previous_size = match previous.map(|p| (&layout.members[p], &composite.members[p])) {
                Some((before, declared))
                    if previous_size != 0
                        && before.offset == place.offset
                        && (declared.bits.is_some() || member.bits.is_none()) =>
                {
                    previous_size
                }
                _ => place.size,
            };
            previous = Some(index);
        }
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
        // What is inferred to be packed is not aligned on top.
        if layout.forced_alignment != 0 && !packed {
            self.text(format_args!(
                " __attribute__((__aligned__({})))",
                layout.forced_alignment
            ));
        }
    }

    /// `/* XXX … hole, try to pack */` behind member `index`, or before the first.
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
            // Behind a member the comment follows on the member's own unfinished line.
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
        sums: &mut Sums,
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

    /// What pahole says where bit-fields share bytes with other members, and the unnamed bit-fields that make a
    /// bit hole explicit.
    fn bit_field_comments(
        &mut self,
        composite: &Composite,
        layout: &Layout,
        (previous, index): (usize, usize),
        previous_size: u64,
        inner: &Style,
        newline: &mut bool,
    ) {
        let (before, place) = (&layout.members[previous], &layout.members[index]);
        let (declared_before, declared) = (&composite.members[previous], &composite.members[index]);
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
        } else if place.offset > before.offset && place.offset.0 - before.offset.0 < previous_size {
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
        let behind = offset % self.line.bytes();
        self.text(format_args!(
            "/* --- cacheline {line} boundary ({} bytes)",
            offset - behind
        ));
        if behind != 0 {
            self.text(format_args!(" was {behind} byte{} ago", plural(behind)));
        }
        self.out.push_str(" --- */\n");
        self.tabs(indent);
    }

    /// A declaration of `name` as type `id`, without the semicolon. Recursion: at most MAX_DEPTH types, and
    /// the budget.
    fn type_text(&mut self, id: TypeId, name: Option<&str>, mut style: Style) {
        let model = self.model;
        let mut id = id;
        let mut name = name.map(str::to_owned);
        style.prefix = "";
        style.suffix = name.clone().filter(|n| !n.is_empty());
        // pahole forgets to switch them off behind a `const`.
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
                Some(Type::Composite(Composite {
                    kind, name: tag, ..
                }))
                | Some(Type::Forward { kind, name: tag }) => {
                    let keyword = kind.keyword();
                    let width = style.type_width - 1 - length(keyword.len());
                    return self.text(format_args!("{keyword} {} {plain}", pad(tag, width)));
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
                (false, _) => self.text(format_args!("{},\n", value.value.cast_unsigned())),
            }
        }
        self.tabs(style.indent);
        self.out.push('}');
        if size != 4 {
            self.out.push_str(" __attribute__((__packed__))");
        }
        if let Some(suffix) = &style.suffix {
            self.text(format_args!(" {suffix}"));
        }
    }

    fn statistics(
        &mut self,
        composite: &Composite,
        layout: &Layout,
        sums: &Sums,
        inner: &Style,
        style: &Style,
    ) {
        let mut lines = vec![format!(
            "size: {}, cachelines: {}, members: {}",
            layout.size,
            layout.lines(self.line),
            composite.members.len()
        )];
        let (hole_bytes, hole_bits) = (layout.hole_bytes(), sums.hole_bits(layout));
        if hole_bytes > 0 || hole_bits > 0 {
            if sums.bytes > 0 {
                let mut text = format!("sum members: {}", sums.bytes);
                if hole_bytes > 0 {
                    let _ = write!(text, ", holes: {}, sum holes: {hole_bytes}", layout.holes);
                }
                lines.push(text);
            }
            if sums.bits > 0 {
                let mut text = format!("sum bitfield members: {} bits", sums.bits);
                let _ = match hole_bits {
                    0 => write!(text, " ({} bytes)", sums.bits / 8),
                    _ => write!(
                        text,
                        ", bit holes: {}, sum bit holes: {hole_bits} bits",
                        layout.bit_holes
                    ),
                };
                lines.push(text);
            }
        }
        if layout.padding > 0 {
            lines.push(format!("padding: {}", layout.padding));
        }
        if sums.paddings > 0 {
            let (count, bytes) = (sums.paddings, sums.padding_bytes);
            lines.push(format!("paddings: {count}, sum paddings: {bytes}"));
        }
        if layout.bit_padding > 0 {
            lines.push(format!("bit_padding: {} bits", layout.bit_padding));
        }
        if sums.forced > 0 {
            let mut text = format!("forced alignments: {}", sums.forced);
            if sums.forced_holes > 0 {
                let (count, bytes) = (sums.forced_holes, sums.forced_hole_bytes);
                let _ = write!(text, ", forced holes: {count}, sum forced holes: {bytes}");
            }
            lines.push(text);
        }
        let last_line = (style.base + layout.size) % self.line.bytes();
        if last_line != 0 {
            lines.push(format!("last cacheline: {last_line} bytes"));
        }
        self.out.push('\n');
        for line in lines {
            self.tabs(inner.indent);
            self.text(format_args!("/* {line} */\n"));
        }
        self.alert(composite, layout, sums, inner);
    }

    /// pahole's own check that members, holes and padding add up.
    fn alert(&mut self, composite: &Composite, layout: &Layout, sums: &Sums, inner: &Style) {
        let (hole_bytes, hole_bits) = (layout.hole_bytes(), sums.hole_bits(layout));
        let accounted = (sums.bytes + hole_bytes + layout.padding) * 8
            + sums.bits
            + hole_bits
            + layout.bit_padding;
        let difference = i128::from(layout.size * 8) - i128::from(accounted);
        if difference == 0 || composite.members.is_empty() {
            return;
        }
        self.out.push('\n');
        self.tabs(inner.indent);
        self.text(format_args!(
            "/* BRAIN FART ALERT! {} bytes != {} (member bytes) + {} (member bits) + {hole_bytes} \
             (byte holes) + {hole_bits} (bit holes), diff = {difference} bits */\n",
            layout.size, sums.bytes, sums.bits
        ));
    }

    /// Whether a struct must be packed: it has no room left, and members where they would not be otherwise.
    fn infer_packed(&mut self, id: TypeId, composite: &Composite) -> bool {
        if let Some(known) = self.packed.get(&id) {
            return *known;
        }
        let layout = self.layout(id);
        let packed = if layout.padding != 0 || layout.holes != 0 {
            self.infer_packed_members(composite);
            // The walk over the members can have found this very type only if it contained itself.
            false
        } else {
            let mut largest = 1;
            let mut misplaced = false;
            for (member, place) in composite.members.iter().zip(&layout.members) {
                let natural = self.alignments.natural(member.type_id);
                largest = largest.max(natural);
                misplaced |= !place.offset.0.is_multiple_of(natural);
            }
            misplaced || !layout.size.is_multiple_of(largest)
        };
        self.packed.insert(id, packed);
        packed
    }

    /// Embedded structs at unnatural offsets must be packed.
    fn infer_packed_members(&mut self, composite: &Composite) {
        for member in &composite.members {
            if let Some(id) = self.embedded_struct(member) {
                let natural = self.alignments.natural(id);
                if !member.offset.byte().0.is_multiple_of(natural) {
                    self.packed.insert(id, true);
                }
            }
        }
    }

    /// Structs in a union whose size is no multiple of their alignment must be packed.
    fn infer_packed_in_union(&mut self, id: TypeId, composite: &Composite) {
        if !self.unions_inferred.insert(id) {
            return;
        }
        for member in &composite.members {
            if let Some(id) = self.embedded_struct(member)
                && u64::from(composite.size) % self.alignments.natural(id) != 0
            {
                self.packed.insert(id, true);
            }
        }
    }

    fn embedded_struct(&self, member: &Member) -> Option<TypeId> {
        let id = self.model.strip(member.type_id);
        match self.model.get(id) {
            Some(Type::Composite(c)) if c.kind == CompositeKind::Struct => Some(id),
            _ => None,
        }
    }
}

/// What is added up while the members are printed.
#[derive(Default)]
struct Sums {
    bytes: u64,
    bits: u64,
    paddings: u32,
    padding_bytes: u64,
    forced: u32,
    forced_holes: u32,
    forced_hole_bytes: u64,
}

impl Sums {
    fn forced(&mut self, layout: &Layout, previous: Option<usize>, alignment: u64) {
        if alignment == 0 {
            return;
        }
        self.forced += 1;
        let hole = previous.map_or(layout.first_hole, |p| layout.members[p].hole);
        if hole != 0 {
            self.forced_holes += 1;
            self.forced_hole_bytes += hole;
        }
    }

    fn hole_bits(&self, layout: &Layout) -> u64 {
        layout.first_bit_hole + layout.members.iter().map(|m| m.bit_hole).sum::<u64>()
    }
}

fn length(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX / 4)
}

/// `text` filled up with blanks to `width` bytes; C's printf takes a negative width as its absolute value.
fn pad(text: &str, width: i64) -> String {
    let blanks = (length(0) + width.abs() - length(text.len())).max(0);
    let blanks = usize::try_from(blanks).unwrap_or(0);
    let mut padded = text.to_owned();
    padded.extend(std::iter::repeat_n(' ', blanks));
    padded
}

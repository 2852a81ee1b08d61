//! Everything about one type, wherever its objects are.

use std::collections::BTreeMap;

use linemate_answers::{FieldMap, FieldRow, GroupRow, LineRow, Place, TypeView, share};
use linemate_attribution::naming::{Inside, NamedType};
use linemate_attribution::schema::TypeIndex;
use linemate_attribution::tally::{Count, Key};
use linemate_attribution::{Analysis, Bucket, Counted, Subject, groups, named_type};
use linemate_types::{LeafId, LineSize};

use super::parts::{LineParts, Parts, field_row};
use super::resolve::{FieldName, PADDING, Resolver, aliases};
use super::sums::Sum;
use super::times;
use crate::error::UnknownType;
use crate::leaves::field_map;

/// The type that a user means.
pub(crate) fn find_type(
    analysis: &Analysis<'_>,
    counted: &Counted,
    name: &str,
) -> Result<NamedType, UnknownType> {
    named_type(analysis, counted, name).ok_or_else(|| {
        let plain = name
            .strip_prefix("struct ")
            .or_else(|| name.strip_prefix("union "))
            .unwrap_or(name)
            .trim();
        UnknownType {
            name: plain.to_owned(),
            nearest: nearest(analysis, plain),
            unnamed: analysis.recording().description().kernel_unnamed,
        }
    })
}

fn nearest(analysis: &Analysis<'_>, name: &str) -> Vec<String> {
    let types = analysis.schema().iter().map(|(_, t)| t.name.as_str());
    let variables = analysis
        .subjects()
        .iter()
        .filter(|s| s.ty.is_some())
        .map(|s| s.label.as_str());
    linemate_text::nearest(name, types.chain(variables))
}

pub(crate) fn build(
    analysis: &Analysis<'_>,
    counted: &Counted,
    rows: &[(Key, &Count)],
    resolver: &mut Resolver<'_>,
    name: &str,
    line: LineSize,
) -> Result<TypeView, UnknownType> {
    let NamedType { ty, name, .. } = find_type(analysis, counted, name)?;
    let mut gathered = Gathered::default();
    let subjects = analysis.subjects();
    let schema = analysis.schema();
    let mut inside = Inside::new(schema, ty);
    for (key, counts) in rows {
        let subject = &subjects[key.subject.0 as usize];
        let Some(outer) = subject.ty else { continue };
        let Some(within) = inside.at(outer, key.offset) else {
            continue;
        };
        let field = resolver.field(ty, within.offset, key.size);
        let function = resolver.function(key.pc);
        let owner = FieldOwner::new(schema.name(outer), subject, within.path);
        gathered.add(
            key,
            counts,
            subject.percpu,
            owner,
            within.offset,
            field,
            function,
            line,
        );
    }
    let total = gathered.total.accesses();
    let fields: Vec<FieldRow> = gathered
        .fields
        .iter()
        .map(|(f, p)| field_row(&name, f, p, line))
        .collect();
    Ok(TypeView {
        size: schema.size(ty),
        line_size: line.bytes(),
        figures: gathered.total.figures(),
        places: gathered.places(&name, line),
        layout: schema.get(ty).map_or_else(FieldMap::default, |about| {
            // A type whose fields cannot be listed has none.
            field_map(analysis.model(), about.id).unwrap_or_default()
        }),
        lines: gathered.lines(&name),
        groups: group_rows(counted, resolver, ty, &gathered, total, line),
        times: times::build(analysis, counted, resolver, ty, line),
        fields,
        name,
    })
}

/// Where a type's objects are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FieldOwner {
    /// As [`Place::owner`].
    name: String,
    /// As [`Place::inside`].
    inside: Option<String>,
}

impl FieldOwner {
    /// Of those that are a subject, or `path` of an `outer` that is one.
    fn new(outer: &str, subject: &Subject, path: &str) -> FieldOwner {
        let name = match (path, subject.bucket, subject.label.as_str()) {
            ("", Bucket::PercpuTyped, label) => format!("per-CPU {label}"),
            ("", Bucket::GlobalTyped, label) => format!("global {label}"),
            ("", Bucket::StackShared, label) => label.to_owned(),
            ("", Bucket::StructPage, _) => "array of struct page".to_owned(),
            ("", Bucket::StackTyped, _) => "stack of a program".to_owned(),
            ("", ..) if subject.percpu => "per-CPU allocation".to_owned(),
            ("", ..) => "heap".to_owned(),
            _ => format!("{outer}.{path}"),
        };
        FieldOwner {
            name,
            inside: (!path.is_empty()).then(|| outer.to_owned()),
        }
    }
}

#[derive(Default)]
struct Gathered {
    total: Sum,
    fields: BTreeMap<FieldName, Parts>,
    lines: BTreeMap<u64, LineParts>,
    places: BTreeMap<FieldOwner, BTreeMap<FieldName, Parts>>,
}

impl Gathered {
    #[allow(clippy::too_many_arguments, reason = "one row, spelled out")]
    fn add(
        &mut self,
        key: &Key,
        counts: &Count,
        owned: bool,
        owner: FieldOwner,
        offset: u32,
        field: FieldName,
        function: &str,
        line: LineSize,
    ) {
        self.total.add(key.kind, counts, owned);
        self.lines
            .entry(u64::from(offset) / line.bytes())
            .or_default()
            .add(key, counts, owned, Some(&field));
        self.fields
            .entry(field.clone())
            .or_default()
            .add(key, counts, owned, function);
        self.places
            .entry(owner)
            .or_default()
            .entry(field)
            .or_default()
            .add(key, counts, owned, function);
    }

    fn places(&self, type_name: &str, line: LineSize) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::new();
        for (owner, fields) in &self.places {
            let mut sum = Sum::default();
            for parts in fields.values() {
                sum.merge(&parts.sum);
            }
            let rows = fields
                .iter()
                .map(|(f, p)| field_row(type_name, f, p, line))
                .collect();
            places.push(Place {
                owner: owner.name.clone(),
                inside: owner.inside.clone(),
                figures: sum.figures(),
                fields: rows,
            });
        }
        places.sort_by(|a, b| {
            b.figures
                .accesses
                .cmp(&a.figures.accesses)
                .then_with(|| a.owner.cmp(&b.owner))
        });
        places
    }

    fn lines(&self, type_name: &str) -> Vec<LineRow> {
        let lines = self.lines.iter();
        lines
            .map(|(line, parts)| parts.row(type_name, *line))
            .collect()
    }
}

/// The groups, by leaf: all elements of an array are one field here.
fn group_rows(
    counted: &Counted,
    resolver: &mut Resolver<'_>,
    ty: TypeIndex,
    gathered: &Gathered,
    total: u64,
    line: LineSize,
) -> Vec<GroupRow> {
    let Some(flat) = resolver.flat(ty) else {
        return Vec::new();
    };
    let mut sums: BTreeMap<usize, Sum> = BTreeMap::new();
    for (field, parts) in gathered.fields.iter().filter(|(f, _)| f.path != PADDING) {
        if let Some(hit) = flat.find(linemate_types::ByteOffset(field.offset), field.size.max(1)) {
            sums.entry(hit.leaf.0 as usize)
                .or_default()
                .merge(&parts.sum);
        }
    }
    let uses: BTreeMap<usize, groups::FieldUse> =
        sums.iter().map(|(leaf, sum)| (*leaf, sum.uses())).collect();
    let mut rows = Vec::new();
    for group in groups::find(&counted.co_uses.of(ty), &uses) {
        let mut sum = Sum::default();
        let mut lines = Vec::new();
        let mut fields = Vec::new();
        for leaf in group.fields {
            if let (Some(part), Some(about)) = (sums.get(&leaf), flat.leaves().get(leaf)) {
                sum.merge(part);
                lines.push(about.offset.0 / line.bytes());
                fields.push(about.path.clone());
                fields.extend(aliases(flat, LeafId(leaf as u32)));
            }
        }
        lines.sort_unstable();
        lines.dedup();
        rows.push(GroupRow {
            class: class_words(group.class).into(),
            fields,
            share: share(sum.accesses(), total),
            loads_per_store: sum.loads_per_store(),
            lines,
            figures: sum.figures(),
        });
    }
    rows.sort_by(|a, b| {
        b.figures
            .accesses
            .cmp(&a.figures.accesses)
            .then_with(|| a.fields.cmp(&b.fields))
    });
    rows
}

fn class_words(class: groups::Class) -> &'static str {
    match class {
        groups::Class::Atomic => "atomic",
        groups::Class::ReadByOthers => "read by others",
        groups::Class::Shared => "shared",
        groups::Class::Own => "own",
    }
}

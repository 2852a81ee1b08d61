//! Which type a user means by a name, and what else the name could mean.
//!
//! Every verb uses this, so a name means the same everywhere. Whatever a table calls a type is a
//! name for it: the type's own, with or without the file of a program's type (`node@server`), a
//! typedef's, the end of a longer name (`Queue` for `app::Queue<int>`), a variable's, with or
//! without its file, and a member's path in a type (`task_struct.se`).

use std::collections::BTreeMap;

use linemate_types::{Type as ModelType, TypeId};

use crate::analysis::Analysis;
use crate::counted::Counted;
use crate::schema::{Enclosed, Schema, Type, TypeIndex};

/// The type that a name means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedType {
    pub ty: TypeIndex,
    /// Its name in tables: the tag, or without one the typedef or variable it was requested by.
    pub name: String,
    /// Accesses to it, including those inside other types.
    pub accesses: u64,
    /// What else the name could mean, most accesses first.
    pub others: Vec<OtherType>,
}

/// What a name could also mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherType {
    /// A name that means only this.
    pub name: String,
    pub accesses: u64,
}

/// The type that `asked` means, with or without `struct `, `union ` or `class ` before it; `None`
/// if the recording has none of that name.
///
/// Of several matches, all types with exactly that name come first, in whatever file, then longer
/// names, those without generic arguments before those with some; variables and members only if
/// there is none. The first of them that was accessed is meant; of longer names, the one accessed
/// most.
#[must_use]
pub fn named_type(analysis: &Analysis<'_>, counted: &Counted, asked: &str) -> Option<NamedType> {
    let asked = WrittenName::new(asked);
    let mut found = candidates(analysis, &asked);
    let accesses = accesses(analysis, counted, &found);
    let count = |c: &NameCandidate| accesses.get(&c.ty).copied().unwrap_or(0);
    found.sort_by_key(|c| (c.rank, std::cmp::Reverse(count(c))));
    // The best match that was accessed, because a question about a type that nothing touches has no
    // answer; if none was, the best match, so that the error names it.
    let accessed = found.iter().position(|c| count(c) > 0).unwrap_or(0);
    let meant = found.get(accessed)?;
    let mut others: Vec<OtherType> = Vec::new();
    for other in &found {
        let is_new = other.name != meant.name && others.iter().all(|o| o.name != other.name);
        if is_new {
            others.push(OtherType {
                name: other.name.clone(),
                accesses: count(other),
            });
        }
    }
    others.sort_by(|a, b| b.accesses.cmp(&a.accesses).then(a.name.cmp(&b.name)));
    Some(NamedType {
        ty: meant.ty,
        name: meant.name.clone(),
        accesses: count(meant),
        others,
    })
}

/// A name as a user writes it.
struct WrittenName<'a> {
    name: &'a str,
    /// Whether only unions, or only structs and classes, are meant.
    union: Option<bool>,
}

impl WrittenName<'_> {
    fn new(text: &str) -> WrittenName<'_> {
        let text = text.trim();
        let keywords = [("struct ", false), ("class ", false), ("union ", true)];
        let found = keywords
            .iter()
            .find_map(|(word, union)| Some((text.strip_prefix(word)?, *union)));
        match found {
            Some((name, union)) => WrittenName {
                name: name.trim(),
                union: Some(union),
            },
            None => WrittenName {
                name: text,
                union: None,
            },
        }
    }

    fn fits(&self, ty: &Type) -> bool {
        self.union.is_none_or(|union| ty.union == union)
    }
}

/// A type that a name could mean.
#[derive(Clone, Debug)]
struct NameCandidate {
    ty: TypeIndex,
    name: String,
    rank: Rank,
}

/// How well a name matches, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// It is the type's name.
    Own,
    /// It is the type's in its file, or a typedef's.
    InFile,
    /// It is the end of the type's name.
    Longer,
    /// The same without generic arguments.
    WithArguments,
    /// It is a variable's or a member's.
    Place,
}

/// Types that a name could mean.
fn candidates(analysis: &Analysis<'_>, asked: &WrittenName<'_>) -> Vec<NameCandidate> {
    let mut found = exact(analysis, asked);
    found.extend(longer(analysis, asked));
    if found.is_empty() {
        found = variables(analysis, asked);
    }
    if found.is_empty() {
        found = members(analysis, asked);
    }
    found
}

/// The name without the file that distinguishes a program's type from another of its name.
fn without_file(name: &str) -> &str {
    name.split_once('@').map_or(name, |(tag, _)| tag)
}

/// Types with exactly that name, then those of that name in other files, then a typedef's.
fn exact(analysis: &Analysis<'_>, asked: &WrittenName<'_>) -> Vec<NameCandidate> {
    let schema = analysis.schema();
    let candidate = |ty: TypeIndex, rank: Rank| NameCandidate {
        ty,
        name: schema.name(ty).to_owned(),
        rank,
    };
    let fits = |ty: &TypeIndex| schema.get(*ty).is_some_and(|about| asked.fits(about));
    let own = schema.named(asked.name).into_iter().filter(fits);
    let mut found: Vec<NameCandidate> = own.map(|ty| candidate(ty, Rank::Own)).collect();
    let in_file = |about: &Type| {
        about.name.contains('@') && without_file(&about.name) == asked.name && asked.fits(about)
    };
    let in_files = schema.iter().filter(|(_, about)| in_file(about));
    found.extend(in_files.map(|(ty, _)| candidate(ty, Rank::InFile)));
    // `struct NAME` does not mean a typedef.
    if found.is_empty() && asked.union.is_none() {
        let named = analysis.model().typedef_named(asked.name);
        let ty = named.and_then(|id| analysis.type_index(id));
        found.extend(ty.map(|ty| named_or(schema, ty, asked.name, Rank::InFile)));
    }
    found
}

/// The type under its own name, or under `name` if it has none.
fn named_or(schema: &Schema, ty: TypeIndex, name: &str, rank: Rank) -> NameCandidate {
    let tagged = schema.get(ty).is_some_and(|about| !about.name.is_empty());
    NameCandidate {
        ty,
        name: match tagged {
            true => schema.name(ty).to_owned(),
            false => name.to_owned(),
        },
        rank,
    }
}

/// Types whose names end in it, ignoring scopes or generic arguments.
fn longer(analysis: &Analysis<'_>, asked: &WrittenName<'_>) -> Vec<NameCandidate> {
    let (model, schema) = (analysis.model(), analysis.schema());
    let candidate = |id: &TypeId| {
        let ty = analysis.type_index(*id)?;
        let about = schema.get(ty)?;
        let full = model.get(*id).map_or("", ModelType::name);
        let rank = match without_file(full).ends_with(asked.name) {
            true => Rank::Longer,
            false => Rank::WithArguments,
        };
        asked.fits(about).then(|| named_or(schema, ty, full, rank))
    };
    let ids = model.short_names(asked.name);
    ids.iter().filter_map(candidate).collect()
}

/// The types of variables.
fn variables(analysis: &Analysis<'_>, asked: &WrittenName<'_>) -> Vec<NameCandidate> {
    let schema = analysis.schema();
    // As a table of a type's places prints it.
    let name = ["per-CPU ", "global "]
        .iter()
        .find_map(|word| asked.name.strip_prefix(word))
        .unwrap_or(asked.name);
    let is_named = |label: &str| {
        let file = label.strip_prefix(name);
        file.is_some_and(|file| file.is_empty() || (file.starts_with(" (") && file.ends_with(')')))
    };
    let typed = analysis.subjects().iter();
    let typed = typed.filter_map(|subject| Some((subject, subject.ty?)));
    typed
        .filter(|(subject, _)| !name.is_empty() && is_named(&subject.label))
        .map(|(subject, ty)| named_or(schema, ty, &subject.label, Rank::Place))
        .collect()
}

/// The type of a member: `TYPE.PATH`.
fn members(analysis: &Analysis<'_>, asked: &WrittenName<'_>) -> Vec<NameCandidate> {
    let schema = analysis.schema();
    let mut found = Vec::new();
    // File names are part of type names, and contain dots, too.
    for (dot, _) in asked.name.match_indices('.') {
        let (outer, path) = (&asked.name[..dot], &asked.name[dot + 1..]);
        let outer = WrittenName {
            name: outer,
            union: asked.union,
        };
        for outer in exact(analysis, &outer) {
            let inner = schema.at_path(outer.ty, path);
            found.extend(inner.map(|ty| named_or(schema, ty, asked.name, Rank::Place)));
        }
    }
    found
}

/// With more types than this, only objects of their own are counted: searching for each inside all
/// others takes seconds (`Vec`, in Rust).
const INSIDE_MAX: usize = 32;

/// How often each of these types was accessed, anywhere.
fn accesses(
    analysis: &Analysis<'_>,
    counted: &Counted,
    of: &[NameCandidate],
) -> BTreeMap<TypeIndex, u64> {
    let schema = analysis.schema();
    let mut sums: BTreeMap<TypeIndex, u64> = of.iter().map(|c| (c.ty, 0)).collect();
    let mut insides: BTreeMap<TypeIndex, Inside<'_>> = of
        .iter()
        .take(INSIDE_MAX)
        .map(|c| (c.ty, Inside::new(schema, c.ty)))
        .collect();
    for (key, count) in counted.tally.iter() {
        let Some(outer) = analysis.subjects()[key.subject.index()].ty else {
            continue;
        };
        if let Some(sum) = sums.get_mut(&outer) {
            *sum += count.count;
        }
        let others = insides.iter_mut().filter(|(ty, _)| **ty != outer);
        for (ty, inside) in others {
            if inside.at(outer, key.offset).is_some() {
                *sums.entry(*ty).or_default() += count.count;
            }
        }
    }
    sums
}

/// A place inside a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Within<'p> {
    /// Bytes from the start of the inner type.
    pub offset: u32,
    /// The member of the outer type that it is; empty if both are the same type.
    pub path: &'p str,
}

/// Finds a type inside others.
#[derive(Debug)]
pub struct Inside<'s> {
    schema: &'s Schema,
    ty: TypeIndex,
    /// By the outer type and the byte of it.
    places: BTreeMap<(TypeIndex, u32), Option<Enclosed>>,
}

impl<'s> Inside<'s> {
    /// For the type `ty`.
    #[must_use]
    pub fn new(schema: &'s Schema, ty: TypeIndex) -> Inside<'s> {
        Inside {
            schema,
            ty,
            places: BTreeMap::new(),
        }
    }

    /// The place in the type of offset `offset` in an `outer`; `None` outside it.
    pub fn at(&mut self, outer: TypeIndex, offset: u32) -> Option<Within<'_>> {
        if outer == self.ty {
            return Some(Within { offset, path: "" });
        }
        let (schema, ty) = (self.schema, self.ty);
        let place = self.places.entry((outer, offset));
        let place = place.or_insert_with(|| schema.enclosed(outer, &[ty], offset.into()));
        let found = place.as_ref()?;
        Some(Within {
            offset: u32::try_from(found.offset).ok()?,
            path: &found.path,
        })
    }
}

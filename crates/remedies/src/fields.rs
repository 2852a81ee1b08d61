//! The fields and variables of a recording, each with its use and its name in edits.
//!
//! A *field* here is a leaf of an outermost type wherever objects of that type are; all elements of
//! an array are one field. A variable without a type is one field. The table is made from the
//! tally; [`super::costs`] has the costs.

use std::collections::{BTreeMap, BTreeSet};

use linemate_attribution::schema::{Schema, TypeIndex};
use linemate_attribution::tally::{Count, CpuSet, Key};
use linemate_attribution::{
    Analysis, Bucket, FieldRef, SourcePlaces, Subject as Owner, SubjectId, Tally,
};
use linemate_layout::{EditSubject, base_class, plan::resolve};
use linemate_recording::AccessKind;
use linemate_types::{ByteOffset, FlatType, Leaf, Type, TypeId, TypeModel};
use rustc_hash::FxHashMap;

/// A field's number in [`Fields::list`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub(crate) struct FieldId(pub(crate) u32);

/// The struct that declares a field, in the edit language's words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Home {
    /// The struct that an edit names.
    pub(crate) subject: EditSubject,
    /// The name of its member there.
    pub(crate) member: String,
}

impl Field {
    /// Whether each object of it has an owner by design: a CPU, or a thread.
    pub(crate) fn is_owned(&self) -> bool {
        self.percpu || self.of_threads
    }
}

/// How often something happened, and who did it.
#[derive(Clone, Debug, Default)]
pub(crate) struct UseCounts {
    pub(crate) loads: u64,
    pub(crate) stores: u64,
    pub(crate) rmws: u64,
    pub(crate) silent_stores: u64,
    pub(crate) readers: CpuSet,
    pub(crate) writers: CpuSet,
}

impl UseCounts {
    fn add(&mut self, key: &Key, count: &Count) {
        match key.kind {
            AccessKind::Load => self.loads += count.count,
            AccessKind::Store => {
                self.stores += count.count;
                self.silent_stores += count.silent;
            }
            AccessKind::Rmw => self.rmws += count.count,
        }
        if key.kind != AccessKind::Store {
            self.readers.merge(&count.cpus);
        }
        if key.kind != AccessKind::Load {
            self.writers.merge(&count.cpus);
        }
    }

    /// Stores and atomic read-modify-writes.
    pub(crate) fn writes(&self) -> u64 {
        self.stores + self.rmws
    }
}

/// A field or variable.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// `TYPE.PATH`, `VARIABLE.PATH` for a type without a tag, the variable, or `LABEL allocated at
    /// PLACE` for a program's blocks without a struct.
    pub(crate) name: String,
    /// The outermost type, or the variable: what a user requests advice for.
    pub(crate) owner: String,
    /// The outermost type that it is in.
    pub(crate) outer: Option<TypeIndex>,
    /// The leaf, where there is a type.
    pub(crate) leaf: Option<Leaf>,
    /// Whether each CPU has an object of it by design.
    pub(crate) percpu: bool,
    /// Whether each thread has one.
    pub(crate) of_threads: bool,
    /// Where it is declared.
    pub(crate) home: Option<Home>,
    /// The innermost enclosing struct larger than a line: where it can get a line of its own.
    pub(crate) room: Option<Home>,
    /// How often it is used, by kind and CPU.
    pub(crate) used: UseCounts,
}

/// All fields that were accessed.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    pub(crate) list: Vec<Field>,
    by_place: FxHashMap<FieldRef, FieldId>,
    /// By subject: whether it has fields at all.
    has_fields: Vec<bool>,
}

impl Fields {
    /// The fields that a tally has accesses to, in the order of (subject, offset).
    pub(crate) fn new<'a>(analysis: &'a Analysis<'a>, tally: &Tally, line_bytes: u64) -> Fields {
        let mut builder = FieldsBuilder {
            model: analysis.model(),
            schema: analysis.schema(),
            line_bytes,
            flats: FxHashMap::default(),
            places: None,
            analysis,
            known: BTreeMap::new(),
            fields: Fields {
                has_fields: vec![false; analysis.subjects().len()],
                ..Fields::default()
            },
        };
        for (key, count) in tally.rows() {
            let owner = &analysis.subjects()[key.subject.index()];
            if let Some(id) = builder.field(key.field(), owner) {
                builder.fields.list[id.0 as usize].used.add(&key, count);
            }
        }
        builder.fields
    }

    /// The field that has that byte.
    #[inline]
    pub(crate) fn at(&self, field: FieldRef) -> Option<FieldId> {
        if self.has_fields.get(field.subject.index()) != Some(&true) {
            return None;
        }
        self.by_place
            .get(&field)
            .or_else(|| self.by_place.get(&whole(field.subject)))
            .copied()
    }

    /// Whether a field has that number.
    pub(crate) fn has(&self, id: FieldId) -> bool {
        (id.0 as usize) < self.list.len()
    }

    /// The field of a number.
    pub(crate) fn get(&self, id: FieldId) -> &Field {
        &self.list[id.0 as usize]
    }

    /// All with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (FieldId, &Field)> {
        (0u32..).map(FieldId).zip(&self.list)
    }
}

/// The place of a variable without a type, which is one field whatever byte is accessed.
fn whole(subject: SubjectId) -> FieldRef {
    FieldRef {
        subject,
        offset: u32::MAX,
    }
}

struct FieldsBuilder<'a> {
    model: &'a TypeModel,
    schema: &'a Schema,
    line_bytes: u64,
    flats: FxHashMap<TypeIndex, Option<FlatType>>,
    /// Where programs request arrays; read when the first one is found.
    places: Option<SourcePlaces>,
    analysis: &'a Analysis<'a>,
    /// By type and leaf, or by variable.
    known: BTreeMap<(Option<(TypeIndex, u32)>, String), FieldId>,
    fields: Fields,
}

impl FieldsBuilder<'_> {
    fn field(&mut self, at: FieldRef, owner: &Owner) -> Option<FieldId> {
        let variable = matches!(
            owner.bucket,
            Bucket::GlobalScalar | Bucket::GlobalNamed | Bucket::PercpuNamed | Bucket::StackShared
        );
        let (field, place) = match owner.ty {
            Some(ty) => (self.typed(ty, owner, at.byte())?, at),
            None if variable => (self.variable(owner, owner.label.clone()), whole(at.subject)),
            None => (self.allocation(owner)?, whole(at.subject)),
        };
        self.fields.by_place.insert(place, field);
        self.fields.has_fields[at.subject.index()] = true;
        Some(field)
    }

    /// The blocks that a program requests in one place, without a struct in them.
    fn allocation(&mut self, owner: &Owner) -> Option<FieldId> {
        let analysis = self.analysis;
        let places = self.places.get_or_insert_with(|| analysis.source_places());
        let name = places.of_blocks(analysis.symbols(), owner)?;
        Some(self.variable(owner, name))
    }

    fn variable(&mut self, owner: &Owner, name: String) -> FieldId {
        let field = Field {
            name: name.clone(),
            owner: name.clone(),
            outer: None,
            leaf: None,
            percpu: owner.percpu,
            of_threads: owner.of_threads,
            home: None,
            room: None,
            used: UseCounts::default(),
        };
        self.number((None, name), field)
    }

    fn typed(&mut self, ty: TypeIndex, owner: &Owner, offset: ByteOffset) -> Option<FieldId> {
        let (model, schema) = (self.model, self.schema);
        let flat = self.flats.entry(ty).or_insert_with(|| {
            let about = schema.get(ty)?;
            FlatType::new(model, about.id).ok()
        });
        let flat = flat.as_ref()?;
        let hit = flat.find(offset, 1)?;
        let leaf = flat.leaf(hit.leaf)?.clone();
        let tag = &schema.get(ty)?.name;
        // A type without a tag is identified by its variable; such types differ even if their names
        // are alike.
        let owner_name = if tag.is_empty() { &owner.label } else { tag };
        // By leaf, so that all elements of an array and all objects of a type are one field.
        let key = (Some((ty, hit.leaf.0)), owner_name.clone());
        if let Some(known) = self.known.get(&key) {
            return Some(*known);
        }
        let field = Field {
            name: format!("{owner_name}.{}", flat.names(hit.leaf)),
            owner: owner_name.clone(),
            outer: Some(ty),
            percpu: owner.percpu,
            of_threads: owner.of_threads,
            home: home(model, flat.type_id(), &leaf.path, 0),
            // Isolating a member of a struct no larger than a line would only make every user of
            // that struct larger.
            room: home(model, flat.type_id(), &leaf.path, self.line_bytes),
            leaf: Some(leaf),
            used: UseCounts::default(),
        };
        Some(self.number(key, field))
    }

    fn number(&mut self, key: (Option<(TypeIndex, u32)>, String), field: Field) -> FieldId {
        let list = &mut self.fields.list;
        *self.known.entry(key).or_insert_with(|| {
            list.push(field);
            FieldId((list.len() - 1) as u32)
        })
    }
}

/// The innermost struct of more than `larger_than` bytes that can be named, and its member that a
/// path leads through. `None` if there is none.
pub(crate) fn home(model: &TypeModel, outer: TypeId, path: &str, larger_than: u64) -> Option<Home> {
    let mut at = model.strip(outer);
    let mut innermost = None;
    for name in path.split('.') {
        let bare = name.trim_end_matches("[]");
        let member = member_of(model, at, bare, 0)?;
        if model.size_of(at).is_some_and(|size| size > larger_than) {
            // A base class is edited itself, however small it is.
            if let Some(subject) = subject_of(model, declaring(model, at, bare)) {
                innermost = Some(Home {
                    subject,
                    member: bare.to_owned(),
                });
            }
        }
        at = element_of(model, member);
    }
    innermost
}

/// The class that declares a member of a class: itself, or the base it is inherited from.
fn declaring(model: &TypeModel, class: TypeId, member: &str) -> TypeId {
    let mut at = class;
    for _ in 0..ANONYMOUS_DEPTH_MAX {
        let members = model.composite(at).map_or(&[][..], |c| &c.members);
        if members.iter().any(|m| &*m.name == member) {
            break;
        }
        let bases = members.iter().filter(|m| base_class(model, m).is_some());
        let mut bases = bases.map(|m| model.strip(m.type_id));
        match bases.find(|base| member_of(model, *base, member, 0).is_some()) {
            Some(base) => at = base,
            None => break,
        }
    }
    at
}

/// Whether a path from a type leads into or to one of these types.
pub(crate) fn is_inside(model: &TypeModel, outer: TypeId, path: &str, ids: &[TypeId]) -> bool {
    types_on(model, outer, path).any(|id| ids.contains(&id))
}

/// The types of the members that a path from a type leads through, elements for arrays; as far as
/// the names are known.
pub(crate) fn types_on<'m>(
    model: &'m TypeModel,
    outer: TypeId,
    path: &'m str,
) -> impl Iterator<Item = TypeId> + 'm {
    let mut at = model.strip(outer);
    path.split('.').map_while(move |name| {
        let member = member_of(model, at, name.trim_end_matches("[]"), 0)?;
        at = element_of(model, member);
        Some(at)
    })
}

/// The type of the member that a path from a type leads to, an array as a whole.
pub(crate) fn member_at(model: &TypeModel, outer: TypeId, path: &str) -> Option<TypeId> {
    let (around, name) = match path.rsplit_once('.') {
        Some((around, name)) => (types_on(model, outer, around).last()?, name),
        None => (model.strip(outer), path),
    };
    member_of(model, around, name.trim_end_matches("[]"), 0)
}

/// How deep anonymous members are searched; the kernel nests five.
const ANONYMOUS_DEPTH_MAX: usize = 24;

/// The type of the member with that name, including anonymous members' members. Recursion: bounded
/// by [`ANONYMOUS_DEPTH_MAX`].
fn member_of(model: &TypeModel, id: TypeId, name: &str, depth: usize) -> Option<TypeId> {
    let composite = model.composite(id)?;
    let named = composite.members.iter().find(|m| &*m.name == name);
    if let Some(member) = named {
        return Some(member.type_id);
    }
    if depth == ANONYMOUS_DEPTH_MAX {
        return None;
    }
    let mut hidden = composite.members.iter().filter(|m| m.name.is_empty());
    hidden.find_map(|m| member_of(model, m.type_id, name, depth + 1))
}

/// The first member of a struct; for one without a name, its own first. As deep as types nest.
pub(crate) fn first_member(model: &TypeModel, id: TypeId) -> Option<String> {
    let mut members = model.composite(id)?.members.iter();
    // An empty base class has none.
    members.find_map(|member| match member.name.is_empty() {
        false => Some(member.name.to_string()),
        true => first_member(model, member.type_id),
    })
}

/// The type without arrays around it.
pub(crate) fn element_of(model: &TypeModel, id: TypeId) -> TypeId {
    let mut id = model.strip(id);
    while let Some(Type::Array { element, .. }) = model.get(id) {
        id = model.strip(*element);
    }
    id
}

/// The name of a struct in edits; `None` if it has none.
pub(crate) fn subject_of(model: &TypeModel, id: TypeId) -> Option<EditSubject> {
    let composite = model.composite(id)?;
    let subject = match model.composite_name(model.strip(id)) {
        "" => {
            let named = composite.members.iter().filter(|m| !m.name.is_empty());
            let members: BTreeSet<String> = named.map(|m| m.name.to_string()).collect();
            EditSubject::With(members.into_iter().collect())
        }
        name => EditSubject::Named(name.to_owned()),
    };
    let ids = resolve(model, &subject).ok()?;
    // Looked up again: the name has to mean this type, or the edit would be of another.
    ids.contains(&model.strip(id)).then_some(subject)
}

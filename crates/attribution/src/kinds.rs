//! Kinds of objects: what objects of one cache, size and allocation site have in common, and the
//! sightings in them.
//!
//! Objects of one kind vote together, so an object that was never passed to a function as its type
//! gets the type of its siblings. A kind whose objects contradict each other (the site of an
//! allocation wrapper, a general cache's objects from before the recording) decides nothing: each
//! of its objects is then judged alone.

use std::sync::Arc;

use linemate_recording::GuestAddr;
use rustc_hash::FxHashMap;

use crate::schema::{Schema, TypeIndex};
use crate::sites::SiteUse;
use crate::votes::{Bounds, Hint, Placement, Votes};

/// The share of its votes that a kind's placements have to explain to decide for all its objects.
// A choice, not measured. In whole numbers, so that the comparison is exact.
const AGREEMENT: (u64, u64) = (9, 10);

/// Below that, a kind decides for its objects without sightings only if its placements explain at
/// least this share.
const MAJORITY: (u64, u64) = (1, 2);

/// Where objects come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// A slab cache, by its index in [`crate::map::KernelMap::caches`].
    Cache(u32),
    /// `kmalloc` of a size whose cache is unknown (the slab was never seen in a memory image).
    Kmalloc,
    Percpu,
    Pages,
    /// `vmalloc` and the like.
    Virtual,
    Program,
    /// What a program maps itself.
    Mapping,
}

/// What makes objects siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKind {
    pub origin: Origin,
    /// Return address of the call that allocated; `None` for objects from before the recording.
    pub site: Option<GuestAddr>,
    /// Requested bytes; for a dedicated cache, those of its objects.
    pub size: u64,
    /// The purpose of the memory, as far as the callers' names show.
    pub usage: SiteUse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindId(pub u32);

/// A list of placements that objects share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FormId(pub u32);

/// What was sighted in one object, once it is dead: interned, because most siblings look alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SignatureId(u32);

/// No sighting at all.
pub const SILENT: SignatureId = SignatureId(0);

#[derive(Debug)]
struct KindEntry {
    kind: ObjectKind,
    bounds: Bounds,
    hint: Option<(String, bool)>,
    elements: Option<TypeIndex>,
    general: bool,
    votes: Votes,
    objects: u64,
}

/// What is at the end of a cache's objects, by its name and the type's: the kernel finds it by its
/// distance from there and passes no pointer to it (`skb_shinfo()` of include/linux/skbuff.h).
const AT_END: [(&str, &str); 1] = [("skbuff_small_head", "skb_shared_info")];

/// Such an end starts a line (SKB_DATA_ALIGN).
const END_ALIGN: u64 = 64;

impl KindEntry {
    /// The placements, and what is at the end behind them.
    fn with_end(&self, schema: &Schema, mut placements: Vec<Placement>) -> Vec<Placement> {
        let end = placements
            .last()
            .map_or(0, |last| last.start.saturating_add(last.size));
        placements.extend(self.at_end(schema).filter(|at_end| at_end.start >= end));
        placements
    }

    /// What the cache's name says about the objects' end.
    fn at_end(&self, schema: &Schema) -> Option<Placement> {
        let (name, _) = self.hint.as_ref()?;
        let (_, ty) = AT_END.iter().find(|(cache, _)| cache == name)?;
        let ty = *schema.named(ty).first()?;
        let size = schema.size(ty);
        let start = self
            .kind
            .size
            .checked_sub(size.next_multiple_of(END_ALIGN))?;
        Some(Placement {
            start,
            size,
            ty,
            stride: size,
        })
    }

    fn hint(&self) -> Option<Hint<'_>> {
        if let Some(ty) = self.elements {
            return Some(Hint::Elements(ty));
        }
        let (name, alike) = self.hint.as_ref()?;
        Some(match alike {
            true => Hint::All(name),
            false => Hint::Some(name),
        })
    }
}

/// One object's sightings, sorted.
type Signature = Arc<[(u64, TypeIndex)]>;

#[derive(Debug)]
pub struct Kinds {
    entries: Vec<KindEntry>,
    numbers: FxHashMap<ObjectKind, KindId>,
    signatures: Vec<Signature>,
    signature_numbers: FxHashMap<Signature, SignatureId>,
}

/// What each kind and each object turned out to be.
#[derive(Debug, Default)]
pub struct Forms {
    /// By [`FormId`]; form 0 has no placements.
    pub forms: Vec<Vec<Placement>>,
    /// A kind's own form, for its objects without sightings, by [`KindId`].
    pub of_kind: Vec<FormId>,
    numbers: FxHashMap<Vec<Placement>, FormId>,
    of_object: FxHashMap<(KindId, SignatureId), FormId>,
}

impl Default for Kinds {
    fn default() -> Self {
        let silent: Signature = Arc::from([]);
        Kinds {
            entries: Vec::new(),
            numbers: FxHashMap::default(),
            signatures: vec![Arc::clone(&silent)],
            signature_numbers: FxHashMap::from_iter([(silent, SILENT)]),
        }
    }
}

impl Kinds {
    /// The number of a kind. `hint` is what its cache's name says.
    pub fn number(&mut self, kind: ObjectKind, bounds: Bounds, hint: Option<Hint<'_>>) -> KindId {
        let next = KindId(self.entries.len() as u32);
        let entries = &mut self.entries;
        *self.numbers.entry(kind).or_insert_with(|| {
            let alike = matches!(hint, Some(Hint::All(_)));
            // Objects from before the recording whose cache's name says nothing: they have only
            // their size in common, so none decides for another.
            let general = kind.site.is_none() && !alike;
            let hint = hint.and_then(|h| Some((h.name()?.to_owned(), alike)));
            entries.push(KindEntry {
                kind,
                bounds,
                hint,
                elements: None,
                general,
                votes: Votes::default(),
                objects: 0,
            });
            next
        })
    }

    /// Notes what the objects of a kind are one or several of, according to the requesting code.
    pub fn declare(&mut self, id: KindId, elements: TypeIndex) {
        self.entries[id.0 as usize].elements = Some(elements);
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The properties that define the kind.
    #[must_use]
    pub fn get(&self, id: KindId) -> ObjectKind {
        self.entries[id.0 as usize].kind
    }

    /// The properties that define each kind, by [`KindId`].
    pub fn iter(&self) -> impl Iterator<Item = ObjectKind> {
        self.entries.iter().map(|entry| entry.kind)
    }

    /// Counts an object of the kind and its sightings.
    pub fn retire(&mut self, id: KindId, sighted: &Votes) -> SignatureId {
        let entry = &mut self.entries[id.0 as usize];
        entry.objects += 1;
        if sighted.is_empty() {
            return SILENT;
        }
        // One vote for each (offset, type) of an object, however often it was seen: a long-lived
        // object does not outvote its siblings.
        entry.votes.add_object(sighted);
        let signature: Signature = sighted.keys_sorted().into();
        let next = SignatureId(self.signatures.len() as u32);
        let signatures = &mut self.signatures;
        *self
            .signature_numbers
            .entry(Arc::clone(&signature))
            .or_insert_with(|| {
                signatures.push(signature);
                next
            })
    }

    #[must_use]
    pub fn decide(&self, schema: &Schema) -> Decider<'_> {
        let mut forms = Forms {
            forms: vec![Vec::new()],
            ..Forms::default()
        };
        forms.numbers.insert(Vec::new(), FormId(0));
        let mut agreed = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            let decided = entry.votes.decide(schema, entry.bounds, entry.hint());
            let share =
                |(part, whole): (u64, u64)| decided.explained * whole >= decided.total * part;
            agreed.push(!entry.general && share(AGREEMENT));
            let speaks = !entry.general && share(MAJORITY);
            let placements = match speaks {
                true => decided.placements,
                false => Vec::new(),
            };
            let form = forms.number(entry.with_end(schema, placements));
            forms.of_kind.push(form);
        }
        Decider {
            kinds: self,
            agreed,
            forms,
        }
    }
}

impl Forms {
    fn number(&mut self, placements: Vec<Placement>) -> FormId {
        let next = FormId(self.forms.len() as u32);
        let forms = &mut self.forms;
        *self.numbers.entry(placements).or_insert_with_key(|p| {
            forms.push(p.clone());
            next
        })
    }
}

/// Decides single objects after the kinds.
#[derive(Debug)]
pub struct Decider<'a> {
    kinds: &'a Kinds,
    agreed: Vec<bool>,
    forms: Forms,
}

impl Decider<'_> {
    /// The form of an object.
    pub fn form(&mut self, schema: &Schema, kind: KindId, signature: SignatureId) -> FormId {
        let of_kind = self.forms.of_kind[kind.0 as usize];
        if self.agreed[kind.0 as usize] || signature == SILENT {
            return of_kind;
        }
        // By signature, not by object: most siblings have the same.
        if let Some(&form) = self.forms.of_object.get(&(kind, signature)) {
            return form;
        }
        let entry = &self.kinds.entries[kind.0 as usize];
        let mut votes = Votes::default();
        for &(offset, ty) in self.kinds.signatures[signature.0 as usize].iter() {
            votes.add(offset, ty, 1);
        }
        let placements = votes.decide(schema, entry.bounds, entry.hint()).placements;
        let form = match placements.is_empty() {
            true => of_kind,
            false => self.forms.number(entry.with_end(schema, placements)),
        };
        self.forms.of_object.insert((kind, signature), form);
        form
    }

    /// The forms, once all objects are decided.
    #[must_use]
    pub fn finish(self) -> Forms {
        self.forms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::tests::sample;

    const ENTITY: TypeIndex = TypeIndex(1);
    const TASK: TypeIndex = TypeIndex(2);

    fn votes(list: &[(u64, TypeIndex)]) -> Votes {
        let mut v = Votes::default();
        for &(o, t) in list {
            v.add(o, t, 100);
        }
        v
    }

    fn kind(site: Option<u64>, size: u64) -> ObjectKind {
        ObjectKind {
            origin: Origin::Kmalloc,
            site: site.map(GuestAddr),
            size,
            usage: SiteUse::Other,
        }
    }

    fn name(forms: &Forms, form: FormId) -> Vec<(u64, u32)> {
        forms.forms[form.0 as usize]
            .iter()
            .map(|p| (p.start, p.ty.0))
            .collect()
    }

    #[test]
    fn siblings_of_one_site_share_their_type() {
        let schema = sample();
        let mut kinds = Kinds::default();
        let k = kinds.number(kind(Some(0x1234), 256), Bounds::Exact(256), None);
        let seen = kinds.retire(k, &votes(&[(0, TASK)]));
        let silent = kinds.retire(k, &Votes::default());
        let mut decider = kinds.decide(&schema);
        let (a, b) = (
            decider.form(&schema, k, seen),
            decider.form(&schema, k, silent),
        );
        let forms = decider.finish();
        assert_eq!(name(&forms, a), vec![(0, 2)]);
        assert_eq!(a, b);
    }

    #[test]
    fn a_wrong_sighting_in_one_object_is_outvoted_by_its_siblings() {
        let schema = sample();
        let mut kinds = Kinds::default();
        let k = kinds.number(kind(Some(0x1234), 100), Bounds::Exact(100), None);
        let wrong = kinds.retire(k, &votes(&[(0, TypeIndex(4))]));
        for _ in 0..20 {
            kinds.retire(k, &votes(&[(0, ENTITY)]));
        }
        let mut decider = kinds.decide(&schema);
        let form = decider.form(&schema, k, wrong);
        assert_eq!(name(&decider.finish(), form), vec![(0, 1)]);
    }

    #[test]
    fn objects_of_a_mixed_kind_speak_for_themselves() {
        let schema = sample();
        let mut kinds = Kinds::default();
        let k = kinds.number(
            kind(None, 256),
            Bounds::Slot {
                size: 256,
                over: 192,
            },
            None,
        );
        let task = kinds.retire(k, &votes(&[(0, TASK)]));
        let entity = kinds.retire(k, &votes(&[(8, ENTITY)]));
        let silent = kinds.retire(k, &Votes::default());
        let mut decider = kinds.decide(&schema);
        let forms: Vec<FormId> = [task, entity, silent]
            .iter()
            .map(|s| decider.form(&schema, k, *s))
            .collect();
        let all = decider.finish();
        assert_eq!(name(&all, forms[0]), vec![(0, 2)]);
        assert_eq!(name(&all, forms[1]), vec![(8, 1)]);
        assert_eq!(
            name(&all, forms[2]),
            vec![],
            "in a general cache nothing follows from the neighbours"
        );
    }

    #[test]
    fn what_is_found_from_an_objects_end_is_there_behind_what_was_sighted() {
        let schema = sample();
        let forms = |cache: &str, size: u64, seen: &[(u64, TypeIndex)]| {
            let mut kinds = Kinds::default();
            let bounds = Bounds::Exact(size);
            let k = kinds.number(kind(Some(1), size), bounds, Some(Hint::All(cache)));
            let signature = kinds.retire(k, &votes(seen));
            let mut decider = kinds.decide(&schema);
            let form = decider.form(&schema, k, signature);
            name(&decider.finish(), form)
        };
        assert_eq!(forms("skbuff_small_head", 704, &[]), [(384, 7)]);
        let header = [(0, ENTITY)];
        assert_eq!(forms("skbuff_small_head", 704, &header), [(0, 1), (384, 7)]);
        assert_eq!(forms("skbuff_head_cache", 704, &[]), []);
        assert_eq!(forms("skbuff_small_head", 256, &[]), [], "too small for it");
        assert_eq!(forms("skbuff_small_head", 320, &header), [(0, 1)]);
    }
}

//! Costs of one type: of its objects, and of those inside objects of other types.

use std::collections::BTreeMap;

use linemate_attribution::Analysis;
use linemate_attribution::schema::TypeIndex;
use linemate_experiment::scene::{KeyName, Place, Scene};
use linemate_layout::edit::EditSubject;
use linemate_layout::plan::{resolve, subject_name};
use linemate_types::{ByteOffset, FlatType};

use super::owner;

/// A type that costs are narrowed to, by its name.
pub(super) struct Narrowed {
    pub(super) name: String,
    /// By key of the scene: where the type has the key's bytes; `None` for what is not of the type.
    places: Vec<Option<InType>>,
}

/// Bytes of a type, in an object of its own or in one of another type.
pub(super) struct InType {
    /// The field, `TYPE.PATH`; `TYPE (padding)` between fields.
    pub(super) field: String,
    /// Bytes from the type's start.
    pub(super) offset: u32,
    /// The member that holds it, `OUTER.PATH`; `None` in objects of its own.
    pub(super) within: Option<String>,
}

impl Narrowed {
    /// The type that is meant, or the struct variable without a tag.
    pub(super) fn new(scene: &Scene<'_>, subject: &EditSubject) -> Narrowed {
        let (analysis, name) = (scene.session.analysis(), subject_name(subject));
        let mut types = analysis.schema().named(&name);
        // A typedef's name is one of a type without a tag.
        let ids = resolve(analysis.model(), subject).unwrap_or_default();
        types.extend(ids.iter().filter_map(|id| analysis.type_index(*id)));
        let finder = Finder {
            analysis,
            name: &name,
            types,
        };
        let mut flats = BTreeMap::new();
        let keys = scene.keys.iter();
        let places = keys.map(|key| finder.find(key, &mut flats)).collect();
        Narrowed { name, places }
    }

    /// Where the type has the bytes of a key.
    pub(super) fn of(&self, key: usize) -> Option<&InType> {
        self.places.get(key)?.as_ref()
    }
}

/// Types of the schema with their fields.
type Flats = BTreeMap<TypeIndex, Option<FlatType>>;

struct Finder<'f> {
    analysis: &'f Analysis<'f>,
    name: &'f str,
    /// All that have the name.
    types: Vec<TypeIndex>,
}

impl Finder<'_> {
    fn find(&self, key: &KeyName, flats: &mut Flats) -> Option<InType> {
        let place = key.place.as_ref()?;
        // An object of its own, or a variable: its key has the path already.
        if owner(key) == self.name {
            return Some(InType {
                field: key.path.clone(),
                offset: place.offset,
                within: None,
            });
        }
        self.inside(place, flats)
    }

    /// The outermost object of the type that the place of another type is inside of.
    fn inside(&self, place: &Place, flats: &mut Flats) -> Option<InType> {
        let schema = self.analysis.schema();
        let found = schema.enclosed(place.ty, &self.types, place.offset.into())?;
        let flat = flats.entry(found.ty).or_insert_with(|| {
            let about = schema.get(found.ty)?;
            FlatType::new(self.analysis.model(), about.id).ok()
        });
        let leaf = flat.as_ref().and_then(|flat| {
            let hit = flat.find(ByteOffset(found.offset), 1)?;
            Some(flat.names(hit.leaf))
        });
        Some(InType {
            field: match leaf {
                Some(leaf) => format!("{}.{leaf}", self.name),
                None => format!("{} (padding)", self.name),
            },
            offset: u32::try_from(found.offset).ok()?,
            within: Some(format!("{}.{}", place.type_name, found.path)),
        })
    }
}

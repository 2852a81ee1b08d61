//! Names for the rows of a tally: which type, which field, which function.

use std::collections::{BTreeMap, HashMap};

use linemate_attribution::schema::TypeIndex;
use linemate_attribution::{Analysis, FunctionName, Subject};
use linemate_recording::GuestAddr;
use linemate_types::{ByteOffset, FlatType, LeafId};

/// The bytes of a type that belong to no field.
pub(crate) const PADDING: &str = "(padding)";

/// A field where it was touched: array elements apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FieldName {
    pub(crate) offset: u64,
    pub(crate) path: String,
    pub(crate) size: u64,
    /// Other names of the same bytes.
    pub(crate) aliases: Vec<String>,
}

/// Looks names up, each once.
pub(crate) struct Resolver<'a> {
    analysis: &'a Analysis<'a>,
    flats: HashMap<TypeIndex, Option<FlatType>>,
    functions: HashMap<GuestAddr, String>,
    fields: HashMap<(TypeIndex, u32, u8), FieldName>,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(analysis: &'a Analysis<'a>) -> Resolver<'a> {
        Resolver {
            analysis,
            flats: HashMap::new(),
            functions: HashMap::new(),
            fields: HashMap::new(),
        }
    }

    /// The function that an instruction belongs to.
    pub(crate) fn function(&mut self, pc: GuestAddr) -> &str {
        let symbols = self.analysis.symbols();
        self.functions.entry(pc).or_insert_with(|| {
            match FunctionName::at(symbols, pc) {
                // Their addresses distinguish them; nothing else is known of them.
                FunctionName::Unknown => pc.to_string(),
                name => name.to_string(),
            }
        })
    }

    /// The field of a type that an access of `size` bytes at `offset` touches first.
    pub(crate) fn field(&mut self, ty: TypeIndex, offset: u32, size: u8) -> FieldName {
        if let Some(known) = self.fields.get(&(ty, offset, size)) {
            return known.clone();
        }
        let name = self.find(ty, offset, size);
        self.fields.insert((ty, offset, size), name.clone());
        name
    }

    fn find(&mut self, ty: TypeIndex, offset: u32, size: u8) -> FieldName {
        let at = ByteOffset(offset.into());
        let found = self.flat(ty).and_then(|flat| {
            let hit = flat.find(at, size.into())?;
            let path = flat.path(&hit);
            let (_, size) = flat.extent(hit.leaf);
            let aliases = aliases(flat, hit.leaf);
            let path = if path.is_empty() {
                "(value)".into()
            } else {
                path
            };
            Some(FieldName {
                offset: hit.offset.0,
                path,
                size,
                aliases,
            })
        });
        found.unwrap_or_else(|| FieldName {
            offset: at.0,
            path: PADDING.to_owned(),
            size: size.into(),
            aliases: Vec::new(),
        })
    }

    /// Whether a type has several fields, which can be laid out.
    pub(crate) fn has_fields(&mut self, ty: TypeIndex) -> bool {
        self.flat(ty).is_some_and(|flat| flat.leaves().len() > 1)
    }

    /// The type unfolded to its leaves; `None` if it cannot be unfolded.
    pub(crate) fn flat(&mut self, ty: TypeIndex) -> Option<&FlatType> {
        let analysis = self.analysis;
        self.flats
            .entry(ty)
            .or_insert_with(|| {
                let about = analysis.schema().get(ty)?;
                FlatType::new(analysis.model(), about.id).ok()
            })
            .as_ref()
    }

    /// What a subject is called: its type, else its variable, else its cache, else its bucket.
    pub(crate) fn subject(&self, subject: &Subject) -> String {
        let schema = self.analysis.schema();
        match subject.ty {
            Some(ty) if schema.get(ty).is_some_and(|t| !t.name.is_empty()) => {
                schema.name(ty).to_owned()
            }
            _ if !subject.label.is_empty() => subject.label.clone(),
            _ => format!("({})", subject.bucket.name()),
        }
    }

    /// Where a subject's objects are: the variable's name, the allocation site, or nothing.
    pub(crate) fn place(&mut self, subject: &Subject) -> String {
        match (subject.site, subject.ty) {
            // A site is a return address: after a call that ends its function it is the next one's.
            (Some(site), _) => format!(
                "allocated in {}",
                self.function(GuestAddr(site.0.wrapping_sub(1)))
            ),
            (None, Some(_)) => subject.label.clone(),
            (None, None) => String::new(),
        }
    }
}

/// Other names of a leaf's bytes.
pub(crate) fn aliases(flat: &FlatType, leaf: LeafId) -> Vec<String> {
    let own = flat.leaf(leaf).map(|leaf| &leaf.path);
    flat.same_bytes(leaf)
        .map(|leaf| &leaf.path)
        .filter(|path| Some(*path) != own)
        .cloned()
        .collect()
}

/// Adds to a named sum.
pub(crate) fn count(parts: &mut BTreeMap<String, u64>, name: &str, accesses: u64) {
    match parts.get_mut(name) {
        Some(sum) => *sum += accesses,
        None => {
            parts.insert(name.to_owned(), accesses);
        }
    }
}

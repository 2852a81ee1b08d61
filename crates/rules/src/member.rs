//! Where the members that rules name are: paths like `cfs.avg` or `pri_to_cpu[0].count` → bytes of
//! the outermost type.

use linemate_types::{
    CompositeKind, FlattenError, LineSize, NamedMember, Type, TypeId, TypeModel, named_members,
};

/// Bytes `start..end` of a type. A member without a size (a flexible array, a lock that a
/// configuration empties) has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Span {
    pub(crate) fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// The lines that it touches, first and last; `None` without bytes.
    pub(crate) fn lines(self, line: LineSize) -> Option<(u64, u64)> {
        let last = self.end.checked_sub(1)?;
        (!self.is_empty()).then(|| (self.start / line.bytes(), last / line.bytes()))
    }
}

/// The bytes of a member; for a bit-field those that its bits touch.
pub(crate) fn span(member: &NamedMember) -> Span {
    let place = member.place;
    match place.bits {
        Some((first, width)) => {
            let bit = place.offset.0 * 8 + first;
            Span {
                start: bit / 8,
                end: (bit + u64::from(width)).div_ceil(8),
            }
        }
        None => Span {
            start: place.offset.0,
            end: place.offset.0 + place.size,
        },
    }
}

/// Why a path does not resolve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The kernel has no such member.
    #[error("{owner} has no member `{name}`{}", linemate_text::suggestion(.nearest))]
    Missing {
        /// The type that lacks it.
        owner: String,
        name: String,
        /// The most similar names, best first.
        nearest: Vec<String>,
    },
    /// Something after a dot that has no members.
    #[error("`{path}` is not a struct or union, so it has no member `{name}`")]
    NoMembers {
        /// The path up to the dot.
        path: String,
        /// The name after the dot.
        name: String,
    },
    /// An index after something that is not an array.
    #[error("`{0}` is not an array")]
    NoArray(String),
    /// A member of an array's element without an index.
    #[error("`{path}` is an array: write `{path}[0].{name}`, or name the array itself")]
    NoIndex {
        /// The path up to the array.
        path: String,
        /// The name after the dot.
        name: String,
    },
    /// An index past the end of an array.
    #[error("`{path}` has {count} elements, so none of index {index}")]
    Index {
        path: String,
        index: u64,
        count: u64,
    },
    /// Something that is not a path at all.
    #[error("`{0}` is not a member's path: names are separated by dots, indices are in [ ]")]
    Spelling(String),
    /// Types too large to search (hostile types only).
    #[error(transparent)]
    Flatten(#[from] FlattenError),
}

/// A name and the indices after it.
fn step(text: &str) -> Option<(&str, Vec<u64>)> {
    let (name, mut rest) = match text.find('[') {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let mut indices = Vec::new();
    while !rest.is_empty() {
        let (index, after) = rest.strip_prefix('[')?.split_once(']')?;
        indices.push(index.parse().ok()?);
        rest = after;
    }
    (!name.is_empty()).then_some((name, indices))
}

/// The bytes of the member at `path` of the struct `id`.
///
/// # Errors
/// [`PathError`]: no such member, or an array or struct treated as something else.
pub(crate) fn find(
    model: &TypeModel,
    id: TypeId,
    path: &str,
    line: LineSize,
) -> Result<Span, PathError> {
    let (mut owner, mut base, mut so_far) = (id, 0u64, String::new());
    let mut found = Span { start: 0, end: 0 };
    for text in path.split('.') {
        let spelling = || PathError::Spelling(path.to_owned());
        let (name, indices) = step(text).ok_or_else(spelling)?;
        if !so_far.is_empty() {
            enter(model, owner, &so_far, name)?;
            so_far.push('.');
        }
        so_far.push_str(name);
        let members = named_members(model, owner, line)?;
        let Some(member) = members.iter().find(|m| m.name.as_str() == name) else {
            return Err(missing(model, owner, name, &members));
        };
        let inner = span(member);
        found = Span {
            start: base.saturating_add(inner.start),
            end: base.saturating_add(inner.end),
        };
        owner = model.strip(member.type_id);
        for index in indices {
            (owner, found) = element(model, owner, found, index, &so_far)?;
            so_far.push_str(&format!("[{index}]"));
        }
        base = found.start;
    }
    Ok(found)
}

/// Checks that `owner`, which is at `path`, can have a member `name`.
fn enter(model: &TypeModel, owner: TypeId, path: &str, name: &str) -> Result<(), PathError> {
    let (path, name) = (path.to_owned(), name.to_owned());
    match model.get(owner) {
        Some(Type::Composite(_)) => Ok(()),
        Some(Type::Array { .. }) => Err(PathError::NoIndex { path, name }),
        _ => Err(PathError::NoMembers { path, name }),
    }
}

fn element(
    model: &TypeModel,
    array: TypeId,
    whole: Span,
    index: u64,
    path: &str,
) -> Result<(TypeId, Span), PathError> {
    let Some(Type::Array { element, count, .. }) = model.get(array) else {
        return Err(PathError::NoArray(path.to_owned()));
    };
    let count = u64::from(*count);
    if index >= count {
        return Err(PathError::Index {
            path: path.to_owned(),
            index,
            count,
        });
    }
    let size = model.size_of(*element).unwrap_or(0);
    let start = whole.start.saturating_add(index.saturating_mul(size));
    let end = start.saturating_add(size);
    Ok((model.strip(*element), Span { start, end }))
}

fn missing(model: &TypeModel, owner: TypeId, name: &str, members: &[NamedMember]) -> PathError {
    let candidates = members.iter().map(|m| m.name.as_str());
    PathError::Missing {
        owner: owner_name(model, owner),
        name: name.to_owned(),
        nearest: linemate_text::nearest(name, candidates),
    }
}

fn owner_name(model: &TypeModel, id: TypeId) -> String {
    match model.composite(id) {
        Some(c) if c.name.is_empty() => format!("the {} without a tag", c.kind.keyword()),
        Some(c) if c.kind == CompositeKind::Struct => c.name.to_string(),
        Some(c) => format!("{} {}", c.kind.keyword(), c.name),
        None => "it".to_owned(),
    }
}

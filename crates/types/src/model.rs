//! The type model: the types, and the queries on them.
//!
//! It holds C types as debug information describes them, in whatever format: a reader (today
//! [`crate::btf`]) makes a list of [`Type`]s, [`TypeModel::new`] checks it once, and from then on
//! every id is in range, every by-value chain ends, and every size is known. The model does not
//! know where the types came from.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;

use linemate_units::BitOffset;

use crate::check::{self, ModelError};
use crate::{Name, TypeId};

/// How an integer's bits are interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntEncoding {
    /// No sign.
    Unsigned,
    /// Two's complement.
    Signed,
    /// `char`, if the format distinguishes it.
    Char,
    /// `_Bool`.
    Bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompositeKind {
    /// Members one after the other.
    Struct,
    /// Members at the same offset.
    Union,
}

impl CompositeKind {
    pub fn keyword(self) -> &'static str {
        match self {
            CompositeKind::Struct => "struct",
            CompositeKind::Union => "union",
        }
    }
}

/// The language of a program's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    C,
    Cpp,
    Rust,
}

impl Language {
    pub fn name(self) -> &'static str {
        match self {
            Language::C => "C",
            Language::Cpp => "C++",
            Language::Rust => "Rust",
        }
    }
}

/// A struct or union with its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composite {
    /// Struct or union.
    pub kind: CompositeKind,
    /// The source's keyword for it, if that differs from the kind's.
    pub keyword: Option<Keyword>,
    /// Its tag, in C++ and Rust with its namespaces; empty when anonymous.
    pub name: Name,
    /// `sizeof`, in bytes.
    pub size: u32,
    /// The alignment in bytes that its declaration asks for; 0 for none, or if the debug
    /// information does not say.
    pub alignment: u32,
    /// In the order of the debug information, which is declaration order; virtual bases come last,
    /// where they are.
    pub members: Vec<Member>,
    /// Where it is declared, if the debug information says so.
    pub declared: Option<SourceLine>,
    /// Its language, if the debug information says so; BTF does not.
    pub language: Option<Language>,
    /// It is a base class without its last bytes, which hold members of the derived class (Itanium
    /// C++ ABI, 2.4). The whole class has the same name, and these members.
    pub is_part: bool,
}

impl Composite {
    /// A struct or union with nothing else known, as in BTF.
    pub fn new(kind: CompositeKind, name: Name, size: u32, members: Vec<Member>) -> Composite {
        Composite {
            kind,
            keyword: None,
            name,
            size,
            alignment: 0,
            members,
            declared: None,
            language: None,
            is_part: false,
        }
    }

    /// The source's keyword: `struct`, `union`, `class`, `enum`.
    pub fn keyword(&self) -> &'static str {
        match self.keyword {
            Some(Keyword::Class) => "class",
            Some(Keyword::Enum) => "enum",
            None => self.kind.keyword(),
        }
    }
}

/// The keyword of a language other than C for a struct or union.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keyword {
    /// C++'s `class`.
    Class,
    /// Rust's `enum` with values: a union of its variants and their discriminant.
    Enum,
}

/// A line of the source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceLine {
    /// The file as passed to the compiler, with its folder if that is known.
    pub file: Name,
    /// From 1, if the debug information says so.
    pub line: Option<NonZeroU32>,
}

/// As compilers write it: the file, and the line after a colon.
impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        self.line.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

/// What a member is to the type around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemberRole {
    /// A member, declared as one.
    #[default]
    Field,
    /// A base class: a member without a name, whose members belong to the enclosing type.
    Base,
    /// A virtual base class, at the offset that it has in objects of exactly this type.
    VirtualBase,
}

/// A member of a struct or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Empty for anonymous structs and unions.
    pub name: Name,
    pub type_id: TypeId,
    /// From the start of the composite.
    pub offset: BitOffset,
    /// Width in bits when it is a bit-field.
    pub bits: Option<u32>,
    /// The alignment in bytes that its declaration asks for; 0 for none, or if the debug
    /// information does not say.
    pub alignment: u32,
    /// Whether it is a base class.
    pub role: MemberRole,
    /// The line that declares it, in the file that declares its type, if the debug information
    /// says so.
    pub line: Option<NonZeroU32>,
}

impl Member {
    /// A member, not a bit-field, with nothing else known.
    pub fn new(name: Name, type_id: TypeId, offset: BitOffset) -> Member {
        Member {
            name,
            type_id,
            offset,
            bits: None,
            alignment: 0,
            role: MemberRole::Field,
            line: None,
        }
    }
}

/// A named value of an enum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enumerator {
    pub name: Name,
    /// Its value; for an unsigned 64-bit enum the same bits.
    pub value: i64,
}

/// A parameter of a prototype.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Empty if the debug information has no name for it.
    pub name: Name,
    pub type_id: TypeId,
}

/// What a function takes and returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prototype {
    /// The returned type, [`TypeId::VOID`] for none.
    pub result: TypeId,
    /// The parameters in order, without the `...`.
    pub parameters: Vec<Parameter>,
    /// Whether it ends in `...`.
    pub variadic: bool,
}

/// `const`, `volatile`, `restrict`, or an attribute that BTF writes as a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Qualifier {
    /// `const`
    Const,
    /// `volatile`
    Volatile,
    /// `restrict`
    Restrict,
    /// `_Atomic`
    Atomic,
    /// `__attribute__((btf_type_tag("…")))`, e.g. `user`, `percpu`, `rcu`.
    Tag(Name),
}

/// The linkage of a function or variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Linkage {
    /// `static`
    Static,
    /// Defined here, visible everywhere.
    Global,
    /// Declared here, defined elsewhere.
    Extern,
}

/// A variable's place in a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionVariable {
    /// A [`Type::Variable`].
    pub variable: TypeId,
    /// From the start of the section.
    pub offset: u32,
    /// The size in bytes.
    pub size: u32,
}

/// A type, or another entity that debug information numbers like a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// `void`; only [`TypeId::VOID`].
    Void,
    Int {
        /// `unsigned int`
        name: Name,
        /// The size of its storage in bytes.
        size: u32,
        /// Bits used: `size * 8` except for bit-fields in BTF of compilers before kind_flag.
        bits: u8,
        /// Where in the storage those bits start.
        bit_offset: u8,
        /// How its bits are interpreted.
        encoding: IntEncoding,
    },
    Float {
        /// `double`
        name: Name,
        /// The size in bytes.
        size: u32,
    },
    /// `target *`
    Pointer {
        /// What it points to.
        target: TypeId,
    },
    /// `element[count]`; several dimensions nest, the outermost first.
    Array {
        element: TypeId,
        /// The type of its index.
        index: TypeId,
        /// Number of elements; 0 for a flexible array.
        count: u32,
    },
    /// A struct or union.
    Composite(Composite),
    Enum {
        /// Its tag; empty when anonymous.
        name: Name,
        /// The size in bytes.
        size: u32,
        /// Whether its values are signed.
        signed: bool,
        /// The values; none for a mere declaration.
        values: Vec<Enumerator>,
    },
    /// A struct or union that is only declared.
    Forward {
        name: Name,
        /// Struct or union.
        kind: CompositeKind,
    },
    /// Another name for a type.
    Typedef { name: Name, target: TypeId },
    Qualified {
        qualifier: Qualifier,
        target: TypeId,
    },
    /// The type of a function.
    Prototype(Prototype),
    Function {
        name: Name,
        /// A [`Type::Prototype`].
        prototype: TypeId,
        /// Who can see it.
        linkage: Linkage,
    },
    Variable {
        name: Name,
        type_id: TypeId,
        /// Who can see it.
        linkage: Linkage,
    },
    /// A section of variables.
    Section {
        /// `.data..percpu`
        name: Name,
        /// Bytes; 0 if the writer did not fill it in.
        size: u32,
        variables: Vec<SectionVariable>,
    },
    /// An attribute of a declaration.
    DeclarationTag {
        name: Name,
        /// What it is attached to.
        target: TypeId,
        /// Which member or parameter of it; `None` for the whole.
        component: Option<u32>,
    },
}

impl Type {
    /// Its name; empty if it is anonymous or has none.
    pub fn name(&self) -> &str {
        match self {
            Type::Int { name, .. }
            | Type::Float { name, .. }
            | Type::Enum { name, .. }
            | Type::Forward { name, .. }
            | Type::Typedef { name, .. }
            | Type::Function { name, .. }
            | Type::Variable { name, .. }
            | Type::Section { name, .. }
            | Type::DeclarationTag { name, .. } => name,
            Type::Composite(composite) => &composite.name,
            Type::Void
            | Type::Pointer { .. }
            | Type::Array { .. }
            | Type::Qualified { .. }
            | Type::Prototype(_) => "",
        }
    }
}

/// All types of a kernel or program.
#[derive(Clone, Debug)]
pub struct TypeModel {
    types: Vec<Type>,
    /// `sizeof` by id; `None` for what has none (void, functions, mere declarations).
    sizes: Vec<Option<u64>>,
    /// The ids of all types with a name, sorted by (name, id).
    by_name: Vec<TypeId>,
    /// The ids of types that a shorter name can refer to: their own has scopes or generic
    /// arguments.
    scoped: Vec<TypeId>,
    /// By struct or union without a tag: the typedef that names it.
    typedefs: BTreeMap<TypeId, TypeId>,
    pointer_size: u32,
    has_alignments: bool,
}

impl TypeModel {
    /// A model of `types`, whose first must be [`Type::Void`]; a [`TypeId`] is an index into it.
    /// `pointer_size` is in bytes.
    ///
    /// # Errors
    /// If the types contradict each other: see [`ModelError`].
    pub fn new(types: Vec<Type>, pointer_size: u32) -> Result<TypeModel, ModelError> {
        let sizes = check::check(&types, pointer_size)?;
        let mut by_name: Vec<TypeId> = (0u32..)
            .zip(&types)
            .filter(|(_, t)| !t.name().is_empty())
            .map(|(id, _)| TypeId(id))
            .collect();
        // By id as well, so that "the first" is the same for every reader of a table.
        by_name.sort_by(|a, b| {
            types[a.index()]
                .name()
                .cmp(types[b.index()].name())
                .then(a.cmp(b))
        });
        // `>@`: `join` has appended a file to generic arguments.
        let is_scoped = |id: &TypeId| {
            let t = &types[id.index()];
            matches!(
                t,
                Type::Composite(_) | Type::Enum { .. } | Type::Typedef { .. }
            ) && (t.name().contains("::") || t.name().ends_with('>') || t.name().contains(">@"))
        };
        let scoped = by_name.iter().copied().filter(is_scoped).collect();
        let mut model = TypeModel {
            types,
            sizes,
            by_name,
            scoped,
            typedefs: BTreeMap::new(),
            pointer_size,
            has_alignments: false,
        };
        model.typedefs = model.naming_typedefs();
        Ok(model)
    }

    /// Like [`TypeModel::new`], for debug information with requested alignments
    /// ([`Composite::alignment`], [`Member::alignment`]), so that none is inferred from offsets.
    ///
    /// # Errors
    /// Like [`TypeModel::new`].
    pub fn with_alignments(types: Vec<Type>, pointer_size: u32) -> Result<TypeModel, ModelError> {
        let mut model = TypeModel::new(types, pointer_size)?;
        model.has_alignments = true;
        Ok(model)
    }

    /// Whether requested alignments are known instead of inferred.
    pub fn has_alignments(&self) -> bool {
        self.has_alignments
    }

    /// Number of types, `void` included.
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// Whether it has no type except `void`.
    pub fn is_empty(&self) -> bool {
        self.types.len() <= 1
    }

    /// Bytes of a pointer: 8, or 4 on 32-bit machines.
    pub fn pointer_size(&self) -> u32 {
        self.pointer_size
    }

    /// The type with that id; `None` if there is none (ids of another model).
    pub fn get(&self, id: TypeId) -> Option<&Type> {
        self.types.get(id.index())
    }

    /// All types in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (TypeId, &Type)> {
        (0u32..).map(TypeId).zip(&self.types)
    }

    /// `sizeof` in bytes; `None` for void, functions, declarations and ids of another model.
    pub fn size_of(&self, id: TypeId) -> Option<u64> {
        self.sizes.get(id.index()).copied().flatten()
    }

    /// The ids of everything called `name` (structs, typedefs, functions, … do not share a name
    /// space), ascending.
    pub fn named(&self, name: &str) -> &[TypeId] {
        let name_of = |id: &TypeId| self.get(*id).map_or("", Type::name);
        let start = self.by_name.partition_point(|id| name_of(id) < name);
        let count = self.by_name[start..].partition_point(|id| name_of(id) == name);
        &self.by_name[start..start + count]
    }

    fn first_named(&self, name: &str, wanted: impl Fn(&Type) -> bool) -> Option<TypeId> {
        self.named(name)
            .iter()
            .copied()
            .find(|id| self.get(*id).is_some_and(&wanted))
    }

    /// The first struct with that tag. BTF keeps several if translation units disagree about it.
    pub fn struct_named(&self, name: &str) -> Option<TypeId> {
        self.composite_named(name, CompositeKind::Struct)
    }

    /// The first struct or union of that kind and tag.
    pub fn composite_named(&self, name: &str, kind: CompositeKind) -> Option<TypeId> {
        self.first_named(name, |t| matches!(t, Type::Composite(c) if c.kind == kind))
    }

    /// The first typedef of that name.
    pub fn typedef_named(&self, name: &str) -> Option<TypeId> {
        self.first_named(name, |t| matches!(t, Type::Typedef { .. }))
    }

    /// The name of the struct or union with that id: its tag, else the typedef's that names it
    /// (`typedef struct { … } name;`); empty if it has neither, and for other types.
    pub fn composite_name(&self, id: TypeId) -> &str {
        let Some(Type::Composite(composite)) = self.get(id) else {
            return "";
        };
        let typedef = || self.typedefs.get(&id).and_then(|id| self.get(*id));
        match &*composite.name {
            "" => typedef().map_or("", Type::name),
            tag => tag,
        }
    }

    /// The typedefs that name structs and unions without tags, by struct or union: the first of
    /// each whose name is not a tag, because tags are looked up before typedefs.
    fn naming_typedefs(&self) -> BTreeMap<TypeId, TypeId> {
        let mut found = BTreeMap::new();
        for (id, ty) in self.iter() {
            let Type::Typedef { name, target } = ty else {
                continue;
            };
            let untagged =
                matches!(self.get(*target), Some(Type::Composite(c)) if c.name.is_empty());
            let is_tag = |ty: &Type| matches!(ty, Type::Composite(_) | Type::Enum { .. });
            if untagged && !name.is_empty() && self.first_named(name, is_tag).is_none() {
                found.entry(*target).or_insert(id);
            }
        }
        found
    }

    /// The first enum of that tag.
    pub fn enum_named(&self, name: &str) -> Option<TypeId> {
        self.first_named(name, |t| matches!(t, Type::Enum { .. }))
    }

    /// The type a user means by `name`: `struct T`, `union T`, `enum T`, `class T`, or a bare `T`,
    /// which is the struct, else the union, else the typedef (with its target resolved), else the
    /// enum of that name, else the only type whose name ends in it: `Queue` for `app::Queue<int>`.
    pub fn lookup(&self, name: &str) -> Option<TypeId> {
        let name = name.trim();
        let named = |wanted: fn(&Type) -> bool, tag: &str| {
            let short = || {
                self.short_named(tag.trim())
                    .filter(|id| self.get(*id).is_some_and(wanted))
            };
            self.first_named(tag.trim(), wanted).or_else(short)
        };
        if let Some(tag) = name
            .strip_prefix("struct ")
            .or_else(|| name.strip_prefix("class "))
        {
            return named(
                |t| matches!(t, Type::Composite(c) if c.kind == CompositeKind::Struct),
                tag,
            );
        }
        if let Some(tag) = name.strip_prefix("union ") {
            return named(
                |t| matches!(t, Type::Composite(c) if c.kind == CompositeKind::Union),
                tag,
            );
        }
        if let Some(tag) = name.strip_prefix("enum ") {
            let is_enum = |t: &Type| match t {
                Type::Composite(c) => c.keyword == Some(Keyword::Enum),
                t => matches!(t, Type::Enum { .. }),
            };
            return named(is_enum, tag);
        }
        self.struct_named(name)
            .or_else(|| self.composite_named(name, CompositeKind::Union))
            .or_else(|| self.typedef_named(name).map(|id| self.strip(id)))
            .or_else(|| self.enum_named(name))
            // Last: a shortened name must not hide a full one.
            .or_else(|| self.short_named(name).map(|id| self.strip(id)))
    }

    /// The types whose names have scopes or generic arguments.
    pub(crate) fn scoped(&self) -> &[TypeId] {
        &self.scoped
    }

    /// The type without typedefs, qualifiers and tags.
    pub fn strip(&self, id: TypeId) -> TypeId {
        let mut id = id;
        // The check at construction ensures that such chains end.
        while let Some(Type::Typedef { target, .. } | Type::Qualified { target, .. }) = self.get(id)
        {
            id = *target;
        }
        id
    }

    /// The struct or union without typedefs and qualifiers.
    pub fn composite(&self, id: TypeId) -> Option<&Composite> {
        match self.get(self.strip(id)) {
            Some(Type::Composite(composite)) => Some(composite),
            _ => None,
        }
    }

    /// If a value of type `id` is a pointer: its target, without typedefs and qualifiers on either
    /// side of the `*`.
    pub fn pointer_target(&self, id: TypeId) -> Option<TypeId> {
        match self.get(self.strip(id))? {
            Type::Pointer { target } => Some(self.strip(*target)),
            _ => None,
        }
    }

    /// Whether a value of type `id` is one number, enum or pointer.
    pub fn is_scalar(&self, id: TypeId) -> bool {
        matches!(
            self.get(self.strip(id)),
            Some(Type::Int { .. } | Type::Float { .. } | Type::Enum { .. } | Type::Pointer { .. })
        )
    }

    /// What the rows of an array are made of, if those are scalars: `int` of `int[4][10]`. Any
    /// other type is itself, without typedefs and qualifiers.
    pub fn scalar_of_rows(&self, id: TypeId) -> TypeId {
        let whole = self.strip(id);
        let mut element = whole;
        // The model has checked that arrays do not contain themselves.
        while let Some(Type::Array { element: inner, .. }) = self.get(element) {
            element = self.strip(*inner);
        }
        match self.is_scalar(element) {
            true => element,
            false => whole,
        }
    }

    /// If a value of type `id` is a pointer to a defined struct or union: that type, without
    /// typedefs and qualifiers on either side of the `*`.
    pub fn pointer_to_composite(&self, id: TypeId) -> Option<TypeId> {
        let target = self.pointer_target(id)?;
        matches!(self.get(target), Some(Type::Composite(_))).then_some(target)
    }

    /// All functions: id, symbol, prototype.
    pub fn functions(&self) -> impl Iterator<Item = (TypeId, &Name, &Prototype)> {
        self.iter().filter_map(|(id, t)| match t {
            Type::Function {
                name, prototype, ..
            } => Some((id, name, self.prototype(*prototype)?)),
            _ => None,
        })
    }

    /// The prototype of a [`Type::Function`] or [`Type::Prototype`].
    pub fn prototype(&self, id: TypeId) -> Option<&Prototype> {
        match self.get(id)? {
            Type::Prototype(prototype) => Some(prototype),
            Type::Function { prototype, .. } => match self.get(*prototype)? {
                Type::Prototype(prototype) => Some(prototype),
                _ => None,
            },
            _ => None,
        }
    }
}

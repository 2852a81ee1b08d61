//! Writes a list of types as a BTF blob, and builds such lists conveniently.
//!
//! Not a full encoder: the types are written in the order and with the ids that they have, and only
//! strings are deduplicated. The numbers of the kinds are its own, not the reader's, so that a
//! wrong one shows.

use std::collections::HashMap;

use linemate_types::btf::{MAGIC, VERSION};
use linemate_types::{
    BitOffset, Composite, CompositeKind, Enumerator, IntEncoding, Linkage, Member, Name,
    PERCPU_SECTION, Parameter, Prototype, Qualifier, SectionVariable, Type, TypeId,
};

/// The kinds of records.
mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const POINTER: u32 = 2;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const FORWARD: u32 = 7;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const VOLATILE: u32 = 9;
    pub(super) const CONST: u32 = 10;
    pub(super) const RESTRICT: u32 = 11;
    pub(super) const FUNCTION: u32 = 12;
    pub(super) const PROTOTYPE: u32 = 13;
    pub(super) const VARIABLE: u32 = 14;
    pub(super) const SECTION: u32 = 15;
    pub(super) const FLOAT: u32 = 16;
    pub(super) const DECLARATION_TAG: u32 = 17;
    pub(super) const TYPE_TAG: u32 = 18;
    pub(super) const ENUM64: u32 = 19;
}

/// The order of the bytes in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endian {
    /// x86, arm64, ppc64el.
    Little,
    /// s390x.
    Big,
}

/// What BTF cannot hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// More members, parameters, values or variables than 16 bits can count.
    #[error("type {id}: {count} entries are more than 65535")]
    TooMany { id: TypeId, count: usize },
    /// A member that starts or ends where BTF cannot express it.
    #[error("type {id}: a member at bit {offset} of {bits} bits cannot be written", offset = offset.0)]
    Member {
        id: TypeId,
        offset: BitOffset,
        /// Its width as a bit-field; 0 for none.
        bits: u32,
    },
    /// A name with a NUL in it.
    #[error("type {0}: a name contains a NUL")]
    Name(TypeId),
    /// More than 4 GiB of types or strings.
    #[error("{0} bytes are too many")]
    TooLarge(usize),
    /// `void` is only the first type.
    #[error("type {0} is void")]
    Void(TypeId),
}

/// Writes `types`, the first of which is [`Type::Void`] and is not written.
///
/// # Errors
/// [`WriteError`]: what the format has no room for.
pub fn write(types: &[Type], endian: Endian) -> Result<Vec<u8>, WriteError> {
    let mut writer = Writer {
        types: Vec::new(),
        strings: vec![0],
        offsets: HashMap::from([(String::new(), 0)]),
        endian,
        id: TypeId(0),
    };
    for (id, t) in (0u32..).map(TypeId).zip(types).skip(1) {
        writer.id = id;
        writer.record(t)?;
    }
    writer.finish()
}

struct Writer {
    types: Vec<u8>,
    strings: Vec<u8>,
    offsets: HashMap<String, u32>,
    endian: Endian,
    id: TypeId,
}

impl Writer {
    fn bytes(&self, word: u32) -> [u8; 4] {
        match self.endian {
            Endian::Little => word.to_le_bytes(),
            Endian::Big => word.to_be_bytes(),
        }
    }

    fn word(&mut self, word: u32) {
        let bytes = self.bytes(word);
        self.types.extend_from_slice(&bytes);
    }

    fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|w| self.word(*w));
    }

    fn name(&mut self, name: &str) -> Result<u32, WriteError> {
        if let Some(offset) = self.offsets.get(name) {
            return Ok(*offset);
        }
        if name.contains('\0') {
            return Err(WriteError::Name(self.id));
        }
        let offset = u32::try_from(self.strings.len())
            .map_err(|_| WriteError::TooLarge(self.strings.len()))?;
        self.strings.extend_from_slice(name.as_bytes());
        self.strings.push(0);
        self.offsets.insert(name.to_owned(), offset);
        Ok(offset)
    }

    /// The first three words of a record.
    fn start(
        &mut self,
        kind: u32,
        name: &str,
        count: usize,
        flag: bool,
        last: u32,
    ) -> Result<(), WriteError> {
        let vlen = u16::try_from(count).map_err(|_| WriteError::TooMany { id: self.id, count })?;
        let name = self.name(name)?;
        self.words(&[
            name,
            u32::from(flag) << 31 | kind << 24 | u32::from(vlen),
            last,
        ]);
        Ok(())
    }

    fn record(&mut self, t: &Type) -> Result<(), WriteError> {
        match t {
            Type::Void => return Err(WriteError::Void(self.id)),
            Type::Int {
                name,
                size,
                bits,
                bit_offset,
                encoding,
            } => {
                self.start(kind::INT, name, 0, false, *size)?;
                let encoding = match encoding {
                    IntEncoding::Unsigned => 0,
                    IntEncoding::Signed => 1,
                    IntEncoding::Char => 2,
                    IntEncoding::Bool => 4,
                };
                self.word(encoding << 24 | u32::from(*bit_offset) << 16 | u32::from(*bits));
            }
            Type::Float { name, size } => self.start(kind::FLOAT, name, 0, false, *size)?,
            Type::Pointer { target } => self.start(kind::POINTER, "", 0, false, target.0)?,
            Type::Array {
                element,
                index,
                count,
            } => {
                self.start(kind::ARRAY, "", 0, false, 0)?;
                self.words(&[element.0, index.0, *count]);
            }
            Type::Composite(composite) => self.composite(composite)?,
            Type::Enum {
                name,
                size,
                signed,
                values,
            } => {
                self.enumeration(name, *size, *signed, values)?;
            }
            Type::Forward { name, kind } => {
                let flag = *kind == CompositeKind::Union;
                self.start(kind::FORWARD, name, 0, flag, 0)?;
            }
            Type::Typedef { name, target } => {
                self.start(kind::TYPEDEF, name, 0, false, target.0)?;
            }
            Type::Qualified { qualifier, target } => {
                let (kind, name) = match qualifier {
                    Qualifier::Const => (kind::CONST, ""),
                    Qualifier::Volatile => (kind::VOLATILE, ""),
                    Qualifier::Restrict => (kind::RESTRICT, ""),
                    Qualifier::Tag(name) => (kind::TYPE_TAG, name.as_str()),
                    // BTF has no kind for it; pahole writes a tag, too.
                    Qualifier::Atomic => (kind::TYPE_TAG, "_Atomic"),
                };
                self.start(kind, name, 0, false, target.0)?;
            }
            Type::Prototype(prototype) => self.prototype(prototype)?,
            Type::Function {
                name,
                prototype,
                linkage,
            } => {
                self.start(
                    kind::FUNCTION,
                    name,
                    number(*linkage) as usize,
                    false,
                    prototype.0,
                )?;
            }
            Type::Variable {
                name,
                type_id,
                linkage,
            } => {
                self.start(kind::VARIABLE, name, 0, false, type_id.0)?;
                self.word(number(*linkage));
            }
            Type::Section {
                name,
                size,
                variables,
            } => {
                self.start(kind::SECTION, name, variables.len(), false, *size)?;
                variables
                    .iter()
                    .for_each(|v| self.words(&[v.variable.0, v.offset, v.size]));
            }
            Type::DeclarationTag {
                name,
                target,
                component,
            } => {
                self.start(kind::DECLARATION_TAG, name, 0, false, target.0)?;
                self.word(component.unwrap_or(u32::MAX));
            }
        }
        Ok(())
    }

    fn composite(&mut self, composite: &Composite) -> Result<(), WriteError> {
        let kind = match composite.kind {
            CompositeKind::Struct => kind::STRUCT,
            CompositeKind::Union => kind::UNION,
        };
        let members = &composite.members;
        let flag = members.iter().any(|m| m.bits.is_some());
        self.start(kind, &composite.name, members.len(), flag, composite.size)?;
        for member in members {
            let bits = member.bits.unwrap_or(0);
            let error = WriteError::Member {
                id: self.id,
                offset: member.offset,
                bits,
            };
            let offset = u32::try_from(member.offset.0).map_err(|_| error.clone())?;
            if flag && (offset > 0x00ff_ffff || bits > 0xff) {
                return Err(error);
            }
            let name = self.name(&member.name)?;
            self.words(&[name, member.type_id.0, bits << 24 | offset]);
        }
        Ok(())
    }

    fn enumeration(
        &mut self,
        name: &str,
        size: u32,
        signed: bool,
        values: &[Enumerator],
    ) -> Result<(), WriteError> {
        let fits = |value: i64| match signed {
            true => i32::try_from(value).is_ok(),
            false => u32::try_from(value).is_ok(),
        };
        let wide = !values.iter().all(|v| fits(v.value));
        let kind = if wide { kind::ENUM64 } else { kind::ENUM };
        self.start(kind, name, values.len(), signed, size)?;
        for Enumerator { name, value } in values {
            let name = self.name(name)?;
            // The two halves of the value, as the format has them.
            self.words(&[name, *value as u32]);
            if wide {
                self.word((*value >> 32) as u32);
            }
        }
        Ok(())
    }

    fn prototype(&mut self, prototype: &Prototype) -> Result<(), WriteError> {
        let count = prototype.parameters.len() + usize::from(prototype.variadic);
        self.start(kind::PROTOTYPE, "", count, false, prototype.result.0)?;
        for parameter in &prototype.parameters {
            let name = self.name(&parameter.name)?;
            self.words(&[name, parameter.type_id.0]);
        }
        if prototype.variadic {
            self.words(&[0, 0]);
        }
        Ok(())
    }

    fn finish(self) -> Result<Vec<u8>, WriteError> {
        let length = |bytes: &[u8]| {
            u32::try_from(bytes.len()).map_err(|_| WriteError::TooLarge(bytes.len()))
        };
        let (types, strings) = (length(&self.types)?, length(&self.strings)?);
        let mut blob = match self.endian {
            Endian::Little => MAGIC.to_le_bytes(),
            Endian::Big => MAGIC.to_be_bytes(),
        }
        .to_vec();
        blob.extend_from_slice(&[VERSION, 0]);
        for word in [24, 0, types, types, strings] {
            blob.extend_from_slice(&self.bytes(word));
        }
        blob.extend_from_slice(&self.types);
        blob.extend_from_slice(&self.strings);
        Ok(blob)
    }
}

fn number(linkage: Linkage) -> u32 {
    match linkage {
        Linkage::Static => 0,
        Linkage::Global => 1,
        Linkage::Extern => 2,
    }
}

/// A list of types under construction: each method adds a type and returns its id.
///
/// ```
/// use linemate_testkit::btf_writer::{TypeList, member};
/// use linemate_types::{ByteOffset, FlatType, TypeModel};
/// let mut list = TypeList::default();
/// let int = list.int("int", 4);
/// let point = list.structure("point", 8, &[member("x", int, 0), member("y", int, 4)]);
/// let model = TypeModel::new(list.types, 8).unwrap();
/// let flat = FlatType::new(&model, point).unwrap();
/// let hit = flat.find(ByteOffset(4), 4).unwrap();
/// assert_eq!(flat.path(&hit), "y");
/// ```
#[derive(Clone, Debug)]
pub struct TypeList {
    /// The types so far; `void` is the first.
    pub types: Vec<Type>,
}

impl Default for TypeList {
    fn default() -> TypeList {
        TypeList {
            types: vec![Type::Void],
        }
    }
}

/// A member at byte `offset`.
pub fn member(name: &str, type_id: TypeId, offset: u64) -> Member {
    Member::new(Name::from(name), type_id, BitOffset(offset * 8))
}

/// A bit-field at bit `offset`.
pub fn bit_field(name: &str, type_id: TypeId, offset: u64, bits: u32) -> Member {
    Member {
        bits: Some(bits),
        ..Member::new(Name::from(name), type_id, BitOffset(offset))
    }
}

/// `struct s`: the longs `a` and `b` and the first of `many` on the first line of 64 bytes, the
/// rest of `many` on the second, the longs `c` and `d` on the third.
pub fn longs_around_an_array() -> (TypeList, TypeId) {
    let mut list = TypeList::default();
    let long = list.unsigned("long", 8);
    let many = list.array(long, 14);
    let members = [
        member("a", long, 0),
        member("b", long, 8),
        member("many", many, 16),
        member("c", long, 128),
        member("d", long, 136),
    ];
    let id = list.structure("s", 144, &members);
    (list, id)
}

impl TypeList {
    pub fn add(&mut self, t: Type) -> TypeId {
        self.types.push(t);
        TypeId(u32::try_from(self.types.len() - 1).unwrap_or(u32::MAX))
    }

    /// A signed integer of `size` bytes.
    pub fn int(&mut self, name: &str, size: u8) -> TypeId {
        self.integer(name, size, IntEncoding::Signed)
    }

    /// An unsigned integer of `size` bytes.
    pub fn unsigned(&mut self, name: &str, size: u8) -> TypeId {
        self.integer(name, size, IntEncoding::Unsigned)
    }

    fn integer(&mut self, name: &str, size: u8, encoding: IntEncoding) -> TypeId {
        let bits = size.saturating_mul(8);
        let (name, size) = (Name::from(name), u32::from(size));
        self.add(Type::Int {
            name,
            size,
            bits,
            bit_offset: 0,
            encoding,
        })
    }

    /// `target *`
    pub fn pointer(&mut self, target: TypeId) -> TypeId {
        self.add(Type::Pointer { target })
    }

    /// `const target`
    pub fn constant(&mut self, target: TypeId) -> TypeId {
        self.add(Type::Qualified {
            qualifier: Qualifier::Const,
            target,
        })
    }

    /// `element[count]`
    pub fn array(&mut self, element: TypeId, count: u32) -> TypeId {
        self.add(Type::Array {
            element,
            index: TypeId::VOID,
            count,
        })
    }

    /// `typedef target name`
    pub fn typedef(&mut self, name: &str, target: TypeId) -> TypeId {
        self.add(Type::Typedef {
            name: Name::from(name),
            target,
        })
    }

    /// A struct of `size` bytes.
    pub fn structure(&mut self, name: &str, size: u32, members: &[Member]) -> TypeId {
        let (name, members) = (Name::from(name), members.to_vec());
        let kind = CompositeKind::Struct;
        self.add(Type::Composite(Composite::new(kind, name, size, members)))
    }

    /// A union of `size` bytes.
    pub fn union(&mut self, name: &str, size: u32, members: &[Member]) -> TypeId {
        let (name, members) = (Name::from(name), members.to_vec());
        let kind = CompositeKind::Union;
        self.add(Type::Composite(Composite::new(kind, name, size, members)))
    }

    /// A function with a prototype of its own.
    pub fn function(
        &mut self,
        name: &str,
        result: TypeId,
        parameters: &[(&str, TypeId)],
    ) -> TypeId {
        let parameters = parameters
            .iter()
            .map(|(name, type_id)| Parameter {
                name: Name::from(*name),
                type_id: *type_id,
            })
            .collect();
        let prototype = self.add(Type::Prototype(Prototype {
            result,
            parameters,
            variadic: false,
        }));
        self.add(Type::Function {
            name: Name::from(name),
            prototype,
            linkage: Linkage::Global,
        })
    }

    /// The per-CPU section with its variables: name, type, offset, size.
    pub fn percpu(&mut self, variables: &[(&str, TypeId, u32, u32)]) -> TypeId {
        let variables = variables
            .iter()
            .map(|(name, type_id, offset, size)| {
                let (name, type_id) = (Name::from(*name), *type_id);
                let variable = self.add(Type::Variable {
                    name,
                    type_id,
                    linkage: Linkage::Global,
                });
                SectionVariable {
                    variable,
                    offset: *offset,
                    size: *size,
                }
            })
            .collect();
        let name = Name::from(PERCPU_SECTION);
        self.add(Type::Section {
            name,
            size: 0,
            variables,
        })
    }
}

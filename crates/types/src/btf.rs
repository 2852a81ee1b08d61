//! Reads BTF (Documentation/bpf/btf.rst) into a [`TypeModel`].
//!
//! Reads both byte orders and all kinds up to ENUM64 (19). Does not read split BTF
//! (`/sys/kernel/btf/MODULE`), which is meaningless without its base, nor `.BTF.ext`.
//!
//! This is our own reader because existing ones do not fit: `btf-rs` is under the LGPL, which a
//! statically linked MIT/Apache program cannot comply with, keeps names apart from types, and
//! leaves cycles and sizes to its user. The format is small: a header, a list of records, a table
//! of strings.

use std::sync::Arc;

use linemate_text::has_unsafe;
use linemate_units::BitOffset;

use crate::{
    Composite, CompositeKind, Enumerator, IntEncoding, Linkage, Member, ModelError, Name,
    Parameter, Prototype, Qualifier, SectionVariable, Type, TypeId, TypeModel,
};

/// First two bytes of a blob, as a number.
pub const MAGIC: u16 = 0xeb9f;
/// The only version that exists.
pub const VERSION: u8 = 1;
const HEADER_LENGTH: usize = 24;
/// How much of a name an error quotes.
const NAME_SHOWN: usize = 40;

/// Why a BTF blob is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BtfError {
    /// Shorter than the header, or than the header says.
    #[error("BTF ends after {length} bytes, but {needed} are needed")]
    TooShort {
        /// Length of the blob.
        length: usize,
        /// The length that the header requires.
        needed: u64,
    },
    /// Not BTF at all.
    #[error("not BTF: starts with {0:#06x} instead of 0xeb9f")]
    Magic(u16),
    /// An unknown version.
    #[error("BTF version {0} is not known; 1 is")]
    Version(u8),
    /// Unknown flags.
    #[error("BTF flags {0:#x} are not known")]
    Flags(u8),
    /// The header claims to be shorter than it is.
    #[error("BTF header of {0} bytes is too short")]
    HeaderLength(u32),
    /// The table of strings is not text, or its names do not end.
    #[error("BTF strings are broken at offset {0}")]
    Strings(usize),
    /// A record is truncated.
    #[error("BTF type {id} is truncated at byte {offset} of the types")]
    Cut {
        id: TypeId,
        /// Where the types end.
        offset: usize,
    },
    /// An unknown kind.
    #[error("BTF type {id} has unknown kind {kind}")]
    Kind { id: TypeId, kind: u32 },
    /// A name with control characters: no compiler makes one, and it must not reach a terminal.
    #[error("BTF type {id}: the name {name:?} has control characters")]
    Name {
        id: TypeId,
        /// The name's first characters.
        name: String,
    },
    /// A name outside the strings, or in the middle of a character.
    #[error("BTF type {id}: name offset {offset} is outside of the {length} bytes of strings")]
    NameOffset {
        id: TypeId,
        offset: u32,
        /// Length of the strings.
        length: usize,
    },
    /// A field with a value that its kind does not allow.
    #[error("BTF type {id}: {field} cannot be {value}")]
    Value {
        id: TypeId,
        field: &'static str,
        value: u32,
    },
    /// The types contradict each other.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// Reads a BTF blob: the contents of `/sys/kernel/btf/vmlinux` or of an ELF section `.BTF`.
///
/// # Errors
/// [`BtfError`], which carries the offending value; a blob is accepted as a whole or not at all.
pub fn parse(blob: &[u8]) -> Result<TypeModel, BtfError> {
    let header = Header::parse(blob)?;
    let strings = Strings::parse(header.strings)?;
    let mut records = Records {
        bytes: header.types,
        at: 0,
        big_endian: header.big_endian,
        id: TypeId(0),
    };
    let mut types = vec![Type::Void];
    while records.at < records.bytes.len() {
        records.id = TypeId(u32::try_from(types.len()).unwrap_or(u32::MAX));
        types.push(record(&mut records, &strings)?);
    }
    // Before the model's check, which counts a member without bits as long as its type.
    normalise_old_bit_fields(&mut types);
    let pointer_size = pointer_size(&types);
    Ok(TypeModel::new(types, pointer_size)?)
}

struct Header<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    big_endian: bool,
}

impl Header<'_> {
    fn parse(blob: &[u8]) -> Result<Header<'_>, BtfError> {
        let too_short = |needed: u64| BtfError::TooShort {
            length: blob.len(),
            needed,
        };
        let Some(head) = blob.get(..HEADER_LENGTH) else {
            return Err(match blob.get(..2) {
                Some(&[a, b])
                    if ![MAGIC, MAGIC.swap_bytes()].contains(&u16::from_le_bytes([a, b])) =>
                {
                    BtfError::Magic(u16::from_le_bytes([a, b]))
                }
                _ => too_short(HEADER_LENGTH as u64),
            });
        };
        let magic = u16::from_le_bytes([head[0], head[1]]);
        let big_endian = match magic {
            MAGIC => false,
            m if m.swap_bytes() == MAGIC => true,
            other => return Err(BtfError::Magic(other)),
        };
        if head[2] != VERSION {
            return Err(BtfError::Version(head[2]));
        }
        if head[3] != 0 {
            return Err(BtfError::Flags(head[3]));
        }
        let word = |at: usize| word(head, at, big_endian).unwrap_or(0);
        let header_length = word(4);
        if (header_length as usize) < HEADER_LENGTH {
            return Err(BtfError::HeaderLength(header_length));
        }
        let section = |offset: u32, length: u32| {
            // By the header's own length, not ours: a later version may be longer.
            let start = u64::from(header_length) + u64::from(offset);
            let end = start + u64::from(length);
            let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
            range
                .and_then(|(start, end)| blob.get(start..end))
                .ok_or_else(|| too_short(end))
        };
        Ok(Header {
            types: section(word(8), word(12))?,
            strings: section(word(16), word(20))?,
            big_endian,
        })
    }
}

fn word(bytes: &[u8], at: usize, big_endian: bool) -> Option<u32> {
    let four: [u8; 4] = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(if big_endian {
        u32::from_be_bytes(four)
    } else {
        u32::from_le_bytes(four)
    })
}

struct Strings {
    table: Arc<str>,
    /// Whether no string in the table has a character that names must not have.
    is_printable: bool,
}

impl Strings {
    fn parse(bytes: &[u8]) -> Result<Strings, BtfError> {
        // The whole table at once: names are then ranges of it, and none has to be copied or
        // checked again.
        let text = std::str::from_utf8(bytes).map_err(|e| BtfError::Strings(e.valid_up_to()))?;
        if !text.starts_with('\0') {
            return Err(BtfError::Strings(0));
        }
        if !text.ends_with('\0') {
            return Err(BtfError::Strings(text.len()));
        }
        Ok(Strings {
            table: Arc::from(text),
            is_printable: !text.split('\0').any(has_unsafe),
        })
    }

    /// A name that source code can use. As in the kernel, it has no control characters.
    fn name(&self, id: TypeId, offset: u32) -> Result<Name, BtfError> {
        let name = self.text(id, offset)?;
        // Tags may have such characters, so each name is checked only if some string in the table
        // has one.
        if !self.is_printable && has_unsafe(&name) {
            let name = name.chars().take(NAME_SHOWN).collect();
            return Err(BtfError::Name { id, name });
        }
        Ok(name)
    }

    /// Any text: tags may contain anything.
    fn text(&self, id: TypeId, offset: u32) -> Result<Name, BtfError> {
        let start = offset as usize;
        // The table ends in NUL, so the end is found within it.
        let length = self.table.get(start..).and_then(|rest| rest.find('\0'));
        let error = BtfError::NameOffset {
            id,
            offset,
            length: self.table.len(),
        };
        let end = length
            .and_then(|n| u32::try_from(start + n).ok())
            .ok_or(error)?;
        Ok(Name::of_table(&self.table, offset, end))
    }
}

/// A cursor over the records.
struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
    big_endian: bool,
    id: TypeId,
}

impl Records<'_> {
    fn word(&mut self) -> Result<u32, BtfError> {
        let word = word(self.bytes, self.at, self.big_endian).ok_or(BtfError::Cut {
            id: self.id,
            offset: self.bytes.len(),
        })?;
        self.at += 4;
        Ok(word)
    }

    fn words<const N: usize>(&mut self) -> Result<[u32; N], BtfError> {
        let mut words = [0; N];
        for word in &mut words {
            *word = self.word()?;
        }
        Ok(words)
    }

    /// `count` times `item`. Memory is bounded by the bytes present: an item is at least one word.
    fn list<T>(
        &mut self,
        count: u32,
        mut item: impl FnMut(&mut Self) -> Result<T, BtfError>,
    ) -> Result<Vec<T>, BtfError> {
        let left = (self.bytes.len() - self.at) / 4;
        let mut list = Vec::with_capacity((count as usize).min(left));
        for _ in 0..count {
            list.push(item(self)?);
        }
        Ok(list)
    }

    fn bad(&self, field: &'static str, value: u32) -> BtfError {
        BtfError::Value {
            id: self.id,
            field,
            value,
        }
    }
}

/// The record's first three words.
struct Start {
    name: Name,
    count: u32,
    kind_flag: bool,
    /// A size or a type id, depending on the kind.
    size_or_type: u32,
}

impl Start {
    fn target(&self) -> TypeId {
        TypeId(self.size_or_type)
    }
}

/// The kinds' numbers (include/uapi/linux/btf.h).
pub(crate) mod kind {
    pub(crate) const INT: u32 = 1;
    pub(crate) const POINTER: u32 = 2;
    pub(crate) const ARRAY: u32 = 3;
    pub(crate) const STRUCT: u32 = 4;
    pub(crate) const UNION: u32 = 5;
    pub(crate) const ENUM: u32 = 6;
    pub(crate) const FORWARD: u32 = 7;
    pub(crate) const TYPEDEF: u32 = 8;
    pub(crate) const VOLATILE: u32 = 9;
    pub(crate) const CONST: u32 = 10;
    pub(crate) const RESTRICT: u32 = 11;
    pub(crate) const FUNCTION: u32 = 12;
    pub(crate) const PROTOTYPE: u32 = 13;
    pub(crate) const VARIABLE: u32 = 14;
    pub(crate) const SECTION: u32 = 15;
    pub(crate) const FLOAT: u32 = 16;
    pub(crate) const DECLARATION_TAG: u32 = 17;
    pub(crate) const TYPE_TAG: u32 = 18;
    pub(crate) const ENUM64: u32 = 19;
}

fn record(records: &mut Records<'_>, strings: &Strings) -> Result<Type, BtfError> {
    let id = records.id;
    let [name, info, size_or_type] = records.words()?;
    let name = match (info >> 24) & 0x1f {
        kind::TYPE_TAG | kind::DECLARATION_TAG => strings.text(id, name)?,
        _ => strings.name(id, name)?,
    };
    let start = Start {
        name,
        count: info & 0xffff,
        kind_flag: info >> 31 != 0,
        size_or_type,
    };
    let target = start.target();
    let qualified = |qualifier| Ok(Type::Qualified { qualifier, target });
    match (info >> 24) & 0x1f {
        kind::INT => integer(records, start),
        kind::POINTER => Ok(Type::Pointer { target }),
        kind::ARRAY => {
            let [element, index, count] = records.words()?;
            Ok(Type::Array {
                element: TypeId(element),
                index: TypeId(index),
                count,
            })
        }
        kind::STRUCT => composite(records, strings, start, CompositeKind::Struct),
        kind::UNION => composite(records, strings, start, CompositeKind::Union),
        kind::ENUM => enumeration(records, strings, start, false),
        kind::ENUM64 => enumeration(records, strings, start, true),
        kind::FORWARD => {
            let kind = if start.kind_flag {
                CompositeKind::Union
            } else {
                CompositeKind::Struct
            };
            Ok(Type::Forward {
                name: start.name,
                kind,
            })
        }
        kind::TYPEDEF => Ok(Type::Typedef {
            name: start.name,
            target,
        }),
        kind::VOLATILE => qualified(Qualifier::Volatile),
        kind::CONST => qualified(Qualifier::Const),
        kind::RESTRICT => qualified(Qualifier::Restrict),
        kind::TYPE_TAG => qualified(Qualifier::Tag(start.name)),
        kind::FUNCTION => {
            // A function has no word after its first three: its linkage is in the bits that count
            // members elsewhere (`vlen`). A variable has a word for it.
            let linkage = linkage(records, start.count)?;
            Ok(Type::Function {
                name: start.name,
                prototype: target,
                linkage,
            })
        }
        kind::PROTOTYPE => prototype(records, strings, start),
        kind::VARIABLE => {
            let word = records.word()?;
            let linkage = linkage(records, word)?;
            Ok(Type::Variable {
                name: start.name,
                type_id: target,
                linkage,
            })
        }
        kind::SECTION => section(records, start),
        kind::FLOAT => Ok(Type::Float {
            name: start.name,
            size: size_or_type,
        }),
        kind::DECLARATION_TAG => {
            let component = records.word()?;
            let component = (component != u32::MAX).then_some(component);
            Ok(Type::DeclarationTag {
                name: start.name,
                target,
                component,
            })
        }
        kind => Err(BtfError::Kind { id, kind }),
    }
}

fn integer(records: &mut Records<'_>, start: Start) -> Result<Type, BtfError> {
    let word = records.word()?;
    let size = start.size_or_type;
    if !matches!(size, 1 | 2 | 4 | 8 | 16) {
        return Err(records.bad("size of an integer", size));
    }
    let (bits, bit_offset) = (word & 0xff, (word >> 16) & 0xff);
    if bits == 0 || bits + bit_offset > size * 8 {
        return Err(records.bad("bits of an integer", bits));
    }
    let encoding = match (word >> 24) & 0xf {
        0 => IntEncoding::Unsigned,
        1 => IntEncoding::Signed,
        2 => IntEncoding::Char,
        4 => IntEncoding::Bool,
        other => return Err(records.bad("encoding of an integer", other)),
    };
    // Both fit: they are masked to eight bits.
    Ok(Type::Int {
        name: start.name,
        size,
        bits: bits as u8,
        bit_offset: bit_offset as u8,
        encoding,
    })
}

fn composite(
    records: &mut Records<'_>,
    strings: &Strings,
    start: Start,
    kind: CompositeKind,
) -> Result<Type, BtfError> {
    let id = records.id;
    let members = records.list(start.count, |records| {
        let [name, type_id, offset] = records.words()?;
        // With the flag the upper byte is the width, which is 0 for what is not a bit-field.
        // Without it all 32 bits are the offset, which structs of more than 2 MiB need.
        let (offset, bits) = match start.kind_flag {
            true => (offset & 0x00ff_ffff, offset >> 24),
            false => (offset, 0),
        };
        let name = strings.name(id, name)?;
        let offset = BitOffset(u64::from(offset));
        Ok(Member {
            bits: (bits != 0).then_some(bits),
            ..Member::new(name, TypeId(type_id), offset)
        })
    })?;
    let (name, size) = (start.name, start.size_or_type);
    Ok(Type::Composite(Composite::new(kind, name, size, members)))
}

fn enumeration(
    records: &mut Records<'_>,
    strings: &Strings,
    start: Start,
    wide: bool,
) -> Result<Type, BtfError> {
    let (id, size, signed) = (records.id, start.size_or_type, start.kind_flag);
    if !matches!(size, 1 | 2 | 4 | 8) {
        return Err(records.bad("size of an enum", size));
    }
    let values = records.list(start.count, |records| {
        let [name, low] = records.words()?;
        let value = match (wide, signed) {
            (true, _) => i64::from(records.word()?) << 32 | i64::from(low),
            (false, true) => i64::from(low as i32),
            (false, false) => i64::from(low),
        };
        Ok(Enumerator {
            name: strings.name(id, name)?,
            value,
        })
    })?;
    Ok(Type::Enum {
        name: start.name,
        size,
        signed,
        values,
    })
}

fn prototype(records: &mut Records<'_>, strings: &Strings, start: Start) -> Result<Type, BtfError> {
    let id = records.id;
    let result = start.target();
    let mut parameters = records.list(start.count, |records| {
        let [name, type_id] = records.words()?;
        Ok(Parameter {
            name: strings.name(id, name)?,
            type_id: TypeId(type_id),
        })
    })?;
    // `...` is encoded as a last parameter without name and type.
    let variadic = parameters
        .last()
        .is_some_and(|p| p.name.is_empty() && p.type_id == TypeId::VOID);
    if variadic {
        parameters.pop();
    }
    Ok(Type::Prototype(Prototype {
        result,
        parameters,
        variadic,
    }))
}

fn section(records: &mut Records<'_>, start: Start) -> Result<Type, BtfError> {
    let variables = records.list(start.count, |records| {
        let [variable, offset, size] = records.words()?;
        Ok(SectionVariable {
            variable: TypeId(variable),
            offset,
            size,
        })
    })?;
    Ok(Type::Section {
        name: start.name,
        size: start.size_or_type,
        variables,
    })
}

fn linkage(records: &Records<'_>, value: u32) -> Result<Linkage, BtfError> {
    match value {
        0 => Ok(Linkage::Static),
        1 => Ok(Linkage::Global),
        2 => Ok(Linkage::Extern),
        other => Err(records.bad("linkage", other)),
    }
}

/// Before kind_flag (Linux 5.0) a bit-field was a member whose integer type had the width and
/// offset. Turns those into bit-fields like the others.
fn normalise_old_bit_fields(types: &mut [Type]) {
    let narrow = |types: &[Type], mut id: TypeId| {
        // Chains of typedefs are not checked yet: follow only as many as sane code has.
        for _ in 0..crate::check::MAX_DEPTH {
            match types.get(id.index()) {
                Some(Type::Typedef { target, .. } | Type::Qualified { target, .. }) => id = *target,
                Some(&Type::Int {
                    size,
                    bits,
                    bit_offset,
                    ..
                }) if u32::from(bits) != size * 8 || bit_offset != 0 => {
                    return Some((u32::from(bits), u64::from(bit_offset)));
                }
                _ => return None,
            }
        }
        None
    };
    // Nearly all BTF is newer and has nothing to convert.
    // Widths are enough: `integer` refuses an offset next to a full width.
    if !types
        .iter()
        .any(|t| matches!(t, Type::Int { size, bits, .. } if u32::from(*bits) != size * 8))
    {
        return;
    }
    let mut changes = Vec::new();
    for (index, t) in types.iter().enumerate() {
        let Type::Composite(composite) = t else {
            continue;
        };
        for (position, member) in composite.members.iter().enumerate() {
            if member.bits.is_none() {
                if let Some(found) = narrow(types, member.type_id) {
                    changes.push((index, position, found));
                }
            }
        }
    }
    for (index, position, (bits, offset)) in changes {
        if let Type::Composite(composite) = &mut types[index] {
            let member = &mut composite.members[position];
            member.bits = Some(bits);
            member.offset.0 += offset;
        }
    }
}

/// BTF has no pointer size; `long` has the same size on every machine that Linux runs on.
fn pointer_size(types: &[Type]) -> u32 {
    let is_long = |name: &str| {
        matches!(
            name,
            "long" | "long int" | "long unsigned int" | "unsigned long"
        )
    };
    types
        .iter()
        .find_map(|t| match t {
            Type::Int {
                name,
                size: size @ (4 | 8),
                ..
            } if is_long(name) => Some(*size),
            _ => None,
        })
        .unwrap_or(8)
}

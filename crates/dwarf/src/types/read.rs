//! Reads the entries of all units into [`Node`]s: one pass, with an explicit stack.

use std::collections::HashMap;

use gimli::{DwTag, constants as dw};
use linemate_types::{IntEncoding, Keyword, Language, MemberRole, Name, Qualifier, SourceLine};
use rustc_hash::FxHashMap;

use super::node::{MemberPlace, Node, RawComposite, RawMember, RawType, is_storage};
use crate::die::{Attributes, Location, elements};
use crate::key::key_in;
use crate::sections::DwarfBytes;
use crate::units::{Names, Units};
use crate::{DieKey, DwarfError};

/// Names longer than this do not become scopes of the names inside: no program has them.
const SCOPE_MAX: usize = 4096;

/// An entry whose children are being read.
struct Scope {
    depth: isize,
    /// The type that its children belong to.
    owner: Owner,
    /// The prefix of its children's names, with the `::`.
    prefix: std::rc::Rc<str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Nobody,
    /// The type of that index.
    Type(usize),
    /// Variants of the type of that index.
    Variants(usize),
}

/// Reads all types of all units.
pub(crate) fn read(units: &Units<'_>) -> Result<Vec<Node>, DwarfError> {
    let mut nodes = Vec::new();
    let mut names = Names::default();
    // A type in a unit of its own has its scopes where it is declared, so those units are read
    // last.
    let (types, programs): (Vec<usize>, Vec<usize>) =
        (0..units.list.len()).partition(|unit| units.list[*unit].is_type);
    let mut full_names = FxHashMap::default();
    for unit in programs.into_iter().chain(types) {
        UnitReader {
            units,
            unit,
            nodes: &mut nodes,
            names: &mut names,
            full_names: &mut full_names,
            files: Files::default(),
            scopes: Vec::new(),
        }
        .read()?;
    }
    Ok(nodes)
}

struct UnitReader<'u, 'd> {
    units: &'u Units<'d>,
    unit: usize,
    nodes: &'u mut Vec<Node>,
    names: &'u mut Names,
    /// The names of types in units of their own, by entry, if they are declared with their scopes.
    full_names: &'u mut FxHashMap<DieKey, Name>,
    files: Files,
    scopes: Vec<Scope>,
}

impl<'d> UnitReader<'_, 'd> {
    fn read(&mut self) -> Result<(), DwarfError> {
        let (units, unit) = (self.units, self.unit);
        let one = &units.list[unit];
        let broken = |source| units.error(unit, source);
        let mut entries = one.unit.entries_raw(None).map_err(broken)?;
        while !entries.is_empty() {
            let offset = entries.next_offset();
            let depth = entries.next_depth();
            let Some(abbreviation) = entries.read_abbreviation().map_err(broken)? else {
                continue;
            };
            while self.scopes.last().is_some_and(|scope| scope.depth >= depth) {
                self.scopes.pop();
            }
            let attributes = Attributes::read(&mut entries, abbreviation, units, unit)?;
            let key = key_in(&one.unit, offset, one.part);
            let owner = self.entry(key, abbreviation.tag(), &attributes)?;
            if abbreviation.has_children() {
                let prefix = match self.full_names.get(&key) {
                    Some(name) => format!("{name}::").into(),
                    None => self.prefix_inside(abbreviation.tag(), &attributes)?,
                };
                self.scopes.push(Scope {
                    depth,
                    owner,
                    prefix,
                });
            }
        }
        Ok(())
    }

    fn owner(&self) -> Owner {
        self.scopes
            .last()
            .map_or(Owner::Nobody, |scope| scope.owner)
    }

    /// The prefix of the names inside this entry.
    fn prefix_inside(
        &mut self,
        tag: DwTag,
        attributes: &Attributes<'d>,
    ) -> Result<std::rc::Rc<str>, DwarfError> {
        let outer = match self.scopes.last() {
            Some(scope) => std::rc::Rc::clone(&scope.prefix),
            None => "".into(),
        };
        let names_a_scope = matches!(
            tag,
            dw::DW_TAG_namespace
                | dw::DW_TAG_structure_type
                | dw::DW_TAG_class_type
                | dw::DW_TAG_union_type
                | dw::DW_TAG_enumeration_type
                | dw::DW_TAG_subprogram
                | dw::DW_TAG_module
        );
        // C has one scope for types: a struct declared inside another is not its member.
        if self.units.list[self.unit].is_c || !names_a_scope {
            return Ok(outer);
        }
        let name = match attributes.name {
            Some(name) => self.units.text(self.unit, name)?,
            // As demanglers write it, so that names of types and of functions agree.
            None if tag == dw::DW_TAG_namespace => "(anonymous namespace)".into(),
            None => return Ok(outer),
        };
        if outer.len() + name.len() > SCOPE_MAX {
            return Ok(outer);
        }
        Ok(format!("{outer}{name}::").into())
    }

    fn name(&mut self, attributes: &Attributes<'d>) -> Result<Name, DwarfError> {
        match attributes.name {
            Some(name) => {
                let text = self.units.text(self.unit, name)?;
                self.names.name(&text, self.units.length)
            }
            None => Ok(Name::default()),
        }
    }

    /// The name of a type, with its namespaces; empty if it has none.
    fn full_name(&mut self, attributes: &Attributes<'d>) -> Result<Name, DwarfError> {
        let name = self.name(attributes)?;
        match self.scopes.last() {
            Some(scope) if !scope.prefix.is_empty() && !name.is_empty() => {
                let full = format!("{}{name}", scope.prefix);
                self.names.name(&full, self.units.length)
            }
            _ => Ok(name),
        }
    }

    /// Reads an entry, and returns what its children belong to.
    fn entry(
        &mut self,
        key: DieKey,
        tag: DwTag,
        attributes: &Attributes<'d>,
    ) -> Result<Owner, DwarfError> {
        let target = attributes.type_ref;
        let raw = match tag {
            dw::DW_TAG_member | dw::DW_TAG_inheritance => {
                self.member(tag, attributes)?;
                return Ok(Owner::Nobody);
            }
            dw::DW_TAG_variant_part | dw::DW_TAG_variant => {
                return Ok(self.variants(tag));
            }
            // A subrange outside an array is a type of its own, handled below.
            dw::DW_TAG_enumerator | dw::DW_TAG_subrange_type if self.detail(tag, attributes)? => {
                return Ok(Owner::Nobody);
            }
            dw::DW_TAG_formal_parameter | dw::DW_TAG_unspecified_parameters => {
                self.parameter(tag, attributes)?;
                return Ok(Owner::Nobody);
            }
            dw::DW_TAG_template_type_parameter => return Ok(self.argument(attributes)),
            dw::DW_TAG_base_type => self.base(attributes)?,
            // `decltype(nullptr)`, Rust's `!`: a name without a value that takes space.
            dw::DW_TAG_unspecified_type => RawType::Typedef(self.name(attributes)?, None),
            dw::DW_TAG_pointer_type
            | dw::DW_TAG_reference_type
            | dw::DW_TAG_rvalue_reference_type => RawType::Pointer(target),
            dw::DW_TAG_ptr_to_member_type => RawType::MemberPointer {
                member: target,
                class: attributes.containing,
            },
            dw::DW_TAG_const_type => RawType::Qualified(Qualifier::Const, target),
            dw::DW_TAG_volatile_type => RawType::Qualified(Qualifier::Volatile, target),
            dw::DW_TAG_restrict_type => RawType::Qualified(Qualifier::Restrict, target),
            dw::DW_TAG_atomic_type => RawType::Qualified(Qualifier::Atomic, target),
            dw::DW_TAG_typedef | dw::DW_TAG_template_alias | dw::DW_TAG_subrange_type => {
                RawType::Typedef(self.full_name(attributes)?, target)
            }
            dw::DW_TAG_array_type => RawType::Array {
                element: target,
                counts: Vec::new(),
            },
            dw::DW_TAG_structure_type
            | dw::DW_TAG_class_type
            | dw::DW_TAG_interface_type
            | dw::DW_TAG_union_type => self.composite(tag, attributes)?,
            dw::DW_TAG_enumeration_type => RawType::Enum {
                name: self.full_name(attributes)?,
                size: attributes.byte_size,
                storage: target,
                values: Vec::new(),
            },
            dw::DW_TAG_subroutine_type => RawType::Prototype {
                result: target,
                parameters: Vec::new(),
                variadic: false,
            },
            _ => return Ok(Owner::Nobody),
        };
        self.nodes.push(Node {
            key,
            raw: self.with_full_name(key, raw),
        });
        Ok(Owner::Type(self.nodes.len() - 1))
    }

    /// A composite under the name that it was declared with elsewhere, where there is one.
    fn with_full_name(&self, key: DieKey, raw: RawType) -> RawType {
        match (raw, self.full_names.get(&key)) {
            (RawType::Composite(composite), Some(name)) => RawType::Composite(RawComposite {
                name: name.clone(),
                ..composite
            }),
            (raw, _) => raw,
        }
    }

    fn base(&mut self, attributes: &Attributes<'d>) -> Result<RawType, DwarfError> {
        let name = self.name(attributes)?;
        let bits = attributes.bit_size.unwrap_or(0);
        let size = attributes.byte_size.unwrap_or(bits.div_ceil(8));
        let encoding = match attributes.encoding {
            Some(
                dw::DW_ATE_float
                | dw::DW_ATE_complex_float
                | dw::DW_ATE_imaginary_float
                | dw::DW_ATE_decimal_float,
            ) => return Ok(RawType::Float { name, size }),
            Some(dw::DW_ATE_boolean) => IntEncoding::Bool,
            Some(dw::DW_ATE_signed | dw::DW_ATE_signed_char) => IntEncoding::Signed,
            _ => IntEncoding::Unsigned,
        };
        Ok(RawType::Int {
            name,
            size,
            encoding,
        })
    }

    fn composite(
        &mut self,
        tag: DwTag,
        attributes: &Attributes<'d>,
    ) -> Result<RawType, DwarfError> {
        if let Some(definition) = attributes.signature {
            let name = self.full_name(attributes)?;
            // One without scopes must not come first: it would name all of them.
            if name.contains("::") {
                self.full_names.entry(definition).or_insert(name);
            }
            return Ok(RawType::Alias(definition));
        }
        let is_class = matches!(tag, dw::DW_TAG_class_type | dw::DW_TAG_interface_type);
        // A declaration may have a size, but still has no members.
        let size = attributes.byte_size.filter(|_| !attributes.declaration);
        Ok(RawType::Composite(RawComposite {
            name: self.full_name(attributes)?,
            is_union: tag == dw::DW_TAG_union_type,
            keyword: is_class.then_some(Keyword::Class),
            size,
            alignment: small(attributes.alignment),
            language: self.units.list[self.unit].language,
            declared: self.declared(attributes)?,
            specification: attributes.specification,
            held: None,
            members: Vec::new(),
        }))
    }

    fn declared(&mut self, attributes: &Attributes<'d>) -> Result<Option<SourceLine>, DwarfError> {
        let Some(index) = attributes.file.filter(|index| *index != 0) else {
            return Ok(None);
        };
        let file = self.files.name(self.units, self.unit, index, self.names)?;
        let line = attributes.line;
        Ok(file.map(|file| SourceLine { file, line }))
    }

    /// Whether an enumerator or a dimension belonged to a type being read.
    fn detail(&mut self, tag: DwTag, attributes: &Attributes<'d>) -> Result<bool, DwarfError> {
        let Owner::Type(owner) = self.owner() else {
            return Ok(tag == dw::DW_TAG_enumerator);
        };
        let name = match tag {
            dw::DW_TAG_enumerator => self.name(attributes)?,
            _ => Name::default(),
        };
        match &mut self.nodes[owner].raw {
            RawType::Enum { values, .. } => {
                values.push((name, attributes.const_value.unwrap_or(0)));
                Ok(true)
            }
            RawType::Array { counts, .. } => {
                counts.push(elements(attributes));
                Ok(true)
            }
            _ => Ok(tag == dw::DW_TAG_enumerator),
        }
    }

    fn parameter(&mut self, tag: DwTag, attributes: &Attributes<'d>) -> Result<(), DwarfError> {
        let Owner::Type(owner) = self.owner() else {
            return Ok(());
        };
        let name = self.name(attributes)?;
        if let RawType::Prototype {
            parameters,
            variadic,
            ..
        } = &mut self.nodes[owner].raw
        {
            match tag {
                dw::DW_TAG_formal_parameter => parameters.push((name, attributes.type_ref)),
                _ => *variadic = true,
            }
        }
        Ok(())
    }

    /// The first argument of a template is what its storage holds.
    fn argument(&mut self, attributes: &Attributes<'d>) -> Owner {
        if let Owner::Type(owner) = self.owner() {
            if let RawType::Composite(composite) = &mut self.nodes[owner].raw {
                if is_storage(&composite.name) {
                    composite.held = composite.held.or(attributes.type_ref);
                }
            }
        }
        Owner::Nobody
    }

    /// Rust's enums: the variants' members and the discriminant overlap.
    fn variants(&mut self, tag: DwTag) -> Owner {
        match (tag, self.owner()) {
            (dw::DW_TAG_variant_part, Owner::Type(owner)) => {
                if let RawType::Composite(composite) = &mut self.nodes[owner].raw {
                    // The model has no variants; a union has all of them at their offsets.
                    composite.is_union = true;
                    composite.keyword = Some(Keyword::Enum);
                }
                Owner::Variants(owner)
            }
            (dw::DW_TAG_variant, Owner::Variants(owner)) => Owner::Variants(owner),
            _ => Owner::Nobody,
        }
    }

    fn member(&mut self, tag: DwTag, attributes: &Attributes<'d>) -> Result<(), DwarfError> {
        let (Owner::Type(owner) | Owner::Variants(owner)) = self.owner() else {
            return Ok(());
        };
        let is_discriminant = matches!(self.owner(), Owner::Variants(_)) && attributes.artificial;
        let name = match is_discriminant && attributes.name.is_none() {
            true => self.names.name("discriminant", self.units.length)?,
            false => self.name(attributes)?,
        };
        let declared = self.declared(attributes)?;
        let RawType::Composite(composite) = &mut self.nodes[owner].raw else {
            return Ok(());
        };
        // Static members are variables: declared here, defined elsewhere.
        let is_static = tag == dw::DW_TAG_member
            && (attributes.declaration || attributes.external)
            && attributes.location.is_none()
            // A bit-field of DWARF 5 has no location either.
            && attributes.data_bit_offset.is_none();
        let is_constant = attributes.const_value.is_some() && attributes.location.is_none();
        if is_static || is_constant {
            return Ok(());
        }
        let role = match (tag, attributes.is_virtual) {
            (dw::DW_TAG_inheritance, true) => MemberRole::VirtualBase,
            (dw::DW_TAG_inheritance, false) => MemberRole::Base,
            _ => MemberRole::Field,
        };
        let place = match role {
            MemberRole::VirtualBase => MemberPlace::Dynamic,
            _ => place(attributes),
        };
        composite.members.push(RawMember {
            name,
            target: attributes.type_ref,
            place,
            // Rust gives it for every member, and none can request it.
            alignment: match self.units.list[self.unit].language == Some(Language::Rust) {
                true => 0,
                false => small(attributes.alignment),
            },
            role,
            line: match (&composite.declared, declared) {
                (Some(around), Some(at)) if around.file == at.file => at.line,
                _ => None,
            },
        });
        Ok(())
    }
}

/// Any number will do for an absurd value.
fn small(value: Option<u64>) -> u32 {
    value.map_or(0, |value| u32::try_from(value).unwrap_or(0))
}

fn place(attributes: &Attributes<'_>) -> MemberPlace {
    let byte = match attributes.location {
        Some(Location::Bytes(byte)) => byte,
        Some(Location::Expression(expression)) => match constant_offset(expression) {
            Some(byte) => byte,
            None => return MemberPlace::Dynamic,
        },
        None => 0,
    };
    let Some(width) = attributes.bit_size else {
        return MemberPlace::Byte(byte);
    };
    let width = u32::try_from(width).unwrap_or(u32::MAX);
    match (attributes.data_bit_offset, attributes.bit_offset) {
        (Some(first), _) => MemberPlace::Bits {
            first: byte.saturating_mul(8).saturating_add(first),
            width,
        },
        (None, Some(from_top)) => MemberPlace::BitsFromTop {
            byte,
            from_top,
            width,
            storage: attributes.byte_size,
        },
        // The first field of its byte: compilers omit an offset of zero.
        (None, None) => MemberPlace::Bits {
            first: byte.saturating_mul(8),
            width,
        },
    }
}

/// The constant that an expression adds: how DWARF 2 writes an offset.
fn constant_offset(expression: gimli::Expression<DwarfBytes<'_>>) -> Option<u64> {
    let bytes = expression.0;
    let encoding = gimli::Encoding {
        address_size: 8,
        format: gimli::Format::Dwarf32,
        version: 4,
    };
    let mut operations = expression.operations(encoding);
    let offset = match operations.next().ok()?? {
        gimli::Operation::PlusConstant { value } => value,
        gimli::Operation::UnsignedConstant { value } => value,
        _ => return None,
    };
    let rest = operations.next().ok()?;
    // A sum with the object's address, in either form: a constant alone would be an address.
    let is_sum = bytes.slice().first() == Some(&gimli::DW_OP_plus_uconst.0) && rest.is_none();
    (is_sum || rest == Some(gimli::Operation::Plus)).then_some(offset)
}

/// The names of the source files of one unit.
#[derive(Default)]
struct Files {
    known: HashMap<u64, Option<Name>>,
}

impl Files {
    fn name(
        &mut self,
        units: &Units<'_>,
        unit: usize,
        index: u64,
        names: &mut Names,
    ) -> Result<Option<Name>, DwarfError> {
        if let Some(known) = self.known.get(&index) {
            return Ok(known.clone());
        }
        let path = crate::units::file_name(units, unit, index)?;
        let name = match path {
            Some(path) => Some(names.name(&path, units.length)?),
            None => None,
        };
        self.known.insert(index, name.clone());
        Ok(name)
    }
}

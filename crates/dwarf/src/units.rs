//! The units of a program's files, in the order in which they are read: those of the alternate file last.

use std::borrow::Cow;
use std::collections::HashMap;

use gimli::{
    AttributeValue, DebugInfoOffset, DebugTypeSignature, Dwarf, Section as _, Unit, UnitType,
};
use linemate_types::{Language, Name};

use crate::file::Slice;
use crate::{DieKey, DwarfError, ProgramFiles};

/// How many bytes of abbreviations may be read for each byte there is: units share tables, but no compiler makes them overlap.
const ABBREVIATIONS_READ: u64 = 64;

/// A unit and where it is from.
pub(crate) struct OneUnit<'d> {
    pub(crate) unit: Unit<Slice<'d>>,
    pub(crate) alternate: bool,
    /// Whether a name means the same in the whole program, as in C, and no entry around it belongs to it.
    pub(crate) is_c: bool,
    /// C, C++ or Rust, if it is one of them.
    pub(crate) language: Option<Language>,
    /// Whether it tells one type, by its signature.
    pub(crate) is_type: bool,
}

/// All units of a program.
pub(crate) struct Units<'d> {
    pub(crate) dwarf: Dwarf<Slice<'d>>,
    pub(crate) list: Vec<OneUnit<'d>>,
    signatures: HashMap<u64, DieKey>,
    /// Indices of the units by where they start.
    by_place: Vec<usize>,
    pub(crate) length: u64,
}

impl<'d> Units<'d> {
    /// Reads the heads of all units.
    pub(crate) fn new(files: &'d ProgramFiles<'_>) -> Result<Units<'d>, DwarfError> {
        let mut units = Units {
            dwarf: files.dwarf(),
            list: Vec::new(),
            signatures: HashMap::new(),
            by_place: Vec::new(),
            length: files.length(),
        };
        let dwarf = files.dwarf();
        units.add_all(&dwarf, false)?;
        if let Some(alternate) = dwarf.sup() {
            units.add_all(alternate, true)?;
        }
        units.name_languages();
        let mut order: Vec<usize> = (0..units.list.len()).collect();
        order.sort_by_key(|index| {
            let one = &units.list[*index];
            DieKey::at(one.unit.header.offset(), one.alternate)
        });
        units.by_place = order;
        Ok(units)
    }

    /// Units of dwz tell no language: theirs is that of all others, if these have the same.
    fn name_languages(&mut self) {
        let mut told = self.list.iter().filter_map(|one| one.language);
        let first = told.next();
        if told.all(|language| Some(language) == first) {
            self.list.iter_mut().for_each(|one| one.language = first);
        }
    }

    /// Indices of the units by where they start.
    pub(crate) fn by_place(&self) -> &[usize] {
        &self.by_place
    }

    fn add_all(&mut self, dwarf: &Dwarf<Slice<'d>>, alternate: bool) -> Result<(), DwarfError> {
        let mut abbreviations = Abbreviations::default();
        let mut headers = dwarf.units();
        while let Some(header) = headers.next()? {
            self.add(dwarf, header, alternate, &mut abbreviations)?;
        }
        let mut headers = dwarf.type_units();
        while let Some(header) = headers.next()? {
            self.add(dwarf, header, alternate, &mut abbreviations)?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        dwarf: &Dwarf<Slice<'d>>,
        header: gimli::UnitHeader<Slice<'d>>,
        alternate: bool,
        known: &mut Abbreviations,
    ) -> Result<(), DwarfError> {
        let at = DieKey::at(header.offset(), alternate).offset();
        let broken = |source| DwarfError::Unit { unit: at, source };
        let table = known.of(dwarf, &header, self.length)?;
        let unit = Unit::new_with_abbreviations(dwarf, header, table).map_err(broken)?;
        if let UnitType::Type {
            type_signature: DebugTypeSignature(signature),
            type_offset,
        } = header.type_()
        {
            let key = crate::die::key_in(&unit, type_offset, alternate);
            self.signatures.entry(signature).or_insert(key);
        }
        let language = language(&unit).map_err(broken)?;
        if let Some(name) = unit.dwo_name().map_err(broken)? {
            let name = dwarf.attr_string(&unit, name).map_err(broken)?;
            let name = name.to_string_lossy().into_owned();
            return Err(DwarfError::Split(name));
        }
        self.list.push(OneUnit {
            unit,
            alternate,
            // Units of dwz tell no language. What C declares in them is not inside of anything.
            is_c: language.is_some_and(is_c),
            is_type: matches!(header.type_(), UnitType::Type { .. }),
            language: language.and_then(language_of),
        });
        Ok(())
    }

    /// Bytes of a pointer: those of the first unit.
    pub(crate) fn pointer_size(&self) -> u32 {
        let first = self.list.first();
        first.map_or(8, |one| u32::from(one.unit.encoding().address_size))
    }

    /// The error of a unit.
    pub(crate) fn error(&self, unit: usize, source: gimli::Error) -> DwarfError {
        let at = self.list.get(unit).map_or(0, |one| {
            DieKey::at(one.unit.header.offset(), one.alternate).offset()
        });
        DwarfError::Unit { unit: at, source }
    }

    /// What the value of an attribute of unit `unit` refers to; `None` when it is not a reference.
    pub(crate) fn reference(
        &self,
        unit: usize,
        value: &AttributeValue<Slice<'d>>,
    ) -> Result<Option<DieKey>, DwarfError> {
        let one = &self.list[unit];
        Ok(match value {
            AttributeValue::UnitRef(offset) => {
                Some(crate::die::key_in(&one.unit, *offset, one.alternate))
            }
            AttributeValue::DebugInfoRef(DebugInfoOffset(offset)) => {
                Some(DieKey::info(*offset, one.alternate))
            }
            AttributeValue::DebugInfoRefSup(DebugInfoOffset(offset)) => {
                Some(DieKey::info(*offset, true))
            }
            AttributeValue::DebugTypesRef(DebugTypeSignature(signature)) => {
                let target = self.signatures.get(signature);
                Some(*target.ok_or(DwarfError::NoSuchSignature(*signature))?)
            }
            _ => None,
        })
    }

    /// The file that `unit` belongs to.
    pub(crate) fn dwarf_of(&self, unit: usize) -> &Dwarf<Slice<'d>> {
        match self.list[unit].alternate {
            true => self.dwarf.sup().unwrap_or(&self.dwarf),
            false => &self.dwarf,
        }
    }

    /// The text of a string attribute of unit `unit`; empty when it is not one.
    pub(crate) fn text(
        &self,
        unit: usize,
        value: AttributeValue<Slice<'d>>,
    ) -> Result<Cow<'d, str>, DwarfError> {
        let found = self
            .dwarf_of(unit)
            .attr_string(&self.list[unit].unit, value);
        match found {
            Ok(bytes) => Ok(bytes.to_string_lossy()),
            Err(source) => Err(self.error(unit, source)),
        }
    }
}

fn language(unit: &Unit<Slice<'_>>) -> gimli::Result<Option<gimli::DwLang>> {
    let mut entries = unit.entries();
    entries.next_dfs()?;
    let Some(root) = entries.current() else {
        return Ok(None);
    };
    Ok(match root.attr_value(gimli::DW_AT_language)? {
        Some(AttributeValue::Language(language)) => Some(language),
        _ => None,
    })
}

fn is_c(language: gimli::DwLang) -> bool {
    matches!(
        language,
        gimli::DW_LANG_C
            | gimli::DW_LANG_C89
            | gimli::DW_LANG_C99
            | gimli::DW_LANG_C11
            | gimli::DW_LANG_C17
            | gimli::DW_LANG_Mips_Assembler
    )
}

/// The language of types of a unit.
fn language_of(language: gimli::DwLang) -> Option<Language> {
    match language {
        gimli::DW_LANG_Rust => Some(Language::Rust),
        gimli::DW_LANG_C_plus_plus
        | gimli::DW_LANG_C_plus_plus_03
        | gimli::DW_LANG_C_plus_plus_11
        | gimli::DW_LANG_C_plus_plus_14
        | gimli::DW_LANG_C_plus_plus_17
        | gimli::DW_LANG_C_plus_plus_20 => Some(Language::Cpp),
        language if is_c(language) => Some(Language::C),
        _ => None,
    }
}

/// The tables of abbreviations that were read, so that units that share one do not read it again.
#[derive(Default)]
struct Abbreviations {
    known: HashMap<usize, std::sync::Arc<gimli::Abbreviations>>,
    bytes: u64,
}

impl Abbreviations {
    fn of(
        &mut self,
        dwarf: &Dwarf<Slice<'_>>,
        header: &gimli::UnitHeader<Slice<'_>>,
        length: u64,
    ) -> Result<std::sync::Arc<gimli::Abbreviations>, DwarfError> {
        let offset = header.debug_abbrev_offset().0;
        if let Some(known) = self.known.get(&offset) {
            return Ok(std::sync::Arc::clone(known));
        }
        let section = dwarf.debug_abbrev.reader().slice();
        self.bytes += extent(section.get(offset..).unwrap_or(&[]));
        if self.bytes > ABBREVIATIONS_READ * (section.len() as u64) {
            return Err(DwarfError::Bloated {
                what: "abbreviations",
                bytes: self.bytes,
                length,
            });
        }
        let table = dwarf.abbreviations(header)?;
        self.known.insert(offset, std::sync::Arc::clone(&table));
        Ok(table)
    }
}

/// At most how many bytes the table of abbreviations at the start of `bytes` has: up to three zeros in a row, which end its
/// last abbreviation and itself.
fn extent(bytes: &[u8]) -> u64 {
    let end = bytes.windows(3).position(|three| three == [0, 0, 0]);
    end.map_or(bytes.len(), |at| at + 3) as u64
}

/// Names, each kept once however often it is used.
#[derive(Default)]
pub(crate) struct Names {
    known: HashMap<String, Name>,
    bytes: u64,
}

/// How many bytes of names may be read for each byte of debug information, where tables of strings are shared.
const NAMES_READ: u64 = 256;

impl Names {
    /// `text` as a name that no terminal minds.
    pub(crate) fn name(&mut self, text: &str, length: u64) -> Result<Name, DwarfError> {
        self.bytes += text.len() as u64;
        if self.bytes > NAMES_READ * length {
            return Err(DwarfError::Bloated {
                what: "names",
                bytes: self.bytes,
                length,
            });
        }
        if let Some(known) = self.known.get(text) {
            return Ok(known.clone());
        }
        let name = match linemate_text::has_unsafe(text) {
            true => Name::from(linemate_text::shown(text).to_string().as_str()),
            false => Name::from(text),
        };
        self.known.insert(text.to_owned(), name.clone());
        Ok(name)
    }
}

/// The source file of that number in the unit's table of lines, with its folder; `None` when there is none.
pub(crate) fn file_name(
    units: &Units<'_>,
    unit: usize,
    index: u64,
) -> Result<Option<String>, DwarfError> {
    let one = &units.list[unit].unit;
    let Some(program) = &one.line_program else {
        return Ok(None);
    };
    let header = program.header();
    let Some(file) = header.file(index) else {
        return Ok(None);
    };
    let mut path = String::new();
    if let (Some(folder), true) = (&one.comp_dir, file.directory_index() != 0) {
        join(&mut path, &folder.to_string_lossy());
    }
    if let Some(folder) = file.directory(header) {
        join(&mut path, &units.text(unit, folder)?);
    }
    join(&mut path, &units.text(unit, file.path_name())?);
    Ok(Some(path))
}

/// `path` continued by `next`, or replaced where that starts at the root.
fn join(path: &mut String, next: &str) {
    if next.starts_with('/') {
        path.clear();
    } else if !path.is_empty() && !path.ends_with('/') {
        path.push('/');
    }
    path.push_str(next);
}

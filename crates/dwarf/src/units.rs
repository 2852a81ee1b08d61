//! The units of a program's files, in reading order: split ones in place of their skeletons, those
//! of the alternate file last.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use gimli::{
    AttributeValue, DebugInfoOffset, DebugTypeSignature, Dwarf, Unit, UnitHeader, UnitType,
};
use linemate_types::{Language, Name};

use crate::abbreviations::{Abbreviations, offset, unit};
use crate::error::MissingUnits;
use crate::key::{FilePart, key_in};
use crate::sections::DwarfBytes;
use crate::split::{SplitUnit, SplitUnits, dwo_name};
use crate::{DieKey, DwarfError, ProgramFiles};

/// A unit and where it is from.
pub(crate) struct OneUnit<'d> {
    pub(crate) unit: Unit<DwarfBytes<'d>>,
    pub(crate) part: FilePart,
    /// The part with the strings of its line table: a split unit without one uses its skeleton's.
    lines: FilePart,
    /// Whether a name means the same in the whole program, as in C, and no enclosing entry is part
    /// of it.
    pub(crate) is_c: bool,
    /// The language, if it is C, C++ or Rust.
    pub(crate) language: Option<Language>,
    /// Whether it is a type unit, found by its signature.
    pub(crate) is_type: bool,
}

/// All units of a program.
pub(crate) struct Units<'d> {
    parts: Vec<Arc<Dwarf<DwarfBytes<'d>>>>,
    /// By the address of a part in memory, which stays as long as this: its number.
    numbers: HashMap<*const Dwarf<DwarfBytes<'d>>, FilePart>,
    pub(crate) list: Vec<OneUnit<'d>>,
    signatures: HashMap<u64, DieKey>,
    /// Indices of the units by where they start.
    by_place: Vec<usize>,
    missing: MissingUnits,
    thread_storage: Range<u64>,
    pub(crate) length: u64,
    /// Bytes of the units.
    bytes: u64,
}

impl<'d> Units<'d> {
    /// Reads the headers of all units.
    pub(crate) fn new(files: &'d ProgramFiles<'_>) -> Result<Units<'d>, DwarfError> {
        let main = Arc::new(files.dwarf());
        // Parts 0 and 1 have these numbers whether there is an alternate file or not; split files
        // begin at 2.
        let alternate = main.sup.clone();
        let mut units = Units {
            parts: vec![
                Arc::clone(&main),
                alternate.clone().unwrap_or_else(|| Arc::clone(&main)),
            ],
            numbers: HashMap::new(),
            list: Vec::new(),
            signatures: HashMap::new(),
            by_place: Vec::new(),
            missing: MissingUnits::default(),
            thread_storage: files.thread_storage(),
            length: files.length().all,
            bytes: 0,
        };
        let mut abbreviations = Abbreviations::new(files);
        let mut split = SplitUnits::new(files, &main, &mut abbreviations)?;
        units.add_all(FilePart::MAIN, &mut abbreviations, Some(&mut split))?;
        // After the program's units, whose type units win if both have one.
        units.add_split_types(&split, &main, &mut abbreviations)?;
        if alternate.is_some() {
            units.add_all(FilePart::ALTERNATE, &mut abbreviations, None)?;
        }
        // Some of many units may be missing: the others are read.
        if units.list.is_empty() && units.missing.count > 0 {
            return Err(DwarfError::Split(units.missing));
        }
        units.name_languages();
        let mut order: Vec<usize> = (0..units.list.len()).collect();
        order.sort_by_key(|index| units.list[*index].start());
        units.by_place = order;
        Ok(units)
    }

    /// Units from dwz have no language: theirs is that of all others, if those agree.
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

    fn add_all(
        &mut self,
        part: FilePart,
        abbreviations: &mut Abbreviations,
        mut split: Option<&mut SplitUnits<'d>>,
    ) -> Result<(), DwarfError> {
        let dwarf = Arc::clone(&self.parts[part.index()]);
        let mut headers = dwarf.units();
        while let Some(header) = headers.next()? {
            let unit = unit(&dwarf, header, abbreviations)?;
            match split.as_deref_mut() {
                Some(split) => self.add_main(&dwarf, unit, split, abbreviations)?,
                None => self.add(unit, part, part)?,
            }
        }
        let mut headers = dwarf.type_units();
        while let Some(header) = headers.next()? {
            self.add(unit(&dwarf, header, abbreviations)?, part, part)?;
        }
        Ok(())
    }

    /// Adds a unit of the program's own, or the one its skeleton refers to.
    fn add_main(
        &mut self,
        dwarf: &Dwarf<DwarfBytes<'d>>,
        unit: Unit<DwarfBytes<'d>>,
        split: &mut SplitUnits<'d>,
        abbreviations: &mut Abbreviations,
    ) -> Result<(), DwarfError> {
        let Some(name) = dwo_name(dwarf, &unit)? else {
            return self.add(unit, FilePart::MAIN, FilePart::MAIN);
        };
        let found = match unit.dwo_id {
            Some(id) => split.take(id, dwarf, abbreviations)?,
            None => None,
        };
        let Some(SplitUnit {
            dwarf,
            unit: mut whole,
        }) = found
        else {
            if self.missing.count == 0 {
                self.missing.first = name;
            }
            self.missing.count += 1;
            return Ok(());
        };
        let part = self.part(&dwarf)?;
        // The skeleton has what the linker changes: the bases of addresses, ranges and lists.
        whole.copy_relocated_attributes(&unit);
        whole.comp_dir = whole.comp_dir.or(unit.comp_dir);
        // The strings of a line table are in the sections of the file with the table.
        let lines = match whole.line_program {
            Some(_) => part,
            None => FilePart::MAIN,
        };
        whole.line_program = whole.line_program.or(unit.line_program);
        self.add(whole, part, lines)
    }

    /// Adds the type units, each once: every object has those it needs.
    fn add_split_types(
        &mut self,
        split: &SplitUnits<'d>,
        main: &Dwarf<DwarfBytes<'d>>,
        abbreviations: &mut Abbreviations,
    ) -> Result<(), DwarfError> {
        split.for_each_type(main, |dwarf, header| {
            if signature(&header).is_none_or(|(known, _)| self.signatures.contains_key(&known)) {
                return Ok(());
            }
            let part = self.part(dwarf)?;
            self.add(unit(dwarf, header, abbreviations)?, part, part)
        })
    }

    /// The number of a part, assigned at its first use.
    fn part(&mut self, dwarf: &Arc<Dwarf<DwarfBytes<'d>>>) -> Result<FilePart, DwarfError> {
        let number = self.parts.len();
        match self.numbers.entry(Arc::as_ptr(dwarf)) {
            Entry::Occupied(known) => Ok(*known.get()),
            Entry::Vacant(vacant) => {
                let part = FilePart::new(number).ok_or(DwarfError::TooManyParts(number))?;
                self.parts.push(Arc::clone(dwarf));
                Ok(*vacant.insert(part))
            }
        }
    }

    fn add(
        &mut self,
        unit: Unit<DwarfBytes<'d>>,
        part: FilePart,
        lines: FilePart,
    ) -> Result<(), DwarfError> {
        // In one section units are side by side; an index can claim that they are nested. Each unit
        // is walked several times, so units that overlap would cost more than their bytes.
        self.bytes += unit.header.length_including_self() as u64;
        if self.bytes > self.length {
            return Err(DwarfError::Bloated {
                what: "units",
                bytes: self.bytes,
                length: self.length,
            });
        }
        if let Some((signature, type_offset)) = signature(&unit.header) {
            let key = key_in(&unit, type_offset, part);
            self.signatures.entry(signature).or_insert(key);
        }
        let language = language(&unit).map_err(|source| DwarfError::Unit {
            unit: offset(&unit.header),
            source,
        })?;
        self.list.push(OneUnit {
            // Units from dwz have no language. What C declares in them is not nested in anything.
            is_c: language.is_some_and(is_c),
            is_type: signature(&unit.header).is_some(),
            language: language.and_then(language_of),
            unit,
            part,
            lines,
        });
        Ok(())
    }

    /// The offset in a thread's block that a unit means by `value`. In split units GCC up to at
    /// least 12 puts the symbol's address where the offset should be: beyond the block, because the
    /// linker puts it after headers and code.
    pub(crate) fn thread_offset(&self, value: u64) -> u64 {
        let Range { start, end } = self.thread_storage;
        // Below the block's length it is an offset, whatever the addresses are.
        match (start..end).contains(&value) && value >= end - start {
            true => value - start,
            false => value,
        }
    }

    /// Bytes of a pointer, from the first unit.
    pub(crate) fn pointer_size(&self) -> u32 {
        let first = self.list.first();
        first.map_or(8, |one| u32::from(one.unit.encoding().address_size))
    }

    /// The error of a unit.
    pub(crate) fn error(&self, unit: usize, source: gimli::Error) -> DwarfError {
        let at = self.list.get(unit);
        let at = at.map_or(0, |one| offset(&one.unit.header));
        DwarfError::Unit { unit: at, source }
    }

    /// What the value of an attribute of unit `unit` refers to; `None` if it is not a reference.
    pub(crate) fn reference(
        &self,
        unit: usize,
        value: &AttributeValue<DwarfBytes<'d>>,
    ) -> Result<Option<DieKey>, DwarfError> {
        let one = &self.list[unit];
        Ok(match value {
            AttributeValue::UnitRef(offset) => Some(key_in(&one.unit, *offset, one.part)),
            AttributeValue::DebugInfoRef(DebugInfoOffset(offset)) => {
                Some(DieKey::info(*offset, one.part))
            }
            AttributeValue::DebugInfoRefSup(DebugInfoOffset(offset)) => {
                Some(DieKey::info(*offset, FilePart::ALTERNATE))
            }
            // All units are listed before any entry is read, so an unknown signature does not
            // exist.
            AttributeValue::DebugTypesRef(DebugTypeSignature(signature)) => {
                let target = self.signatures.get(signature);
                Some(*target.ok_or(DwarfError::NoSuchSignature(*signature))?)
            }
            _ => None,
        })
    }

    /// The file that `unit` belongs to.
    pub(crate) fn dwarf_of(&self, unit: usize) -> &Dwarf<DwarfBytes<'d>> {
        &self.parts[self.list[unit].part.index()]
    }

    /// The text of a string in the line table of unit `unit`.
    fn line_text(
        &self,
        unit: usize,
        value: AttributeValue<DwarfBytes<'d>>,
    ) -> Result<Cow<'d, str>, DwarfError> {
        let one = &self.list[unit];
        let found = self.parts[one.lines.index()].attr_string(&one.unit, value);
        match found {
            Ok(bytes) => Ok(bytes.to_string_lossy()),
            Err(source) => Err(self.error(unit, source)),
        }
    }

    /// The text of a string attribute of unit `unit`; empty if it is not one.
    pub(crate) fn text(
        &self,
        unit: usize,
        value: AttributeValue<DwarfBytes<'d>>,
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

impl OneUnit<'_> {
    pub(crate) fn start(&self) -> DieKey {
        DieKey::at(self.unit.header.offset(), self.part)
    }
}

/// The signature of a type unit, and the type's offset in it.
fn signature(header: &UnitHeader<DwarfBytes<'_>>) -> Option<(u64, gimli::UnitOffset)> {
    match header.type_() {
        UnitType::Type {
            type_signature: DebugTypeSignature(signature),
            type_offset,
        }
        | UnitType::SplitType {
            type_signature: DebugTypeSignature(signature),
            type_offset,
        } => Some((signature, type_offset)),
        _ => None,
    }
}

fn language(unit: &Unit<DwarfBytes<'_>>) -> gimli::Result<Option<gimli::DwLang>> {
    // Only the first entry: it is the unit's own.
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

/// Names, each stored once however often it is used.
#[derive(Default)]
pub(crate) struct Names {
    known: HashMap<String, Name>,
    bytes: u64,
}

/// How many bytes of names may be read per byte of debug information, because tables of strings are
/// shared.
const NAMES_READ: u64 = 256;

impl Names {
    /// `text` as a name that is safe for a terminal.
    pub(crate) fn name(&mut self, text: &str, length: u64) -> Result<Name, DwarfError> {
        // For every use: a name is compared and hashed each time, even if it is known.
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

/// The source file with that number in the unit's line table, with its folder; `None` if there is
/// none.
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
    // Folder 0 is where the compiler ran; until DWARF 4 it is not in the table.
    if let (Some(folder), true) = (&one.comp_dir, file.directory_index() != 0) {
        join(&mut path, &folder.to_string_lossy());
    }
    if let Some(folder) = file.directory(header) {
        join(&mut path, &units.line_text(unit, folder)?);
    }
    join(&mut path, &units.line_text(unit, file.path_name())?);
    Ok(Some(path))
}

/// `path` continued by `next`, or replaced if that is absolute.
fn join(path: &mut String, next: &str) {
    if next.starts_with('/') {
        path.clear();
    } else if !path.is_empty() && !path.ends_with('/') {
        path.push('/');
    }
    path.push_str(next);
}

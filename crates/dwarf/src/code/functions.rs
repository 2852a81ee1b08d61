//! The functions and globals of all units: one pass over their entries.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::ops::Range;

use gimli::{
    AttributeValue, DebuggingInformationEntry, Unit, UnitOffset, UnitSectionOffset, constants as dw,
};
use linemate_types::{ElfAddr, Name, SourceLine, TypeId};

use super::facts::{Function, FunctionParameter, Global, Storage};
use super::place::{Where, place};
use crate::die::line_number;
use crate::key::key_in;
use crate::sections::DwarfBytes;
use crate::units::{Names, Units, file_name};
use crate::{DieKey, DwarfError, ProgramTypes, demangled};

/// How many entries may be between one that has code and the one that has its name.
pub(super) const HOPS: usize = 8;
/// Addresses of code that the linker discarded: the highest ones.
const TOMBSTONES: u64 = u64::MAX - 2;

type DieEntry<'a, 'd> = DebuggingInformationEntry<'a, 'a, DwarfBytes<'d>>;

/// Where a function's entry is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryPlace {
    pub(crate) unit: usize,
    pub(crate) offset: UnitOffset,
}

#[derive(Default)]
pub(crate) struct FoundCode {
    pub(crate) functions: Vec<(Function, EntryPlace)>,
    pub(crate) globals: Vec<Global>,
}

/// What an entry and those it refers to contain.
#[derive(Default)]
pub(crate) struct EntryDescription<'d> {
    pub(crate) name: Option<Cow<'d, str>>,
    pub(crate) linkage: Option<Cow<'d, str>>,
    pub(crate) type_ref: Option<DieKey>,
    pub(crate) declared: Option<(usize, u64, Option<NonZeroU32>)>,
}

pub(crate) fn read(units: &Units<'_>, types: &ProgramTypes) -> Result<FoundCode, DwarfError> {
    let mut reader = CodeReader {
        units,
        types,
        names: Names::default(),
        found: FoundCode::default(),
    };
    for unit in 0..units.list.len() {
        reader.unit(unit)?;
    }
    let mut found = reader.found;
    found
        .functions
        .sort_by_key(|(function, _)| function.ranges.first().map(|range| range.start));
    found
        .globals
        .sort_by(|a, b| (a.storage, &a.name).cmp(&(b.storage, &b.name)));
    // A function or variable that a header declares and several units describe is one.
    found
        .globals
        .dedup_by(|a, b| a.storage == b.storage && a.name == b.name);
    Ok(found)
}

/// The ranges of all functions by address; if two overlap, the one that starts first gets the
/// bytes.
pub(crate) fn by_address(functions: &[Function]) -> Vec<(Range<ElfAddr>, usize)> {
    let mut all: Vec<(Range<ElfAddr>, usize)> = Vec::new();
    for (index, function) in functions.iter().enumerate() {
        all.extend(function.ranges.iter().map(|range| (range.clone(), index)));
    }
    // Lookups search by start only. Overlaps come from functions that the linker folded into one,
    // or from a broken file.
    all.sort_by_key(|(range, index)| (range.start, range.end, *index));
    let mut end = ElfAddr(0);
    all.retain_mut(|(range, _)| {
        range.start = range.start.max(end);
        let is_kept = range.start < range.end;
        end = end.max(range.end);
        is_kept
    });
    all
}

/// The code ranges of an entry, without code that the linker discarded.
pub(crate) fn ranges(
    units: &Units<'_>,
    unit: usize,
    entry: &DieEntry<'_, '_>,
) -> gimli::Result<Vec<Range<ElfAddr>>> {
    let one = &units.list[unit].unit;
    let dwarf = units.dwarf_of(unit);
    let mut found = Vec::new();
    let mut add = |start: u64, end: u64| {
        // Some linkers leave zero for a section they discard.
        if start != 0 && start < TOMBSTONES && start < end {
            found.push(ElfAddr(start)..ElfAddr(end));
        }
    };
    if let Some(value) = entry.attr_value(dw::DW_AT_ranges)? {
        if let Some(mut ranges) = dwarf.attr_ranges(one, value)? {
            while let Some(range) = ranges.next()? {
                add(range.begin, range.end);
            }
        }
    } else if let Some(low) = entry.attr_value(dw::DW_AT_low_pc)? {
        // By hand: the library's version overflows on a hostile file.
        let low = dwarf.attr_address(one, low)?.unwrap_or(0);
        let end = match entry.attr_value(dw::DW_AT_high_pc)? {
            Some(AttributeValue::Udata(size)) => low.checked_add(size),
            // Before DWARF 4 the end is an address, later mostly a length: the form decides.
            Some(value) => match dwarf.attr_address(one, value)? {
                Some(end) => Some(end),
                None => value.udata_value().and_then(|size| low.checked_add(size)),
            },
            None => None,
        };
        add(low, end.unwrap_or(0));
    }
    found.sort_by_key(|range| range.start);
    Ok(found)
}

/// The attributes of an entry, completed by the entries it refers to.
pub(crate) fn describe<'d>(
    units: &Units<'d>,
    unit: usize,
    offset: UnitOffset,
) -> Result<EntryDescription<'d>, DwarfError> {
    let mut found = EntryDescription::default();
    let mut at = (unit, offset);
    // A bound, because references in a hostile file can form a cycle.
    for _ in 0..HOPS {
        let (unit, offset) = at;
        let broken = |source| units.error(unit, source);
        let entry = units.list[unit].unit.entry(offset).map_err(broken)?;
        let mut next = None;
        let (mut file, mut line) = (None, None);
        let mut attributes = entry.attrs();
        while let Some(attribute) = attributes.next().map_err(broken)? {
            let value = attribute.value();
            match attribute.name() {
                // The nearest entry wins: entries it refers to fill in what it leaves out.
                dw::DW_AT_name if found.name.is_none() => {
                    found.name = Some(units.text(unit, value)?);
                }
                dw::DW_AT_linkage_name | dw::DW_AT_MIPS_linkage_name if found.linkage.is_none() => {
                    found.linkage = Some(units.text(unit, value)?);
                }
                dw::DW_AT_type if found.type_ref.is_none() => {
                    found.type_ref = units.reference(unit, &value)?;
                }
                dw::DW_AT_decl_line => line = line_number(&value),
                dw::DW_AT_decl_file => {
                    file = match value {
                        AttributeValue::FileIndex(index) => Some(index),
                        value => value.udata_value(),
                    }
                }
                dw::DW_AT_abstract_origin | dw::DW_AT_specification => {
                    next = units.reference(unit, &value)?;
                }
                _ => {}
            }
        }
        // File and line come from one entry: another entry's line would be of another file.
        if let (None, Some(file)) = (found.declared, file) {
            found.declared = Some((unit, file, line));
        }
        match next.and_then(|key| units.locate(key)) {
            Some(next) => at = next,
            None => break,
        }
    }
    Ok(found)
}

/// The location of an entry's variable, if it is an expression and not a list.
pub(crate) fn fixed_place(
    units: &Units<'_>,
    unit: usize,
    value: &AttributeValue<DwarfBytes<'_>>,
) -> Option<Where> {
    let one = &units.list[unit].unit;
    let expression = value.exprloc_value()?;
    place(expression, one.encoding(), |index| {
        units.dwarf_of(unit).address(one, index).ok()
    })
}

struct CodeReader<'u, 'd> {
    units: &'u Units<'d>,
    types: &'u ProgramTypes,
    names: Names,
    found: FoundCode,
}

impl CodeReader<'_, '_> {
    fn unit(&mut self, unit: usize) -> Result<(), DwarfError> {
        let units = self.units;
        let one = &units.list[unit].unit;
        let broken = |source| units.error(unit, source);
        let mut entries = one.entries_raw(None).map_err(broken)?;
        // The function whose children are being read, and its depth.
        let mut function: Option<(usize, isize)> = None;
        while !entries.is_empty() {
            let offset = entries.next_offset();
            let depth = entries.next_depth();
            let Some(abbreviation) = entries.read_abbreviation().map_err(broken)? else {
                continue;
            };
            // Entries are in depth-first order: one that is no deeper than the function ends its
            // children.
            if function.is_some_and(|(_, of)| depth <= of) {
                function = None;
            }
            match abbreviation.tag() {
                dw::DW_TAG_subprogram => {
                    if let Some(index) = self.function(one, unit, offset)? {
                        function = Some((index, depth));
                    }
                }
                dw::DW_TAG_formal_parameter => {
                    if let Some((index, _)) = function.filter(|(_, of)| depth == of + 1) {
                        self.parameter(unit, offset, index)?;
                    }
                }
                dw::DW_TAG_variable => self.global(one, unit, offset)?,
                _ => {}
            }
            // Attributes are read through a separate cursor: most entries are none of these three.
            entries
                .skip_attributes(abbreviation.attributes())
                .map_err(broken)?;
        }
        Ok(())
    }

    /// The index of the function, if it has code.
    fn function(
        &mut self,
        one: &Unit<DwarfBytes<'_>>,
        unit: usize,
        offset: UnitOffset,
    ) -> Result<Option<usize>, DwarfError> {
        let broken = |source| self.units.error(unit, source);
        let entry = one.entry(offset).map_err(broken)?;
        let ranges = ranges(self.units, unit, &entry).map_err(broken)?;
        if ranges.is_empty() {
            return Ok(None);
        }
        let described = describe(self.units, unit, offset)?;
        let declared = self.declared(&described)?;
        let (name, linkage_name) = names(&described);
        let function = Function {
            name,
            linkage_name,
            ranges,
            declared,
            parameters: Vec::new(),
        };
        let place = EntryPlace { unit, offset };
        self.found.functions.push((function, place));
        Ok(Some(self.found.functions.len() - 1))
    }

    fn parameter(
        &mut self,
        unit: usize,
        offset: UnitOffset,
        function: usize,
    ) -> Result<(), DwarfError> {
        let described = describe(self.units, unit, offset)?;
        let parameter = FunctionParameter {
            name: self.name(described.name.as_deref())?,
            type_id: self.type_id(described.type_ref),
        };
        if let Some((function, _)) = self.found.functions.get_mut(function) {
            function.parameters.push(parameter);
        }
        Ok(())
    }

    fn global(
        &mut self,
        one: &Unit<DwarfBytes<'_>>,
        unit: usize,
        offset: UnitOffset,
    ) -> Result<(), DwarfError> {
        let broken = |source| self.units.error(unit, source);
        let entry = one.entry(offset).map_err(broken)?;
        let location = entry.attr_value(dw::DW_AT_location).map_err(broken)?;
        let place = location.and_then(|value| fixed_place(self.units, unit, &value));
        let storage = match place {
            // As for code: what the linker discarded has no address.
            Some(Where::Static(address)) if address.0 != 0 && address.0 < TOMBSTONES => {
                Storage::Static(address)
            }
            Some(Where::ThreadLocal(offset)) => {
                Storage::ThreadLocal(self.units.thread_offset(offset))
            }
            _ => return Ok(()),
        };
        let described = describe(self.units, unit, offset)?;
        let type_id = self.type_id(described.type_ref);
        let (name, linkage_name) = names(&described);
        let global = Global {
            name,
            linkage_name,
            storage,
            type_id,
            // A global without a size has no bytes: `global_at` does not find it.
            size: self.types.model().size_of(type_id).unwrap_or(0),
            declared: self.declared(&described)?,
        };
        self.found.globals.push(global);
        Ok(())
    }

    fn type_id(&self, key: Option<DieKey>) -> TypeId {
        let known = key.and_then(|key| self.types.type_of(key));
        known.unwrap_or(TypeId::VOID)
    }

    fn name(&mut self, text: Option<&str>) -> Result<Name, DwarfError> {
        self.names.name(text.unwrap_or(""), self.units.length)
    }

    fn declared(
        &mut self,
        described: &EntryDescription<'_>,
    ) -> Result<Option<SourceLine>, DwarfError> {
        let Some((unit, file, line)) = described.declared else {
            return Ok(None);
        };
        let Some(path) = file_name(self.units, unit, file)? else {
            return Ok(None);
        };
        Ok(Some(SourceLine {
            file: self.name(Some(&path))?,
            line,
        }))
    }
}

/// Its name, and its symbol if that differs.
pub(super) fn names(described: &EntryDescription<'_>) -> (String, Option<String>) {
    let plain = described.name.as_deref().unwrap_or("");
    match described.linkage.as_deref() {
        // The symbol has the namespaces, which the entry's own name lacks.
        Some(linkage) if linkage != plain => {
            let name = demangled(linkage).unwrap_or_else(|| plain.to_owned());
            (shown(&name), Some(shown(linkage)))
        }
        _ => (shown(plain), None),
    }
}

fn shown(text: &str) -> String {
    linemate_text::shown(text).to_string()
}

impl<'d> Units<'d> {
    /// The unit and offset of an entry; `None` if it is in no unit.
    pub(crate) fn locate(&self, key: DieKey) -> Option<(usize, UnitOffset)> {
        let starts = |index: &usize| self.list[*index].start();
        let order = self.by_place();
        let at = order
            .partition_point(|index| starts(index) <= key)
            .checked_sub(1)?;
        let unit = order[at];
        let one = &self.list[unit];
        let offset = usize::try_from(key.offset()).ok()?;
        let section = match one.unit.header.offset() {
            UnitSectionOffset::DebugInfoOffset(_) => {
                UnitSectionOffset::DebugInfoOffset(gimli::DebugInfoOffset(offset))
            }
            UnitSectionOffset::DebugTypesOffset(_) => {
                UnitSectionOffset::DebugTypesOffset(gimli::DebugTypesOffset(offset))
            }
        };
        let found = section.to_unit_offset(&one.unit)?;
        // The unit that starts before the entry need not extend to it, or belong to its part.
        (key_in(&one.unit, found, one.part) == key).then_some((unit, found))
    }
}

//! Split DWARF: units that the linker never saw, in `.dwo` files and `.dwp` packages, found by
//! their ids.
//!
//! A program compiled with `-gsplit-dwarf` has a skeleton for each unit: its addresses, its lines,
//! and the id of the unit with the rest.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use gimli::{
    Dwarf, DwarfPackage, DwarfSections, DwoId, EndianSlice, RunTimeEndian, Section as _, Unit,
    UnitHeader, UnitType,
};
use object::Object;
use object::read::elf::ElfFile64;

use crate::abbreviations::{Abbreviations, offset, unit};
use crate::sections::{DwarfBytes, Length};
use crate::split_file::SplitFile;
use crate::{DwarfError, ProgramFiles};

/// The sections that units are in.
pub(crate) type SharedDwarf<'d> = Arc<Dwarf<DwarfBytes<'d>>>;

/// A unit of an object or a package.
pub(crate) struct SplitUnit<'d> {
    pub(crate) dwarf: SharedDwarf<'d>,
    pub(crate) unit: Unit<DwarfBytes<'d>>,
}

/// The units of a `.dwo` file.
struct ObjectUnits<'d> {
    dwarf: SharedDwarf<'d>,
    sections: &'d DwarfSections<Cow<'d, [u8]>>,
}

/// The position of a unit in an object.
struct InObject<'d> {
    object: usize,
    header: UnitHeader<DwarfBytes<'d>>,
}

/// The units of all split files, by their ids.
pub(crate) struct SplitUnits<'d> {
    objects: Vec<ObjectUnits<'d>>,
    packages: Vec<DwarfPackage<DwarfBytes<'d>>>,
    by_id: HashMap<u64, InObject<'d>>,
    types: Vec<InObject<'d>>,
    taken: HashSet<u64>,
    endian: RunTimeEndian,
}

impl<'d> SplitUnits<'d> {
    /// Finds the units in the split files of `files`. Addresses are in `parent`, which has the
    /// skeletons.
    pub(crate) fn new(
        files: &'d ProgramFiles<'_>,
        parent: &Dwarf<DwarfBytes<'d>>,
        abbreviations: &mut Abbreviations,
    ) -> Result<SplitUnits<'d>, DwarfError> {
        SplitUnits::of(files.split(), files.endian(), parent, abbreviations)
    }

    fn of(
        files: &'d [SplitFile<'_>],
        endian: RunTimeEndian,
        parent: &Dwarf<DwarfBytes<'d>>,
        abbreviations: &mut Abbreviations,
    ) -> Result<SplitUnits<'d>, DwarfError> {
        let mut found = SplitUnits {
            objects: Vec::new(),
            packages: Vec::new(),
            by_id: HashMap::new(),
            types: Vec::new(),
            taken: HashSet::new(),
            endian,
        };
        let slice = |bytes: &'d Cow<'_, [u8]>| EndianSlice::new(bytes, endian);
        for file in files {
            match file {
                SplitFile::Object(sections) => {
                    found.add_object(sections, parent, abbreviations)?;
                }
                SplitFile::Package(sections) => {
                    let package = sections.borrow(slice, EndianSlice::new(&[], endian))?;
                    found.packages.push(package);
                }
            }
        }
        Ok(found)
    }

    fn add_object(
        &mut self,
        sections: &'d DwarfSections<Cow<'d, [u8]>>,
        parent: &Dwarf<DwarfBytes<'d>>,
        abbreviations: &mut Abbreviations,
    ) -> Result<(), DwarfError> {
        let mut dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, self.endian));
        // Addresses and the bases of lists are in the program, not in the object.
        dwarf.make_dwo(parent);
        let object = self.objects.len();
        let mut headers = dwarf.units();
        while let Some(header) = headers.next()? {
            if let UnitType::SplitType { .. } | UnitType::Type { .. } = header.type_() {
                self.types.push(InObject { object, header });
                continue;
            }
            // DWARF 4 has the id in the unit's first entry, which therefore has to be read; DWARF 5
            // has it in the header.
            let unit = unit(&dwarf, header, abbreviations)?;
            if let Some(DwoId(id)) = unit.dwo_id {
                let place = InObject { object, header };
                // The first of equal ones: an object that is given twice is the same unit.
                self.by_id.entry(id).or_insert(place);
            }
        }
        let mut headers = dwarf.type_units();
        while let Some(header) = headers.next()? {
            self.types.push(InObject { object, header });
        }
        let dwarf = Arc::new(dwarf);
        self.objects.push(ObjectUnits { dwarf, sections });
        Ok(())
    }

    /// The unit with that id, once: a unit that two skeletons name belongs to the first.
    pub(crate) fn take(
        &mut self,
        id: DwoId,
        parent: &Dwarf<DwarfBytes<'d>>,
        abbreviations: &mut Abbreviations,
    ) -> Result<Option<SplitUnit<'d>>, DwarfError> {
        if !self.taken.insert(id.0) {
            return Ok(None);
        }
        self.find(id, parent, abbreviations)
    }

    /// The unit with that id.
    pub(crate) fn find(
        &self,
        id: DwoId,
        parent: &Dwarf<DwarfBytes<'d>>,
        abbreviations: &mut Abbreviations,
    ) -> Result<Option<SplitUnit<'d>>, DwarfError> {
        if let Some(place) = self.by_id.get(&id.0) {
            let dwarf = Arc::clone(&self.objects[place.object].dwarf);
            let unit = unit(&dwarf, place.header, abbreviations)?;
            return Ok(Some(SplitUnit { dwarf, unit }));
        }
        // An id is one unit, in whichever file it is.
        for package in &self.packages {
            let Some(dwarf) = package.find_cu(id, parent)? else {
                continue;
            };
            let Some(header) = dwarf.units().next()? else {
                continue;
            };
            let unit = unit(&dwarf, header, abbreviations)?;
            // The index is only a claim: the unit itself has its id.
            if unit.dwo_id == Some(id) {
                let dwarf = Arc::new(dwarf);
                return Ok(Some(SplitUnit { dwarf, unit }));
            }
        }
        Ok(None)
    }

    /// Sections whose first unit is the one with that id, and its length.
    pub(crate) fn sections_of(
        &self,
        id: DwoId,
        parent: &Dwarf<DwarfBytes<'d>>,
        abbreviations: &mut Abbreviations,
    ) -> Result<Option<(SharedDwarf<'d>, u64)>, DwarfError> {
        let Some(found) = self.find(id, parent, abbreviations)? else {
            return Ok(None);
        };
        // The library takes the first unit of its input, and an object can have several.
        let start = usize::try_from(offset(&found.unit.header)).unwrap_or(usize::MAX);
        let length = found.unit.header.length_including_self() as u64;
        if start == 0 {
            return Ok(Some((found.dwarf, length)));
        }
        let Some(place) = self.by_id.get(&id.0) else {
            return Ok(None);
        };
        let sections = self.objects[place.object].sections;
        let mut dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, self.endian));
        dwarf.make_dwo(parent);
        // Cut at its start: references within a unit are relative to it, so they stay right.
        let bytes = dwarf.debug_info.reader().slice();
        let bytes = bytes.get(start..).unwrap_or(&[]);
        dwarf.debug_info = EndianSlice::new(bytes, self.endian).into();
        Ok(Some((Arc::new(dwarf), length)))
    }

    /// Yields the headers of all type units, with the sections they are in.
    pub(crate) fn for_each_type(
        &self,
        parent: &Dwarf<DwarfBytes<'d>>,
        mut visit: impl FnMut(&SharedDwarf<'d>, UnitHeader<DwarfBytes<'d>>) -> Result<(), DwarfError>,
    ) -> Result<(), DwarfError> {
        for place in &self.types {
            visit(&self.objects[place.object].dwarf, place.header)?;
        }
        for package in &self.packages {
            let index = &package.tu_index;
            // Without columns, rows take no bytes that would bound their number.
            let rows = match index.section_count() {
                0 => 0,
                _ => index.unit_count(),
            };
            // Rows count from 1.
            for row in 1..=rows {
                let dwarf = Arc::new(package.tu_sections(row, parent)?);
                let header = match dwarf.units().next()? {
                    Some(header) => Some(header),
                    None => dwarf.type_units().next()?,
                };
                if let Some(header) = header {
                    visit(&dwarf, header)?;
                }
            }
        }
        Ok(())
    }
}

/// What a skeleton says about the rest of its unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skeleton {
    /// The `.dwo` file, as passed to the compiler; relative to `folder`.
    pub name: String,
    /// Where the compiler ran.
    pub folder: Option<String>,
    /// The unit that is meant.
    pub id: u64,
}

/// The skeletons of a program or of its debug file; none if it is not split.
///
/// # Errors
/// If it is not an ELF file of a linked program, or its debug information is broken.
pub fn skeletons(bytes: &[u8]) -> Result<Vec<Skeleton>, DwarfError> {
    let files = match ProgramFiles::own(bytes, None) {
        Err(DwarfError::NoDebugInfo) => return Ok(Vec::new()),
        files => files?,
    };
    let dwarf = files.dwarf();
    let mut abbreviations = Abbreviations::new(&files);
    let mut found = Vec::new();
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        let unit = unit(&dwarf, header, &mut abbreviations)?;
        if let (Some(name), Some(DwoId(id))) = (dwo_name(&dwarf, &unit)?, unit.dwo_id) {
            let folder = unit.comp_dir.map(|d| d.to_string_lossy().into_owned());
            found.push(Skeleton { name, folder, id });
        }
    }
    Ok(found)
}

/// The file with the rest of a unit; empty if the unit is a skeleton that names none, `None` if it
/// is not a skeleton.
pub(crate) fn dwo_name(
    dwarf: &Dwarf<DwarfBytes<'_>>,
    unit: &Unit<DwarfBytes<'_>>,
) -> Result<Option<String>, DwarfError> {
    let broken = |source| DwarfError::Unit {
        unit: offset(&unit.header),
        source,
    };
    Ok(match unit.dwo_name().map_err(broken)? {
        Some(name) => {
            let name = dwarf.attr_string(unit, name).map_err(broken)?;
            Some(name.to_string_lossy().into_owned())
        }
        None => matches!(unit.header.type_(), UnitType::Skeleton(_)).then(String::new),
    })
}

/// Which of the units `wanted` a `.dwo` file or `.dwp` package has.
///
/// # Errors
/// If it is not ELF, or broken.
pub fn split_ids(bytes: &[u8], wanted: &BTreeSet<u64>) -> Result<BTreeSet<u64>, DwarfError> {
    let mut length = Length::default();
    let files = [SplitFile::read(bytes, &mut length)?];
    let endian = match ElfFile64::<object::Endianness>::parse(bytes)?.is_little_endian() {
        true => RunTimeEndian::Little,
        false => RunTimeEndian::Big,
    };
    // Ids need no addresses, so an empty program will do as a parent.
    let none = DwarfSections::<Cow<'_, [u8]>>::default();
    let parent = none.borrow(|bytes| EndianSlice::new(bytes, endian));
    let mut abbreviations = Abbreviations::of_length(length);
    let units = SplitUnits::of(&files, endian, &parent, &mut abbreviations)?;
    let in_objects = units.by_id.keys().filter(|id| wanted.contains(id));
    let mut found: BTreeSet<u64> = in_objects.copied().collect();
    // A package has no list of its units, only an index to look them up.
    for id in wanted.iter().filter(|_| !units.packages.is_empty()) {
        if units
            .find(DwoId(*id), &parent, &mut abbreviations)?
            .is_some()
        {
            found.insert(*id);
        }
    }
    Ok(found)
}

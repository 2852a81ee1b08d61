//! Files with split units: `.dwo` files and `.dwp` packages.

use std::borrow::Cow;

use gimli::{DwarfPackageSections, DwarfSections, SectionId};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};

use crate::DwarfError;
use crate::sections::{Length, contents};

/// The sections of a file with split units, unpacked if they are compressed.
pub(crate) enum SplitFile<'d> {
    /// `.dwo`: from one run of the compiler.
    Object(Box<DwarfSections<Cow<'d, [u8]>>>),
    /// `.dwp`: from many runs, with an index.
    Package(Box<DwarfPackageSections<Cow<'d, [u8]>>>),
}

impl<'d> SplitFile<'d> {
    /// Reads a `.dwo` file or a `.dwp` package.
    pub(crate) fn read(bytes: &'d [u8], length: &mut Length) -> Result<SplitFile<'d>, DwarfError> {
        // Not by `open`: a `.dwo` file is an object that was never linked, and needs no linking.
        let file = ElfFile64::parse(bytes)?;
        let mut load = |id: SectionId| load(&file, id, length);
        Ok(match is_package(&file) {
            true => SplitFile::Package(Box::new(DwarfPackageSections::load(load)?)),
            false => SplitFile::Object(Box::new(DwarfSections::load(&mut load)?)),
        })
    }
}

fn is_package(file: &ElfFile64<'_>) -> bool {
    let has = |name| file.section_by_name(name).is_some();
    has(".debug_cu_index") || has(".debug_tu_index")
}

/// All sections with that name, in order: each type unit of an object file has a section of its
/// own.
fn load<'d>(
    file: &ElfFile64<'d>,
    id: SectionId,
    length: &mut Length,
) -> Result<Cow<'d, [u8]>, DwarfError> {
    let Some(name) = id.dwo_name() else {
        return Ok(Cow::Borrowed(&[]));
    };
    let mut all = Cow::Borrowed(&[][..]);
    let sections = file.sections();
    for section in sections.filter(|section| section.name_bytes() == Ok(name.as_bytes())) {
        let bytes = contents(&section, id, length)?;
        match all.is_empty() {
            // Borrowed if there is only one, which is the usual case.
            true => all = bytes,
            false => all.to_mut().extend_from_slice(&bytes),
        }
    }
    Ok(all)
}

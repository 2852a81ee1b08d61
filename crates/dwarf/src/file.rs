//! The files that contain a program's debug information, and their sections.

use std::borrow::Cow;
use std::ops::Range;

use gimli::{DwarfSections, EndianSlice, RunTimeEndian, SectionId};
use object::read::elf::{ElfFile64, ElfSection64, ProgramHeader as _};
use object::{Object, ObjectKind, ObjectSection};

use crate::DwarfError;
use crate::sections::{DwarfBytes, Length, contents};
use crate::split_file::SplitFile;

/// Where to search for the rest of a program's debug information.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Companions {
    /// The build-id (`.note.gnu.build-id`): `/usr/lib/debug/.build-id/xx/yyyy.debug`.
    pub build_id: Vec<u8>,
    /// The name of a separate debug file (`.gnu_debuglink`): next to the program, in `.debug/`,
    /// under `/usr/lib/debug`. And its checksum: [`debug_link_checksum`].
    pub debug_link: Option<(String, u32)>,
    /// The file that `dwz` moved common types to (`.gnu_debugaltlink`): its path, and its build-id.
    pub alternate: Option<(String, Vec<u8>)>,
    /// Whether this file has DWARF itself.
    pub has_dwarf: bool,
}

impl Companions {
    /// What the ELF file `bytes` says about other files.
    ///
    /// # Errors
    /// If it is not an ELF file of a linked program.
    pub fn of(bytes: &[u8]) -> Result<Companions, DwarfError> {
        let file = open(bytes)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let link = file.gnu_debuglink().ok().flatten();
        let alternate = file.gnu_debugaltlink().ok().flatten();
        Ok(Companions {
            build_id: file.build_id().ok().flatten().unwrap_or(&[]).to_vec(),
            debug_link: link.map(|(name, checksum)| (text(name), checksum)),
            alternate: alternate.map(|(name, id)| (text(name), id.to_vec())),
            has_dwarf: section(&file, ".debug_info").is_some(),
        })
    }

    /// The build-id in hexadecimal.
    pub fn build_id_text(&self) -> String {
        hex(&self.build_id)
    }
}

/// The checksum of a debug file that `.gnu_debuglink` contains: CRC-32.
pub fn debug_link_checksum(bytes: &[u8]) -> u32 {
    let mut checksum = flate2::Crc::new();
    checksum.update(bytes);
    checksum.sum()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The section with that name, or `.zdebug_…`, which older tools wrote.
fn section<'d, 'f>(file: &'f ElfFile64<'d>, name: &str) -> Option<ElfSection64<'d, 'f>> {
    // The contents are unpacked as their header says, so both names are read in the same way.
    let older = || file.section_by_name(&name.replacen(".debug_", ".zdebug_", 1));
    let found = file.section_by_name(name).or_else(older);
    // An empty section must not pass for debug information.
    found.filter(|section| section.size() != 0)
}

fn open(bytes: &[u8]) -> Result<ElfFile64<'_>, DwarfError> {
    let file = ElfFile64::parse(bytes)?;
    match file.kind() {
        // Its offsets into other sections are zero until the linker fills them in: it would be
        // misread.
        ObjectKind::Relocatable => Err(DwarfError::NotLinked),
        _ => Ok(file),
    }
}

/// The sections of a program's files, unpacked if they are compressed.
pub struct ProgramFiles<'d> {
    dwarf: DwarfSections<Cow<'d, [u8]>>,
    alternate: Option<DwarfSections<Cow<'d, [u8]>>>,
    split: Vec<SplitFile<'d>>,
    eh_frame: Frames<'d>,
    debug_frame: Frames<'d>,
    thread_storage: Range<u64>,
    endian: RunTimeEndian,
    /// Bytes of debug information, which bound what is built from them.
    length: Length,
}

/// A section with call frame information, and the addresses that it is relative to.
#[derive(Default)]
struct Frames<'d> {
    bytes: Cow<'d, [u8]>,
    bases: gimli::BaseAddresses,
}

impl<'d> ProgramFiles<'d> {
    /// The sections of `program`; its DWARF is in `debug` if that is given, and what `dwz` moved is
    /// in `alternate`.
    ///
    /// # Errors
    /// If a file is not ELF, is of another build, has no DWARF at all or has compressed sections
    /// that cannot be unpacked.
    pub fn new(
        program: &'d [u8],
        debug: Option<&'d [u8]>,
        alternate: Option<&'d [u8]>,
    ) -> Result<ProgramFiles<'d>, DwarfError> {
        let mut files = ProgramFiles::own(program, debug)?;
        let told = open(debug.unwrap_or(program))?;
        files.alternate = match (alternate, told.gnu_debugaltlink().ok().flatten()) {
            (None, None) | (Some(_), None) => None,
            (None, Some((name, _))) => {
                let name = String::from_utf8_lossy(name).into_owned();
                return Err(DwarfError::NoAlternate(name));
            }
            (Some(bytes), Some((_, wanted))) => {
                let file = ElfFile64::parse(bytes)?;
                let found = file.build_id().ok().flatten().unwrap_or(&[]);
                // By the build-id: another build of the same library has other offsets, and every
                // reference would give a wrong type.
                if found != wanted {
                    return Err(other_build(wanted, found));
                }
                let load = |id| load(&file, id, &mut files.length);
                Some(DwarfSections::load(load)?)
            }
        };
        Ok(files)
    }

    /// The sections of `program` and `debug`, whatever these refer to.
    pub(crate) fn own(
        program: &'d [u8],
        debug: Option<&'d [u8]>,
    ) -> Result<ProgramFiles<'d>, DwarfError> {
        let main = open(program)?;
        let debug = debug.map(open).transpose()?;
        if let Some(debug) = &debug {
            check_build(&main, debug)?;
        }
        let told = debug.as_ref().unwrap_or(&main);
        if section(told, ".debug_info").is_none() && section(told, ".debug_types").is_none() {
            return Err(DwarfError::NoDebugInfo);
        }
        let mut length = Length::default();
        let dwarf = DwarfSections::load(|id| load(told, id, &mut length))?;
        Ok(ProgramFiles {
            dwarf,
            alternate: None,
            split: Vec::new(),
            // A debug file has the section's header without its bytes: the program has them,
            // because unwinding needs them at run time.
            eh_frame: frames(&main, SectionId::EhFrame)?,
            debug_frame: frames(told, SectionId::DebugFrame)?,
            thread_storage: thread_storage(&main),
            endian: match main.is_little_endian() {
                true => RunTimeEndian::Little,
                false => RunTimeEndian::Big,
            },
            length,
        })
    }

    /// These files and the `.dwo` files and `.dwp` packages `split`, in any order: the ids of their
    /// units show what belongs to the program.
    ///
    /// # Errors
    /// If one is not ELF, has compressed sections that cannot be unpacked or a broken index.
    pub fn with_split(mut self, split: &[&'d [u8]]) -> Result<ProgramFiles<'d>, DwarfError> {
        for bytes in split {
            let file = SplitFile::read(bytes, &mut self.length)?;
            self.split.push(file);
        }
        Ok(self)
    }

    /// Bytes of debug information, which bound what is built from them.
    pub(crate) fn length(&self) -> Length {
        self.length
    }

    /// The files with split units.
    pub(crate) fn split(&self) -> &[SplitFile<'d>] {
        &self.split
    }

    /// Where the linker put the template of the thread-local block.
    pub(crate) fn thread_storage(&self) -> Range<u64> {
        self.thread_storage.clone()
    }

    /// The byte order of numbers.
    pub(crate) fn endian(&self) -> RunTimeEndian {
        self.endian
    }

    /// The call frame information of the running program.
    pub(crate) fn eh_frame(&self) -> (DwarfBytes<'_>, gimli::BaseAddresses) {
        let bytes = EndianSlice::new(&self.eh_frame.bytes, self.endian);
        (bytes, self.eh_frame.bases.clone())
    }

    /// The call frame information for debuggers.
    pub(crate) fn debug_frame(&self) -> (DwarfBytes<'_>, gimli::BaseAddresses) {
        let bytes = EndianSlice::new(&self.debug_frame.bytes, self.endian);
        (bytes, self.debug_frame.bases.clone())
    }

    /// The DWARF, with the alternate file as its supplement.
    pub(crate) fn dwarf(&self) -> gimli::Dwarf<DwarfBytes<'_>> {
        let endian = self.endian;
        match &self.alternate {
            Some(alternate) => self
                .dwarf
                .borrow_with_sup(alternate, |bytes| EndianSlice::new(bytes, endian)),
            None => self.dwarf.borrow(|bytes| EndianSlice::new(bytes, endian)),
        }
    }
}

fn thread_storage(file: &ElfFile64<'_>) -> Range<u64> {
    let endian = file.endian();
    let mut headers = file.elf_program_headers().iter();
    let storage = headers.find(|header| header.p_type(endian) == object::elf::PT_TLS);
    storage.map_or(0..0, |header| {
        let start = header.p_vaddr(endian);
        start..start.saturating_add(header.p_memsz(endian))
    })
}

fn check_build(main: &ElfFile64<'_>, debug: &ElfFile64<'_>) -> Result<(), DwarfError> {
    let wanted = main.build_id().ok().flatten();
    let found = debug.build_id().ok().flatten();
    match (wanted, found) {
        // A file without a build-id is accepted: the user or its checksum named it.
        (Some(wanted), Some(found)) if wanted != found => Err(other_build(wanted, found)),
        _ => Ok(()),
    }
}

fn other_build(wanted: &[u8], found: &[u8]) -> DwarfError {
    DwarfError::OtherBuild {
        wanted: hex(wanted),
        found: hex(found),
    }
}

/// The bytes of a section; empty if there is no such section.
fn load<'d>(
    file: &ElfFile64<'d>,
    id: SectionId,
    length: &mut Length,
) -> Result<Cow<'d, [u8]>, DwarfError> {
    match section(file, id.name()) {
        Some(section) => contents(&section, id, length),
        None => Ok(Cow::Borrowed(&[])),
    }
}

fn frames<'d>(file: &ElfFile64<'d>, id: SectionId) -> Result<Frames<'d>, DwarfError> {
    let address = |name: &str| file.section_by_name(name).map(|section| section.address());
    let mut bases = gimli::BaseAddresses::default();
    if let Some(text) = address(".text") {
        bases = bases.set_text(text);
    }
    if let Some(eh_frame) = address(".eh_frame") {
        bases = bases.set_eh_frame(eh_frame);
    }
    // Not counted: frames are not debug information, and what is built from them is bounded by
    // their own bytes.
    let bytes = load(file, id, &mut Length::default())?;
    Ok(Frames { bytes, bases })
}

//! All programs of a recording.

use std::ops::Range;

use linemate_recording::{Error as RecordingError, GuestAddr, Recording};
use linemate_types::ElfAddr;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection};
use thiserror::Error;

use crate::image::{Image, ImageError, Symbol};
use crate::operand::{UserInstruction, decode};

/// Why programs cannot be read.
#[derive(Debug, Error)]
pub enum ProgramsError {
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// One of its files.
    #[error(transparent)]
    Image(#[from] ImageError),
}

/// Code of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodePlace {
    /// Which of the recording's files.
    pub file: u32,
    pub address: ElfAddr,
}

/// The programs of a recording.
#[derive(Debug, Default)]
pub struct Programs {
    /// By file number; none for a file with only debug information.
    images: Vec<Option<Image>>,
    /// What each file holds.
    contents: Vec<Vec<u8>>,
    /// What the other files contain of each one's debug information.
    attached: Vec<Attached>,
}

/// The files with the missing parts of a file's own debug information.
#[derive(Clone, Debug, Default)]
struct Attached {
    debug: Option<u32>,
    /// What several files have in common (`dwz`).
    alternate: Option<u32>,
    split: Vec<u32>,
}

impl Attached {
    /// The parts of file `of` according to the contents of the files attached to it.
    fn add(&mut self, file: u32, contents: &[u8], of: &[u8]) {
        let elf = ElfFile64::<LittleEndian>::parse(contents).ok();
        if elf.is_some_and(|elf| SPLIT.iter().any(|name| elf.section_by_name(name).is_some())) {
            self.split.push(file);
            return;
        }
        let of = ElfFile64::<LittleEndian>::parse(of).ok();
        let is_whole = of.is_some_and(|elf| {
            let info = elf.section_by_name(".debug_info");
            info.is_some_and(|section| section.size() != 0)
        });
        match is_whole {
            true => self.alternate = Some(file),
            false => self.debug = Some(file),
        }
    }
}

/// Sections that only `.dwo` files and `.dwp` packages have.
const SPLIT: [&str; 4] = [
    ".debug_info.dwo",
    ".debug_types.dwo",
    ".debug_cu_index",
    ".debug_tu_index",
];

impl Programs {
    /// Reads all programs of a recording; none if it has none.
    ///
    /// # Errors
    /// A damaged chunk, or a file that is not a program.
    pub fn of(recording: &Recording) -> Result<Self, ProgramsError> {
        let files = recording.programs().files();
        let contents = recording.program_files()?;
        let mut attached = vec![Attached::default(); files.len()];
        for (file, index) in files.iter().zip(0..) {
            let Some(of) = file.debug_of.map(|of| of as usize) else {
                continue;
            };
            if let (Some(slot), Some(whole)) = (attached.get_mut(of), contents.get(of)) {
                slot.add(index, &contents[index as usize], whole);
            }
        }
        let image = |index: usize| -> Result<Option<Image>, ImageError> {
            if files[index].debug_of.is_some() {
                return Ok(None);
            }
            let debug = attached[index].debug;
            let debug = debug.and_then(|d| contents.get(d as usize));
            let debug = debug.map(Vec::as_slice);
            Image::read(&files[index].path, &contents[index], debug).map(Some)
        };
        let images = (0..files.len()).map(image).collect::<Result<_, _>>()?;
        Ok(Self {
            images,
            contents,
            attached,
        })
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    /// The programs and libraries, with the numbers of their files.
    pub fn images(&self) -> impl Iterator<Item = (u32, &Image)> {
        (0..)
            .zip(&self.images)
            .filter_map(|(n, i)| Some((n, i.as_ref()?)))
    }

    /// A program or library.
    #[must_use]
    pub fn image(&self, file: u32) -> Option<&Image> {
        self.images.get(file as usize)?.as_ref()
    }

    /// The bytes of a file.
    #[must_use]
    pub fn contents(&self, file: u32) -> &[u8] {
        self.contents.get(file as usize).map_or(&[], Vec::as_slice)
    }

    /// The code at `range` in a file; empty if the file does not have all of it.
    #[must_use]
    pub fn code_in(&self, file: u32, range: &Range<ElfAddr>) -> &[u8] {
        let image = self.image(file);
        let offset = image.and_then(|image| image.offset_of(range.start));
        let bytes = offset.and_then(|offset| {
            let bytes = self.contents(file).get(usize::try_from(offset).ok()?..)?;
            bytes.get(..usize::try_from(range.end.0.checked_sub(range.start.0)?).ok()?)
        });
        bytes.unwrap_or_default()
    }

    /// The bytes of the file with a file's debug information, if that is another one.
    #[must_use]
    pub fn debug(&self, file: u32) -> Option<&[u8]> {
        Some(self.contents(self.attached.get(file as usize)?.debug?))
    }

    /// The bytes of the file that several files' debug information shares (`dwz`), if there is one.
    #[must_use]
    pub fn alternate(&self, file: u32) -> Option<&[u8]> {
        let own = self.attached.get(file as usize)?;
        let told = match own.debug {
            Some(debug) => self.attached.get(debug as usize)?,
            None => own,
        };
        Some(self.contents(told.alternate?))
    }

    /// The bytes of the files with split units of a file's debug information.
    #[must_use]
    pub fn split(&self, file: u32) -> Vec<&[u8]> {
        let attached = self.attached.get(file as usize);
        let split = attached.map_or(&[][..], |attached| &attached.split);
        split.iter().map(|split| self.contents(*split)).collect()
    }

    /// The program whose code is at a code address, and the offset in it.
    #[must_use]
    pub fn code(&self, recording: &Recording, pc: GuestAddr) -> Option<CodePlace> {
        let (file, offset) = recording.programs().place(pc)?;
        let address = self.image(file)?.code_at(offset)?;
        Some(CodePlace { file, address })
    }

    /// The function that contains a piece of code.
    #[must_use]
    pub fn function(&self, place: CodePlace) -> Option<&Symbol> {
        self.image(place.file)?.function_at(place.address)
    }

    #[must_use]
    pub fn instruction(&self, place: CodePlace) -> UserInstruction {
        let offset = self
            .image(place.file)
            .and_then(|i| i.offset_of(place.address));
        let bytes = offset.and_then(|o| self.contents(place.file).get(o as usize..));
        decode(bytes.unwrap_or_default(), place.address)
    }
}

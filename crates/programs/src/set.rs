//! All programs of a recording.

use linemate_recording::{Error as RecordingError, GuestAddr, Recording};
use thiserror::Error;

use crate::image::{ElfAddr, Image, ImageError, Symbol};
use crate::operand::{UserInstruction, decode};

/// Why programs cannot be read.
#[derive(Debug, Error)]
pub enum ProgramsError {
    /// The recording.
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
    /// Where in it.
    pub address: ElfAddr,
}

/// The programs of a recording.
#[derive(Debug, Default)]
pub struct Programs {
    /// By the number of the file; none where a file only has debug information.
    images: Vec<Option<Image>>,
    /// What each file holds.
    contents: Vec<Vec<u8>>,
    /// Each file's debug information, if it is in a file of its own.
    debug: Vec<Option<u32>>,
}

impl Programs {
    /// Reads all of a recording's; none if it has none.
    ///
    /// # Errors
    /// A damaged chunk, or a file that is no program.
    pub fn of(recording: &Recording) -> Result<Self, ProgramsError> {
        let files = recording.programs().files();
        let contents = recording.program_files()?;
        let mut debug = vec![None; files.len()];
        for (file, index) in files.iter().zip(0..) {
            if let Some(slot) = file.debug_of.and_then(|of| debug.get_mut(of as usize)) {
                *slot = Some(index);
            }
        }
        let image = |index: usize| -> Result<Option<Image>, ImageError> {
            if files[index].debug_of.is_some() {
                return Ok(None);
            }
            let debug = debug[index].and_then(|d: u32| contents.get(d as usize));
            let debug = debug.map(Vec::as_slice);
            Image::read(&files[index].path, &contents[index], debug).map(Some)
        };
        let images = (0..files.len()).map(image).collect::<Result<_, _>>()?;
        Ok(Self {
            images,
            contents,
            debug,
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

    /// The bytes of the file with a file's debug information, if that is another one.
    #[must_use]
    pub fn debug(&self, file: u32) -> Option<&[u8]> {
        let debug = (*self.debug.get(file as usize)?)?;
        Some(self.contents(debug))
    }

    /// The bytes of the file that several files' debug information has in common (`dwz`), if the debug information has one.
    #[must_use]
    pub fn alternate(&self, file: u32) -> Option<&[u8]> {
        let debug = (*self.debug.get(file as usize)?)?;
        let alternate = (*self.debug.get(debug as usize)?)?;
        Some(self.contents(alternate))
    }

    /// Which program's code is at a code address, and where in it.
    #[must_use]
    pub fn code(&self, recording: &Recording, pc: GuestAddr) -> Option<CodePlace> {
        let (file, offset) = recording.programs().place(pc)?;
        let address = self.image(file)?.code_at(offset)?;
        Some(CodePlace { file, address })
    }

    /// The function that holds a piece of code.
    #[must_use]
    pub fn function(&self, place: CodePlace) -> Option<&Symbol> {
        self.image(place.file)?.function_at(place.address)
    }

    /// The instruction there.
    #[must_use]
    pub fn instruction(&self, place: CodePlace) -> UserInstruction {
        let offset = self
            .image(place.file)
            .and_then(|i| i.offset_of(place.address));
        let bytes = offset.and_then(|o| self.contents(place.file).get(o as usize..));
        decode(bytes.unwrap_or_default(), place.address)
    }
}

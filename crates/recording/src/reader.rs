//! Opens recordings and delivers their contents.

mod source;
mod whole;

use std::path::Path;

use linemate_units::GuestAddr;

use crate::decode::{Collect, Decoder, Visitor};
use crate::encode::Columns;
use crate::error::io_error;
use crate::format::{
    CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind, FileHeader, MAX_FILE_HEADER_BYTES, Version,
    parse_file_header,
};
use crate::payload::{self, End, FILE_HEADER_BYTES, IMAGE_HEADER_BYTES, IMAGE_PIECE_BYTES};
use crate::summary::{ChunkSummary, SUMMARY_BYTES};
use crate::{
    Description, Error, Event, FunctionTable, Metadata, Moment, Problem, ProgramFiles, TimeGrid,
    Totals,
};

pub use source::Source;

/// Why a recording has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It stops after a complete chunk: the writer was stopped, or is still writing.
    NoEnd,
    /// It stops inside a chunk.
    Inside {
        /// Where that chunk starts.
        offset: u64,
    },
    /// The bytes at this place are not a chunk.
    NoChunk { offset: u64 },
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoEnd => write!(f, "truncated: it has no end"),
            Self::Inside { offset } => write!(f, "truncated inside the chunk at byte {offset}"),
            Self::NoChunk { offset } => write!(f, "truncated: no chunk at byte {offset}"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkRef {
    pub(crate) header: ChunkHeader,
    /// Its number in the file, counted (the header's should be equal).
    pub(crate) number: u32,
    /// Where its header starts.
    pub(crate) offset: u64,
}

impl ChunkRef {
    pub(crate) fn malformed(&self, problem: Problem) -> Error {
        let (chunk, kind, offset) = (self.number, self.header.kind, self.offset);
        Error::Malformed {
            chunk,
            kind,
            offset,
            problem,
        }
    }
}

/// The chunks of a file, unread.
pub(crate) struct Frame {
    source: Box<dyn Source>,
    version: Version,
    tool: String,
    chunks: Vec<ChunkRef>,
    /// Bytes of header and complete chunks.
    whole: u64,
    length: u64,
    cut: Option<Cut>,
}

impl Frame {
    /// Reads the headers up to the END chunk, or to where the file is truncated.
    pub(crate) fn scan(source: Box<dyn Source>) -> Result<Self, Error> {
        let read = io_error("read the recording");
        let length = source.length().map_err(&read)?;
        let mut head =
            vec![0; MAX_FILE_HEADER_BYTES.min(usize::try_from(length).unwrap_or(usize::MAX))];
        source.read_at(0, &mut head).map_err(&read)?;
        let FileHeader {
            version,
            tool,
            length: start,
        } = parse_file_header(&head)?;
        let mut frame = Self {
            source,
            version,
            tool,
            chunks: Vec::new(),
            whole: start.min(length),
            length,
            cut: None,
        };
        // Headers only: opening costs a read per chunk, whatever the chunks hold. Checksums are
        // compared when a chunk is used.
        frame.cut = loop {
            let offset = frame.whole;
            if offset == length {
                break Some(Cut::NoEnd);
            }
            let left = length - offset;
            if left < CHUNK_HEADER_BYTES {
                break Some(Cut::Inside { offset });
            }
            let mut bytes = [0; CHUNK_HEADER_BYTES as usize];
            frame.source.read_at(offset, &mut bytes).map_err(&read)?;
            let Some(header) = ChunkHeader::from_bytes(&bytes) else {
                break Some(Cut::NoChunk { offset });
            };
            let size = CHUNK_HEADER_BYTES + u64::from(header.stored);
            if size > left {
                break Some(Cut::Inside { offset });
            }
            let number = frame.chunks.len() as u32;
            frame.chunks.push(ChunkRef {
                header,
                number,
                offset,
            });
            frame.whole += size;
            // Anything after the end is not part of the recording; `verify` reports it.
            if header.kind == ChunkKind::End {
                break None;
            }
        };
        Ok(frame)
    }

    pub(crate) fn chunks(&self) -> &[ChunkRef] {
        &self.chunks
    }

    pub(crate) fn of(&self, kind: ChunkKind) -> impl Iterator<Item = &ChunkRef> {
        self.chunks
            .iter()
            .filter(move |chunk| chunk.header.kind == kind)
    }

    pub(crate) fn whole(&self) -> u64 {
        self.whole
    }

    /// Bytes after the END chunk.
    pub(crate) fn trailing(&self) -> u64 {
        if self.cut.is_some() {
            0
        } else {
            self.length - self.whole
        }
    }

    pub(crate) fn cut(&self) -> Option<Cut> {
        self.cut
    }

    /// The payload as in the file, its checksum checked.
    fn stored(&self, chunk: &ChunkRef) -> Result<Vec<u8>, Error> {
        let mut payload = vec![0; chunk.header.stored as usize];
        self.source
            .read_at(chunk.offset + CHUNK_HEADER_BYTES, &mut payload)
            .map_err(io_error("read the recording"))?;
        let found = chunk.header.checksum_of(&payload);
        if found != chunk.header.checksum {
            return Err(Error::Checksum {
                chunk: chunk.number,
                kind: chunk.header.kind,
                offset: chunk.offset,
                expected: chunk.header.checksum,
                found,
            });
        }
        // The checksum covers the number: a sound chunk out of place was moved, or one before it is
        // missing.
        if chunk.header.number != chunk.number {
            let problem = Problem::Order {
                what: "chunk",
                value: chunk.header.number.into(),
            };
            return Err(chunk.malformed(problem));
        }
        Ok(payload)
    }

    /// The payload of a chunk without events.
    pub(crate) fn payload(&self, chunk: &ChunkRef) -> Result<Vec<u8>, Error> {
        let stored = self.stored(chunk)?;
        let raw = chunk.header.raw as usize;
        if chunk.header.compressed {
            return payload::decompress(&stored, raw, "the payload")
                .map_err(|problem| chunk.malformed(problem));
        }
        if stored.len() != raw {
            let (stored, found) = (raw as u64, stored.len() as u64);
            return Err(chunk.malformed(Problem::Count {
                what: "bytes",
                stored,
                found,
            }));
        }
        Ok(stored)
    }

    /// The summary of a chunk of events, without reading the rest: its checksum is not checked.
    pub(crate) fn summary(&self, chunk: &ChunkRef) -> Result<ChunkSummary, Error> {
        // A chunk that is too short is refused as a truncated summary.
        let mut bytes = vec![0; SUMMARY_BYTES.min(chunk.header.stored as usize)];
        self.source
            .read_at(chunk.offset + CHUNK_HEADER_BYTES, &mut bytes)
            .map_err(io_error("read the recording"))?;
        ChunkSummary::read(&bytes).map_err(|problem| chunk.malformed(problem))
    }

    pub(crate) fn instructions(
        &self,
        chunk: &ChunkRef,
        all: &mut Vec<GuestAddr>,
    ) -> Result<(), Error> {
        payload::read_instructions(&self.payload(chunk)?, all)
            .map_err(|problem| chunk.malformed(problem))
    }

    pub(crate) fn events(&self, chunk: &ChunkRef) -> Result<(Columns, ChunkSummary), Error> {
        payload::read_events(&self.stored(chunk)?, chunk.header.raw)
            .map_err(|problem| chunk.malformed(problem))
    }

    pub(crate) fn run(
        &self,
        chunk: &ChunkRef,
        columns: &Columns,
        summary: &ChunkSummary,
        instructions: &[GuestAddr],
        decoder: &mut Decoder,
        visitor: &mut impl Visitor,
    ) -> Result<(), Error> {
        decoder
            .run(columns, summary, instructions, visitor)
            .map_err(|problem| chunk.malformed(problem))
    }

    pub(crate) fn end(&self, chunk: &ChunkRef) -> Result<End, Error> {
        End::read(&self.payload(chunk)?).map_err(|problem| chunk.malformed(problem))
    }

    pub(crate) fn metadata(&self, chunk: &ChunkRef) -> Result<Metadata, Error> {
        payload::read_metadata(&self.payload(chunk)?).map_err(|problem| chunk.malformed(problem))
    }

    pub(crate) fn description(
        &self,
        chunk: &ChunkRef,
        metadata: &Metadata,
    ) -> Result<Description, Error> {
        Description::read(metadata).map_err(|problem| chunk.malformed(problem))
    }

    /// Checks the sizes of the memory images against the format and the guest's memory, by the
    /// chunks' headers: nothing is unpacked.
    ///
    /// # Errors
    /// The first chunk that is too large, alone or with those before it.
    pub(crate) fn bounded_images(&self, description: &Description) -> Result<(), Error> {
        let limit = description.image_bytes_max();
        let mut sum = 0;
        for chunk in self.of(ChunkKind::Image) {
            let length = u64::from(chunk.header.raw);
            sum += length;
            let piece = (IMAGE_HEADER_BYTES + IMAGE_PIECE_BYTES) as u64;
            for (what, value, limit) in [
                ("the length of a memory image", length, piece),
                ("the sum of all memory images", sum, limit),
            ] {
                if value > limit {
                    return Err(chunk.malformed(Problem::TooLarge { what, value, limit }));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn functions(&self, chunk: &ChunkRef) -> Result<FunctionTable, Error> {
        payload::read_functions(&self.payload(chunk)?).map_err(|problem| chunk.malformed(problem))
    }

    pub(crate) fn programs(&self, chunk: &ChunkRef) -> Result<ProgramFiles, Error> {
        ProgramFiles::read(&self.payload(chunk)?).map_err(|problem| chunk.malformed(problem))
    }

    /// The piece of a program's file in this chunk: its file, and a payload in which the piece
    /// follows the header.
    pub(crate) fn file_piece(&self, chunk: &ChunkRef) -> Result<(u32, Vec<u8>), Error> {
        let value = u64::from(chunk.header.raw);
        let limit = (FILE_HEADER_BYTES + IMAGE_PIECE_BYTES) as u64;
        if value > limit {
            let what = "the length of a piece of a program";
            return Err(chunk.malformed(Problem::TooLarge { what, value, limit }));
        }
        let payload = self.payload(chunk)?;
        let file = payload::read_file_header(&payload).map_err(|p| chunk.malformed(p))?;
        Ok((file, payload))
    }

    pub(crate) fn image_info(&self, chunk: &ChunkRef, payload: &[u8]) -> Result<ImageInfo, Error> {
        let (moment, addr) =
            payload::read_image_header(payload).map_err(|problem| chunk.malformed(problem))?;
        // By the header, which `payload` has compared with the unpacked size.
        let length = u64::from(chunk.header.raw).saturating_sub(IMAGE_HEADER_BYTES as u64);
        Ok(ImageInfo {
            moment,
            addr,
            length,
        })
    }
}

/// A chunk of events, not yet read.
#[derive(Clone, Copy, Debug)]
pub struct EventChunk {
    at: ChunkRef,
    /// Its contents according to itself (checked when the chunk is decoded).
    pub summary: ChunkSummary,
}

/// A piece of the guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageInfo {
    /// When it was taken.
    pub moment: Moment,
    pub addr: GuestAddr,
    /// Its length in bytes.
    pub length: u64,
}

/// An opened recording. All methods take `&self`: several threads can read chunks at once.
pub struct Recording {
    frame: Frame,
    metadata: Metadata,
    description: Description,
    functions: FunctionTable,
    programs: ProgramFiles,
    instructions: Vec<GuestAddr>,
    events: Vec<EventChunk>,
    end: Option<End>,
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording")
            .field("metadata", &self.metadata)
            .field("totals", &self.totals())
            .field("cut", &self.cut())
            .finish_non_exhaustive()
    }
}

impl Recording {
    /// Opens the file at `path`, which must be a regular one.
    ///
    /// # Errors
    /// As [`Recording::from_source`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = linemate_files::open_file(path).map_err(io_error("open the recording"))?;
        Self::from_source(file)
    }

    /// Reads the head of a recording, the addresses of its instructions and the positions of its
    /// chunks. A truncated recording is opened up to its last complete chunk (see
    /// [`Recording::cut`]).
    ///
    /// # Errors
    /// [`Error::NotARecording`], [`Error::NewerVersion`], [`Error::Missing`] if it was cut before
    /// its metadata, [`Error::Checksum`] or [`Error::Malformed`] if what is needed to read it is
    /// damaged, or its images are larger than the described guest can leave.
    pub fn from_source(source: impl Source + 'static) -> Result<Self, Error> {
        let frame = Frame::scan(Box::new(source))?;
        let kind = ChunkKind::Metadata;
        let chunk = frame.of(kind).next().ok_or(Error::Missing { kind })?;
        let metadata = frame.metadata(chunk)?;
        let description = frame.description(chunk, &metadata)?;
        // Before anything large is unpacked; only the metadata say how large the guest may be.
        frame.bounded_images(&description)?;
        let functions = match frame.of(ChunkKind::Functions).next() {
            Some(chunk) => frame.functions(chunk)?,
            None => FunctionTable::default(),
        };
        let programs = match frame.of(ChunkKind::Programs).next() {
            Some(chunk) => frame.programs(chunk)?,
            None => ProgramFiles::default(),
        };
        let mut instructions = Vec::new();
        for chunk in frame.of(ChunkKind::Instructions) {
            frame.instructions(chunk, &mut instructions)?;
        }
        let events = frame
            .of(ChunkKind::Events)
            .map(|at| {
                Ok(EventChunk {
                    at: *at,
                    summary: frame.summary(at)?,
                })
            })
            .collect::<Result<_, Error>>()?;
        let end = match frame.of(ChunkKind::End).next() {
            Some(chunk) => Some(frame.end(chunk)?),
            None => None,
        };
        Ok(Self {
            frame,
            metadata,
            description,
            functions,
            programs,
            instructions,
            events,
            end,
        })
    }

    /// The version of linemate that wrote it.
    pub fn tool(&self) -> &str {
        &self.frame.tool
    }

    pub fn version(&self) -> Version {
        self.frame.version
    }

    /// The checked description of the run.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The description of the run, as text.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The watched functions; empty if none were.
    pub fn functions(&self) -> &FunctionTable {
        &self.functions
    }

    /// The address of every instruction with accesses.
    pub fn instructions(&self) -> &[GuestAddr] {
        &self.instructions
    }

    /// Why there is no end, if there is none.
    pub fn cut(&self) -> Option<Cut> {
        self.frame.cut
    }

    /// The number of events: from the END chunk; for a truncated recording, the sum over its
    /// complete chunks.
    pub fn totals(&self) -> Totals {
        match &self.end {
            Some(end) => end.totals,
            None => self
                .events
                .iter()
                .fold(Totals::default(), |mut sum, chunk| {
                    sum.add(&chunk.summary.totals);
                    sum
                }),
        }
    }

    /// A number that two recordings share only if all their chunks are equal. `None` if it is
    /// truncated.
    pub fn checksum(&self) -> Option<u64> {
        self.end.map(|end| end.checksum)
    }

    /// The kernel's BTF.
    ///
    /// # Errors
    /// [`Error::Missing`], or an error if it is damaged.
    pub fn btf(&self) -> Result<Vec<u8>, Error> {
        self.blob(ChunkKind::Btf)
    }

    /// The kernel's symbols, in the form of `/proc/kallsyms`.
    ///
    /// # Errors
    /// [`Error::Missing`], or an error if they are damaged.
    pub fn symbols(&self) -> Result<Vec<u8>, Error> {
        self.blob(ChunkKind::Symbols)
    }

    fn blob(&self, kind: ChunkKind) -> Result<Vec<u8>, Error> {
        let chunk = self.frame.of(kind).next().ok_or(Error::Missing { kind })?;
        self.frame.payload(chunk)
    }

    /// The files of the recorded programs; none if no programs were recorded.
    pub fn programs(&self) -> &ProgramFiles {
        &self.programs
    }

    /// The contents of the files in [`Recording::programs`], in their order.
    ///
    /// # Errors
    /// A damaged chunk, or a different number of bytes than the list says.
    pub fn program_files(&self) -> Result<Vec<Vec<u8>>, Error> {
        let mut contents = vec![Vec::new(); self.programs.files().len()];
        for chunk in self.frame.of(ChunkKind::File) {
            let (file, payload) = self.frame.file_piece(chunk)?;
            let at = file as usize;
            let file = self.programs.files().get(at).zip(contents.get_mut(at));
            let Some((listed, bytes)) = file else {
                let (what, value) = ("the number of a program", at as u64);
                return Err(chunk.malformed(Problem::Unknown { what, value }));
            };
            bytes.extend_from_slice(payload.get(FILE_HEADER_BYTES..).unwrap_or_default());
            let (stored, found) = (listed.length, bytes.len() as u64);
            // Each time, not only at the end: endless pieces would fill memory first.
            if found > stored {
                let what = "bytes of a program";
                return Err(chunk.malformed(Problem::Count {
                    what,
                    stored,
                    found,
                }));
            }
        }
        let mut all = self.programs.files().iter().zip(&contents);
        // A truncated recording may lack the last pieces.
        let whole = all.all(|(listed, bytes)| bytes.len() as u64 == listed.length);
        let kind = ChunkKind::File;
        whole.then_some(contents).ok_or(Error::Missing { kind })
    }

    /// The memory images with their bytes, in file order. Each is unpacked once, when the iterator
    /// reaches it.
    ///
    /// # Errors
    /// One of them is damaged.
    pub fn images(&self) -> impl Iterator<Item = Result<(ImageInfo, Vec<u8>), Error>> + '_ {
        self.frame.of(ChunkKind::Image).map(|chunk| {
            let mut payload = self.frame.payload(chunk)?;
            let info = self.frame.image_info(chunk, &payload)?;
            payload.drain(..IMAGE_HEADER_BYTES.min(payload.len()));
            Ok((info, payload))
        })
    }

    /// The chunks of events, in file order. Those of one lane are in time order; each can be
    /// decoded alone.
    pub fn chunks(&self) -> &[EventChunk] {
        &self.events
    }

    /// The grid for counts over time.
    #[must_use]
    pub fn time_grid(&self) -> TimeGrid {
        TimeGrid::new(&self.events, self.description.cpus.unwrap_or(1))
    }

    /// Passes the events of a chunk to `visitor`. This is the fast way to read. Reuse `decoder` for
    /// several chunks.
    ///
    /// # Errors
    /// The chunk is damaged; `visitor` may have seen some of its events.
    pub fn visit(
        &self,
        chunk: &EventChunk,
        decoder: &mut Decoder,
        visitor: &mut impl Visitor,
    ) -> Result<(), Error> {
        let (columns, summary) = self.frame.events(&chunk.at)?;
        let at = &chunk.at;
        self.frame
            .run(at, &columns, &summary, &self.instructions, decoder, visitor)
    }

    /// All events, in file order. Holds one chunk in memory.
    pub fn events(&self) -> Events<'_> {
        Events {
            recording: self,
            chunks: self.events.iter(),
            current: None,
            decoder: Decoder::new(),
            batch: Vec::new().into_iter(),
            error: None,
            ended: false,
        }
    }
}

/// Events that [`Events`] decodes at a time: starting and stopping the decoder costs as much as
/// ten.
const BATCH: usize = 512;

/// Iterator over the events of a recording. Ends after the first error.
#[derive(Debug)]
pub struct Events<'r> {
    recording: &'r Recording,
    chunks: std::slice::Iter<'r, EventChunk>,
    current: Option<(&'r EventChunk, Columns, ChunkSummary)>,
    decoder: Decoder,
    batch: std::vec::IntoIter<Event>,
    error: Option<Error>,
    ended: bool,
}

impl Events<'_> {
    /// Decodes a batch of the current chunk, or opens the next one.
    fn refill(&mut self) -> Result<(), Error> {
        let Some((chunk, columns, summary)) = &self.current else {
            match self.chunks.next() {
                Some(chunk) => {
                    let (columns, summary) = self.recording.frame.events(&chunk.at)?;
                    self.current = Some((chunk, columns, summary));
                    self.decoder.start();
                }
                None => self.ended = true,
            }
            return Ok(());
        };
        let mut batch = Collect(Vec::with_capacity(BATCH));
        let mut steps = self.decoder.resume(columns, &self.recording.instructions);
        let decoded = loop {
            match steps.next(&mut batch) {
                // A switch of CPUs is a step without an event.
                Ok(true) if batch.0.len() < BATCH => {}
                Ok(true) => {
                    steps.pause();
                    break Ok(());
                }
                Ok(false) => {
                    let finished = steps.finish(summary);
                    break finished
                        .map_err(|problem| chunk.at.malformed(problem))
                        .inspect(|()| {
                            self.current = None;
                        });
                }
                Err(problem) => break Err(chunk.at.malformed(problem)),
            }
        };
        // Also with an error: events decoded before it are delivered first.
        self.batch = batch.0.into_iter();
        decoded
    }
}

impl Iterator for Events<'_> {
    type Item = Result<Event, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.batch.next() {
                return Some(Ok(event));
            }
            if self.ended {
                return self.error.take().map(Err);
            }
            if let Err(error) = self.refill() {
                self.error = Some(error);
                self.ended = true;
            }
        }
    }
}

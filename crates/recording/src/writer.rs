//! Appends chunks to a file. Several processes may do so in turn: each opens it with
//! [`Writer::append`].

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use linemate_units::GuestAddr;

use crate::encode::RawChunk;
use crate::error::io_error;
use crate::format::{
    CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind, MAX_INSTRUCTIONS, RunningChecksum, file_header,
};
use crate::payload::{self, End, IMAGE_PIECE_BYTES, check_length};
use crate::reader::Frame;
use crate::{Error, FunctionTable, Metadata, Moment, Problem, ProgramFiles, Totals};

/// Where a recording is written to: a file, or memory.
pub trait Sink: Write + Send {
    /// Drops everything after the first `length` bytes, and continues writing there.
    ///
    /// # Errors
    /// Any error of the operating system.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
}

impl Sink for File {
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)?;
        self.seek(SeekFrom::Start(length)).map(drop)
    }
}

/// Appends chunks to a recording.
pub struct Writer {
    sink: Box<dyn Sink>,
    /// Bytes of complete chunks.
    length: u64,
    number: u32,
    checksum: RunningChecksum,
    totals: Totals,
    instructions: u32,
    compressor: zstd::bulk::Compressor<'static>,
    payload: Vec<u8>,
    scratch: Vec<u8>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("length", &self.length)
            .field("chunks", &self.number)
            .field("totals", &self.totals)
            .finish_non_exhaustive()
    }
}

impl Writer {
    /// Creates (or overwrites) a recording with its header and its METADATA chunk. `tool` is the
    /// version of linemate.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be written, [`Error::Unwritable`] if the metadata are too
    /// large.
    pub fn create(path: &Path, tool: &str, metadata: &Metadata) -> Result<Self, Error> {
        let file = File::create(path).map_err(io_error("create the recording"))?;
        Self::create_in(Box::new(file), tool, metadata)
    }

    /// As [`Writer::create`], in an empty `sink`.
    ///
    /// # Errors
    /// As [`Writer::create`].
    pub fn create_in(sink: Box<dyn Sink>, tool: &str, metadata: &Metadata) -> Result<Self, Error> {
        let mut writer = Self::new(sink)?;
        let header = file_header(tool)?;
        writer
            .sink
            .write_all(&header)
            .map_err(io_error("write the recording"))?;
        writer.length = header.len() as u64;
        writer.chunk(ChunkKind::Metadata, payload::metadata_payload(metadata))?;
        Ok(writer)
    }

    fn new(sink: Box<dyn Sink>) -> Result<Self, Error> {
        Ok(Self {
            sink,
            length: 0,
            number: 0,
            checksum: RunningChecksum::default(),
            totals: Totals::default(),
            instructions: 0,
            compressor: payload::compressor().map_err(io_error("start the compressor"))?,
            payload: Vec::new(),
            scratch: Vec::new(),
        })
    }

    /// Opens an unfinished recording to append to it. Bytes after its last complete chunk are
    /// dropped.
    ///
    /// # Errors
    /// [`Error::Finished`] if it has its END chunk, or anything that makes it unreadable.
    pub fn append(path: &Path) -> Result<Self, Error> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(io_error("open the recording"))?;
        Self::append_to(file)
    }

    /// As [`Writer::append`], to a file that is open for reading and writing.
    ///
    /// # Errors
    /// As [`Writer::append`].
    pub fn append_to(file: File) -> Result<Self, Error> {
        // A clone shares the file's position. The frame reads at explicit offsets and moves
        // nothing; `truncate` sets it.
        let frame = Frame::scan(Box::new(
            file.try_clone().map_err(io_error("open the recording"))?,
        ))?;
        let mut writer = Self::new(Box::new(file))?;
        writer.length = frame.whole();
        // What the previous process knew is learned from the file: processes append in turn and
        // share nothing else.
        for chunk in frame.chunks() {
            writer.number += 1;
            writer.checksum.add(chunk.header.checksum);
            match chunk.header.kind {
                ChunkKind::End => return Err(Error::Finished),
                ChunkKind::Events => writer.totals.add(&frame.summary(chunk)?.totals),
                ChunkKind::Instructions => {
                    // Only the number: a chunk starts with the number that comes next, which is
                    // checked against this list's length.
                    let mut known = vec![GuestAddr(0); writer.instructions as usize];
                    frame.instructions(chunk, &mut known)?;
                    writer.instructions = known.len() as u32;
                }
                _ => {}
            }
        }
        writer
            .sink
            .truncate(writer.length)
            .map_err(io_error("shorten the recording"))?;
        Ok(writer)
    }

    /// Appends the kernel's BTF.
    ///
    /// # Errors
    /// [`Error::Io`], or [`Error::Unwritable`] if it is too large for a chunk.
    pub fn btf(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.chunk(ChunkKind::Btf, bytes.to_vec())
    }

    /// Appends the kernel's symbols, in the form of `/proc/kallsyms`.
    ///
    /// # Errors
    /// [`Error::Io`], or [`Error::Unwritable`] if they are too large for a chunk.
    pub fn symbols(&mut self, text: &[u8]) -> Result<(), Error> {
        self.chunk(ChunkKind::Symbols, text.to_vec())
    }

    /// Appends the function table.
    ///
    /// # Errors
    /// [`Error::Io`], or [`Error::Unwritable`] if the table breaks its own rules (sorted, at most
    /// six parameters).
    pub fn functions(&mut self, table: &FunctionTable) -> Result<(), Error> {
        let payload =
            payload::functions_payload(table).map_err(|problem| Error::Unwritable { problem })?;
        self.chunk(ChunkKind::Functions, payload)
    }

    /// Appends the programs' files: what they are, and what each holds.
    ///
    /// # Errors
    /// [`Error::Io`], or [`Error::Unwritable`] if the list is too large for a chunk or a file has
    /// another length than the list says.
    pub fn programs(&mut self, files: &ProgramFiles, contents: &[&[u8]]) -> Result<(), Error> {
        for (file, bytes) in files.files().iter().zip(contents) {
            let (stored, found) = (file.length, bytes.len() as u64);
            if stored != found {
                let what = "bytes of a program";
                let problem = Problem::Count {
                    what,
                    stored,
                    found,
                };
                return Err(Error::Unwritable { problem });
            }
        }
        // The list first: a piece refers to a file by its number in it.
        self.chunk(ChunkKind::Programs, files.payload())?;
        for (bytes, file) in contents.iter().zip(0..) {
            for piece in bytes.chunks(IMAGE_PIECE_BYTES) {
                self.chunk(ChunkKind::File, payload::file_payload(file, piece))?;
            }
        }
        Ok(())
    }

    /// Appends the addresses of the next instructions: the first call defines instruction 0 and up.
    /// An instruction must be defined before events that use it are appended.
    ///
    /// # Errors
    /// [`Error::Io`], or [`Error::Unwritable`] if there are more than
    /// [`crate::format::MAX_INSTRUCTIONS`].
    pub fn instructions(&mut self, addresses: &[GuestAddr]) -> Result<(), Error> {
        if addresses.is_empty() {
            return Ok(());
        }
        let sum = self.instructions as usize + addresses.len();
        let limit = u64::from(MAX_INSTRUCTIONS);
        if sum as u64 > limit {
            let problem = Problem::TooLarge {
                what: "the number of instructions",
                value: sum as u64,
                limit,
            };
            return Err(Error::Unwritable { problem });
        }
        let payload = payload::instructions_payload(self.instructions, addresses);
        self.chunk(ChunkKind::Instructions, payload)?;
        self.instructions = sum as u32;
        Ok(())
    }

    /// Appends a chunk of events. An empty one is skipped.
    ///
    /// # Errors
    /// [`Error::Io`], or [`Error::Unwritable`] if it is too large, or uses instructions that were
    /// not announced.
    pub fn events(&mut self, chunk: &RawChunk) -> Result<(), Error> {
        if chunk.events() == 0 {
            return Ok(());
        }
        let summary = &chunk.summary;
        // Refused here rather than by a reader: each process appends on its own, and a wrong order
        // would only show when the run is over.
        if summary.instructions > self.instructions {
            let problem = Problem::TooLarge {
                what: "the number of used instructions",
                value: summary.instructions.into(),
                limit: self.instructions.into(),
            };
            return Err(Error::Unwritable { problem });
        }
        let raw = check_length("the length of a chunk of events", chunk.raw_bytes())
            .map_err(|problem| Error::Unwritable { problem })?;
        // Taken out and put back, because `put` needs the writer; its memory serves the next chunk.
        let mut payload = std::mem::take(&mut self.payload);
        let written = payload::events_payload(
            &mut self.compressor,
            &chunk.columns,
            summary,
            &mut self.scratch,
            &mut payload,
        )
        .map_err(io_error("compress events"))
        .and_then(|()| self.put(ChunkKind::Events, &payload, raw, false));
        self.payload = payload;
        written?;
        self.totals.add(&summary.totals);
        Ok(())
    }

    /// Appends a piece of the guest's memory, in as many chunks as it needs.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn image(&mut self, moment: Moment, addr: GuestAddr, bytes: &[u8]) -> Result<(), Error> {
        for (i, piece) in bytes.chunks(IMAGE_PIECE_BYTES).enumerate() {
            let addr = GuestAddr(addr.0.wrapping_add((i * IMAGE_PIECE_BYTES) as u64));
            self.chunk(
                ChunkKind::Image,
                payload::image_payload(moment, addr, piece),
            )?;
        }
        Ok(())
    }

    /// Appends the END chunk and closes the file.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn finish(mut self) -> Result<Totals, Error> {
        let end = End {
            totals: self.totals,
            chunks: self.number,
            checksum: self.checksum.value(),
        };
        self.chunk(ChunkKind::End, end.write())?;
        self.sink.flush().map_err(io_error("write the recording"))?;
        Ok(self.totals)
    }

    /// Events so far, including those that other processes appended.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Bytes written so far, from the start of the file.
    pub fn bytes(&self) -> u64 {
        self.length
    }

    fn chunk(&mut self, kind: ChunkKind, raw: Vec<u8>) -> Result<(), Error> {
        let length = check_length("the length of a chunk", raw.len())
            .map_err(|problem| Error::Unwritable { problem })?;
        let (stored, compressed) = payload::compress(raw);
        self.put(kind, &stored, length, compressed)
    }

    /// Appends a whole chunk, or nothing: after an error the file ends where it ended before.
    fn put(
        &mut self,
        kind: ChunkKind,
        stored: &[u8],
        raw: u32,
        compressed: bool,
    ) -> Result<(), Error> {
        let length = check_length("the length of a stored chunk", stored.len())
            .map_err(|problem| Error::Unwritable { problem })?;
        let mut header = ChunkHeader {
            kind,
            number: self.number,
            stored: length,
            raw,
            compressed,
            checksum: 0,
        };
        header.checksum = header.checksum_of(stored);
        let written = self
            .sink
            .write_all(&header.to_bytes())
            .and_then(|()| self.sink.write_all(stored));
        if let Err(source) = written {
            // If truncating fails as well, the reader finds the chunk incomplete and stops before
            // it.
            let _ = self.sink.truncate(self.length);
            return Err(Error::Io {
                doing: "write the recording",
                source,
            });
        }
        self.number += 1;
        self.length += CHUNK_HEADER_BYTES + u64::from(length);
        self.checksum.add(header.checksum);
        Ok(())
    }
}

//! Checks a recording against its invariants, chunk by chunk, without trusting any of it.
//!
//! What it does not check: whether the events are those of the guest (the recorder's self-test does
//! that).

use std::collections::BTreeSet;
use std::fmt;

use linemate_units::{CpuId, GuestAddr};

use crate::decode::Decoder;
use crate::events_check::EventsCheck;
use crate::format::{ChunkKind, RunningChecksum};
use crate::payload::{FILE_HEADER_BYTES, IMAGE_HEADER_BYTES, IMAGE_PIECE_BYTES};
use crate::reader::{ChunkRef, Cut, Frame, Source};
use crate::{Error, FunctionId, FunctionTable, LaneId, Moment, Problem, Totals, VirtualTime};

/// The maximum number of findings in a [`VerifyReport`]; further ones are only counted.
pub const MAX_FINDINGS: usize = 1000;

/// Something that is wrong with a recording.
#[derive(Debug, thiserror::Error)]
pub enum Finding {
    /// It has no end.
    #[error("{cut}; {chunks} whole chunks with {accesses} accesses are readable")]
    Cut {
        cut: Cut,
        /// Complete chunks read so far.
        chunks: usize,
        accesses: u64,
    },
    /// Bytes after the end.
    #[error("{bytes} bytes follow the end")]
    Trailing { bytes: u64 },
    /// The header or a chunk is damaged.
    #[error("{0}")]
    Damaged(Error),
    /// A second chunk of a kind that occurs at most once.
    #[error("chunk {chunk} is a second {kind} chunk")]
    Repeated { chunk: u32, kind: ChunkKind },
    /// A chunk that every recording has is missing, or not in its place.
    #[error("the first chunk is not {kind}")]
    NotFirst {
        /// The kind it should have.
        kind: ChunkKind,
    },
    /// A chunk says that its events use instructions that no earlier chunk defines.
    #[error("chunk {chunk} uses {used} instructions, but only {known} are known before it")]
    UnknownInstructions {
        chunk: u32,
        /// The number it uses.
        used: u32,
        /// The number defined.
        known: usize,
    },
    /// The END chunk disagrees with what was read.
    #[error("the end counts {promised} {what}, the file has {found}")]
    Totals {
        what: &'static str,
        /// According to the END chunk.
        promised: u64,
        found: u64,
    },
    /// Time runs backwards on a CPU, or in the only lane.
    #[error("chunk {chunk}: time goes back from {before} to {time} on CPU {cpu}")]
    TimeBackwards {
        chunk: u32,
        cpu: CpuId,
        before: u64,
        time: u64,
    },
    /// A CPU has events in two lanes.
    #[error("CPU {cpu} is in lane {} and in lane {}", first.0, second.0)]
    TwoLanes {
        cpu: CpuId,
        /// Where it was first.
        first: LaneId,
        /// The lane it also appears in.
        second: LaneId,
    },
    /// A call or return of a function that the table does not have.
    #[error("time {}: function {} is not in the table of {known}", time.0, function.0)]
    UnknownFunction {
        time: VirtualTime,
        function: FunctionId,
        /// Functions in the table.
        known: usize,
    },
    /// A return of a function whose returns are not recorded.
    #[error("time {}: a return of {name}, which the table does not ask for", time.0)]
    UnwantedReturn { time: VirtualTime, name: String },
    /// A call has a value for a parameter that the table does not list.
    #[error("time {}: a call of {name} has {values} values, the table lists {listed}", time.0)]
    UnlistedValue {
        time: VirtualTime,
        name: String,
        /// The number of parameters with values.
        values: usize,
        /// Parameters in the table.
        listed: usize,
    },
    /// A return that no call matches, although calls with its stack pointer were recorded.
    #[error("time {}: return of {name} with stack pointer {stack} has no call", time.0)]
    ReturnWithoutCall {
        time: VirtualTime,
        name: String,
        stack: GuestAddr,
    },
    /// An object is freed twice by the same function and was not allocated in between.
    #[error("time {}: {name} frees {object} a second time", time.0)]
    DoubleFree {
        time: VirtualTime,
        name: String,
        object: GuestAddr,
    },
    /// A new object overlaps a live one.
    #[error("time {}: new object {object} of {size} bytes overlaps the live one at {live} of {live_size} bytes", time.0)]
    Overlap {
        time: VirtualTime,
        object: GuestAddr,
        /// Its size in bytes.
        size: u64,
        live: GuestAddr,
        /// Its size in bytes.
        live_size: u64,
    },
    /// An instruction is recorded both as an atomic one and as a plain store.
    #[error("instruction {pc} makes both RMWs and plain stores (time {})", time.0)]
    RmwAndStore {
        /// When it was first seen.
        time: VirtualTime,
        pc: GuestAddr,
    },
    /// An event before the start marker or after the stop marker.
    #[error("time {}: an event {}", time.0, if *early { "before the start" } else { "after the stop" })]
    OutsideOfRecording {
        time: VirtualTime,
        /// Before the start, else after the stop.
        early: bool,
    },
    /// The recording has an end and a start marker, but no stop marker.
    #[error("recording started at {} and was never stopped", start.0)]
    NeverStopped { start: VirtualTime },
    /// Memory images of one moment overlap and differ there.
    #[error("chunk {chunk}: the {moment:?} image at {addr} differs from one that it overlaps")]
    ImagesDiffer {
        chunk: u32,
        /// When it was taken.
        moment: Moment,
        addr: GuestAddr,
    },
}

/// The result of checking a recording.
#[derive(Debug, Default)]
pub struct VerifyReport {
    /// The findings, in file order; at most [`MAX_FINDINGS`].
    pub findings: Vec<Finding>,
    /// How many more there are.
    pub more: u64,
    /// How many whole chunks the file has.
    pub chunks: usize,
    /// Events that could be read.
    pub totals: Totals,
    /// The checksum over all chunks but the end, as read.
    pub checksum: u64,
}

impl VerifyReport {
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    pub(crate) fn add(&mut self, finding: Finding) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding);
        } else {
            self.more += 1;
        }
    }
}

impl fmt::Display for VerifyReport {
    /// One line for each finding.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        if self.more > 0 {
            writeln!(f, "{} more findings", self.more)?;
        }
        Ok(())
    }
}

/// Reads a whole recording and checks: the header's checksum, chunks (order, numbers, checksums,
/// totals of the end), time (never backwards on a CPU, and in a recording of one lane never at
/// all), functions (in the table, values as listed, returns with calls), heap objects (no double
/// free, no overlap of live ones of known size), RMW instructions, markers, images.
///
/// # Errors
/// Only if it cannot be read at all: not a recording, a newer one, an error of the file system.
pub fn verify(source: impl Source + 'static) -> Result<VerifyReport, Error> {
    let frame = match Frame::scan(Box::new(source)) {
        Err(error @ Error::HeaderChecksum { .. }) => {
            // The position of the first chunk is unknown.
            let mut report = VerifyReport::default();
            report.add(Finding::Damaged(error));
            return Ok(report);
        }
        scanned => scanned?,
    };
    // The number of lanes decides how time may move, from the first event on.
    let lanes: Result<BTreeSet<u32>, Error> = frame
        .of(ChunkKind::Events)
        .map(|chunk| Ok(frame.summary(chunk)?.lane.0))
        .collect();
    // A damaged summary is found again when its chunk is read.
    let one_lane = lanes.is_ok_and(|lanes| lanes.len() <= 1);
    let mut pass = Pass {
        frame: &frame,
        report: VerifyReport {
            chunks: frame.chunks().len(),
            ..VerifyReport::default()
        },
        checksum: RunningChecksum::default(),
        seen: BTreeSet::new(),
        functions: FunctionTable::default(),
        instructions: Vec::new(),
        events: EventsCheck::new(one_lane),
        decoder: Decoder::new(),
        images: Vec::new(),
        programs: Vec::new(),
    };
    pass.frame_findings();
    for chunk in frame.chunks() {
        pass.chunk(chunk)?;
    }
    pass.close()
}

/// The state of a verification.
struct Pass<'f> {
    frame: &'f Frame,
    report: VerifyReport,
    checksum: RunningChecksum,
    seen: BTreeSet<ChunkKind>,
    functions: FunctionTable,
    instructions: Vec<GuestAddr>,
    events: EventsCheck,
    decoder: Decoder,
    images: Vec<ImagePlace>,
    /// By program file: the listed number of bytes, and the number found.
    programs: Vec<(u64, u64)>,
}

/// An image's address range, and its chunk. Ordered by moment, then by address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ImagePlace {
    moment: Moment,
    start: u64,
    end: u64,
    chunk: u32,
}

impl Pass<'_> {
    fn frame_findings(&mut self) {
        // Readers need the metadata before anything else: they bound the images.
        if self
            .frame
            .chunks()
            .first()
            .is_none_or(|c| c.header.kind != ChunkKind::Metadata)
        {
            self.report.add(Finding::NotFirst {
                kind: ChunkKind::Metadata,
            });
        }
        if self.frame.trailing() > 0 {
            self.report.add(Finding::Trailing {
                bytes: self.frame.trailing(),
            });
        }
    }

    /// Checks a chunk. Damage is a finding; only an error of the file system is an error.
    fn chunk(&mut self, chunk: &ChunkRef) -> Result<(), Error> {
        let kind = chunk.header.kind;
        // Metadata, types, symbols, tables and the end describe the whole: of two, readers take the
        // first.
        let many = matches!(
            kind,
            ChunkKind::Instructions | ChunkKind::Events | ChunkKind::Image | ChunkKind::File
        );
        if !self.seen.insert(kind) && !many {
            self.report.add(Finding::Repeated {
                chunk: chunk.number,
                kind,
            });
        }
        let checked = match kind {
            ChunkKind::Metadata => self.metadata(chunk),
            ChunkKind::Btf | ChunkKind::Symbols => self.frame.payload(chunk).map(drop),
            ChunkKind::Functions => self
                .frame
                .functions(chunk)
                .map(|table| self.functions = table),
            ChunkKind::Programs => self.programs(chunk),
            ChunkKind::File => self.file(chunk),
            ChunkKind::Instructions => self.frame.instructions(chunk, &mut self.instructions),
            ChunkKind::Events => self.events(chunk),
            ChunkKind::Image => self.image(chunk),
            ChunkKind::End => self.end(chunk),
        };
        // According to the header, even for a damaged chunk: the running checksum then shows only
        // other differences.
        if kind != ChunkKind::End {
            self.checksum.add(chunk.header.checksum);
        }
        match checked {
            Err(error @ Error::Io { .. }) => Err(error),
            Err(error) => {
                self.report.add(Finding::Damaged(error));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn metadata(&mut self, chunk: &ChunkRef) -> Result<(), Error> {
        let metadata = self.frame.metadata(chunk)?;
        if metadata
            .get("whole_boot")
            .is_some_and(|value| value == "on")
        {
            self.events.allow_before_start();
        }
        let description = self.frame.description(chunk, &metadata)?;
        self.frame.bounded_images(&description)
    }

    fn events(&mut self, chunk: &ChunkRef) -> Result<(), Error> {
        let (columns, summary) = self.frame.events(chunk)?;
        let known = self.instructions.len();
        if summary.instructions as usize > known {
            let (chunk, used) = (chunk.number, summary.instructions);
            self.report
                .add(Finding::UnknownInstructions { chunk, used, known });
        }
        let mut visitor = self.events.visitor(
            chunk.number,
            summary.lane,
            &self.functions,
            &mut self.report,
        );
        self.frame.run(
            chunk,
            &columns,
            &summary,
            &self.instructions,
            &mut self.decoder,
            &mut visitor,
        )
    }

    fn image(&mut self, chunk: &ChunkRef) -> Result<(), Error> {
        if chunk.header.raw as usize > IMAGE_HEADER_BYTES + IMAGE_PIECE_BYTES {
            // Reported with the metadata, and must not be unpacked.
            return Ok(());
        }
        let payload = self.frame.payload(chunk)?;
        let image = self.frame.image_info(chunk, &payload)?;
        let end = image.addr.0.saturating_add(image.length);
        self.images.push(ImagePlace {
            moment: image.moment,
            start: image.addr.0,
            end,
            chunk: chunk.number,
        });
        Ok(())
    }

    fn programs(&mut self, chunk: &ChunkRef) -> Result<(), Error> {
        let listed = self.frame.programs(chunk)?;
        self.programs = listed.files().iter().map(|f| (f.length, 0)).collect();
        Ok(())
    }

    fn file(&mut self, chunk: &ChunkRef) -> Result<(), Error> {
        let (file, payload) = self.frame.file_piece(chunk)?;
        // A file before the list, or without one, is not listed either.
        let what = "the number of a program";
        let listed = self.programs.get_mut(file as usize);
        let (_, found) = listed.ok_or_else(|| {
            let value = u64::from(file);
            chunk.malformed(Problem::Unknown { what, value })
        })?;
        *found += payload.len().saturating_sub(FILE_HEADER_BYTES) as u64;
        Ok(())
    }

    fn end(&mut self, chunk: &ChunkRef) -> Result<(), Error> {
        if let Some((stored, found)) = self.programs.iter().copied().find(|(a, b)| a != b) {
            let what = "bytes of a program";
            return Err(chunk.malformed(Problem::Count {
                what,
                stored,
                found,
            }));
        }
        let end = self.frame.end(chunk)?;
        let found = self.checksum.value();
        let chunks = [("chunks", u64::from(end.chunks), u64::from(chunk.number))];
        let totals = end
            .totals
            .named()
            .into_iter()
            .zip(self.report.totals.named());
        let totals = totals.map(|((what, promised), (_, found))| (what, promised, found));
        for (what, promised, found) in chunks.into_iter().chain(totals) {
            if promised != found {
                self.report.add(Finding::Totals {
                    what,
                    promised,
                    found,
                });
            }
        }
        if end.checksum != found {
            let promised = end.checksum;
            let error = Error::RunningChecksum { promised, found };
            self.report.add(Finding::Damaged(error));
        }
        if let Some(start) = self.events.started_and_not_stopped() {
            self.report.add(Finding::NeverStopped { start });
        }
        Ok(())
    }

    /// Images of one moment may overlap only where they agree.
    fn overlaps(&mut self) -> Result<(), Error> {
        self.images.sort_unstable();
        // Only neighbours: if a long image spans two others, the second is not compared with it.
        for pair in self.images.windows(2) {
            let (below, above) = (pair[0], pair[1]);
            if below.moment != above.moment || above.start >= below.end {
                continue;
            }
            let shared = (below.end.min(above.end) - above.start) as usize;
            let into = (above.start - below.start) as usize;
            // Unpacked again: all images at once can be gigabytes.
            let below_bytes = self.image_bytes(below.chunk)?;
            let above_bytes = self.image_bytes(above.chunk)?;
            let below_bytes = below_bytes.get(into..).unwrap_or_default();
            if below_bytes.get(..shared) != above_bytes.get(..shared) {
                self.report.add(Finding::ImagesDiffer {
                    chunk: above.chunk,
                    moment: above.moment,
                    addr: GuestAddr(above.start),
                });
            }
        }
        Ok(())
    }

    fn image_bytes(&self, chunk: u32) -> Result<Vec<u8>, Error> {
        let mut payload = self.frame.payload(&self.frame.chunks()[chunk as usize])?;
        payload.drain(..IMAGE_HEADER_BYTES);
        Ok(payload)
    }

    fn close(mut self) -> Result<VerifyReport, Error> {
        // Also for a truncated recording: its complete chunks are good.
        self.overlaps()?;
        if let Some(cut) = self.frame.cut() {
            let (chunks, accesses) = (self.report.chunks, self.report.totals.accesses());
            self.report.add(Finding::Cut {
                cut,
                chunks,
                accesses,
            });
        }
        self.report.checksum = self.checksum.value();
        Ok(self.report)
    }
}

//! The file a recorded run leaves: its events, how they are written, read and checked.
//!
//! * [`Encoder`] turns events into [`RawChunk`]s; it does no I/O and takes no lock.
//! * [`BackgroundWriter`] compresses and appends them on a separate thread, through a [`Writer`].
//! * [`Recording`] opens a file; [`Decoder`] and [`Visitor`] deliver its events.
//! * [`verify()`] checks a recording's invariants.
//!
//! `docs/reference/recording-format.md` describes the file itself. Nothing here knows what a type,
//! an object or QEMU is.

mod background;
pub mod cursor;
mod decode;
mod description;
mod encode;
mod error;
mod event;
mod events_check;
pub mod format;
mod function;
mod grid;
mod model;
mod payload;
mod programs;
mod reader;
mod summary;
mod verify;
mod writer;

pub use background::{BackgroundWriter, LaneWriter};
pub use decode::{Decoder, Visitor};
pub use description::{Description, MAX_CPUS, MAX_MEMORY_BYTES};
pub use encode::{Encoder, InstructionId, LaneId, RawAccess, RawChunk};
pub use error::{Error, Problem};
pub use event::*;
pub use format::{Version, is_recording};
pub use function::*;
pub use grid::TimeGrid;
pub use linemate_units::{Accesses, CpuId, Cycles, GuestAddr, Instructions, PAGE};
pub use payload::{Metadata, Moment};
pub use programs::{
    CodeRange, FIRST_CODE_PAGE, MAX_CODE_PAGES, ProgramFile, ProgramFiles, code_page_digest,
    code_range,
};
pub use reader::{Cut, EventChunk, Events, ImageInfo, Recording, Source};
pub use summary::{ChunkSummary, Totals};
pub use verify::{Finding, MAX_FINDINGS, VerifyReport, verify};
pub use writer::{Sink, Writer};

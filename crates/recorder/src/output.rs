//! Where a lane's events go: its encoder, and the thread that writes the file.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linemate_recording::{
    Call, CpuId, Encoder, GuestAddr, InstructionId, LaneId, LaneWriter, Marker, RawAccess,
    RawChunk, Return, VirtualTime,
};

use crate::consumer::Announce;
use crate::lane::Sink;
use crate::pairing::Whole;

/// Events in a chunk. A chunk is self-contained, so small ones cost bytes; large ones cost memory,
/// and are lost on a power failure.
pub(crate) const CHUNK_EVENTS: u32 = 2 << 20;
/// Instructions that an encoder's tables have room for from the start: more than a kernel runs
/// under one workload. Beyond that they grow.
const RESERVE: u32 = 1 << 17;

/// Addresses of instructions that have a number but are not in the file yet.
#[derive(Debug, Default)]
pub(crate) struct Unannounced(Mutex<PendingAddresses>);

#[derive(Debug, Default)]
struct PendingAddresses {
    /// How many are in the file.
    announced: u32,
    /// The addresses after those, in the order of their numbers.
    addresses: Vec<GuestAddr>,
}

impl Unannounced {
    fn lock(&self) -> MutexGuard<'_, PendingAddresses> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next instruction's address.
    pub(crate) fn push(&self, pc: GuestAddr) {
        self.lock().addresses.push(pc);
    }

    /// Hands over those below `known`, holding the lock so that no other lane's events can overtake
    /// them.
    fn announce(&self, known: u32, writer: &LaneWriter) {
        let mut waiting = self.lock();
        let count = known.saturating_sub(waiting.announced) as usize;
        let count = count.min(waiting.addresses.len());
        if count > 0 {
            let addresses: Vec<_> = waiting.addresses.drain(..count).collect();
            waiting.announced += count as u32;
            writer.instructions(addresses);
        }
    }
}

/// The encoder of one lane and its path to the file.
#[derive(Debug)]
pub(crate) struct Output {
    encoder: Encoder,
    writer: LaneWriter,
    unannounced: Arc<Unannounced>,
    /// Instructions below it were translated before the latest event: the contents of the file
    /// depend only on the events, not on how far the guest has run meanwhile.
    known: u32,
    /// Filled after the encoder's own.
    spare: RawChunk,
    accesses: u64,
}

impl Output {
    /// Prepares lane `lane`, whose chunks have `chunk_events`, for events of `cpus` CPUs and
    /// `functions` functions.
    pub(crate) fn new(
        lane: LaneId,
        chunk_events: u32,
        cpus: u16,
        functions: u32,
        writer: LaneWriter,
        unannounced: Arc<Unannounced>,
    ) -> Self {
        let mut encoder = Encoder::new(lane, chunk_events);
        encoder.reserve_cpus(cpus);
        encoder.reserve_functions(functions);
        encoder.reserve_instructions(RESERVE);
        Self {
            encoder,
            writer,
            unannounced,
            known: 0,
            spare: RawChunk::default(),
            accesses: 0,
        }
    }

    pub(crate) fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Hands everything over to the writing thread.
    pub(crate) fn flush(&mut self) {
        if self.encoder.is_empty() {
            return;
        }
        // Before the chunk: a reader needs the instructions' addresses before events that use them.
        self.unannounced.announce(self.known, &self.writer);
        // Two chunks are swapped, so that no chunk's columns are allocated while the guest runs.
        let full = self.encoder.take(std::mem::take(&mut self.spare));
        self.spare = self.writer.events(full);
    }

    #[cold]
    fn hand_over(&mut self, time: VirtualTime) {
        self.flush();
        let (accesses, time) = (self.accesses, time.0);
        let _ = writeln!(
            io::stderr(),
            "linemate-recorder: progress accesses={accesses} time={time}"
        );
    }

    /// Pieces of masked operands and of user mappings can have a size that no access has: they are
    /// split.
    #[cold]
    fn in_pieces(&mut self, mut piece: RawAccess, size: u8) {
        let mut left = size;
        while let Some(size_log2) = left.checked_ilog2() {
            piece.size_log2 = size_log2 as u8;
            self.encoder.access(piece);
            piece.addr.0 = piece.addr.0.wrapping_add(1 << size_log2);
            left -= 1 << size_log2;
        }
    }

    #[inline]
    fn after_event(&mut self, time: VirtualTime) {
        if self.encoder.is_full() {
            self.hand_over(time);
        }
    }
}

impl Announce for Output {
    fn translated(&mut self, known: u32) {
        self.known = known;
    }
}

impl Sink for Output {
    #[inline(always)]
    fn access(&mut self, access: &Whole) {
        self.accesses += 1;
        let whole = RawAccess {
            time: access.time,
            cpu: CpuId(access.cpu),
            instruction: InstructionId(access.instruction),
            addr: GuestAddr(access.addr),
            size_log2: access.size.trailing_zeros() as u8,
            kind: access.kind,
            silent: access.silent,
            user_mapping: access.user_mapping,
        };
        if access.size.is_power_of_two() {
            self.encoder.access(whole);
        } else {
            self.in_pieces(whole, access.size);
        }
        self.after_event(access.time);
    }

    fn call(&mut self, call: &Call) {
        self.encoder.call(call);
        self.after_event(call.time);
    }

    fn return_(&mut self, return_: &Return) {
        self.encoder.ret(return_);
        self.after_event(return_.time);
    }

    fn mark(&mut self, marker: &Marker) {
        self.encoder.marker(marker);
        self.after_event(marker.time);
    }
}

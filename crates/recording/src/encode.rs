//! Events to columns of bytes: the part that runs on a vCPU's thread.
//!
//! No I/O, no lock, and no allocation while the buffers and tables are large enough: they are
//! allocated up front and grow when instructions are announced.
//! `docs/reference/recording-format.md` describes the format.

use linemate_units::{CpuId, GuestAddr};

use crate::cursor::{put_varint, zigzag};
use crate::model::{
    AccessSlot, Model, REGIONS, SILENT, Site, by_distance, learn_address, pack_info, region,
};
use crate::summary::ChunkSummary;
use crate::{AccessKind, Call, Marker, Return, VirtualTime};

/// Number of an instruction in the recording: the recorder counts them from 0 as it first sees
/// them, and [`crate::LaneWriter::instructions`] writes their addresses to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct InstructionId(pub u32);

/// A stream of events with a defined order. Deterministic mode has one, parallel mode one per vCPU
/// thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LaneId(pub u32);

/// An access as a recorder sees it; a reader gets it back as [`crate::Access`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawAccess {
    pub time: VirtualTime,
    pub cpu: CpuId,
    /// The instruction, less than [`crate::format::MAX_INSTRUCTIONS`].
    pub instruction: InstructionId,
    /// The first byte touched.
    pub addr: GuestAddr,
    /// Log2 of the bytes touched, 0 to 6; more counts as 6.
    pub size_log2: u8,
    /// Load, store or RMW.
    pub kind: AccessKind,
    pub silent: bool,
    pub user_mapping: bool,
}

/// Codes of the control column. An event whose byte is 0 is exactly what the model expected.
pub(crate) mod code {
    /// Bits 0-1: which successor of the last site; 2 = explicit, 3 = no event of a site.
    pub(crate) const SECOND_SITE: u8 = 1;
    pub(crate) const OTHER_SITE: u8 = 2;
    pub(crate) const SWITCH: u8 = 3;
    pub(crate) const MARKER: u8 = 3 | 1 << 2;
    pub(crate) const SITE_MASK: u8 = 3;
    /// The number of instructions since the CPU's last event is explicit.
    pub(crate) const GAP: u8 = 1 << 2;
    /// Bits 3-4 of an access: the model's second choice; relative to the site's last address;
    /// relative to the region's.
    pub(crate) const ADDR_SECOND: u8 = 1 << 3;
    pub(crate) const ADDR_FROM_LAST: u8 = 2 << 3;
    pub(crate) const ADDR_FROM_REGION: u8 = 3 << 3;
    pub(crate) const ADDR_MASK: u8 = 3 << 3;
    /// Size, kind or mapping are explicit.
    pub(crate) const INFO: u8 = 1 << 5;
    /// Silent if the last was not, and vice versa.
    pub(crate) const SILENT_FLIP: u8 = 1 << 6;
    /// Of a call or return: the stack pointer is explicit.
    pub(crate) const STACK: u8 = 1 << 3;
    /// Of a call or return: the codes of its values are explicit.
    pub(crate) const VALUES: u8 = 1 << 4;
    /// Of a call: the caller is explicit.
    pub(crate) const CALLER: u8 = 1 << 5;
}

/// Codes of a value of a call or return, two bits each.
pub(crate) mod value_code {
    /// As in the last call of this function.
    pub(crate) const SAME: u16 = 0;
    /// In the dictionary; its place is in the recent column.
    pub(crate) const RECENT: u16 = 1;
    /// Explicit, relative to the last call of this function.
    pub(crate) const OTHER: u16 = 2;
    pub(crate) const NONE: u16 = 3;
}

// One kind of bytes each: if everything in a chunk is as expected, little more than the first is
// left.
pub(crate) const COLUMNS: usize = 9;
/// Their names, in the file's order.
pub(crate) const COLUMN_NAMES: [&str; COLUMNS] = [
    "the control column",
    "the site column",
    "the gap column",
    "the address column",
    "the info column",
    "the stack column",
    "the codes column",
    "the values column",
    "the rare column",
];

/// The columns of a chunk, uncompressed.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    /// A byte per event, and per switch to another CPU.
    pub(crate) control: Vec<u8>,
    /// Sites that were not expected.
    pub(crate) sites: Vec<u8>,
    /// Numbers of instructions that were not expected.
    pub(crate) gaps: Vec<u8>,
    /// Addresses that were not expected.
    pub(crate) addresses: Vec<u8>,
    /// Sizes, kinds and mappings that were not expected.
    pub(crate) info: Vec<u8>,
    /// Stack pointers and callers that were not expected.
    pub(crate) stacks: Vec<u8>,
    /// How values are coded, if that changed.
    pub(crate) codes: Vec<u8>,
    /// Values that were not expected, and places in the dictionary.
    pub(crate) values: Vec<u8>,
    /// CPU switches and markers.
    pub(crate) rare: Vec<u8>,
}

impl Columns {
    /// In the file's order.
    pub(crate) fn all(&self) -> [&Vec<u8>; COLUMNS] {
        [
            &self.control,
            &self.sites,
            &self.gaps,
            &self.addresses,
            &self.info,
            &self.stacks,
            &self.codes,
            &self.values,
            &self.rare,
        ]
    }

    pub(crate) fn all_mut(&mut self) -> [&mut Vec<u8>; COLUMNS] {
        [
            &mut self.control,
            &mut self.sites,
            &mut self.gaps,
            &mut self.addresses,
            &mut self.info,
            &mut self.stacks,
            &mut self.codes,
            &mut self.values,
            &mut self.rare,
        ]
    }
}

/// A filled (or spare) set of columns: passed from an [`Encoder`] to the writing thread and back.
#[derive(Debug, Default)]
pub struct RawChunk {
    pub(crate) columns: Columns,
    pub(crate) summary: ChunkSummary,
}

impl RawChunk {
    /// How many events it holds (switches between CPUs count too).
    pub fn events(&self) -> usize {
        self.columns.control.len()
    }

    /// How many bytes the columns take before compression.
    pub fn raw_bytes(&self) -> usize {
        self.columns.all().iter().map(|column| column.len()).sum()
    }

    pub(crate) fn clear(&mut self) {
        for column in self.columns.all_mut() {
            column.clear();
        }
        self.summary = ChunkSummary::default();
    }

    /// Makes room for `events` events of the usual mix.
    fn reserve(&mut self, events: usize) {
        // The shares are twice those of a kernel under scheduling load; a chunk that needs more
        // grows.
        let shares = [10, 4, 3, 8, 1, 2, 1, 3, 1];
        for (column, tenths) in self.columns.all_mut().into_iter().zip(shares) {
            column.reserve(events * tenths / 10);
        }
    }
}

/// Turns the events of one lane into [`RawChunk`]s.
///
/// Check [`Encoder::is_full`] from time to time (every block of instructions is often enough) and
/// swap the chunk with [`Encoder::take`]. A chunk is self-contained: all predictions restart in it.
#[derive(Debug)]
pub struct Encoder {
    lane: LaneId,
    max_events: usize,
    model: Model,
    chunk: RawChunk,
    /// Accesses in this chunk, by [`AccessKind`].
    kinds: [u64; 3],
    /// One more than the highest instruction in this chunk.
    instructions: u32,
}

impl Encoder {
    /// An encoder whose chunks hold about `max_events` events (two to four million are a good size;
    /// at most [`crate::format::MAX_EVENTS`]).
    pub fn new(lane: LaneId, max_events: u32) -> Self {
        let max_events = max_events.clamp(1, crate::format::MAX_EVENTS) as usize;
        let mut model = Model::new();
        model.start_chunk();
        let mut chunk = RawChunk::default();
        chunk.reserve(max_events);
        Self {
            lane,
            max_events,
            model,
            chunk,
            kinds: [0; 3],
            instructions: 0,
        }
    }

    /// Announces instructions 0 to `count` - 1, so that [`Encoder::access`] need not allocate.
    pub fn reserve_instructions(&mut self, count: u32) {
        self.model.reserve_instructions(count as usize);
    }

    /// Announces functions 0 to `count` - 1.
    pub fn reserve_functions(&mut self, count: u32) {
        self.model.reserve_functions(count as usize);
    }

    /// Announces CPUs 0 to `count` - 1.
    pub fn reserve_cpus(&mut self, count: u16) {
        self.model.reserve_cpus(usize::from(count));
    }

    /// Whether the chunk should be taken now. A few more events do no harm.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.chunk.columns.control.len() >= self.max_events
    }

    /// Whether there is nothing to take.
    pub fn is_empty(&self) -> bool {
        self.chunk.columns.control.is_empty()
    }

    /// Returns the filled chunk and continues in `spare`, whose contents are dropped and whose
    /// memory is reused.
    pub fn take(&mut self, mut spare: RawChunk) -> RawChunk {
        spare.clear();
        spare.reserve(self.max_events);
        let mut full = std::mem::replace(&mut self.chunk, spare);
        full.summary.lane = self.lane;
        full.summary.last = VirtualTime(self.model.time);
        let totals = &mut full.summary.totals;
        [totals.loads, totals.stores, totals.rmws] = std::mem::take(&mut self.kinds);
        full.summary.instructions = std::mem::take(&mut self.instructions);
        self.model.start_chunk();
        full
    }

    /// Adds a memory access.
    #[inline(always)]
    pub fn access(&mut self, access: RawAccess) {
        let RawAccess {
            time,
            cpu,
            instruction,
            addr,
            size_log2,
            kind,
            silent,
            user_mapping,
        } = access;
        if self.model.cpu != Some(cpu.0) {
            self.switch(cpu, time);
        }
        let site = Site::access(instruction.0, kind != AccessKind::Load);
        let mut control = self.site(site, time);
        // By index, without a branch per kind for each access; `take` copies them into the summary.
        self.kinds[kind as usize] += 1;
        let addr = addr.0;
        let silent = if silent { SILENT } else { 0 };
        let info = pack_info(size_log2.min(6), kind, user_mapping) | silent;
        let (slot, regions) = self.model.access_slot(site);
        let by_distance = by_distance(slot, regions);
        let expected = if slot.prefer_distance {
            by_distance
        } else {
            slot.last
        };
        // One comparison covers the expected case, which is most accesses; everything else is in a
        // function that is not inlined.
        if addr != expected || info != slot.info {
            control |= unexpected(slot, regions, addr, info, &mut self.chunk.columns);
        }
        learn_address(slot, regions, addr);
        let next = slot.next;
        self.model.expected = next;
        self.model.site = site;
        self.model.access_site = site;
        self.model.last_addr = addr;
        self.chunk.columns.control.push(control);
    }

    /// Adds the entry of a function. Function numbers must be below
    /// [`crate::format::MAX_FUNCTIONS`].
    pub fn call(&mut self, call: &Call) {
        if self.model.cpu != Some(call.cpu.0) {
            self.switch(call.cpu, call.time);
        }
        let site = Site::function(call.function.0, false);
        let mut control = self.site(site, call.time);
        self.chunk.summary.totals.calls += 1;
        control |= self.stack(site, call.stack.0);
        let last_caller = self.model.function_slot(site).caller;
        let by_site = self.model.caller();
        let expected = if last_caller == 0 { 0 } else { *by_site };
        if call.caller.0 != 0 {
            *by_site = call.caller.0;
        }
        self.model.function_slot(site).caller = call.caller.0;
        if call.caller.0 != expected {
            control |= code::CALLER;
            // Relative to this function's last caller: the table's entry may belong to any other
            // function.
            let difference = call.caller.0.wrapping_sub(last_caller);
            put_varint(&mut self.chunk.columns.stacks, zigzag(difference));
        }
        control |= self.values(site, &call.values);
        self.close_function_event(site, control);
    }

    /// Adds the return of a function.
    pub fn ret(&mut self, ret: &Return) {
        if self.model.cpu != Some(ret.cpu.0) {
            self.switch(ret.cpu, ret.time);
        }
        let site = Site::function(ret.function.0, true);
        let mut control = self.site(site, ret.time);
        self.chunk.summary.totals.returns += 1;
        control |= self.stack(site, ret.stack.0);
        control |= self.values(site, &[Some(ret.value)]);
        self.close_function_event(site, control);
    }

    pub fn marker(&mut self, marker: &Marker) {
        if self.model.cpu != Some(marker.cpu.0) {
            self.switch(marker.cpu, marker.time);
        }
        self.first(marker.time);
        self.chunk.summary.totals.markers += 1;
        let rare = &mut self.chunk.columns.rare;
        rare.push(marker.mark as u8);
        put_varint(rare, zigzag(marker.time.0.wrapping_sub(self.model.time)));
        put_varint(rare, marker.value);
        self.model.time = marker.time.0;
        self.chunk.columns.control.push(code::MARKER);
    }

    /// The site and gap of an event: what they contribute to its control byte.
    #[inline]
    fn site(&mut self, site: Site, time: VirtualTime) -> u8 {
        let gap = time.0.wrapping_sub(self.model.time);
        self.model.time = time.0;
        let expected = self.model.expected;
        // An expected successor is not learned again: it is the latest already.
        if site == expected.sites[0] && gap == u64::from(expected.gaps[0]) {
            return 0;
        }
        self.unexpected_site(site, gap)
    }

    fn unexpected_site(&mut self, site: Site, gap: u64) -> u8 {
        let expected = self.model.expected;
        let columns = &mut self.chunk.columns;
        let (mut control, expected_gap) = if site == expected.sites[0] {
            (0, expected.gaps[0])
        } else if site == expected.sites[1] {
            (code::SECOND_SITE, expected.gaps[1])
        } else {
            let number = if site.is_function() {
                u64::from(site.0)
            } else {
                // An instruction that is new in the chunk always comes this way.
                self.instructions = self.instructions.max((site.0 >> 2) + 1);
                // Even for accesses, odd for functions: bit 0 of a function's site is set.
                let last = self.model.access_site.index() as u64;
                zigzag((site.index() as u64).wrapping_sub(last)) << 1
            };
            put_varint(&mut columns.sites, number);
            // There is no successor whose gap could be used: it is that of the next instruction.
            (code::OTHER_SITE, 1)
        };
        if gap != u64::from(expected_gap) {
            control |= code::GAP;
            put_varint(&mut columns.gaps, zigzag(gap));
        }
        self.model.learn_successor(site, gap);
        control
    }

    /// Switches to another CPU. Its expected gap is subtracted, so that its first event can be an
    /// expected one.
    #[cold]
    fn switch(&mut self, cpu: CpuId, time: VirtualTime) {
        self.first(time);
        self.model.switch_to(cpu.0);
        let start = time.0.wrapping_sub(u64::from(self.model.expected.gaps[0]));
        let columns = &mut self.chunk.columns;
        put_varint(&mut columns.rare, u64::from(cpu.0));
        put_varint(
            &mut columns.rare,
            zigzag(start.wrapping_sub(self.model.time)),
        );
        columns.control.push(code::SWITCH);
        self.model.time = start;
    }

    fn first(&mut self, time: VirtualTime) {
        if self.chunk.columns.control.is_empty() {
            self.chunk.summary.first = time;
        }
    }

    fn stack(&mut self, site: Site, stack: u64) -> u8 {
        let distance = stack.wrapping_sub(self.model.last_addr);
        let slot = self.model.function_slot(site);
        if distance == slot.stack_distance {
            return 0;
        }
        slot.stack_distance = distance;
        put_varint(&mut self.chunk.columns.stacks, zigzag(distance));
        code::STACK
    }

    fn values(&mut self, site: Site, values: &[Option<u64>]) -> u8 {
        let mut codes = 0;
        let mut last = self.model.function_slot(site).values;
        for (i, value) in values.iter().enumerate() {
            let code = match *value {
                None => value_code::NONE,
                Some(value) => {
                    // A value's place depends only on the value, so a dictionary needs no search
                    // and no LRU list.
                    let (place, recent) = self.model.recent(value);
                    let column = &mut self.chunk.columns.values;
                    // First, because it needs no byte at all.
                    if value == last[i] {
                        value_code::SAME
                    } else if value == *recent {
                        column.push(place);
                        last[i] = value;
                        value_code::RECENT
                    } else {
                        put_varint(column, zigzag(value.wrapping_sub(last[i])));
                        *recent = value;
                        last[i] = value;
                        value_code::OTHER
                    }
                }
            };
            codes |= code << (2 * i);
        }
        let slot = self.model.function_slot(site);
        slot.values = last;
        if codes == slot.codes {
            return 0;
        }
        slot.codes = codes;
        self.chunk
            .columns
            .codes
            .extend_from_slice(&codes.to_le_bytes());
        code::VALUES
    }

    fn close_function_event(&mut self, site: Site, control: u8) {
        self.model.expected = self.model.function_slot(site).next;
        self.model.site = site;
        self.chunk.columns.control.push(control);
    }
}

/// Writes how an access differs from the expectation; returns its part of the control byte.
#[inline(never)]
fn unexpected(
    slot: &mut AccessSlot,
    regions: &[u64; REGIONS],
    addr: u64,
    info: u8,
    columns: &mut Columns,
) -> u8 {
    let mut control = 0;
    let by_distance = by_distance(slot, regions);
    let (first, second) = if slot.prefer_distance {
        (by_distance, slot.last)
    } else {
        (slot.last, by_distance)
    };
    // The address can be right even if the info was not.
    if addr == first {
    } else if addr == second {
        control |= code::ADDR_SECOND;
        slot.prefer_distance = !slot.prefer_distance;
    } else {
        let from_last = zigzag(addr.wrapping_sub(slot.last));
        let from_region = zigzag(addr.wrapping_sub(regions[region(slot.last)]));
        control |= if from_last <= from_region {
            code::ADDR_FROM_LAST
        } else {
            code::ADDR_FROM_REGION
        };
        put_varint(&mut columns.addresses, from_last.min(from_region));
    }
    if (info ^ slot.info) & !SILENT != 0 {
        control |= code::INFO;
        columns.info.push(info & !SILENT);
    }
    if (info ^ slot.info) & SILENT != 0 {
        control |= code::SILENT_FLIP;
    }
    slot.info = info;
    control
}

//! What brings lines into a core's caches before they are used: the fetch of pairs, the L2's streamer and the L1's stride prefetcher.
//!
//! **Known of Intel's** (64 and IA-32 Architectures Optimization Reference Manual, "Data Prefetching"; some figures measured by others, see
//! the machines' descriptions): the *streamer* watches what L1 asks of L2, by loads, stores and the L1's own prefetcher; it follows one
//! ascending or descending stream of a page of 4 KiB, 32 pages at a time, fetches up to two lines at a request and up to 20 lines ahead,
//! and never leaves the page. The *stride prefetcher* follows loads by their instruction; at equal distances of up to 2 KiB in either
//! direction it fetches the line one distance further, within the page. **AMD** names the same two kinds and gives no figures.
//!
//! **Not known**: how many requests make a stream, what is replaced in the tables, when lines go to the last-level cache alone because
//! many are under way. `train` is the description's, tables forget what was used longest ago, and lines always go to L2.
//!
//! **Chosen so that a replay of what a [`crate::Filter`] keeps is the replay of all** (`tests/filter.rs`):
//!
//! * The stride prefetcher learns from loads that miss in L1 and from the first load of each line that it fetched, not from other hits,
//!   which a filter leaves out. A walk in steps that divide a line is a walk in lines then, and is learnt; one whose steps do not divide
//!   it is not.
//! * What it fetches becomes the line of its set that was used last but one: the one used last stays in L1.
//! * Neither fetches a line that another core has to itself (E or M), so neither takes a permission away. Processors may.
//!
//! A line is here when its latency is over, not at once: a use before that waits for the rest, and counts as a miss that was served from
//! where the line came from. The fetch of pairs is older than these rules: nobody waits for it, and it takes modified lines.

use linemate_machine::{CpuPlace, L1Stride, L2Streamer, LineSize, Machine};
use linemate_recording::AccessKind;

use crate::cache::{CHECK, Held, Line, PREFETCHED};
use crate::counts::{Cause, Source};
use crate::directory::{History, Slot};
use crate::system::{Asked, Pending, Piece, System, Verdict};

/// Prefetchers do not leave the page.
const PAGE_BITS: u32 = 12;

/// Lines that prefetchers fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FetchedAhead {
    /// By L2s' streamers.
    pub l2_streamer: u64,
    /// By L1s' stride prefetchers.
    pub l1_stride: u64,
    /// Of both, those that were used before they had come.
    pub late: u64,
}

impl FetchedAhead {
    /// Adds those of `times` that each did the same.
    pub(crate) fn add(&mut self, other: FetchedAhead, times: u64) {
        self.l2_streamer += other.l2_streamer * times;
        self.l1_stride += other.l1_stride * times;
        self.late += other.late * times;
    }
}

/// The prefetchers of all cores.
#[derive(Clone)]
pub(crate) struct Prefetchers {
    line: LineSize,
    streamer: Option<L2Streamer>,
    stride: Option<L1Stride>,
    cores: Vec<Core>,
    fetched: FetchedAhead,
    /// What a request makes the streamer fetch: kept to save allocations.
    wanted: Vec<Line>,
}

/// The prefetchers of one core.
#[derive(Clone, Default)]
struct Core {
    /// The page asked for last first.
    streams: Vec<Stream>,
    /// The instruction that loaded last first.
    strides: Vec<Stride>,
    flights: Vec<Flight>,
}

/// A page that is followed.
#[derive(Clone, Copy, Debug)]
struct Stream {
    page: u64,
    /// The line asked for last.
    last: Line,
    up: bool,
    /// Requests in this direction.
    run: u32,
    /// The line fetched last.
    sent: Line,
}

/// An instruction that is followed.
#[derive(Clone, Copy, Debug)]
struct Stride {
    pc: u64,
    /// The byte loaded last.
    last: u64,
    distance: i64,
    /// Loads at this distance.
    run: u32,
}

/// A line that is under way, or was.
#[derive(Clone, Copy, Debug)]
struct Flight {
    line: Line,
    /// When it is here.
    ready: u64,
    source: Source,
    /// What had become of the core's copy.
    history: History,
    to: Level,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    L1,
    L2,
}

/// What prefetchers see of an access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) line: Line,
    /// First byte within the line.
    pub(crate) offset: u8,
    pub(crate) pc: u64,
    pub(crate) kind: AccessKind,
    pub(crate) asked: Asked,
}

/// Whether a line that was fetched ahead is here when it is used.
pub(crate) enum Arrival {
    Here,
    /// The rest of its way, with what a miss would have told.
    Late {
        cycles: u64,
        source: Source,
        cause: Option<Cause>,
        undecided: bool,
    },
}

impl Arrival {
    /// The verdict on the access that found the line in L1 or L2.
    #[inline]
    pub(crate) fn delay(self, mut verdict: Verdict, asked: Asked) -> Verdict {
        verdict.asked = asked;
        let Arrival::Late {
            cycles,
            source,
            cause,
            undecided,
        } = self
        else {
            return verdict;
        };
        verdict.cycles = verdict.cycles.max(cycles);
        if verdict.source.is_private() {
            verdict.source = source;
            verdict.cause = cause;
            verdict.undecided = undecided;
        }
        verdict
    }
}

impl Prefetchers {
    /// Counts from here on.
    pub(crate) fn begin_counting(&mut self) {
        self.fetched = FetchedAhead::default();
    }

    /// None, if the machine has none.
    pub(crate) fn new(machine: &Machine) -> Option<Prefetchers> {
        if machine.l2_streamer.is_none() && machine.l1_stride.is_none() {
            return None;
        }
        let cores = machine.topology.cores();
        Some(Prefetchers {
            line: machine.line,
            streamer: machine.l2_streamer,
            stride: machine.l1_stride,
            cores: (0..cores).map(|_| Core::default()).collect(),
            fetched: FetchedAhead::default(),
            wanted: Vec::new(),
        })
    }

    fn core(&mut self, place: CpuPlace) -> &mut Core {
        &mut self.cores[usize::from(place.core.0)]
    }

    /// Whether one more line may be under way to that level.
    fn may_send(&mut self, place: CpuPlace, to: Level, now: u64) -> bool {
        let most = match to {
            Level::L1 => self.stride.map(|stride| stride.outstanding),
            Level::L2 => self.streamer.map(|streamer| streamer.outstanding),
        };
        let flights = &mut self.core(place).flights;
        flights.retain(|flight| flight.ready > now);
        let under_way = flights.iter().filter(|flight| flight.to == to).count();
        under_way < most.unwrap_or(0) as usize
    }

    fn send(&mut self, place: CpuPlace, flight: Flight) {
        let flights = &mut self.core(place).flights;
        flights.retain(|other| other.line != flight.line);
        flights.push(flight);
        match flight.to {
            Level::L1 => self.fetched.l1_stride += 1,
            Level::L2 => self.fetched.l2_streamer += 1,
        }
    }

    /// A load; the line to fetch.
    fn load(&mut self, place: CpuPlace, seen: &Seen) -> Option<Line> {
        let stride = self.stride?;
        let bits = self.line.shift();
        let addr = seen.line << bits | u64::from(seen.offset);
        let next = follow_load(stride, &mut self.core(place).strides, seen.pc, addr)?;
        (next >> bits != seen.line).then_some(next >> bits)
    }

    /// A request of L1; the lines to fetch go into `wanted`.
    fn request(&mut self, place: CpuPlace, line: Line) {
        let Some(streamer) = self.streamer else {
            return;
        };
        let bits = PAGE_BITS - self.line.shift();
        let mut wanted = std::mem::take(&mut self.wanted);
        let streams = &mut self.core(place).streams;
        follow_request(streamer, streams, bits, line, &mut wanted);
        self.wanted = wanted;
    }
}

/// An instruction loads a byte. Returns the byte one distance further, if that is known and on the page.
fn follow_load(shape: L1Stride, strides: &mut Vec<Stride>, pc: u64, addr: u64) -> Option<u64> {
    let Some(at) = strides.iter().position(|stride| stride.pc == pc) else {
        strides.truncate(shape.entries as usize - 1);
        let new = Stride {
            pc,
            last: addr,
            distance: 0,
            run: 1,
        };
        strides.insert(0, new);
        return None;
    };
    strides[..=at].rotate_right(1);
    let stride = &mut strides[0];
    let distance = addr.wrapping_sub(stride.last) as i64;
    stride.last = addr;
    if distance == 0 {
        return None;
    }
    // Two loads have one distance, whichever it is.
    stride.run = match stride.distance == distance {
        true => stride.run.saturating_add(1),
        false => 2,
    };
    stride.distance = distance;
    let next = addr.wrapping_add_signed(distance);
    let trained = stride.run >= shape.train && distance.unsigned_abs() <= u64::from(shape.reach);
    (trained && next >> PAGE_BITS == addr >> PAGE_BITS).then_some(next)
}

/// L1 asks for a line; what to fetch is added to `wanted`. A page has two to the power of `bits` lines.
fn follow_request(
    shape: L2Streamer,
    streams: &mut Vec<Stream>,
    bits: u32,
    line: Line,
    wanted: &mut Vec<Line>,
) {
    let page = line >> bits;
    let Some(at) = streams.iter().position(|stream| stream.page == page) else {
        streams.truncate(shape.streams as usize - 1);
        let new = Stream {
            page,
            last: line,
            up: true,
            run: 1,
            sent: line,
        };
        streams.insert(0, new);
        return;
    };
    streams[..=at].rotate_right(1);
    let stream = &mut streams[0];
    if stream.last == line {
        return;
    }
    let up = line > stream.last;
    stream.last = line;
    if stream.run == 1 || stream.up != up {
        stream.up = up;
        stream.run = 2;
        stream.sent = line;
    } else {
        stream.run = stream.run.saturating_add(1);
    }
    if stream.run < shape.train {
        return;
    }
    let (first, last) = (page << bits, (page + 1) << bits);
    for _ in 0..shape.per_request {
        let next = match up {
            true => stream.sent.max(line) + 1,
            false => stream.sent.min(line).wrapping_sub(1),
        };
        let near = next.abs_diff(line) <= u64::from(shape.ahead);
        if !near || !(first..last).contains(&next) {
            return;
        }
        stream.sent = next;
        wanted.push(next);
    }
}

impl System {
    /// Whether there are prefetchers to be told of accesses.
    #[inline]
    pub(crate) fn has_prefetchers(&self) -> bool {
        self.prefetchers.is_some()
    }

    /// What was fetched ahead.
    pub fn fetched_ahead(&self) -> FetchedAhead {
        let prefetchers = self.prefetchers.as_ref();
        prefetchers.map_or_else(FetchedAhead::default, |all| all.fetched)
    }

    /// Tells the core's prefetchers of an access that [`System::access`] has done, and has them fetch.
    #[inline(never)]
    pub(crate) fn prefetch(&mut self, place: CpuPlace, seen: &Seen, now: u64) {
        let Some(all) = &mut self.prefetchers else {
            return;
        };
        let next = match seen.kind {
            AccessKind::Load => all.load(place, seen),
            AccessKind::Store | AccessKind::Rmw => None,
        };
        if seen.asked == Asked::Request {
            all.request(place, seen.line);
        }
        if let Some(line) = next {
            self.fetch_to_l1(place, line, now);
        }
        let Some(all) = &mut self.prefetchers else {
            return;
        };
        let mut wanted = std::mem::take(&mut all.wanted);
        for line in wanted.drain(..) {
            self.fetch(place, line, Level::L2, now);
        }
        if let Some(all) = &mut self.prefetchers {
            all.wanted = wanted;
        }
    }

    /// The stride prefetcher's line: from L2, or through it.
    fn fetch_to_l1(&mut self, place: CpuPlace, line: Line, now: u64) {
        let core = usize::from(place.core.0);
        if self.l1[core].find(line).is_some() || self.l1[core].ways() == 1 {
            return;
        }
        if let Some(all) = &mut self.prefetchers {
            all.request(place, line);
        }
        let Some(way) = self.l2[core].find(line) else {
            return self.fetch(place, line, Level::L1, now);
        };
        let (slot, flags) = (self.l2[core].slot(way), self.l2[core].flags(way));
        let mut flight = Flight {
            line,
            ready: now + u64::from(self.latency.l2),
            source: Source::L2,
            history: History::Held,
            to: Level::L1,
        };
        let Some(all) = &mut self.prefetchers else {
            return;
        };
        if !all.may_send(place, Level::L1, now) {
            return;
        }
        if flags & PREFETCHED != 0 {
            // The streamer's: it may be under way still.
            let flights = &all.core(place).flights;
            if let Some(other) = flights.iter().find(|other| other.line == line) {
                let (to, ready) = (Level::L1, flight.ready.max(other.ready));
                flight = Flight {
                    to,
                    ready,
                    ..*other
                };
            }
        }
        all.send(place, flight);
        let new = Held {
            slot,
            flags: flags & CHECK | PREFETCHED,
            touched: 0,
        };
        self.fill_second(place, line, new);
    }

    fn fill_second(&mut self, place: CpuPlace, line: Line, new: Held) {
        let victim = self.l1[usize::from(place.core.0)].insert_second(line, new);
        self.fall_back(place, victim);
    }

    /// Brings a line that the core does not have to L2, and to L1 if that is asked for.
    fn fetch(&mut self, place: CpuPlace, line: Line, to: Level, now: u64) {
        let slot = self.directory.slot(line, place.core, place.socket);
        if self.directory.holds(slot, place.core) || self.directory.entry(slot).owner().is_some() {
            return;
        }
        let may_send = |all: &mut Prefetchers| all.may_send(place, to, now);
        if !self.prefetchers.as_mut().is_some_and(may_send) {
            return;
        }
        let supply = self.supply(place, slot);
        let history = self.sharing.history(self.directory.entry(slot), place.core);
        self.share(place, slot, &supply);
        let (_, cycles) = self.serve(slot, AccessKind::Load, now, supply.latency, false);
        let pending = self.begin_lifetime(place.core, slot, 0);
        self.fill_llc(place.domain, slot);
        let check = if pending == Pending::Nothing {
            0
        } else {
            CHECK
        };
        let new = Held {
            slot,
            flags: check | PREFETCHED,
            touched: 0,
        };
        self.insert_l2(place, line, new);
        if to == Level::L1 {
            self.fill_second(place, line, new);
        }
        if let Some(all) = &mut self.prefetchers {
            all.send(
                place,
                Flight {
                    line,
                    ready: now + cycles,
                    source: supply.source,
                    history,
                    to,
                },
            );
        }
    }

    /// The first use of a line that was fetched ahead: whether it is here.
    #[inline(never)]
    pub(crate) fn arrival(
        &mut self,
        place: CpuPlace,
        slot: Slot,
        piece: Piece,
        now: u64,
    ) -> Arrival {
        let Some(all) = &mut self.prefetchers else {
            return Arrival::Here;
        };
        let flights = &mut all.core(place).flights;
        let under_way = |flight: &Flight| flight.line == piece.line && flight.ready > now;
        let Some(at) = flights.iter().position(under_way) else {
            return Arrival::Here;
        };
        let flight = flights.swap_remove(at);
        all.fetched.late += 1;
        let atomic = match piece.kind {
            AccessKind::Rmw => u64::from(self.latency.atomic),
            AccessKind::Load | AccessKind::Store => 0,
        };
        let (cause, undecided) = if flight.source.is_private() {
            (None, false)
        } else {
            let record = self.sharing.find(self.directory.entry(slot), place.core);
            let taken = record.is_some_and(|record| record.pending & piece.words != 0);
            match flight.history {
                History::Never => (Some(Cause::Cold), false),
                History::Evicted => (Some(Cause::Capacity), false),
                _ if taken => (Some(Cause::TrueSharing), false),
                _ => (None, true),
            }
        };
        Arrival::Late {
            cycles: flight.ready - now + atomic,
            source: flight.source,
            cause,
            undecided,
        }
    }

    /// The other line of a pair, fetched into L2 as if read, without anybody waiting for it.
    pub(crate) fn fetch_pair(&mut self, place: CpuPlace, line: Line, now: u64) {
        let slot = self.directory.slot(line, place.core, place.socket);
        if self.directory.holds(slot, place.core) {
            return;
        }
        let supply = self.supply(place, slot);
        self.prefetched.0 += 1;
        self.prefetched.1 += u64::from(supply.exclusive);
        self.share(place, slot, &supply);
        self.serve(
            slot,
            AccessKind::Load,
            now,
            supply.latency,
            supply.exclusive,
        );
        let pending = self.begin_lifetime(place.core, slot, 0);
        self.fill_llc(place.domain, slot);
        let flags = if pending == Pending::Nothing {
            0
        } else {
            CHECK
        };
        self.insert_l2(
            place,
            line,
            Held {
                slot,
                flags,
                touched: 0,
            },
        );
    }
}

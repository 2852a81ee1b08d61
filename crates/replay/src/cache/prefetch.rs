//! What brings lines into a core's caches before they are used: the fetch of pairs, L2's streamer
//! and L1's stride prefetcher.
//!
//! **Known about Intel's** (64 and IA-32 Architectures Optimization Reference Manual, "Data
//! Prefetching"; some figures measured by others, see the machines' descriptions): the *streamer*
//! watches what L1 requests from L2, by loads, stores and L1's own prefetcher; it follows one
//! ascending or descending stream per page of 4 KiB, 32 pages at a time, fetches up to two lines
//! per request and up to 20 lines ahead, and never leaves the page. The *stride prefetcher* follows
//! loads by instruction; at equal strides of up to 2 KiB in either direction it fetches the line
//! one stride further, within the page. **AMD** names the same two kinds and gives no figures.
//!
//! **Not known**: how many requests make a stream, what is replaced in the tables, when lines go
//! only to the last-level cache because many are in flight. `train` comes from the description,
//! tables forget the least recently used entry, and lines always go to L2.
//!
//! **Chosen so that replaying what a [`crate::Filter`] keeps equals replaying everything**
//! (`tests/filter.rs`):
//!
//! * The stride prefetcher learns from loads that miss in L1 and from the first load of each line
//!   that it fetched, not from other hits, which a filter leaves out. A walk in steps that divide a
//!   line is then a walk in lines, and is learnt; one whose steps do not divide it is not.
//! * What it fetches becomes the second most recently used line of its set: the most recent one
//!   stays in L1.
//! * Neither fetches a line that another core owns (E or M), so neither takes a permission away.
//!   Processors may.
//!
//! A line is here when its latency is over, not at once: a use before that waits for the rest, and
//! counts as a miss served from where the line came from. The fetch of pairs predates these rules:
//! nobody waits for it, and it takes modified lines.

use linemate_machine::{CpuPlace, L1Stride, L2Streamer, LineSize, Machine};
use linemate_recording::AccessKind;

use crate::accounts::counts::{Cause, Source};
use crate::accounts::outcome::FetchedAhead;
use crate::cache::address::Line;
use crate::cache::directory::History;
use crate::cache::verdict::{Asked, Verdict};

/// Prefetchers do not leave the page: its neighbour in memory may be anything. 4 KiB even where the
/// kernel maps 2 MiB, as Intel documents.
const PAGE_BITS: u32 = 12;

/// The prefetchers of all cores.
#[derive(Clone)]
pub(crate) struct Prefetchers {
    line: LineSize,
    streamer: Option<L2Streamer>,
    stride: Option<L1Stride>,
    cores: Vec<Core>,
    pub(crate) fetched: FetchedAhead,
    /// The streamer's fetches for a request: stored to save allocations.
    pub(crate) wanted: Vec<Line>,
}

/// The prefetchers of one core.
#[derive(Clone, Default)]
pub(crate) struct Core {
    /// The most recently requested page first.
    streams: Vec<Stream>,
    /// The most recent load instruction first.
    strides: Vec<Stride>,
    pub(crate) flights: Vec<Flight>,
}

/// A page whose requests the streamer tracks.
#[derive(Clone, Copy, Debug)]
struct Stream {
    page: u64,
    /// The last requested line.
    last: Line,
    up: bool,
    /// Requests in this direction.
    run: u32,
    /// The line fetched last.
    sent: Line,
}

/// A load whose distances the prefetcher tracks.
#[derive(Clone, Copy, Debug)]
struct Stride {
    pc: u64,
    /// The last loaded byte.
    last: u64,
    distance: i64,
    /// Loads at this stride.
    run: u32,
}

/// A line that is in flight, or was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub(crate) line: Line,
    /// The cycle in which it arrives.
    pub(crate) ready: u64,
    pub(crate) source: Source,
    /// The previous fate of the core's copy.
    pub(crate) history: History,
    pub(crate) to: Level,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
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

/// Whether a prefetched line has arrived when it is used.
pub(crate) enum Arrival {
    Here,
    /// The remaining time, and the verdict that a miss would have given.
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
        // The longer of both: an upgrade of the line in flight can take longer than its arrival,
        // and keeps its own class.
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

    pub(crate) fn core(&mut self, place: CpuPlace) -> &mut Core {
        &mut self.cores[usize::from(place.core.0)]
    }

    /// Whether one more line may be in flight to that level.
    pub(crate) fn may_send(&mut self, place: CpuPlace, to: Level, now: u64) -> bool {
        let most = match to {
            Level::L1 => self.stride.map(|stride| stride.outstanding),
            Level::L2 => self.streamer.map(|streamer| streamer.outstanding),
        };
        // Flights that have arrived are dropped when the next one starts: at most `outstanding`
        // remain, so a list will do.
        let flights = &mut self.core(place).flights;
        flights.retain(|flight| flight.ready > now);
        let under_way = flights.iter().filter(|flight| flight.to == to).count();
        under_way < most.unwrap_or(0) as usize
    }

    pub(crate) fn send(&mut self, place: CpuPlace, flight: Flight) {
        let flights = &mut self.core(place).flights;
        // One flight per line: L1's prefetcher may request what the streamer has in flight.
        flights.retain(|other| other.line != flight.line);
        flights.push(flight);
        match flight.to {
            Level::L1 => self.fetched.l1_stride += 1,
            Level::L2 => self.fetched.l2_streamer += 1,
        }
    }

    /// A load; returns the line to fetch.
    pub(crate) fn load(&mut self, place: CpuPlace, seen: &Seen) -> Option<Line> {
        let stride = self.stride?;
        let bits = self.line.shift();
        let addr = seen.line << bits | u64::from(seen.offset);
        let next = follow_load(stride, &mut self.core(place).strides, seen.pc, addr)?;
        // A step within the line fetches nothing, and must not take a buffer.
        (next >> bits != seen.line).then_some(next >> bits)
    }

    /// A request by L1; the lines to fetch go into `wanted`.
    pub(crate) fn request(&mut self, place: CpuPlace, line: Line) {
        let Some(streamer) = self.streamer else {
            return;
        };
        let bits = PAGE_BITS - self.line.shift();
        // Moved out so that the core's streams can be borrowed at the same time.
        let mut wanted = std::mem::take(&mut self.wanted);
        let streams = &mut self.core(place).streams;
        follow_request(streamer, streams, bits, line, &mut wanted);
        self.wanted = wanted;
    }
}

/// An instruction loads a byte. Returns the byte one stride further, if that is known and on the
/// page.
fn follow_load(shape: L1Stride, strides: &mut Vec<Stride>, pc: u64, addr: u64) -> Option<u64> {
    let Some(at) = strides.iter().position(|stride| stride.pc == pc) else {
        // The least recently used entry goes: what real tables replace is unknown.
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
    // The same byte again, as in a spin loop: it neither trains nor untrains.
    if distance == 0 {
        return None;
    }
    // Two loads have one stride, whichever it is.
    stride.run = match stride.distance == distance {
        true => stride.run.saturating_add(1),
        false => 2,
    };
    stride.distance = distance;
    let next = addr.wrapping_add_signed(distance);
    let trained = stride.run >= shape.train && distance.unsigned_abs() <= u64::from(shape.reach);
    (trained && next >> PAGE_BITS == addr >> PAGE_BITS).then_some(next)
}

/// L1 requests a line; what to fetch is added to `wanted`. A page has two to the power of `bits`
/// lines.
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
    // A second request for a line (a store after a load) is not a step in any direction.
    if stream.last == line {
        return;
    }
    // A page has one stream, whose direction is that of the last step: a turn trains anew from that
    // step on.
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
            // From the further of what was fetched and what is requested: a stream that overtakes
            // its prefetches does not fetch behind itself.
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

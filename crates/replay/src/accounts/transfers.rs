//! Modified lines that were fetched from other cores (HITM), by place in the line: between which
//! CPUs, and when.
//!
//! Stored if lines are examined ([`crate::Config::lines`]). The size is bounded by the resolution
//! of CPUs and time: at most 32 places on the machine ([`MachinePlaces`]) and the cells of a
//! [`TimeGrid`] for each place in a line.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use linemate_machine::{LogicalCpu, Machine};
use linemate_recording::{CpuId, TimeGrid, VirtualTime};
use linemate_units::Accesses;
use serde::{Deserialize, Serialize};

use crate::cache::directory::LineHasher;
use crate::rounds::placement::KeyId;

/// The maximum number of places on the machine that transfers distinguish.
// Pairs grow with its square: 1,024 counts for each place in a line at 32. A guess; beyond it CPUs
// are merged by domain, then by socket.
const PLACES_MAX: usize = 32;

/// What transfers are counted between: the finest grouping of which a replay has at most 32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MachinePlaces {
    /// Replayed CPUs, by number.
    #[default]
    Cpu,
    /// By domain: the cores that share a last-level cache.
    Domain,
    /// By socket, if there are too many domains.
    Socket,
}

/// Modified lines fetched from one place on the machine to another, for one place in lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// What the access is charged to.
    pub key: KeyId,
    /// First byte touched, from the line's start.
    pub offset: u8,
    /// The place of the CPU that had written last.
    pub from: u16,
    /// The place of the CPU that fetched the line.
    pub to: u16,
    pub count: Accesses,
}

/// Modified lines fetched in one part of the time by a row of recorded CPUs, with their copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferTime {
    /// What the access is charged to.
    pub key: KeyId,
    /// First byte touched, from the line's start.
    pub offset: u8,
    /// The row of CPUs ([`TimeGrid`]).
    pub row: u16,
    /// The part of the recording's time.
    pub bin: u16,
    pub count: Accesses,
}

/// All transfers of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfers {
    /// What `from` and `to` number.
    pub places: MachinePlaces,
    /// Between which CPUs; by key, offset, from, to.
    pub pairs: Vec<Transfer>,
    /// When; by key, offset, row, bin. Together as many as `pairs`.
    pub times: Vec<TransferTime>,
}

impl Transfers {
    /// As if each had happened that many times.
    pub(crate) fn times(&mut self, times: u64) {
        self.pairs.iter_mut().for_each(|row| row.count *= times);
        self.times.iter_mut().for_each(|row| row.count *= times);
    }
}

/// A place in lines.
#[derive(Clone, Copy)]
pub(crate) struct InLine {
    /// What the access is charged to.
    pub(crate) key: KeyId,
    /// First byte touched, from the line's start.
    pub(crate) offset: u8,
}

type Sums = HashMap<(u32, u8, u16, u16), Accesses, BuildHasherDefault<LineHasher>>;

/// Counts transfers by place in the line while a replay runs.
#[derive(Clone)]
pub(crate) struct TransferCounter {
    grid: TimeGrid,
    bin: u16,
    /// Copies of each recorded CPU.
    copies: u16,
    places: MachinePlaces,
    /// By logical CPU: the number of its place.
    place_of: Vec<u16>,
    pairs: Sums,
    times: Sums,
}

impl TransferCounter {
    /// For these replayed CPUs, in the order of their numbers.
    pub(crate) fn new(machine: &Machine, cpus: &[LogicalCpu], copies: u16) -> TransferCounter {
        let (places, place_of) = numbered(machine, cpus);
        TransferCounter {
            grid: TimeGrid::default(),
            bin: 0,
            copies,
            places,
            place_of,
            pairs: Sums::default(),
            times: Sums::default(),
        }
    }

    pub(crate) fn set_grid(&mut self, grid: TimeGrid) {
        self.grid = grid;
    }

    /// Forgets what a warm-up has counted.
    pub(crate) fn begin_counting(&mut self) {
        self.pairs.clear();
        self.times.clear();
    }

    /// What follows happens then.
    pub(crate) fn set_time(&mut self, time: VirtualTime) {
        // By the recording's time at the start of the round. The replay's own clock would differ
        // between interleavings and from that of the accesses, which are shown on the same axis.
        self.bin = self.grid.bin(time);
    }

    /// A line that `to`, the replayed CPU number `number`, fetched.
    pub(crate) fn add(&mut self, at: InLine, from: LogicalCpu, to: LogicalCpu, number: usize) {
        let place = |cpu: LogicalCpu| self.place_of[usize::from(cpu.0)];
        let InLine { key, offset } = at;
        let pair = (key.0, offset, place(from), place(to));
        *self.pairs.entry(pair).or_default() += Accesses::ONE;
        let recorded = CpuId((number / usize::from(self.copies)) as u16);
        let time = (key.0, offset, self.grid.row(recorded), self.bin);
        *self.times.entry(time).or_default() += Accesses::ONE;
    }

    pub(crate) fn finish(self) -> Transfers {
        Transfers {
            places: self.places,
            pairs: sorted(self.pairs, |(key, offset, from, to), count| Transfer {
                key: KeyId(key),
                offset,
                from,
                to,
                count,
            }),
            times: sorted(self.times, |(key, offset, row, bin), count| TransferTime {
                key: KeyId(key),
                offset,
                row,
                bin,
                count,
            }),
        }
    }
}

fn sorted<T>(sums: Sums, row: impl Fn((u32, u8, u16, u16), Accesses) -> T) -> Vec<T> {
    let mut sums: Vec<_> = sums.into_iter().collect();
    // A table's order depends on how it grew; equal replays have to give equal bytes.
    sums.sort_unstable();
    sums.into_iter()
        .map(|(key, count)| row(key, count))
        .collect()
}

/// The grouping of CPUs, and each logical CPU's number.
pub(crate) fn numbered(machine: &Machine, cpus: &[LogicalCpu]) -> (MachinePlaces, Vec<u16>) {
    let by = |number: &dyn Fn(usize, LogicalCpu) -> Option<u16>| {
        let mut place_of = vec![0; machine.topology.cpus()];
        for (index, cpu) in cpus.iter().enumerate() {
            if let Some(place) = place_of.get_mut(usize::from(cpu.0)) {
                *place = number(index, *cpu).unwrap_or(0);
            }
        }
        place_of
    };
    let place = |cpu| machine.topology.place(cpu);
    if cpus.len() <= PLACES_MAX {
        return (
            MachinePlaces::Cpu,
            by(&|index, _| u16::try_from(index).ok()),
        );
    }
    let domains = by(&|_, cpu| place(cpu).map(|place| place.domain.0));
    if domains
        .iter()
        .all(|domain| usize::from(*domain) < PLACES_MAX)
    {
        return (MachinePlaces::Domain, domains);
    }
    let sockets = by(&|_, cpu| place(cpu).map(|place| place.socket.0));
    (MachinePlaces::Socket, sockets)
}

//! What happens inside the lines that move between cores: the view that `perf c2c` gives, by offset
//! and instruction.
//!
//! A cell for each (line, offset, instruction) is stored only for lines that moved from one core to
//! another, and from that moment on. What happened before, and all other lines, are summed by
//! field, offset and function ([`Uncontested`]), because a cell for each place of each line would
//! need more memory than the model of the caches. Together they contain every access that left its
//! core exactly once, with the cycles that its key and its site are charged: for an access to two
//! lines, those of the line that took longer.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use linemate_machine::LineSize;
use linemate_recording::{AccessKind, GuestAddr};
use linemate_units::{Accesses, Cycles};
use serde::{Deserialize, Serialize};

use crate::accounts::counts::{Source, Tally};
use crate::cache::address::{Line, address};
use crate::cache::directory::{LineHasher, Slot};
use crate::numbers::NumberTable;
use crate::rounds::placement::{KeyId, SiteId};
use crate::size;

/// One offset of one line as accessed by one instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// First byte touched, from the line's start.
    pub offset: u8,
    /// The instruction that accessed it.
    pub pc: GuestAddr,
    /// What its accesses are charged to.
    pub key: KeyId,
    /// Loads that left the core, and their cycles: the cycles per load that perf c2c shows.
    pub loads: Tally,
    /// Stores and atomics that left the core.
    pub stores: Tally,
    /// Modified lines fetched from a core of the domain, of the socket, of another socket.
    pub hitm: [Accesses; 3],
    /// Clean lines fetched from another domain.
    pub forwards: Accesses,
    /// Writes that had the line without the permission.
    pub upgrades: Accesses,
}

/// A line that moved between cores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineView {
    /// Its first byte, as placed.
    pub addr: GuestAddr,
    /// The clone whose memory it is; 0 for the recorded one.
    pub instance: u16,
    /// By offset, instruction, key.
    pub cells: Vec<Cell>,
}

impl LineView {
    /// Modified lines fetched, over all cells.
    pub fn hitm(&self) -> Accesses {
        self.cells.iter().flat_map(|cell| cell.hitm).sum()
    }

    /// As if everything had happened that many times.
    pub(crate) fn times(&mut self, times: u64) {
        for cell in &mut self.cells {
            cell.loads.times(times);
            cell.stores.times(times);
            cell.hitm.iter_mut().for_each(|count| *count *= times);
            cell.forwards *= times;
            cell.upgrades *= times;
        }
    }

    /// Cycles of all accesses that left their core.
    pub fn cycles(&self) -> Cycles {
        self.cells
            .iter()
            .map(|cell| cell.loads.cycles + cell.stores.cycles)
            .sum()
    }
}

/// Accesses that left their core for a line that no core had yet taken from another, over all such
/// lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uncontested {
    /// What they are charged to.
    pub key: KeyId,
    /// The function, or the line of its source.
    pub site: SiteId,
    /// First byte touched, from the line's start.
    pub offset: u8,
    /// Loads, and their cycles.
    pub loads: Tally,
    /// Stores and atomics, likewise.
    pub stores: Tally,
}

impl Uncontested {
    /// As if everything had happened that many times.
    pub(crate) fn times(&mut self, times: u64) {
        self.loads.times(times);
        self.stores.times(times);
    }
}

/// One access to a line.
pub(crate) struct Touch {
    pub(crate) slot: Slot,
    pub(crate) offset: u8,
    pub(crate) pc: u64,
    pub(crate) key: KeyId,
    pub(crate) site: SiteId,
    pub(crate) kind: AccessKind,
    pub(crate) source: Source,
    pub(crate) cycles: Cycles,
}

/// How many cells are put into views before their memory is freed.
const VIEWED_AT_ONCE: usize = 1 << 18;

/// All cells so far.
#[derive(Clone, Default)]
pub(crate) struct Lines {
    /// The cells' places in `cells`.
    index: NumberTable,
    cells: Vec<(Slot, Cell)>,
    uncontested: HashMap<(u32, u32, u8), [Tally; 2], BuildHasherDefault<LineHasher>>,
}

impl Lines {
    /// The size of the view of lines in bytes.
    pub(crate) fn size_in_memory(&self) -> usize {
        self.index.size_in_memory() + size::of_list(&self.cells) + size::of_table(&self.uncontested)
    }

    /// An access that left its core, to a line that no core has taken from another yet.
    pub(crate) fn add_uncontested(&mut self, touch: &Touch) {
        let sums = self
            .uncontested
            .entry((touch.key.0, touch.site.0, touch.offset))
            .or_default();
        sums[usize::from(touch.kind != AccessKind::Load)].add(touch.cycles);
    }

    /// An access that left its core, to a line that moved between cores.
    pub(crate) fn add(&mut self, touch: &Touch) {
        let hash = hash_of(touch);
        let is = |number: u32| {
            let (slot, cell) = &self.cells[number as usize];
            // The key as well: memory is reused, so one instruction at one offset of one line may
            // access different objects over a recording.
            (*slot, cell.offset, cell.pc.0, cell.key)
                == (touch.slot, touch.offset, touch.pc, touch.key)
        };
        let number = self.index.find(hash, is).unwrap_or_else(|| {
            let number = self.cells.len() as u32;
            self.index.add(hash, number);
            self.cells.push((touch.slot, Cell::new(touch)));
            number
        });
        self.cells[number as usize].1.add(touch);
    }

    /// What lines had before they moved between cores, and lines that never did; by key, site and
    /// offset.
    pub(crate) fn take_uncontested(&mut self) -> Vec<Uncontested> {
        let mut sums: Vec<Uncontested> = std::mem::take(&mut self.uncontested)
            .into_iter()
            .map(|((key, site, offset), [loads, stores])| Uncontested {
                key: KeyId(key),
                site: SiteId(site),
                offset,
                loads,
                stores,
            })
            .collect();
        sums.sort_by_key(|sum| (sum.key, sum.site, sum.offset));
        sums
    }

    /// The lines, by address and instance.
    pub(crate) fn into_views(
        self,
        line_of: impl Fn(Slot) -> Line,
        size: LineSize,
    ) -> Vec<LineView> {
        let mut cells = self.cells;
        // Slots are numbered by first touch, which depends on the interleaving: they group the
        // cells of a line, and readers get them by address.
        // Each key is there once, so the order among equal ones, for which a stable sort takes half
        // as much memory again, does not matter.
        cells.sort_unstable_by_key(|(slot, cell)| (*slot, cell.offset, cell.pc, cell.key));
        let mut views: Vec<LineView> = Vec::new();
        while let Some(slot) = cells.last().map(|(slot, _)| *slot) {
            let first = cells.partition_point(|(other, _)| *other < slot);
            let (addr, instance) = address(line_of(slot), size);
            views.push(LineView {
                addr,
                instance,
                cells: cells.drain(first..).map(|(_, cell)| cell).collect(),
            });
            // Piece by piece, so that they are not all in memory twice: a machine of hundreds of
            // CPUs has millions.
            if cells.capacity() - cells.len() > VIEWED_AT_ONCE {
                cells.shrink_to_fit();
            }
        }
        views.sort_by_key(|view| (view.addr, view.instance));
        views
    }
}

/// The hash of what a cell is of.
fn hash_of(touch: &Touch) -> u64 {
    let mut hasher = LineHasher::default();
    hasher.write_u32(touch.slot);
    hasher.write_u8(touch.offset);
    hasher.write_u64(touch.pc);
    hasher.write_u32(touch.key.0);
    hasher.finish()
}

impl Cell {
    fn new(touch: &Touch) -> Cell {
        Cell {
            offset: touch.offset,
            pc: GuestAddr(touch.pc),
            key: touch.key,
            loads: Tally::default(),
            stores: Tally::default(),
            hitm: [Accesses::ZERO; 3],
            forwards: Accesses::ZERO,
            upgrades: Accesses::ZERO,
        }
    }

    fn add(&mut self, touch: &Touch) {
        match touch.source {
            Source::HitmDomain => self.hitm[0] += Accesses::ONE,
            Source::HitmSocket => self.hitm[1] += Accesses::ONE,
            Source::HitmRemote => self.hitm[2] += Accesses::ONE,
            Source::ForwardSocket | Source::ForwardRemote => self.forwards += Accesses::ONE,
            Source::Upgrade => self.upgrades += Accesses::ONE,
            // Memory and the domain's own LLC: no core owned the line and none outside the domain
            // was asked. They are only in the sums of loads and stores.
            _ => {}
        }
        if touch.kind == AccessKind::Load {
            self.loads.add(touch.cycles);
        } else {
            self.stores.add(touch.cycles);
        }
    }
}

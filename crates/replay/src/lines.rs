//! What happens inside the lines that go between cores: the view that `perf c2c` gives, by offset and
//! instruction.
//!
//! Kept only for lines that went from one core to another at least once, and from that moment on: all
//! their stores, and their loads that left the core. A line that nobody fights over costs nothing here.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use linemate_machine::LineSize;
use linemate_recording::{AccessKind, GuestAddr};

use crate::address::address;
use crate::counts::{Source, Tally};
use crate::directory::{LineHasher, Slot};
use crate::placement::KeyId;
use crate::system::System;

/// One offset of one line as one instruction touches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// First byte touched, from the line's start.
    pub offset: u8,
    /// The instruction.
    pub pc: GuestAddr,
    /// What its accesses were accounted to; the last key where they differ (an edit can make them).
    pub key: KeyId,
    /// Loads that left the core, and their cycles: the cycles per load that perf c2c shows.
    pub loads: Tally,
    /// Stores and atomics, private ones included.
    pub stores: Tally,
    /// Stores and atomics that found the permission in their core.
    pub private_stores: u64,
    /// Modified lines fetched from a core of the domain, of the socket, of another socket.
    pub hitm: [u64; 3],
    /// Clean lines fetched from another domain.
    pub forwards: u64,
    /// Upgrades.
    pub upgrades: u64,
}

/// A line that went between cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineView {
    /// Its first byte, as placed.
    pub addr: GuestAddr,
    /// Which clone's memory it is; 0 for the recorded one.
    pub instance: u16,
    /// By offset, then instruction.
    pub cells: Vec<Cell>,
}

impl LineView {
    /// Modified lines fetched, over all cells.
    pub fn hitm(&self) -> u64 {
        self.cells.iter().flat_map(|cell| cell.hitm).sum()
    }

    /// Cycles of all recorded loads and stores.
    pub fn cycles(&self) -> u64 {
        self.cells
            .iter()
            .map(|cell| cell.loads.cycles + cell.stores.cycles)
            .sum()
    }
}

/// One access to a watched line.
pub(crate) struct Touch {
    pub(crate) slot: Slot,
    pub(crate) offset: u8,
    pub(crate) pc: u64,
    pub(crate) key: KeyId,
    pub(crate) kind: AccessKind,
    pub(crate) source: Source,
    pub(crate) cycles: u64,
}

/// All cells so far.
#[derive(Default)]
pub(crate) struct Lines {
    index: HashMap<(Slot, u8, u64), u32, BuildHasherDefault<LineHasher>>,
    cells: Vec<(Slot, Cell)>,
}

impl Lines {
    pub(crate) fn add(&mut self, touch: &Touch) {
        let next = self.cells.len() as u32;
        let index = *self
            .index
            .entry((touch.slot, touch.offset, touch.pc))
            .or_insert(next);
        if index == next {
            self.cells.push((
                touch.slot,
                Cell {
                    offset: touch.offset,
                    pc: GuestAddr(touch.pc),
                    key: touch.key,
                    loads: Tally::default(),
                    stores: Tally::default(),
                    private_stores: 0,
                    hitm: [0; 3],
                    forwards: 0,
                    upgrades: 0,
                },
            ));
        }
        let cell = &mut self.cells[index as usize].1;
        cell.key = touch.key;
        if touch.kind == AccessKind::Load {
            cell.loads.add(touch.cycles);
        } else {
            cell.stores.add(touch.cycles);
            cell.private_stores += u64::from(touch.source.is_private());
        }
        match touch.source {
            Source::HitmDomain => cell.hitm[0] += 1,
            Source::HitmSocket => cell.hitm[1] += 1,
            Source::HitmRemote => cell.hitm[2] += 1,
            Source::ForwardSocket | Source::ForwardRemote => cell.forwards += 1,
            Source::Upgrade => cell.upgrades += 1,
            _ => {}
        }
    }

    /// The lines, by address and instance.
    pub(crate) fn into_views(self, system: &System, size: LineSize) -> Vec<LineView> {
        let mut cells = self.cells;
        cells.sort_by_key(|(slot, cell)| (*slot, cell.offset, cell.pc));
        let mut views: Vec<LineView> = Vec::new();
        let mut last = None;
        for (slot, cell) in cells {
            if last != Some(slot) {
                let (addr, instance) = address(system.line_of(slot), size);
                views.push(LineView {
                    addr,
                    instance,
                    cells: Vec::new(),
                });
                last = Some(slot);
            }
            if let Some(view) = views.last_mut() {
                view.cells.push(cell);
            }
        }
        views.sort_by_key(|view| (view.addr, view.instance));
        views
    }
}

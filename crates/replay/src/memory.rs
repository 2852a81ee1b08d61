//! How much memory a replay takes: what grows with the lines that are touched, what the machine's caches hold, and the tape.

use std::collections::HashMap;

use crate::cache::{Cache, Llc};
use crate::lines::Lines;
use crate::tape::Taper;
use crate::{Cloner, Placement, Replay};

/// Bytes of a list.
pub(crate) fn of_list<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}

/// Bytes of a table: one entry and one byte of control a place, of which at most seven eighths are taken.
pub(crate) fn of_table<K, V, S>(table: &HashMap<K, V, S>) -> usize {
    table.capacity() / 7 * 8 * (size_of::<(K, V)>() + 1)
}

impl<P: Placement, C: Cloner> Replay<P, C> {
    /// How many bytes this replay takes, nearly: tables whose size depends neither on the recording's length nor on the caches' are left
    /// out. What it shares with other replays is not counted.
    #[must_use]
    pub fn size_in_memory(&self) -> usize {
        let engine = &self.engine;
        let system = &engine.system;
        let caches = system
            .l1
            .iter()
            .chain(&system.l2)
            .map(Cache::size_in_memory);
        let llc = system.llc.iter().map(Llc::size_in_memory);
        let accounts = of_list(&engine.keys) + of_list(&engine.hits) + of_list(&engine.sites);
        let lines = engine.lines.as_ref().map_or(0, Lines::size_in_memory);
        let taper = self.taper.as_ref().map_or(0, Taper::size_in_memory);
        caches.chain(llc).sum::<usize>()
            + system.directory.size_in_memory()
            + system.sharing.size_in_memory()
            + accounts
            + lines
            + taper
            + of_list(&self.round)
            + of_list(&self.slices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_takes_what_it_has_room_for() {
        assert_eq!(of_list::<u64>(&Vec::with_capacity(10)), 80);
        assert_eq!(of_list::<u64>(&Vec::new()), 0);
    }

    #[test]
    fn a_table_takes_more_than_its_entries() {
        let table: HashMap<u64, u64> = (0..1000).map(|n| (n, n)).collect();
        let least = 1000 * 16;
        let bytes = of_table(&table);
        assert!((least..4 * least).contains(&bytes), "{bytes}");
        assert_eq!(of_table(&HashMap::<u64, u64>::new()), 0);
    }
}

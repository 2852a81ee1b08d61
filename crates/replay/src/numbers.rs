//! A table that finds the numbers of things that are stored elsewhere, by their hashes.
//!
//! A replay numbers millions of lines, and places in them. A table with their keys would have
//! everything twice; this one takes eight bytes for a place.

use crate::size;

/// The table is doubled when that share of its places is taken: 3 of 4.
const FULL: (usize, usize) = (3, 4);

/// How many places a table begins with.
const FIRST: usize = 16;

/// Numbers by hash; a power of two of places, or none.
#[derive(Clone, Debug, Default)]
pub(crate) struct NumberTable {
    /// The hash's low half above the number plus 1; 0: empty. The first one tried is the hash's,
    /// the others follow it.
    places: Vec<u64>,
    taken: usize,
}

impl NumberTable {
    /// The number with this hash for which `is` holds.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        let mask = self.places.len().checked_sub(1)?;
        let mut at = hash as u32 as usize & mask;
        loop {
            let place = self.places[at];
            let number = (place as u32).checked_sub(1)?;
            // Most things that differ also differ in their hash: `is` reads memory elsewhere.
            if place >> 32 == u64::from(hash as u32) && is(number) {
                return Some(number);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds a number that is not there.
    pub(crate) fn add(&mut self, hash: u64, number: u32) {
        let (part, whole) = FULL;
        if self.taken * whole >= self.places.len() * part {
            self.grow();
        }
        self.taken += 1;
        let number = number.checked_add(1);
        let number = number.expect("things with numbers of 32 bits fill the memory before that");
        self.put(u64::from(hash as u32) << 32 | u64::from(number));
    }

    fn grow(&mut self) {
        let size = (self.places.len() * 2).max(FIRST);
        let before = std::mem::replace(&mut self.places, vec![0; size]);
        for place in before.into_iter().filter(|place| *place != 0) {
            self.put(place);
        }
    }

    fn put(&mut self, place: u64) {
        let mask = self.places.len() - 1;
        let mut at = (place >> 32) as usize & mask;
        while self.places[at] != 0 {
            at = (at + 1) & mask;
        }
        self.places[at] = place;
    }

    /// How many bytes of the host it takes.
    pub(crate) fn size_in_memory(&self) -> usize {
        size::of_list(&self.places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_however_many_there_are() {
        // Every hash three times, and all of them near each other.
        let things: Vec<u64> = (0..3000).map(|thing| thing * 7).collect();
        let hash = |thing: u64| thing / 21;
        let mut table = NumberTable::default();
        let find = |table: &NumberTable, thing: u64| {
            table.find(hash(thing), |number| things[number as usize] == thing)
        };
        for (number, thing) in (0u32..).zip(&things) {
            assert_eq!(find(&table, *thing), None, "{number}");
            table.add(hash(*thing), number);
            assert_eq!(find(&table, *thing), Some(number));
        }
        for (number, thing) in (0u32..).zip(&things) {
            assert_eq!(find(&table, *thing), Some(number));
        }
        assert_eq!(table.size_in_memory(), 4096 * 8);
    }
}

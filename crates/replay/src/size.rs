//! The size of lists and tables in bytes, for
//! [`Replay::size_in_memory`](crate::Replay::size_in_memory).

use std::collections::HashMap;

/// Bytes of a list.
pub(crate) fn of_list<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}

/// Bytes of a table: one entry and one control byte per place, of which at most seven eighths are
/// taken.
pub(crate) fn of_table<K, V, S>(table: &HashMap<K, V, S>) -> usize {
    // hashbrown's layout, which std does not guarantee: the figure only decides how many replays
    // run at a time.
    table.capacity() / 7 * 8 * (size_of::<(K, V)>() + 1)
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

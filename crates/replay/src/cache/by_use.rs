//! Lists in the order of use: a set's ways, the most recently used first.

/// The last entry comes first, the others move back by one.
// `rotate_right` calls the C library to move a few bytes, which takes longer than this loop: most
// uses move two or three entries.
#[inline]
pub(crate) fn last_to_front<T: Copy>(entries: &mut [T]) {
    if let Some(mut carried) = entries.last().copied() {
        for entry in entries {
            carried = std::mem::replace(entry, carried);
        }
    }
}

/// The first entry comes last, the others move forward by one.
#[inline]
pub(crate) fn first_to_back<T: Copy>(entries: &mut [T]) {
    if let Some(mut carried) = entries.first().copied() {
        for entry in entries.iter_mut().rev() {
            carried = std::mem::replace(entry, carried);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_entry_moves_and_the_others_make_room() {
        let mut entries = [1, 2, 3, 4];
        last_to_front(&mut entries[..3]);
        assert_eq!(entries, [3, 1, 2, 4]);
        first_to_back(&mut entries[..3]);
        assert_eq!(entries, [1, 2, 3, 4]);
        last_to_front::<u64>(&mut []);
        first_to_back::<u64>(&mut []);
    }
}

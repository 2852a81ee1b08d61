//! Ranges of bytes and lines: `(start, end)`, ends not included. It knows no type and no rule.

/// Ranges in ascending order; those that touch or overlap are joined, empty ones dropped. Ends are
/// not included.
pub(crate) fn merged(ranges: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut sorted: Vec<(u64, u64)> = ranges.filter(|(start, end)| start < end).collect();
    sorted.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::with_capacity(sorted.len());
    for (start, end) in sorted {
        match joined.last_mut() {
            Some((_, last)) if start <= *last => *last = end.max(*last),
            _ => joined.push((start, end)),
        }
    }
    joined
}

/// What two lists of merged ranges have in common.
pub(crate) fn common(a: &[(u64, u64)], b: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (mut i, mut j, mut found) = (0, 0, Vec::new());
    while let (Some(left), Some(right)) = (a.get(i), b.get(j)) {
        let (start, end) = (left.0.max(right.0), left.1.min(right.1));
        if start < end {
            found.push((start, end));
        }
        if left.1 < right.1 {
            i += 1;
        } else {
            j += 1;
        }
    }
    found
}

/// Whether any of the ranges (ends not included) has one of the lines `first..=last`.
pub(crate) fn touches(ranges: &[(u64, u64)], first: u64, last: u64) -> bool {
    let next = ranges.partition_point(|(_, end)| *end <= first);
    ranges.get(next).is_some_and(|(start, _)| *start <= last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_where_they_touch() {
        let ranges = [(6, 8), (0, 2), (9, 9), (2, 4), (7, 12), (20, 21)];
        assert_eq!(merged(ranges.into_iter()), [(0, 4), (6, 12), (20, 21)]);
    }

    #[test]
    fn common_ranges_are_found_on_both_sides() {
        let (a, b) = ([(0, 4), (6, 12), (20, 21)], [(1, 2), (3, 7), (11, 30)]);
        let expected = [(1, 2), (3, 4), (6, 7), (11, 12), (20, 21)];
        assert_eq!(common(&a, &b), expected);
        assert_eq!(common(&b, &a), expected);
        assert_eq!(common(&a, &[(4, 6)]), []);
    }

    #[test]
    fn a_line_is_touched_at_both_ends() {
        let ranges = [(2, 4), (8, 9)];
        let touched: Vec<u64> = (0..10).filter(|n| touches(&ranges, *n, *n)).collect();
        assert_eq!(touched, [2, 3, 8]);
        assert!(touches(&ranges, 0, 2) && touches(&ranges, 5, 8));
        assert!(!touches(&ranges, 4, 7));
    }
}

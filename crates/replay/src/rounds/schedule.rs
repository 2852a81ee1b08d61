//! Which of many CPUs acts next.

/// Bits of a [`Due`] that name the runner.
const RUNNER_BITS: u32 = 14;

/// When a runner's next access is due, with the runner below: the least one comes next, and among
/// equal times the one with the lowest number. Cycles beyond 50 bits (four days) would wrap.
type Due = u64;

/// The runner has nothing to do.
const NEVER: Due = Due::MAX;

/// A winner tree over runners, a power of two of them: node i is the lesser of 2i and 2i+1, the
/// leaves are the second half, the root is 1.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schedule {
    tree: Vec<Due>,
}

impl Schedule {
    /// For this many runners, each with the time at which it has something to do.
    pub(crate) fn begin(&mut self, dues: impl ExactSizeIterator<Item = Option<u64>>) {
        let leaves = dues.len().next_power_of_two();
        assert!(leaves <= 1 << RUNNER_BITS, "{leaves} CPUs in one round");
        self.tree.clear();
        self.tree.resize(2 * leaves, NEVER);
        for (index, due) in dues.enumerate() {
            self.tree[leaves + index] = joined(index, due);
        }
        for node in (1..leaves).rev() {
            self.tree[node] = self.tree[2 * node].min(self.tree[2 * node + 1]);
        }
    }

    /// The earliest time, and whose it is.
    #[inline]
    pub(crate) fn first(&self) -> Option<(u64, usize)> {
        let due = self.tree[1];
        let index = due & ((1 << RUNNER_BITS) - 1);
        (due != NEVER).then_some((due >> RUNNER_BITS, index as usize))
    }

    /// Sets when a runner has something to do next, if at all.
    #[inline]
    pub(crate) fn set(&mut self, index: usize, due: Option<u64>) {
        // One path up from the leaf and no moves of entries: a heap would remove one and insert one
        // per access.
        let mut node = self.tree.len() / 2 + index;
        self.tree[node] = joined(index, due);
        while node > 1 {
            let least = self.tree[node].min(self.tree[node ^ 1]);
            node /= 2;
            self.tree[node] = least;
        }
    }
}

#[inline]
fn joined(index: usize, due: Option<u64>) -> Due {
    due.map_or(NEVER, |due| due << RUNNER_BITS | index as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_of_equals_the_lowest_number() {
        let mut schedule = Schedule::default();
        schedule.begin([Some(5), None, Some(3), Some(3), Some(9)].into_iter());
        assert_eq!(schedule.first(), Some((3, 2)));
        schedule.set(2, Some(3));
        assert_eq!(schedule.first(), Some((3, 2)));
        schedule.set(2, Some(4));
        assert_eq!(schedule.first(), Some((3, 3)));
        schedule.set(3, None);
        schedule.set(2, None);
        assert_eq!(schedule.first(), Some((5, 0)));
        schedule.set(1, Some(1));
        assert_eq!(schedule.first(), Some((1, 1)));
        for runner in [0, 1, 4] {
            schedule.set(runner, None);
        }
        assert_eq!(schedule.first(), None);
    }
}

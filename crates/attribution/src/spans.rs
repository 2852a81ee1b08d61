//! Spans of time that may overlap: was there one at this time?

use linemate_recording::VirtualTime;

/// Spans, each including both ends. [`Spans::sort`] them before calling [`Spans::overlaps`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spans {
    /// Begin and end; when sorted by begin, the end is the latest of all so far.
    list: Vec<(VirtualTime, VirtualTime)>,
    latest: Option<VirtualTime>,
}

impl Spans {
    pub(crate) fn push(&mut self, begin: VirtualTime, end: VirtualTime) {
        self.list.push((begin, end));
        self.latest = self.latest.max(Some(end));
    }

    /// When the last of all spans ended; `None` if there are none.
    pub(crate) fn latest(&self) -> Option<VirtualTime> {
        self.latest
    }

    pub(crate) fn sort(&mut self) {
        self.list.sort_unstable();
        let mut latest = VirtualTime(0);
        for (_, end) in &mut self.list {
            latest = latest.max(*end);
            *end = latest;
        }
    }

    /// Whether a span has a time from `from` to `to` in it.
    pub(crate) fn overlaps(&self, from: VirtualTime, to: VirtualTime) -> bool {
        let begun = self.list.partition_point(|(begin, _)| *begin <= to);
        let latest = begun.checked_sub(1).and_then(|last| self.list.get(last));
        latest.is_some_and(|(_, end)| *end >= from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_span_counts_after_short_ones() {
        let mut spans = Spans::default();
        for (begin, end) in [(30, 31), (10, 50), (20, 22)] {
            spans.push(VirtualTime(begin), VirtualTime(end));
        }
        assert_eq!(spans.latest(), Some(VirtualTime(50)));
        spans.sort();
        let overlaps = |from, to| spans.overlaps(VirtualTime(from), VirtualTime(to));
        assert!(overlaps(40, 45), "in the long one alone");
        assert!(overlaps(0, 10) && overlaps(50, 60), "its ends are in it");
        assert!(!overlaps(0, 9) && !overlaps(51, 60));
    }
}

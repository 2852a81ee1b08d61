//! What happened to page frames during the recording.

use linemate_recording::VirtualTime;
use rustc_hash::FxHashMap;

/// Page frames, by number.
#[derive(Debug)]
pub(super) struct FrameTimes {
    /// When each was first freed: what was known about it at the start ends there.
    pub(super) freed: FxHashMap<u64, VirtualTime>,
    /// When each was first handed out.
    pub(super) taken: FxHashMap<u64, VirtualTime>,
    /// Those from before the recording that were found to be page tables.
    pub(super) page_tables: FxHashMap<u64, VirtualTime>,
}

impl FrameTimes {
    /// Whether what was known about a frame at the start still holds.
    pub(super) fn is_unchanged(&self, frame: u64, time: VirtualTime) -> bool {
        let before = |at: Option<&VirtualTime>| at.is_none_or(|t| time < *t);
        before(self.freed.get(&frame)) && before(self.taken.get(&frame))
    }

    /// Whether a frame from before the recording is a page table.
    pub(super) fn is_page_table(&self, frame: u64) -> bool {
        self.page_tables.contains_key(&frame)
    }
}

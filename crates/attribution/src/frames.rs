//! The callers: functions in progress on each kernel stack.
//!
//! Only watched functions are known (those with struct pointers, which are most), and no event says
//! when a plain one returns. But a stack grows down, so any function at or below a new call's stack
//! pointer has returned.

use linemate_recording::{FunctionId, GuestAddr};
use rustc_hash::FxHashMap;

use crate::map::STACK_SIZE;

/// More frames than this on a stack of 16 KiB would be 64 bytes each.
const DEPTH_MAX: usize = 256;

/// The calls in progress, by stack.
#[derive(Debug, Default)]
pub(crate) struct CallFrames {
    stacks: FxHashMap<u64, Vec<(u64, FunctionId)>>,
}

impl CallFrames {
    pub(crate) fn enter(&mut self, stack: GuestAddr, function: FunctionId) {
        let frames = self.stacks.entry(stack.0 / STACK_SIZE).or_default();
        while frames
            .last()
            .is_some_and(|(pointer, _)| *pointer <= stack.0)
        {
            frames.pop();
        }
        if frames.len() < DEPTH_MAX {
            frames.push((stack.0, function));
        }
    }

    /// The functions in progress that called the one at `stack`, innermost first.
    pub(crate) fn callers(&self, stack: GuestAddr) -> impl Iterator<Item = FunctionId> + '_ {
        let frames = self
            .stacks
            .get(&(stack.0 / STACK_SIZE))
            .map_or(&[][..], |v| v);
        frames
            .iter()
            .rev()
            .filter(move |(pointer, _)| *pointer > stack.0)
            .map(|(_, function)| *function)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn callers(frames: &CallFrames, stack: u64) -> Vec<u32> {
        frames.callers(GuestAddr(stack)).map(|f| f.0).collect()
    }

    #[test]
    fn deeper_calls_are_gone_when_a_shallower_one_comes() {
        let mut frames = CallFrames::default();
        for (stack, function) in [(0x3f00, 1), (0x3e00, 2), (0x3d00, 3), (0x7d00, 9)] {
            frames.enter(GuestAddr(stack), FunctionId(function));
        }
        assert_eq!(callers(&frames, 0x3c00), [3, 2, 1]);
        assert_eq!(callers(&frames, 0x3d00), [2, 1], "not itself");
        frames.enter(GuestAddr(0x3e00), FunctionId(4));
        assert_eq!(callers(&frames, 0x3c00), [4, 1], "2 and 3 have returned");
        assert_eq!(callers(&frames, 0x7c00), [9], "another stack");
    }
}

//! Which calls are in progress on programs' stacks, as pushes, pops, calls and returns show it.
//!
//! Only the ends of turns are looked at: while a CPU has its turn, no other one can use its frames.
//! Chunks are read in any order, so a look says what is new in its chunk, and [`in_order`] puts the
//! looks together.

use linemate_recording::{CpuId, GuestAddr, VirtualTime};
use rustc_hash::FxHashMap;

/// How far the ends of one stack that is in use may be apart, in bytes: a choice. Stacks are
/// further apart by default (8 MiB in the C library, 2 MiB in Rust's); of smaller ones that follow
/// each other some variables are lost, because a return on one of them seems to end the frames of
/// the next.
pub(super) const REACH: u64 = 1 << 20;

/// The maximum number of looks that are kept of one chunk: turns may be as short as the user asks.
/// A chunk of two million events has some 7,000 turns of 1000 instructions. Later ones are made at
/// the chunk's end.
const LOOKS_MAX: usize = 1 << 13;

/// A call in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OpenCall {
    /// Where its return address is.
    pub(super) slot: GuestAddr,
    /// The calling instruction.
    pub(super) site: GuestAddr,
}

/// The stack pointer was at `to`: what was below has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rise {
    pub(super) to: GuestAddr,
    pub(super) time: VirtualTime,
}

/// What is new on one stack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Look {
    pub(super) time: VirtualTime,
    /// Since the look before: each higher than the last.
    pub(super) rises: Vec<Rise>,
    /// Calls after the last rise, outermost first.
    pub(super) calls: Vec<OpenCall>,
}

/// A stack that is used in the chunk.
#[derive(Debug, Default)]
struct Stack {
    last: GuestAddr,
    rises: Vec<Rise>,
    calls: Vec<OpenCall>,
    /// How many of the calls earlier looks have.
    seen: usize,
    /// Up to here nothing is left of what earlier looks have.
    ended: Option<GuestAddr>,
}

/// The stacks of a chunk. Addresses are [`super::places::UserAddr::flat`].
#[derive(Debug, Default)]
pub(crate) struct StackWatch {
    stacks: Vec<Stack>,
    /// By address in units of [`REACH`]: the stack that was used there last. A recording may have
    /// any number of stacks.
    near: FxHashMap<u64, usize>,
    /// By CPU: the one it used last.
    current: Vec<Option<usize>>,
    /// Stacks with pushes, pops, calls or returns since the last look.
    used: Vec<usize>,
    time: VirtualTime,
    /// How many of the looks are not of the chunk.
    before: usize,
    found: Vec<Look>,
}

impl StackWatch {
    /// Handles a push, pop, call or return at `addr`; `call`: the instruction, if it calls.
    pub(super) fn used(&mut self, cpu: CpuId, addr: GuestAddr, call: Option<GuestAddr>) {
        let time = self.time;
        let at = self.uses(cpu, addr);
        let stack = &mut self.stacks[at];
        if stack.rises.is_empty() {
            self.used.push(at);
        }
        while stack.calls.last().is_some_and(|open| open.slot <= addr) {
            stack.calls.pop();
        }
        stack.seen = stack.seen.min(stack.calls.len());
        if stack.rises.last().is_none_or(|rise| rise.to < addr) {
            stack.rises.push(Rise { to: addr, time });
        }
        if let Some(site) = call {
            stack.calls.push(OpenCall { slot: addr, site });
        }
    }

    /// Sets the time of what comes next.
    pub(super) fn at(&mut self, time: VirtualTime) {
        self.time = time;
    }

    /// Whether an address is not on the stack that a CPU uses.
    pub(super) fn is_elsewhere(&self, cpu: CpuId, addr: GuestAddr) -> bool {
        let current = self.current.get(usize::from(cpu.0)).copied().flatten();
        current.is_none_or(|at| !self.stacks[at].reaches(addr))
    }

    /// A CPU uses the stack around an address, which gets a number.
    pub(super) fn uses(&mut self, cpu: CpuId, addr: GuestAddr) -> usize {
        let cpu = usize::from(cpu.0);
        if cpu >= self.current.len() {
            self.current.resize(cpu + 1, None);
        }
        let current = self.current[cpu].filter(|at| self.stacks[*at].reaches(addr));
        let at = current.or_else(|| self.known(addr)).unwrap_or_else(|| {
            self.near.insert(addr.0 / REACH, self.stacks.len());
            self.stacks.push(Stack::default());
            self.stacks.len() - 1
        });
        self.current[cpu] = Some(at);
        let last = std::mem::replace(&mut self.stacks[at].last, addr);
        if last.0 / REACH != addr.0 / REACH {
            self.near.insert(addr.0 / REACH, at);
        }
        at
    }

    /// The stack around an address, if it was used before.
    fn known(&self, addr: GuestAddr) -> Option<usize> {
        let unit = addr.0 / REACH;
        let units = [unit, unit.wrapping_sub(1), unit + 1];
        let mut stacks = units.iter().filter_map(|unit| self.near.get(unit));
        stacks.find(|at| self.stacks[**at].reaches(addr)).copied()
    }

    /// A turn has ended. `holds`: whether the function that makes a call has variables in its
    /// frame.
    pub(super) fn turn(&mut self, holds: impl Fn(GuestAddr) -> bool) {
        if self.found.len() - self.before < LOOKS_MAX {
            self.look(holds);
        }
    }

    /// The chunk has ended, and another one begins or none.
    pub(super) fn end_chunk(&mut self) {
        // All calls: what is called in a later chunk may hold something, and be found by its
        // caller.
        self.used = (0..self.stacks.len()).collect();
        self.look(|_| true);
        self.stacks.clear();
        self.near.clear();
        self.current.clear();
        self.before = self.found.len();
    }

    fn look(&mut self, holds: impl Fn(GuestAddr) -> bool) {
        for at in self.used.drain(..) {
            let look = self.stacks[at].look(self.time, &holds);
            self.found.extend(look);
        }
    }

    /// All looks, in no order.
    pub(super) fn take(&mut self) -> Vec<Look> {
        self.before = 0;
        std::mem::take(&mut self.found)
    }
}

impl Stack {
    /// What is new; `None` if nothing that matters is.
    fn look(&mut self, time: VirtualTime, holds: impl Fn(GuestAddr) -> bool) -> Option<Look> {
        let new = &self.calls[self.seen..];
        // Those below are needed as soon as a call below them holds something.
        let holding = new.iter().rposition(|open| holds(open.site));
        let end = self.seen + holding.map_or(0, |at| at + 1);
        let calls = self.calls[self.seen..end].to_vec();
        self.seen = end;
        let rises = std::mem::take(&mut self.rises);
        let highest = rises.last().map(|rise| rise.to);
        if calls.is_empty() && highest <= self.ended {
            return None;
        }
        // A call is in progress until the stack pointer is at its slot, and what it holds is above.
        let lowest = calls.last().map(|open| open.slot.wrapping_sub(1_u32));
        self.ended = self.ended.max(highest);
        self.ended = lowest.map_or(self.ended, |slot| self.ended.min(Some(slot)));
        Some(Look { time, rises, calls })
    }

    fn reaches(&self, addr: GuestAddr) -> bool {
        self.last.0.abs_diff(addr.0) < REACH
    }
}

/// Looks of all chunks by time. Of those of one time the order does not matter, as they are of
/// different stacks, but it is the same at any number of threads.
pub(super) fn in_order(mut looks: Vec<Look>) -> Vec<Look> {
    looks.sort_unstable();
    looks
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOP: u64 = 0x7fff_0000;

    /// Pushes, pops, calls and returns of CPU 0 at these distances below [`TOP`], a call with its
    /// site; `None` ends the turn.
    fn looks(steps: &[Option<(u64, Option<u64>)>]) -> Vec<(Vec<u64>, Vec<u64>)> {
        let mut watch = StackWatch::default();
        for (time, step) in (0..).zip(steps) {
            watch.at(VirtualTime(time));
            match step {
                Some((below, site)) => {
                    let at = GuestAddr(TOP - below);
                    watch.used(CpuId(0), at, site.map(GuestAddr));
                }
                None => watch.turn(|site| site.0 < 100),
            }
        }
        let seen = watch.take().into_iter().map(|look| {
            let rises = look.rises.iter().map(|rise| TOP - rise.to.0).collect();
            (rises, look.calls.iter().map(|open| open.site.0).collect())
        });
        seen.collect()
    }

    #[test]
    fn a_look_has_the_calls_in_progress_that_are_new() {
        let (call, at) = (|below, site| Some((below, Some(site))), |b| Some((b, None)));
        let steps = [
            call(0, 1),
            call(64, 200),
            call(128, 2),
            call(192, 201),
            None,
            // The innermost returns, another one is made, and only that is new.
            at(192),
            call(192, 3),
            None,
            None,
            // All but the outermost return.
            at(192),
            at(128),
            at(64),
            call(64, 4),
            None,
        ];
        let expected = [
            (vec![0], vec![1, 200, 2]),
            // The call of site 201 was not reported, as its caller holds nothing.
            (vec![192], vec![3]),
            (vec![192, 128, 64], vec![4]),
        ];
        assert_eq!(looks(&steps), expected);
    }

    #[test]
    fn threads_that_take_turns_on_a_cpu_keep_their_calls() {
        let mut watch = StackWatch::default();
        let (first, second) = (GuestAddr(TOP), GuestAddr(TOP - (8 << 20)));
        watch.used(CpuId(0), first, Some(GuestAddr(1)));
        watch.used(CpuId(0), second, Some(GuestAddr(2)));
        assert!(watch.is_elsewhere(CpuId(0), first));
        assert!(!watch.is_elsewhere(CpuId(0), second.wrapping_sub(64)));
        assert!(watch.is_elsewhere(CpuId(1), second), "nothing is known");
        watch.used(CpuId(0), first.wrapping_sub(64), Some(GuestAddr(3)));
        watch.end_chunk();
        let sites = watch.take().into_iter().map(|look| look.calls);
        let sites = sites.map(|calls| calls.iter().map(|c| c.site.0).collect::<Vec<_>>());
        assert_eq!(sites.collect::<Vec<_>>(), [vec![1, 3], vec![2]]);
    }

    #[test]
    fn a_chunk_leaves_all_its_calls_and_knows_none_of_another() {
        let mut watch = StackWatch::default();
        for (below, site) in [(0, 200), (64, 2)] {
            watch.used(CpuId(0), GuestAddr(TOP - below), Some(GuestAddr(site)));
            watch.end_chunk();
        }
        let found = watch.take().into_iter();
        let sites = found.map(|look| look.calls.iter().map(|c| c.site.0).collect::<Vec<_>>());
        assert_eq!(sites.collect::<Vec<_>>(), [[200], [2]]);
    }

    #[test]
    fn turns_in_calls_that_hold_nothing_leave_no_look() {
        let (call, at) = (|below, site| Some((below, Some(site))), |b| Some((b, None)));
        let inner = [
            call(128, 200),
            None,
            at(128),
            call(128, 201),
            None,
            at(128),
            None,
        ];
        let steps = [&[call(0, 1), call(64, 2), None][..], &inner].concat();
        // The calls that hold something, and that the stack pointer was below them once.
        assert_eq!(looks(&steps), [(vec![0], vec![1, 2])]);
        let rest = [at(64), None, call(64, 200), None];
        let steps = [steps, rest.to_vec()].concat();
        assert_eq!(looks(&steps)[1..], [(vec![64], vec![])]);
    }

    #[test]
    fn turns_without_end_make_a_bounded_number_of_looks() {
        let mut watch = StackWatch::default();
        for i in 0..3 * LOOKS_MAX as u64 {
            watch.used(CpuId(0), GuestAddr(TOP + 8 * i), Some(GuestAddr(i)));
            watch.turn(|_| true);
        }
        watch.end_chunk();
        let found = watch.take();
        assert_eq!(found.len(), LOOKS_MAX + 1);
        assert_eq!(
            found[LOOKS_MAX].calls.len(),
            1,
            "the last call alone is open"
        );
    }
}

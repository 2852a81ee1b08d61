//! What callbacks leave on the guest's thread: records in a queue, made with as little work as
//! possible.
//!
//! | record | words |
//! |---|---|
//! | access | head, address, and the stored value if [`crate::shadow`] looks at it |
//! | part | an access that does not fit the first form: head, address, instruction, size and flags, value (2) |
//! | call | head with a mask of the values present, stack pointer, caller, values |
//! | return | head, stack pointer, value |
//! | others | head, one or two words |
//!
//! The head has the kind in bits 0 to 7, a number (instruction, function, mark) in bits 8 to 31 and
//! in its upper half the instructions counted up to this one, as far as 32 signed bits hold them;
//! overflows have records of their own.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use linemate_recording::{FunctionId, MAX_PARAMETERS, Mark};

use crate::kind;
use crate::lane::{Instruction, Touch};
use crate::queue::Queue;
use crate::shadow::{Tracked, TrackedCell};
use crate::watch::{Entered, Left, WatchedEvent};

/// Words of a lane's queue. 2 MiB: a few milliseconds of guest code.
pub(crate) const RECORDS: usize = 1 << 18;
pub(crate) type Records = Queue<RECORDS>;

/// Flags of a part, above its size.
pub(crate) mod part {
    pub(crate) const STORE: u64 = 1 << 8;
    pub(crate) const USER: u64 = 1 << 9;
    pub(crate) const VALUE: u64 = 1 << 10;
}

/// Marks by their number in a record.
pub(crate) const MARKS: [Mark; 6] = [
    Mark::Start,
    Mark::Stop,
    Mark::Idle,
    Mark::Resume,
    Mark::Space,
    Mark::Page,
];

/// Instructions in a turn of the counter.
pub(crate) const TURN: u64 = 1 << 31;

/// The producer's side of a lane. Only the thread that runs the lane's CPUs uses it, except for
/// [`Tap::start`] and [`Tap::stop`].
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Tap {
    records: Records,
    counter: Counter,
    tracked: TrackedCell,
}

/// On other cache lines than what other threads write.
#[derive(Debug)]
#[repr(align(128))]
struct Counter {
    /// Instructions in all blocks that the lane's CPUs have entered, minus the whole turns.
    count: AtomicU32,
    turns: AtomicU64,
    /// The count at which [`Tap::add`] returns true, at most once round the counter.
    limit: AtomicU32,
}

impl Tap {
    /// Nothing counted, nothing recorded.
    pub(crate) const fn new() -> Self {
        Self {
            records: Queue::new(),
            counter: Counter {
                count: AtomicU32::new(0),
                turns: AtomicU64::new(0),
                limit: AtomicU32::new(TURN as u32),
            },
            tracked: TrackedCell::new(),
        }
    }

    /// Which stores are recorded with their values: must be set before anything is recorded.
    pub(crate) fn track(&self, tracked: Tracked) {
        self.tracked.set(tracked);
    }

    /// Whether the value of a store through a user mapping to this alias is looked at.
    fn tracks_mapping(&self, addr: u64) -> bool {
        let tracked = self.tracked.get();
        tracked.covers_programs() && tracked.may_cover(addr)
    }

    /// Whether the value of a store to this kernel address is looked at.
    #[inline(always)]
    pub(crate) fn tracks(&self, addr: u64) -> bool {
        self.tracked.get().may_cover(addr)
    }

    pub(crate) fn records(&self) -> &Records {
        &self.records
    }

    /// Whether events are recorded.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.records.is_open()
    }

    /// Time zero is now, on `cpu`; instructions below `known` are already translated.
    pub(crate) fn start(&self, cpu: u16, known: u32) {
        let turns = self.counter.turns.load(Ordering::Relaxed);
        let count = u64::from(self.counter.count.load(Ordering::Relaxed));
        let number = u64::from(cpu) << 8;
        let words = [kind::START | number, u64::from(known), turns, count];
        self.records.open(&words);
    }

    /// Nothing more is recorded. May be called on any thread.
    pub(crate) fn stop(&self) {
        self.records.close();
    }

    /// A block of that many instructions is entered. `true`: the alert's time has come, or
    /// [`Tap::turn`] has to be called. Only one thread adds, so the addition need not be atomic.
    #[inline(always)]
    pub(crate) fn add(&self, instructions: u32) -> bool {
        let count = self
            .counter
            .count
            .load(Ordering::Relaxed)
            .wrapping_add(instructions);
        self.counter.count.store(count, Ordering::Relaxed);
        count >= self.counter.limit.load(Ordering::Relaxed)
    }

    /// [`Tap::add`] returns true again after that many instructions; without a number only for
    /// [`Tap::turn`].
    pub(crate) fn alert(&self, instructions: Option<u32>) {
        let count = self.counter.count.load(Ordering::Relaxed);
        let limit =
            instructions.map_or(u32::MAX, |instructions| count.saturating_add(instructions));
        // Below the sign bit: a head has 32 bits for the time, and an instruction's own may be a
        // block less than zero.
        let limit = limit.min(TURN as u32);
        self.counter.limit.store(limit, Ordering::Relaxed);
    }

    /// The counter has wrapped.
    #[cold]
    pub(crate) fn turn(&self) {
        let count = self.counter.count.load(Ordering::Relaxed);
        if count < TURN as u32 {
            return;
        }
        self.counter
            .count
            .store(count - TURN as u32, Ordering::Relaxed);
        let turns = self.counter.turns.load(Ordering::Relaxed) + 1;
        self.counter.turns.store(turns, Ordering::Relaxed);
        self.records.push(&[kind::TURN, turns]);
    }

    /// Another CPU has been running since `back` instructions ago.
    pub(crate) fn cpu(&self, back: u32, cpu: u16) {
        let head = self.time(back) | kind::CPU | u64::from(cpu) << 8;
        self.records.push(&[head]);
    }

    /// Instructions below `known` are translated.
    pub(crate) fn translated(&self, known: u32) {
        self.records.push(&[kind::TRANSLATED, u64::from(known)]);
    }

    /// The upper half of a head: the time of an instruction `back` before the end of the block.
    #[inline(always)]
    fn time(&self, back: u32) -> u64 {
        u64::from(
            self.counter
                .count
                .load(Ordering::Relaxed)
                .wrapping_sub(back),
        ) << 32
    }

    /// Adds an access by a plain instruction, of 2^`size_log2` bytes, whose value nobody looks at.
    /// `false`: there is no room, and [`Tap::touch`] has to be called.
    #[inline(always)]
    pub(crate) fn access<const STORE: bool>(
        &self,
        instruction: Instruction,
        size_log2: u32,
        addr: u64,
    ) -> bool {
        let Some(at) = self.records.room() else {
            return false;
        };
        let store = if STORE { kind::STORE } else { 0 };
        let head = self.time(instruction.back())
            | instruction.head()
            | store
            | u64::from(size_log2) << kind::SIZE_SHIFT;
        self.records.write(at, &[head, addr]);
        true
    }

    /// Like [`Tap::access`], with a value of at most 8 bytes. `flags`: [`kind::VALUE`] or
    /// [`kind::ATOMIC`], and whether it stores.
    #[inline(always)]
    pub(crate) fn valued(
        &self,
        instruction: Instruction,
        flags: u64,
        size_log2: u32,
        addr: u64,
        value: u64,
    ) {
        let head = self.time(instruction.back())
            | instruction.head()
            | flags
            | u64::from(size_log2) << kind::SIZE_SHIFT;
        self.records.push(&[head, addr, value]);
    }

    /// Adds any access. `value` is called only if it is needed.
    pub(crate) fn touch(
        &self,
        instruction: Instruction,
        touch: Touch,
        value: impl FnOnce() -> u128,
    ) {
        if !self.is_open() {
            return;
        }
        let time = self.time(instruction.back());
        let tracked = match touch.user_mapping {
            true => self.tracks_mapping(touch.addr),
            false => self.tracks(touch.addr),
        };
        let compared = touch.store && tracked && !instruction.bulk_store();
        let needs_value = compared || instruction.is_atomic();
        if instruction.is_single() && touch.size.is_power_of_two() {
            let store = if touch.store { kind::STORE } else { 0 };
            let user = if touch.user_mapping { kind::USER } else { 0 };
            let size = u64::from(touch.size.ilog2().min(6)) << kind::SIZE_SHIFT;
            let head = time | instruction.head() | store | user | size;
            if !needs_value {
                self.records.push(&[head, touch.addr]);
                return;
            }
            // A word fits the short form.
            if touch.size <= 8 && !instruction.is_atomic() {
                let record = [head | kind::VALUE, touch.addr, value() as u64];
                self.records.push(&record);
                return;
            }
        }
        let mut flags = u64::from(touch.size);
        if touch.store {
            flags |= part::STORE;
        }
        if touch.user_mapping {
            flags |= part::USER;
        }
        let value = if needs_value {
            flags |= part::VALUE;
            value()
        } else {
            0
        };
        let bits = instruction.to_bits();
        let halves = [value as u64, (value >> 64) as u64];
        let head = time | kind::PART;
        self.records
            .push(&[head, touch.addr, bits, flags, halves[0], halves[1]]);
    }

    /// Adds what a watched function's entry or return reports, even if that is nothing, because it
    /// ends an access of several parts.
    pub(crate) fn watched(&self, back: u32, report: Option<WatchedEvent>) {
        let time = self.time(back);
        match report {
            None => self.records.push(&[time | kind::STEP]),
            Some(WatchedEvent::Call(call)) => self.call(time, &call),
            Some(WatchedEvent::Return(left)) => {
                let Left {
                    function,
                    stack,
                    value,
                } = left;
                let head = time | kind::RETURN | u64::from(function.0) << 8;
                self.records.push(&[head, stack, value]);
            }
            Some(WatchedEvent::Pages { page, order }) => {
                self.records.push(&[time | kind::PAGES, page, order]);
            }
        }
    }

    fn call(&self, time: u64, call: &Entered) {
        let FunctionId(function) = call.function;
        let mut words = [0; 3 + MAX_PARAMETERS];
        let (mut length, mut mask) = (3, 0);
        for (value, bit) in call.values.iter().zip(0..) {
            if let Some(value) = value {
                words[length] = *value;
                length += 1;
                mask |= 1 << bit;
            }
        }
        words[0] = time | kind::CALL | mask << kind::CALL_SHIFT | u64::from(function) << 8;
        words[1] = call.stack;
        words[2] = call.caller;
        self.records.push(&words[..length]);
    }

    pub(crate) fn mark(&self, back: u32, mark: Mark, value: u64) {
        let number = MARKS.iter().position(|m| *m == mark).unwrap_or_default();
        let head = self.time(back) | kind::MARK | (number as u64) << 8;
        self.records.push(&[head, value]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alert_comes_after_its_instructions_and_before_the_counter_wraps() {
        let tap = Box::leak(Box::new(Tap::new()));
        assert!(!tap.add(5000), "nobody asked");
        tap.alert(Some(1000));
        assert!(!tap.add(999));
        assert!(tap.add(1));
        assert!(tap.add(1), "until it is answered");
        tap.alert(None);
        assert!(!tap.add(1_000_000));
        // Beyond the counter's turn: that comes first.
        assert!(tap.add(TURN as u32 - 1_006_001));
        tap.alert(Some(1000));
        assert!(tap.add(0));
        tap.turn();
        tap.alert(Some(1000));
        assert!(!tap.add(999) && tap.add(1));
    }
}

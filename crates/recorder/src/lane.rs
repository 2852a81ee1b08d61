//! A lane: the callbacks of one QEMU thread, in order, turned into a stream of events.
//!
//! In deterministic mode all CPUs run in turns on one thread and share a lane. The lane runs behind
//! a queue on a separate thread (see [`crate::consumer`]); the [`Sink`] decides where events go.

use linemate_recording::{AccessKind, Call, CpuId, GuestAddr, Mark, Marker, Return, VirtualTime};

use crate::clock::{Clock, InstructionCount, When};
use crate::decode::AccessShape;
use crate::kind;
use crate::pairing::{MemoryCallback, Pairing, Whole};
use crate::shadow::Shadow;
use crate::watch::{Entered, Left, page_range};

/// Receives the finished events of a lane.
pub(crate) trait Sink {
    fn access(&mut self, access: &Whole);
    /// A watched function was entered.
    fn call(&mut self, call: &Call);
    /// A watched function returns.
    fn return_(&mut self, return_: &Return);
    /// A mark in the run.
    fn mark(&mut self, marker: &Marker);
}

/// What a memory callback needs to know about its instruction, in the 64 bits that QEMU passes to
/// it: no look-up, no cache miss.
///
/// The lower half is the head of a record (see [`crate::tap`]) without the time; above it are the
/// distance in instructions from the end of its block, its shape, and whether it needs the slow
/// path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Instruction(u64);

impl Instruction {
    const ID_SHIFT: u32 = 8;
    const ID_BITS: u32 = 24;
    const BACK_SHIFT: u32 = 32;
    const BACK_BITS: u32 = 12;
    const SHAPE_SHIFT: u32 = Self::BACK_SHIFT + Self::BACK_BITS;
    const ATOMIC: u64 = 1;
    const WIDE: u64 = 2;
    /// Not plain: its accesses may have several parts.
    const SLOW: u64 = 1 << 63;

    /// `id` is its number in the recording; it is `back` instructions before the end of its block,
    /// including itself; `bulk_store`: its stores are not tracked (see [`Shadow`]). `None` if a
    /// number is too large.
    pub(crate) fn new(id: u32, back: u32, shape: AccessShape, bulk_store: bool) -> Option<Self> {
        // An instruction beyond them is not recorded, which `translate` reports: a callback gets
        // only 64 bits.
        if id >> Self::ID_BITS != 0 || back >> Self::BACK_BITS != 0 {
            return None;
        }
        let (kind, bytes) = match shape {
            AccessShape::Single => (0, 1),
            AccessShape::Atomic { bytes } => (Self::ATOMIC, bytes),
            AccessShape::Wide { bytes } => (Self::WIDE, bytes),
        };
        let size = u64::from(bytes.max(1).ilog2() & 7);
        let bulk = if bulk_store { kind::BULK } else { 0 };
        let slow = if kind == 0 { 0 } else { Self::SLOW };
        Some(Self(
            kind::ACCESS
                | bulk
                | u64::from(id) << Self::ID_SHIFT
                | u64::from(back) << Self::BACK_SHIFT
                | (kind | size << 2) << Self::SHAPE_SHIFT
                | slow,
        ))
    }

    /// Excludes it from the fast path.
    pub(crate) fn slowed(self) -> Self {
        Self(self.0 | Self::SLOW)
    }

    /// As passed to QEMU.
    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    /// As QEMU passes it back.
    #[inline(always)]
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The lower half of a record's head.
    #[inline(always)]
    pub(crate) fn head(self) -> u64 {
        self.0 & u64::from(u32::MAX)
    }

    /// Whether each of its callbacks is an access, and nothing excludes the fast path.
    #[inline(always)]
    pub(crate) fn is_plain(self) -> bool {
        self.0 & Self::SLOW == 0
    }

    #[inline]
    fn id(self) -> u32 {
        (self.0 >> Self::ID_SHIFT & ((1 << Self::ID_BITS) - 1)) as u32
    }

    /// Instructions to the end of its block, including itself.
    #[inline(always)]
    pub(crate) fn back(self) -> u32 {
        (self.0 >> Self::BACK_SHIFT & ((1 << Self::BACK_BITS) - 1)) as u32
    }

    /// Whether each of its callbacks is an access.
    #[inline]
    pub(crate) fn is_single(self) -> bool {
        self.0 >> Self::SHAPE_SHIFT & 3 == 0
    }

    /// Whether its load and its store are one access.
    #[inline]
    pub(crate) fn is_atomic(self) -> bool {
        self.0 >> Self::SHAPE_SHIFT & 3 == Self::ATOMIC
    }

    /// Whether its load and its store are one access of 2^`size_log2` bytes.
    #[inline]
    pub(crate) fn is_atomic_of(self, size_log2: u32) -> bool {
        self.0 >> Self::SHAPE_SHIFT & 31 == Self::ATOMIC | u64::from(size_log2) << 2
    }

    /// The atomic instruction of 2^`size_log2` bytes whose record has this `head`.
    pub(crate) fn atomic(head: u64, size_log2: u64) -> Self {
        let shape = Self::ATOMIC | size_log2 << 2;
        Self(head & !kind::BULK & u64::from(u32::MAX) | shape << Self::SHAPE_SHIFT)
    }

    fn shape(self) -> AccessShape {
        let bytes = 1 << (self.0 >> (Self::SHAPE_SHIFT + 2) & 7);
        match self.0 >> Self::SHAPE_SHIFT & 3 {
            Self::ATOMIC => AccessShape::Atomic { bytes },
            Self::WIDE => AccessShape::Wide { bytes },
            _ => AccessShape::Single,
        }
    }

    /// Whether it is a repeated string instruction that stores.
    #[inline]
    pub(crate) fn bulk_store(self) -> bool {
        self.0 & kind::BULK != 0
    }
}

/// A memory callback, before it has a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub(crate) store: bool,
    /// The address to record.
    pub(crate) addr: u64,
    pub(crate) size: u8,
    /// Through a user-space address.
    pub(crate) user_mapping: bool,
}

/// An access by a plain instruction, as in its record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain {
    pub(crate) head: u64,
    /// The address to record.
    pub(crate) addr: u64,
    /// The stored value, if it is looked at; anything above its size is meaningless.
    pub(crate) value: Option<u64>,
}

/// The state of one lane.
#[derive(Debug)]
pub(crate) struct Lane<S> {
    clock: Clock,
    pairing: Pairing,
    shadow: Option<Shadow>,
    /// The CPU of the last event; none before the first, and after one that went idle.
    current: Option<u16>,
    idle: Vec<bool>,
    sink: S,
}

impl<S: Sink> Lane<S> {
    /// A lane of one of `cpus` CPUs, or of all of them.
    pub(crate) fn new(cpus: usize, shadow: Option<Shadow>, sink: S) -> Self {
        Self {
            clock: Clock::new(InstructionCount(0)),
            pairing: Pairing::default(),
            shadow,
            current: None,
            idle: vec![false; cpus],
            sink,
        }
    }

    /// Where the events went.
    pub(crate) fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// The latest time returned.
    pub(crate) fn now(&self) -> VirtualTime {
        self.clock.now()
    }

    /// Sets time to zero.
    pub(crate) fn start(&mut self, count: InstructionCount) {
        self.current = None;
        self.idle.fill(false);
        self.clock = Clock::new(count);
    }

    /// [`Lane::touch`] for a plain access. `false`: nothing was done, and the general function has
    /// to be called.
    #[inline(always)]
    pub(crate) fn plain(&mut self, when: When, plain: Plain) -> bool {
        // The fast path has no state but the clock and the shadow: it must not overtake an access
        // that waits for its rest.
        if Some(when.cpu) != self.current || self.pairing.is_open() {
            return false;
        }
        let size_log2 = ((plain.head >> kind::SIZE_SHIFT) as u8 & 7).min(6);
        let store = plain.head & kind::STORE != 0;
        let silent = match (&mut self.shadow, plain.value) {
            (Some(shadow), Some(value)) => {
                shadow.learn_word(plain.addr, size_log2, value)
                    && shadow.compares(plain.head & kind::USER != 0)
            }
            // A store whose value is not looked at makes the bytes unknown; one outside tracked
            // memory changes nothing that is known.
            (Some(shadow), None) if store && plain.head & (kind::USER | kind::BULK) != 0 => {
                shadow.forget(plain.addr, 1 << size_log2);
                false
            }
            _ => false,
        };
        let instruction = Instruction::from_bits(plain.head).id();
        self.sink.access(&Whole {
            time: self.clock.at(when.count),
            cpu: when.cpu,
            instruction,
            addr: plain.addr,
            size: 1 << size_log2,
            kind: if store {
                AccessKind::Store
            } else {
                AccessKind::Load
            },
            silent,
            user_mapping: plain.head & kind::USER != 0,
        });
        true
    }

    /// A memory callback. `value` is what was loaded or stored, if it matters.
    #[inline]
    pub(crate) fn touch(
        &mut self,
        when: When,
        instruction: Instruction,
        touch: Touch,
        value: Option<u128>,
    ) {
        let When { count, cpu } = when;
        let time = self.clock.at(count);
        if Some(cpu) != self.current {
            self.switch(cpu, time);
        }
        if !instruction.is_single() || self.pairing.is_open() {
            return self.touch_in_parts(time, cpu, instruction, touch, value);
        }
        let silent = touch.store && self.is_silent(instruction, &touch, value);
        let kind = if touch.store {
            AccessKind::Store
        } else {
            AccessKind::Load
        };
        let whole = Whole {
            time,
            cpu,
            instruction: instruction.id(),
            addr: touch.addr,
            size: touch.size,
            kind,
            silent,
            user_mapping: touch.user_mapping,
        };
        add(&mut self.sink, &whole);
    }

    /// A callback that may be only a part of an access, or end one.
    #[inline(never)]
    fn touch_in_parts(
        &mut self,
        time: VirtualTime,
        cpu: u16,
        instruction: Instruction,
        touch: Touch,
        value: Option<u128>,
    ) {
        let shape = instruction.shape();
        let mut piece = MemoryCallback {
            time,
            cpu,
            instruction: instruction.id(),
            store: touch.store,
            addr: touch.addr,
            size: touch.size,
            value: 0,
            silent: false,
            user_mapping: touch.user_mapping,
        };
        if matches!(shape, AccessShape::Atomic { .. }) {
            // Its load half shows the old value, so the contents of memory need not be known here;
            // but later stores may need them.
            piece.value = value.unwrap_or(0);
            self.is_silent(instruction, &touch, value);
        } else if touch.store {
            piece.silent = self.is_silent(instruction, &touch, value);
        }
        let sink = &mut self.sink;
        self.pairing
            .push(shape, &piece, &mut |whole| add(sink, &whole));
    }

    /// Compares what is stored (or, for an atomic instruction, loaded) with the known contents of
    /// memory, and updates them.
    ///
    /// Plain loads would show the contents too, but at a tenth of the whole cost of recording, for
    /// few more silent stores.
    #[inline]
    fn is_silent(&mut self, instruction: Instruction, touch: &Touch, value: Option<u128>) -> bool {
        let Some(shadow) = &mut self.shadow else {
            return false;
        };
        let compares = shadow.compares(touch.user_mapping);
        // Code that is not recorded may have written through the mapping, too.
        let unseen = touch.user_mapping && (!compares || value.is_none());
        if unseen || instruction.bulk_store() {
            shadow.forget(touch.addr, touch.size);
            return false;
        }
        value.is_some_and(|value| shadow.learn(touch.addr, touch.size, value)) && compares
    }

    /// Another CPU runs than at the last event, or the same after it was idle.
    #[cold]
    fn switch(&mut self, cpu: u16, time: VirtualTime) {
        self.finish_access();
        self.current = Some(cpu);
        if let Some(idle) = self.idle.get_mut(usize::from(cpu)) {
            if std::mem::take(idle) {
                self.sink.mark(&Marker {
                    time,
                    cpu: CpuId(cpu),
                    mark: Mark::Resume,
                    value: 0,
                });
            }
        }
    }

    fn finish_access(&mut self) {
        let sink = &mut self.sink;
        self.pairing.flush(&mut |whole| add(sink, &whole));
    }

    /// Prepares for an event that may come between the parts of an access; returns its time.
    fn between(&mut self, when: When) -> VirtualTime {
        let time = self.clock.at(when.count);
        if Some(when.cpu) != self.current {
            self.switch(when.cpu, time);
        }
        time
    }

    /// Prepares for an event other than an access; returns its time.
    pub(crate) fn step(&mut self, when: When) -> VirtualTime {
        let time = self.between(when);
        self.finish_access();
        time
    }

    /// A watched function is entered.
    pub(crate) fn call(&mut self, when: When, entered: &Entered) {
        let time = self.step(when);
        self.sink.call(&Call {
            time,
            cpu: CpuId(when.cpu),
            function: entered.function,
            stack: GuestAddr(entered.stack),
            caller: GuestAddr(entered.caller),
            values: entered.values,
        });
    }

    /// A watched function returns.
    pub(crate) fn return_(&mut self, when: When, left: &Left) {
        let time = self.step(when);
        self.sink.return_(&Return {
            time,
            cpu: CpuId(when.cpu),
            function: left.function,
            stack: GuestAddr(left.stack),
            value: left.value,
        });
    }

    /// The page allocator handed out a `struct page` of the array at `vmemmap`, and those after it.
    pub(crate) fn pages(&mut self, vmemmap: u64, page: u64, order: u64) {
        let range = page_range(vmemmap, page, order);
        if let (Some(shadow), Some(range)) = (&mut self.shadow, range) {
            shadow.forget_physical(range);
        }
    }

    /// Start, stop, idle, or a mark about programs.
    pub(crate) fn mark(&mut self, when: When, mark: Mark, value: u64) {
        // A page's mark comes between the pieces of an access to it, and must not end that.
        let time = if mark == Mark::Page {
            self.between(when)
        } else {
            self.step(when)
        };
        self.sink.mark(&Marker {
            time,
            cpu: CpuId(when.cpu),
            mark,
            value,
        });
        if mark == Mark::Idle {
            if let Some(idle) = self.idle.get_mut(usize::from(when.cpu)) {
                *idle = true;
            }
            // Its next event is preceded by a switch.
            self.current = None;
        }
    }

    /// Recording ends: nothing may stay open.
    pub(crate) fn finish(&mut self) {
        self.finish_access();
    }

    /// Atomic instructions that faulted between load and store, and ran again.
    pub(crate) fn abandoned(&self) -> u64 {
        self.pairing.abandoned()
    }
}

/// [`Sink::access`] out of line.
#[inline(never)]
fn add<S: Sink>(sink: &mut S, whole: &Whole) {
    sink.access(whole);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shadow::{Compared, EVERYBODY};

    const MAP: u64 = 0xffff_8880_0000_0000;

    /// The resulting events, in words.
    #[derive(Debug, Default)]
    struct LaneLog(Vec<String>);

    impl Sink for LaneLog {
        fn access(&mut self, a: &Whole) {
            let silent = if a.silent { " silent" } else { "" };
            let (time, cpu, id) = (a.time.0, a.cpu, a.instruction);
            let offset = a.addr - MAP;
            self.0.push(format!(
                "@{time} cpu{cpu} i{id} {:?} {} {offset}{silent}",
                a.kind, a.size
            ));
        }
        fn call(&mut self, call: &Call) {
            self.0.push(format!("{call:?}"));
        }
        fn return_(&mut self, return_: &Return) {
            self.0.push(format!("{return_:?}"));
        }
        fn mark(&mut self, m: &Marker) {
            self.0
                .push(format!("@{} cpu{} {:?}", m.time.0, m.cpu.0, m.mark));
        }
    }

    fn lane() -> Lane<LaneLog> {
        let shadow = Shadow::new(1 << 20, MAP, EVERYBODY).unwrap();
        let mut lane = Lane::new(2, Some(shadow), LaneLog::default());
        lane.start(InstructionCount(0));
        lane
    }

    /// `instruction` accesses memory on `cpu` in a block that ends when `count` instructions have
    /// been counted.
    fn touch(
        lane: &mut Lane<LaneLog>,
        (count, cpu, instruction): (i64, u16, Instruction),
        touch: Touch,
        value: u128,
    ) {
        let count = InstructionCount(count - i64::from(instruction.back()));
        lane.touch(When { count, cpu }, instruction, touch, Some(value));
    }

    fn instruction(id: u32, back: u32, shape: AccessShape) -> Instruction {
        Instruction::new(id, back, shape, false).unwrap()
    }

    fn kernel(store: bool, offset: u64, size: u8) -> Touch {
        Touch {
            store,
            addr: MAP + offset,
            size,
            user_mapping: false,
        }
    }

    fn mapped(store: bool, offset: u64, size: u8) -> Touch {
        Touch {
            user_mapping: true,
            ..kernel(store, offset, size)
        }
    }

    #[test]
    fn an_instruction_survives_its_bits() {
        for (shape, bulk) in [
            (AccessShape::Single, false),
            (AccessShape::Single, true),
            (AccessShape::Atomic { bytes: 16 }, false),
            (AccessShape::Wide { bytes: 64 }, false),
        ] {
            let packed = Instruction::new(0x00ff_fffe, 512, shape, bulk).unwrap();
            assert_eq!(packed.is_plain(), shape == AccessShape::Single);
            let back = Instruction::from_bits(packed.to_bits());
            let parts = (back.id(), back.back(), back.shape(), back.bulk_store());
            assert_eq!(parts, (0x00ff_fffe, 512, shape, bulk));
            assert_eq!(back.is_single(), shape == AccessShape::Single);
        }
        assert_eq!(
            Instruction::new(1 << 24, 1, AccessShape::Single, false),
            None
        );
        assert_eq!(
            Instruction::new(1, 1 << 12, AccessShape::Single, false),
            None
        );
    }

    #[test]
    fn accesses_have_their_time_and_what_is_known_of_them() {
        let mut lane = lane();
        let (plain, atomic) = (
            instruction(1, 3, AccessShape::Single),
            instruction(2, 1, AccessShape::Atomic { bytes: 8 }),
        );
        touch(&mut lane, (5, 0, plain), kernel(true, 64, 8), 7);
        touch(&mut lane, (5, 0, plain), kernel(true, 64, 8), 7);
        touch(&mut lane, (5, 0, plain), kernel(true, 64, 8), 8);
        touch(&mut lane, (5, 0, atomic), kernel(false, 64, 8), 8);
        touch(&mut lane, (5, 0, atomic), kernel(true, 64, 8), 9);
        // The store half showed the new value.
        touch(&mut lane, (5, 0, plain), kernel(true, 64, 8), 9);
        assert_eq!(
            lane.sink().0,
            [
                "@2 cpu0 i1 Store 8 64",
                "@2 cpu0 i1 Store 8 64 silent",
                "@2 cpu0 i1 Store 8 64",
                "@4 cpu0 i2 Rmw 8 64",
                "@4 cpu0 i1 Store 8 64 silent",
            ]
        );
    }

    #[test]
    fn unseen_ways_of_writing_are_never_silent() {
        let mut lane = lane();
        let plain = instruction(1, 1, AccessShape::Single);
        let bulk = Instruction::new(2, 1, AccessShape::Single, true).unwrap();
        touch(&mut lane, (1, 0, plain), kernel(true, 0, 8), 7);
        touch(&mut lane, (1, 0, bulk), kernel(true, 0, 8), 7);
        touch(&mut lane, (1, 0, plain), kernel(true, 0, 8), 7);
        let no_value = When {
            count: InstructionCount(1),
            cpu: 0,
        };
        lane.touch(no_value, plain, mapped(true, 0, 8), None);
        touch(&mut lane, (1, 0, plain), kernel(true, 0, 8), 7);
        assert!(
            lane.sink().0.iter().all(|line| !line.contains("silent")),
            "{:?}",
            lane.sink().0
        );
    }

    /// The lines of stores of one value: by a program, by it again, by the kernel, by the program.
    fn stored_by_both(compared: Compared) -> Vec<bool> {
        let shadow = Shadow::new(1 << 20, MAP, compared).unwrap();
        let mut lane = Lane::new(1, Some(shadow), LaneLog::default());
        lane.start(InstructionCount(0));
        let plain = instruction(1, 1, AccessShape::Single);
        for by in [mapped, mapped, kernel, mapped] {
            touch(&mut lane, (1, 0, plain), by(true, 0, 8), 7);
        }
        let lines = lane.sink().0.iter();
        lines.map(|line| line.ends_with("silent")).collect()
    }

    #[test]
    fn stores_of_programs_are_compared_where_all_their_code_is_recorded() {
        assert_eq!(stored_by_both(EVERYBODY), [false, true, true, true]);
        let programs = Compared {
            kernel: false,
            ..EVERYBODY
        };
        assert_eq!(stored_by_both(programs), [false, true, false, true]);
        let kernel = Compared {
            programs: false,
            ..EVERYBODY
        };
        assert_eq!(stored_by_both(kernel), [false; 4]);
    }

    fn idle(lane: &mut Lane<LaneLog>, count: i64) {
        let count = InstructionCount(count);
        lane.mark(When { count, cpu: 0 }, Mark::Idle, 0);
    }

    #[test]
    fn an_idle_cpu_resumes_with_its_next_event() {
        let mut lane = lane();
        let plain = instruction(1, 1, AccessShape::Single);
        idle(&mut lane, 3);
        touch(&mut lane, (4, 1, plain), kernel(false, 8, 4), 0);
        touch(&mut lane, (8, 0, plain), kernel(false, 8, 4), 0);
        idle(&mut lane, 7);
        touch(&mut lane, (8, 0, plain), kernel(false, 8, 4), 0);
        assert_eq!(
            lane.sink().0,
            [
                "@3 cpu0 Idle",
                "@3 cpu1 i1 Load 4 8",
                "@7 cpu0 Resume",
                "@7 cpu0 i1 Load 4 8",
                "@7 cpu0 Idle",
                "@7 cpu0 Resume",
                "@7 cpu0 i1 Load 4 8",
            ]
        );
    }

    #[test]
    fn another_cpu_ends_what_is_open() {
        let mut lane = lane();
        let wide = instruction(1, 1, AccessShape::Wide { bytes: 32 });
        let single = instruction(2, 1, AccessShape::Single);
        let atomic = instruction(3, 1, AccessShape::Atomic { bytes: 4 });
        touch(&mut lane, (0, 0, wide), kernel(false, 0, 16), 0);
        touch(&mut lane, (0, 1, single), kernel(false, 64, 4), 0);
        touch(&mut lane, (0, 0, atomic), kernel(false, 0, 4), 0);
        lane.finish();
        assert_eq!(
            lane.sink().0,
            ["@0 cpu0 i1 Load 16 0", "@0 cpu1 i2 Load 4 64"]
        );
        assert_eq!(lane.abandoned(), 1);
    }
}

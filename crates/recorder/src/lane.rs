//! A lane: the callbacks of one QEMU thread, in order, turned into a stream of events.
//!
//! In deterministic mode all CPUs run in turns on one thread and share a lane. Nothing on the access path locks or
//! allocates; where events go is the [`Sink`]'s business.

use std::sync::atomic::{AtomicU32, Ordering};

use linemate_recording::{Call, CpuId, FunctionId, Mark, Marker, Return, VirtualTime};

use crate::clock::{Clock, Counters};
use crate::decode::Shape;
use crate::pairing::{Pairing, Piece, Whole};
use crate::shadow::Shadow;
use crate::watch::{Calls, Cpu, Report, Watch, page_range};

/// Takes the finished events of a lane.
pub(crate) trait Sink {
    /// An access.
    fn access(&mut self, access: &Whole);
    /// A watched function was entered.
    fn call(&mut self, call: &Call);
    /// A watched function returns.
    fn return_(&mut self, return_: &Return);
    /// A point of the run.
    fn mark(&mut self, marker: &Marker);
}

/// An instruction's number, given at its first access: numbers are dense, and in the order of a run.
#[derive(Debug)]
pub(crate) struct Number(AtomicU32);

impl Number {
    const NONE: u32 = u32::MAX;

    /// Not given yet.
    pub(crate) fn none() -> Self {
        Self(AtomicU32::new(Self::NONE))
    }

    /// The number, if it has one.
    #[inline]
    pub(crate) fn get(&self) -> Option<u32> {
        let id = self.0.load(Ordering::Relaxed);
        (id != Self::NONE).then_some(id)
    }

    /// Gives it.
    pub(crate) fn set(&self, id: u32) {
        self.0.store(id, Ordering::Relaxed);
    }
}

/// What an instruction in a translated block knows of itself.
#[derive(Debug)]
pub(crate) struct Instruction {
    /// Identifies it in the recording.
    pub(crate) id: Number,
    /// Guest-virtual address.
    pub(crate) pc: u64,
    /// Instructions from this one (included) to the end of its block.
    pub(crate) back: u32,
    /// How its callbacks make accesses.
    pub(crate) shape: Shape,
    /// It clears or copies in bulk: what it stores is not tracked (see [`Shadow`]).
    pub(crate) bulk_store: bool,
}

/// A memory callback, before it has a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    /// Load or store.
    pub(crate) store: bool,
    /// The address to record.
    pub(crate) addr: u64,
    /// Bytes.
    pub(crate) size: u8,
    /// Through a user-space address.
    pub(crate) user_mapping: bool,
}

/// No CPU has run yet, or the one that ran is idle.
const NOBODY: u16 = u16::MAX;

/// The state of one lane.
#[derive(Debug)]
pub(crate) struct Lane<S> {
    clock: Clock,
    pairing: Pairing,
    shadow: Option<Shadow>,
    calls: Calls,
    current: u16,
    idle: Vec<bool>,
    sink: S,
}

impl<S: Sink> Lane<S> {
    /// A lane of one of `cpus` CPUs, or of all of them.
    pub(crate) fn new(cpus: usize, shadow: Option<Shadow>, sink: S) -> Self {
        Self {
            clock: Clock::default(),
            pairing: Pairing::default(),
            shadow,
            calls: Calls::default(),
            current: NOBODY,
            idle: vec![false; cpus],
            sink,
        }
    }

    /// Where the events went.
    pub(crate) fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// The latest time given out.
    pub(crate) fn now(&self) -> VirtualTime {
        self.clock.now()
    }

    /// Sets time to zero. `cpu` is the only CPU of a lane that is not shared.
    pub(crate) fn start(&mut self, counters: &Counters, cpu: u16) {
        self.current = NOBODY;
        self.idle.fill(false);
        self.clock.start(counters.of(cpu));
    }

    /// A memory callback. `value` gives the bytes loaded or stored and is asked only where they matter.
    #[inline]
    pub(crate) fn touch(
        &mut self,
        counters: &Counters,
        (cpu, instruction, id): (u16, &Instruction, u32),
        touch: Touch,
        value: impl FnOnce() -> u128,
    ) {
        let time = self.clock.at(counters.of(cpu), instruction.back);
        if cpu != self.current {
            self.switch(cpu, time);
        }
        let mut piece = Piece {
            time,
            cpu,
            instruction: id,
            store: touch.store,
            addr: touch.addr,
            size: touch.size,
            value: 0,
            silent: false,
            user_mapping: touch.user_mapping,
        };
        self.look(instruction, &mut piece, value);
        if instruction.shape == Shape::Single && !self.pairing.is_open() {
            self.sink.access(&Whole::of(&piece));
        } else {
            let sink = &mut self.sink;
            self.pairing
                .push(instruction.shape, &piece, &mut |whole| sink.access(&whole));
        }
    }

    /// Compares a callback's value with what is known of memory.
    #[inline]
    fn look(&mut self, instruction: &Instruction, piece: &mut Piece, value: impl FnOnce() -> u128) {
        let atomic = matches!(instruction.shape, Shape::Atomic { .. });
        let Some(shadow) = &mut self.shadow else {
            if atomic {
                piece.value = value();
            }
            return;
        };
        if piece.user_mapping || (instruction.bulk_store && piece.store) {
            if piece.store {
                shadow.forget(piece.addr, piece.size);
            }
            if atomic {
                piece.value = value();
            }
            return;
        }
        if atomic || shadow.covers(piece.addr) {
            piece.value = value();
            piece.silent = shadow.learn(piece.addr, piece.size, piece.value) && piece.store;
        }
    }

    /// Another CPU runs than at the last event, or the same after it was idle.
    #[cold]
    fn switch(&mut self, cpu: u16, time: VirtualTime) {
        self.finish_access();
        self.current = cpu;
        if let Some(idle) = self.idle.get_mut(usize::from(cpu))
            && std::mem::take(idle)
        {
            self.sink.mark(&Marker {
                time,
                cpu: CpuId(cpu),
                mark: Mark::Resume,
                guest_ns: 0,
            });
        }
    }

    fn finish_access(&mut self) {
        let sink = &mut self.sink;
        self.pairing.flush(&mut |whole| sink.access(&whole));
    }

    /// Prepares for an event other than an access; gives its time.
    fn step(&mut self, counters: &Counters, cpu: u16, back: u32) -> VirtualTime {
        let time = self.clock.at(counters.of(cpu), back);
        if cpu != self.current {
            self.switch(cpu, time);
        }
        self.finish_access();
        time
    }

    /// A watched function is entered, or (`returns`) left.
    pub(crate) fn watched(
        &mut self,
        counters: &Counters,
        (cpu, back): (u16, u32),
        (watch, id, returns): (&Watch, FunctionId, bool),
        vmemmap: u64,
        state: &impl Cpu,
    ) {
        let Some(function) = watch.function(id) else {
            return;
        };
        let at = (self.step(counters, cpu, back), CpuId(cpu));
        let (sink, shadow) = (&mut self.sink, &mut self.shadow);
        let mut report = |report| match report {
            Report::Call(call) => sink.call(&call),
            Report::Return(return_) => sink.return_(&return_),
            Report::Pages { page, order } => {
                if let Some(shadow) = shadow.as_mut()
                    && let Some(range) = page_range(vmemmap, page, order)
                {
                    shadow.forget_physical(range);
                }
            }
        };
        if returns {
            self.calls.leave((id, function), at, state, &mut report);
        } else {
            self.calls.enter((id, function), at, state, &mut report);
        }
    }

    /// Start, stop or idle.
    pub(crate) fn mark(
        &mut self,
        counters: &Counters,
        (cpu, back): (u16, u32),
        mark: Mark,
        guest_ns: u64,
    ) {
        let time = self.step(counters, cpu, back);
        self.sink.mark(&Marker {
            time,
            cpu: CpuId(cpu),
            mark,
            guest_ns,
        });
        if mark == Mark::Idle {
            if let Some(idle) = self.idle.get_mut(usize::from(cpu)) {
                *idle = true;
            }
            // Its next event is told apart by the switch that it causes.
            self.current = NOBODY;
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

//! The events of a recording, as every reader sees them.
//!
//! Nothing here knows how an event is written to disk (see [`crate::format`]) or what a function or
//! an address means: that is up to the types crate and to attribution.

use std::fmt;

use linemate_units::{CpuId, GuestAddr, Instructions};
use serde::{Deserialize, Serialize};

/// Guest instructions retired by **all** CPUs since recording started.
///
/// In deterministic mode QEMU runs the CPUs in turn, so this is one clock for the whole guest: it
/// never goes back along the stream. In parallel mode it is the CPU's own count and only monotonic
/// per CPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct VirtualTime(pub u64);

impl VirtualTime {
    /// The instructions since then; none if that is later.
    #[inline]
    pub fn since(self, start: VirtualTime) -> Instructions {
        Instructions(self.0.saturating_sub(start.0))
    }
}

/// Index of a function in the recording's function table ([`crate::FunctionTable`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FunctionId(pub u32);

/// What an access does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AccessKind {
    Load,
    Store,
    /// An atomic read-modify-write: a `lock`ed instruction or `xchg` with memory, both halves in
    /// one.
    Rmw,
}

/// One load, store or atomic read-modify-write by one CPU at one time from one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub time: VirtualTime,
    pub cpu: CpuId,
    /// The instruction. In the lower half of the address space: user code; if programs are
    /// recorded, its code address (see [`crate::ProgramFiles`]).
    pub pc: GuestAddr,
    /// The first byte touched.
    pub addr: GuestAddr,
    /// Bytes touched, 1 to 64. An access may cross a line.
    pub size: u8,
    /// Load, store or RMW.
    pub kind: AccessKind,
    /// A store (or RMW) known to have left memory unchanged. `false` also if that is unknown.
    pub silent: bool,
    /// The instruction used a user-space address (user code, or the kernel copying to or from user
    /// space).
    pub user_mapping: bool,
}

/// A recorded function was entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub time: VirtualTime,
    pub cpu: CpuId,
    pub function: FunctionId,
    /// The stack pointer at entry: it points at the return address. Pairs a call with its
    /// [`Return`].
    pub stack: GuestAddr,
    /// The caller (the return address); zero if the table does not ask for it.
    pub caller: GuestAddr,
    /// The values of the parameters that the table lists, in its order. A value that a
    /// [`crate::Meaning::StructPointer`] parameter cannot have (not a kernel address) is `None`.
    pub values: [Option<u64>; crate::MAX_PARAMETERS],
}

/// A recorded function that the table marks `returns` has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return {
    pub time: VirtualTime,
    /// The CPU (a function that slept may return on another one than it was called on).
    pub cpu: CpuId,
    pub function: FunctionId,
    /// The stack pointer at the return instruction: equals [`Call::stack`] of its call.
    pub stack: GuestAddr,
    /// The returned value (`rax`).
    pub value: u64,
}

/// A point in a run that the guest or the recorder marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    Start,
    Stop,
    /// The CPU has nothing to run and waits for an interrupt.
    Idle,
    /// The CPU runs again.
    Resume,
    /// The CPU's turn begins: QEMU runs one CPU at a time, and everything executed since its last
    /// turn ended was other CPUs' instructions. Every turn has its mark, even one without events.
    /// Recordings of format 1 have none.
    Turn,
    /// From here on the CPU uses other page tables: another process, as far as programs are
    /// concerned. [`Marker::value`] is the guest-physical address of their root, without the bits
    /// that are not part of the address. Only if programs are recorded.
    Space,
    /// From here on a page of memory is accessed at another user-space address: [`MappedPage::of`]
    /// says which page, and where. Before the first access through a user mapping to each page, and
    /// whenever it changes, in whichever process. Only if programs are recorded.
    Page,
}

/// A [`Mark`] at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    pub time: VirtualTime,
    pub cpu: CpuId,
    pub mark: Mark,
    /// For a start or stop the guest's time stamp counter, in nanoseconds of guest time, if the
    /// guest passed it; for [`Mark::Space`] and [`Mark::Page`] their values; else zero.
    pub value: u64,
}

/// The value of [`Mark::Page`]: a page of the guest's memory and its place in the address space
/// that uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedPage {
    /// The page: its guest-physical address divided by 4096. Below 2^28, because no recorded guest
    /// has more than a tebibyte.
    pub frame: u64,
    /// Where it is mapped: the user-space address divided by 4096. Below 2^35.
    pub page: u64,
}

impl MappedPage {
    const FRAME_BITS: u32 = 28;

    /// From a marker's value.
    #[must_use]
    pub fn of(value: u64) -> Self {
        Self {
            frame: value & ((1 << Self::FRAME_BITS) - 1),
            page: value >> Self::FRAME_BITS,
        }
    }

    /// As a marker's value; `None` for a frame that no recorded guest has.
    #[must_use]
    pub fn value(self) -> Option<u64> {
        (self.frame >> Self::FRAME_BITS == 0 && self.page >> (64 - Self::FRAME_BITS) == 0)
            .then_some(self.page << Self::FRAME_BITS | self.frame)
    }
}

/// One event of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Access(Access),
    /// A function entry: a sighting of each of its struct pointers, an allocation, a context
    /// switch, an interrupt.
    Call(Call),
    /// The return of a function, with its value.
    Return(Return),
    /// Start, stop, idle, resume.
    Marker(Marker),
}

impl fmt::Debug for VirtualTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

impl fmt::Debug for FunctionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fn{}", self.0)
    }
}

//! Which calls are open when an access is made: read from the accesses themselves.
//!
//! A call stores its return address, and the return that ends it loads it from there. So each stack
//! is a list of *frames*, known by the address of their return address:
//!
//! ```text
//!   call at A    ─►  [… A]      a frame; frames at or below A on that stack are over: their return addresses are overwritten
//!   return at A  ─►  […]        that frame is over, and all that were begun after it
//!   __switch_to  ─►  the frames of the task that the CPU runs from now on
//!   interrupt    ─►  [… I]      a frame that an interrupt return ends; it may be on another stack
//! ```
//!
//! A function that is jumped to (a tail call) runs in the frame of the one that jumps: it is under
//! it, and under that one's caller. Calls whose returns are not seen (a task that exits, a stack
//! that is unwound, a return address that is moved) are over when the stack is used again. Returns
//! without a call (its call was before the recording began) end nothing above them.

use std::ops::Range;

use linemate_answers::Balance;
use linemate_code::{Transfer, Transfers};
use linemate_recording::{Access, AccessKind, CpuId, GuestAddr, VirtualTime};
use linemate_types::ByteSize;
use rustc_hash::FxHashMap;

/// Bytes of a return address.
const SLOT: u8 = 8;
/// Bytes of a kernel stack on x86-64, which is also its alignment. Where stacks have more (KASAN),
/// or are not aligned (of interrupts), frames that no return ends stay for longer.
const STACK_BYTES: ByteSize = ByteSize(16 << 10);
/// The most frames of a task: twice as many as fit its stack and an interrupt's, if each has a
/// return address and nothing else.
const FRAMES_MAX: usize = 8192;

/// A call or an interrupt that has not returned.
#[derive(Clone, Copy, Debug)]
struct Frame {
    /// Where its return address is; of an interrupt, where its entry finds the stack.
    slot: GuestAddr,
    /// Whether the examined function runs in it or in one before it.
    under: bool,
    interrupt: bool,
    /// Whether nothing has been accessed in it.
    fresh: bool,
}

/// The stacks of all tasks.
#[derive(Debug)]
pub(crate) struct CallStacks<'c> {
    transfers: &'c Transfers,
    /// The code of the examined function.
    code: &'c [Range<GuestAddr>],
    /// By CPU: the frames of the task that it runs.
    running: Vec<Vec<Frame>>,
    /// By CPU: when an instruction returned from an interrupt last.
    interrupt_ends: Vec<Option<VirtualTime>>,
    /// By task: the frames of those that no CPU runs.
    waiting: FxHashMap<GuestAddr, Vec<Frame>>,
    /// How well calls and returns fit.
    pub(crate) balance: Balance,
    /// How often the function came onto a stack that it was not on.
    pub(crate) entered: u64,
}

impl<'c> CallStacks<'c> {
    /// Of a recording with that many CPUs. `code` is that of the examined function.
    pub(crate) fn new(
        transfers: &'c Transfers,
        code: &'c [Range<GuestAddr>],
        cpus: usize,
    ) -> CallStacks<'c> {
        CallStacks {
            transfers,
            code,
            running: vec![Vec::new(); cpus],
            interrupt_ends: vec![None; cpus],
            waiting: FxHashMap::default(),
            balance: Balance::default(),
            entered: 0,
        }
    }

    /// Whether an instruction is the function's own.
    #[inline]
    pub(crate) fn is_own(&self, pc: GuestAddr) -> bool {
        self.code.iter().any(|range| range.contains(&pc))
    }

    /// Whether the function is on the stack that a CPU uses.
    #[inline]
    pub(crate) fn is_under(&self, cpu: CpuId) -> bool {
        let frames = self.running.get(usize::from(cpu.0));
        frames.is_some_and(|frames| frames.last().is_some_and(|frame| frame.under))
    }

    /// Whether the call or interrupt that a CPU is in has accessed nothing so far.
    #[inline]
    pub(crate) fn is_fresh(&self, cpu: CpuId) -> bool {
        let frames = self.running.get(usize::from(cpu.0));
        frames.is_some_and(|frames| frames.last().is_some_and(|frame| frame.fresh))
    }

    /// Takes note of an access; returns whether the function is on the stack at it: of a call, of
    /// the caller's; of a return, still.
    #[inline]
    pub(crate) fn access(&mut self, access: &Access) -> bool {
        let Some(frames) = self.running.get_mut(usize::from(access.cpu.0)) else {
            return false;
        };
        // No function of the kernel is on a stack while a program runs.
        if access.pc.0 >> 63 == 0 {
            frames.clear();
            return false;
        }
        let transfer = self.transfers.of(access.pc);
        let transfer = transfer.filter(|transfer| moves(*transfer, access));
        if transfer == Some(Transfer::Call) {
            end_below(frames, access.addr);
        }
        let own = self.code.iter().any(|range| range.contains(&access.pc));
        let mut under = own;
        if let Some(top) = frames.last_mut() {
            top.fresh = false;
            if own && !top.under {
                top.under = true;
                self.entered += 1;
            }
            under |= top.under;
        }
        if let Some(transfer) = transfer {
            self.transfer(transfer, access, under);
        }
        under
    }

    fn transfer(&mut self, transfer: Transfer, access: &Access, under: bool) {
        let cpu = usize::from(access.cpu.0);
        let frames = &mut self.running[cpu];
        match transfer {
            Transfer::Call => {
                self.balance.calls += 1;
                // What enters the kernel runs in no frame of its own.
                self.entered += u64::from(under && frames.is_empty());
                let frame = Frame {
                    slot: access.addr,
                    under,
                    interrupt: false,
                    fresh: true,
                };
                push(frames, frame);
            }
            Transfer::Return => {
                self.balance.returns += 1;
                match frames.iter().rposition(|frame| frame.slot == access.addr) {
                    // The one that began last, because a slot is used again and again; frames after
                    // it were left without a return that was seen.
                    Some(at) => {
                        self.balance.matched += 1;
                        frames.truncate(at);
                    }
                    // A return of a call that was not seen: it still shows that everything below on
                    // its stack is over.
                    None => end_below(frames, access.addr),
                }
            }
            Transfer::InterruptReturn => {
                // It loads several words: the first one ends the interrupt.
                let before = self.interrupt_ends[cpu].replace(access.time);
                let last = frames.iter().rposition(|frame| frame.interrupt);
                if let Some(at) = last.filter(|_| before != Some(access.time)) {
                    frames.truncate(at);
                }
            }
        }
    }

    /// An interrupt or an exception has come, whose entry finds the stack there.
    pub(crate) fn interrupt(&mut self, cpu: CpuId, slot: GuestAddr) {
        if let Some(frames) = self.running.get_mut(usize::from(cpu.0)) {
            end_below(frames, slot);
            let frame = Frame {
                slot,
                // What an interrupt does counts for the function that it interrupts, as in `perf
                // report --children`: it is on the stack below.
                under: frames.last().is_some_and(|top| top.under),
                interrupt: true,
                fresh: true,
            };
            push(frames, frame);
        }
    }

    /// A CPU continues with another task. The addresses of their descriptions identify tasks.
    pub(crate) fn switch(&mut self, cpu: CpuId, from: Option<GuestAddr>, to: Option<GuestAddr>) {
        let Some(running) = self.running.get_mut(usize::from(cpu.0)) else {
            return;
        };
        let next = to.and_then(|task| self.waiting.remove(&task));
        let before = std::mem::replace(running, next.unwrap_or_default());
        // Without frames there is nothing to keep: tasks that exit are never switched to again, and
        // their entries would stay to the end.
        if let Some(task) = from.filter(|_| !before.is_empty()) {
            self.waiting.insert(task, before);
        }
    }
}

/// Whether an access is the one by which its instruction calls or returns: `call [mem]` also loads
/// where to, and a `call` of the image may have become something else.
fn moves(transfer: Transfer, access: &Access) -> bool {
    let kind = match transfer {
        Transfer::Call => AccessKind::Store,
        Transfer::Return | Transfer::InterruptReturn => AccessKind::Load,
    };
    access.kind == kind && access.size == SLOT
}

/// Puts a frame on a stack, which is bounded.
fn push(frames: &mut Vec<Frame>, frame: Frame) {
    // More than a stack can hold means that returns are not recognised: beginning anew errs for the
    // calls that are open, not for all later ones.
    if frames.len() == FRAMES_MAX {
        frames.clear();
    }
    frames.push(frame);
}

/// Ends the frames at or below an address on its stack, and all that were begun after one of them.
fn end_below(frames: &mut Vec<Frame>, slot: GuestAddr) {
    let stack = |slot: GuestAddr| slot.0 / STACK_BYTES.0;
    let mut ends = frames.len();
    for (at, frame) in frames.iter().enumerate().rev() {
        // Frames of another stack (the task's, below an interrupt's) say nothing about this one.
        if stack(frame.slot) != stack(slot) {
            continue;
        }
        if frame.slot > slot {
            break;
        }
        ends = at;
    }
    frames.truncate(ends);
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::single_range_in_vec_init,
        reason = "a function has one part here"
    )]

    use linemate_code::transfers;
    use linemate_types::kernel_image::CodeSection;

    use super::*;

    const CODE: u64 = 0xffff_ffff_8100_0000;
    /// Instructions of all functions: `mov eax, [rdi]`, `call`, `ret`, `iretq`.
    const PLAIN: u64 = 0;
    const CALL: u64 = 2;
    const RETURN: u64 = 7;
    const IRET: u64 = 8;
    const BYTES: [u8; 10] = [0x8b, 0x07, 0xe8, 0, 0, 0, 0, 0xc3, 0x48, 0xcf];
    /// Where the examined function is, and another one.
    const ASKED: u64 = CODE;
    const OTHER: u64 = CODE + 16;
    const TOP: u64 = 0xffff_c900_0000_4000;

    struct CallBench {
        transfers: Transfers,
        code: [Range<GuestAddr>; 1],
    }

    fn bench() -> CallBench {
        let mut bytes = BYTES.to_vec();
        bytes.resize(16, 0xcc);
        bytes.extend(BYTES);
        let section = CodeSection {
            address: CODE,
            bytes,
        };
        let starts = [ASKED, OTHER];
        let at = starts.map(|start| [PLAIN, CALL, RETURN, IRET].map(|at| GuestAddr(start + at)));
        CallBench {
            transfers: transfers(&[section], at.into_iter().flatten()),
            code: [GuestAddr(ASKED)..GuestAddr(ASKED + 16)],
        }
    }

    fn access(pc: u64, addr: u64) -> Access {
        let store = [ASKED + CALL, OTHER + CALL].contains(&pc);
        Access {
            time: VirtualTime(0),
            cpu: CpuId(0),
            pc: GuestAddr(pc),
            addr: GuestAddr(addr),
            size: 8,
            kind: if store {
                AccessKind::Store
            } else {
                AccessKind::Load
            },
            silent: false,
            user_mapping: false,
        }
    }

    /// Whether the function is on the stack at each of these accesses.
    fn under(stacks: &mut CallStacks<'_>, accesses: &[(u64, u64)]) -> Vec<bool> {
        let accesses = accesses.iter();
        accesses
            .zip(1..)
            .map(|((pc, addr), time)| Access {
                time: VirtualTime(time),
                ..access(*pc, *addr)
            })
            .map(|access| stacks.access(&access))
            .collect()
    }

    #[test]
    fn a_call_is_the_callers_and_a_return_the_callees() {
        let bench = bench();
        let mut stacks = CallStacks::new(&bench.transfers, &bench.code, 1);
        let accesses = [
            (OTHER + CALL, TOP - 8),
            (ASKED + PLAIN, 0),
            (ASKED + CALL, TOP - 32),
            (OTHER + PLAIN, 0),
            (OTHER + RETURN, TOP - 32),
            (ASKED + RETURN, TOP - 8),
            (OTHER + PLAIN, 0),
        ];
        let expected = [false, true, true, true, true, true, false];
        assert_eq!(under(&mut stacks, &accesses), expected);
        assert_eq!(stacks.entered, 1);
        let balance = Balance {
            calls: 2,
            returns: 2,
            matched: 2,
        };
        assert_eq!(stacks.balance, balance);
    }

    #[test]
    fn a_stack_that_is_used_again_ends_what_was_on_it() {
        let bench = bench();
        let mut stacks = CallStacks::new(&bench.transfers, &bench.code, 1);
        // A task exits in the function; the next one on its stack calls from further up, or from
        // the same place.
        for slot in [TOP - 8, TOP - 16] {
            let exits = [
                (OTHER + CALL, TOP - 16),
                (ASKED + CALL, TOP - 64),
                (OTHER + PLAIN, 0),
            ];
            assert_eq!(under(&mut stacks, &exits), [false, true, true]);
            let again = [(OTHER + CALL, slot), (OTHER + PLAIN, 0)];
            assert!(!under(&mut stacks, &again)[1], "{slot:#x}");
            stacks.switch(CpuId(0), None, None);
        }
        // What is interrupted there is not under it either.
        let exits = [(OTHER + CALL, TOP - 16), (ASKED + CALL, TOP - 64)];
        under(&mut stacks, &exits);
        stacks.interrupt(CpuId(0), GuestAddr(TOP - 8));
        assert!(!under(&mut stacks, &[(OTHER + PLAIN, 0)])[0]);
        stacks.switch(CpuId(0), None, None);
        // From further down, or on another stack, it is on the stack still.
        let deeper = [
            (OTHER + CALL, TOP - 16),
            (ASKED + PLAIN, 0),
            (OTHER + CALL, TOP - 24),
            (OTHER + CALL, TOP + 0x8000),
            (OTHER + PLAIN, 0),
        ];
        assert!(under(&mut stacks, &deeper)[4]);
    }

    #[test]
    fn other_accesses_of_calls_and_returns_are_none() {
        let bench = bench();
        let mut stacks = CallStacks::new(&bench.transfers, &bench.code, 1);
        let call = access(ASKED + CALL, TOP - 8);
        // `call [mem]` loads where to; what the kernel put into a call's place stores a byte.
        for (kind, size) in [(AccessKind::Load, 8), (AccessKind::Store, 1)] {
            stacks.access(&Access { kind, size, ..call });
        }
        assert_eq!(stacks.balance, Balance::default());
        stacks.access(&call);
        let kind = AccessKind::Store;
        stacks.access(&Access {
            kind,
            ..access(OTHER + RETURN, TOP - 8)
        });
        assert_eq!((stacks.balance.calls, stacks.balance.returns), (1, 0));
        assert!(stacks.is_under(CpuId(0)));
    }

    #[test]
    fn a_return_without_a_call_ends_what_is_below_it() {
        let bench = bench();
        let mut stacks = CallStacks::new(&bench.transfers, &bench.code, 1);
        let accesses = [
            (OTHER + CALL, TOP - 64),
            (ASKED + PLAIN, 0),
            (OTHER + RETURN, TOP - 128),
            (OTHER + PLAIN, 0),
            (OTHER + RETURN, TOP - 32),
            (OTHER + PLAIN, 0),
        ];
        let expected = [false, true, true, true, true, false];
        assert_eq!(under(&mut stacks, &accesses), expected);
        assert_eq!((stacks.balance.returns, stacks.balance.matched), (2, 0));
    }

    #[test]
    fn tasks_take_their_frames_along_and_programs_have_none() {
        let bench = bench();
        let mut stacks = CallStacks::new(&bench.transfers, &bench.code, 2);
        let on = |cpu, pc| Access {
            cpu: CpuId(cpu),
            ..access(pc, TOP - 8)
        };
        stacks.access(&on(0, OTHER + CALL));
        assert!(stacks.access(&on(0, ASKED + PLAIN)));
        stacks.switch(CpuId(0), Some(GuestAddr(1)), Some(GuestAddr(2)));
        assert!(!stacks.access(&on(0, OTHER + PLAIN)));
        stacks.switch(CpuId(1), Some(GuestAddr(3)), Some(GuestAddr(1)));
        assert!(stacks.access(&on(1, OTHER + PLAIN)), "on another CPU");
        assert!(!stacks.access(&on(1, 0x40_1000)));
        assert!(!stacks.access(&on(1, OTHER + PLAIN)), "entered anew");
        assert!(!stacks.access(&on(7, ASKED + PLAIN)), "there is no CPU 7");
    }

    #[test]
    fn an_interrupt_is_under_what_it_interrupts_until_it_returns() {
        let bench = bench();
        let mut stacks = CallStacks::new(&bench.transfers, &bench.code, 1);
        let before = [(OTHER + CALL, TOP - 8), (ASKED + PLAIN, 0)];
        under(&mut stacks, &before);
        stacks.interrupt(CpuId(0), GuestAddr(TOP - 128));
        let handler = [
            (OTHER + PLAIN, 0),
            (OTHER + CALL, TOP + 0x8000),
            // Its frame on the other stack is never returned from.
            (OTHER + IRET, TOP - 128),
            (OTHER + PLAIN, 0),
            (OTHER + RETURN, TOP - 8),
            (OTHER + PLAIN, 0),
        ];
        let expected = [true, true, true, true, true, false];
        assert_eq!(under(&mut stacks, &handler), expected);
        // One in another, whose return loads two words.
        let before = [(OTHER + CALL, TOP - 8), (ASKED + PLAIN, 0)];
        under(&mut stacks, &before);
        stacks.interrupt(CpuId(0), GuestAddr(TOP - 128));
        let own = access(OTHER + PLAIN, 0);
        assert!(stacks.access(&own));
        stacks.interrupt(CpuId(0), GuestAddr(TOP - 256));
        for addr in [TOP - 256, TOP - 248] {
            stacks.access(&access(OTHER + IRET, addr));
        }
        assert_eq!(stacks.running[0].len(), 2);
        under(
            &mut stacks,
            &[(OTHER + IRET, TOP - 128), (OTHER + RETURN, TOP - 8)],
        );
        // One that calls the function: what was interrupted is not under it.
        let before = [(OTHER + CALL, TOP - 8), (OTHER + PLAIN, 0)];
        under(&mut stacks, &before);
        stacks.interrupt(CpuId(0), GuestAddr(TOP - 128));
        let handler = [
            (ASKED + CALL, TOP - 160),
            (OTHER + RETURN, TOP - 160),
            (ASKED + IRET, TOP - 128),
            (OTHER + PLAIN, 0),
        ];
        assert_eq!(under(&mut stacks, &handler), [true, true, true, false]);
    }

    #[test]
    fn frames_are_bounded() {
        let bench = bench();
        let mut stacks = CallStacks::new(&bench.transfers, &bench.code, 1);
        for stack in 0..3 * FRAMES_MAX as u64 {
            stacks.access(&access(OTHER + CALL, TOP + stack * STACK_BYTES.0));
        }
        assert!(stacks.running[0].len() <= FRAMES_MAX);
    }
}

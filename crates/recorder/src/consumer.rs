//! The thread that turns a lane's records into events, encodes them and hands them to the writing thread.

use std::io::{self, Write};
use std::thread::{self, JoinHandle};

use linemate_recording::{FunctionId, MAX_PARAMETERS};

use crate::clock::Counted;
use crate::lane::{Instruction, Lane, Sink, Touch};
use crate::queue::Drain;
use crate::queue::Queue;
use crate::tap::{MARKS, TURN, kind, part};
use crate::watch::{Entered, Left};

/// What takes the numbers of instructions that are translated, besides events.
pub(crate) trait Announce {
    /// Instructions below `known` may be used from now on.
    fn translated(&mut self, known: u32);
}

/// A lane's state between records.
struct Consumer<S> {
    lane: Lane<S>,
    cpu: u16,
    /// Instructions in the counter's whole turns.
    turns: i64,
    vmemmap: u64,
}

/// Starts the thread. It ends when `records` is closed and gives the lane back, finished.
///
/// # Errors
/// When there is no thread to be had.
pub(crate) fn start<S: Sink + Announce + Send + 'static, const WORDS: usize>(
    records: &'static Queue<WORDS>,
    lane: Lane<S>,
    vmemmap: u64,
) -> io::Result<JoinHandle<Lane<S>>> {
    let mut records = records.drain();
    thread::Builder::new()
        .name("linemate-encoder".into())
        .spawn(move || {
            let _told = TellPanic;
            consume(&mut records, lane, vmemmap)
        })
}

/// Says so if the thread ends before its time; the queue lets the guest go on.
struct TellPanic;

impl Drop for TellPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = writeln!(
                io::stderr(),
                "linemate-recorder: error: the encoding thread has failed; what follows is lost"
            );
        }
    }
}

/// Takes all records there will be.
fn consume<S: Sink + Announce, const WORDS: usize>(
    records: &mut Drain<'_, WORDS>,
    lane: Lane<S>,
    vmemmap: u64,
) -> Lane<S> {
    let mut consumer = Consumer {
        lane,
        cpu: 0,
        turns: 0,
        vmemmap,
    };
    while records.wait() {
        while records.has_next() {
            consumer.record(records);
        }
    }
    consumer.lane.finish();
    consumer.lane
}

impl<S: Sink + Announce> Consumer<S> {
    #[inline(always)]
    fn record<const WORDS: usize>(&mut self, records: &mut Drain<'_, WORDS>) {
        let head = records.next();
        if head & kind::ACCESS != 0 {
            self.access(head, records);
        } else {
            self.other(head, records);
        }
    }

    /// The count in a head.
    #[inline(always)]
    fn counted(&self, head: u64) -> Counted {
        Counted(self.turns + i64::from((head >> 32) as i32))
    }

    #[inline(always)]
    fn access<const WORDS: usize>(&mut self, head: u64, records: &mut Drain<'_, WORDS>) {
        let size_log2 = (head >> kind::SIZE_SHIFT & 7).min(6);
        let touch = Touch {
            store: head & kind::STORE != 0,
            addr: records.next(),
            size: 1 << size_log2,
            user_mapping: head & kind::USER != 0,
        };
        let at = (self.counted(head), self.cpu);
        if head & kind::VALUE == 0 {
            let instruction = Instruction::from_bits(head & u64::from(u32::MAX));
            return self.lane.touch(at, instruction, (touch, None));
        }
        // At most eight bytes; what is above them is meaningless.
        let value = records.next() & u64::MAX >> (64 - (8u32 << size_log2.min(3)));
        let instruction = if head & kind::BULK == 0 {
            Instruction::from_bits(head & u64::from(u32::MAX))
        } else {
            Instruction::atomic(head, size_log2)
        };
        self.lane
            .touch(at, instruction, (touch, Some(value.into())));
    }

    #[inline(never)]
    fn other<const WORDS: usize>(&mut self, head: u64, records: &mut Drain<'_, WORDS>) {
        let at = (self.counted(head), self.cpu);
        let number = (head >> 8) as u32 & 0xff_ffff;
        if head & kind::CALL != 0 {
            let call = entered(head, FunctionId(number), records);
            return self.lane.call(at, &call);
        }
        match head & 0xff {
            kind::PART => self.part(at, records),
            kind::RETURN => {
                let left = Left {
                    function: FunctionId(number),
                    stack: records.next(),
                    value: records.next(),
                };
                self.lane.return_(at, &left);
            }
            kind::STEP => {
                self.lane.step(at);
            }
            kind::PAGES => {
                let (page, order) = (records.next(), records.next());
                self.lane.pages(self.vmemmap, page, order);
            }
            kind::MARK => {
                let guest_ns = records.next();
                if let Some(mark) = MARKS.get(number as usize) {
                    self.lane.mark(at, *mark, guest_ns);
                }
            }
            kind::CPU => self.cpu = number as u16,
            kind::TURN => self.turns = whole(records.next()),
            kind::TRANSLATED => self.lane.sink().translated(records.next() as u32),
            kind::START => {
                self.cpu = number as u16;
                let known = records.next() as u32;
                self.turns = whole(records.next());
                let count = Counted(self.turns + records.next() as i64);
                self.lane.start(count);
                self.lane.sink().translated(known);
            }
            _ => unreachable!("the producer writes no other record"),
        }
    }

    fn part<const WORDS: usize>(&mut self, at: (Counted, u16), records: &mut Drain<'_, WORDS>) {
        let addr = records.next();
        let instruction = Instruction::from_bits(records.next());
        let flags = records.next();
        let touch = Touch {
            store: flags & part::STORE != 0,
            addr,
            size: flags as u8,
            user_mapping: flags & part::USER != 0,
        };
        let (low, high) = (records.next(), records.next());
        let value = u128::from(high) << 64 | u128::from(low);
        let value = (flags & part::VALUE != 0).then_some(value);
        self.lane.touch(at, instruction, (touch, value));
    }
}

/// The instructions in so many turns of the counter.
fn whole(turns: u64) -> i64 {
    (turns * TURN) as i64
}

fn entered<const WORDS: usize>(
    head: u64,
    function: FunctionId,
    records: &mut Drain<'_, WORDS>,
) -> Entered {
    let (stack, caller) = (records.next(), records.next());
    let mut values = [None; MAX_PARAMETERS];
    for (slot, bit) in values.iter_mut().zip(kind::CALL_SHIFT..) {
        if head >> bit & 1 != 0 {
            *slot = Some(records.next());
        }
    }
    Entered {
        function,
        stack,
        caller,
        values,
    }
}

//! Turns a lane's records into events, encodes them and hands them to the writing thread: on a
//! separate thread, or on the one that adds them.

use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use linemate_recording::{FunctionId, MAX_PARAMETERS, Mark};

use crate::clock::{InstructionCount, When};
use crate::kind;
use crate::lane::{Instruction, Lane, Plain, Sink, Touch};
use crate::queue::{Drain, Queue};
use crate::tap::{MARKS, TURN, part};
use crate::watch::{Entered, Left};

/// Receives the numbers of translated instructions, in addition to events.
pub(crate) trait Announce {
    /// Instructions below `known` may be used from now on.
    fn translated(&mut self, known: u32);
}

/// A lane's state between records.
struct Consumer<S> {
    lane: Lane<S>,
    cpu: u16,
    /// Instructions in the counter's complete turns.
    turns: i64,
    vmemmap: u64,
}

/// Where a lane's records are consumed.
pub(crate) enum Encoding<S, const WORDS: usize> {
    /// On a separate thread.
    Thread(JoinHandle<Lane<S>>),
    /// On the thread that adds them.
    Here(Arc<Mutex<Option<Taking<S, WORDS>>>>),
}

/// A consumer and its end of the queue.
pub(crate) struct Taking<S, const WORDS: usize> {
    records: Drain<'static, WORDS>,
    consumer: Consumer<S>,
}

/// Starts the thread that consumes `records`, up to their end.
///
/// # Errors
/// If no thread can be started.
pub(crate) fn start<S: Sink + Announce + Send + 'static, const WORDS: usize>(
    records: &'static Queue<WORDS>,
    lane: Lane<S>,
    vmemmap: u64,
) -> io::Result<Encoding<S, WORDS>> {
    let mut taking = Taking::new(records, lane, vmemmap);
    let thread = thread::Builder::new().name("linemate-encoder".into());
    let handle = thread.spawn(move || {
        let _told = ReportPanic;
        while taking.records.wait() {
            taking.batch();
        }
        taking.finish()
    })?;
    Ok(Encoding::Thread(handle))
}

/// Consumes `records` on the thread that adds them: for a host with one processor, where threads
/// would only take turns.
pub(crate) fn start_here<S: Sink + Announce + Send + 'static, const WORDS: usize>(
    records: &'static Queue<WORDS>,
    lane: Lane<S>,
    vmemmap: u64,
) -> Encoding<S, WORDS> {
    let taking = Taking::new(records, lane, vmemmap);
    let shared = Arc::new(Mutex::new(Some(taking)));
    let theirs = Arc::clone(&shared);
    records.take_here(move || take_all(&theirs));
    Encoding::Here(shared)
}

/// Consumes the available records. One that fails is dropped, so that the guest continues
/// unrecorded.
fn take_all<S: Sink + Announce, const WORDS: usize>(shared: &Mutex<Option<Taking<S, WORDS>>>) {
    let mut taking = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let failed = taking.as_mut().is_some_and(|taking| {
        // Nobody looks at its remains. A panic must not unwind through QEMU.
        let all = AssertUnwindSafe(|| {
            let _told = ReportPanic;
            while taking.records.take() {
                taking.batch();
            }
        });
        panic::catch_unwind(all).is_err()
    });
    if failed {
        *taking = None;
    }
}

impl<S: Sink + Announce, const WORDS: usize> Encoding<S, WORDS> {
    /// Consumes the remaining records, up to their end, and returns the lane; `None` if the encoder
    /// has failed.
    pub(crate) fn join(self) -> Option<Lane<S>> {
        match self {
            Encoding::Thread(handle) => handle.join().ok(),
            Encoding::Here(shared) => {
                take_all(&shared);
                let mut taking = shared.lock().unwrap_or_else(PoisonError::into_inner);
                taking.take().map(Taking::finish)
            }
        }
    }
}

impl<S: Sink + Announce, const WORDS: usize> Taking<S, WORDS> {
    fn new(records: &'static Queue<WORDS>, lane: Lane<S>, vmemmap: u64) -> Self {
        Self {
            records: records.drain(),
            consumer: Consumer {
                lane,
                cpu: 0,
                turns: 0,
                vmemmap,
            },
        }
    }

    /// Consumes the available records.
    #[inline(never)]
    fn batch(&mut self) {
        let Self { records, consumer } = self;
        while records.has_next() {
            consumer.record(records);
        }
    }

    fn finish(mut self) -> Lane<S> {
        self.consumer.lane.finish();
        self.consumer.lane
    }
}

/// Reports if the encoder ends early; the queue then lets the guest continue.
struct ReportPanic;

impl Drop for ReportPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = writeln!(
                io::stderr(),
                "linemate-recorder: error: the encoder has failed; what follows is lost"
            );
        }
    }
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

    /// The count in a head, on the running CPU.
    #[inline(always)]
    fn when(&self, head: u64) -> When {
        When {
            count: InstructionCount(self.turns + i64::from((head >> 32) as i32)),
            cpu: self.cpu,
        }
    }

    #[inline(always)]
    fn access<const WORDS: usize>(&mut self, head: u64, records: &mut Drain<'_, WORDS>) {
        let when = self.when(head);
        let addr = records.next();
        let value = (head & kind::VALUE != 0).then(|| records.next());
        // Nearly all are not part of an atomic one: they have their own path, because the general
        // one has more values than a processor has registers.
        if head & kind::ATOMIC == kind::ATOMIC
            || !self.lane.plain(when, Plain { head, addr, value })
        {
            self.access_at(when, head, addr, value);
        }
    }

    #[inline(never)]
    fn access_at(&mut self, when: When, head: u64, addr: u64, value: Option<u64>) {
        let size_log2 = (head >> kind::SIZE_SHIFT & 7).min(6);
        let touch = Touch {
            store: head & kind::STORE != 0,
            addr,
            size: 1 << size_log2,
            user_mapping: head & kind::USER != 0,
        };
        let instruction = if value.is_some() && head & kind::BULK != 0 {
            Instruction::atomic(head, size_log2)
        } else {
            Instruction::from_bits(head & u64::from(u32::MAX))
        };
        // At most eight bytes; anything above them is meaningless.
        let mask = u64::MAX >> (64 - (8u32 << size_log2.min(3)));
        let value = value.map(|value| u128::from(value & mask));
        self.lane.touch(when, instruction, touch, value);
    }

    #[inline(never)]
    fn other<const WORDS: usize>(&mut self, head: u64, records: &mut Drain<'_, WORDS>) {
        let when = self.when(head);
        let number = (head >> 8) as u32 & 0xff_ffff;
        if head & kind::CALL != 0 {
            let call = entered(head, FunctionId(number), records);
            return self.lane.call(when, &call);
        }
        match head & 0xff {
            kind::PART => self.part(when, records),
            kind::RETURN => {
                let left = Left {
                    function: FunctionId(number),
                    stack: records.next(),
                    value: records.next(),
                };
                self.lane.return_(when, &left);
            }
            kind::STEP => {
                self.lane.step(when);
            }
            kind::PAGES => {
                let (page, order) = (records.next(), records.next());
                self.lane.pages(self.vmemmap, page, order);
            }
            kind::MARK => {
                let value = records.next();
                if let Some(mark) = MARKS.get(number as usize) {
                    self.lane.mark(when, *mark, value);
                }
            }
            kind::CPU => {
                self.cpu = number as u16;
                // The turn is recorded when the CPU changes, not at its next access: what it
                // executes before that is think time of the replay.
                self.lane.mark(self.when(head), Mark::Turn, 0);
            }
            kind::TURN => self.turns = whole(records.next()),
            // Through the queue like events: the instructions that a chunk announces depend on the
            // order of records, not on how far the guest is ahead.
            kind::TRANSLATED => self.lane.sink().translated(records.next() as u32),
            kind::START => {
                self.cpu = number as u16;
                let known = records.next() as u32;
                self.turns = whole(records.next());
                let count = InstructionCount(self.turns + records.next() as i64);
                self.lane.start(count);
                self.lane.sink().translated(known);
            }
            _ => unreachable!("the producer writes no other record"),
        }
    }

    fn part<const WORDS: usize>(&mut self, when: When, records: &mut Drain<'_, WORDS>) {
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
        self.lane.touch(when, instruction, touch, value);
    }
}

/// The instructions in that many turns of the counter.
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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use linemate_recording::{
        BackgroundWriter, Call, Error, Function, FunctionTable, GuestAddr, LaneId, Mark, Marker,
        Meaning, Metadata, Parameter, Return, Role, Writer, verify,
    };

    use super::*;
    use crate::decode::AccessShape;
    use crate::output::{Output, Unannounced};
    use crate::pairing::Whole;
    use crate::shadow::{EVERYBODY, Shadow, Tracked};
    use crate::tap::{RECORDS, Records, Tap};
    use crate::watch::WatchedEvent;

    const MAP: u64 = 0xffff_8880_0000_0000;
    const MEMORY: u64 = 1 << 20;
    const CHUNK: u32 = 10_000;
    const ROUNDS: u64 = 20_000;

    /// Memory that accepts `room` bytes and then reports a full disk.
    #[derive(Clone)]
    struct Disk {
        bytes: Arc<Mutex<Vec<u8>>>,
        room: usize,
    }

    impl Write for Disk {
        fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
            let mut bytes = self.bytes.lock().unwrap();
            if bytes.len() + buffer.len() > self.room {
                return Err(io::ErrorKind::StorageFull.into());
            }
            bytes.extend_from_slice(buffer);
            Ok(buffer.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl linemate_recording::Sink for Disk {
        fn truncate(&mut self, length: u64) -> io::Result<()> {
            self.bytes.lock().unwrap().truncate(length as usize);
            Ok(())
        }
    }

    fn tap() -> &'static Tap {
        let tap: &'static Tap = Box::leak(Box::new(Tap::new()));
        tap.track(Tracked::new(MEMORY, MAP, EVERYBODY));
        tap
    }

    /// One round of a synthetic guest: plain loads and stores, an atomic, a wide one, a call, a
    /// return, another CPU.
    fn round(tap: &Tap, unannounced: &Unannounced, number: u64) {
        let new = number % 100 == 0;
        if new {
            (0..4).for_each(|i| unannounced.push(GuestAddr(number * 64 + i)));
            tap.translated((number / 100 * 4 + 4) as u32);
        }
        let id = (number / 100 * 4) as u32;
        let instruction = |i, shape| Instruction::new(id + i, 4 - i, shape, false).unwrap();
        if tap.add(4) {
            tap.turn();
        }
        let addr = MAP + number * 8 % (MEMORY / 2);
        let access = |store, size| Touch {
            store,
            addr,
            size,
            user_mapping: false,
        };
        let value = u128::from(number % 3);
        tap.touch(
            instruction(0, AccessShape::Single),
            access(false, 8),
            || value,
        );
        tap.touch(instruction(1, AccessShape::Single), access(true, 4), || {
            value
        });
        let atomic = instruction(2, AccessShape::Atomic { bytes: 8 });
        tap.touch(atomic, access(false, 8), || value);
        tap.touch(atomic, access(true, 8), || value + u128::from(number % 2));
        tap.touch(
            instruction(3, AccessShape::Wide { bytes: 32 }),
            access(true, 16),
            || value << 100,
        );
        let (function, stack) = (FunctionId(7), addr);
        let values = [Some(addr), None, Some(number), None, None, None];
        let call = Entered {
            function,
            stack,
            caller: number,
            values,
        };
        tap.watched(1, Some(WatchedEvent::Call(call)));
        let left = Left {
            function,
            stack,
            value: number,
        };
        tap.watched(1, Some(WatchedEvent::Return(left)));
        if number % 50 == 0 {
            tap.mark(1, Mark::Idle, 0);
            tap.cpu(0, (number / 50 % 2) as u16);
        }
    }

    /// Eight functions of three parameters.
    fn functions() -> FunctionTable {
        use linemate_recording::Register::{Rdi, Rdx, Rsi};
        let meanings = [
            (Rdi, Meaning::StructPointer(1)),
            (Rsi, Meaning::StructPointer(2)),
            (Rdx, Meaning::Count),
        ];
        let parameters = meanings.map(|(register, meaning)| Parameter { register, meaning });
        let function = |number: u64| Function {
            entry: GuestAddr(0xffff_ffff_8100_0000 + 64 * number),
            size: 64,
            name: format!("f{number}"),
            role: Role::Plain,
            returns: true,
            parameters: parameters.to_vec(),
        };
        FunctionTable {
            functions: (0..8).map(function).collect(),
        }
    }

    /// A whole recording on a disk with `room`; `guest` and `encoder` say where to be slow.
    fn record(room: usize, paces: (Pace, Pace)) -> (Vec<u8>, Result<Writer, Error>) {
        record_by(room, paces, |records, lane| {
            start(records, lane, 0).unwrap()
        })
    }

    type Starts<S> = fn(&'static Records, Lane<S>) -> Encoding<S, RECORDS>;

    fn record_by(
        room: usize,
        (guest, encoder): (Pace, Pace),
        start: Starts<Slow>,
    ) -> (Vec<u8>, Result<Writer, Error>) {
        let disk = Disk {
            bytes: Arc::default(),
            room,
        };
        let bytes = Arc::clone(&disk.bytes);
        let mut writer = Writer::create_in(Box::new(disk), "1", &Metadata::new()).unwrap();
        writer.functions(&functions()).unwrap();
        let writer = BackgroundWriter::start(writer, 1).unwrap();
        let unannounced = Arc::new(Unannounced::default());
        let output = Output::new(
            LaneId(0),
            CHUNK,
            2,
            8,
            writer.lane(),
            Arc::clone(&unannounced),
        );
        let shadow = Shadow::new(MEMORY, MAP, EVERYBODY).unwrap();
        let sink = Slow {
            output,
            pace: encoder,
            events: 0,
        };
        let tap = tap();
        let encoding = start(tap.records(), Lane::new(2, Some(shadow), sink));
        tap.start(0, 0);
        for number in 0..ROUNDS {
            guest(number);
            round(tap, &unannounced, number);
        }
        tap.stop();
        encoding.join().unwrap().sink().output.flush();
        let stopped = writer.stop();
        let bytes = bytes.lock().unwrap().clone();
        (bytes, stopped)
    }

    /// An output that takes its time.
    struct Slow {
        output: Output,
        pace: Pace,
        events: u64,
    }

    impl Slow {
        fn wait(&mut self) {
            (self.pace)(self.events);
            self.events += 1;
        }
    }

    impl Announce for Slow {
        fn translated(&mut self, known: u32) {
            self.output.translated(known);
        }
    }

    impl Sink for Slow {
        fn access(&mut self, access: &Whole) {
            self.wait();
            self.output.access(access);
        }
        fn call(&mut self, call: &Call) {
            self.output.call(call);
        }
        fn return_(&mut self, return_: &Return) {
            self.output.return_(return_);
        }
        fn mark(&mut self, marker: &Marker) {
            self.output.mark(marker);
        }
    }

    /// Is slow at some of the numbers that it is called with.
    type Pace = fn(u64);

    fn never(_number: u64) {}

    fn sometimes(number: u64) {
        if number % 4000 == 0 {
            thread::sleep(Duration::from_millis(3));
        }
    }

    #[test]
    fn a_recording_has_the_same_bytes_whoever_is_slow() {
        let (bytes, stopped) = record(usize::MAX, (never, never));
        let totals = stopped.unwrap().totals();
        assert_eq!(totals.loads, ROUNDS);
        assert_eq!(totals.stores, 2 * ROUNDS);
        assert_eq!((totals.rmws, totals.calls), (ROUNDS, ROUNDS));
        let report = verify(bytes.clone()).unwrap();
        let findings: Vec<_> = report.findings.iter().take(3).collect();
        assert_eq!(findings.len(), 1, "only its end is missing: {findings:?}");
        let paces: [(Pace, Pace); 2] = [(never, sometimes), (sometimes, never)];
        for pace in paces {
            assert!(record(usize::MAX, pace).0 == bytes);
        }
        let here = record_by(usize::MAX, (never, never), |records, lane| {
            start_here(records, lane, 0)
        });
        assert!(here.0 == bytes, "without a thread for the encoder");
    }

    #[test]
    fn a_full_disk_neither_holds_nor_ends_the_guest() {
        let (whole, _) = record(usize::MAX, (never, never));
        let (bytes, stopped) = record(whole.len() / 2, (never, never));
        assert!(matches!(stopped, Err(Error::Io { .. })));
        assert!(bytes.len() <= whole.len() / 2 && whole.starts_with(&bytes));
    }

    /// Fails at its first event.
    struct Broken;

    impl Announce for Broken {
        fn translated(&mut self, _known: u32) {}
    }

    impl Sink for Broken {
        fn access(&mut self, _access: &Whole) {
            panic!("the encoder is broken");
        }
        fn call(&mut self, _call: &Call) {}
        fn return_(&mut self, _return_: &Return) {}
        fn mark(&mut self, _marker: &Marker) {}
    }

    #[test]
    fn an_encoder_that_fails_lets_the_guest_go_on() {
        let on_a_thread = |records, lane| start(records, lane, 0).unwrap();
        let here = |records, lane| start_here(records, lane, 0);
        let ways: [Starts<Broken>; 2] = [on_a_thread, here];
        for start in ways {
            let tap = tap();
            let encoding = start(tap.records(), Lane::new(2, None, Broken));
            tap.start(0, 0);
            let unannounced = Unannounced::default();
            for number in 0..ROUNDS {
                round(tap, &unannounced, number);
            }
            assert!(!tap.is_open());
            tap.stop();
            assert!(encoding.join().is_none());
        }
    }

    /// Records the times of marks.
    struct Times(Vec<u64>);

    impl Announce for Times {
        fn translated(&mut self, _known: u32) {}
    }

    impl Sink for Times {
        fn access(&mut self, _access: &Whole) {}
        fn call(&mut self, _call: &Call) {}
        fn return_(&mut self, _return_: &Return) {}
        fn mark(&mut self, marker: &Marker) {
            self.0.push(marker.time.0);
        }
    }

    #[test]
    fn time_goes_on_where_the_counter_comes_round() {
        let tap = tap();
        let thread = start(tap.records(), Lane::new(2, None, Times(Vec::new())), 0).unwrap();
        tap.start(0, 0);
        let block = 1 << 29;
        for _ in 0..20 {
            if tap.add(block) {
                tap.turn();
            }
            tap.mark(1, Mark::Start, 0);
            tap.mark(block, Mark::Start, 0);
        }
        tap.stop();
        let times = std::mem::take(&mut thread.join().unwrap().sink().0);
        // The second of each pair is back in time, which never happens.
        let expected: Vec<u64> = (1..=20).map(|n| n * u64::from(block) - 1).collect();
        assert_eq!(
            times.iter().step_by(2).copied().collect::<Vec<_>>(),
            expected
        );
        assert_eq!(
            times.iter().skip(1).step_by(2).copied().collect::<Vec<_>>(),
            expected
        );
    }
}

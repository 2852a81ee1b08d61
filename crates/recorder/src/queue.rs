//! A bounded queue of words from the thread that runs the guest to the one that encodes.
//!
//! A record is a few words that are handed over together. Adding one costs its stores and a
//! comparison; once per [`BATCH`] words the producer takes the lock, publishes what it has written
//! and asks for room. Both sides sleep until a good part of the queue is filled or free, so that
//! threads rarely switch, on one processor too.
//!
//! Memory is bounded by the queue's length: a faster producer waits. A consumer that has ended, for
//! whatever reason, lets the producer continue; what it adds is dropped.
//!
//! With only one processor, the producer's thread consumes the records, too: see
//! [`Queue::take_here`].

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Words after which the producer publishes and asks for room.
// 32 KiB: the lock is taken once for each, and with a consumer on the same thread they fit in an
// L1.
const BATCH: u64 = 1 << 12;
pub(crate) const LONGEST: usize = 16;

/// A queue of `WORDS` words, a power of two of at least four batches. One thread adds, one
/// consumes.
#[derive(Debug)]
pub(crate) struct Queue<const WORDS: usize> {
    producer: Producer,
    state: Mutex<QueueState>,
    /// There is something to consume, or the queue is closed.
    filled: Condvar,
    /// There is room, or nobody consumes any more.
    drained: Condvar,
    /// Consumes the available records on the producer's thread.
    taker: Mutex<Option<Taker>>,
    words: [AtomicU64; WORDS],
}

/// Called when records are available that are to be consumed on the thread that adds them.
struct Taker(Box<dyn FnMut() + Send>);

impl fmt::Debug for Taker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Taker")
    }
}

/// What the producer reads for every record, apart from what the consumer writes.
#[derive(Debug)]
#[repr(align(128))]
struct Producer {
    /// Words added so far; the one at `n` is in slot `n % WORDS`. Written only by the producer,
    /// after the words.
    position: AtomicU64,
    /// A record may start below it; zero while the queue is closed.
    limit: AtomicU64,
    open: AtomicBool,
}

#[derive(Debug)]
struct QueueState {
    /// Words that the consumer may read.
    head: u64,
    /// Words that it has consumed.
    tail: u64,
    /// Nothing will be added any more.
    closed: bool,
    /// The consumer has ended.
    gone: bool,
    consumer_sleeps: bool,
    producer_sleeps: bool,
}

impl<const WORDS: usize> Queue<WORDS> {
    const LENGTH: u64 = {
        assert!(WORDS.is_power_of_two() && WORDS as u64 >= 4 * BATCH);
        WORDS as u64
    };
    /// A consumer that has run out sleeps until this many words are available.
    const ENOUGH: u64 = Self::LENGTH / 4;

    /// An empty, closed queue.
    pub(crate) const fn new() -> Self {
        Self {
            producer: Producer {
                position: AtomicU64::new(0),
                limit: AtomicU64::new(0),
                open: AtomicBool::new(false),
            },
            state: Mutex::new(QueueState {
                head: 0,
                tail: 0,
                closed: false,
                gone: false,
                consumer_sleeps: false,
                producer_sleeps: false,
            }),
            filled: Condvar::new(),
            drained: Condvar::new(),
            taker: Mutex::new(None),
            words: [const { AtomicU64::new(0) }; WORDS],
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // A panic while holding the lock cannot leave the state inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, at: u64) -> &AtomicU64 {
        &self.words[(at % Self::LENGTH) as usize]
    }

    /// Calls `take` on the producer's thread once per [`BATCH`] words. Must be set before the queue
    /// is opened.
    ///
    /// `take` consumes everything available ([`Drain::take`]); the next records are written where
    /// these were, so that they stay in the nearest cache.
    pub(crate) fn take_here(&self, take: impl FnMut() + Send + 'static) {
        let mut taker = self.taker.lock().unwrap_or_else(PoisonError::into_inner);
        *taker = Some(Taker(Box::new(take)));
    }

    /// Lets the producer add, after a first record.
    pub(crate) fn open(&self, first: &[u64]) {
        let state = self.lock();
        if state.closed || self.producer.open.load(Ordering::Relaxed) {
            return;
        }
        self.write(self.producer.position.load(Ordering::Relaxed), first);
        // The limit stays at zero: the producer asks for room, takes the lock and so sees the
        // position.
        self.producer.open.store(true, Ordering::Relaxed);
    }

    /// Whether records are accepted. Exact only on the producer's thread; others may see an old
    /// value.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.producer.open.load(Ordering::Relaxed)
    }

    /// Adds a record of at most [`LONGEST`] words; waits if there is no room. A closed queue drops
    /// it.
    #[inline(always)]
    pub(crate) fn push(&self, record: &[u64]) {
        match self.room() {
            Some(at) => self.write(at, record),
            None => self.push_slowly(record),
        }
    }

    /// Where a record can be written at once: for a caller that handles the other case out of line.
    #[inline(always)]
    pub(crate) fn room(&self) -> Option<u64> {
        let at = self.producer.position.load(Ordering::Relaxed);
        (at < self.producer.limit.load(Ordering::Relaxed)).then_some(at)
    }

    /// Writes a record at the place that [`Queue::room`] returned.
    #[inline(always)]
    pub(crate) fn write(&self, at: u64, record: &[u64]) {
        debug_assert!(record.len() <= LONGEST);
        for (word, offset) in record.iter().zip(0..) {
            self.slot(at + offset).store(*word, Ordering::Relaxed);
        }
        let next = at + record.len() as u64;
        // Release, for `close` on another thread, which takes the position without the producer;
        // otherwise the lock orders words before the head.
        self.producer.position.store(next, Ordering::Release);
    }

    #[cold]
    #[inline(never)]
    fn push_slowly(&self, record: &[u64]) {
        if let Some(at) = self.make_room() {
            self.write(at, record);
        }
    }

    /// Publishes what was added and waits for room; `None` if the queue is closed.
    fn make_room(&self) -> Option<u64> {
        if !self.is_open() {
            return None;
        }
        let taken = self.taken_here();
        let mut state = self.lock();
        let mut at = self.producer.position.load(Ordering::Relaxed);
        if taken && !state.closed && state.tail == at {
            // Back to the first slot.
            at = at.next_multiple_of(Self::LENGTH);
            self.producer.position.store(at, Ordering::Relaxed);
            state.tail = at;
        }
        state.head = at;
        while !state.closed && !state.gone {
            // Not at once: on one processor, waking a thread for each batch would switch twice each
            // time.
            if state.consumer_sleeps && at - state.tail >= Self::ENOUGH {
                state.consumer_sleeps = false;
                self.filled.notify_one();
            }
            // One record may start just below the limit and extend beyond it.
            if at + BATCH + LONGEST as u64 <= state.tail + Self::LENGTH {
                self.producer.limit.store(at + BATCH, Ordering::Relaxed);
                return Some(at);
            }
            state.producer_sleeps = true;
            state = self
                .drained
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.producer_sleeps = false;
        }
        self.shut();
        None
    }

    /// Publishes what was added and consumes it, if that is done here.
    fn taken_here(&self) -> bool {
        let mut taker = self.taker.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Taker(take)) = &mut *taker else {
            return false;
        };
        self.lock().head = self.producer.position.load(Ordering::Relaxed);
        take();
        true
    }

    fn shut(&self) {
        self.producer.open.store(false, Ordering::Relaxed);
        self.producer.limit.store(0, Ordering::Relaxed);
    }

    /// Ends the queue: what was added until now can still be consumed. May be called on any thread;
    /// a record that the producer is writing meanwhile is dropped.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        state.closed = true;
        state.head = self.producer.position.load(Ordering::Acquire);
        self.shut();
        self.filled.notify_one();
        self.drained.notify_one();
    }

    pub(crate) fn drain(&self) -> Drain<'_, WORDS> {
        Drain {
            queue: self,
            at: 0,
            head: 0,
        }
    }
}

/// The consuming end of a [`Queue`]. Dropping it releases the producer.
#[derive(Debug)]
pub(crate) struct Drain<'a, const WORDS: usize> {
    queue: &'a Queue<WORDS>,
    at: u64,
    head: u64,
}

impl<'a, const WORDS: usize> Drain<'a, WORDS> {
    /// Waits for records; `false` if the queue is closed and all were consumed. Words consumed
    /// before become free.
    pub(crate) fn wait(&mut self) -> bool {
        let mut state = self.free();
        while state.head == self.at {
            if state.closed {
                return false;
            }
            state.consumer_sleeps = true;
            state = self
                .queue
                .filled
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.consumer_sleeps = false;
        self.advance(&state);
        true
    }

    /// [`Drain::wait`] without waiting: `false` if all were consumed.
    pub(crate) fn take(&mut self) -> bool {
        let state = self.free();
        self.advance(&state);
        self.has_next()
    }

    /// Frees what was consumed.
    fn free(&mut self) -> MutexGuard<'a, QueueState> {
        let queue = self.queue;
        let mut state = queue.lock();
        // The producer went back to the first slot: there is nothing in between.
        self.at = self.at.max(state.tail);
        state.tail = self.at;
        // The producer is released when half is free, for the same reason.
        if state.producer_sleeps && state.head - self.at <= Queue::<WORDS>::LENGTH / 2 {
            queue.drained.notify_one();
        }
        state
    }

    fn advance(&mut self, state: &QueueState) {
        // Not all at once, so that the producer is released in time.
        self.head = state.head.min(self.at + BATCH);
    }

    /// Whether a record is available that was not consumed yet: if not, [`Drain::wait`].
    #[inline]
    pub(crate) fn has_next(&self) -> bool {
        self.at < self.head
    }

    /// The next word. Meaningful only within available records.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> u64 {
        let word = self.queue.slot(self.at).load(Ordering::Relaxed);
        self.at += 1;
        word
    }
}

impl<const WORDS: usize> Drop for Drain<'_, WORDS> {
    fn drop(&mut self) {
        self.queue.lock().gone = true;
        self.queue.drained.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    type Small = Queue<{ 4 * BATCH as usize }>;
    /// More than the queue holds several times over.
    const RECORDS: u64 = 40_000;

    /// Records of one to seven words that contain their length and number.
    fn record(number: u64) -> Vec<u64> {
        let length = 1 + number % 7;
        (0..length).map(|i| number << 8 | length << 4 | i).collect()
    }

    /// Adds all records; `pace` is called at each.
    fn fill(queue: &Small, pace: impl Fn(u64)) {
        for number in 0..RECORDS {
            pace(number);
            queue.push(&record(number));
        }
        queue.close();
    }

    fn open() -> Arc<Small> {
        let queue = Arc::new(Small::new());
        queue.open(&[]);
        queue
    }

    /// The output if producer and consumer are slow at these records.
    fn pass(producer: fn(u64), consumer: fn(u64)) -> Vec<u64> {
        let queue = open();
        let theirs = Arc::clone(&queue);
        let producer = thread::spawn(move || fill(&theirs, producer));
        let mut drain = queue.drain();
        let (mut out, mut taken) = (Vec::new(), 0);
        while drain.wait() {
            while drain.has_next() {
                consumer(taken);
                taken += 1;
                let first = drain.next();
                out.push(first);
                out.extend((1..first >> 4 & 15).map(|_| drain.next()));
            }
        }
        producer.join().unwrap();
        out
    }

    fn sometimes(number: u64) {
        if number % 5000 == 0 {
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn never(_number: u64) {}

    #[test]
    fn the_same_words_come_out_whoever_is_slow() {
        let expected: Vec<u64> = (0..RECORDS).flat_map(record).collect();
        assert!(expected.len() > 5 * 4 * BATCH as usize);
        assert!(pass(never, never) == expected);
        assert!(pass(never, sometimes) == expected);
        assert!(pass(sometimes, never) == expected);
        assert!(pass(sometimes, sometimes) == expected);
    }

    #[test]
    fn a_full_queue_holds_the_producer_and_no_more_than_its_length() {
        let queue = open();
        let theirs = Arc::clone(&queue);
        let producer = thread::spawn(move || fill(&theirs, never));
        while !queue.lock().producer_sleeps {
            thread::sleep(Duration::from_millis(1));
        }
        let added = queue.producer.position.load(Ordering::Acquire);
        assert!(added <= Small::LENGTH, "{added}");
        assert!(!producer.is_finished());
        let mut drain = queue.drain();
        while drain.wait() {
            while drain.has_next() {
                drain.next();
            }
        }
        producer.join().unwrap();
    }

    #[test]
    fn records_can_be_taken_where_they_are_added() {
        let queue: &'static Small = Box::leak(Box::new(Small::new()));
        let words = Arc::new(Mutex::new(Vec::new()));
        let (mut drain, out) = (queue.drain(), Arc::clone(&words));
        queue.take_here(move || {
            let mut out = out.lock().unwrap();
            while drain.take() {
                out.extend(std::iter::from_fn(|| {
                    drain.has_next().then(|| drain.next())
                }));
            }
            assert!(drain.at < Small::LENGTH || drain.at % Small::LENGTH <= BATCH + 16);
        });
        queue.open(&[]);
        fill(queue, never);
        queue.taken_here();
        let expected: Vec<u64> = (0..RECORDS).flat_map(record).collect();
        assert!(*words.lock().unwrap() == expected);
    }

    #[test]
    fn a_consumer_that_ends_lets_the_producer_go() {
        let queue = open();
        let theirs = Arc::clone(&queue);
        let producer = thread::spawn(move || fill(&theirs, never));
        while !queue.lock().producer_sleeps {
            thread::sleep(Duration::from_millis(1));
        }
        drop(queue.drain());
        producer.join().unwrap();
        assert!(!queue.is_open());
    }

    #[test]
    fn what_was_added_before_the_end_is_taken_and_nothing_after_it() {
        let queue = open();
        queue.push(&[1, 2]);
        queue.push(&[3]);
        queue.close();
        queue.push(&[4]);
        let mut drain = queue.drain();
        assert!(drain.wait());
        assert_eq!([drain.next(), drain.next(), drain.next()], [1, 2, 3]);
        assert!(!drain.has_next() && !drain.wait());
    }
}

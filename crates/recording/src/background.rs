//! Compresses and appends on a separate thread, to keep that work off the vCPU threads.
//!
//! Memory is bounded: a lane that fills chunks faster than they are written waits for a spare one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use linemate_units::GuestAddr;

use crate::{Error, RawChunk, Writer};

enum Job {
    Events(Box<RawChunk>),
    Instructions(Vec<GuestAddr>),
    Finish,
}

/// Empty chunks, ready to be filled.
struct Pool {
    spares: Vec<RawChunk>,
    /// How many more may be made.
    left: usize,
    /// The thread has ended: no chunk comes back any more.
    gone: bool,
}

struct Shared {
    pool: Mutex<Pool>,
    returned: Condvar,
    failed: AtomicBool,
}

impl Shared {
    fn pool(&self) -> MutexGuard<'_, Pool> {
        // A panic while holding the lock cannot leave the pool inconsistent.
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, chunk: RawChunk) {
        self.pool().spares.push(chunk);
        self.returned.notify_one();
    }

    fn spare(&self) -> RawChunk {
        let mut pool = self.pool();
        loop {
            if let Some(chunk) = pool.spares.pop() {
                return chunk;
            }
            // A lane gets its chunk even without a thread: the guest runs to its end, and `stop`
            // returns the error.
            if pool.gone {
                return RawChunk::default();
            }
            if pool.left > 0 {
                pool.left -= 1;
                return RawChunk::default();
            }
            pool = self
                .returned
                .wait(pool)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A [`Writer`] on its own thread.
pub struct BackgroundWriter {
    sender: SyncSender<Job>,
    shared: Arc<Shared>,
    thread: JoinHandle<(Writer, Option<Error>)>,
}

impl std::fmt::Debug for BackgroundWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackgroundWriter")
            .field("failed", &self.failed())
            .finish_non_exhaustive()
    }
}

/// A lane's handle to the [`BackgroundWriter`]. Clone it for every lane.
#[derive(Clone)]
pub struct LaneWriter {
    sender: SyncSender<Job>,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for LaneWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaneWriter")
            .field("failed", &self.failed())
            .finish_non_exhaustive()
    }
}

impl BackgroundWriter {
    /// Starts the thread. `chunks_in_flight` (at least 1) bounds the memory: that many chunks may
    /// wait or be written at a time, in addition to the one that each lane fills; 3 are enough for
    /// one lane.
    ///
    /// # Errors
    /// [`Error::Io`] if the thread cannot be started.
    pub fn start(writer: Writer, chunks_in_flight: usize) -> Result<Self, Error> {
        Self::start_with_progress(writer, chunks_in_flight, |_, _| {})
    }

    /// Like [`BackgroundWriter::start`]. `on_failure` is called at once with the first error and
    /// the bytes written until then, on the writer's thread.
    ///
    /// # Errors
    /// As [`BackgroundWriter::start`].
    pub fn start_with_progress(
        writer: Writer,
        chunks_in_flight: usize,
        on_failure: impl FnMut(&Error, u64) + Send + 'static,
    ) -> Result<Self, Error> {
        let chunks = chunks_in_flight.max(1);
        // The pool bounds the chunks; the rest is room for instructions, so that a lane that
        // announces them does not wait for the compressor. Eight is a guess.
        let (sender, receiver) = sync_channel(chunks + 8);
        let shared = Arc::new(Shared {
            pool: Mutex::new(Pool {
                spares: Vec::new(),
                left: chunks,
                gone: false,
            }),
            returned: Condvar::new(),
            failed: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("linemate-writer".into())
            .spawn(move || work(writer, &receiver, &theirs, on_failure))
            .map_err(|source| Error::Io {
                doing: "start the writing thread",
                source,
            })?;
        Ok(Self {
            sender,
            shared,
            thread,
        })
    }

    /// A handle for a lane.
    pub fn lane(&self) -> LaneWriter {
        LaneWriter {
            sender: self.sender.clone(),
            shared: Arc::clone(&self.shared),
        }
    }

    /// Whether a write has failed. Everything after the failure is dropped.
    pub fn failed(&self) -> bool {
        self.shared.failed.load(Ordering::Relaxed)
    }

    /// Waits until everything handed over is written. The writer remains usable, for example to
    /// [`Writer::finish`]; the lanes' handles drop their input from now on.
    ///
    /// # Errors
    /// The first error of the thread. The file then ends at its last complete chunk.
    pub fn stop(self) -> Result<Writer, Error> {
        // A failed send means that the thread has ended; join returns its error.
        let _ = self.sender.send(Job::Finish);
        let (writer, error) = self.thread.join().map_err(|_| Error::WriterGone)?;
        error.map_or(Ok(writer), Err)
    }
}

impl LaneWriter {
    /// Hands over a filled chunk and returns an empty one; waits if too many are in flight.
    pub fn events(&self, full: RawChunk) -> RawChunk {
        match self.sender.send(Job::Events(Box::new(full))) {
            Ok(()) => self.shared.spare(),
            // The lane refills its own chunk: nobody reads it any more.
            Err(refused) => match refused.0 {
                Job::Events(chunk) => *chunk,
                Job::Instructions(_) | Job::Finish => RawChunk::default(),
            },
        }
    }

    /// Hands over the addresses of the next instructions (see [`Writer::instructions`]). An
    /// instruction must be announced before events that use it are handed over.
    pub fn instructions(&self, addresses: Vec<GuestAddr>) {
        // A failed send means that the thread has ended and everything is dropped.
        let _ = self.sender.send(Job::Instructions(addresses));
    }

    /// Whether a write has failed. Everything after the failure is dropped.
    pub fn failed(&self) -> bool {
        self.shared.failed.load(Ordering::Relaxed)
    }
}

/// Releases those who wait for a chunk when the thread ends, for whatever reason.
struct Leaving<'a>(&'a Shared);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0
            .failed
            .fetch_or(std::thread::panicking(), Ordering::Relaxed);
        self.0.pool().gone = true;
        self.0.returned.notify_all();
    }
}

fn work(
    mut writer: Writer,
    jobs: &Receiver<Job>,
    shared: &Shared,
    mut on_failure: impl FnMut(&Error, u64),
) -> (Writer, Option<Error>) {
    let _leaving = Leaving(shared);
    let mut first_error = None;
    // After an error jobs are taken and dropped: a full channel would block the lanes, and with
    // them the guest.
    for job in jobs {
        let written = match (job, first_error.is_some()) {
            (Job::Finish, _) => break,
            (Job::Events(chunk), failed) => {
                let written = if failed {
                    Ok(())
                } else {
                    writer.events(&chunk)
                };
                // Before the result is checked: a lane would wait for a chunk that is not returned.
                shared.give_back(*chunk);
                written
            }
            (Job::Instructions(_), true) => Ok(()),
            (Job::Instructions(addresses), false) => writer.instructions(&addresses),
        };
        if let Err(error) = written {
            shared.failed.store(true, Ordering::Relaxed);
            on_failure(&error, writer.bytes());
            first_error = Some(error);
        }
    }
    (writer, first_error)
}

//! A pass over a recording that computes sums: all threads take chunks, in any order.

use std::sync::atomic::{AtomicUsize, Ordering};

use linemate_recording::{Decoder, Error as RecordingError, Recording, Visitor};
use rayon::prelude::*;

/// One visitor per thread, which visits whole chunks: returns their results, whose sum must not
/// depend on which thread visited what. `begin` is called before each chunk, `done` with 1 after
/// it.
///
/// # Errors
/// A damaged chunk.
pub fn visit_chunks<V: Visitor + Send>(
    recording: &Recording,
    make: impl Fn() -> V + Sync,
    begin: impl Fn(&mut V) + Sync,
    done: &(dyn Fn(u64) + Sync),
) -> Result<Vec<V>, RecordingError> {
    let chunks = recording.chunks();
    let next = AtomicUsize::new(0);
    let workers = rayon::current_num_threads().clamp(1, chunks.len().max(1));
    let work = |_| {
        let mut visitor = make();
        let mut decoder = Decoder::new();
        // One by one, because chunks differ in cost; relaxed, because the number is all that
        // threads share.
        while let Some(chunk) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
            begin(&mut visitor);
            recording.visit(chunk, &mut decoder, &mut visitor)?;
            done(1);
        }
        Ok(visitor)
    };
    (0..workers).into_par_iter().map(work).collect()
}

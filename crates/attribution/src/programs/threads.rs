//! Programs' threads: their control blocks and thread-local variables.

use linemate_programs::{Image, Programs};
use rustc_hash::FxHashMap;

use super::evidence::Evidence;
use super::places::{Space, UserAddr};

/// Bytes above the thread pointer that are the C library's own (`struct pthread` of glibc 2.31 to
/// 2.41 has 2304 or 2368 on x86-64).
const THREAD_BLOCK: u64 = 2368;

/// All threads, by space.
#[derive(Debug)]
pub(super) struct ThreadNames(FxHashMap<Space, Threads>);

/// The threads of a space.
#[derive(Debug, Default)]
struct Threads {
    /// Their thread pointers, ascending.
    pointers: Vec<u64>,
    /// The program, and how far below a thread pointer its thread-local variables start.
    program: Option<(u32, u64)>,
}

/// A byte that belongs to a thread.
#[derive(Clone, Copy, Debug)]
pub(super) enum InThread {
    /// Of its control block.
    Block { offset: u64 },
    /// Of thread-local storage.
    Local {
        file: u32,
        /// The offset in its thread storage.
        offset: u64,
    },
}

impl ThreadNames {
    pub(super) fn new(programs: &Programs, evidence: &Evidence) -> ThreadNames {
        ThreadNames(threads(programs, evidence))
    }

    /// The thread's data at an address.
    pub(super) fn at(&self, at: UserAddr) -> Option<InThread> {
        let Threads { pointers, program } = self.0.get(&at.space)?;
        let after = pointers.partition_point(|thread| *thread <= at.addr);
        if let Some(thread) = after.checked_sub(1).map(|i| pointers[i]) {
            let offset = at.addr - thread;
            if offset < THREAD_BLOCK {
                return Some(InThread::Block { offset });
            }
        }
        let (file, size) = (*program)?;
        let below = pointers.get(after)? - at.addr;
        let offset = size.checked_sub(below)?;
        Some(InThread::Local { file, offset })
    }
}

/// Thread pointers, and the program of each space.
fn threads(programs: &Programs, evidence: &Evidence) -> FxHashMap<Space, Threads> {
    let mut all: FxHashMap<Space, Threads> = FxHashMap::default();
    for (space, pointer) in &evidence.threads {
        all.entry(*space).or_default().pointers.push(*pointer);
    }
    for (space, file, _) in &evidence.bases {
        let storage = programs.image(*file).and_then(Image::below_thread_pointer);
        if let (Some(size), Some(threads)) = (storage, all.get_mut(space)) {
            threads.program = Some((*file, size));
        }
    }
    all
}

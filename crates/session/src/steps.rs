//! A recording's accesses in order, named, and CPUs' turns, from as many threads as there are.
//!
//! ```text
//!   thread 0   chunk 0 ─► name ─► ▣▣▣▣ ┐
//!   thread 1   chunk 1 ─► name ─► ▣▣▣▣ ┼─► blocks, in the recording's order, to the caller
//!   thread 0   chunk 2 ─► …           ┘
//! ```
//!
//! Each thread is a few blocks ahead at most, so memory does not depend on how long chunks are.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use linemate_recording::{
    Access, Call, CpuId, Decoder, Error as RecordingError, Mark, Marker, Recording, Return,
    VirtualTime, Visitor,
};

use crate::step::Step;

/// Steps of a block: 3 MB.
const BLOCK: usize = 1 << 15;
/// Blocks that a thread is ahead.
const AHEAD: usize = 8;

/// A CPU's turn begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub cpu: CpuId,
    pub time: VirtualTime,
    /// How many steps of its block come before it.
    before: usize,
}

/// Consecutive steps, and turns among them.
#[derive(Debug, Default)]
pub struct Block {
    steps: Vec<Step>,
    turns: Vec<Turn>,
}

impl Block {
    /// How many steps it has.
    #[inline]
    pub fn size(&self) -> usize {
        self.steps.len()
    }

    /// Its steps from turn to turn, with the turn before them.
    #[inline]
    pub fn parts(&self) -> impl Iterator<Item = (Option<Turn>, &[Step])> {
        let turns = std::iter::once(None).chain(self.turns.iter().copied().map(Some));
        let ends = self.turns.iter().map(|turn| turn.before);
        let ends = ends.chain(std::iter::once(self.steps.len()));
        turns.zip(ends).map(|(turn, end)| {
            let begin = turn.map_or(0, |turn| turn.before);
            (turn, &self.steps[begin..end])
        })
    }

    fn clear(&mut self) {
        self.steps.clear();
        self.turns.clear();
    }

    fn is_full(&self) -> bool {
        self.steps.len() >= BLOCK || self.turns.len() >= BLOCK
    }
}

/// What a thread sends.
enum Sent {
    Block(Block),
    /// The chunk has ended, or is damaged.
    End(Result<(), RecordingError>),
}

/// Hands all steps and turns of the recording to `each`, block by block, in order. When `each`
/// fails, nothing more is read.
///
/// # Errors
/// A damaged chunk; what `each` gives.
pub fn for_each<E: From<RecordingError>, N: Fn(&Access) -> Step + Sync>(
    recording: &Recording,
    name: &N,
    mut each: impl FnMut(&Block) -> Result<(), E>,
) -> Result<(), E> {
    let chunks = recording.chunks().len();
    let threads = rayon::current_num_threads().clamp(1, chunks.max(1));
    let spare = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let receivers: Vec<Receiver<Sent>> = (0..threads)
            .map(|thread| {
                // Bounded: a thread that is ahead waits instead of filling memory.
                let (sender, receiver) = sync_channel(AHEAD);
                let spare = &spare;
                let share = Share {
                    first: thread,
                    step: threads,
                };
                scope.spawn(move || read(recording, name, share, &sender, spare));
                receiver
            })
            .collect();
        for chunk in 0..chunks {
            loop {
                // Chunks are dealt in turn, so the next one is always at the thread whose turn it
                // is: order needs no queue of finished chunks.
                match receivers[chunk % threads].recv() {
                    Ok(Sent::Block(mut block)) => {
                        each(&block)?;
                        block.clear();
                        // Reused: a block is 3 MB, and allocating one for each 32,768 steps makes
                        // the host's kernel clear as much.
                        put_back(&spare, block);
                    }
                    Ok(Sent::End(result)) => break result?,
                    // The thread panicked; joining it says so.
                    Err(_) => return Ok(()),
                }
            }
        }
        Ok(())
    })
}

/// A thread's chunks: `first`, `first + step`, ….
#[derive(Clone, Copy)]
struct Share {
    first: usize,
    step: usize,
}

/// Reads a thread's chunks; ends early when nobody listens any more.
fn read<N: Fn(&Access) -> Step>(
    recording: &Recording,
    name: &N,
    share: Share,
    sender: &SyncSender<Sent>,
    spare: &Mutex<Vec<Block>>,
) {
    let mut decoder = Decoder::new();
    for chunk in recording
        .chunks()
        .iter()
        .skip(share.first)
        .step_by(share.step)
    {
        let mut namer = Namer {
            name,
            sender,
            spare,
            block: Block::default(),
            heard: true,
        };
        let result = recording.visit(chunk, &mut decoder, &mut namer);
        namer.send();
        if !namer.heard || sender.send(Sent::End(result)).is_err() {
            return;
        }
    }
}

fn put_back(spare: &Mutex<Vec<Block>>, block: Block) {
    if let Ok(mut spare) = spare.lock() {
        spare.push(block);
    }
}

struct Namer<'n, N> {
    name: &'n N,
    sender: &'n SyncSender<Sent>,
    spare: &'n Mutex<Vec<Block>>,
    block: Block,
    heard: bool,
}

impl<N> Namer<'_, N> {
    fn send(&mut self) {
        let spare = self.spare.lock().ok().and_then(|mut spare| spare.pop());
        let next = spare.unwrap_or_default();
        let full = std::mem::replace(&mut self.block, next);
        if self.heard {
            self.heard = self.sender.send(Sent::Block(full)).is_ok();
        }
    }
}

impl<N: Fn(&Access) -> Step> Visitor for Namer<'_, N> {
    #[inline]
    fn access(&mut self, access: &Access) {
        self.block.steps.push((self.name)(access));
        if self.block.is_full() {
            self.send();
        }
    }
    fn call(&mut self, _: &Call) {}
    fn ret(&mut self, _: &Return) {}
    fn marker(&mut self, marker: &Marker) {
        if marker.mark != Mark::Turn {
            return;
        }
        self.block.turns.push(Turn {
            cpu: marker.cpu,
            time: marker.time,
            before: self.block.steps.len(),
        });
        if self.block.is_full() {
            self.send();
        }
    }
}

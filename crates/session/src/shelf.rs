//! Where the results about a recording are stored between questions.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufWriter, Read};
use std::sync::{Arc, Mutex, MutexGuard};

use linemate_machine::LineSize;
use linemate_recording::Source;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// zstd's default level: it is fast enough that reading takes the time.
const LEVEL: i32 = 3;
/// The most bytes that are unpacked: a damaged length must not ask for all memory.
const BYTES_MAX: u64 = 1 << 30;

/// A 64-bit digest of everything that a result depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Digest(pub u64);

impl fmt::LowerHex for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

/// A part of what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Subjects, counts and objects of the analysis.
    Counts,
    /// The accesses that replays with such lines need; the digest identifies which CPUs share an
    /// L1, and is there if some do.
    Stream(LineSize, Option<Digest>),
    /// What replays without edits found; the digest identifies scene, machine and conditions.
    Outcomes(Digest),
    /// Replays of the layout as recorded, by field, with their timelines and misses; the digest
    /// identifies machine and conditions.
    Baselines(Digest),
    /// What the accesses that edits may affect cost as recorded; the digest identifies scene,
    /// machine, conditions and moved types.
    Differences(Digest),
    /// The accesses that edits may affect; the digest identifies moved types and L1s.
    Followed(Digest),
    /// What fields cost by act and function; the digest identifies scene, machine, conditions and
    /// the pointers that are followed.
    Costs(Digest),
    /// How the lines of types fall into cache sets as recorded; the digest identifies scene,
    /// machine, conditions and types.
    Sets(Digest),
    /// When a function is on a stack; the digest identifies function and image.
    Under(Digest),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Counts => f.write_str("counts"),
            Part::Stream(line, None) => write!(f, "stream{}", line.bytes()),
            Part::Stream(line, Some(l1s)) => write!(f, "stream{}-{l1s:016x}", line.bytes()),
            Part::Outcomes(question) => write!(f, "outcomes-{question:016x}"),
            Part::Baselines(question) => write!(f, "baselines-{question:016x}"),
            Part::Differences(question) => write!(f, "differences-{question:016x}"),
            Part::Followed(question) => write!(f, "followed-{question:016x}"),
            Part::Costs(question) => write!(f, "costs-{question:016x}"),
            Part::Sets(question) => write!(f, "sets-{question:016x}"),
            Part::Under(question) => write!(f, "under-{question:016x}"),
        }
    }
}

/// Keeps parts of one recording. What it gives was stored by the same analysis of the same
/// recording, whole and unchanged: the implementer checks that, and gives nothing where it does not
/// hold. Whatever fails is as if nothing were kept.
pub trait Shelf: Send + Sync {
    /// What was stored, if anything.
    fn load(&self, part: Part) -> Option<Vec<u8>>;
    /// The same, unread as far as the shelf can: to be read in pieces.
    fn open(&self, part: Part) -> Option<Box<dyn Source>> {
        Some(Box::new(self.load(part)?))
    }
    /// Keeps it for later.
    fn store(&self, part: Part, bytes: &[u8]);
}

/// A shelf that keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Shelf for Nothing {
    fn load(&self, _: Part) -> Option<Vec<u8>> {
        None
    }
    fn store(&self, _: Part, _: &[u8]) {}
}

/// A shelf in memory; its clones are the same shelf.
#[derive(Clone, Debug, Default)]
pub struct InMemory(Arc<Mutex<HeldParts>>);

#[derive(Debug, Default)]
struct HeldParts {
    /// By the part's name.
    parts: BTreeMap<String, Vec<u8>>,
    stored: Vec<String>,
}

impl InMemory {
    /// The names of parts stored since the last call, in that order.
    pub fn take_stored(&self) -> Vec<String> {
        std::mem::take(&mut self.held().stored)
    }

    /// Gives the bytes of all parts by their names, to be read or changed.
    pub fn with<T>(&self, then: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> T) -> T {
        then(&mut self.held().parts)
    }

    fn held(&self) -> MutexGuard<'_, HeldParts> {
        // A panic elsewhere leaves the maps whole.
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Shelf for InMemory {
    fn load(&self, part: Part) -> Option<Vec<u8>> {
        self.held().parts.get(&part.to_string()).cloned()
    }
    fn store(&self, part: Part, bytes: &[u8]) {
        let mut held = self.held();
        held.stored.push(part.to_string());
        held.parts.insert(part.to_string(), bytes.to_vec());
    }
}

/// The bytes to keep of something; `None` if it cannot be written.
pub fn pack(content: &impl Serialize) -> Option<Vec<u8>> {
    // Through the encoder, so that what is packed is not in memory a second time.
    let encoder = zstd::stream::Encoder::new(Vec::new(), LEVEL).ok()?;
    // postcard writes byte by byte, and zstd takes each write through its stream.
    let buffered = BufWriter::with_capacity(1 << 16, encoder);
    let buffered = postcard::to_io(content, buffered).ok()?;
    buffered.into_inner().ok()?.finish().ok()
}

/// What was kept; `None` if these are not its bytes.
pub fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let decoder = zstd::stream::Decoder::new(bytes).ok()?;
    let mut unpacked = Vec::new();
    // A part that is longer is cut here, which postcard then refuses.
    decoder.take(BYTES_MAX).read_to_end(&mut unpacked).ok()?;
    postcard::from_bytes(&unpacked).ok()
}

//! Where the results about a recording are stored between questions.

use std::fmt;
use std::io::{BufWriter, Read};

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
    /// The accesses that replays on machines with such lines need.
    Stream(LineSize),
    /// What replays without edits found; the digest identifies scene, machine and conditions.
    Outcomes(Digest),
    /// What differences are added to; the digest identifies scene, machine, conditions and moved
    /// types.
    Differences(Digest),
    /// When a function is on a stack; the digest identifies function and image.
    Under(Digest),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Counts => f.write_str("counts"),
            Part::Stream(line) => write!(f, "stream{}", line.bytes()),
            Part::Outcomes(question) => write!(f, "outcomes-{question:016x}"),
            Part::Differences(question) => write!(f, "differences-{question:016x}"),
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

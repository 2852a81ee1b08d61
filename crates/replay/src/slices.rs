//! How a recording is cut into slices and rounds: the one rule for whoever replays accesses, filters them or lays them side by side.
//!
//! In a deterministic recording one CPU runs at a time. A *slice* is a run of consecutive accesses of one CPU; a *round* is a
//! run of consecutive slices in which no CPU comes up twice. What is cut here is put side by side by the interleaver
//! (`interleaver`).

use linemate_recording::{CpuId, VirtualTime};

/// Accesses that go through the caches after which a round is closed even though no CPU has come up twice: bounds memory when
/// one CPU runs alone.
pub const ROUND_ACCESSES_MAX: usize = 1 << 16;

/// What an access begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// Nothing: its slice goes on.
    Nothing,
    /// A slice of the current round.
    Slice,
    /// A slice, which is the first one of a round.
    Round,
}

/// Where an access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// What it begins.
    pub begins: Begins,
    /// Instructions from its slice's first access; never less than the one before it in the slice.
    pub offset: u32,
}

/// Cuts a recording. Hand in every access, in order.
#[derive(Clone, Debug)]
pub struct Slicer {
    /// Recorded CPUs that have a slice in the current round.
    in_round: Vec<bool>,
    /// Accesses of the current round that go through the caches.
    cached: usize,
    slice: Option<OpenSlice>,
}

#[derive(Clone, Copy, Debug)]
struct OpenSlice {
    cpu: CpuId,
    start: u64,
    span: u32,
}

impl Slicer {
    /// For a recording with that many CPUs. Accesses by others must not be handed in.
    pub fn new(cpus: usize) -> Slicer {
        Slicer {
            in_round: vec![false; cpus],
            cached: 0,
            slice: None,
        }
    }

    /// The next access; `cached` tells whether it goes through the caches.
    #[inline]
    pub fn cut(&mut self, cpu: CpuId, time: VirtualTime, cached: bool) -> Cut {
        let full = self.cached >= ROUND_ACCESSES_MAX;
        let cut = match self
            .slice
            .as_mut()
            .filter(|slice| slice.cpu == cpu && !full)
        {
            Some(slice) => match u32::try_from(time.0.saturating_sub(slice.start)) {
                Ok(offset) => {
                    slice.span = slice.span.max(offset);
                    Cut {
                        begins: Begins::Nothing,
                        offset: slice.span,
                    }
                }
                Err(_) => self.begin(cpu, time, full),
            },
            None => self.begin(cpu, time, full),
        };
        self.cached += usize::from(cached);
        cut
    }

    fn begin(&mut self, cpu: CpuId, time: VirtualTime, full: bool) -> Cut {
        let at = usize::from(cpu.0);
        let again = self.slice.is_none() || self.in_round[at] || full;
        if again {
            self.in_round.fill(false);
            self.cached = 0;
        }
        self.in_round[at] = true;
        self.slice = Some(OpenSlice {
            cpu,
            start: time.0,
            span: 0,
        });
        Cut {
            begins: if again { Begins::Round } else { Begins::Slice },
            offset: 0,
        }
    }
}

/// A slice of a round, as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceHead {
    /// The recorded CPU.
    pub cpu: CpuId,
    /// Instructions from its first access to its last.
    pub span: u32,
    /// Instructions to its last access that goes through the caches; `None`: none of them does.
    pub last: Option<u32>,
}

impl SliceHead {
    /// A slice that its first access begins.
    pub fn new(cpu: CpuId) -> SliceHead {
        SliceHead {
            cpu,
            span: 0,
            last: None,
        }
    }

    /// Takes note of its next access.
    #[inline]
    pub fn extend(&mut self, offset: u32, cached: bool) {
        self.span = offset;
        if cached {
            self.last = Some(offset);
        }
    }
}

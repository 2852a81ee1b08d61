//! The interfaces: where a recorded access goes and what it is charged to ([`Placement`]), and
//! which CPUs and which memory it represents when a recording is replayed on more CPUs than it has
//! ([`Cloner`]).
//!
//! Replay knows neither types nor edits: placements that name fields and apply an edited layout
//! come from the crates that do.

use linemate_recording::{Access, CpuId, GuestAddr};
use serde::{Deserialize, Serialize};

/// What an access is charged to, such as a field. Dense from 0; the placement knows what each one
/// means.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct KeyId(pub u32);

/// The second thing that an access is charged to when it leaves its core, such as a function. Dense
/// from 0.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct SiteId(pub u32);

/// Whose memory it is, when CPUs are cloned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Sharing {
    /// One for the whole machine, for any number of CPUs.
    #[default]
    Shared,
    /// Cloned together with the CPUs: stacks, objects of a task.
    Cloned,
    /// Cloned, and the recorded CPU's own: its part of per-CPU memory. What other CPUs do there,
    /// they do to some CPU in the same position ([`crate::Mixing`]).
    OfCpu(CpuId),
}

/// Where an access goes and what it is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The first byte, after all edits.
    pub addr: GuestAddr,
    /// What to charge it to.
    pub key: KeyId,
    /// What else to charge it to.
    pub site: SiteId,
    /// Whose memory it is.
    pub sharing: Sharing,
    /// What becomes of it.
    pub fate: Fate,
}

/// What becomes of a recorded access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Fate {
    /// It goes through the caches.
    #[default]
    Cached,
    /// It goes to a device's registers and bypasses all caches. It takes its instruction's time;
    /// the device's own time is not modelled: the registers that kernels use most (a local APIC's)
    /// are not memory at all on machines with x2APIC.
    Uncached,
    /// It does not happen: an edit removed it. It still takes its instruction's time.
    Removed,
}

/// Names and moves accesses.
pub trait Placement {
    /// Called once per recorded access, in the order of the recording.
    fn place(&mut self, access: &Access) -> Placed;
}

/// Every access stays where it was recorded and is charged to one key.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsRecorded;

impl Placement for AsRecorded {
    #[inline]
    fn place(&mut self, access: &Access) -> Placed {
        Placed {
            addr: access.addr,
            key: KeyId(0),
            site: SiteId(0),
            sharing: Sharing::Shared,
            fate: Fate::Cached,
        }
    }
}

impl<F: FnMut(&Access) -> Placed> Placement for F {
    #[inline]
    fn place(&mut self, access: &Access) -> Placed {
        self(access)
    }
}

/// How many CPUs each recorded one represents, and which memory each of them touches.
///
/// Copy 0 is the recorded CPU itself. The copies of all recorded CPUs with one number form a
/// *group*: what CPU a does to CPU b's data, a's copy n does to b's copy n's, so references between
/// CPUs keep their relation.
pub trait Cloner {
    /// Copies of each recorded CPU, at least 1 and at most [`COPIES_MAX`].
    fn copies(&self) -> u16;

    /// Which instance of the memory copy `copy` touches: 0 is the recorded one, and an instance
    /// shares no line with another. Below [`COPIES_MAX`].
    fn instance(&self, copy: u16, sharing: Sharing) -> u16;
}

/// The maximum number of copies: as many as the spare bits of a 57-bit address can distinguish.
pub const COPIES_MAX: u16 = 4096;

/// As many CPUs as were recorded.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoClones;

impl Cloner for NoClones {
    fn copies(&self) -> u16 {
        1
    }

    #[inline]
    fn instance(&self, _copy: u16, _sharing: Sharing) -> u16 {
        0
    }
}

/// Each recorded CPU `copies` times: [`Sharing::Cloned`] memory once per copy, the rest once.
#[derive(Clone, Copy, Debug)]
pub struct Clones {
    /// How many CPUs each recorded one represents.
    pub copies: u16,
}

impl Cloner for Clones {
    fn copies(&self) -> u16 {
        self.copies
    }

    #[inline]
    fn instance(&self, copy: u16, sharing: Sharing) -> u16 {
        match sharing {
            Sharing::Shared => 0,
            Sharing::Cloned | Sharing::OfCpu(_) => copy,
        }
    }
}

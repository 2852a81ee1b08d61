//! An access of a recording, named: what every question starts from.

use linemate_attribution::{FieldRef, SubjectId};
use linemate_recording::Access;
use linemate_replay::{Fate, Item, KeyId, Later, Placed, Sharing, SiteId, SliceHead};

/// An access with all that does not depend on edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The access as recorded.
    pub access: Access,
    /// What it is counted for.
    pub subject: SubjectId,
    /// Bytes from the start of the object's type.
    pub offset: u32,
    /// Its field, or its subject.
    pub key: KeyId,
    /// The function, or the line of its source.
    pub site: SiteId,
    /// Whose memory it is when CPUs are cloned.
    pub sharing: Sharing,
    /// Whether it goes through the caches.
    pub fate: Fate,
    /// Instructions from its slice's first access, where the recording has been cut into slices;
    /// else 0.
    pub at: u32,
    /// How many earlier accesses of its slice have the same `at`; at most
    /// [`linemate_replay::TIE_MAX`].
    pub tie: u16,
    /// What was left out after it.
    pub later: Later,
    /// Whether a replay needs it even if nothing moves it.
    pub needed: bool,
    /// Whether it is to a line that an edit may change.
    pub followed: bool,
}

impl Step {
    /// An access to a subject's byte, before anything else is known of it.
    #[inline]
    pub fn new(access: &Access, subject: SubjectId, offset: u32) -> Step {
        Step {
            access: *access,
            subject,
            offset,
            key: KeyId(0),
            site: SiteId(0),
            sharing: Sharing::Shared,
            fate: Fate::Cached,
            at: 0,
            tie: 0,
            later: Later::default(),
            needed: true,
            followed: false,
        }
    }

    /// Which byte of which subject.
    #[inline]
    pub fn field(&self) -> FieldRef {
        FieldRef {
            subject: self.subject,
            offset: self.offset,
        }
    }

    /// The access as a replay takes it.
    #[inline]
    pub fn item(&self) -> Item {
        Item {
            pc: self.access.pc,
            offset: self.at,
            size: self.access.size,
            kind: self.access.kind,
            later: self.later,
            tie: self.tie,
        }
    }

    /// Where it goes and what it counts for, without edits.
    #[inline]
    pub fn placed(&self) -> Placed {
        Placed {
            addr: self.access.addr,
            key: self.key,
            site: self.site,
            sharing: self.sharing,
            fate: self.fate,
        }
    }
}

/// A slice of a round, and its steps.
pub type Slice<'r> = (SliceHead, &'r [Step]);

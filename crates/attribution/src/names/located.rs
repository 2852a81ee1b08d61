//! Where an access went.

use linemate_recording::{CpuId, GuestAddr};

use crate::ledger::Bucket;
use crate::subjects::{Extent, FieldRef, SubjectId, Subjects, clip};

/// Where an access went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// What it is counted for; the bucket is the subject's.
    pub subject: SubjectId,
    /// Bytes from the start of the type (of the element in an array), or of the variable. 0 if
    /// there is neither.
    pub offset: u32,
    /// The first byte of the object, which distinguishes it from its siblings. 0 if there is none.
    pub object: GuestAddr,
    /// The CPU that owns the object, if it is a per-CPU one.
    pub owner: Option<CpuId>,
}

impl Located {
    #[inline]
    pub fn field(&self) -> FieldRef {
        FieldRef {
            subject: self.subject,
            offset: self.offset,
        }
    }

    /// What is at `at`, an offset that `extent` covers; `start` is where the extent's own first
    /// byte is.
    pub(super) fn inside(extent: &Extent, at: u64, start: u64, owner: Option<CpuId>) -> Located {
        let offset = at - extent.start;
        // An array is counted as its elements, each an object of its own: stride 0 means no array.
        let inner = offset.checked_rem(extent.stride).unwrap_or(offset);
        Located {
            subject: extent.subject,
            offset: clip(inner),
            object: GuestAddr(start + (offset - inner)),
            owner,
        }
    }
}

/// The subjects of accesses that have only a bucket.
#[derive(Debug)]
pub(super) struct Wholes(Vec<SubjectId>);

impl Wholes {
    pub(super) fn new(subjects: &mut Subjects) -> Wholes {
        Wholes(Bucket::ALL.iter().map(|b| subjects.bucket(*b)).collect())
    }

    pub(super) fn of(&self, bucket: Bucket) -> SubjectId {
        self.0[bucket as usize]
    }
}

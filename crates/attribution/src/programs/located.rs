//! Where a program's access went, and what it is counted for.

use crate::ledger::Bucket;
use crate::subjects::{Subject, SubjectId, bare};

/// Where an access went: what it is counted for, and the place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InProgram {
    pub(crate) subject: SubjectId,
    /// Bytes from the start of the type or variable.
    pub(crate) offset: u32,
    /// Whether the object has a first byte that distinguishes it from its siblings.
    pub(crate) object: bool,
}

impl InProgram {
    /// An access without a place of its own in its subject.
    pub(super) fn whole(subject: SubjectId) -> InProgram {
        InProgram {
            subject,
            offset: 0,
            object: false,
        }
    }
}

/// The subject of programs' memory of which only the bucket is known.
pub(super) fn of_program(bucket: Bucket) -> Subject {
    Subject {
        program: true,
        ..bare(bucket)
    }
}

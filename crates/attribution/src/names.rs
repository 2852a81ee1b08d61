//! Names for accesses: address and time in, bucket, object and field out.
//!
//! [`Names`] is built once from everything the first pass collected; from then on it is read-only,
//! so any number of threads can query it at once. It counts nothing ([`crate::tally`] does). The
//! kernel's memory and programs' are named separately: an access's mapping says which of them it is
//! to.

mod frames;
mod kernel;
mod located;
mod objects;
mod percpu;
mod slabs;
mod variables;

use linemate_recording::{Access, GuestAddr, VirtualTime};

use self::kernel::KernelNames;
use crate::collect::Collected;
use crate::ledger::Bucket;
use crate::map::KernelMap;
use crate::programs::{ProgramFacts, ProgramFindings, ProgramNames};
use crate::schema::Schema;
use crate::subjects::{Subject, Subjects};

pub use self::located::Located;

/// The inputs of programs' names.
pub(crate) struct ProgramParts<'a> {
    pub(crate) facts: ProgramFacts<'a>,
    pub(crate) found: ProgramFindings,
}

/// Finds where an access went.
#[derive(Debug)]
pub struct Names {
    subjects: Vec<Subject>,
    kernel: KernelNames,
    /// If programs are recorded.
    programs: Option<ProgramNames>,
}

impl Names {
    /// Resolves what was collected.
    pub(crate) fn new(
        map: KernelMap,
        schema: &Schema,
        collected: Collected,
        programs: Option<ProgramParts<'_>>,
    ) -> Names {
        let mut subjects = Subjects::default();
        let kernel = KernelNames::new(&mut subjects, schema, map, collected);
        let programs = programs
            .map(|parts| ProgramNames::new(parts.facts, schema, &mut subjects, parts.found));
        Names {
            subjects: subjects.list,
            kernel,
            programs,
        }
    }

    /// All subjects, by [`SubjectId`](crate::SubjectId).
    #[must_use]
    pub fn subjects(&self) -> &[Subject] {
        &self.subjects
    }

    /// The first byte, the birth (0 for objects from before the recording) and the name of every
    /// tracked kernel object.
    pub fn objects(&self) -> impl Iterator<Item = (GuestAddr, VirtualTime, Located)> + '_ {
        self.kernel.objects()
    }

    /// Where an access went: by its first byte.
    #[must_use]
    pub fn locate(&self, access: &Access) -> Located {
        match access.user_mapping {
            true => self.in_program(access),
            false => self.kernel.locate(access),
        }
    }

    /// What is at a kernel address at a time.
    #[must_use]
    pub fn locate_at(&self, addr: GuestAddr, time: VirtualTime) -> Located {
        self.kernel.locate_at(addr, time)
    }

    fn in_program(&self, access: &Access) -> Located {
        let found = self.programs.as_ref().and_then(|p| p.locate(access));
        found.map_or_else(
            || self.kernel.nowhere(Bucket::UserMapping),
            |found| Located {
                subject: found.subject,
                offset: found.offset,
                object: match found.object {
                    true => GuestAddr(access.addr.0.wrapping_sub(found.offset.into())),
                    false => GuestAddr(0),
                },
                owner: None,
            },
        )
    }
}

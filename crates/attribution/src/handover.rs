//! Which accesses meet another CPU's at the same bytes of the same object.
//!
//! An access is *handed over* if its bytes come from another CPU: a load of what another CPU has written since this one last used it, or a write
//! of what another CPU has used since it was last written. Caches of any size would have to ask for such bytes, were lines as small as
//! fields; so it is a count of what sharing costs, unlike that of all accesses to whatever several CPUs ever touch: what one CPU sets up
//! and another uses from then on is handed over once.
//!
//! Bytes are told apart by the first one that an access touches. Order is known inside a chunk alone, which threads take in any order, so
//! nothing is handed over across the border of two (some two million events), nor where [`BYTES_MAX`] are known. CPUs whose numbers
//! differ by a multiple of 64 count as one. Each of the three can only leave accesses out.

use linemate_recording::{Access, AccessKind};
use rustc_hash::FxHashMap;

use crate::subjects::SubjectId;

/// The most bytes whose last uses are kept, then they are forgotten: 32 MB a thread.
const BYTES_MAX: usize = 1 << 20;

/// Follows the accesses of a chunk.
#[derive(Debug, Default)]
pub(crate) struct Handovers {
    /// By the address of the first byte.
    bytes: FxHashMap<u64, LastUse>,
}

/// Who used the bytes.
#[derive(Clone, Copy, Debug)]
struct LastUse {
    /// What was there: memory is used again for other things.
    subject: SubjectId,
    /// Whether they were written.
    written: bool,
    /// The CPUs since the last write, the writer among them.
    users: u64,
}

impl Handovers {
    /// Forgets the accesses of the chunk before.
    pub(crate) fn start_chunk(&mut self) {
        self.bytes.clear();
    }

    /// Whether an access to a subject, the next one in the chunk, is handed over.
    #[inline]
    pub(crate) fn access(&mut self, access: &Access, subject: SubjectId) -> bool {
        if self.bytes.len() >= BYTES_MAX {
            self.bytes.clear();
        }
        let cpu = 1u64 << (access.cpu.0 % 64);
        let unused = LastUse {
            subject,
            written: false,
            users: 0,
        };
        let last = self.bytes.entry(access.addr.0).or_insert(unused);
        if last.subject != subject {
            *last = unused;
        }
        if access.kind == AccessKind::Load {
            let from_other = last.written && last.users & cpu == 0;
            last.users |= cpu;
            return from_other;
        }
        let used_by_other = last.users & !cpu != 0;
        last.users = cpu;
        last.written = true;
        used_by_other
    }
}

#[cfg(test)]
mod tests {
    use linemate_recording::{CpuId, GuestAddr, VirtualTime};

    use super::*;

    fn access(cpu: u16, kind: AccessKind, addr: u64) -> Access {
        Access {
            cpu: CpuId(cpu),
            time: VirtualTime(0),
            pc: GuestAddr(0),
            addr: GuestAddr(addr),
            size: 8,
            kind,
            silent: false,
            user_mapping: false,
        }
    }

    fn handed(accesses: &[(u16, AccessKind, u64)]) -> Vec<bool> {
        let mut handovers = Handovers::default();
        let all = accesses.iter();
        all.map(|(cpu, kind, addr)| handovers.access(&access(*cpu, *kind, *addr), SubjectId(0)))
            .collect()
    }

    #[test]
    fn what_another_cpu_wrote_or_used_is_handed_over_once() {
        use AccessKind::{Load, Rmw, Store};
        let steps = [
            (0, Store, 8, false),
            (0, Load, 8, false),
            (1, Load, 8, true),
            (1, Load, 8, false),
            (0, Load, 8, false),
            (0, Store, 8, true),
            (0, Store, 8, false),
            (1, Rmw, 8, true),
            (1, Rmw, 8, false),
            (2, Load, 8, true),
        ];
        let accesses: Vec<_> = steps.iter().map(|(c, k, a, _)| (*c, *k, *a)).collect();
        let expected: Vec<bool> = steps.iter().map(|(.., handed)| *handed).collect();
        assert_eq!(handed(&accesses), expected);
    }

    #[test]
    fn what_is_only_read_or_lies_elsewhere_is_not_shared() {
        use AccessKind::{Load, Store};
        assert_eq!(
            handed(&[(0, Load, 8), (1, Load, 8), (0, Load, 8)]),
            [false; 3]
        );
        assert_eq!(
            handed(&[(0, Store, 8), (1, Store, 16), (0, Store, 8)]),
            [false; 3]
        );
    }

    #[test]
    fn another_object_in_the_same_place_and_another_chunk_begin_anew() {
        let mut handovers = Handovers::default();
        let store = |cpu| access(cpu, AccessKind::Store, 8);
        assert!(!handovers.access(&store(0), SubjectId(0)));
        assert!(!handovers.access(&store(1), SubjectId(1)), "another object");
        assert!(handovers.access(&store(0), SubjectId(1)));
        handovers.start_chunk();
        assert!(!handovers.access(&store(1), SubjectId(1)), "another chunk");
    }

    #[test]
    fn memory_is_bounded() {
        let mut handovers = Handovers::default();
        for at in 0..BYTES_MAX as u64 + 9 {
            handovers.access(&access(0, AccessKind::Store, at), SubjectId(0));
        }
        assert!(handovers.bytes.len() <= BYTES_MAX);
    }
}

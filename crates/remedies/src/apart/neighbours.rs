//! Objects of different CPUs on one line.

use std::collections::{BTreeMap, BTreeSet};

use linemate_attribution::schema::TypeIndex;
use linemate_attribution::{Analysis, Bucket, Subject, SubjectId, Tally};
use linemate_experiment::scene::Scene;
use linemate_recording::{CpuId, GuestAddr};
use linemate_types::ByteSize;
use rustc_hash::FxHashSet;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// A struct.
    Type(TypeIndex),
    /// A program's block without one.
    Block(SubjectId),
}

/// An object to which one CPU makes more than half of the accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Owned {
    start: u64,
    end: u64,
    what: What,
    cpu: CpuId,
    /// Whether it came from an allocator other than the per-CPU one.
    allocated: bool,
}

/// Neighbours of different CPUs with a line in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meetings {
    /// How many pairs of objects meet.
    pub(crate) pairs: usize,
    /// From the first of the first pair to the second, in bytes.
    pub(crate) bytes: u64,
}

impl Meetings {
    fn add(&mut self, bytes: u64) {
        if self.pairs == 0 {
            self.bytes = bytes;
        }
        self.pairs += 1;
    }
}

/// Objects on one line that belong to different CPUs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Neighbours {
    /// Elements of arrays, by their type.
    pub(crate) elements: BTreeMap<TypeIndex, Meetings>,
    /// Objects that were allocated, with the types of those next to them.
    pub(crate) blocks: BTreeMap<What, (Meetings, BTreeSet<What>)>,
    /// The lines that they meet on, by number: separating objects can only change what is lost
    /// there.
    lines: FxHashSet<u64>,
    /// Bytes of a line.
    line: u64,
    /// By subject: what is accessed of an object, from its first byte on.
    sizes: Vec<ByteSize>,
}

impl Neighbours {
    /// Examines all objects that are not per-CPU.
    pub(crate) fn new(
        analysis: &Analysis<'_>,
        scene: &Scene<'_>,
        tally: &Tally,
        line: u64,
    ) -> Neighbours {
        let mut sizes = vec![ByteSize::ZERO; analysis.subjects().len()];
        for (key, _) in tally.rows() {
            let size = &mut sizes[key.subject.index()];
            let end = u64::from(key.offset) + u64::from(key.size);
            *size = ByteSize(end).max(*size);
        }
        let mut owned = Vec::new();
        let subjects = (0u32..).map(SubjectId).zip(analysis.subjects());
        for ((id, subject), objects) in subjects.zip(scene.objects) {
            let Some(allocated) = allocated(subject) else {
                continue;
            };
            let what = subject.ty.map_or(What::Block(id), What::Type);
            let size = match subject.ty {
                Some(ty) => analysis.schema().size(ty),
                None => sizes[id.index()].0,
            };
            owned.extend(objects.iter().filter_map(|(base, users)| {
                Some(Owned {
                    start: base.0,
                    end: base.0.checked_add(size)?,
                    what,
                    // An object that no CPU mostly uses is shared itself: separating it from its
                    // neighbour does not end its own contention.
                    cpu: users.majority()?,
                    allocated,
                })
            }));
        }
        Neighbours {
            sizes,
            ..Neighbours::of(owned, line)
        }
    }

    /// What is accessed of a subject's objects, from their first byte on.
    pub(crate) fn size(&self, subject: SubjectId) -> ByteSize {
        self.sizes.get(subject.index()).copied().unwrap_or_default()
    }

    fn of(mut owned: Vec<Owned>, line: u64) -> Neighbours {
        owned.sort_unstable();
        let mut found = Neighbours {
            line,
            ..Neighbours::default()
        };
        for pair in owned.windows(2) {
            let [a, b] = [pair[0], pair[1]];
            // Objects that overlap existed at different times.
            let share = a.start < a.end && a.end <= b.start && (a.end - 1) / line == b.start / line;
            if !share || a.cpu == b.cpu {
                continue;
            }
            let bytes = b.start - a.start;
            let number = b.start / line;
            // No gap and one type: an array, or a cache whose slots are as large as its objects.
            // Both are padded in the same way.
            let array = (a.what == b.what && a.end == b.start).then_some(a.what);
            if let Some(What::Type(ty)) = array {
                found.elements.entry(ty).or_default().add(bytes);
                found.lines.insert(number);
            } else if a.allocated && b.allocated {
                found.lines.insert(number);
                // As a set: a pair of two objects of one type counts once.
                for (own, other) in BTreeSet::from([(a.what, b.what), (b.what, a.what)]) {
                    let (meetings, others) = found.blocks.entry(own).or_default();
                    meetings.add(bytes);
                    others.insert(other);
                }
            }
        }
        found
    }

    /// Whether objects of different CPUs meet on the line of an address.
    #[inline]
    pub(crate) fn meet_at(&self, address: GuestAddr) -> bool {
        address
            .0
            .checked_div(self.line)
            .is_some_and(|number| self.lines.contains(&number))
    }
}

/// Whether an allocator gave out the objects of a subject, if they have places that an edit can
/// change and no owner by design.
pub(crate) fn allocated(subject: &Subject) -> Option<bool> {
    match subject.bucket {
        _ if subject.percpu || subject.of_threads => None,
        Bucket::Field => Some(true),
        Bucket::HeapScalar | Bucket::HeapSite if subject.program => Some(true),
        Bucket::GlobalTyped | Bucket::StackTyped | Bucket::StackShared => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: u64 = 64;
    const TYPE: TypeIndex = TypeIndex(1);
    const A: What = What::Type(TYPE);
    const B: What = What::Type(TypeIndex(2));

    fn owned(start: u64, size: u64, what: What, cpu: u16) -> Owned {
        let cpu = CpuId(cpu);
        Owned {
            start,
            end: start + size,
            what,
            cpu,
            allocated: true,
        }
    }

    fn meetings(pairs: usize, bytes: u64) -> Meetings {
        Meetings { pairs, bytes }
    }

    fn nobody() -> Neighbours {
        Neighbours {
            line: LINE,
            ..Neighbours::default()
        }
    }

    #[test]
    fn they_meet_on_the_line_that_both_are_on_alone() {
        // 96 bytes each: the second line belongs to both, the first and the third to one each.
        let found = Neighbours::of(vec![owned(0x1000, 96, A, 0), owned(0x1060, 96, A, 1)], LINE);
        let meets = [0x1000, 0x1040, 0x1060, 0x107f, 0x1080].map(|at| found.meet_at(GuestAddr(at)));
        assert_eq!(meets, [false, true, true, true, false]);
        assert!(!Neighbours::default().meet_at(GuestAddr(0x1040)));
    }

    #[test]
    fn neighbours_without_room_between_are_an_array() {
        let four = (0..4).map(|i| owned(0x1000 + 16 * i, 16, A, i as u16));
        let found = Neighbours::of(four.collect(), LINE);
        assert_eq!(found.elements, [(TYPE, meetings(3, 16))].into());
        assert!(found.blocks.is_empty());
    }

    #[test]
    fn what_has_room_between_was_allocated_one_by_one() {
        let blocks = vec![
            owned(0x1000, 16, B, 0),
            owned(0x1020, 16, A, 1),
            owned(0x1040, 16, A, 0),
        ];
        let found = Neighbours::of(blocks, LINE);
        let of = |other| (meetings(1, 32), [other].into());
        assert_eq!(found.blocks, [(A, of(B)), (B, of(A))].into());
        assert!(found.elements.is_empty());
        // The program decides where variables are.
        let global = |start, cpu: u16| Owned {
            allocated: false,
            ..owned(start, 16, A, cpu)
        };
        let variables = vec![global(0x1000, 0), global(0x1020, 1)];
        assert_eq!(Neighbours::of(variables, LINE), nobody());
        let array = vec![global(0x1000, 0), global(0x1010, 1)];
        assert_eq!(Neighbours::of(array, LINE).elements.len(), 1);
        // Blocks of one size without a struct are never an array, however close.
        let block = What::Block(SubjectId(7));
        let close = vec![owned(0x1000, 16, block, 0), owned(0x1010, 16, block, 1)];
        let found = Neighbours::of(close, LINE);
        let expected = (meetings(1, 16), [block].into());
        assert_eq!(found.blocks, [(block, expected)].into());
        assert!(found.elements.is_empty());
    }

    #[test]
    fn one_cpu_on_a_line_or_a_line_each_is_as_it_should_be() {
        let none = |objects: Vec<Owned>| {
            assert_eq!(Neighbours::of(objects, LINE), nobody());
        };
        none(vec![owned(0x1000, 16, A, 3), owned(0x1010, 16, A, 3)]);
        none(vec![owned(0x1000, 64, A, 0), owned(0x1040, 64, A, 1)]);
        // One after the other in time.
        none(vec![owned(0x1000, 32, A, 0), owned(0x1010, 16, B, 1)]);
        none(vec![owned(0x1000, 0, A, 0), owned(0x1000, 16, B, 1)]);
    }

    #[test]
    fn elements_that_end_on_the_next_ones_line_are_neighbours() {
        let found = Neighbours::of(vec![owned(0x1000, 96, A, 0), owned(0x1060, 96, A, 1)], LINE);
        assert_eq!(found.elements, [(TYPE, meetings(1, 96))].into());
    }
}

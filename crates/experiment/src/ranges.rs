//! Which bytes of a program's variables and blocks one CPU alone writes.

use std::collections::{BTreeMap, BTreeSet};

use linemate_attribution::Subject;
use linemate_attribution::tally::{Count, CpuSet, Key, RARE_PART};
use linemate_layout::map::{Inner, MovedBytes, OffsetMap};
use linemate_recording::{AccessKind, GuestAddr, PAGE};
use linemate_session::Session;
use linemate_types::{ByteAlign, ByteOffset, ByteSize};

/// Who uses a piece of memory, or who writes it: by instruction how often, and on which CPUs.
#[derive(Clone, Debug, Default)]
pub struct UsersByPc(BTreeMap<GuestAddr, (u64, CpuSet)>);

impl UsersByPc {
    /// Counts accesses of one instruction.
    pub fn add(&mut self, pc: GuestAddr, times: u64, cpus: &CpuSet) {
        let (sum, all) = self.0.entry(pc).or_default();
        *sum += times;
        all.merge(cpus);
    }

    /// Counts the accesses to another piece.
    pub fn merge(&mut self, other: &UsersByPc) {
        for (pc, (times, cpus)) in &other.0 {
            self.add(*pc, *times, cpus);
        }
    }

    /// The number of all accesses.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.values().map(|(times, _)| *times).sum()
    }

    /// The CPUs that do not only set it up: those of instructions that access it at least a
    /// sixteenth ([`RARE_PART`]) as often as the one that does most.
    #[must_use]
    pub fn often(&self) -> CpuSet {
        let most = self.0.values().map(|(times, _)| *times).max();
        let often = |times: u64| times.saturating_mul(RARE_PART) >= most.unwrap_or(0);
        let mut cpus = CpuSet::default();
        let accesses = self.0.values().filter(|(times, _)| often(*times));
        accesses.for_each(|(_, set)| cpus.merge(set));
        cpus
    }
}

/// The CPUs that write each element, by number or offset. CPUs that write all elements set up the
/// array and do not count, unless they are an element's only writers.
#[must_use]
pub fn own_writers<N: Copy>(writers: &BTreeMap<N, CpuSet>) -> Vec<(N, BTreeSet<u16>)> {
    let sets = writers
        .values()
        .map(|set| set.iter().collect::<BTreeSet<u16>>());
    // A CPU that clears an array at its start writes every element once, and owns none.
    let everywhere = sets.reduce(|all, set| &all & &set).unwrap_or_default();
    let own = |set: &CpuSet| {
        let all: BTreeSet<u16> = set.iter().collect();
        let own = &all - &everywhere;
        if own.is_empty() { all } else { own }
    };
    writers.iter().map(|(n, set)| (*n, own(set))).collect()
}

/// The CPU that each element belongs to, by number or offset: the only one of [`own_writers`].
#[must_use]
pub fn owners<N: Copy>(writers: &BTreeMap<N, CpuSet>) -> Vec<(N, Option<u16>)> {
    let sets = own_writers(writers).into_iter();
    sets.map(|(n, own)| (n, only(&own))).collect()
}

fn only(own: &BTreeSet<u16>) -> Option<u16> {
    own.first().copied().filter(|_| own.len() == 1)
}

/// Whether no CPU writes both of two elements that are written.
#[must_use]
pub fn are_apart(one: &BTreeSet<u16>, other: &BTreeSet<u16>) -> bool {
    !one.is_empty() && !other.is_empty() && one.is_disjoint(other)
}

/// How many objects of `size` bytes there are, given the first bytes of what was accessed, which
/// one that crosses pages has in each of its pages.
#[must_use]
pub fn objects<'b>(bases: impl Iterator<Item = &'b GuestAddr>, size: ByteSize) -> usize {
    let mut count = 0;
    let mut in_page: Option<u64> = None;
    let mut alike = true;
    for base in bases {
        count += 1;
        alike &= *in_page.get_or_insert(base.0 % PAGE) == base.0 % PAGE;
    }
    let pages = in_page.map_or(0, |start| (start + size.0).div_ceil(PAGE));
    match alike && count as u64 <= pages {
        true => count.min(1),
        false => count,
    }
}

/// Who writes which bytes of a subject.
pub(crate) struct Written {
    writers: BTreeMap<ByteOffset, CpuSet>,
    /// What is accessed, from its first byte on.
    pub(crate) size: ByteSize,
}

impl Written {
    pub(crate) fn new(session: &Session<'_>, subject: usize) -> Written {
        let rows = session.counted().tally.rows();
        let rows = rows
            .into_iter()
            .filter(|(key, _)| key.subject.index() == subject);
        Written::of(rows)
    }

    /// The kernel loads and clears a program's memory on any CPU, byte by byte: it counts as a
    /// writer only if the program itself writes nothing of the subject, such as a buffer that it
    /// reads into.
    fn of<'t>(rows: impl Iterator<Item = (Key, &'t Count)>) -> Written {
        let mut size = ByteSize::ZERO;
        let [mut program, mut kernel] = [BTreeMap::new(), BTreeMap::new()];
        for (key, count) in rows {
            let offset = ByteOffset::from(key.offset);
            let end = offset + ByteSize::from(u32::from(key.size));
            size = size.max(ByteSize(end.0));
            if key.kind != AccessKind::Load {
                let writers: &mut BTreeMap<ByteOffset, UsersByPc> = match key.pc.0 >> 63 {
                    0 => &mut program,
                    _ => &mut kernel,
                };
                let writers = writers.entry(offset).or_default();
                writers.add(key.pc, count.count, &count.cpus);
            }
        }
        let writers = if program.is_empty() { kernel } else { program };
        Written {
            writers: writers.iter().map(|(at, all)| (*at, all.often())).collect(),
            size,
        }
    }

    /// Where the bytes of one CPU end and those of another begin; in each of several objects, where
    /// bytes begin that no CPU writes that writes those before.
    fn starts(&self, parts: CpuParts) -> Vec<ByteOffset> {
        let sets = own_writers(&self.writers);
        let begins = |pair: &&[(ByteOffset, BTreeSet<u16>)]| match parts {
            CpuParts::OfOne => only(&pair[0].1) != only(&pair[1].1),
            CpuParts::OfEach => are_apart(&pair[0].1, &pair[1].1),
        };
        let inner = sets.windows(2).filter(begins).map(|pair| pair[1].0);
        [ByteOffset::ZERO].into_iter().chain(inner).collect()
    }

    /// Where bytes go if those of each CPU start at a multiple of `align`, and the size then.
    pub(crate) fn apart(&self, align: ByteAlign, parts: CpuParts) -> (OffsetMap, ByteSize) {
        let starts = self.starts(parts);
        let ends = starts.iter().skip(1).copied();
        let ends = ends.chain([self.size.max(ByteSize(1)).end()]);
        let mut new = ByteOffset::ZERO;
        let piece = |(start, end): (&ByteOffset, ByteOffset)| {
            let bytes = end.after(*start).unwrap_or_default();
            let piece = MovedBytes {
                old: *start,
                bytes,
                new: Some(new),
                inner: Inner::Whole,
            };
            new += bytes.align_up(align);
            piece
        };
        let pieces = starts.iter().zip(ends).map(piece).collect();
        (OffsetMap::new(pieces), ByteSize(new.0))
    }
}

/// What the parts are that each CPU writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuParts {
    /// Of one object: a CPU has its own.
    OfOne,
    /// Of each of several objects, all counted together: CPUs that write the same part may each
    /// have an object.
    OfEach,
}

/// What the parts of a subject of that size are.
pub(crate) fn parts(session: &Session<'_>, subject: usize, size: ByteSize) -> CpuParts {
    match objects(session.counted().objects[subject].keys(), size) {
        0 | 1 => CpuParts::OfOne,
        _ => CpuParts::OfEach,
    }
}

/// The subjects of programs that a name means: a variable, or what an allocation is called in
/// advice.
pub(crate) fn named(session: &Session<'_>, name: &str) -> Vec<usize> {
    let analysis = session.analysis();
    let mut places = None;
    let mut is_named = |subject: &Subject| {
        if subject.is_program_variable() {
            return subject.label == name;
        }
        let is_longer = name.len() > subject.label.len() && name.starts_with(&subject.label);
        if !is_longer || !subject.program || subject.of_threads || subject.label.is_empty() {
            return false;
        }
        let places = places.get_or_insert_with(|| analysis.source_places());
        let called = places.of_blocks(analysis.symbols(), subject);
        called.as_deref() == Some(name)
    };
    let subjects = analysis.subjects().iter().enumerate();
    let named = subjects.filter(|(_, subject)| is_named(subject));
    named.map(|(number, _)| number).collect()
}

/// The names that [`named`] finds something for.
pub(crate) fn names(session: &Session<'_>) -> Vec<String> {
    let analysis = session.analysis();
    let places = analysis.source_places();
    let name = |subject: &Subject| match subject.is_program_variable() {
        true => Some(subject.label.clone()),
        false if subject.program && !subject.of_threads => {
            places.of_blocks(analysis.symbols(), subject)
        }
        false => None,
    };
    analysis.subjects().iter().filter_map(name).collect()
}

/// Where the objects of a subject are.
pub(crate) fn bases(session: &Session<'_>, subject: usize) -> Vec<GuestAddr> {
    let objects = &session.counted().objects[subject];
    objects.keys().copied().collect()
}

/// The bytes of what a name means, from its first byte to the last that was accessed; with an
/// alignment of what each CPU alone writes of it, as that makes them. Of several blocks the
/// largest before, and the largest after.
#[must_use]
pub fn size(session: &Session<'_>, name: &str, padded: Option<ByteAlign>) -> ByteSize {
    let of = |subject: usize| {
        let written = Written::new(session, subject);
        let parts = parts(session, subject, written.size);
        padded.map_or(written.size, |align| written.apart(align, parts).1)
    };
    let all = named(session, name).into_iter().map(of);
    all.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use linemate_attribution::SubjectId;

    use super::*;

    fn set(cpus: &[u16]) -> CpuSet {
        let mut set = CpuSet::default();
        cpus.iter().for_each(|cpu| set.insert(*cpu));
        set
    }

    #[test]
    fn the_bytes_of_each_cpu_start_a_line() {
        let writers = [(0, 3), (8, 3), (16, 1), (24, 2), (40, 2)];
        let writers = writers.map(|(offset, cpu)| (ByteOffset(offset), set(&[9, cpu])));
        let written = Written {
            writers: writers.into(),
            size: ByteSize(48),
        };
        assert_eq!(written.starts(CpuParts::OfOne), [0, 16, 24].map(ByteOffset));
        let line = ByteAlign::new(64).unwrap_or_default();
        let (map, size) = written.apart(line, CpuParts::OfOne);
        let to = |offset| map.parts(ByteOffset(offset), ByteSize(8))[0].offset.0;
        assert_eq!([0, 8, 16, 24, 40].map(to), [0, 8, 64, 128, 144]);
        assert_eq!(size, ByteSize(192));
    }

    #[test]
    fn the_kernel_is_a_writer_of_what_the_program_does_not_write() {
        let key = |offset, size, pc| Key {
            subject: SubjectId(0),
            offset,
            pc: GuestAddr(pc),
            kind: AccessKind::Store,
            size,
        };
        let by = |cpu| Count {
            count: 1,
            cpus: set(&[cpu]),
            ..Count::default()
        };
        const KERNEL: u64 = 0xffff_ffff_8100_0000;
        let cleared: Vec<(Key, Count)> = (0..16).map(|at| (key(at, 1, KERNEL), by(5))).collect();
        let mut rows = cleared.clone();
        rows.push((key(0, 8, 0x40_1000), by(1)));
        rows.push((key(8, 8, 0x40_1000), by(2)));
        let starts = |rows: &[(Key, Count)]| {
            let written = Written::of(rows.iter().map(|(key, count)| (*key, count)));
            assert_eq!(written.size, ByteSize(16));
            written.starts(CpuParts::OfOne)
        };
        assert_eq!(starts(&rows), [0, 8].map(ByteOffset));
        assert_eq!(starts(&cleared), [ByteOffset::ZERO]);
        let halves: Vec<(Key, Count)> =
            vec![(key(0, 8, KERNEL), by(1)), (key(8, 8, KERNEL), by(2))];
        assert_eq!(starts(&halves), [0, 8].map(ByteOffset));
    }

    #[test]
    fn what_nobody_writes_alone_stays_together() {
        let writers = [(0, set(&[1, 2])), (8, set(&[1, 2, 3])), (16, set(&[2, 3]))];
        let writers = writers.map(|(offset, set)| (ByteOffset(offset), set));
        let written = Written {
            writers: writers.into(),
            size: ByteSize(24),
        };
        // CPU 2 writes all of it, and of the rest 1 or 3 alone writes the ends.
        assert_eq!(written.starts(CpuParts::OfOne), [0, 8, 16].map(ByteOffset));
        let nobody = Written {
            writers: BTreeMap::new(),
            size: ByteSize(24),
        };
        assert_eq!(nobody.starts(CpuParts::OfOne), [ByteOffset::ZERO]);
    }

    #[test]
    fn parts_of_several_objects_begin_where_no_cpu_goes_on() {
        // Set up by CPU 9; two objects, each with a CPU at its first word and another at its last.
        let writers = [(0, set(&[9])), (8, set(&[9, 0, 2])), (16, set(&[9, 1, 3]))];
        let writers = writers.map(|(offset, set)| (ByteOffset(offset), set));
        let mut written = Written {
            writers: writers.into(),
            size: ByteSize(24),
        };
        assert_eq!(written.starts(CpuParts::OfEach), [0, 8, 16].map(ByteOffset));
        let line = ByteAlign::new(64).unwrap_or_default();
        assert_eq!(written.apart(line, CpuParts::OfEach).1, ByteSize(192));
        // One CPU writes both: each has an object of its own.
        written.writers.insert(ByteOffset(16), set(&[9, 1, 2]));
        assert_eq!(written.starts(CpuParts::OfEach), [0, 8].map(ByteOffset));
    }

    #[test]
    fn an_object_that_crosses_pages_is_one() {
        let count = |bases: &[u64], size| {
            let bases: Vec<GuestAddr> = bases.iter().copied().map(GuestAddr).collect();
            objects(bases.iter(), ByteSize(size))
        };
        assert_eq!(count(&[], 8), 0);
        assert_eq!(count(&[0x1ff0], 8), 1);
        assert_eq!(count(&[0x1ff0, 0x8ff0], 64), 1, "two frames");
        assert_eq!(count(&[0x1ff0, 0x8ff0, 0xaff0], 64), 3);
        assert_eq!(count(&[0x1fe0, 0x8ff0], 64), 2);
        assert_eq!(count(&[0x1000, 0x8000], 64), 2, "neither crosses");
    }
}

//! Counts accesses by instruction, subject, offset and kind.
//!
//! Nothing is folded while counting: fields, lines, functions and CPUs are sums over the rows,
//! computed on demand. There is one row per distinct (instruction, subject, offset): some 100,000
//! for a kernel's recording of any length; a program that searches tables of numbers has millions.

use std::hash::{Hash, Hasher};

use linemate_recording::{Access, AccessKind, GuestAddr};
use rustc_hash::{FxHashMap, FxHasher};

use crate::ledger::Ledger;
use crate::names::{Located, Names};
use crate::subjects::{FieldRef, Subject, SubjectId};

/// What sets a member up writes it once in an object's life; what uses it writes it with most reads
/// or every few: a sixteenth separates them by an order of magnitude on both sides. Writes are
/// set-up if they are a smaller part of the member's accesses than this, and so are those of an
/// instruction that writes less often, by this factor, than the one that writes most. A choice.
pub const RARE_PART: u64 = 16;

/// What a row counts.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Key {
    /// What the access is counted for.
    pub subject: SubjectId,
    /// Bytes from the start of the subject.
    pub offset: u32,
    /// The instruction that makes the access.
    pub pc: GuestAddr,
    pub kind: AccessKind,
    pub size: u8,
}

impl Key {
    #[inline]
    fn of(access: &Access, at: &Located) -> Key {
        Key {
            subject: at.subject,
            offset: at.offset,
            pc: access.pc,
            kind: access.kind,
            size: access.size,
        }
    }

    /// The place of its row among the recent ones.
    #[inline]
    fn slot(&self) -> usize {
        let mut hasher = FxHasher::default();
        // With the kind: an instruction that copies loads and stores at one offset in turn.
        (self.pc.0, self.offset, self.kind as u8).hash(&mut hasher);
        // The low bits: FxHash rotates its product, whose high bits depend on most, into them.
        hasher.finish() as usize % RECENT
    }

    #[inline]
    pub fn field(&self) -> FieldRef {
        FieldRef {
            subject: self.subject,
            offset: self.offset,
        }
    }
}

/// A row's number, while counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TallyRow(pub u32);

/// A set of CPUs. The order of sets means nothing; it sorts.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct CpuSet {
    /// CPUs 0 to 63, in place: each row has a set, and each access is counted in one.
    low: u64,
    /// The others, 64 in a word, up to the last.
    high: Box<[u64]>,
}

impl CpuSet {
    pub fn insert(&mut self, cpu: u16) {
        let bit = 1 << (cpu % 64);
        match usize::from(cpu / 64).checked_sub(1) {
            None => self.low |= bit,
            Some(word) => {
                self.widen(word + 1);
                self.high[word] |= bit;
            }
        }
    }

    /// Adds all CPUs of another set.
    pub fn merge(&mut self, other: &CpuSet) {
        self.low |= other.low;
        self.widen(other.high.len());
        for (mine, theirs) in self.high.iter_mut().zip(&other.high) {
            *mine |= theirs;
        }
    }

    /// Makes room for that many words of `high`.
    fn widen(&mut self, words: usize) {
        if self.high.len() < words {
            let mut high = std::mem::take(&mut self.high).into_vec();
            high.resize(words, 0);
            self.high = high.into_boxed_slice();
        }
    }

    /// The numbers of the CPUs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        (0u16..).zip(self.words()).flat_map(|(word, bits)| {
            let set = (0..64u16).filter(move |bit| bits >> bit & 1 == 1);
            set.map(move |bit| word * 64 + bit)
        })
    }

    #[must_use]
    pub fn len(&self) -> u32 {
        self.words().map(u64::count_ones).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.low).chain(self.high.iter().copied())
    }
}

/// What a row has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Count {
    pub count: u64,
    /// Of those: stores or RMWs known to have left memory unchanged.
    pub silent: u64,
    /// Of those: by a CPU other than the object's owner.
    pub remote: u64,
    /// Of those: bytes that came from another CPU ([`crate::Analysis::knows_order`]).
    pub handed: u64,
    pub cpus: CpuSet,
}

/// Rows, and the ledger over all of them.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    rows: FxHashMap<Key, u32>,
    counts: Vec<Count>,
    /// Accesses by CPU, and how many of each CPU's are typed.
    per_cpu: Vec<CpuCount>,
    ledger: Ledger,
    /// The row of the last access with the same hash: an instruction mostly repeats what it did
    /// last.
    recent: Vec<(Key, u32)>,
}

/// What one CPU did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CpuCount {
    pub loads: u64,
    pub stores: u64,
    pub rmws: u64,
    /// Accesses to objects owned by another CPU.
    pub remote: u64,
}

/// 2 MB per thread. With a quarter of the places the look-ups in the table of all rows are 2.4
/// times as many: 20 instead of 8 % of the accesses of the sleep workload.
const RECENT: usize = 1 << 16;
const NO_KEY: Key = Key {
    subject: SubjectId(u32::MAX),
    offset: u32::MAX,
    pc: GuestAddr(u64::MAX),
    kind: AccessKind::Load,
    size: 0,
};

impl Tally {
    #[must_use]
    pub fn new() -> Tally {
        Tally {
            recent: vec![(NO_KEY, 0); RECENT],
            ..Tally::default()
        }
    }

    /// Counts an access, `handed` over by another CPU or not; returns its row.
    #[inline]
    pub fn count(
        &mut self,
        names: &Names,
        access: &Access,
        at: &Located,
        handed: bool,
    ) -> (Key, TallyRow) {
        let key = Key::of(access, at);
        let row = self.row(key);
        let remote = at.owner.is_some_and(|owner| owner != access.cpu);
        let count = &mut self.counts[row as usize];
        count.count += 1;
        count.silent += u64::from(access.silent);
        count.remote += u64::from(remote);
        count.handed += u64::from(handed);
        count.cpus.insert(access.cpu.0);
        let subject = &names.subjects()[at.subject.0 as usize];
        self.ledger.book(subject.bucket, subject.program, 1);
        let cpu = usize::from(access.cpu.0);
        if cpu >= self.per_cpu.len() {
            self.per_cpu.resize(cpu + 1, CpuCount::default());
        }
        let of_cpu = &mut self.per_cpu[cpu];
        match access.kind {
            AccessKind::Load => of_cpu.loads += 1,
            AccessKind::Store => of_cpu.stores += 1,
            AccessKind::Rmw => of_cpu.rmws += 1,
        }
        of_cpu.remote += u64::from(remote);
        (key, TallyRow(row))
    }

    /// Some of what is known about an access's row, so that it is in the cache for
    /// [`Tally::count`].
    #[inline]
    pub(crate) fn read_ahead(&self, access: &Access, at: &Located) -> u64 {
        let known = self.recent.get(Key::of(access, at).slot());
        known.map_or(0, |(key, _)| key.pc.0)
    }

    fn row(&mut self, key: Key) -> u32 {
        let slot = key.slot();
        if let Some((known, row)) = self.recent.get(slot) {
            if *known == key {
                return *row;
            }
        }
        let next = self.counts.len() as u32;
        // Rows stay numbered in order of arrival, so that other counters (`times`) can be lists;
        // readers sort them.
        let row = *self.rows.entry(key).or_insert(next);
        if row == next {
            self.counts.push(Count::default());
        }
        if let Some(place) = self.recent.get_mut(slot) {
            *place = (key, row);
        }
        row
    }

    /// Adds another tally of the same names.
    pub fn merge(&mut self, other: &Tally) {
        for (key, row) in &other.rows {
            let mine = self.row(*key);
            let (sum, part) = (
                &mut self.counts[mine as usize],
                &other.counts[*row as usize],
            );
            sum.count += part.count;
            sum.silent += part.silent;
            sum.remote += part.remote;
            sum.handed += part.handed;
            sum.cpus.merge(&part.cpus);
        }
        if self.per_cpu.len() < other.per_cpu.len() {
            self.per_cpu
                .resize(other.per_cpu.len(), CpuCount::default());
        }
        for (sum, part) in self.per_cpu.iter_mut().zip(&other.per_cpu) {
            sum.loads += part.loads;
            sum.stores += part.stores;
            sum.rmws += part.rmws;
            sum.remote += part.remote;
        }
        self.ledger.merge(&other.ledger);
    }

    /// One with these rows.
    #[must_use]
    pub fn of(subjects: &[Subject], rows: Vec<(Key, Count)>, per_cpu: Vec<CpuCount>) -> Tally {
        let mut tally = Tally {
            per_cpu,
            ..Tally::default()
        };
        for (key, count) in rows {
            let subject = &subjects[key.subject.0 as usize];
            tally
                .ledger
                .book(subject.bucket, subject.program, count.count);
            tally.rows.insert(key, tally.counts.len() as u32);
            tally.counts.push(count);
        }
        tally
    }

    /// All rows, in any order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &Count)> {
        let rows = self.rows.iter();
        rows.map(|(key, row)| (key, &self.counts[*row as usize]))
    }

    #[must_use]
    pub fn rows(&self) -> Vec<(Key, &Count)> {
        let mut rows: Vec<(Key, &Count)> = self
            .rows
            .iter()
            .map(|(k, r)| (*k, &self.counts[*r as usize]))
            .collect();
        rows.sort_unstable_by_key(|(key, _)| *key);
        rows
    }

    /// What each CPU did.
    #[must_use]
    pub fn per_cpu(&self) -> &[CpuCount] {
        &self.per_cpu
    }

    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_each_cpu_once() {
        let of = |cpus: &[u16]| {
            let mut set = CpuSet::default();
            cpus.iter().for_each(|cpu| set.insert(*cpu));
            set
        };
        assert!(of(&[]).is_empty());
        assert_eq!(of(&[0, 63, 64, 64, 479]).len(), 4);
        let mut sum = of(&[1, 2]);
        sum.merge(&of(&[2, 66, 129]));
        assert_eq!(sum, of(&[1, 2, 66, 129]));
        sum.merge(&of(&[3]));
        assert_eq!(sum.len(), 5);
    }
}

//! One set-associative cache with least-recently-used replacement: which lines are in it, nothing
//! about coherence or time.
//!
//! Arrays are allocated zeroed when the first line comes, and stay untouched until a set is used,
//! so that a described machine with hundreds of cores and megabytes of cache costs only what a
//! recording touches. (Allocating all of them at once is not free: an allocator that has the memory
//! from an earlier replay clears it.) What one look-up reads is contiguous: the host's cache misses
//! determine a replay's speed.

use std::ops::Range;

use linemate_machine::{CacheShape, CoreId, DomainId, LlcIndex, LlcShape, Machine};

use crate::cache::address::Line;
use crate::cache::by_use::{first_to_back, last_to_front};
use crate::cache::stamp::{Evicted, Stamp};
use crate::size;

/// The copy is newer than that of the outer levels.
pub(crate) const DIRTY: u8 = 1;
/// Words that other cores wrote have not been read since: check each access (see `sharing`).
pub(crate) const CHECK: u8 = 2;
/// A prefetcher fetched the line, and nothing has used it since.
pub(crate) const PREFETCHED: u8 = 4;

/// What a cache stores about a line apart from its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// Its entry in the directory.
    pub(crate) slot: u32,
    pub(crate) flags: u8,
    /// Words the core used since the line arrived.
    pub(crate) touched: u64,
}

/// Where a line is: an index into the cache's ways, valid until the next use of the cache.
pub(crate) type Way = usize;

/// A private cache: L1 or L2 of one core.
///
/// Each set's ways are in the order of use, the most recent first; empty ones are at the end. So
/// the most likely way is compared first, and replacement needs no further state.
#[derive(Clone)]
pub(crate) struct Cache {
    ways: usize,
    set_mask: u64,
    /// Ways of all sets together.
    size: usize,
    /// Line + 1, or zero for an empty way. Not allocated until a line comes.
    lines: Vec<u64>,
    /// Next to each line: the words touched; the slot with the flags above it. Separate from the
    /// lines, because most ways are compared only by line: a set that lacks the line sought is two
    /// lines of the host instead of six.
    held: Vec<[u64; 2]>,
    /// None: nothing is noted. Behind a pointer, because most replays note nothing and every
    /// look-up reads this struct.
    uses: Option<Box<Uses>>,
}

/// When the lines of a private cache were last used, and what was evicted.
#[derive(Clone, Debug, Default)]
struct Uses {
    /// The stamp for a use.
    now: Stamp,
    /// Whether a use is not noted: the replay that is compared with leaves it out.
    unnoted: bool,
    /// Parallel to the lines.
    stamps: Vec<Stamp>,
    evicted: Vec<Evicted>,
}

impl Cache {
    pub(crate) fn new(shape: CacheShape) -> Cache {
        let ways = shape.ways as usize;
        Cache {
            ways,
            set_mask: u64::from(shape.sets) - 1,
            size: shape.sets as usize * ways,
            lines: Vec::new(),
            held: Vec::new(),
            uses: None,
        }
    }

    /// From now on, notes when lines are used, and what is evicted. Must be called before the first
    /// line comes.
    pub(crate) fn note_uses(&mut self) {
        self.uses = Some(Box::default());
    }

    /// Whether uses of lines that are there are noted from now on.
    #[inline]
    pub(crate) fn set_unnoted(&mut self, unnoted: bool) {
        if let Some(uses) = &mut self.uses {
            uses.unnoted = unnoted;
        }
    }

    /// The stamp for uses from now on.
    #[inline]
    pub(crate) fn set_now(&mut self, now: Stamp) {
        if let Some(uses) = &mut self.uses {
            uses.now = now;
        }
    }

    /// The evictions since the last call.
    pub(crate) fn take_evicted(&mut self, mut take: impl FnMut(Evicted)) {
        if let Some(uses) = &mut self.uses {
            uses.evicted.drain(..).for_each(&mut take);
        }
    }

    /// Removes and returns that set's least recently used line, if its last use was no later than
    /// `used`.
    pub(crate) fn take_older(&mut self, set: u32, used: Stamp) -> Option<(Line, Held)> {
        let base = set as usize * self.ways;
        let lines = self.lines.get(base..base + self.ways)?;
        let at = base + lines.iter().rposition(|line| *line != 0)?;
        let uses = self.uses.as_ref()?;
        if uses.stamps[at] > used {
            return None;
        }
        let line = std::mem::take(&mut self.lines[at]) - 1;
        Some((line, held(self.held[at])))
    }

    /// The size of the arrays in bytes of the host.
    pub(crate) fn size_in_memory(&self) -> usize {
        let stamps = self
            .uses
            .as_ref()
            .map_or(0, |uses| size::of_list(&uses.stamps));
        size::of_list(&self.lines) + size::of_list(&self.held) + stamps
    }

    #[inline]
    fn base(&self, line: Line) -> usize {
        (line & self.set_mask) as usize * self.ways
    }

    /// Where the line is, if it is here. Does not count as a use.
    #[inline]
    pub(crate) fn find(&self, line: Line) -> Option<Way> {
        let base = self.base(line);
        let set = self.lines.get(base..base + self.ways)?;
        set.iter()
            // Plus one because zeroed memory has to mean empty. The sum fits: a line number with
            // its instance leaves bits free.
            .position(|held| *held == line + 1)
            .map(|way| base + way)
    }

    /// Where the line is now, if it is here; counts as a use.
    #[inline]
    pub(crate) fn find_and_use(&mut self, line: Line) -> Option<Way> {
        let base = self.base(line);
        let set = self.lines.get_mut(base..base + self.ways)?;
        // Most hits are to the most recently used line, which does not have to move.
        let at = match set[0] == line + 1 {
            true => 0,
            false => {
                let at = set.iter().position(|held| *held == line + 1)?;
                last_to_front(&mut set[..=at]);
                // Both arrays in step: `held[way]` belongs to `lines[way]` at all times.
                last_to_front(&mut self.held[base..=base + at]);
                at
            }
        };
        if let Some(uses) = &mut self.uses {
            let stamps = &mut uses.stamps[base..base + self.ways];
            last_to_front(&mut stamps[..=at]);
            stamps[0] = match uses.unnoted {
                false => uses.now,
                // Still no older than the next one: the set is in the order of use.
                true => stamps[0].max(stamps.get(1).copied().unwrap_or_default()),
            };
        }
        Some(base)
    }

    /// Notes which words were used.
    #[inline]
    pub(crate) fn add_touched(&mut self, way: Way, words: u64) {
        self.held[way][0] |= words;
    }

    #[inline]
    pub(crate) fn slot(&self, way: Way) -> u32 {
        self.held[way][1] as u32
    }

    #[inline]
    pub(crate) fn flags(&self, way: Way) -> u8 {
        (self.held[way][1] >> 32) as u8
    }

    #[inline]
    pub(crate) fn set_flags(&mut self, way: Way, flags: u8) {
        self.held[way][1] |= u64::from(flags) << 32;
    }

    #[inline]
    pub(crate) fn clear_flags(&mut self, way: Way, flags: u8) {
        self.held[way][1] &= !(u64::from(flags) << 32);
    }

    /// Inserts a line that is not here, as the most recently used one. Returns where, and the
    /// eviction: none if the set had an empty way, else the least recently used line.
    pub(crate) fn insert(&mut self, line: Line, new: Held) -> (Way, Option<(Line, Held)>) {
        self.insert_at(0, line, new)
    }

    /// Likewise, but as the second most recently used, so that it does not displace the most recent
    /// one. The cache must have at least two ways.
    pub(crate) fn insert_second(&mut self, line: Line, new: Held) -> Option<(Line, Held)> {
        let base = self.base(line);
        // Empty ways are at the end of a set.
        let at = match self.lines.get(base) {
            Some(0) | None => 0,
            Some(_) => 1,
        };
        self.insert_at(at, line, new).1
    }

    #[inline]
    fn insert_at(&mut self, at: usize, line: Line, new: Held) -> (Way, Option<(Line, Held)>) {
        if self.lines.is_empty() {
            self.lines = vec![0; self.size];
            self.held = vec![[0; 2]; self.size];
            if let Some(uses) = &mut self.uses {
                uses.stamps = vec![Stamp::default(); self.size];
            }
        }
        let base = self.base(line);
        let (way, end) = (base + at, base + self.ways);
        let full = self.lines[end - 1] != 0;
        if let Some(uses) = &mut self.uses {
            last_to_front(&mut uses.stamps[way..end]);
            let used = std::mem::replace(&mut uses.stamps[way], uses.now);
            if full {
                let set = (line & self.set_mask) as u32;
                let now = uses.now;
                uses.evicted.push(Evicted { set, used, now });
            }
        }
        // The set's last way, empty or least recently used, comes to the place of the new line.
        last_to_front(&mut self.lines[way..end]);
        last_to_front(&mut self.held[way..end]);
        let new = [
            new.touched,
            u64::from(new.slot) | u64::from(new.flags) << 32,
        ];
        let gone = std::mem::replace(&mut self.lines[way], line + 1);
        let gone_held = held(std::mem::replace(&mut self.held[way], new));
        (way, gone.checked_sub(1).map(|line| (line, gone_held)))
    }

    /// How many lines a set holds.
    pub(crate) fn ways(&self) -> usize {
        self.ways
    }

    /// Removes the line, if it is here.
    pub(crate) fn remove(&mut self, line: Line) -> Option<Held> {
        let way = self.find(line)?;
        let end = self.base(line) + self.ways;
        let gone = held(self.held[way]);
        first_to_back(&mut self.lines[way..end]);
        first_to_back(&mut self.held[way..end]);
        if let Some(uses) = &mut self.uses {
            first_to_back(&mut uses.stamps[way..end]);
        }
        // The freed way goes to the set's end: `insert_second` assumes that a set whose first way
        // is empty is empty.
        self.lines[end - 1] = 0;
        Some(gone)
    }
}

fn held([touched, rest]: [u64; 2]) -> Held {
    Held {
        slot: rest as u32,
        flags: (rest >> 32) as u8,
        touched,
    }
}

/// A domain's last-level cache. A bit in the directory also says which lines are in it: this one
/// only decides which line is evicted.
#[derive(Clone)]
pub(crate) struct Llc {
    ways: usize,
    slices: u64,
    /// Of a slice: a power of two.
    sets: usize,
    index: LlcIndex,
    /// By set: its number in `sets_by_use`, from 1; 0 until a line comes. Most sets of a large
    /// cache never see one.
    used: Vec<u32>,
    /// Each used set's lines by their directory slot + 1, most recently used first; zeros at the
    /// end are empty.
    sets_by_use: Vec<u32>,
    /// As in [`Cache`]; the stamps parallel to `sets_by_use`.
    uses: Option<Box<Uses>>,
}

impl Llc {
    pub(crate) fn new(shape: LlcShape) -> Llc {
        let ways = shape.slice.ways as usize;
        let sets = shape.slice.sets as usize;
        Llc {
            ways,
            slices: u64::from(shape.slices),
            sets,
            index: shape.index,
            used: Vec::new(),
            sets_by_use: Vec::new(),
            uses: None,
        }
    }

    /// Like [`Cache::note_uses`].
    pub(crate) fn note_uses(&mut self) {
        self.uses = Some(Box::default());
    }

    /// Like [`Cache::set_now`].
    #[inline]
    pub(crate) fn set_now(&mut self, now: Stamp) {
        if let Some(uses) = &mut self.uses {
            uses.now = now;
        }
    }

    /// Like [`Cache::take_evicted`].
    pub(crate) fn take_evicted(&mut self, mut take: impl FnMut(Evicted)) {
        if let Some(uses) = &mut self.uses {
            uses.evicted.drain(..).for_each(&mut take);
        }
    }

    /// Like [`Cache::take_older`]; returns the line's slot.
    pub(crate) fn take_older(&mut self, set: u32, used: Stamp) -> Option<u32> {
        let number = self.used.get(set as usize)?.checked_sub(1)?;
        let base = number as usize * self.ways;
        let slots = &self.sets_by_use[base..base + self.ways];
        let at = base + slots.iter().rposition(|slot| *slot != 0)?;
        if self.uses.as_ref()?.stamps[at] > used {
            return None;
        }
        Some(std::mem::take(&mut self.sets_by_use[at]) - 1)
    }

    /// The size of the arrays in bytes of the host.
    pub(crate) fn size_in_memory(&self) -> usize {
        let stamps = self
            .uses
            .as_ref()
            .map_or(0, |uses| size::of_list(&uses.stamps));
        size::of_list(&self.used) + size::of_list(&self.sets_by_use) + stamps
    }

    /// The share of `part` out of `whole` equal users: that many of its sets, at least one. The
    /// hash spreads lines evenly over any number of sets.
    pub(crate) fn share(shape: LlcShape, part: usize, whole: usize) -> Llc {
        let sets = shape.slices as usize * shape.slice.sets as usize;
        let sets = sets.saturating_mul(part) / whole.max(1);
        Llc::new(LlcShape {
            // No more than before, which fitted.
            slices: sets.max(1) as u32,
            slice: CacheShape {
                // Slices of one set: the number of slices need not be a power of two, but that of
                // sets must. Plain indexing is lost, so a share's sets are hashed on every machine.
                sets: 1,
                ways: shape.slice.ways,
            },
            index: LlcIndex::Hashed,
        })
    }

    /// The line's set, counted over all slices.
    fn set(&self, line: Line) -> u32 {
        // At most as many sets as 32 bits can number.
        llc_set(self.index, self.slices, self.sets as u64, line) as u32
    }

    /// The ways of the line's set in `sets_by_use`.
    fn ways_of(&mut self, line: Line) -> Range<usize> {
        let set = self.set(line) as usize;
        if self.used.is_empty() {
            self.used = vec![0; self.slices as usize * self.sets];
        }
        if self.used[set] == 0 {
            let size = self.sets_by_use.len() + self.ways;
            self.sets_by_use.resize(size, 0);
            if let Some(uses) = &mut self.uses {
                uses.stamps.resize(size, Stamp::default());
            }
            // A described cache of hundreds of megabytes costs four bytes per set until the set is
            // used, and its ways only then. At most as many as sets, whose number fits 32 bits.
            self.used[set] = (self.sets_by_use.len() / self.ways) as u32;
        }
        let base = (self.used[set] as usize - 1) * self.ways;
        base..base + self.ways
    }

    /// Counts as a use of a line that is here.
    pub(crate) fn touch(&mut self, line: Line, slot: u32) {
        let ways = self.ways_of(line);
        let set = &mut self.sets_by_use[ways.clone()];
        if let Some(at) = set.iter().position(|&held| held == slot + 1) {
            last_to_front(&mut set[..=at]);
            if let Some(uses) = &mut self.uses {
                let stamps = &mut uses.stamps[ways];
                last_to_front(&mut stamps[..=at]);
                stamps[0] = uses.now;
            }
        }
    }

    /// Inserts a line that is not here; returns the slot of the evicted line.
    pub(crate) fn insert(&mut self, line: Line, slot: u32) -> Option<u32> {
        let ways = self.ways_of(line);
        let number = self.set(line);
        let set = &mut self.sets_by_use[ways.clone()];
        last_to_front(set);
        let gone = std::mem::replace(&mut set[0], slot + 1).checked_sub(1);
        if let Some(uses) = &mut self.uses {
            let stamps = &mut uses.stamps[ways];
            last_to_front(stamps);
            let used = std::mem::replace(&mut stamps[0], uses.now);
            if gone.is_some() {
                let now = uses.now;
                uses.evicted.push(Evicted {
                    set: number,
                    used,
                    now,
                });
            }
        }
        gone
    }

    /// Removes the line, if it is here.
    pub(crate) fn remove(&mut self, line: Line, slot: u32) {
        let ways = self.ways_of(line);
        let set = &mut self.sets_by_use[ways.clone()];
        if let Some(at) = set.iter().position(|&held| held == slot + 1) {
            first_to_back(&mut set[at..]);
            if let Some(last) = set.last_mut() {
                *last = 0;
            }
            if let Some(uses) = &mut self.uses {
                first_to_back(&mut uses.stamps[ways][at..]);
            }
        }
    }
}

/// A line's set in a last-level cache, counted over all slices.
#[inline]
pub(crate) fn llc_set(index: LlcIndex, slices: u64, sets: u64, line: Line) -> u64 {
    match index {
        // The description's check allows this only with one slice.
        LlcIndex::Plain => line & (sets - 1),
        LlcIndex::Hashed => {
            // Fibonacci hashing: the product's high bits depend on all bits of the line. The high
            // half picks the slice (scaled, so that any number of slices is filled evenly), lower
            // bits the set.
            let hash = line.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let slice = ((hash >> 32) * slices) >> 32;
            slice * sets + ((hash >> 12) & (sets - 1))
        }
    }
}

/// The private caches of a machine's cores, of that shape, each with the share of ways of the
/// logical CPUs in `used`, at least one: the core's other threads are assumed to fill theirs. Ways,
/// not sets: the threads' lines meet in all sets, and which of one thread's lines meet each other
/// does not change.
pub(crate) fn thread_shares(
    machine: &Machine,
    shape: CacheShape,
    used: impl Iterator<Item = CoreId>,
) -> Vec<Cache> {
    let mut parts = vec![0; machine.topology.cores()];
    let mut wholes = parts.clone();
    for core in used {
        parts[usize::from(core.0)] += 1;
    }
    for place in machine.topology.places() {
        wholes[usize::from(place.core.0)] += 1;
    }
    let shares = parts.into_iter().zip(wholes);
    let ways = shares.map(|(part, whole): (u32, u32)| (shape.ways * part / whole.max(1)).max(1));
    ways.map(|ways| Cache::new(CacheShape { ways, ..shape }))
        .collect()
}

/// The last-level caches of a machine's domains, each with the share of the logical CPUs in `used`:
/// the others are assumed to fill theirs.
pub(crate) fn shares(machine: &Machine, used: impl Iterator<Item = DomainId>) -> Vec<Llc> {
    let all = machine.topology.places().iter();
    group_shares(machine, used, all.map(|place| place.domain))
}

/// The last-level caches of a machine's domains, each with the share that `own` of `all` replayed
/// logical CPUs have.
pub(crate) fn group_shares(
    machine: &Machine,
    own: impl Iterator<Item = DomainId>,
    all: impl Iterator<Item = DomainId>,
) -> Vec<Llc> {
    let mut counts = vec![(0, 0); machine.topology.domains()];
    own.for_each(|domain| counts[usize::from(domain.0)].0 += 1);
    all.for_each(|domain| counts[usize::from(domain.0)].1 += 1);
    counts
        .into_iter()
        .map(|(own, all)| Llc::share(machine.llc, own, all))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Held = Held {
        slot: 7,
        flags: DIRTY,
        touched: 5,
    };

    #[test]
    fn the_line_used_longest_ago_goes() {
        let mut cache = Cache::new(CacheShape { sets: 1, ways: 3 });
        for line in [10, 20, 30] {
            assert_eq!(cache.insert(line, NEW).1, None);
        }
        assert!(cache.find_and_use(10).is_some());
        assert!(cache.find(20).is_some());
        assert_eq!(cache.insert(40, NEW).1, Some((20, NEW)));
        assert_eq!(cache.insert(50, NEW).1, Some((30, NEW)));
        assert_eq!(cache.insert(60, NEW).1, Some((10, NEW)));
    }

    #[test]
    fn an_empty_way_is_taken_first() {
        let mut cache = Cache::new(CacheShape { sets: 1, ways: 2 });
        cache.insert(1, NEW);
        cache.insert(2, NEW);
        assert_eq!(cache.remove(1), Some(NEW));
        assert_eq!(cache.remove(1), None);
        assert_eq!(cache.insert(3, NEW).1, None);
        assert!(cache.find(2).is_some());
        assert_eq!(cache.insert(4, NEW).1, Some((2, NEW)));
    }

    #[test]
    fn flags_and_words_stay_with_their_line() {
        let mut cache = Cache::new(CacheShape { sets: 2, ways: 2 });
        let (way, _) = cache.insert(2, NEW);
        cache.clear_flags(way, DIRTY);
        cache.set_flags(way, CHECK);
        cache.add_touched(way, 8);
        cache.insert(4, NEW);
        let way = cache.find(2).expect("it is in");
        assert_eq!((cache.slot(way), cache.flags(way)), (7, CHECK));
        assert_eq!(
            cache.remove(2),
            Some(Held {
                slot: 7,
                flags: CHECK,
                touched: 13
            })
        );
    }

    #[test]
    fn an_llc_set_keeps_the_order_of_use() {
        let slice = CacheShape { sets: 1, ways: 3 };
        let mut llc = Llc::new(LlcShape {
            slices: 1,
            slice,
            index: LlcIndex::Plain,
        });
        assert_eq!(llc.insert(1, 1), None);
        assert_eq!(llc.insert(2, 2), None);
        assert_eq!(llc.insert(3, 3), None);
        llc.touch(1, 1);
        assert_eq!(llc.insert(4, 4), Some(2));
        llc.remove(1, 1);
        assert_eq!(llc.insert(5, 5), None);
        assert_eq!(llc.insert(6, 6), Some(3));
    }

    #[test]
    fn a_share_holds_its_part_of_the_lines() {
        let shape = LlcShape {
            slices: 3,
            slice: CacheShape { sets: 64, ways: 4 },
            index: LlcIndex::Hashed,
        };
        for (part, whole, sets) in [(1, 16, 12), (5, 16, 60), (16, 16, 192), (1, 1000, 1)] {
            let mut llc = Llc::share(shape, part, whole);
            for line in 0..100 * sets as u32 {
                llc.insert(u64::from(line), line);
            }
            assert_eq!(llc.sets_by_use.len(), sets * 4);
            assert!(
                llc.sets_by_use.iter().all(|&held| held != 0),
                "{part} of {whole}"
            );
        }
    }

    #[test]
    fn hashing_fills_all_slices_evenly() {
        let slice = CacheShape { sets: 64, ways: 4 };
        let mut llc = Llc::new(LlcShape {
            slices: 3,
            slice,
            index: LlcIndex::Hashed,
        });
        let gone = (0..768)
            .filter(|&line| llc.insert(u64::from(line), line).is_some())
            .count();
        let lines = |used: &u32| {
            let first = (*used as usize - 1) * 4;
            let set = &llc.sets_by_use[first..first + 4];
            set.iter().filter(|&&held| held != 0).count()
        };
        let slices = llc.used.chunks(64);
        let filled: Vec<usize> = slices
            .map(|slice| slice.iter().filter(|&&used| used != 0).map(lines).sum())
            .collect();
        assert_eq!(filled.iter().sum::<usize>() + gone, 768);
        assert!(filled.iter().all(|&lines| lines > 190), "{filled:?}");
    }
}

//! What only the order of accesses shows: which objects are touched one after the other, and what
//! pointers lead to.
//!
//! One pass over the recording, on all threads, of sums only; none if nobody asks.

use std::collections::BTreeMap;

use linemate_attribution::{Analysis, Located, Names, visit_chunks};
use linemate_recording::{
    Access, Accesses, Call, Error as RecordingError, GuestAddr, Marker, Return, Visitor,
};
use linemate_types::TypeId;
use rustc_hash::FxHashMap;

use crate::follow::{Arrays, Follower, Places, Votes};
use crate::watch::{TypePair, Watch};

/// How often an object of one type and one of another were touched one directly after the other by
/// one CPU.
pub type Neighbours = BTreeMap<(GuestAddr, GuestAddr), Accesses>;

/// What the pass finds.
#[derive(Debug, Default)]
pub(crate) struct Matches {
    /// For each pair of types.
    pub(crate) neighbours: Vec<Neighbours>,
    /// What each pointer leads to.
    pub(crate) arrays: Vec<Arrays>,
}

/// Finds the watch's pairs and pointers. `types` are those of the subjects whose objects edits
/// move.
///
/// # Errors
/// A damaged chunk.
pub(crate) fn find(
    analysis: &Analysis<'_>,
    cpus: usize,
    types: &[Option<TypeId>],
    watch: &Watch,
) -> Result<Matches, RecordingError> {
    if watch.pairs.is_empty() && watch.chases.is_empty() {
        return Ok(Matches::default());
    }
    let of = |set: &Vec<TypeId>| {
        let holds = |id: &Option<TypeId>| id.is_some_and(|id| set.contains(&id));
        types.iter().map(holds).collect()
    };
    let sides = |pair: &TypePair| [of(&pair.first), of(&pair.second)];
    let sides: Vec<[Vec<bool>; 2]> = watch.pairs.iter().map(sides).collect();
    let names = analysis.names()?;
    let places = Places::new(&watch.chases, analysis, types);
    let make = || Watcher {
        names: &names,
        sides: &sides,
        places: &places,
        follower: Follower::default(),
        last: Vec::new(),
        neighbours: vec![FxHashMap::default(); sides.len()],
    };
    // Neighbours are counted within a chunk: chunks are taken in any order.
    let begin = |watcher: &mut Watcher<'_>| {
        watcher.last = vec![vec![[None; 2]; cpus]; sides.len()];
        watcher.follower.restart(cpus);
    };
    let parts = visit_chunks(analysis.recording(), make, begin, &|_| ())?;
    let mut neighbours = vec![Neighbours::new(); sides.len()];
    let mut votes = Votes::default();
    for part in parts {
        for (mine, theirs) in neighbours.iter_mut().zip(part.neighbours) {
            for (pair, count) in theirs {
                // Sums only, so the order in which threads took chunks does not show.
                *mine.entry(pair).or_default() += count;
            }
        }
        votes.merge(part.follower.votes);
    }
    Ok(Matches {
        neighbours,
        arrays: votes.mutual_arrays(watch.chases.len()),
    })
}

struct Watcher<'s> {
    names: &'s Names,
    /// By question, side and subject.
    sides: &'s [[Vec<bool>; 2]],
    places: &'s Places,
    follower: Follower,
    /// By question and CPU: the last object of either side.
    last: Vec<Vec<[Option<GuestAddr>; 2]>>,
    neighbours: Vec<FxHashMap<(GuestAddr, GuestAddr), Accesses>>,
}

impl Watcher<'_> {
    fn neighbours(&mut self, cpu: usize, at: &Located, base: GuestAddr) {
        let subject = at.subject.index();
        for (question, sides) in self.sides.iter().enumerate() {
            let Some(last) = self.last[question].get_mut(cpu) else {
                continue;
            };
            for side in 0..2 {
                if sides[side][subject] {
                    // Only the step from one side to the other counts, once.
                    if last[side] != Some(base) {
                        if let Some(other) = last[1 - side] {
                            let pair = if side == 0 {
                                (base, other)
                            } else {
                                (other, base)
                            };
                            *self.neighbours[question].entry(pair).or_default() += Accesses::ONE;
                        }
                    }
                    last[side] = Some(base);
                }
            }
        }
    }
}

impl Visitor for Watcher<'_> {
    #[inline]
    fn access(&mut self, access: &Access) {
        let at = self.names.locate(access);
        let places = self.places;
        self.follower.access(places, access, at.field());
        let base = access.addr.wrapping_sub(at.offset);
        self.neighbours(usize::from(access.cpu.0), &at, base);
    }
    fn call(&mut self, _: &Call) {}
    fn ret(&mut self, _: &Return) {}
    fn marker(&mut self, _: &Marker) {}
}

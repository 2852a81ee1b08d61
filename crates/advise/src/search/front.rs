//! Moves against gain: which layouts gain most for each number of moves.

use rayon::prelude::*;

use linemate_units::Millionths;

use super::{Scored, Search};
use crate::candidate::Candidate;

/// How many others may beat a layout with as few moves before the search stops continuing from it.
/// With 0 it stops too early: `rq` then gains 30 % with 9 moves instead of 37 %
/// (evidence/benchmarks.md's recording, fast model).
const BEATEN_MAX: usize = 1;
/// The maximum number of layouts that the search continues from: bounds the time.
const EXPANDED_MAX: usize = 400;
/// How many layouts it continues from at once.
// Several, to occupy the threads; not more, because each round's additions may push the next
// layouts of the list out of the band. A guess.
const EXPANDED_AT_ONCE: usize = 4;
/// How many neighbours of each are filled up and added: those furthest below the front.
// As many as a climb fills up (`FILLED_MAX`): filling takes the time, not rating. Not measured
// separately.
const ADDED_MAX: usize = 64;

/// The prices per move at which the search climbs from the recorded and the cheapest layout: from
/// nothing to 4 % of the original's cost.
// A choice, not measured: for free a climb takes every gain, at 4 % only a few large ones.
const PRICES: [Millionths; 4] = [
    Millionths(0),
    Millionths(2_000),
    Millionths(10_000),
    Millionths(40_000),
];

/// The front, and layouts that at most [`BEATEN_MAX`] others beat with as few moves.
#[derive(Debug, Default)]
struct Band {
    /// By moves, then by cost.
    layouts: Vec<Banded>,
}

/// A layout of the band.
#[derive(Debug)]
struct Banded {
    scored: Scored,
    moves: usize,
    /// Whether its neighbours were tried.
    expanded: bool,
}

impl Band {
    /// The layouts with at most that many moves.
    fn with_at_most(&self, moves: usize) -> &[Banded] {
        let end = self.layouts.partition_point(|b| b.moves <= moves);
        &self.layouts[..end]
    }

    /// How many layouts with as few moves cost as little.
    fn beating(&self, moves: usize, cost: Millionths) -> usize {
        let fewer = self.with_at_most(moves).iter();
        fewer.filter(|b| b.scored.cost <= cost).count()
    }

    /// How far a cost is above the front; negative below it.
    fn above_front(&self, moves: usize, cost: Millionths) -> i64 {
        let least = self.with_at_most(moves).iter().map(|b| b.scored.cost).min();
        cost.0 as i64 - least.unwrap_or(Millionths::WHOLE).0 as i64
    }

    /// Adds a layout, if it belongs in the band, and drops what no longer does. Of layouts with the
    /// same moves and cost the first stays.
    fn add(&mut self, scored: Scored) {
        let (moves, cost) = (scored.candidate.moves(), scored.cost);
        let same = |b: &Banded| b.moves == moves && b.scored.cost == cost;
        // Same moves and cost are mostly the same members in another order within lines: continuing
        // from both finds everything twice.
        if self.layouts.iter().any(same) || self.beating(moves, cost) > BEATEN_MAX {
            return;
        }
        let place = self
            .layouts
            .partition_point(|b| (b.moves, b.scored.cost) < (moves, cost));
        self.layouts.insert(
            place,
            Banded {
                scored,
                moves,
                expanded: false,
            },
        );
        // Each counts itself.
        let stays = |b: &Banded| self.beating(b.moves, b.scored.cost) <= BEATEN_MAX + 1;
        let stays: Vec<bool> = self.layouts.iter().map(stays).collect();
        let mut stays = stays.into_iter();
        self.layouts.retain(|_| stays.next().unwrap_or(false));
    }

    /// The layout that costs least; of equal ones the one with the fewest moves, which is the
    /// first.
    fn cheapest(&self) -> Option<Scored> {
        let layouts = self.layouts.iter().map(|b| &b.scored);
        layouts.min_by_key(|scored| scored.cost).cloned()
    }

    /// Some layouts whose neighbours were not tried, the fewest moves first. They count as tried
    /// from now on.
    fn next(&mut self) -> Vec<Candidate> {
        let fresh = self.layouts.iter_mut().filter(|b| !b.expanded);
        let expand = |b: &mut Banded| {
            b.expanded = true;
            b.scored.candidate.clone()
        };
        fresh.take(EXPANDED_AT_ONCE).map(expand).collect()
    }
}

impl Search<'_, '_, '_> {
    /// The layouts that no other one beats with as few moves: the fewest moves first, the cheapest
    /// last. `found` is the result of [`Search::run`].
    ///
    /// Continues from every layout of the front, and from those near it, until none has a neighbour
    /// that comes near it: adds moves to the recorded order and removes moves from the best layouts
    /// at once.
    pub fn front(&self, found: &[Scored]) -> Vec<Scored> {
        if self.exhaustive() || self.hot.is_empty() {
            return undominated(found.to_vec());
        }
        let mut band = Band::default();
        let original = self.score(Candidate::original(self.shape));
        let climbs = original.iter().flat_map(|original| self.climbs(original));
        let climbs: Vec<Scored> = climbs.collect();
        for scored in found.iter().cloned().chain(original).chain(climbs) {
            band.add(scored);
        }
        let (mut expanded, mut climbed) = (0, None);
        while expanded < EXPANDED_MAX {
            let here = band.next();
            if here.is_empty() {
                // Steps from layout to layout need a gain at each step; a climb at another price
                // also finds gains that take several steps.
                let best = band.cheapest();
                // Ends: the cheapest layout never gets more expensive, and repeats as soon as
                // nothing is gained.
                if best == climbed {
                    break;
                }
                let climbs = best.iter().flat_map(|best| self.climbs(best));
                climbs
                    .collect::<Vec<_>>()
                    .into_iter()
                    .for_each(|s| band.add(s));
                climbed = best;
                continue;
            }
            expanded += here.len();
            for scored in self.near(&here, &band) {
                band.add(scored);
            }
        }
        let layouts = band.layouts.into_iter().map(|b| self.unfilled(b.scored));
        undominated(layouts.collect())
    }

    /// Where climbs from a layout end, at several prices per move.
    fn climbs<'c>(&'c self, from: &'c Scored) -> impl Iterator<Item = Scored> + 'c {
        let end = |price: &Millionths| self.climb(from.clone(), *price);
        PRICES.iter().map(end)
    }

    /// The neighbours of layouts that belong in the band.
    fn near(&self, here: &[Candidate], band: &Band) -> Vec<Scored> {
        let mut rated: Vec<(i64, Scored)> = self
            .rated_neighbours(here)
            .into_par_iter()
            .filter(|scored| scored.cost < Millionths::WHOLE)
            .map(|scored| (scored.candidate.moves(), scored))
            // By the rating without filling: it saves most of the filling, and `add` checks again
            // what was filled.
            .filter(|(moves, scored)| band.beating(*moves, scored.cost) <= BEATEN_MAX)
            .map(|(moves, scored)| (band.above_front(moves, scored.cost), scored))
            .collect();
        rated.par_sort_unstable();
        // Layouts have neighbours in common.
        rated.dedup();
        rated.truncate(ADDED_MAX * here.len());
        self.score_all(rated.into_iter().map(|(_, s)| s.candidate).collect())
    }
}

/// The cheapest layout with at most that many moves.
pub fn cheapest(pool: &[Scored], most: usize) -> Option<&Scored> {
    let fitting = pool.iter().filter(|s| s.candidate.moves() <= most);
    fitting.min_by_key(|s| (s.cost, s.candidate.moves(), &s.candidate))
}

/// The layout with the fewest moves that costs at most that much.
pub fn fewest(pool: &[Scored], cost: Millionths) -> Option<&Scored> {
    let cheap = pool.iter().filter(|s| s.cost <= cost);
    cheap.min_by_key(|s| (s.candidate.moves(), s.cost, &s.candidate))
}

/// Those with a gain that no other one beats with as few moves.
fn undominated(mut pool: Vec<Scored>) -> Vec<Scored> {
    pool.sort_by(|a, b| {
        let rank = |s: &Scored| (s.candidate.moves(), s.cost);
        rank(a)
            .cmp(&rank(b))
            .then_with(|| a.candidate.cmp(&b.candidate))
    });
    let mut least = Millionths::WHOLE;
    pool.retain(|scored| {
        let better = scored.cost < least;
        least = least.min(scored.cost);
        better
    });
    pool
}

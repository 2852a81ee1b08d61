//! Moves against gain: which layouts gain most for each number of moves.

use rayon::prelude::*;

use super::{MOVE_WORTH, Scored, Search};
use crate::candidate::Candidate;

/// What a move has to be worth along the front, as parts of the best layout's gain: from nearly free to a tenth of it.
const WORTH_PARTS: [u64; 5] = [160, 80, 40, 20, 10];

/// What a climb looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Price {
    /// The least cost, a move counting as so many millionths of the original's.
    Each(u64),
    /// The least cost with at most so many moves.
    Most(usize),
    /// The fewest moves that cost at most so much.
    Fewest(u64),
}

impl Price {
    /// That of the search.
    pub const SEARCH: Price = Price::Each(MOVE_WORTH);
    /// Moves cost nothing.
    pub const FREE: Price = Price::Each(0);
    /// More than any cost: scores of layouts that are not within bounds come after those of all that are.
    const OUTSIDE: u64 = 1 << 48;
    /// More than any cost that is within bounds, and small enough for [`Price::OUTSIDE`].
    const MOVE: u64 = 1 << 28;

    /// The layout with the score that it has at this price.
    pub(super) fn of(self, scored: Scored) -> Scored {
        let moves = scored.candidate.moves() as u64;
        let score = match self {
            Price::Each(worth) => scored.cost + worth * moves,
            Price::Most(most) if moves <= most as u64 => scored.cost,
            Price::Most(_) => Price::OUTSIDE + moves,
            Price::Fewest(cost) if scored.cost <= cost => Price::MOVE * moves + scored.cost,
            Price::Fewest(_) => Price::OUTSIDE + scored.cost,
        };
        Scored { score, ..scored }
    }
}

impl Search<'_, '_, '_> {
    /// The layouts that no other one beats with as few moves: the fewest moves first, the cheapest last. `found` is what
    /// [`Search::run`] gave.
    pub fn front(&self, found: &[Scored]) -> Vec<Scored> {
        let mut pool = found.to_vec();
        let Some(best) = cheapest(found, usize::MAX).cloned() else {
            return Vec::new();
        };
        if self.exhaustive() {
            return undominated(pool);
        }
        let gain = 1_000_000u64.saturating_sub(best.cost);
        let original = self.rate(Candidate::original(self.shape));
        let (mut down, up) = (best.clone(), original);
        for part in WORTH_PARTS {
            let price = Price::Each((gain / part).max(MOVE_WORTH));
            down = self.climb_through(down, price, &mut |s| pool.push(s.clone()));
            self.climb_through(up.clone(), price, &mut |s| pool.push(s.clone()));
        }
        self.thin(best, &mut pool);
        self.settled(pool)
    }

    /// What of the pool no other one beats with as few moves, without fillers that fill nothing.
    fn settled(&self, pool: Vec<Scored>) -> Vec<Scored> {
        let front = undominated(pool);
        undominated(front.into_iter().map(|s| self.unfilled(s)).collect())
    }

    /// Undoes moves, each time those that are worth least.
    fn thin(&self, mut here: Scored, pool: &mut Vec<Scored>) {
        loop {
            let moves = here.candidate.moves();
            let lost = |next: &Scored| {
                let fewer = moves.saturating_sub(next.candidate.moves()).max(1) as u64;
                next.cost.saturating_sub(here.cost) / fewer
            };
            let next = self
                .undone(&here.candidate)
                .into_par_iter()
                .filter_map(|candidate| self.score(candidate))
                .filter(|next| next.candidate.moves() < moves)
                .min_by_key(|next| (lost(next), next.clone()));
            match next {
                Some(next) => here = next,
                None => break,
            }
            pool.push(here.clone());
        }
    }

    /// The layout with one move of it less: a member back, a group given up.
    fn undone(&self, here: &Candidate) -> Vec<Candidate> {
        let mut all = Vec::new();
        let grouped = here.segments.iter().flatten().copied();
        for unit in grouped.chain(here.out_of_order()) {
            let mut next = here.clone();
            next.take(unit);
            next.put_back(unit);
            all.push(next);
        }
        for segment in &here.segments {
            let mut next = here.clone();
            for unit in segment {
                next.take(*unit);
                next.put_back(*unit);
            }
            all.push(next);
        }
        all
    }

    /// Searches the front again where layouts cost at most `cost`: for fewer moves.
    pub fn tighten(&self, front: Vec<Scored>, cost: u64) -> Vec<Scored> {
        self.refine(front, Price::Fewest(cost))
    }

    /// Searches the front again where layouts have at most so many moves: for more gain.
    pub fn within(&self, front: Vec<Scored>, most: usize) -> Vec<Scored> {
        self.refine(front, Price::Most(most))
    }

    /// Searches on for the most gain.
    pub fn polish(&self, front: Vec<Scored>) -> Vec<Scored> {
        self.refine(front, Price::SEARCH)
    }

    /// Climbs from all of the front, then from disturbances of the best layout until [`Search::shakes`] of them have found no better one.
    fn refine(&self, front: Vec<Scored>, price: Price) -> Vec<Scored> {
        if self.exhaustive() || self.hot.is_empty() {
            return front;
        }
        let mut pool = front.clone();
        let tops = front
            .into_iter()
            .map(|start| self.climb_through(start, price, &mut |s| pool.push(s.clone())));
        let Some(mut best) = tops.min() else {
            return pool;
        };
        let (mut round, mut last) = (0, 0);
        while round < last + self.shakes {
            round += 1;
            let Some(start) = self.score(self.shaken(&best.candidate, round)) else {
                continue;
            };
            let top = self.climb_through(start, price, &mut |s| pool.push(s.clone()));
            if top.score < best.score {
                (best, last) = (top, round);
            }
        }
        self.settled(pool)
    }
}

/// The cheapest layout with at most so many moves.
pub fn cheapest(pool: &[Scored], most: usize) -> Option<&Scored> {
    let fitting = pool.iter().filter(|s| s.candidate.moves() <= most);
    fitting.min_by_key(|s| (s.cost, s.candidate.moves(), &s.candidate))
}

/// The layout with the fewest moves that costs at most so much.
pub fn fewest(pool: &[Scored], cost: u64) -> Option<&Scored> {
    let cheap = pool.iter().filter(|s| s.cost <= cost);
    cheap.min_by_key(|s| (s.candidate.moves(), s.cost, &s.candidate))
}

/// Those that gain and that no other one beats with as few moves.
fn undominated(mut pool: Vec<Scored>) -> Vec<Scored> {
    pool.sort_by(|a, b| {
        let rank = |s: &Scored| (s.candidate.moves(), s.cost);
        rank(a)
            .cmp(&rank(b))
            .then_with(|| a.candidate.cmp(&b.candidate))
    });
    let mut least = 1_000_000;
    pool.retain(|scored| {
        let better = scored.cost < least;
        least = least.min(scored.cost);
        better
    });
    pool
}

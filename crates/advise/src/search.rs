//! The search: which layout costs least by the fast model and is no larger than allowed.
//!
//! Small structs are searched exhaustively. Larger ones are climbed from several starts: the
//! recorded order, fields that save together clustered on lines, sorted by heat, holes filled. A
//! step takes the best of a layout's neighbours. Nothing depends on the number of
//! threads: costs are pure, ties go to the earlier neighbour.

mod fill;
mod front;
mod neighbours;
mod starts;

use linemate_types::ByteSize;
use linemate_units::Millionths;
use rayon::prelude::*;

use crate::candidate::Candidate;
use crate::objective::Objective;
use crate::shape::{Metrics, StructShape, UnitLayout};

pub use front::{cheapest, fewest};

/// What a move has to be worth, of the original's cost: 0.1 %. A reviewer has to
/// understand every member that moves, so a gain in a table's last digit is not a reason to move
/// one.
pub const MOVE_WORTH: Millionths = Millionths(1_000);
/// The maximum number of units that are moved around: those with most events. The others only fill
/// holes.
const HOT_UNITS: usize = 48;
/// The minimum share of all events of a unit that is moved around, in thousandths.
const HOT_PERMILLE: usize = 1;
/// The maximum number of segments: groups that start lines. Each takes at least a line, and the
/// neighbours of a layout grow with their square.
const SEGMENTS_MAX: usize = 14;
/// The maximum number of steps of a climb: bounds its time. A step without a gain ends it earlier.
const STEPS_MAX: usize = 120;
/// How many of the most promising neighbours are filled up together, and in total: filling one
/// takes much longer than rating it, so the first eight that contain an improvement end it.
const FILLED_AT_ONCE: usize = 8;
const FILLED_MAX: usize = 64;
/// Structs with at most that many movable members are searched exhaustively: 8! orders times 2^7
/// ways to start lines are 5 million layouts; nine members have eighteen times as many.
pub const EXHAUSTIVE_UNITS: usize = 8;

/// How large a layout may be in a kernel for one line size.
#[derive(Clone, Debug)]
pub struct Limit {
    /// The placement that units require there.
    pub metrics: Metrics,
    /// The maximum size of the type in bytes.
    pub bytes: ByteSize,
}

impl Limit {
    /// Whether the type may grow to whole lines: then it may ask to start them.
    fn has_room_to_start_lines(&self) -> bool {
        let original = self.metrics.original;
        self.bytes > original && self.bytes >= original.align_up(self.metrics.line.into())
    }

    /// Whether the type may take more lines than recorded.
    fn has_a_line_to_spare(&self) -> bool {
        let line = self.metrics.line;
        let lines = self.metrics.original.align_up(line.into());
        self.bytes >= lines + ByteSize(line.bytes())
    }
}

/// What is searched, and within which bounds.
#[derive(Debug)]
pub struct Search<'s, 'm, 't> {
    /// The members of the type.
    pub shape: &'s StructShape,
    /// What a layout costs.
    pub objective: &'s Objective<'m, 't>,
    /// The maximum size of a layout.
    pub limits: &'s [Limit],
    /// Whether members can start lines: objects do, or may grow enough to ask for it.
    pub lines: bool,
    /// Units with events, those with most first.
    hot: Vec<usize>,
    /// Units that may fill holes, the largest first.
    cold: Vec<usize>,
}

/// A layout and its worth by the model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scored {
    /// Cost relative to the original's, plus what its moves have to be worth.
    pub score: Millionths,
    /// The cost without what its moves have to be worth.
    pub cost: Millionths,
    /// The layout that is rated.
    pub candidate: Candidate,
}

impl<'s, 'm, 't> Search<'s, 'm, 't> {
    /// Finds which members are worth moving and which may fill holes.
    pub fn new(
        shape: &'s StructShape,
        objective: &'s Objective<'m, 't>,
        limits: &'s [Limit],
    ) -> Search<'s, 'm, 't> {
        let mut uses = vec![0usize; shape.units().len()];
        for (number, atom) in shape.atoms.iter().enumerate() {
            let events = objective.models.iter().map(|m| m.uses(number));
            uses[usize::from(atom.unit)] += events.sum::<usize>();
        }
        // Members without events cost nothing wherever they are; moving them would only lengthen
        // the patch.
        let least = (uses.iter().sum::<usize>() / 1000 * HOT_PERMILLE).max(1);
        let mut hot: Vec<usize> = (0..uses.len())
            .filter(|u| uses[*u] >= least && shape.movable(*u))
            .collect();
        hot.sort_by_key(|u| (std::cmp::Reverse(uses[*u]), *u));
        // All: if some objects start elsewhere, members that start a line in the type do not start
        // one in memory.
        let aligned = objective.models.iter().all(|m| m.line_aligned());
        let lines = aligned || limits.iter().all(Limit::has_room_to_start_lines);
        let metrics = &limits[0].metrics;
        let fills = |u: &usize| {
            let bytes = metrics.bytes(*u);
            let unit = &shape.units()[*u];
            let free = shape.movable(*u) && unit.forced.is_none() && !unit.may_ask_for_line;
            // Smaller than a line: no hole is as large as one.
            free && !hot.contains(u) && bytes > ByteSize::ZERO && bytes.0 < metrics.line.bytes()
        };
        let mut cold: Vec<usize> = (0..shape.units().len()).filter(fills).collect();
        cold.sort_by_key(|u| (std::cmp::Reverse(metrics.bytes(*u)), *u));
        Search {
            shape,
            objective,
            limits,
            lines,
            hot,
            cold,
        }
    }

    /// The units that have events, those with most first.
    pub fn hot(&self) -> &[usize] {
        &self.hot
    }

    fn metrics(&self) -> &Metrics {
        &self.limits[0].metrics
    }

    /// Whether a layout is within its limits.
    pub fn fits(&self, candidate: &Candidate) -> bool {
        self.excess(candidate) == ByteSize::ZERO
    }

    /// Bytes beyond the limits.
    fn excess(&self, candidate: &Candidate) -> ByteSize {
        let slots = candidate.slots(self.shape);
        let mut placed = UnitLayout::default();
        let over = |limit: &Limit| {
            limit.metrics.place(&slots, &mut placed);
            placed.size.saturating_sub(limit.bytes)
        };
        // Over all line sizes: a step that helps one kernel and not the other is still progress for
        // the filling.
        self.limits.iter().map(over).sum()
    }

    /// A layout with its worth, filled up with cold members if it is otherwise too large; `None` if
    /// that does not help.
    pub fn score(&self, candidate: Candidate) -> Option<Scored> {
        self.score_all(vec![candidate]).pop()
    }

    /// The same for several layouts, without those that no filling helps.
    fn score_all(&self, candidates: Vec<Candidate>) -> Vec<Scored> {
        let ways = candidates.into_par_iter().map(|candidate| {
            if self.fits(&candidate) {
                return vec![candidate];
            }
            // Both ways, and the better result: removing lines takes few large members, holes take
            // many small ones.
            let lines = self.fill_lines(candidate.clone());
            let filled = [lines, self.fill(candidate)].into_iter().flatten();
            filled.collect()
        });
        let ways: Vec<Vec<Candidate>> = ways.collect();
        let counts: Vec<usize> = ways.iter().map(Vec::len).collect();
        let mut rated = self
            .rate_all(ways.into_iter().flatten().collect())
            .into_iter();
        let best = counts.iter().map(|count| rated.by_ref().take(*count).min());
        best.flatten().collect()
    }

    /// Layouts with their worth, whatever their size, in their order.
    fn rate_all(&self, candidates: Vec<Candidate>) -> Vec<Scored> {
        for model in self.objective.models {
            let place = |candidate: &Candidate| {
                let mut placed = UnitLayout::default();
                let slots = candidate.slots(self.shape);
                model.metrics().place(&slots, &mut placed);
                placed
            };
            let placed: Vec<UnitLayout> = candidates.par_iter().map(place).collect();
            model.prepare(self.shape, &placed);
        }
        let rated = candidates.into_par_iter().map(|c| self.rate(c));
        rated.collect()
    }

    /// A layout with its worth, whatever its size.
    fn rate(&self, candidate: Candidate) -> Scored {
        let slots = candidate.slots(self.shape);
        let mut placed = UnitLayout::default();
        let mut costs = Vec::with_capacity(self.objective.models.len());
        for model in self.objective.models {
            model.metrics().place(&slots, &mut placed);
            costs.push(model.cost(self.shape, &placed));
        }
        let cost = self.objective.relative(&costs);
        Scored {
            score: cost + MOVE_WORTH * candidate.moves() as u64,
            cost,
            candidate,
        }
    }

    /// Whether all layouts are tried.
    fn exhaustive(&self) -> bool {
        let movable = (0..self.shape.units().len()).filter(|u| self.shape.movable(*u));
        // With a line to spare nearly every way to start lines fits, so each layout has to be
        // rated.
        let spare = self.limits.iter().any(Limit::has_a_line_to_spare);
        movable.count() <= EXHAUSTIVE_UNITS - usize::from(spare)
    }

    /// The best layouts found, best first, all different and all within limits, without the
    /// original.
    pub fn run(&self) -> Vec<Scored> {
        let original = Candidate::original(self.shape);
        let mut found: Vec<Scored> = Vec::new();
        if self.hot.is_empty() {
            return found;
        }
        // Not if the movable members are not contiguous: then it is climbed like a large struct.
        if self.exhaustive() {
            if let Some(mut all) = self.exhaust() {
                all.retain(|scored| scored.candidate != original);
                return all;
            }
        }
        // What anybody would try without a model. These are also starts, because a climb never gets
        // worse.
        let baselines: Vec<Candidate> = vec![
            original.clone(),
            self.by_heat(),
            self.holes_filled(&original),
        ];
        let mut starts = vec![original.clone()];
        if self.lines {
            let clusters = self.clusters();
            // Both, because opening the last group rarely gains by itself: what follows it has to
            // fit first.
            for open in [false, true] {
                starts.push(self.by_writers(open));
                starts.push(self.clustered(&clusters, open));
                starts.push(self.heat_lines(open));
            }
        }
        for start in starts.into_iter().chain(baselines.clone()) {
            if let Some(start) = self.score(start) {
                found.push(start.clone());
                found.push(self.climb(start, MOVE_WORTH));
            }
        }
        found.sort();
        // After sorting by score: a baseline with many moves may cost less and still rank below.
        self.guard(&baselines, &mut found);
        found.retain(|f| f.candidate != original);
        found.dedup();
        // Fillers that are no longer needed go back, which may make two layouts equal or one the
        // original.
        let mut found: Vec<Scored> = found.into_iter().map(|s| self.unfilled(s)).collect();
        found.retain(|f| f.candidate != original);
        found.dedup();
        found
    }

    /// The recommendation must not cost more than a layout that needs no search, however few moves
    /// it has.
    fn guard(&self, baselines: &[Candidate], found: &mut Vec<Scored>) {
        let known = |c: &Candidate| self.fits(c).then(|| self.score(c.clone())).flatten();
        let cheapest = baselines.iter().filter_map(known).min_by_key(|s| s.cost);
        if let (Some(cheapest), Some(first)) = (cheapest, found.first()) {
            if cheapest.cost < first.cost {
                // With moves free, which is why it was below: from there on only cost counts.
                let better = self.climb(cheapest, Millionths::ZERO);
                found.insert(0, better);
            }
        }
    }

    /// Steps to the best neighbour as long as there is a better one; a move has to be worth `worth`
    /// of the original's cost. Neighbours are rated unfilled first; only the most
    /// promising ones are filled up to be small enough, because that takes longer.
    pub fn climb(&self, start: Scored, worth: Millionths) -> Scored {
        let at_price = |scored: Scored| Scored {
            score: scored.cost + worth * scored.candidate.moves() as u64,
            ..scored
        };
        let mut here = at_price(start);
        for _ in 0..STEPS_MAX {
            let better = |n: &Scored| n.score < here.score;
            let neighbours = self.rated_neighbours(std::slice::from_ref(&here.candidate));
            let neighbours = neighbours.into_iter().map(at_price);
            let mut rated: Vec<Scored> = neighbours.filter(better).collect();
            // By score, then by layout: the result must not depend on which thread was first.
            rated.par_sort_unstable();
            rated.dedup();
            let best = rated
                // In the order of the rating without filling: the first chunk with a gain ends it,
                // though a later one might hold a larger gain.
                .chunks(FILLED_AT_ONCE)
                .take(FILLED_MAX / FILLED_AT_ONCE)
                .find_map(|chunk| {
                    let filled =
                        self.score_all(chunk.iter().map(|n| n.candidate.clone()).collect());
                    filled.into_iter().map(at_price).filter(better).min()
                });
            match best {
                Some(best) => here = best,
                None => break,
            }
        }
        here
    }
}

#[cfg(test)]
mod tests {
    use linemate_layout::Layouts;
    use linemate_recording::CpuId;
    use linemate_testkit::btf_writer::{TypeList, member};
    use linemate_types::{LineSize, TypeModel};

    use super::*;
    use crate::cost::CostModel;
    use crate::trace::{Act, Event, Kind, ObjectTrace, Trace};

    /// Asks a search of a struct of that many longs, given who writes which of them in turn.
    fn of_longs<T>(
        count: u64,
        writers: &[(CpuId, u16)],
        ask: impl FnOnce(&Search<'_, '_, '_>) -> T,
    ) -> T {
        let mut list = TypeList::default();
        let long = list.unsigned("long", 8);
        let names: Vec<String> = (0..count).map(|number| format!("m{number}")).collect();
        let at = |(number, name): (u64, &String)| member(name, long, 8 * number);
        let members: Vec<_> = (0..).zip(&names).map(at).collect();
        list.structure("s", 8 * count as u32, &members);
        let types = TypeModel::new(list.types, 8).unwrap_or_else(|e| panic!("{e}"));
        let mut layouts = Layouts::new(&types, LineSize::B64);
        let shape =
            StructShape::new(&mut layouts, "s", types.named("s"), &[]).expect("a plain struct");
        let metrics = Metrics::new(&mut layouts, &shape).expect("a plain struct");
        let event = |(round, (cpu, atom)): (u32, &(CpuId, u16))| Event {
            round,
            at: 0,
            atom: *atom,
            act: Act::new(*cpu, Kind::Store),
        };
        let trace = Trace {
            objects: vec![ObjectTrace {
                residue: 0,
                events: (0..).zip(writers).map(event).collect(),
            }],
            cpus: 2,
            ..Trace::default()
        };
        let machine = linemate_machine::find("turin-2s").expect("a shipped machine");
        let models = [CostModel::new(&trace, &machine, metrics.clone(), &shape).expect("fits")];
        let objective = Objective::of_original(&models, &shape);
        let limits = [Limit {
            bytes: metrics.original.align_up(metrics.line.into()),
            metrics,
        }];
        ask(&Search::new(&shape, &objective, &limits))
    }

    #[test]
    fn a_result_that_costs_more_than_no_search_is_replaced() {
        let turns: Vec<(CpuId, u16)> = (0..10).map(|round| (CpuId(round % 2), 0)).collect();
        of_longs(2, &turns, |search| {
            let original = Candidate::original(search.shape);
            let mut found = vec![Scored {
                score: Millionths(0),
                cost: Millionths(2_000_000),
                candidate: original.clone(),
            }];
            search.guard(std::slice::from_ref(&original), &mut found);
            assert_eq!((found.len(), found[0].cost), (2, Millionths::WHOLE));
        });
    }

    /// Two full lines, each with one member that belongs on the other: of 64 exchanges one is
    /// right, and no move of one member gains as much.
    #[test]
    fn the_exchange_that_gains_most_is_among_those_that_are_rated() {
        let of_cpu = |cpu: u16| (0..8).map(move |member| (CpuId(cpu), 8 * cpu + member));
        let turn: Vec<(CpuId, u16)> = of_cpu(0).chain(of_cpu(1)).collect();
        let turns = turn.repeat(20);
        of_longs(16, &turns, |search| {
            let of = |segments: [Vec<usize>; 2]| Candidate {
                segments: segments.to_vec(),
                rest: Vec::new(),
                at: 0,
                open: false,
            };
            let mixed = of([
                (0..7).chain([15]).collect(),
                [7].into_iter().chain(8..15).collect(),
            ]);
            let rated = search.rated_neighbours(std::slice::from_ref(&mixed));
            let exchanged = |c: &Candidate| {
                c.segments.len() == 2 && c.segments.iter().all(|segment| segment.len() == 8)
            };
            let swaps = rated.iter().filter(|s| exchanged(&s.candidate)).count();
            // And the lines themselves, exchanged, and the last one open.
            assert_eq!(swaps, neighbours::SWAPS_MAX + 2);
            let right = of([(0..8).collect(), (8..16).collect()]);
            let least = rated.iter().map(|scored| scored.cost).min();
            let right = rated.iter().find(|scored| scored.candidate == right);
            assert_eq!(right.map(|scored| scored.cost), least);
        });
    }

    /// A segment of one member goes when the member does, and the others keep their meaning.
    #[test]
    fn moves_say_where_a_member_went_and_exchanges_keep_the_place_of_segments() {
        let turns: Vec<(CpuId, u16)> = (0..80).map(|n| (CpuId(n % 2), n / 2 % 8)).collect();
        of_longs(8, &turns, |search| {
            let here = Candidate {
                segments: vec![vec![0], vec![1, 2], vec![3]],
                rest: vec![4, 5, 6, 7],
                at: 2,
                open: false,
            };
            search.check_moves(&here);
            let swapped = |inside, other| search.swapped_units(&here, inside, other);
            let expected = Candidate {
                segments: vec![vec![4], vec![1, 2], vec![3]],
                rest: vec![0, 5, 6, 7],
                ..here.clone()
            };
            assert_eq!(swapped(0, 4), expected);
            let expected = Candidate {
                segments: vec![vec![0], vec![1, 2], vec![6]],
                rest: vec![3, 4, 5, 7],
                at: 3,
                ..here.clone()
            };
            assert_eq!(swapped(3, 6), expected);
            let expected = Candidate {
                segments: vec![vec![1], vec![0, 2], vec![3]],
                ..here.clone()
            };
            assert_eq!(swapped(0, 1), expected);
        });
    }
}

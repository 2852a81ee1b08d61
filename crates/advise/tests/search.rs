//! The quality of the search: the optimum of small structs, never worse than what needs no search,
//! the same on any number of threads.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Dice, machine, model, shape, trace, with_objective};
use linemate_advise::candidate::Candidate;
use linemate_advise::objective::Objective;
use linemate_advise::search::{Limit, MOVE_WORTH, Scored, Search, cheapest, fewest};
use linemate_advise::shape::{StructShape, UnitLayout};
use linemate_layout::arrange::Slot;
use linemate_testkit::btf_writer::{TypeList, member};
use linemate_types::TypeModel;
use linemate_units::Millionths;

const SIZES: [u32; 6] = [1, 2, 4, 8, 16, 40];

fn random_sizes(count: u64, dice: &mut Dice) -> Vec<u32> {
    (0..count)
        .map(|_| SIZES[dice.below(SIZES.len() as u64) as usize])
        .collect()
}

#[test]
fn an_anonymous_struct_of_several_members_stays() {
    let mut t = TypeList::default();
    let long = t.unsigned("long", 8);
    let several = t.structure("", 16, &[member("b", long, 0), member("c", long, 8)]);
    let single = t.structure("", 8, &[member("d", long, 0)]);
    let members = [
        member("a", long, 0),
        member("", several, 8),
        member("", single, 24),
    ];
    t.structure("s", 32, &members);
    let shape = shape(&TypeModel::new(t.types, 8).unwrap());
    let movable: Vec<bool> = (0..3).map(|unit| shape.movable(unit)).collect();
    assert_eq!(movable, [true, false, true]);
}

/// The least cost of all orders, each with lines started at any set of members; tried one by one,
/// without the search's code.
fn brute_force(shape: &StructShape, objective: &Objective<'_, '_>, limit: &Limit) -> Millionths {
    fn orders(left: &mut Vec<usize>, so_far: &mut Vec<usize>, visit: &mut dyn FnMut(&[usize])) {
        if left.is_empty() {
            visit(so_far);
        }
        for i in 0..left.len() {
            let unit = left.remove(i);
            so_far.push(unit);
            orders(left, so_far, visit);
            so_far.pop();
            left.insert(i, unit);
        }
    }
    let originals = Slot::originals(&shape.origin);
    let mut least = Millionths(u64::MAX);
    let mut visit = |order: &[usize]| {
        for starts in 0..1u32 << (order.len() - 1) {
            let mut group = 0;
            let mut slots = Vec::new();
            for (place, unit) in order.iter().enumerate() {
                group += usize::from(place > 0 && starts & 1 << (place - 1) != 0);
                let group = Some(group);
                slots.push(Slot {
                    group,
                    ..originals[*unit].clone()
                });
            }
            let mut placed = UnitLayout::default();
            limit.metrics.place(&slots, &mut placed);
            if placed.size <= limit.bytes {
                let cost = objective.models[0].cost(shape, &placed);
                least = least.min(objective.relative(&[cost]));
            }
        }
    };
    orders(
        &mut (0..shape.units().len()).collect(),
        &mut Vec::new(),
        &mut visit,
    );
    least
}

#[test]
fn the_optimum_of_small_structs_is_found() {
    for seed in 0..24 {
        let mut dice = Dice(seed);
        let members = 2 + seed % 5;
        let model = model(&random_sizes(members, &mut dice));
        let shape = shape(&model);
        let trace = trace(&shape, 4, 400, &mut dice);
        let name = ["gnr-2s-480", "westmere-4s-80"][seed as usize % 2];
        with_objective(
            &model,
            &shape,
            &trace,
            &machine(name),
            |objective, limits| {
                let search = Search::new(&shape, objective, limits);
                let found = search
                    .run()
                    .first()
                    .map_or(Millionths::WHOLE, |best| best.cost);
                let least = brute_force(&shape, objective, &limits[0]).min(Millionths::WHOLE);
                assert_eq!(found, least, "seed {seed}");
            },
        );
    }
}

#[test]
fn eight_members_are_still_searched_exhaustively() {
    let mut dice = Dice(8);
    let model = model(&[8, 40, 4, 8, 16, 2, 40, 8]);
    let shape = shape(&model);
    let trace = trace(&shape, 4, 200, &mut dice);
    let machine = machine("westmere-4s-80");
    with_objective(&model, &shape, &trace, &machine, |objective, limits| {
        let found = Search::new(&shape, objective, limits).run();
        let least = brute_force(&shape, objective, &limits[0]);
        assert!(
            least < Millionths::WHOLE,
            "there is something to find: {least}"
        );
        assert_eq!(found[0].cost, least);
    });
}

#[test]
fn climbing_alone_comes_close_to_the_optimum_of_small_structs() {
    let (mut reached, mut tried) = (0, 0);
    for seed in 100..124 {
        let mut dice = Dice(seed);
        let model = model(&random_sizes(6, &mut dice));
        let shape = shape(&model);
        let trace = trace(&shape, 4, 400, &mut dice);
        with_objective(
            &model,
            &shape,
            &trace,
            &machine("gnr-2s-480"),
            |objective, limits| {
                let search = Search::new(&shape, objective, limits);
                let start = search.score(Candidate::original(&shape)).unwrap();
                let top = search.climb(start, Millionths(0));
                let least = brute_force(&shape, objective, &limits[0]).min(Millionths::WHOLE);
                assert!(top.cost >= least);
                tried += 1;
                reached += u32::from(top.cost * 100 <= least * 102);
            },
        );
    }
    assert!(reached * 4 >= tried * 3, "{reached} of {tried} within 2 %");
}

#[test]
fn no_result_is_worse_than_what_needs_no_search() {
    let mut better = 0;
    for seed in 0..16 {
        let mut dice = Dice(1000 + seed);
        let sizes = random_sizes(14 + seed, &mut dice);
        let model = model(&sizes);
        let shape = shape(&model);
        let trace = trace(&shape, 6, 2000, &mut dice);
        with_objective(
            &model,
            &shape,
            &trace,
            &machine("gnr-2s-480"),
            |objective, limits| {
                let search = Search::new(&shape, objective, limits);
                let found = search.run();
                let original = Candidate::original(&shape);
                let best = found
                    .first()
                    .map_or(Millionths::WHOLE, |f| f.cost.min(Millionths::WHOLE));
                for (name, other) in [
                    ("the original", original.clone()),
                    ("sort by heat", search.by_heat()),
                    ("holes filled", search.holes_filled(&original)),
                ] {
                    if search.fits(&other) {
                        let other = search.score(other).unwrap();
                        assert!(
                            best <= other.cost,
                            "seed {seed}: {best} > {} of {name}",
                            other.cost
                        );
                    }
                }
                for scored in &found {
                    assert!(search.fits(&scored.candidate), "seed {seed}: grown");
                    let moves = scored.candidate.moves() as u64;
                    assert!(scored.score <= scored.cost + MOVE_WORTH * moves);
                    let mut units: Vec<usize> = scored
                        .candidate
                        .slots(&shape)
                        .iter()
                        .map(|slot| slot.unit)
                        .collect();
                    units.sort_unstable();
                    assert!(units.into_iter().eq(0..sizes.len()), "each member once");
                }
                better += u32::from(best < Millionths(950_000));
            },
        );
    }
    assert!(
        better >= 12,
        "5 % or more gained in {better} of 16 cases only"
    );
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let mut dice = Dice(77);
    let model = model(&random_sizes(20, &mut dice));
    let shape = shape(&model);
    let trace = trace(&shape, 6, 1500, &mut dice);
    let machine = machine("turin-2s");
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| {
            with_objective(&model, &shape, &trace, &machine, |objective, limits| {
                let search = Search::new(&shape, objective, limits);
                let found = search.run();
                let front = search.front(&found);
                (found, front)
            })
        })
    };
    let one = run(1);
    assert!(!one.0.is_empty() && one.1.len() > 1);
    assert_eq!(one, run(3));
    assert_eq!(one, run(1));
}

/// Many members that contend: the fronts of some synthetic types.
#[test]
fn the_front_spares_moves_has_no_filler_and_is_not_beaten_by_climbs() {
    let mut spared = 0;
    for seed in 0..6 {
        let mut dice = Dice(2000 + seed);
        let model = model(&random_sizes(20, &mut dice));
        let shape = shape(&model);
        let trace = trace(&shape, 6, 1500, &mut dice);
        let machine = machine("gnr-2s-480");
        with_objective(&model, &shape, &trace, &machine, |objective, limits| {
            let search = Search::new(&shape, objective, limits);
            let found = search.run();
            let front = search.front(&found);
            let original = search.score(Candidate::original(&shape)).unwrap();
            not_beaten_by_climbs(seed, &search, original, &front);
            no_filler_without_need(seed, &search, &front);
            if let Some(best) = cheapest(&found, usize::MAX) {
                spared += spared_moves(best, &front);
            }
        });
    }
    assert!(spared >= 6, "{spared} moves");
}

/// By how many moves nine tenths of the best layout's gain are had for less.
fn spared_moves(best: &Scored, front: &[Scored]) -> usize {
    let enough = Millionths(1_000_000 - (1_000_000 - best.cost.0) * 9 / 10);
    for pair in front.windows(2) {
        assert!(pair[0].candidate.moves() < pair[1].candidate.moves());
        assert!(pair[0].cost > pair[1].cost, "more moves gain more");
    }
    assert!(front.last().unwrap().cost <= best.cost);
    let few = fewest(front, enough).unwrap().candidate.moves();
    assert!(few <= best.candidate.moves());
    best.candidate.moves() - few
}

fn no_filler_without_need(seed: u64, search: &Search<'_, '_, '_>, front: &[Scored]) {
    for scored in front {
        assert!(search.fits(&scored.candidate), "seed {seed}: grown");
        for unit in search.fillers(&scored.candidate) {
            let mut without = scored.candidate.clone();
            without.take(unit);
            without.put_back(unit);
            let fewer = without.moves() <= scored.candidate.moves();
            assert!(!(fewer && search.fits(&without)), "seed {seed}: {unit}");
        }
    }
}

/// Climbs at several prices of a move, from the recorded order and from the best layout, find
/// nothing that the front misses.
fn not_beaten_by_climbs(
    seed: u64,
    search: &Search<'_, '_, '_>,
    original: Scored,
    front: &[Scored],
) {
    let best = front.last().unwrap_or(&original).clone();
    for start in [original, best] {
        for worth in [0, 2_000, 10_000, 40_000] {
            let top = search.climb(start.clone(), Millionths(worth));
            let known = fewest(front, top.cost).map(|s| s.candidate.moves());
            let moves = top.candidate.moves();
            let as_good = known.is_some_and(|known| known <= moves);
            assert!(
                as_good || top.cost >= Millionths::WHOLE,
                "seed {seed}, {worth}: {moves} moves, {}; the front: {:?}",
                top.cost,
                front
                    .iter()
                    .map(|s| (s.candidate.moves(), s.cost))
                    .collect::<Vec<_>>()
            );
        }
    }
}

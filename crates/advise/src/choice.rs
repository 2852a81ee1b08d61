//! How moves are weighed against gain: which layouts are replayed, and which of them is
//! recommended.

use std::fmt::{self, Display, Formatter};

use linemate_units::Millionths;

use crate::advise::Tried;
use crate::search::{MOVE_WORTH, Scored, cheapest, fewest};

/// The minimum share of the best gain, in hundredths, of a recommended layout unless all moves are
/// requested.
pub const ENOUGH: u32 = 90;
/// Shares of the fast model's best gain, in hundredths: the layout with the fewest moves that
/// reaches each is replayed. The second is for when the first has less than [`ENOUGH`] by replay:
/// the model is a few per cent off.
const REPLAYED_SHARES: [u32; 2] = [ENOUGH, 95];

/// Which layout is recommended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The one with the fewest moves that has [`ENOUGH`] of the best gain.
    #[default]
    Fewest,
    /// The one that gains most with at most that many moves.
    Moves(usize),
    /// The one that gains most.
    All,
}

impl Display for Choice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Fewest => write!(
                f,
                "Recommended: the fewest moves that reach {ENOUGH} % of the best gain (--moves N, --all)."
            ),
            Choice::Moves(most) => {
                write!(
                    f,
                    "Recommended: the largest gain with at most {most} moves."
                )
            }
            Choice::All => {
                f.write_str("Recommended: the largest gain, with 0.1 % taken off per move.")
            }
        }
    }
}

/// A point of the front of moves against gain: no other layout gains more with as few moves.
#[derive(Clone, Debug)]
pub struct Point {
    /// Members that leave their position, and groups.
    pub moves: usize,
    /// The type's cost by the fast model, relative to the recorded order's.
    pub model: f64,
    /// The layout, by its place in [`crate::Advice::tried`], if it was replayed.
    pub tried: Option<usize>,
}

/// The confirmed layout to recommend; `tried` is sorted by worth.
pub(crate) fn recommended(tried: &[Tried], choice: Choice) -> Option<&Tried> {
    let confirmed = || tried.iter().filter(|t| t.confirmed());
    let gain = |t: &Tried| 1.0 - t.relative();
    match choice {
        Choice::All => confirmed().next(),
        Choice::Moves(most) => confirmed()
            .filter(|t| t.moves() <= most)
            // Of equal gains the one that moves less.
            .max_by(|a, b| gain(a).total_cmp(&gain(b)).then(b.moves().cmp(&a.moves()))),
        Choice::Fewest => {
            let best = confirmed().map(gain).max_by(f64::total_cmp)?;
            let enough = best * f64::from(ENOUGH) / 100.0;
            confirmed()
                .filter(|t| gain(t) >= enough)
                .min_by(|a, b| a.moves().cmp(&b.moves()).then(gain(b).total_cmp(&gain(a))))
        }
    }
}

/// The front, with the replays of it.
pub(crate) fn points(front: &[Scored], tried: &[Tried]) -> Vec<Point> {
    let of = |scored: &Scored| Point {
        moves: scored.candidate.moves(),
        model: scored.cost.share(),
        tried: tried
            .iter()
            .position(|t| t.scored.candidate == scored.candidate),
    };
    front.iter().map(of).collect()
}

/// The cost at which a layout has that many hundredths of the gain of the best, which costs `best`.
fn with_gain(best: Millionths, hundredths: u32) -> Millionths {
    let gain = Millionths::WHOLE.saturating_sub(best);
    Millionths::WHOLE - Millionths((gain * hundredths.into()).0 / 100)
}

/// The candidates to replay, all different in cost: for all moves the best ones by the model; for
/// few the best one, because its gain is the measure, and those with the fewest moves that come
/// close to it.
pub(crate) fn finalists(
    found: &[Scored],
    front: &[Scored],
    choice: Choice,
    count: usize,
) -> Vec<Scored> {
    let mut wanted: Vec<&Scored> = Vec::new();
    match choice {
        Choice::All => {
            wanted.extend(found.iter().chain(front));
            wanted.sort_by_key(|s| (s.cost + MOVE_WORTH.times(s.candidate.moves()), *s));
        }
        Choice::Moves(most) => {
            let within = front.iter().filter(|s| s.candidate.moves() <= most);
            wanted.extend(within.rev());
        }
        Choice::Fewest => {
            if let Some(best) = cheapest(front, usize::MAX) {
                wanted.push(best);
                let near = REPLAYED_SHARES
                    .iter()
                    .map(|share| with_gain(best.cost, *share));
                wanted.extend(near.filter_map(|cost| fewest(front, cost)));
            }
        }
    }
    let mut chosen: Vec<Scored> = Vec::new();
    // Nothing that costs as much as the recorded order by the model: a replay of it would only
    // measure noise.
    for scored in wanted.into_iter().filter(|s| s.cost < Millionths::WHOLE) {
        // Equal costs are the same members on the same lines, in another order within them.
        if chosen.iter().all(|c| c.cost != scored.cost) && chosen.len() < count {
            chosen.push(scored.clone());
        }
    }
    chosen
}

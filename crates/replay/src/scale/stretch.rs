//! Which part of the tape each group counts.
//!
//! Sixty groups that each go around the whole tape make every access of the tape sixty times, and
//! take as long as a replay of sixty recordings. Ten times are enough: the tape is cut into six
//! stretches, ten groups count each, and counts are multiplied. All groups start at the
//! same time and continue until the last one is done, so that as many CPUs meet as the machine has;
//! what a group does beyond its stretch is not counted.

use crate::rounds::interleaver::mix;
use crate::scale::tape::Tape;

/// How many groups count each stretch, at least. More of them narrow an interleaving's figure, and
/// take in proportion longer.
const PASSES_MIN: u16 = 8;

/// How many rounds a stretch has on average, at least: one round may be hundreds of times as long
/// as another.
const ROUNDS_MIN: usize = 1000;

/// The rounds of the tape that a group counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TapeStretch {
    /// The first one.
    pub(crate) first: usize,
    /// How many there are; after the tape's last round comes its first one.
    pub(crate) rounds: usize,
}

/// How many stretches that many groups cut the tape into: one if all of it is counted by each.
pub(crate) fn stretches(groups: u16, tape: &Tape) -> u16 {
    let most = (tape.rounds.len() / ROUNDS_MIN).min(usize::from(groups / PASSES_MIN));
    // A tape without time has no parts of it.
    let whole = tape.ends.last().copied().unwrap_or(0);
    let most = most.min(usize::try_from(whole).unwrap_or(most));
    // So that all of the tape is counted equally often, which makes the sums of counts those of
    // all groups.
    let even = |count: &u16| groups % count == 0;
    (1..=most as u16).rev().find(even).unwrap_or(1)
}

/// The stretch of a group, of `count`: the stretches of `count` groups with consecutive numbers
/// are the whole tape, from a random place on.
pub(crate) fn stretch(tape: &Tape, count: u16, group: usize, seed: u64) -> TapeStretch {
    let count = usize::from(count);
    let whole = tape.ends.last().copied().unwrap_or(0);
    // By time, not by number: groups would start in the many short rounds.
    let start = mix(seed ^ mix((group / count) as u64)) % whole.max(1);
    let at = |number: usize| (start + whole / count as u64 * number as u64) % whole.max(1);
    let (from, to) = match group % count + 1 {
        number if number == count => (at(number - 1), start),
        number => (at(number - 1), at(number)),
    };
    let before = |time: u64| tape.ends.partition_point(|end| *end <= time);
    let wraps = count == 1 || to < from;
    let beyond = if wraps { tape.rounds.len() } else { 0 };
    TapeStretch {
        first: before(from) % tape.rounds.len().max(1),
        rounds: before(to) + beyond - before(from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tape(rounds: usize) -> Tape {
        let ends = (0..rounds as u64).scan(0, |end, round| {
            *end += if round % 50 == 0 { 100_000 } else { round % 7 };
            Some(*end)
        });
        Tape {
            rounds: vec![0; rounds],
            ends: ends.collect(),
            ..Tape::default()
        }
    }

    #[test]
    fn few_groups_and_short_tapes_are_not_cut() {
        let long = tape(100_000);
        let cut = [
            (1, 1),
            (15, 1),
            (16, 2),
            (30, 3),
            (60, 6),
            (61, 1),
            (240, 30),
        ];
        for (groups, expected) in cut {
            assert_eq!(stretches(groups, &long), expected, "{groups}");
            assert_eq!(stretches(groups, &tape(900)), 1, "{groups}");
        }
        assert_eq!(stretches(60, &tape(4500)), 4);
        let timeless = Tape {
            ends: vec![0; 100_000],
            ..tape(100_000)
        };
        assert_eq!(stretches(60, &timeless), 1);
    }

    /// Each round is counted by as many groups.
    #[test]
    fn stretches_cover_the_tape_evenly() {
        for (rounds, groups, count) in [(5000, 60, 6), (5000, 60, 1), (3, 12, 3), (1, 8, 4)] {
            let tape = tape(rounds);
            for seed in 0..5 {
                let mut counted = vec![0; rounds];
                for group in 0..groups {
                    let of = stretch(&tape, count, group, seed);
                    for round in of.first..of.first + of.rounds {
                        counted[round % rounds] += 1;
                    }
                }
                let passes = groups / usize::from(count);
                assert_eq!(counted, vec![passes; rounds], "{rounds} {groups} {count}");
            }
        }
    }
}

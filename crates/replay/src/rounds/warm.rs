//! Warm replays: a recording is replayed once to fill caches and directory, and counted the second
//! time.
//!
//! A recording starts in the middle of a machine's life. Replayed on empty caches, the first access
//! of each core to each line goes to memory, which says how much the recording touches and nothing
//! about its layout. Replayed a second time, it starts with the caches as its own end leaves them:
//! those of a workload that continues like this. That is right as far as a recording touches at its
//! end what it touched before, which [`WarmUp`] shows.

use serde::{Deserialize, Serialize};

/// New lines are counted in this last part of a recording's rounds: a tenth.
const LAST: u64 = 10;

/// The maximum number of samples of the number of lines.
const SAMPLES_MAX: usize = 256;

/// How many lines a warm-up touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmUp {
    /// Lines touched or fetched.
    pub lines: u64,
    /// Of those, the ones in the last tenth of the rounds, to within 1 % of the rounds.
    pub late: u64,
}

/// The number of lines over rounds.
#[derive(Clone, Debug)]
pub(crate) struct Growth {
    /// Rounds from sample to sample.
    step: u64,
    rounds: u64,
    samples: Vec<u64>,
}

impl Growth {
    pub(crate) fn new() -> Growth {
        Growth {
            step: 1,
            rounds: 0,
            samples: Vec::new(),
        }
    }

    /// A round is over, with this many lines now.
    #[inline]
    pub(crate) fn end_round(&mut self, lines: usize) {
        self.rounds += 1;
        if self.rounds % self.step == 0 {
            self.samples.push(lines as u64);
            if self.samples.len() == SAMPLES_MAX {
                // The samples of even numbers, from 1, are those at the doubled step.
                let mut number = 0;
                self.samples.retain(|_| {
                    number += 1;
                    number % 2 == 0
                });
                self.step *= 2;
            }
        }
    }

    pub(crate) fn finish(&self, lines: usize) -> WarmUp {
        let lines = lines as u64;
        let before = self.rounds - self.rounds / LAST;
        let sample = usize::try_from(before / self.step).unwrap_or(0);
        let then = match self.rounds {
            LAST.. => sample.checked_sub(1).and_then(|at| self.samples.get(at)),
            _ => None,
        };
        WarmUp {
            lines,
            late: lines - then.copied().unwrap_or(0).min(lines),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(rounds: u64, lines: impl Fn(u64) -> usize) -> WarmUp {
        let mut growth = Growth::new();
        for round in 1..=rounds {
            growth.end_round(lines(round));
        }
        growth.finish(lines(rounds))
    }

    #[test]
    fn even_growth_has_a_tenth_in_the_last_tenth() {
        for rounds in [10, 100, 1000, 12_345] {
            let warm_up = grown(rounds, |round| round as usize * 7);
            let share = warm_up.late as f64 / warm_up.lines as f64;
            assert!((0.095..0.112).contains(&share), "{rounds}: {share}");
        }
    }

    #[test]
    fn no_growth_at_the_end_is_long_enough() {
        let warm_up = grown(1000, |round| round.min(800) as usize);
        let long = WarmUp {
            lines: 800,
            late: 0,
        };
        assert_eq!(warm_up, long);
    }

    #[test]
    fn few_rounds_are_all_late() {
        assert_eq!(grown(0, |_| 0), WarmUp { lines: 0, late: 0 });
        assert_eq!(grown(9, |_| 5), WarmUp { lines: 5, late: 5 });
    }
}

//! One replay of a variant under an interleaving, and which of them a question needs.

use std::collections::BTreeMap;

use linemate_replay::{AsRecorded, Interleaving, NoClones, Replay, ReplayError};
use linemate_session::rounds::{LeftOut, Rounds};
use rayon::prelude::*;

use crate::conditions::Seed;
use crate::variant::{Memory, Variant};

/// Under which interleaving caches are filled: one that no seed decides, so that an interleaving's
/// figures are the same in every question.
pub(crate) const FILLING: Interleaving = Interleaving::Aligned;

/// A replay to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Job {
    /// The number of the variant to replay.
    pub(crate) variant: usize,
    pub(crate) seed: Seed,
}

/// Which replays a question's variants need, where some have a second one with objects in the other
/// half of their pairs of lines: each of the two replays every second interleaving.
///
/// Second ones have the numbers after the question's.
#[derive(Debug)]
pub(crate) struct HalfTurns {
    variants: usize,
    /// Which variants the second ones are of, in their order.
    others: Vec<usize>,
}

impl HalfTurns {
    /// `others`: which of that many variants have a second one.
    pub(crate) fn new(variants: usize, others: impl Iterator<Item = usize>) -> HalfTurns {
        HalfTurns {
            variants,
            others: others.collect(),
        }
    }

    /// Each of these variants with every seed of a batch, variant by variant.
    pub(crate) fn jobs(&self, variants: &[usize], batch: &[Seed]) -> Vec<Job> {
        let all = |variant: &usize| {
            let both = [*variant, self.other(*variant).unwrap_or(*variant)];
            let turns = both.into_iter().cycle();
            let seeds = batch.iter().copied();
            turns
                .zip(seeds)
                .map(|(variant, seed)| Job { variant, seed })
        };
        variants.iter().flat_map(all).collect()
    }

    fn other(&self, variant: usize) -> Option<usize> {
        let place = self.others.iter().position(|of| *of == variant)?;
        Some(self.variants + place)
    }

    /// The question's variant that a replayed one is.
    pub(crate) fn variant(&self, replayed: usize) -> usize {
        let second = replayed.checked_sub(self.variants);
        let of = second.and_then(|place| self.others.get(place));
        of.copied().unwrap_or(replayed)
    }
}

/// Replays that count these jobs, each from a copy of its variant's filled one; which itself is
/// taken where no job after needs it.
pub(crate) fn counting<'s>(
    warm: &mut BTreeMap<usize, Runner<'s>>,
    now: &[Job],
    later: &[Job],
) -> Vec<Runner<'s>> {
    let mut runners = Vec::with_capacity(now.len());
    for (at, job) in now.iter().enumerate() {
        let mut after = now[at + 1..].iter().chain(later);
        let runner = match after.any(|other| other.variant == job.variant) {
            // A copy of a filled replay is tens of megabytes: the last job of a variant takes the
            // original.
            true => warm.get(&job.variant).cloned(),
            false => warm.remove(&job.variant),
        };
        runners.extend(runner.map(|runner| runner.counting(job.seed)));
    }
    runners
}

pub(crate) fn take_all(runners: &mut [Runner<'_>], rounds: &Rounds) -> Result<(), ReplayError> {
    runners
        .par_iter_mut()
        .try_for_each(|runner| runner.take(rounds))
}

/// A replay of one variant under one interleaving.
#[derive(Clone)]
pub(crate) struct Runner<'s> {
    variant: &'s Variant,
    memory: Memory,
    /// Whether what hits in L1 whatever the interleaving is counted, and not replayed.
    skips_hits: bool,
    pub(crate) replay: Replay<AsRecorded, NoClones>,
}

impl<'s> Runner<'s> {
    pub(crate) fn new(variant: &'s Variant, replay: Replay<AsRecorded, NoClones>) -> Runner<'s> {
        Runner {
            variant,
            memory: Memory::default(),
            skips_hits: false,
            replay,
        }
    }

    /// The same, of a layout as recorded: what hits in L1 whatever the interleaving is counted, and
    /// not replayed. The result is then the same whichever types' hits the rounds have.
    pub(crate) fn without_hits(self) -> Runner<'s> {
        Runner {
            skips_hits: true,
            ..self
        }
    }

    /// After a warm-up: the replay that counts.
    pub(crate) fn counting(mut self, seed: Seed) -> Self {
        self.replay.begin_counting(Interleaving::Seeded(seed.0));
        self
    }

    fn take(&mut self, rounds: &Rounds) -> Result<(), ReplayError> {
        let Runner {
            variant,
            memory,
            skips_hits,
            replay,
        } = self;
        for (start, round) in rounds.starts.iter().zip(rounds.iter()) {
            replay.set_time(*start);
            for (head, steps) in round {
                replay.begin_slice(head)?;
                for step in steps {
                    if *skips_hits && !step.needed {
                        replay.add_hit(step.access.kind, step.placed())?;
                        continue;
                    }
                    variant.apply(step, memory, |item, placed| replay.add(item, placed))?;
                }
            }
            replay.end_round();
        }
        Ok(())
    }

    /// The replay, with what it did not get.
    pub(crate) fn replayed(
        mut self,
        left_out: &LeftOut,
    ) -> Result<Replay<AsRecorded, NoClones>, ReplayError> {
        for (key, kinds) in left_out.by_key() {
            self.replay.add_hits(key, kinds)?;
        }
        for (site, kinds) in left_out.by_site() {
            self.replay.add_site_hits(site, kinds)?;
        }
        self.replay.add_uncached(left_out.uncached);
        Ok(self.replay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_variant_takes_every_second_interleaving() {
        let turns = HalfTurns::new(3, [2].into_iter());
        let jobs = turns.jobs(&[0, 2], &[5, 6, 7, 8].map(Seed));
        let jobs: Vec<(usize, u64)> = jobs.iter().map(|job| (job.variant, job.seed.0)).collect();
        let without = [(0, 5), (0, 6), (0, 7), (0, 8)];
        assert_eq!(jobs, [without, [(2, 5), (3, 6), (2, 7), (3, 8)]].concat());
        assert_eq!(
            [0, 1, 2, 3].map(|number| turns.variant(number)),
            [0, 1, 2, 2]
        );
    }
}

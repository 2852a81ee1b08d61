//! What a search minimises: a layout's cost over several recordings and machines.

use rayon::prelude::*;

use linemate_recording::Cycles;
use linemate_units::Millionths;

use crate::candidate::Candidate;
use crate::cost::CostModel;
use crate::shape::{StructShape, UnitLayout};

/// Costs layouts on several models at once, each relative to the original layout's cost there.
#[derive(Debug)]
pub struct Objective<'m, 't> {
    /// One per recording and machine.
    pub models: &'m [CostModel<'t>],
    /// The original's cost on each.
    pub originals: Vec<Cycles>,
}

impl<'m, 't> Objective<'m, 't> {
    /// Measures the recorded order.
    pub fn of_original(models: &'m [CostModel<'t>], shape: &StructShape) -> Objective<'m, 't> {
        let slots = Candidate::original(shape).slots(shape);
        let cost = |model: &CostModel<'_>| {
            let mut placed = UnitLayout::default();
            model.metrics().place(&slots, &mut placed);
            model.cost(shape, &placed)
        };
        let originals = models.par_iter().map(cost).collect();
        Objective { models, originals }
    }

    /// The mean over the models of a layout's cost relative to the original's.
    pub fn relative(&self, costs: &[Cycles]) -> Millionths {
        let parts = costs.iter().zip(&self.originals);
        let sum: u128 = parts.map(|(cost, original)| part(*cost, *original)).sum();
        let mean = sum / costs.len().max(1) as u128;
        Millionths(mean.try_into().unwrap_or(u64::MAX))
    }

    /// The least cost on one model with which the mean is not below `mean`, if the other models'
    /// costs are those of `costs`.
    pub(crate) fn least_reaching(
        &self,
        mean: Millionths,
        model: usize,
        costs: &[Cycles],
    ) -> Cycles {
        let parts = costs.iter().zip(&self.originals).enumerate();
        let others = parts.filter(|(other, _)| *other != model);
        let others: u128 = others
            .map(|(_, (cost, original))| part(*cost, *original))
            .sum();
        let needed = (u128::from(mean.0) * costs.len() as u128).saturating_sub(others);
        let original = u128::from(self.originals[model].0.max(1));
        let cycles = (needed * original).div_ceil(1_000_000);
        Cycles(cycles.try_into().unwrap_or(u64::MAX))
    }
}

/// A cost relative to the original's on its model, in millionths: so that a machine with long
/// latencies or a long recording does not outweigh the others. Integers, because ties must not
/// depend on the order of a sum.
fn part(cost: Cycles, original: Cycles) -> u128 {
    u128::from(cost.0) * 1_000_000 / u128::from(original.0.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cycle_less_does_not_reach_the_mean() {
        let originals = [1_000, 7, 123_456_789, 1].map(Cycles).to_vec();
        let objective = Objective {
            models: &[],
            originals,
        };
        for mean in [1, 333_333, 999_999, 1_000_000, 2_500_001].map(Millionths) {
            for model in 0..4 {
                let mut costs = [10, 0, 5_000_000, 0].map(Cycles);
                let least = objective.least_reaching(mean, model, &costs);
                costs[model] = least;
                assert!(objective.relative(&costs) >= mean, "{mean:?} {model}");
                if let Some(less) = least.0.checked_sub(1) {
                    costs[model] = Cycles(less);
                    assert!(objective.relative(&costs) < mean, "{mean:?} {model}");
                }
            }
        }
    }
}

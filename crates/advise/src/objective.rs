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
        let part = |(cost, original): (&Cycles, &Cycles)| {
            // Relative to each model's own original, so that a machine with long latencies or a
            // long recording does not outweigh the others. Integers: ties must not depend on the
            // order of a sum.
            u128::from(cost.0) * 1_000_000 / u128::from(original.0.max(1))
        };
        let sum: u128 = costs.iter().zip(&self.originals).map(part).sum();
        let mean = sum / costs.len().max(1) as u128;
        Millionths(mean.try_into().unwrap_or(u64::MAX))
    }
}

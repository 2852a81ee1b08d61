//! The runs of an edit on both kernels, and what they have in common.

use linemate_report::case::{Compared, Measured, Predicted, Spread};

/// One figure of the predictions and measurements of an edit on a machine, run by run.
pub(crate) fn compared(
    runs: &[PairedRun],
    figure: impl Fn(&Predicted) -> Option<Measured>,
) -> Option<Compared> {
    let side = |of: &dyn Fn(&PairedRun) -> Option<f64>| {
        let figures: Option<Vec<f64>> = runs.iter().map(of).collect();
        figures.map(|figures| spread(&figures))
    };
    Some(Compared {
        without: side(&|run| Some(figure(&run.predicted)?.without))?,
        predicted: side(&|run| Some(figure(&run.predicted)?.with))?,
        rerecorded: side(&|run| Some(figure(&run.measured)?.without))?,
    })
}

/// A run on both kernels.
pub(crate) struct PairedRun {
    /// From the kernel without patches.
    pub(crate) predicted: Predicted,
    /// The kernel with them, under edits that change nothing: its cost is the side without.
    pub(crate) measured: Predicted,
}

fn spread(figures: &[f64]) -> Spread {
    Spread {
        mean: figures.iter().sum::<f64>() / figures.len().max(1) as f64,
        least: figures.iter().copied().reduce(f64::min).unwrap_or(0.0),
        most: figures.iter().copied().reduce(f64::max).unwrap_or(0.0),
    }
}

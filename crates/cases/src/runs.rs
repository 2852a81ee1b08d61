//! The runs of an edit on both kernels, and what they have in common.

use linemate_answers::{EventCount, EventRuns, Figure, Measured, Predicted, Spread};
use linemate_stats::change_between;

use crate::compared::compared;

/// A run on both kernels: two recordings, of the same seed and nothing else in common.
pub(crate) struct PairedRun {
    /// From the kernel without patches.
    pub(crate) predicted: Predicted,
    /// The kernel with them, under edits that change nothing: its cost is the side without.
    pub(crate) measured: Predicted,
    /// What costs are divided by, in the recording of the kernel without patches.
    pub(crate) event: Option<EventCount>,
    /// And in that of the kernel with them.
    pub(crate) patched_event: Option<EventCount>,
}

impl PairedRun {
    fn calls(&self) -> Option<(f64, f64)> {
        let calls = |event: &Option<EventCount>| {
            let calls = event.as_ref()?.calls;
            (calls > 0).then_some(calls as f64)
        };
        calls(&self.event).zip(calls(&self.patched_event))
    }
}

/// All runs of an edit on a machine.
pub(crate) struct Runs(pub(crate) Vec<PairedRun>);

impl Runs {
    /// One figure of them, summed up and for each event.
    pub(crate) fn figure(&self, figure: impl Fn(&Predicted) -> Option<Measured>) -> Option<Figure> {
        let mut figures = Vec::new();
        for run in &self.0 {
            let (base, patched) = (figure(&run.predicted)?, figure(&run.measured)?);
            figures.push([base.without, base.with, patched.without]);
        }
        let compared = |figures: &[[f64; 3]]| {
            let side = |side: usize| figures.iter().map(|f| f[side]).collect::<Vec<f64>>();
            compared(&side(0), &side(1), &side(2))
        };
        let calls: Option<Vec<(f64, f64)>> = self.0.iter().map(PairedRun::calls).collect();
        let per_event = calls.map(|calls| {
            let each = figures.iter().zip(calls);
            let each = each.map(|([a, b, c], (base, patched))| [a / base, b / base, c / patched]);
            compared(&each.collect::<Vec<_>>())
        });
        Some(Figure {
            sum: compared(&figures),
            per_event,
        })
    }

    /// How often the event called `name` happened; `None` where that was not counted.
    pub(crate) fn events(&self, name: &str) -> Option<EventRuns> {
        let first = self.0.first()?;
        let (event, patched) = (first.event.as_ref()?, first.patched_event.as_ref()?);
        let calls: Option<Vec<(f64, f64)>> = self.0.iter().map(PairedRun::calls).collect();
        let (without, rerecorded): (Vec<f64>, Vec<f64>) = calls?.into_iter().unzip();
        Some(EventRuns {
            name: name.to_owned(),
            function: event.function.clone(),
            copies: event.symbols.clone(),
            patched_copies: patched.symbols.clone(),
            without: Spread::of(&without),
            rerecorded: Spread::of(&rerecorded),
            change: change_between(&without, &rerecorded),
        })
    }
}

//! A prediction beside the kernel that was built: what several runs of each say, and whether both agree.

use linemate_study::stats::{Change, change_between, change_within};
use serde::{Deserialize, Serialize};

/// A change that is known this well, in points of per cent, can be told from another one even if it is smaller than that.
const RESOLUTION: f64 = 1.0;

/// From this many times as many accesses on, what a type costs in two kernels is not the same thing: a patch changes what an access costs and
/// spares some, but does not double them. A name does: an object of before the recording has a type only where its slab cache is of one type, and the kernel
/// merges caches of one size, which a patch may change.
const RENAMED: f64 = 2.0;

/// A change in per cent, with its interval if there is one.
#[must_use]
pub fn change_text(change: Change) -> String {
    match change.ci95 {
        Some(ci95) => format!("{:+.1} ± {ci95:.1} %", change.percent),
        None => format!("{:+.1} %", change.percent),
    }
}

/// A figure of several runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

impl Spread {
    /// Of the runs' figures.
    #[must_use]
    pub fn of(figures: &[f64]) -> Spread {
        let end = |pick: fn(f64, f64) -> f64| figures.iter().copied().reduce(pick).unwrap_or(0.0);
        Spread {
            mean: figures.iter().sum::<f64>() / figures.len().max(1) as f64,
            least: end(f64::min),
            most: end(f64::max),
        }
    }
}

/// Whether a prediction fits what the rebuilt kernel cost (docs/guide/cases.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// Both intervals overlap.
    #[serde(rename = "agrees")]
    Agrees,
    /// They do not.
    #[serde(rename = "differs")]
    Differs,
    /// They do, but no change at all would fit as well; or there are no intervals.
    #[serde(rename = "inconclusive")]
    Inconclusive,
    /// The types are accessed so much more often in one of the kernels that they are not the same objects there.
    #[serde(rename = "not comparable")]
    NotComparable,
}

impl Verdict {
    /// Of a predicted change and the recorded one.
    #[must_use]
    pub fn of(predicted: Change, recorded: Change) -> Verdict {
        let Some((ours, theirs)) = predicted.ci95.zip(recorded.ci95) else {
            return Verdict::Inconclusive;
        };
        let margin = ours + theirs;
        let fits = |percent: f64| (percent - recorded.percent).abs() <= margin;
        match fits(predicted.percent) {
            false => Verdict::Differs,
            true if margin > RESOLUTION && fits(0.0) => Verdict::Inconclusive,
            true => Verdict::Agrees,
        }
    }

    /// As tables have it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Differs => "differs",
            Verdict::Inconclusive => "inconclusive",
            Verdict::NotComparable => "not comparable",
        }
    }
}

/// A figure of the kernel without patches, predicted from it, and of the kernel with them; each run's is the mean over its
/// interleavings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// The kernel built without patches.
    pub without: Spread,
    /// Predicted from it.
    pub predicted: Spread,
    /// The kernel with the patches.
    pub rerecorded: Spread,
    /// From the first to the second: of the same recordings, run by run. None where there is nothing to change.
    pub predicted_change: Option<Change>,
    /// From the first to the third: of recordings of two kernels.
    pub recorded_change: Option<Change>,
    /// Whether the second fits the third.
    pub verdict: Option<Verdict>,
}

impl Compared {
    /// Of the figures of each run: `without` and `predicted` are of the same recordings.
    #[must_use]
    pub fn of(without: &[f64], predicted: &[f64], rerecorded: &[f64]) -> Compared {
        let predicted_change = change_within(without, predicted);
        let recorded_change = change_between(without, rerecorded);
        let both = predicted_change.zip(recorded_change);
        Compared {
            without: Spread::of(without),
            predicted: Spread::of(predicted),
            rerecorded: Spread::of(rerecorded),
            predicted_change,
            recorded_change,
            verdict: both.map(|(predicted, recorded)| Verdict::of(predicted, recorded)),
        }
    }

    /// How far the predicted figure is from the re-recorded one, in per cent of the re-recorded.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        let (predicted, rerecorded) = (self.predicted.mean, self.rerecorded.mean);
        (rerecorded > 0.0).then(|| 100.0 * (predicted - rerecorded) / rerecorded)
    }
}

/// A figure as it was summed up over each recording, and for each event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Of whole recordings.
    pub sum: Compared,
    /// For each event, if the case names one.
    pub per_event: Option<Compared>,
}

impl Figure {
    /// What a change is read from: events where there are any, for the course of a workload is not in them.
    #[must_use]
    pub fn best(&self) -> &Compared {
        self.per_event.as_ref().unwrap_or(&self.sum)
    }

    /// Of a figure that counts accesses to types: whether there are so many more in one kernel that not the same objects have the types' names in both.
    #[must_use]
    pub fn is_renamed(&self) -> bool {
        let compared = self.best();
        let (without, rerecorded) = (compared.without.mean, compared.rerecorded.mean);
        without.max(rerecorded) >= RENAMED * without.min(rerecorded) && without != rerecorded
    }

    /// The same figure, of which no verdict is to be read.
    #[must_use]
    pub fn not_comparable(mut self) -> Figure {
        for compared in self.per_event.iter_mut().chain([&mut self.sum]) {
            compared.verdict = Some(Verdict::NotComparable);
        }
        self
    }
}

/// How often an event happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EventRuns {
    /// What it is called.
    pub name: String,
    /// The function whose calls it is.
    pub function: String,
    /// The function's copies in the kernel without patches: `f`, `f.isra.0`.
    pub copies: Vec<String>,
    /// And in the one with them.
    pub patched_copies: Vec<String>,
    /// Calls in recordings of the kernel without patches.
    pub without: Spread,
    /// And of the one with them.
    pub rerecorded: Spread,
    /// From one to the other.
    pub change: Option<Change>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(percent: f64, ci95: f64) -> Change {
        Change {
            percent,
            ci95: Some(ci95),
        }
    }

    #[test]
    fn verdicts() {
        use Verdict::{Agrees, Differs, Inconclusive};
        let none = |percent| Change {
            percent,
            ci95: None,
        };
        for (predicted, recorded, verdict) in [
            // FFmpeg of three runs, update_sd_lb_stats of six: docs/guide/cases.md has both as examples.
            (change(-6.6, 0.5), change(-21.0, 36.0), Inconclusive),
            (change(-2.3, 0.5), change(-4.7, 23.0), Inconclusive),
            (change(-20.0, 1.0), change(-21.0, 3.0), Agrees),
            (change(-20.0, 1.0), change(-24.0, 3.0), Agrees),
            (change(-20.0, 1.0), change(-24.1, 3.0), Differs),
            (change(-20.0, 1.0), change(-16.0, 3.0), Agrees),
            (change(-20.0, 1.0), change(-15.9, 3.0), Differs),
            // No change would fit as well; twice the change would.
            (change(-20.0, 1.0), change(-10.0, 12.0), Inconclusive),
            (change(-20.0, 1.0), change(-30.0, 12.0), Agrees),
            // No change fits, but the prediction does not.
            (change(-20.0, 1.0), change(-8.0, 9.0), Differs),
            (change(-20.0, 1.0), change(-20.0, 18.9), Agrees),
            (change(-20.0, 1.0), change(-20.0, 19.0), Inconclusive),
            // A prediction that says nothing agrees with nothing.
            (change(-20.0, 30.0), change(-20.0, 1.0), Inconclusive),
            // The other sign.
            (change(-20.0, 1.0), change(20.0, 3.0), Differs),
            (change(5.0, 0.5), change(4.0, 1.0), Agrees),
            // Next to nothing is a change that can be told if it is known well enough.
            (change(-0.1, 0.1), change(0.2, 0.9), Agrees),
            (change(-0.1, 0.1), change(0.2, 1.0), Inconclusive),
            (change(-0.1, 0.1), change(1.2, 0.9), Differs),
            (change(0.0, 0.0), change(0.0, 0.0), Agrees),
            (none(-20.0), change(-20.0, 1.0), Inconclusive),
            (change(-20.0, 1.0), none(-20.0), Inconclusive),
        ] {
            let ours = Verdict::of(predicted, recorded);
            assert_eq!(ours, verdict, "{predicted:?} {recorded:?}");
        }
    }

    #[test]
    fn predictions_are_compared_run_by_run_and_kernels_are_not() {
        let without = [100.0, 200.0, 300.0];
        let predicted = without.map(|cost| 0.8 * cost);
        let compared = Compared::of(&without, &predicted, &[80.0, 160.0, 240.0]);
        let half = |change: Option<Change>| change.and_then(|c| c.ci95).unwrap_or(f64::NAN);
        assert!(half(compared.predicted_change).abs() < 1e-9);
        assert!(half(compared.recorded_change) > 60.0);
        assert_eq!(compared.verdict, Some(Verdict::Inconclusive));
        assert_eq!(compared.error(), Some(0.0));
        assert_eq!(compared.rerecorded.most, 240.0);
        // Nothing to change.
        let nothing = Compared::of(&[0.0; 3], &[0.0; 3], &[0.0; 3]);
        assert_eq!((nothing.verdict, nothing.error()), (None, None));
    }

    #[test]
    fn a_type_that_is_accessed_twice_as_often_in_one_kernel_is_not_the_same() {
        let sum = |without, rerecorded| Figure {
            sum: Compared::of(&[without], &[without], &[rerecorded]),
            per_event: None,
        };
        assert!(!sum(100.0, 199.0).is_renamed() && sum(100.0, 200.0).is_renamed());
        assert!(!sum(199.0, 100.0).is_renamed() && sum(200.0, 100.0).is_renamed());
        assert!(sum(0.0, 1.0).is_renamed() && !sum(0.0, 0.0).is_renamed());
        // What counts is an event's where there are events: twice the accesses of twice the work are as many.
        let twice_the_work = Figure {
            per_event: Some(Compared::of(&[10.0], &[10.0], &[10.0])),
            ..sum(100.0, 200.0)
        };
        assert!(!twice_the_work.is_renamed());
        let told = twice_the_work.not_comparable();
        assert_eq!(told.sum.verdict, Some(Verdict::NotComparable));
        assert_eq!(told.best().verdict, Some(Verdict::NotComparable));
    }
}

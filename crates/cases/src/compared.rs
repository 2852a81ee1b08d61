//! A prediction compared with the built kernel: what several runs of each say, and whether both
//! agree.

use linemate_answers::{Change, Compared, Spread, Verdict};
use linemate_stats::{change_between, change_within};

/// A change whose margin is at most this, in points of per cent, counts as known even if it is
/// smaller than that.
const RESOLUTION: f64 = 1.0;

/// Whether a predicted change fits the recorded one.
fn verdict_of(predicted: Change, recorded: Change) -> Verdict {
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

/// The comparison of the figures of each run: `without` and `predicted` are of the same recordings.
pub(crate) fn compared(without: &[f64], predicted: &[f64], rerecorded: &[f64]) -> Compared {
    let predicted_change = change_within(without, predicted);
    let recorded_change = change_between(without, rerecorded);
    let both = predicted_change.zip(recorded_change);
    Compared {
        without: Spread::of(without),
        predicted: Spread::of(predicted),
        rerecorded: Spread::of(rerecorded),
        predicted_change,
        recorded_change,
        verdict: both.map(|(predicted, recorded)| verdict_of(predicted, recorded)),
    }
}

#[cfg(test)]
mod tests {
    use linemate_answers::Figure;

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
            // FFmpeg of three runs, update_sd_lb_stats of six: docs/guide/cases.md has both as
            // examples.
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
            // Next to nothing is a change, too, if it is known well enough.
            (change(-0.1, 0.1), change(0.2, 0.9), Agrees),
            (change(-0.1, 0.1), change(0.2, 1.0), Inconclusive),
            (change(-0.1, 0.1), change(1.2, 0.9), Differs),
            (change(0.0, 0.0), change(0.0, 0.0), Agrees),
            (none(-20.0), change(-20.0, 1.0), Inconclusive),
            (change(-20.0, 1.0), none(-20.0), Inconclusive),
        ] {
            let ours = verdict_of(predicted, recorded);
            assert_eq!(ours, verdict, "{predicted:?} {recorded:?}");
        }
    }

    #[test]
    fn predictions_are_compared_run_by_run_and_kernels_are_not() {
        let without = [100.0, 200.0, 300.0];
        let predicted = without.map(|cost| 0.8 * cost);
        let result = compared(&without, &predicted, &[80.0, 160.0, 240.0]);
        let half = |change: Option<Change>| change.and_then(|c| c.ci95).unwrap_or(f64::NAN);
        assert!(half(result.predicted_change).abs() < 1e-9);
        assert!(half(result.recorded_change) > 60.0);
        assert_eq!(result.verdict, Some(Verdict::Inconclusive));
        assert_eq!(result.error(), Some(0.0));
        assert_eq!(result.rerecorded.most, 240.0);
        // Nothing to change.
        let nothing = compared(&[0.0; 3], &[0.0; 3], &[0.0; 3]);
        assert_eq!((nothing.verdict, nothing.error()), (None, None));
    }

    #[test]
    fn a_type_that_is_accessed_twice_as_often_in_one_kernel_is_not_the_same() {
        let sum = |without, rerecorded| Figure {
            sum: compared(&[without], &[without], &[rerecorded]),
            per_event: None,
        };
        assert!(!sum(100.0, 199.0).is_renamed() && sum(100.0, 200.0).is_renamed());
        assert!(!sum(199.0, 100.0).is_renamed() && sum(200.0, 100.0).is_renamed());
        assert!(sum(0.0, 1.0).is_renamed() && !sum(0.0, 0.0).is_renamed());
        // What counts is an event's where there are events: twice the accesses of twice the work
        // are as many.
        let twice_the_work = Figure {
            per_event: Some(compared(&[10.0], &[10.0], &[10.0])),
            ..sum(100.0, 200.0)
        };
        assert!(!twice_the_work.is_renamed());
        let marked = twice_the_work.not_comparable();
        assert_eq!(marked.sum.verdict, Some(Verdict::NotComparable));
        assert_eq!(marked.best().verdict, Some(Verdict::NotComparable));
    }
}

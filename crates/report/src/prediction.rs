//! How far predictions for more CPUs than were recorded are off, in words.

use std::fmt::Write as _;

use linemate_answers::PredictionError;

use crate::Text;

/// A sentence for each recording that is replayed as more CPUs than it has, the same only once.
#[must_use]
pub fn prediction_errors<'e>(
    errors: impl IntoIterator<Item = &'e Option<PredictionError>>,
) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    for error in errors.into_iter().flatten() {
        let sentence = sentence(error);
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    sentences
}

/// The same, a line each.
pub(crate) fn warn_of_copies<'e>(
    out: &mut Text,
    errors: impl IntoIterator<Item = &'e Option<PredictionError>>,
) {
    for sentence in prediction_errors(errors) {
        // Writing to a text does not fail.
        let _ = writeln!(out, "{sentence}");
    }
}

fn sentence(error: &PredictionError) -> String {
    let kind = match error.with_series {
        true => " with --series",
        false => "",
    };
    let ahead = match error.is_measured() {
        true => "",
        false => " None this far ahead was checked.",
    };
    let cpus: Vec<String> = error.compared_cpus.iter().map(usize::to_string).collect();
    let [least, most] = error.percent.map(|percent| format!("{percent:.0}"));
    let range = match least == most {
        true => most,
        false => format!("{least} to {most}"),
    };
    format!(
        "{} CPUs are copies of {} recorded ones. Predictions for {} times as many CPUs{kind} differed from recordings of {} by {range} % of cycles (mean of the 20 most expensive fields; docs/model/scaling.md).{ahead}",
        error.cpus,
        error.recorded_cpus,
        error.compared_copies,
        cpus.join(" and "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(copies: usize, compared_copies: usize, percent: [f64; 2]) -> PredictionError {
        PredictionError {
            cpus: 8 * copies,
            recorded_cpus: 8,
            copies,
            with_series: false,
            compared_copies,
            compared_cpus: vec![32, 128],
            percent,
        }
    }

    #[test]
    fn what_was_compared_is_in_the_sentence() {
        assert_eq!(
            sentence(&error(4, 4, [16.8, 34.3])),
            "32 CPUs are copies of 8 recorded ones. Predictions for 4 times as many CPUs differed from recordings \
             of 32 and 128 by 17 to 34 % of cycles (mean of the 20 most expensive fields; docs/model/scaling.md)."
        );
        let series = PredictionError {
            with_series: true,
            ..error(4, 4, [16.8, 17.2])
        };
        assert!(
            sentence(&series)
                .contains("CPUs with --series differed from recordings of 32 and 128 by 17 %")
        );
    }

    #[test]
    fn farther_ahead_than_was_compared_is_said() {
        let said = sentence(&error(60, 16, [20.0, 40.0]));
        let begins =
            "480 CPUs are copies of 8 recorded ones. Predictions for 16 times as many CPUs";
        assert!(said.starts_with(begins), "{said}");
        assert!(
            said.ends_with(" None this far ahead was checked."),
            "{said}"
        );
    }

    #[test]
    fn recordings_with_one_error_share_a_sentence() {
        let [near, far] = [
            Some(error(4, 4, [1.0, 2.0])),
            Some(error(60, 4, [1.0, 2.0])),
        ];
        let sentences = prediction_errors([&near, &None, &near, &far]);
        assert_eq!(sentences.len(), 2);
    }
}

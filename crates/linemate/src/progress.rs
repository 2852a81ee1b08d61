//! How far a question is, on a terminal.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use linemate_session::progress::{Progress, Silent, Step, StepParts};

/// Shows steps with an estimate of the time left for each; nothing if standard error is not a
/// terminal.
pub(crate) fn shown() -> Box<dyn Progress> {
    match io::stderr().is_terminal() {
        true => Box::new(Bar(ProgressBar::hidden())),
        false => Box::new(Silent),
    }
}

struct Bar(ProgressBar);

impl Progress for Bar {
    fn begin(&self, step: Step, parts: StepParts) {
        let message = match step {
            Step::Checking => "checking the recording",
            Step::Naming => "reading the recording: names",
            Step::Counting => "reading the recording: counts",
            Step::Choosing => "reading the recording: accesses to replay",
            Step::Replaying => "replaying",
        };
        let bar = &self.0;
        bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{msg} {percent:>3} %, {eta} left");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.reset();
        bar.set_length(parts.0);
        bar.set_message(message);
        bar.enable_steady_tick(Duration::from_millis(200));
    }

    fn advance(&self, parts: StepParts) {
        let bar = &self.0;
        bar.inc(parts.0);
        // The answer is printed next, or another step begins.
        if bar.length().is_some_and(|length| bar.position() >= length) {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

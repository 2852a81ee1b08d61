//! Prints the advice for a recording: `remedies FILE [MACHINE [TRIALS [TYPE]]]`, as JSON with `JSON=1` in the environment.

use std::process::ExitCode;

use linemate_recording::Recording;
use linemate_remedies::{Options, find};
use linemate_study::Session;

fn run() -> Result<String, Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let path = words.next().ok_or("which recording?")?;
    let name = words.next().unwrap_or_else(|| "gnr-2s-480".to_owned());
    let mut options = Options::new(linemate_machine::find(&name)?);
    if let Some(trials) = words.next() {
        options.trials = trials.parse()?;
    }
    options.focus = words.next();
    let recording = Recording::open(path.as_ref())?;
    let session = Session::new(&recording)?;
    let found = find(&session, &options)?;
    Ok(if std::env::var_os("JSON").is_some() {
        serde_json::to_string_pretty(&found)?
    } else {
        found.to_string()
    })
}

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]
fn main() -> ExitCode {
    match run() {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("remedies: {error}");
            ExitCode::from(2)
        }
    }
}

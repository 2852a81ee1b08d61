//! Parsing of the command line and the exit-code contract. Each verb lives in its own file under `verbs/`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Command, CommandFactory, Parser, Subcommand};

use crate::verbs;

/// How a verb ended, when it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "constructed by the verbs that can find something")]
pub(crate) enum Outcome {
    /// Nothing to complain about: exit code 0.
    Fine,
    /// The verb found what it looks for (a broken recording, a failed self-test): exit code 1.
    Findings,
}

/// Which fields should share a cache line?
#[derive(Parser)]
#[command(name = "linemate", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Record(Box<verbs::record::Args>),
    Layout(verbs::layout::Args),
    Report(verbs::report::Args),
    Verify(verbs::verify::Args),
    Machines(verbs::machines::Args),
    Whatif(Box<verbs::whatif::Args>),
    Advise(Box<verbs::advise::Args>),
    Diff(verbs::diff::Args),
    Patch(Box<verbs::patch::Args>),
    Check(verbs::check::Args),
    Case(verbs::case::Args),
    Doctor(verbs::doctor::Args),
}

/// The definition of the command line, for what is made from it: manual pages, completions.
#[must_use]
pub fn command() -> Command {
    Cli::command()
}

/// Runs the command with `arguments` (the first one is the program's name). Returns 0 = fine, 1 = findings, 2 = error.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(2)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    match dispatch(cli.verb) {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::Findings) => ExitCode::from(1),
        // A closed pipe (`linemate report | head`) is how the reader says "enough".
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "linemate: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn dispatch(verb: Verb) -> anyhow::Result<Outcome> {
    match verb {
        Verb::Record(args) => verbs::record::run(*args),
        Verb::Layout(args) => verbs::layout::run(&args),
        Verb::Report(args) => verbs::report::run(&args),
        Verb::Verify(args) => verbs::verify::run(&args),
        Verb::Machines(args) => verbs::machines::run(&args),
        Verb::Whatif(args) => verbs::whatif::run(&args),
        Verb::Advise(args) => verbs::advise::run(&args),
        Verb::Patch(args) => verbs::patch::run(&args),
        Verb::Check(args) => verbs::check::run(&args),
        Verb::Case(args) => verbs::case::run(&args),
        Verb::Diff(args) => verbs::diff::run(&args),
        Verb::Doctor(args) => verbs::doctor::run(&args),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}

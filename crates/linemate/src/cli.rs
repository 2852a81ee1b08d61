//! Parsing of the command line and the exit-code contract. Each verb lives in its own file under
//! `verbs/`.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::outcome::Outcome;
use crate::question::options;
use crate::{files, limits, output, verbs};

/// Where the files that help mentions are.
const DOCS: &str = "docs/ is in the source tree and, once installed, in PREFIX/share/doc/linemate (/usr/local/share/doc/linemate).";

/// Which fields should share a cache line?
#[derive(Parser)]
#[command(name = "linemate", version = env!("LINEMATE_VERSION"), max_term_width = 100, after_help = DOCS)]
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
    Growth(verbs::growth::Args),
    Export(Box<verbs::export::Args>),
    Patch(Box<verbs::patch::Args>),
    Check(verbs::check::Args),
    Case(verbs::case::Args),
    Doctor(verbs::doctor::Args),
}

/// Runs the command with `arguments` (the first one is the program's name). Returns 0 = fine, 1 =
/// findings, 2 = error.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    limits::take_file_size_as_error();
    let arguments: Vec<OsString> = arguments.collect();
    if let Some(code) = limits::watch_memory(&arguments) {
        return code;
    }
    let command = command();
    let matches = command.clone().try_get_matches_from(&arguments);
    let parsed = matches.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) if error.use_stderr() && error.kind() != NO_ARGUMENTS => {
            output::to_stderr(&usage_error(&error, &arguments));
            return ExitCode::from(2);
        }
        Err(error) => {
            // Help and the version; help without arguments is an error.
            let _ = error.print();
            return match error.use_stderr() {
                true => ExitCode::from(2),
                false => ExitCode::SUCCESS,
            };
        }
    };
    let checked =
        options::check(&command, &matches).and_then(|()| Ok(files::check(&command, &matches)?));
    match checked.and_then(|()| dispatch(cli.verb)) {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::Findings) => ExitCode::from(1),
        // A closed pipe (`linemate report | head`) is the reader's way to say "enough".
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::to_stderr(&output::one_line(&error));
            ExitCode::from(2)
        }
    }
}

/// The grammar of the command line; manual pages and completions are generated from it, too. `-1`
/// after an option is its value, not an unknown option.
#[must_use]
pub fn command() -> Command {
    Cli::command().mut_subcommands(completed)
}

fn completed(verb: Command) -> Command {
    let name = verb.get_name().to_owned();
    let verb = verb.mut_args(|arg| {
        let is_number = arg.get_action().takes_values() && !arg.is_positional();
        let is_json = arg.get_id() == "json";
        let arg = files::hinted(arg.allow_negative_numbers(is_number));
        match is_json {
            true => arg.help(json_help(&name)),
            false => arg,
        }
    });
    verb.mut_subcommands(completed)
}

/// The help of a verb's `--json`, with the page about its document.
fn json_help(verb: &str) -> String {
    let page = |name: &str| format!("docs/reference/json/{name}.md");
    match verb {
        "report" => format!(
            "Write JSON ({}; with a machine {})",
            page("report"),
            page("costs")
        ),
        // `case run`.
        "run" => format!(
            "Also write results.json to standard output ({})",
            page("case")
        ),
        verb => format!("Write JSON ({})", page(verb)),
    }
}

const NO_ARGUMENTS: ErrorKind = ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;

/// The error in the arguments, in one line: without the usage summary, which `--help` has. For an
/// option that other verbs have, also why this one lacks it.
fn usage_error(error: &clap::Error, arguments: &[OsString]) -> String {
    let text = error.to_string();
    let lines = text.lines().map(str::trim);
    let told =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let told: Vec<&str> = told.filter(|line| !line.is_empty()).collect();
    let told = told.join(" ").replace(" tip: ", "; tip: ");
    let told = told.strip_prefix("error: ").unwrap_or(&told);
    let why = why_unknown(error, arguments);
    why.unwrap_or_else(|| format!("{told}; see --help"))
}

/// Why the verb lacks an option that it does not know.
fn why_unknown(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let verb = arguments.get(1)?.to_str()?;
    match (error.kind(), error.get(ContextKind::InvalidArg)?) {
        (ErrorKind::UnknownArgument, ContextValue::String(given)) => {
            options::refusal(verb, given.strip_prefix("--")?)
        }
        _ => None,
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
        Verb::Growth(args) => verbs::growth::run(&args),
        Verb::Export(args) => verbs::export::run(&args),
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

//! The `linemate` command: flags, exit codes and output. No analysis here.

mod cli;
mod input;
mod output;
mod selftest;
mod verbs;

use std::process::ExitCode;

/// 0 = fine, 1 = findings (verify, doctor), 2 = error.
fn main() -> ExitCode {
    cli::run(std::env::args_os())
}

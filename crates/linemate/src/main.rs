//! The `linemate` command.

use std::process::ExitCode;

/// 0 = fine, 1 = findings (verify, doctor), 2 = error.
fn main() -> ExitCode {
    linemate::run(std::env::args_os())
}

//! The `linemate` command: flags, exit codes and output. No analysis here.

mod cli;
mod files;
mod input;
mod kept;
mod limits;
mod lists;
mod named_kernel;
mod next;
mod number;
mod outcome;
mod output;
mod page;
mod program;
mod progress;
mod question;
mod selftest;
mod series;
mod show;
mod terminal;
mod verbs;

pub use cli::{command, run};

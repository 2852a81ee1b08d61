//! The recordings of a question.

use anyhow::bail;
use clap::builder::{OsStr, Resettable};
use clap::{Arg, ArgAction};

use crate::files::InFile;
use crate::input::DEFAULT;

/// The recordings, as arguments or as options.
#[derive(clap::Args, Debug)]
pub(crate) struct Recordings {
    /// The recordings
    #[arg(value_name = "FILE", conflicts_with = "inputs", default_value = DEFAULT)]
    recordings: Vec<InFile>,
    /// A recording, as an option; may be repeated
    #[arg(short = 'i', long = "input", value_name = "FILE")]
    inputs: Vec<InFile>,
}

impl Recordings {
    /// All of them, in the order given.
    pub(crate) fn paths(&self) -> &[InFile] {
        match self.inputs.is_empty() {
            true => &self.recordings,
            false => &self.inputs,
        }
    }

    /// The two of a verb that compares.
    pub(crate) fn two(&self) -> anyhow::Result<[&InFile; 2]> {
        match self.paths() {
            [a, b] => Ok([a, b]),
            paths => bail!(
                "diff compares two recordings, not {}: name two",
                paths.len()
            ),
        }
    }
}

/// The argument of a verb that takes one recording.
pub(crate) fn one(arg: Arg) -> Arg {
    let arg = arg.action(ArgAction::Set);
    arg.num_args(1).help("The recording")
}

/// The option of such a verb.
pub(crate) fn one_as_option(arg: Arg) -> Arg {
    let arg = arg.action(ArgAction::Set);
    arg.help("The recording, as an option")
}

/// The argument of a verb that compares two recordings.
pub(crate) fn two(arg: Arg) -> Arg {
    series(arg)
        .num_args(2)
        .value_names(["A", "B"])
        .help("The two recordings")
}

/// The argument of a verb that reads a series.
pub(crate) fn series(arg: Arg) -> Arg {
    arg.default_value(Resettable::<OsStr>::Reset)
        .required_unless_present("inputs")
        .help("The recordings of the series")
}

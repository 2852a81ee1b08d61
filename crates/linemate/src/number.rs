//! Numbers on the command line: every option has a minimum and a maximum, which its help and its
//! error state.

use std::ffi::OsStr;
use std::fmt::{self, Display};
use std::str::FromStr;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command};

/// The maximum number of rows in a table: more than a kernel has types, variables and their fields.
pub(crate) const ROWS_MAX: usize = 1_000_000;
/// The minimum number of interleavings for an interval.
pub(crate) const INTERLEAVINGS_MIN: usize = linemate_experiment::INTERLEAVINGS_MIN;
/// The maximum number of interleavings: their interval is a fourteenth of that of
/// [`INTERLEAVINGS_MIN`], and each is a replay of the whole recording.
pub(crate) const INTERLEAVINGS_MAX: usize = 1024;
/// The maximum number of CPUs of a described machine.
pub(crate) const CPUS_MAX: usize = linemate_machine::CPUS_MAX;

/// Reads the numbers from `least` to `most`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Between<T> {
    least: T,
    most: T,
}

/// The numbers from `least` to `most`.
pub(crate) const fn between<T>(least: T, most: T) -> Between<T> {
    Between { least, most }
}

impl<T: FromStr + PartialOrd + Display> Between<T> {
    /// The number that a word is.
    pub(crate) fn read(&self, word: &str) -> Option<T> {
        let number = word.parse().ok();
        number.filter(|number| (&self.least..=&self.most).contains(&number))
    }

    /// How errors state them.
    pub(crate) fn bounds(&self) -> String {
        format!("{} to {}", self.least, self.most)
    }
}

impl<T> TypedValueParser for Between<T>
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(
        &self,
        _: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        let text = value.to_string_lossy();
        self.read(&text)
            .ok_or_else(|| refused(arg, &text, &self.bounds()))
    }
}

/// The error for a number outside `bounds`.
pub(crate) fn refused(arg: Option<&Arg>, text: &str, bounds: &str) -> clap::Error {
    let what = arg.map_or_else(String::new, option);
    let message = format!("{what} = {text}: must be {bounds}");
    clap::Error::raw(ErrorKind::ValueValidation, message)
}

/// The user's name for it.
pub(crate) fn option(arg: &Arg) -> String {
    match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => arg.get_id().as_str().to_uppercase(),
    }
}

/// Bytes, as users write them: `1.5G`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bytes(pub(crate) u64);

impl FromStr for Bytes {
    type Err = linemate_text::SizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        linemate_text::parse_size(text).map(Bytes)
    }
}

impl Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
        let whole = |(shift, _): &&(u32, &str)| self.0 > 0 && self.0 % (1 << shift) == 0;
        match units.iter().find(whole) {
            Some((shift, unit)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

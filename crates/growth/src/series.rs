//! The recordings of a series: the same work for each CPU, at several numbers of CPUs.

use std::collections::BTreeMap;
use std::error::Error;

use linemate_text::shown;

/// Most recordings of a series.
pub const RECORDINGS_MAX: usize = 32;
/// Fewest: a curve has two parameters.
pub const RECORDINGS_MIN: usize = 3;

/// Why recordings are not a series.
#[derive(Debug, thiserror::Error)]
pub enum SeriesError {
    /// Too few, or too many.
    #[error(
        "a series has {RECORDINGS_MIN} to {RECORDINGS_MAX} recordings, not {0} (record --series makes one)"
    )]
    Number(usize),
    /// A recording that was cut.
    #[error("{}: this recording is truncated; a series needs complete ones", shown(.0))]
    Cut(String),
    /// One without its number of CPUs, kernel or command.
    #[error("{}: the recording does not contain its {what}", shown(name))]
    Unknown {
        /// What messages call the recording.
        name: String,
        /// What its description lacks.
        what: &'static str,
    },
    /// Two of the same number of CPUs.
    #[error(
        "{} and {} both have {cpus} CPUs; a series has one recording of each number",
        shown(a),
        shown(b)
    )]
    SameCpus {
        /// What messages call the first.
        a: String,
        /// What messages call the second.
        b: String,
        /// How many CPUs both have.
        cpus: usize,
    },
    /// Two of different kernels, or one of them with and one without user code.
    #[error(
        "{} and {} differ in {what}: {} and {}; a series needs a single one",
        shown(a),
        shown(b),
        shown(of_a),
        shown(of_b)
    )]
    Differ {
        /// What messages call the first.
        a: String,
        /// What messages call the second.
        b: String,
        /// In what they differ.
        what: &'static str,
        /// The first one's value.
        of_a: String,
        /// The second one's value.
        of_b: String,
    },
    /// Two of different commands.
    #[error(
        "{} and {} differ in workload: `{}` on {} CPUs and `{}` on {}; a series runs one command, whose numbers are constant or proportional to the CPUs",
        shown(&.0.name), shown(&.1.name), shown(&.0.command), .0.cpus, shown(&.1.command), .1.cpus
    )]
    Workload(Box<RunOfSeries>, Box<RunOfSeries>),
    /// One whose objects cannot be identified.
    #[error("{}: {why}", shown(name))]
    Recording {
        /// What messages call the recording.
        name: String,
        /// Why its objects are not known.
        why: Box<dyn Error + Send + Sync>,
    },
}

/// What a recording of a series says about its run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOfSeries {
    /// What the recording is called.
    pub name: String,
    /// CPUs, 1 or more.
    pub cpus: usize,
    /// The checksum of the kernel's image, or its release.
    pub kernel: String,
    /// What ran, with its arguments.
    pub command: String,
    /// Whether user code was recorded.
    pub user: bool,
    /// Whether the kernel's memory has no names.
    pub kernel_unnamed: bool,
    /// All accesses that the recording has.
    pub accesses: u64,
}

impl RunOfSeries {
    /// Whether another recording is one of the same series.
    ///
    /// # Errors
    /// In what they differ.
    pub fn check(&self, other: &RunOfSeries) -> Result<(), SeriesError> {
        let differ = |what, of_a: &str, of_b: &str| {
            Err(SeriesError::Differ {
                a: self.name.clone(),
                b: other.name.clone(),
                what,
                of_a: of_a.to_owned(),
                of_b: of_b.to_owned(),
            })
        };
        if self.cpus == other.cpus {
            return Err(SeriesError::SameCpus {
                a: self.name.clone(),
                b: other.name.clone(),
                cpus: self.cpus,
            });
        }
        if self.kernel != other.kernel {
            return differ("kernel", &self.kernel, &other.kernel);
        }
        if self.user != other.user {
            let word = |user| if user { "with it" } else { "without it" };
            return differ("recorded user code", word(self.user), word(other.user));
        }
        if self.kernel_unnamed != other.kernel_unnamed {
            let word = |unnamed| if unnamed { "without them" } else { "with them" };
            let (of_a, of_b) = (word(self.kernel_unnamed), word(other.kernel_unnamed));
            return differ("the kernel's types", of_a, of_b);
        }
        match is_scaled(&self.command, self.cpus, &other.command, other.cpus) {
            true => Ok(()),
            false => Err(SeriesError::Workload(
                Box::new(self.clone()),
                Box::new(other.clone()),
            )),
        }
    }
}

/// Whether two commands are the same but for numbers that are in proportion to the CPUs.
fn is_scaled(a: &str, a_cpus: usize, b: &str, b_cpus: usize) -> bool {
    let (a, b) = (tokens(a), tokens(b));
    let same = |(a, b): (&&str, &&str)| {
        let in_proportion = || {
            let (a, b) = (a.parse::<u64>().ok()?, b.parse::<u64>().ok()?);
            // In proportion exactly, by products: 8 tasks on 4 CPUs and 16 on 8 are one workload, 9
            // and 16 are not.
            Some(u128::from(a) * b_cpus as u128 == u128::from(b) * a_cpus as u128)
        };
        a == b || in_proportion().unwrap_or(false)
    };
    a.len() == b.len() && a.iter().zip(&b).all(same)
}

/// Digits that follow each other, and what is between them.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let digits = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != digits);
        let (token, next) = rest.split_at(end.unwrap_or(rest.len()));
        tokens.push(token);
        rest = next;
    }
    tokens
}

/// Counts by function and field.
pub(crate) type CountsByName = BTreeMap<String, BTreeMap<String, u64>>;

/// What a recording of a series counted, by names: ids differ from recording to recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeriesCounts {
    /// What the recording says about its run.
    pub run: RunOfSeries,
    /// By function and field.
    pub(crate) fields: CountsByName,
    /// By function and type, for what types alone distinguish.
    pub(crate) types: CountsByName,
}

impl SeriesCounts {
    /// Of a run whose counts are added one by one.
    pub fn new(run: RunOfSeries) -> SeriesCounts {
        SeriesCounts {
            run,
            ..SeriesCounts::default()
        }
    }

    /// Adds accesses of a function to all of a type, for what is known by types alone.
    pub fn add_to_type(&mut self, function: &str, type_name: &str, accesses: u64) {
        add(&mut self.types, function, type_name, accesses);
    }

    /// Adds accesses of a function to a field.
    pub fn add(&mut self, function: &str, field: &str, accesses: u64) {
        add(&mut self.fields, function, field, accesses);
    }
}

pub(crate) fn add(counts: &mut CountsByName, function: &str, field: &str, accesses: u64) {
    // Most rows are of names that are there: only others are copied.
    if !counts.contains_key(function) {
        counts.insert(function.to_owned(), BTreeMap::new());
    }
    let Some(fields) = counts.get_mut(function) else {
        return;
    };
    match fields.get_mut(field) {
        Some(sum) => *sum += accesses,
        None => {
            fields.insert(field.to_owned(), accesses);
        }
    }
}

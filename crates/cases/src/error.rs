//! Why a `case.toml` is refused.

/// What is wrong with a `case.toml`, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {reason}")]
pub struct CaseError {
    /// The line, from 1.
    pub line: usize,
    pub reason: Reason,
}

/// What is wrong with a `case.toml`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// Not TOML, a missing or unknown key, or a value of another type.
    #[error("{0}")]
    Syntax(String),
    /// The file is longer than any description has a reason to be.
    #[error("the file has {bytes} bytes: must be at most {limit}")]
    TooLong {
        /// How long it is.
        bytes: usize,
        limit: usize,
    },
    /// Something that must say something is empty.
    #[error("{0} is empty")]
    Empty(&'static str),
    /// A name that would not do as part of a file's name or of a table.
    #[error("{what} {value:?}: use letters, digits, '-', '_' and '.' only")]
    Name {
        /// What is called so.
        what: &'static str,
        value: String,
    },
    /// A name that no function of C has.
    #[error("function {0:?}: give its name in the source, such as enqueue_task_fair")]
    Function(String),
    /// Two things of the same name.
    #[error("two {what}s are called {value:?}")]
    Twice { what: &'static str, value: String },
    /// A reference to something that the case does not have.
    #[error("there is no {what} called {value:?} in this case; it has: {known}")]
    Unknown {
        /// What is referred to.
        what: &'static str,
        /// By which name.
        value: String,
        /// The names that exist.
        known: String,
    },
    /// Both or neither of two keys of which one is needed.
    #[error("{table}: give either {one} or {other}")]
    Either {
        table: &'static str,
        one: &'static str,
        other: &'static str,
    },
    /// Patches, but nothing to apply them to.
    #[error("edit {0:?} has patches, but the case has no [build] that says what they are for")]
    NoBuild(String),
    /// Patches, but nothing says what is compared.
    #[error(
        "edit {0:?} has patches, but no `measure`: a file of edits of the same types that change nothing in that kernel"
    )]
    NoMeasure(String),
    /// The kernel to be examined is one that nothing builds.
    #[error("the kernel has to be built, but the case has no [build] that says from what")]
    NotBuilt,
    /// A figure lacks what it is about.
    #[error("this figure needs `{key}`")]
    Needs { key: &'static str },
    /// Misses are counted over all of the kernel.
    #[error("misses are those of the whole kernel, not of a function")]
    MissesOfFunction,
    /// A ranking of one.
    #[error("one field has no order: name two or more")]
    NoOrder,
    /// An interval that no number of runs gives, or that says nothing.
    #[error("until = {value}: must be 0.1 to 100 (per cent)")]
    Interval {
        /// As it is written.
        value: String,
    },
    /// A number outside of what makes sense.
    #[error("{what} = {value}: must be {least} to {most}")]
    Range {
        what: &'static str,
        value: u64,
        least: u64,
        most: u64,
    },
}

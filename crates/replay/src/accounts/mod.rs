//! What is counted: by source and cause, by line, by transfer between CPUs.

pub(crate) mod counts;
pub(crate) mod held;
pub(crate) mod lines;
pub(crate) mod misses;
pub(crate) mod outcome;
pub(crate) mod transfers;

//! The machine: caches, directory, prefetchers; what one access by one CPU finds and changes. Knows
//! no rounds, keys or recordings.

pub(crate) mod address;
pub(crate) mod array;
pub(crate) mod by_use;
pub(crate) mod directory;
pub(crate) mod fetch;
pub(crate) mod fill;
pub(crate) mod line_source;
pub(crate) mod prefetch;
pub(crate) mod pressure;
pub(crate) mod sets;
pub(crate) mod sharing;
pub(crate) mod stamp;
pub(crate) mod system;
pub(crate) mod verdict;

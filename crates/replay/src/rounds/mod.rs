//! From recorded accesses to counts: places each one, forms rounds of slices, runs them side by
//! side.

pub(crate) mod engine;
pub(crate) mod error;
pub(crate) mod filter;
pub(crate) mod interleaver;
pub(crate) mod locking;
pub(crate) mod locks;
pub(crate) mod memory;
pub(crate) mod overlap;
pub(crate) mod placement;
pub(crate) mod replay;
pub(crate) mod schedule;
pub(crate) mod slices;
pub(crate) mod waiting;
pub(crate) mod warm;

//! More CPUs than were recorded: one group in full leaves a tape, on which all groups are replayed.

pub(crate) mod join;
pub(crate) mod mixing;
pub(crate) mod scaled;
pub(crate) mod stretch;
pub(crate) mod tape;

//! Replays only what an edit changes.
//!
//! A line's history depends on the accesses to it, on their order and on the room in its sets. An
//! edit moves some accesses to other lines; every other line keeps its history, except for the
//! order: CPUs that stall less come earlier. So the recorded layout is replayed whole, once per
//! interleaving, and leaves a [`Timeline`](crate::Timeline): which accesses stalled, for how long,
//! and which lines left which sets then. A [`Partial`](crate::Partial) replay has only the accesses
//! to lines that an edit may affect, at the times of the timeline, each CPU ahead or behind by what
//! its own accesses have saved or lost so far in the round.
//! [`Outcome::changed`](crate::Outcome::changed) adds the difference of two partial replays, with
//! and without the edit, to the whole one.
//!
//! **Exact** without edits: a partial replay of the recorded layout has the counts that these
//! accesses have in the whole replay (`tests/difference.rs`). **Approximate** with them, in two
//! respects: accesses to other lines are not reordered by what a CPU saves or loses, and they press
//! on the sets as before, although an edit may leave a set one line more or less.

pub(crate) mod combine;
pub(crate) mod partial;
pub(crate) mod timeline;

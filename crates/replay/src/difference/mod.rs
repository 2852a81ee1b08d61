//! What an edit changes, replayed without all else.
//!
//! A line's history depends on the accesses to it, on their order and on the room that its sets have. An edit moves some accesses to
//! other lines; every other line keeps its history, but for the order: CPUs that stall less come earlier. So the layout as recorded is
//! replayed whole, once for each interleaving, and leaves a [`Timeline`](crate::Timeline): when each access to a line that an edit may touch was due, for
//! how long it stalled, and when lines had to go from which sets. A [`Partial`](crate::Partial) replay has those accesses alone, at the times of the
//! timeline, each CPU ahead or behind by what its own accesses have saved or lost so far in the round. [`Outcome::changed`](crate::Outcome::changed) puts the
//! difference of two partial replays, with and without the edit, on top of the whole one.
//!
//! **Exact** without edits: a partial replay of the layout as recorded has the counts that these accesses have in the whole replay
//! (`tests/difference.rs`). **Approximate** with them, in two respects: accesses to other lines are not reordered by what a CPU saves
//! or loses, and they press on the sets as they did before, though an edit may leave a set one line more or less.

pub(crate) mod combine;
pub(crate) mod partial;
pub(crate) mod timeline;

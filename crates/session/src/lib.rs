//! A recording with the results of earlier questions about it.
//!
//! ```text
//!   first question    recording ─► name, count (pass 1, 2) ─► counts ─► shelf
//!   first replay      recording ─► name, cut, leave out (pass 3) ─► stream ─► shelf
//!   first experiment  stream ─► replays without edits ─► outcomes ─► shelf
//!   later ones        shelf ─► counts, stream, outcomes             the recording is not read
//! ```
//!
//! [`Session`] answers questions. [`stream`] holds the accesses that replays need, [`rounds`] are
//! those cut for a replay, [`steps`] are all accesses, named.

mod error;
pub mod event;
pub mod ownership;
pub mod progress;
mod recorded;
pub mod rounds;
mod session;
pub mod shelf;
pub mod step;
pub mod steps;
pub mod stream;

pub use error::SessionError;
pub use event::EventError;
pub use recorded::{recorded_cpus, recorded_threads};
pub use session::{LONG, Session};
pub use shelf::Shelf;

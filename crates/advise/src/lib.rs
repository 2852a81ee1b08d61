//! Advice from a recording: what to change, and what that would gain.
//!
//! * [`shape`] and [`candidate`]: what can be moved, and how a layout is described;
//! * [`trace`], [`cost`] and [`objective`]: the fast model;
//! * [`search`] and [`confirm`]: a fast model proposes, replay decides;
//! * [`choice`]: moves against gain;
//! * [`alternatives`]: what is offered in addition to the recommended layout.
//!
//! Reads no files except the recordings passed to it, prints nothing.

pub mod advise;
pub mod alternatives;
pub mod candidate;
pub mod choice;
pub mod confirm;
pub mod cost;
pub mod error;
pub mod footprint;
pub mod objective;
pub mod reasons;
mod sample;
pub mod search;
pub mod shape;
pub mod survey;
pub mod trace;

pub use advise::{Advice, Request, Tried, advise};
pub use alternatives::{Aligned, Grown};
pub use choice::{Choice, Point};
pub use error::AdviseError;

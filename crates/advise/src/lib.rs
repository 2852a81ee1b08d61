//! Advice from a recording: what to change, and what that would gain.
//!
//! [`remedies`] finds what is no reorder of members. Nothing here reads files or prints.

pub mod remedies;

//! Every access of a recording in exactly one bucket, named by object and field where that is known.
//!
//! The way: [`schema`] holds the types, votes settle what lies where ([`votes`]).
//! Reads no files and prints nothing: events come in, names and counts go out.

pub mod index;
pub mod schema;
pub mod votes;

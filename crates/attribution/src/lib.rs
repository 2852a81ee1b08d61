//! Every access of a recording in exactly one bucket, named by object and field where that is known.
//!
//! The way: [`schema`] holds the types, votes settle what lies where ([`votes`]).
//! Reads no files and prints nothing: events come in, names and counts go out.

mod collect;
pub mod index;
pub mod kinds;
pub mod ledger;
pub mod map;
pub mod names;
pub mod schema;
pub mod sites;
pub mod votes;

//! Puts every access of a recording in exactly one bucket, named by object and field if known.
//!
//! * [`Analysis`] does the two passes over a recording: objects first, then counts.
//! * [`Names`] says where an access went; other crates can stream accesses through it.
//! * [`Ledger`] accounts for every access; [`Tally`] holds the counts that reports are sums of.
//!
//! How objects get their types: [`votes`] (what is where) and [`kinds`] (siblings vote together).
//! Reads no files except the recording passed to it, prints nothing.

mod analysis;
pub mod bitmap;
mod collect;
pub mod counted;
pub mod couse;
mod devices;
mod frames;
mod functions;
pub mod groups;
mod handover;
pub mod in_turn;
pub mod index;
pub mod kinds;
mod layout_of;
pub mod ledger;
pub mod map;
pub mod memory;
pub mod names;
pub mod naming;
mod passes;
mod pointers;
mod programs;
pub mod schema;
pub mod sites;
mod source;
mod spans;
mod subjects;
mod survey;
pub mod tally;
pub mod times;
mod users;
pub mod votes;

pub use analysis::{Analysis, AnalysisError, AnalysisFacts, Directory, check};
pub use counted::Counted;
pub use functions::FunctionName;
pub use ledger::{Bucket, Group, Ledger};
pub use names::{Located, Names};
pub use naming::named_type;
pub use passes::visit_chunks;
pub use source::{SourcePlace, SourcePlaces};
pub use subjects::{FieldRef, Subject, SubjectId};
pub use tally::Tally;

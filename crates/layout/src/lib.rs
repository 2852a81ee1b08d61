//! Edits of layouts and placements, and what they do.
//!
//! * [`parse()`] reads the edit language into an [`EditFile`];
//!
//! Nothing here reads files or prints.

pub mod edit;
pub mod parse;

pub use edit::{Alignment, Edit, EditFile, Position, Section, Statement, Subject, Target};
pub use parse::{ParseError, parse, parse_flags};

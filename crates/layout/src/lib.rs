//! Edits of layouts and placements, and the layout of a type under them.
//!
//! * [`parse()`] reads the edit language into an [`EditFile`];
//! * [`origin`] infers a type's declaration: alignments, packing, padding;
//! * [`Layouts`] lays out types after edits, or for another line size;
//! * [`declared()`] takes alignments from debug information, as edits;
//! * [`Plan`] checks a file of edits against a kernel's types: layouts, and rules about accesses
//!   and objects.
//!
//! Knows types only: no recording, no replay. Reads no files, prints nothing.

pub mod arrange;
mod declared;
pub mod edit;
mod error;
pub mod foreign;
mod inside;
pub mod layout;
pub mod line_starts;
pub mod map;
pub mod neighbours;
pub mod nesting;
pub mod origin;
pub mod parse;
pub mod plan;
pub mod pointer;
mod slot;

pub use arrange::{Refusal, Slot};
pub use declared::{DeclaredError, declared};
pub use edit::{Alignment, Edit, EditFile, EditSubject, Position, Section, Statement, Target};
pub use inside::{base_class, derived_class, is_arranged_inside};
pub use layout::{Extent, Layout, Layouts};
pub use line_starts::LineStart;
pub use map::OffsetMap;
pub use parse::{ParseError, parse, parse_flags};
pub use plan::{AccessRule, Field, ObjectRule, Plan, PlanError, PlanReason};
pub use pointer::PointerChase;

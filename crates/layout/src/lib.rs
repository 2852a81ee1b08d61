//! Edits of layouts and placements, and what they do.
//!
//! * [`parse()`] reads the edit language into an [`EditFile`];
//! * [`origin`] works out what the compiler was told about a type;
//! * [`Layouts`] lays types out after edits, or for another line size;
//! * [`Plan`] checks a file of edits against a kernel's types: layouts, and rules about accesses and objects;
//! * [`Study`] replays a recording with and without edits and gives a [`WhatIf`].
//!
//! [`mod@costs`] replays a recording as it is and says what costs how much; [`diff`] compares two recordings field by field.
//!
//! Nothing here reads files or prints.

pub mod arm;
pub mod arrange;
pub mod chase;
mod code;
pub mod costs;
pub mod diff;
pub mod edit;
pub mod effect;
pub mod foreign;
pub mod layout;
pub mod map;
pub mod origin;
pub mod parse;
pub mod plan;
pub mod relocate;
pub mod scene;
pub mod stats;
pub mod whatif;

pub use arrange::{Refusal, Slot};
pub use chase::Chase;
pub use costs::{CostRun, Costs, costs};
pub use edit::{Alignment, Edit, EditFile, Position, Section, Statement, Subject, Target};
pub use effect::WhatIf;
pub use layout::{Extent, Layout, Layouts};
pub use map::OffsetMap;
pub use parse::{ParseError, parse, parse_flags};
pub use plan::{AccessRule, Field, ObjectRule, Plan, PlanError, PlanReason};
pub use whatif::{Run, Study, WhatIfError};

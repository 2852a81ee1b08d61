//! Text that users read and write, on any subject.
//!
//! * [`shown()`], [`shown_lines`] and [`json_escaped`] make text from files safe to print,
//!   [`has_unsafe`] finds what is not;
//! * [`nearest()`] and [`suggestion`] offer the names that a user may have meant;
//! * [`parse_size`] reads sizes such as `1.5G`;
//! * [`Words`] are the words, quotes and positions of edits and rules.

mod nearest;
mod short;
mod shown;
mod size;
mod words;

pub use nearest::{nearest, suggestion};
pub use short::short;
pub use shown::{Shown, has_unsafe, json_escaped, shown, shown_lines};
pub use size::{SizeError, parse_size};
pub use words::{MAX_TEXT, Position, Token, WordError, Words, written};

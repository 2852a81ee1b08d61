//! What came out of a case: what results.json holds (docs/reference/cases.md) and results.md shows.

mod compared;
mod markdown;

pub use self::compared::{change_text, compared};
pub use self::markdown::markdown;

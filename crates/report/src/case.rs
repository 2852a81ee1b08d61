//! What came out of a case: what results.json holds (docs/reference/cases.md) and results.md shows.

mod markdown;

pub use self::markdown::markdown;

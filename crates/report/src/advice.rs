//! What `linemate advise` writes: the layout that costs least, and why; without a type, the types
//! where a layout can win most.

mod program;
mod survey;
mod text;

pub use self::program::source_advice;
pub use self::survey::survey_text;
pub use self::text::{AdviceText, advice_text, no_gain};

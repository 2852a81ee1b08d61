//! How accesses per CPU grow with the number of CPUs: what a series of recordings shows, and what
//! it predicts.
//!
//! ```text
//!   recordings of 4, 8, 16 … CPUs ─► counts by name ─► noise of all rows ─► a trend for each row ─► factors
//! ```
//!
//! docs/model/scaling.md says how curves and intervals are made, and from which sources.

mod check;
mod fit;
mod model;
mod noise;
mod series;
mod stretch;

pub use self::check::HeldOut;
pub use self::fit::{Curve, Exponent, Prediction, Trend};
pub use self::model::{Factor, Growth, Trends};
pub use self::noise::Noise;
pub use self::series::{RECORDINGS_MAX, RECORDINGS_MIN, RunOfSeries, SeriesCounts, SeriesError};

//! Shares of a whole.

/// What has no fields to lay out is in tables without `--all`, too, if it makes up this share: an
/// answer does not hide it.
const LARGE_PART: u64 = 100;

/// `part` of `whole`; 0 if `whole` is 0.
#[must_use]
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// Whether a part is so large that tables always show it.
#[must_use]
pub fn is_large(part: u64, whole: u64) -> bool {
    part > 0 && part.saturating_mul(LARGE_PART) >= whole
}

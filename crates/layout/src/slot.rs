//! The members of a type in the order that edits give them, each with its requests.

use linemate_types::{ByteAlign, ByteSize, LineSize};

use crate::edit::Alignment;
use crate::origin::{BUILT_LINE, Forced, Origin, Unit};

/// A unit at its position, with its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Index in [`Origin::units`].
    pub unit: usize,
    /// The requested alignment of its start.
    pub forced: Option<Forced>,
    /// Whether the unit keeps a line start that it may have requested ([`Unit::may_ask_for_line`]).
    /// Edits that name it end that.
    pub keeps_line: bool,
    /// Unnamed bytes before it.
    pub gap: ByteSize,
    /// The minimum length of its place.
    pub least: ByteSize,
    /// Unused bytes after it.
    pub after: ByteSize,
    /// For an array: the minimum distance between elements, in bytes.
    pub stride: Option<Alignment>,
    /// Slots of one group share lines with no others.
    pub group: Option<usize>,
}

impl Slot {
    /// The slots of an unedited type.
    pub fn originals(origin: &Origin) -> Vec<Slot> {
        let slot = |(unit, u): (usize, &Unit)| {
            let (forced, gap) = (u.forced, u.gap);
            Slot {
                unit,
                forced,
                keeps_line: u.may_ask_for_line,
                gap,
                least: ByteSize::ZERO,
                after: ByteSize::ZERO,
                stride: None,
                group: None,
            }
        };
        origin.units.iter().enumerate().map(slot).collect()
    }

    /// The alignment of its start with lines of that size. A line start that is merely preserved is
    /// one of the recorded kernel's lines: most are there by chance, and a kernel for longer lines
    /// would not move them.
    pub fn align(&self, line: LineSize) -> ByteAlign {
        let kept = match self.keeps_line {
            true => BUILT_LINE.into(),
            false => ByteAlign::ONE,
        };
        self.forced.map_or(kept, |forced| forced.on(line).max(kept))
    }
}

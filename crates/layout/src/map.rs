//! Where the bytes of a type go when it is laid out again.
//!
//! ```text
//!  old  ┌ a ┬ b ───┬ hole ┬ c[3] of struct s ───┐      at(offset) = where the byte goes, and for how many
//!       0   8      16     24                    72                  bytes from there that holds
//!  new  ┌ b ───┬ c[3], each s longer ──────┬ a ┐
//! ```
//!
//! Knows only offsets, no names and no addresses.

use std::sync::Arc;

use linemate_types::{ByteOffset, ByteSize};

/// Where a byte goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// It goes to this offset of the new layout.
    Byte(ByteOffset),
    /// Nowhere: its field was removed.
    Removed,
    /// It was in no field. The nearest preceding byte that was goes here.
    Padding(ByteOffset),
}

/// What happens to the bytes from an offset on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Where the first byte goes.
    pub to: To,
    /// How many bytes follow it contiguously. At least 1.
    pub run: ByteSize,
}

/// A part of an access after the move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its first byte in the new layout.
    pub offset: ByteOffset,
    /// How many bytes move together.
    pub bytes: ByteSize,
}

/// What happens inside a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inner {
    /// All of it moves as one piece.
    Whole,
    /// A struct or union with internal changes.
    Nested(Arc<OffsetMap>),
    /// An array of those; bytes from element to element.
    Repeat {
        /// Bytes of an element before the move.
        old: ByteSize,
        /// The bytes of an element after the edit.
        new: ByteSize,
        /// What happens to an element's bytes.
        element: Arc<OffsetMap>,
    },
}

/// Bytes that move together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedBytes {
    /// The first one's offset before the move.
    pub old: ByteOffset,
    /// How many; everything up to [`END`] for a flexible array.
    pub bytes: ByteSize,
    /// The first one's offset after it; `None`: they were removed.
    pub new: Option<ByteOffset>,
    /// What happens to their order.
    pub inner: Inner,
}

/// An offset after that of every field.
pub const END: ByteOffset = ByteOffset(u64::MAX);

impl MovedBytes {
    /// The first byte after it, before the move.
    pub fn end(&self) -> ByteOffset {
        self.old + self.bytes
    }

    /// Whether `next` starts where this piece ends, both before and after the move.
    fn goes_on_in(&self, next: &MovedBytes) -> bool {
        self.inner == Inner::Whole
            && next.inner == Inner::Whole
            && self.end() == next.old
            && self.new.map(|n| n + self.bytes) == next.new
            && next.new.is_some()
    }
}

/// Maps old offsets to new ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetMap {
    /// Sorted by `old`, not overlapping.
    pieces: Vec<MovedBytes>,
}

impl OffsetMap {
    /// From `pieces` in any order, which must not overlap. Pieces that move alike are merged.
    pub fn new(mut pieces: Vec<MovedBytes>) -> OffsetMap {
        pieces.sort_by_key(|p| (p.old, p.bytes));
        // Empty ones would separate pieces that move alike.
        pieces.retain(|p| p.bytes > ByteSize::ZERO);
        let mut joined: Vec<MovedBytes> = Vec::with_capacity(pieces.len());
        for piece in pieces {
            match joined.last_mut() {
                Some(last) if last.goes_on_in(&piece) => {
                    last.bytes = piece.end() - last.old;
                }
                _ => joined.push(piece),
            }
        }
        OffsetMap { pieces: joined }
    }

    /// Where the byte at `offset` goes.
    pub fn at(&self, offset: ByteOffset) -> At {
        let after = self.pieces.partition_point(|p| p.old <= offset);
        let next = self.pieces.get(after).map_or(END, |p| p.old);
        let Some(piece) = after.checked_sub(1).map(|i| &self.pieces[i]) else {
            return At {
                to: To::Padding(ByteOffset::ZERO),
                run: next - offset,
            };
        };
        let into = offset - piece.old;
        if into >= piece.bytes {
            // The piece's last byte: what is copied with padding continues where the previous field
            // goes.
            let nearest = ByteOffset(piece.end().0 - 1);
            let to = match self.at(nearest).to {
                To::Byte(new) | To::Padding(new) => To::Padding(new),
                To::Removed => To::Removed,
            };
            return At {
                to,
                run: next - offset,
            };
        }
        let left = piece.bytes - into;
        let Some(start) = piece.new else {
            return At {
                to: To::Removed,
                run: left,
            };
        };
        let (inside, base) = match &piece.inner {
            Inner::Whole => {
                return At {
                    to: To::Byte(start + into),
                    run: left,
                };
            }
            Inner::Nested(map) => (map.at(into.end()), start),
            Inner::Repeat { old, new, element } => {
                let (number, within) = (into.0 / old.0, ByteSize(into.0 % old.0));
                let at = element.at(within.end());
                // Up to the element's end: the next element may be further away than before.
                let run = at.run.min(*old - within);
                // An access beyond the end of a flexible array can be anywhere.
                let base = start.0.wrapping_add(number.wrapping_mul(new.0));
                (At { run, ..at }, ByteOffset(base))
            }
        };
        let to = match inside.to {
            To::Byte(new) => To::Byte(beyond(base, new)),
            To::Padding(new) => To::Padding(beyond(base, new)),
            To::Removed => To::Removed,
        };
        At {
            to,
            run: inside.run.min(left),
        }
    }

    /// The parts of an access to `bytes` bytes at `offset`, in the order of the old layout. Padding
    /// bytes go nowhere, but an access to padding alone goes to the nearest preceding field. Empty
    /// if all of it was removed.
    pub fn parts(&self, offset: ByteOffset, bytes: ByteSize) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        let mut padding = None;
        let (mut done, mut removed) = (ByteSize::ZERO, false);
        while done < bytes {
            let at = self.at(ByteOffset(offset.0.saturating_add(done.0)));
            let run = at.run.clamp(ByteSize(1), bytes - done);
            match at.to {
                To::Byte(new) => match parts.last_mut() {
                    Some(last) if last.offset + last.bytes == new => last.bytes += run,
                    _ => parts.push(Part {
                        offset: new,
                        bytes: run,
                    }),
                },
                To::Padding(new) => padding = padding.or(Some(new)),
                To::Removed => removed = true,
            }
            done += run;
        }
        if let (true, false, Some(offset)) = (parts.is_empty(), removed, padding) {
            parts.push(Part {
                offset,
                bytes: ByteSize(1),
            });
        }
        parts
    }
}

/// The byte `within` bytes after `base`; wraps after the last address.
fn beyond(base: ByteOffset, within: ByteOffset) -> ByteOffset {
    ByteOffset(base.0.wrapping_add(within.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(old: u64, bytes: u64, new: Option<u64>, inner: Inner) -> MovedBytes {
        MovedBytes {
            old: ByteOffset(old),
            bytes: ByteSize(bytes),
            new: new.map(ByteOffset),
            inner,
        }
    }

    fn part(offset: u64, bytes: u64) -> Part {
        Part {
            offset: ByteOffset(offset),
            bytes: ByteSize(bytes),
        }
    }

    fn to(byte: u64) -> To {
        To::Byte(ByteOffset(byte))
    }

    fn padding(byte: u64) -> To {
        To::Padding(ByteOffset(byte))
    }

    fn assert_at(map: &OffsetMap, offset: u64, to: To, run: u64) {
        let run = ByteSize(run);
        assert_eq!(map.at(ByteOffset(offset)), At { to, run }, "{offset}");
    }

    fn parts(map: &OffsetMap, offset: u64, bytes: u64) -> Vec<Part> {
        map.parts(ByteOffset(offset), ByteSize(bytes))
    }

    /// Old: a 0..8, b 8..16, hole, s[3] 24..72 of { x 0..8, y 8..16 }; new: b 0, s[3] from 64 by
    /// 128 { y 0, x 64 }, a gone.
    fn sample() -> OffsetMap {
        let element = Arc::new(OffsetMap::new(vec![
            piece(0, 8, Some(64), Inner::Whole),
            piece(8, 8, Some(0), Inner::Whole),
        ]));
        OffsetMap::new(vec![
            piece(
                24,
                48,
                Some(64),
                Inner::Repeat {
                    old: ByteSize(16),
                    new: ByteSize(128),
                    element,
                },
            ),
            piece(0, 8, None, Inner::Whole),
            piece(8, 8, Some(0), Inner::Whole),
        ])
    }

    #[test]
    fn a_byte_goes_to_its_new_place() {
        let map = sample();
        assert_at(&map, 3, To::Removed, 5);
        assert_at(&map, 9, to(1), 7);
        assert_at(&map, 18, padding(7), 6);
        assert_at(&map, 24, to(128), 8);
        assert_at(&map, 24 + 16 + 10, to(64 + 128 + 2), 6);
        assert_at(&map, 80, padding(64 + 256 + 7), u64::MAX - 80);
    }

    #[test]
    fn an_access_is_cut_where_its_bytes_part() {
        let map = sample();
        assert_eq!(parts(&map, 8, 8), [part(0, 8)]);
        assert_eq!(parts(&map, 4, 8), [part(0, 4)], "the removed half vanishes");
        assert_eq!(parts(&map, 0, 8), []);
        assert_eq!(
            parts(&map, 12, 20),
            [part(4, 4), part(128, 8)],
            "the hole between goes nowhere"
        );
        assert_eq!(
            parts(&map, 28, 16),
            [part(132, 4), part(64, 8), part(256, 4)]
        );
        assert_eq!(
            parts(&map, 18, 2),
            [part(7, 1)],
            "padding alone: the field before"
        );
    }

    #[test]
    fn an_access_to_pieces_side_by_side_stays_one() {
        let nested = || {
            Inner::Nested(Arc::new(OffsetMap::new(vec![piece(
                0,
                8,
                Some(0),
                Inner::Whole,
            )])))
        };
        let map = OffsetMap::new(vec![
            piece(0, 8, Some(16), nested()),
            piece(8, 8, Some(24), nested()),
        ]);
        assert_eq!(parts(&map, 2, 10), [part(18, 10)]);
    }

    #[test]
    fn pieces_that_move_alike_are_one() {
        let map = OffsetMap::new(vec![
            piece(0, 8, Some(16), Inner::Whole),
            piece(8, 4, Some(24), Inner::Whole),
            piece(12, 4, Some(0), Inner::Whole),
        ]);
        assert_at(&map, 2, to(18), 10);
        assert_eq!(parts(&map, 0, 16), [part(16, 12), part(0, 4)]);
    }
}

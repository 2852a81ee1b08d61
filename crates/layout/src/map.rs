//! Where the bytes of a type go when it is laid out again.
//!
//! ```text
//!  old  ┌ a ┬ b ───┬ hole ┬ c[3] of struct s ───┐      at(offset) = where the byte goes, and for how many
//!       0   8      16     24                    72                  bytes from there that holds
//!  new  ┌ b ───┬ c[3], each s longer ──────┬ a ┐
//! ```
//!
//! Knows offsets only, no names and no addresses.

use std::sync::Arc;

/// Where a byte goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// To this offset.
    Byte(u64),
    /// Nowhere: its field was removed.
    Removed,
    /// It was in no field. The nearest byte before it that was goes here.
    Padding(u64),
}

/// What happens to the bytes from an offset on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Where the first goes.
    pub to: To,
    /// For how many bytes: those after it follow it. At least 1.
    pub run: u64,
}

/// A part of an access after the move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its first byte in the new layout.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// What becomes of the inside of a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inner {
    /// As it is.
    Whole,
    /// A struct or union that changed inside.
    Nested(Arc<OffsetMap>),
    /// An array of such; bytes from element to element.
    Repeat {
        /// Bytes of an element before the move.
        old: u64,
        /// And after it.
        new: u64,
        /// What an element's bytes do.
        element: Arc<OffsetMap>,
    },
}

/// Bytes that move together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedBytes {
    /// The first one's offset before the move.
    pub old: u64,
    /// How many; `u64::MAX - old` for a flexible array.
    pub bytes: u64,
    /// The first one's offset after it; `None`: they were removed.
    pub new: Option<u64>,
    /// What becomes of their order.
    pub inner: Inner,
}

impl MovedBytes {
    /// Whether `next` begins where this piece ends, before the move and after it.
    fn goes_on_in(&self, next: &MovedBytes) -> bool {
        self.inner == Inner::Whole
            && next.inner == Inner::Whole
            && self.old + self.bytes == next.old
            && self.new.map(|n| n + self.bytes) == next.new
            && next.new.is_some()
    }
}

/// Old offsets to new ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetMap {
    /// Sorted by `old`, not overlapping.
    pieces: Vec<MovedBytes>,
}

impl OffsetMap {
    /// Of `pieces` in any order, which must not overlap. Pieces that move alike are put together.
    pub fn new(mut pieces: Vec<MovedBytes>) -> OffsetMap {
        pieces.sort_by_key(|p| (p.old, p.bytes));
        pieces.retain(|p| p.bytes > 0);
        let mut joined: Vec<MovedBytes> = Vec::with_capacity(pieces.len());
        for piece in pieces {
            match joined.last_mut() {
                Some(last) if last.goes_on_in(&piece) => {
                    last.bytes = last.bytes.saturating_add(piece.bytes);
                }
                _ => joined.push(piece),
            }
        }
        OffsetMap { pieces: joined }
    }

    /// Where the byte at `offset` goes.
    pub fn at(&self, offset: u64) -> At {
        let after = self.pieces.partition_point(|p| p.old <= offset);
        let next = self.pieces.get(after).map_or(u64::MAX, |p| p.old);
        let Some(piece) = after.checked_sub(1).map(|i| &self.pieces[i]) else {
            return At {
                to: To::Padding(0),
                run: next - offset,
            };
        };
        let into = offset - piece.old;
        if into >= piece.bytes {
            let nearest = piece.old + (piece.bytes - 1);
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
            Inner::Nested(map) => (map.at(into), start),
            Inner::Repeat { old, new, element } => {
                let at = element.at(into % old);
                let run = at.run.min(old - into % old);
                (
                    At { run, ..at },
                    start.wrapping_add((into / old).wrapping_mul(*new)),
                )
            }
        };
        let to = match inside.to {
            To::Byte(new) => To::Byte(base.wrapping_add(new)),
            To::Padding(new) => To::Padding(base.wrapping_add(new)),
            To::Removed => To::Removed,
        };
        At {
            to,
            run: inside.run.min(left),
        }
    }

    /// The parts of an access to `bytes` bytes at `offset`, in the order of the old layout. Bytes of padding go
    /// nowhere, but an access to nothing else goes to the nearest field before. Empty when all of
    /// it was removed.
    pub fn parts(&self, offset: u64, bytes: u64) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        let mut padding = None;
        let (mut done, mut removed) = (0, false);
        while done < bytes {
            let at = self.at(offset.saturating_add(done));
            let run = at.run.clamp(1, bytes - done);
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
            parts.push(Part { offset, bytes: 1 });
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(old: u64, bytes: u64, new: Option<u64>, inner: Inner) -> MovedBytes {
        MovedBytes {
            old,
            bytes,
            new,
            inner,
        }
    }

    /// Old: a 0..8, b 8..16, hole, s[3] 24..72 of { x 0..8, y 8..16 }; new: b 0, s[3] from 64 by 128 { y 0, x 64 }, a gone.
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
                    old: 16,
                    new: 128,
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
        assert_eq!(
            map.at(3),
            At {
                to: To::Removed,
                run: 5
            }
        );
        assert_eq!(
            map.at(9),
            At {
                to: To::Byte(1),
                run: 7
            }
        );
        assert_eq!(
            map.at(18),
            At {
                to: To::Padding(7),
                run: 6
            }
        );
        assert_eq!(
            map.at(24),
            At {
                to: To::Byte(128),
                run: 8
            }
        );
        assert_eq!(
            map.at(24 + 16 + 10),
            At {
                to: To::Byte(64 + 128 + 2),
                run: 6
            }
        );
        assert_eq!(
            map.at(80),
            At {
                to: To::Padding(64 + 256 + 7),
                run: u64::MAX - 80
            }
        );
    }

    #[test]
    fn an_access_is_cut_where_its_bytes_part() {
        let map = sample();
        let part = |offset, bytes| Part { offset, bytes };
        assert_eq!(map.parts(8, 8), [part(0, 8)]);
        assert_eq!(map.parts(4, 8), [part(0, 4)], "the removed half vanishes");
        assert_eq!(map.parts(0, 8), []);
        assert_eq!(
            map.parts(12, 20),
            [part(4, 4), part(128, 8)],
            "the hole between goes nowhere"
        );
        assert_eq!(map.parts(28, 16), [part(132, 4), part(64, 8), part(256, 4)]);
        assert_eq!(
            map.parts(18, 2),
            [part(7, 1)],
            "padding alone: the field in front"
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
        let part = |offset, bytes| Part { offset, bytes };
        assert_eq!(map.parts(2, 10), [part(18, 10)]);
    }

    #[test]
    fn pieces_that_move_alike_are_one() {
        let map = OffsetMap::new(vec![
            piece(0, 8, Some(16), Inner::Whole),
            piece(8, 4, Some(24), Inner::Whole),
            piece(12, 4, Some(0), Inner::Whole),
        ]);
        assert_eq!(
            map.at(2),
            At {
                to: To::Byte(18),
                run: 10
            }
        );
        assert_eq!(
            map.parts(0, 16),
            [
                Part {
                    offset: 16,
                    bytes: 12
                },
                Part {
                    offset: 0,
                    bytes: 4
                }
            ]
        );
    }
}

//! Little-endian numbers and varints: appended to a `Vec`, read from a slice with every bound
//! checked.

use crate::Problem;

/// Maps small negative and positive differences to small numbers: 0, -1, 1, -2, … to 0, 1, 2, 3, …
#[inline]
pub fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ ((difference as i64 >> 63) as u64)
}

/// The inverse of [`zigzag`].
#[inline]
pub fn unzigzag(code: u64) -> u64 {
    (code >> 1) ^ (code & 1).wrapping_neg()
}

/// Appends `value` in groups of seven bits, lowest first; a set high bit means that more follow.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A reading position in a slice.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Cursor<'a> {
    /// Starts at the beginning of `bytes`; `what` names them in errors.
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, what }
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next `n` bytes.
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], Problem> {
        let (head, tail) = self
            .rest
            .split_at_checked(n)
            .ok_or(Problem::Truncated { what: self.what })?;
        self.rest = tail;
        Ok(head)
    }

    #[inline]
    pub fn u8(&mut self) -> Result<u8, Problem> {
        let (&first, tail) = self
            .rest
            .split_first()
            .ok_or(Problem::Truncated { what: self.what })?;
        self.rest = tail;
        Ok(first)
    }

    /// The next four bytes.
    pub fn u32(&mut self) -> Result<u32, Problem> {
        let (head, tail) = self
            .rest
            .split_first_chunk()
            .ok_or(Problem::Truncated { what: self.what })?;
        self.rest = tail;
        Ok(u32::from_le_bytes(*head))
    }

    /// The next eight bytes.
    pub fn u64(&mut self) -> Result<u64, Problem> {
        let (head, tail) = self
            .rest
            .split_first_chunk()
            .ok_or(Problem::Truncated { what: self.what })?;
        self.rest = tail;
        Ok(u64::from_le_bytes(*head))
    }

    #[inline]
    pub fn varint(&mut self) -> Result<u64, Problem> {
        // Small numbers take one byte, read inline; longer ones are read out of line.
        let first = self.u8()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        self.varint_rest(u64::from(first & 0x7f))
    }

    fn varint_rest(&mut self, mut value: u64) -> Result<u64, Problem> {
        for shift in (7..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            // Nine bytes hold 63 bits: only the lowest bit of the tenth fits.
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Problem::VarintTooLong { what: self.what })
    }

    /// The next varint, which must fit in 32 bits.
    pub fn varint_u32(&mut self) -> Result<u32, Problem> {
        let value = self.varint()?;
        u32::try_from(value).map_err(|_| Problem::TooLarge {
            what: self.what,
            value,
            limit: u64::from(u32::MAX),
        })
    }

    /// Checks that everything has been read.
    pub fn finish(&self) -> Result<(), Problem> {
        match self.rest.len() {
            0 => Ok(()),
            bytes => Err(Problem::Leftover {
                what: self.what,
                bytes,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_every_length() {
        for bits in 0..64 {
            for value in [1u64 << bits, (1u64 << bits) - 1, u64::MAX >> bits] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                let expected_length = (64 - value.leading_zeros()).div_ceil(7).max(1);
                assert_eq!(out.len(), expected_length as usize, "{value:#x}");
                let mut cursor = Cursor::new(&out, "test");
                assert_eq!(cursor.varint(), Ok(value));
                assert_eq!(cursor.finish(), Ok(()));
                assert_eq!(unzigzag(zigzag(value)), value);
            }
        }
    }

    #[test]
    fn zigzag_keeps_small_differences_small() {
        assert_eq!([0, u64::MAX, 1, u64::MAX - 1].map(zigzag), [0, 1, 2, 3]);
        assert_eq!(zigzag(1 << 63), u64::MAX);
    }

    #[test]
    fn broken_varints_are_refused() {
        let too_long = [0xff; 11];
        let overflow = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        for bytes in [&too_long[..], &overflow[..]] {
            assert_eq!(
                Cursor::new(bytes, "x").varint(),
                Err(Problem::VarintTooLong { what: "x" })
            );
        }
        for cut in 0..10 {
            assert_eq!(
                Cursor::new(&too_long[..cut], "x").varint(),
                Err(Problem::Truncated { what: "x" }),
                "{cut}"
            );
        }
        let mut big = Vec::new();
        put_varint(&mut big, 1 << 32);
        assert_eq!(
            Cursor::new(&big, "x").varint_u32(),
            Err(Problem::TooLarge {
                what: "x",
                value: 1 << 32,
                limit: u64::from(u32::MAX)
            })
        );
        assert_eq!(
            Cursor::new(&[1], "x").finish(),
            Err(Problem::Leftover {
                what: "x",
                bytes: 1
            })
        );
    }
}

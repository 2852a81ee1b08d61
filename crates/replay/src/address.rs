//! Lines of cloned memory: an address and an instance become one line number, and back.
//!
//! An x86-64 address has 57 bits that mean something (5-level paging; bit 56 is the sign), so a line
//! number has 51 (50 with 128-byte lines) and leaves room for the instance above. Instance n also has
//! some page-number bits flipped, the same for the whole instance: a clone keeps its place within the
//! page, as per-CPU areas do, but does not fall into the same L2 sets as the original.

use linemate_machine::LineSize;
use linemate_recording::GuestAddr;

use crate::cache::Line;

/// Bits of an address that mean something.
const ADDRESS_BITS: u32 = 57;
/// Bits within a page.
const PAGE_BITS: u32 = 12;

/// Where one access lies in one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) line: Line,
    /// One bit per sixty-fourth of the line.
    pub(crate) words: u64,
    /// First byte within the line.
    pub(crate) offset: u8,
}

/// The page bits that an instance flips.
#[inline]
fn flipped(instance: u16, size: LineSize) -> u64 {
    let pages = u64::from(instance.wrapping_mul(0x9e37));
    pages << (PAGE_BITS - size.shift())
}

/// Turns an access of instance 0's addresses into the pieces it has: one, or two where it crosses a
/// line. `bytes` is 1 to 64.
#[inline]
pub(crate) fn split(addr: u64, bytes: u8, instance: u16, size: LineSize) -> (Span, Option<Span>) {
    let shift = size.shift();
    let addr = addr & ((1 << ADDRESS_BITS) - 1);
    let offset = addr & (size.bytes() - 1);
    let end = offset + u64::from(bytes);
    let line = addr >> shift;
    let first = Span {
        line: tag(line, instance, size),
        words: words(offset, end.min(size.bytes()), size),
        offset: offset as u8,
    };
    if end <= size.bytes() {
        return (first, None);
    }
    let next = (line + 1) & ((1 << (ADDRESS_BITS - shift)) - 1);
    let second = Span {
        line: tag(next, instance, size),
        words: words(0, end - size.bytes(), size),
        offset: 0,
    };
    (first, Some(second))
}

#[inline]
fn tag(line: u64, instance: u16, size: LineSize) -> Line {
    (line ^ flipped(instance, size)) | u64::from(instance) << (ADDRESS_BITS - size.shift())
}

/// The words of bytes `start..end` of a line.
#[inline]
fn words(start: u64, end: u64, size: LineSize) -> u64 {
    let per_word = size.shift() - 6;
    let first = start >> per_word;
    let last = (end - 1) >> per_word;
    (u64::MAX >> (63 - (last - first))) << first
}

/// The address of a line's first byte as recorded, and the instance.
pub(crate) fn address(line: Line, size: LineSize) -> (GuestAddr, u16) {
    let bits = ADDRESS_BITS - size.shift();
    let instance = (line >> bits) as u16;
    let plain = (line & ((1 << bits) - 1)) ^ flipped(instance, size);
    // Bit 56 is the sign: shift it to the top and back.
    let spare = 64 - ADDRESS_BITS;
    let signed = ((plain << size.shift() << spare) as i64) >> spare;
    (GuestAddr(signed as u64), instance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_back_to_addresses() {
        for size in [LineSize::B64, LineSize::B128] {
            for addr in [
                0,
                0x40,
                0x7fff_ffff_f000,
                0xffff_8880_0123_4580,
                0xff11_0000_0000_0080,
            ] {
                for instance in [0, 1, 59, 4095] {
                    let (span, none) = split(addr, 1, instance, size);
                    assert_eq!(none, None);
                    let expected = (GuestAddr(addr & !(size.bytes() - 1)), instance);
                    assert_eq!(address(span.line, size), expected, "{addr:#x} {instance}");
                }
            }
        }
    }

    #[test]
    fn instance_zero_is_the_plain_line() {
        assert_eq!(split(0x1000, 4, 0, LineSize::B64).0.line, 0x40);
        assert_eq!(split(0x1000, 4, 0, LineSize::B128).0.line, 0x20);
    }

    #[test]
    fn words_are_sixty_fourths_of_a_line() {
        let words = |addr, bytes, size| split(addr, bytes, 0, size).0.words;
        assert_eq!(words(0, 1, LineSize::B64), 0b1);
        assert_eq!(words(2, 4, LineSize::B64), 0b11_1100);
        assert_eq!(words(0, 64, LineSize::B64), u64::MAX);
        assert_eq!(words(63, 1, LineSize::B64), 1 << 63);
        assert_eq!(words(0, 1, LineSize::B128), 0b1);
        assert_eq!(words(1, 1, LineSize::B128), 0b1);
        assert_eq!(words(1, 2, LineSize::B128), 0b11);
        assert_eq!(words(64, 64, LineSize::B128), u64::MAX << 32);
    }

    #[test]
    fn an_access_across_a_line_has_two_pieces() {
        let (first, second) = split(62, 8, 0, LineSize::B64);
        assert_eq!((first.line, first.offset, first.words), (0, 62, 0b11 << 62));
        let second = second.expect("two pieces");
        assert_eq!(
            (second.line, second.offset, second.words),
            (1, 0, 0b11_1111)
        );
        assert_eq!(split(62, 8, 0, LineSize::B128).1, None);
        // The last line of the address space is followed by the first.
        let (_, second) = split(u64::MAX, 2, 0, LineSize::B64);
        assert_eq!(second.expect("two pieces").line, 0);
    }
}

//! Lines of cloned memory: an address and an instance become one line number, and back.
//!
//! An x86-64 address has 57 meaningful bits (5-level paging; bit 56 is the sign), so a line number
//! has 51 (50 with 128-byte lines) and leaves room for the instance above. Instance n also has some
//! page-number bits flipped, the same for the whole instance: a clone keeps its place within the
//! page, as per-CPU areas do, but does not fall into the same L2 sets as the original.

use linemate_machine::LineSize;
use linemate_recording::GuestAddr;

/// A line's number with the instance of cloned memory above it.
pub(crate) type Line = u64;

/// The meaningful bits of an address.
const ADDRESS_BITS: u32 = 57;
/// The bits of an offset within a page.
const PAGE_BITS: u32 = 12;

/// The place of an access in one line of instance 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) line: Line,
    /// One bit per sixty-fourth of the line.
    pub(crate) words: u64,
    /// First byte within the line.
    pub(crate) offset: u8,
    /// Bytes beyond the line's end, at the start of the next one.
    pub(crate) beyond: u8,
}

/// The part of an access of `bytes` (1 to 64) that is in its first line.
#[inline]
pub(crate) fn span(addr: u64, bytes: u8, size: LineSize) -> Span {
    // The bits above repeat the sign, which `address` restores; they make room for the instance.
    let addr = addr & ((1 << ADDRESS_BITS) - 1);
    let offset = addr & (size.bytes() - 1);
    let end = offset + u64::from(bytes);
    Span {
        line: addr >> size.shift(),
        words: words(offset, end.min(size.bytes()), size),
        offset: offset as u8,
        beyond: end.saturating_sub(size.bytes()) as u8,
    }
}

/// The rest of an access that extends beyond its first line.
pub(crate) fn rest(first: &Span, size: LineSize) -> Span {
    let lines = 1 << (ADDRESS_BITS - size.shift());
    Span {
        // The line after the last one is the first: the sum must not carry into the instance's
        // bits.
        line: (first.line + 1) & (lines - 1),
        words: words(0, u64::from(first.beyond), size),
        offset: 0,
        beyond: 0,
    }
}

/// The line of an instance that corresponds to a line of instance 0.
#[inline]
pub(crate) fn instance_line(line: Line, instance: u16, size: LineSize) -> Line {
    // XOR, because doing it twice undoes it and nothing carries into the instance. The factor is
    // odd, so no two instances flip the same bits. Only page-number bits change: `Filter` relies on
    // a clone's line being in the same set of an L1 whose index is within the page.
    let above = u64::from(instance) << (ADDRESS_BITS - size.shift());
    (line ^ (u64::from(instance.wrapping_mul(0x9e37)) << (PAGE_BITS - size.shift()))) | above
}

/// The words of bytes `start..end` of a line.
#[inline]
fn words(start: u64, end: u64, size: LineSize) -> u64 {
    let per_word = size.shift() - 6;
    let first = start >> per_word;
    let last = (end - 1) >> per_word;
    // By the last word and not the number of words: all 64 would be a shift by 64.
    (u64::MAX >> (63 - (last - first))) << first
}

/// The address of a line's first byte as recorded, and the instance.
pub(crate) fn address(line: Line, size: LineSize) -> (GuestAddr, u16) {
    let bits = ADDRESS_BITS - size.shift();
    let instance = (line >> bits) as u16;
    // Flipping bits twice restores them.
    let plain = instance_line(line, instance, size) & ((1 << bits) - 1);
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
                    let line = instance_line(span(addr, 1, size).line, instance, size);
                    let expected = (GuestAddr(addr & !(size.bytes() - 1)), instance);
                    assert_eq!(address(line, size), expected, "{addr:#x} {instance}");
                }
            }
        }
    }

    #[test]
    fn instance_zero_is_the_plain_line() {
        assert_eq!(span(0x1000, 4, LineSize::B64).line, 0x40);
        assert_eq!(span(0x1000, 4, LineSize::B128).line, 0x20);
        assert_eq!(instance_line(0x40, 0, LineSize::B64), 0x40);
    }

    #[test]
    fn words_are_sixty_fourths_of_a_line() {
        let words = |addr, bytes, size| span(addr, bytes, size).words;
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
    fn an_access_across_a_line_has_a_rest() {
        let first = span(62, 8, LineSize::B64);
        assert_eq!(
            (first.line, first.offset, first.words, first.beyond),
            (0, 62, 0b11 << 62, 6)
        );
        let second = rest(&first, LineSize::B64);
        assert_eq!(
            (second.line, second.offset, second.words),
            (1, 0, 0b11_1111)
        );
        assert_eq!(span(62, 8, LineSize::B128).beyond, 0);
        // The last line of the address space is followed by the first.
        assert_eq!(
            rest(&span(u64::MAX, 2, LineSize::B64), LineSize::B64).line,
            0
        );
    }
}

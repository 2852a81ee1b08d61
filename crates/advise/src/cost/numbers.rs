//! Sets of numbers in which each is one bit.

use std::ops::Range;

type Word = u64;

/// A set of numbers below a bound.
#[derive(Debug)]
pub(super) struct NumberSet {
    words: Vec<Word>,
}

impl NumberSet {
    /// The empty set of numbers below `end`.
    pub(super) fn below(end: u32) -> NumberSet {
        NumberSet {
            words: vec![0; end.div_ceil(Word::BITS) as usize],
        }
    }

    /// Adds these. Panics if one is not below the set's bound.
    pub(super) fn insert(&mut self, numbers: &[u32]) {
        for number in numbers {
            self.words[(number / Word::BITS) as usize] |= 1 << (number % Word::BITS);
        }
    }

    /// Those in a range, in order.
    #[inline]
    pub(super) fn each(&self, range: Range<u32>, mut then: impl FnMut(u32)) {
        for place in places(&range) {
            let mut left = self.word(place, &range);
            while left != 0 {
                then(place * Word::BITS + left.trailing_zeros());
                left &= left - 1;
            }
        }
    }

    /// The last one in a range for which `ends` is true. Asks from the end on, each number once.
    #[inline]
    pub(super) fn find_last(
        &self,
        range: Range<u32>,
        mut ends: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        for place in places(&range).rev() {
            let mut left = self.word(place, &range);
            while left != 0 {
                let number = place * Word::BITS + left.ilog2();
                if ends(number) {
                    return Some(number);
                }
                left &= !(1 << left.ilog2());
            }
        }
        None
    }

    /// The bits of a word that are in a range.
    #[inline]
    fn word(&self, place: u32, range: &Range<u32>) -> Word {
        let from = place * Word::BITS;
        let mut bits = self.words[place as usize];
        if from < range.start {
            bits &= Word::MAX << (range.start - from);
        }
        if range.end - from < Word::BITS {
            bits &= (1 << (range.end - from)) - 1;
        }
        bits
    }
}

/// The words with numbers of a range.
fn places(range: &Range<u32>) -> Range<u32> {
    range.start / Word::BITS..range.end.div_ceil(Word::BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(set: &NumberSet, range: Range<u32>) -> Vec<u32> {
        let mut all = Vec::new();
        set.each(range, |number| all.push(number));
        all
    }

    #[test]
    fn ranges_end_within_words_and_between_them() {
        let mut set = NumberSet::below(193);
        set.insert(&[192, 0, 63, 64, 127]);
        set.insert(&[128, 64]);
        assert_eq!(within(&set, 0..193), [0, 63, 64, 127, 128, 192]);
        assert_eq!(within(&set, 1..192), [63, 64, 127, 128]);
        assert_eq!(within(&set, 63..64), [63]);
        assert_eq!(within(&set, 64..128), [64, 127]);
        assert!(within(&set, 65..127).is_empty());
        assert!(within(&set, 128..128).is_empty());
    }

    #[test]
    fn the_last_one_is_asked_first_and_none_outside_the_range() {
        let mut set = NumberSet::below(200);
        set.insert(&[3, 70, 71, 190]);
        let mut asked = Vec::new();
        let found = set.find_last(3..190, |number| {
            asked.push(number);
            number == 70
        });
        assert_eq!((found, asked), (Some(70), vec![71, 70]));
        assert_eq!(set.find_last(4..70, |_| true), None);
    }
}

//! Counts that a sum must not mix: accesses, core cycles, instructions.

use serde::{Deserialize, Serialize};

/// The arithmetic of a number of things of one kind: sums and differences of that kind, and
/// multiples.
macro_rules! quantity {
    ($name:ident) => {
        impl $name {
            pub const ZERO: $name = $name(0);

            /// Without `other`; 0 if that is more.
            #[inline]
            #[must_use]
            pub fn saturating_sub(self, other: $name) -> $name {
                $name(self.0.saturating_sub(other.0))
            }

            /// The part that it is of `whole`; itself if that is nothing.
            #[inline]
            pub fn share_of(self, whole: $name) -> f64 {
                self.0 as f64 / whole.0.max(1) as f64
            }

            /// Both together, and the largest number if that is more.
            #[inline]
            #[must_use]
            pub fn saturating_add(self, other: $name) -> $name {
                $name(self.0.saturating_add(other.0))
            }

            /// That many times as much, and the largest number if that is more.
            #[inline]
            #[must_use]
            pub fn saturating_mul(self, times: u64) -> $name {
                $name(self.0.saturating_mul(times))
            }

            /// As much for each of `count` things.
            #[inline]
            #[must_use]
            pub fn times(self, count: usize) -> $name {
                self * count as u64
            }

            /// Without `other`; `None` if that is more.
            #[inline]
            pub fn checked_sub(self, other: $name) -> Option<$name> {
                self.0.checked_sub(other.0).map($name)
            }
        }

        impl From<u32> for $name {
            #[inline]
            fn from(of: u32) -> $name {
                $name(of.into())
            }
        }

        impl From<$name> for f64 {
            /// Exact up to 2^53.
            #[inline]
            fn from(of: $name) -> f64 {
                of.0 as f64
            }
        }

        impl std::ops::Add for $name {
            type Output = $name;

            #[inline]
            fn add(self, other: $name) -> $name {
                $name(self.0 + other.0)
            }
        }

        impl std::ops::AddAssign for $name {
            #[inline]
            fn add_assign(&mut self, other: $name) {
                self.0 += other.0;
            }
        }

        impl std::ops::Sub for $name {
            type Output = $name;

            #[inline]
            fn sub(self, other: $name) -> $name {
                $name(self.0 - other.0)
            }
        }

        impl std::ops::SubAssign for $name {
            #[inline]
            fn sub_assign(&mut self, other: $name) {
                self.0 -= other.0;
            }
        }

        impl std::ops::Mul<u64> for $name {
            type Output = $name;

            #[inline]
            fn mul(self, times: u64) -> $name {
                $name(self.0 * times)
            }
        }

        impl std::ops::MulAssign<u64> for $name {
            #[inline]
            fn mul_assign(&mut self, times: u64) {
                self.0 *= times;
            }
        }

        impl std::iter::Sum for $name {
            fn sum<I: Iterator<Item = $name>>(all: I) -> $name {
                $name(all.map(|of| of.0).sum())
            }
        }

        impl<'a> std::iter::Sum<&'a $name> for $name {
            fn sum<I: Iterator<Item = &'a $name>>(all: I) -> $name {
                all.copied().sum()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

pub(crate) use quantity;

/// A number of accesses to memory.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[repr(transparent)]
pub struct Accesses(pub u64);

/// A number of core cycles.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[repr(transparent)]
pub struct Cycles(pub u64);

/// A number of executed instructions.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[repr(transparent)]
pub struct Instructions(pub u64);

/// A part of a whole in millionths of it: an integer, so that a tie does not depend on the order of
/// a sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Millionths(pub u64);

impl Millionths {
    pub const WHOLE: Millionths = Millionths(1_000_000);

    /// The part, as a share of 1.
    #[inline]
    pub fn share(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Accesses {
    /// A single access.
    pub const ONE: Accesses = Accesses(1);

    /// The cycles of as many accesses that take `each`.
    #[inline]
    pub fn cycles(self, each: Cycles) -> Cycles {
        each * self.0
    }
}

impl Instructions {
    /// The cycles of as many instructions at one each.
    #[inline]
    pub fn cycles(self) -> Cycles {
        Cycles(self.0)
    }
}

quantity!(Accesses);
quantity!(Cycles);
quantity!(Instructions);
quantity!(Millionths);

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Cycles = Cycles(u64::MAX);

    #[test]
    fn what_saturates_stays_between_nothing_and_the_largest_number() {
        assert_eq!(Cycles(3).saturating_sub(Cycles(4)), Cycles::ZERO);
        assert_eq!(Cycles(4).saturating_sub(Cycles(3)), Cycles(1));
        assert_eq!(MOST.saturating_add(Cycles(1)), MOST);
        assert_eq!(Cycles(u64::MAX / 2 + 1).saturating_mul(2), MOST);
        assert_eq!(Cycles(3).saturating_mul(2), Cycles(6));
        assert_eq!(Cycles(4).checked_sub(Cycles(4)), Some(Cycles::ZERO));
        assert_eq!(Cycles(3).checked_sub(Cycles(4)), None);
    }

    /// Sums that wrap would be figures that look right. The release build does not check them:
    /// there counts of a recording cannot get that far.
    #[test]
    #[cfg(debug_assertions)]
    fn plain_arithmetic_does_not_wrap() {
        let wraps: [fn() -> Cycles; 4] = [
            || std::hint::black_box(MOST) + Cycles(1),
            || std::hint::black_box(Cycles::ZERO) - Cycles(1),
            || std::hint::black_box(MOST) * 2,
            || std::iter::repeat_n(std::hint::black_box(MOST), 2).sum(),
        ];
        for (number, wrap) in wraps.into_iter().enumerate() {
            assert!(std::panic::catch_unwind(wrap).is_err(), "{number}");
        }
    }

    #[test]
    fn a_share_of_nothing_is_finite_and_millionths_are_shares_of_one() {
        assert_eq!(
            Accesses(1).share_of(Accesses(4)).to_bits(),
            0.25f64.to_bits()
        );
        assert_eq!(
            Accesses(6).share_of(Accesses(4)).to_bits(),
            1.5f64.to_bits()
        );
        assert_eq!(Accesses::ZERO.share_of(Accesses::ZERO).to_bits(), 0);
        assert_eq!(
            Accesses(3).share_of(Accesses::ZERO).to_bits(),
            3f64.to_bits()
        );
        assert_eq!(Millionths::WHOLE.share().to_bits(), 1f64.to_bits());
        assert_eq!(Millionths(1).share().to_bits(), 1e-6f64.to_bits());
    }

    #[test]
    fn assignments_and_sums_agree_with_the_operators() {
        let (mut sum, all) = (Cycles(7), [Cycles(2), Cycles(3), Cycles(5)]);
        assert_eq!(all.iter().sum::<Cycles>(), all[0] + all[1] + all[2]);
        assert_eq!(all.into_iter().sum::<Cycles>(), Cycles(10));
        sum += Cycles(5);
        assert_eq!(sum, Cycles(12));
        sum -= Cycles(2);
        assert_eq!(sum, Cycles(10));
        sum *= 3;
        assert_eq!(sum, Cycles(10) * 3);
        assert_eq!(sum, Cycles(10).times(all.len()));
        assert_eq!(std::iter::empty::<Cycles>().sum::<Cycles>(), Cycles::ZERO);
    }

    #[test]
    fn accesses_and_instructions_become_cycles() {
        assert_eq!(Accesses(3).cycles(Cycles(40)), Cycles(120));
        assert_eq!(Accesses::ONE.cycles(Cycles(40)), Cycles(40));
        assert_eq!(Instructions(9).cycles(), Cycles(9));
    }

    /// Documents and recordings' caches have plain numbers, and tables are in the order of counts.
    #[test]
    fn a_count_is_written_shown_and_ordered_as_its_number() {
        assert_eq!(
            serde_json::to_string(&[MOST, Cycles(1)]).unwrap(),
            format!("[{},1]", u64::MAX)
        );
        assert_eq!(
            serde_json::from_str::<Accesses>("12").unwrap(),
            Accesses(12)
        );
        assert!(serde_json::from_str::<Accesses>("-1").is_err());
        assert!(serde_json::from_str::<Accesses>("1.5").is_err());
        assert_eq!(
            format!("{:>4}|{:<3}|", Cycles(12), Accesses(7)),
            "  12|7  |"
        );
        assert!(Cycles(9) < Cycles(10) && Cycles(10) < MOST);
        assert_eq!(
            f64::from(Cycles::from(u32::MAX)).to_bits(),
            4_294_967_295f64.to_bits()
        );
    }
}

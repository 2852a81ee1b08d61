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
    /// One.
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

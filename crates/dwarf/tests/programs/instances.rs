//! Functions with type parameters, inlined into one without and into one another.

use std::hint::black_box;

pub struct Pair<A> {
    pub first: A,
    pub second: A,
}

impl<A: Copy> Pair<A> {
    #[inline(always)]
    pub fn of<Q>(value: A, more: Q) -> Pair<A> {
        black_box(more);
        Pair { first: value, second: value }
    }
}

#[inline(always)]
fn twice<T: Copy>(value: T) -> Pair<T> {
    Pair::of(value, 1u8)
}

#[unsafe(no_mangle)]
#[inline(never)]
pub fn outer(value: u32) -> u32 {
    let pair = twice(value);
    black_box(pair.first) + black_box(pair.second)
}

fn main() {
    println!("{}", outer(black_box(2)));
}

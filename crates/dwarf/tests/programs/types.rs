//! Types of every kind. The program prints the size of each and the offsets of its members,
//! according to the compiler.

use std::mem::{offset_of, size_of};
use std::num::NonZeroU32;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

#[allow(dead_code)]
pub enum Shape {
    Circle(f64),
    Rect { w: f32, h: f32 },
    Nothing,
    Named(String),
}

pub struct Generic<T, const N: usize> {
    pub items: [T; N],
    pub tag: u8,
    pub option: Option<Box<u32>>,
    pub niche: Option<NonZeroU32>,
    pub tuple: (u8, u32, u16),
    pub slice: &'static [u8],
    pub shape: Shape,
}

#[repr(C)]
pub struct Plain {
    pub a: u8,
    pub b: u64,
    pub c: u16,
}

#[repr(align(128))]
pub struct Padded {
    pub count: AtomicU64,
}

#[repr(C, packed)]
pub struct Packed {
    pub a: u8,
    pub b: u32,
}

pub union Either {
    pub a: u32,
    pub b: [u8; 7],
}

pub struct Shared {
    pub small: bool,
    pub lock: Mutex<Vec<Padded>>,
    pub inner: Arc<Plain>,
    pub list: Arc<[u64]>,
    pub text: Arc<str>,
    pub last: char,
}

macro_rules! size {
    ($($type:ty, $name:literal;)*) => { $(println!("size {} {}", size_of::<$type>(), $name);)* };
}

macro_rules! member {
    ($($type:ty, $member:ident, $name:literal;)*) => {
        $(println!("member {} {} {}", offset_of!($type, $member), stringify!($member), $name);)*
    };
}

fn main() {
    let generic = Generic::<u16, 3> {
        items: [1, 2, 3],
        tag: std::env::args().count() as u8,
        option: None,
        niche: None,
        tuple: (1, 2, 3),
        slice: &[1],
        shape: Shape::Named("x".into()),
    };
    let plain = Plain { a: 1, b: 2, c: generic.tag.into() };
    let packed = Packed { a: 1, b: 2 };
    let either = Either { a: 3 };
    let lock = Mutex::new(vec![Padded { count: AtomicU64::new(1) }]);
    let inner = Arc::new(plain);
    let shared = Shared { small: true, lock, inner, list: [1, 2].into(), text: "x".into(), last: 'x' };
    std::hint::black_box((&generic, &packed, &either, &shared));
    size! {
        Shape, "Shape";
        Generic<u16, 3>, "Generic<u16, 3>";
        Plain, "Plain";
        Padded, "Padded";
        Packed, "Packed";
        Either, "Either";
        Shared, "Shared";
        Mutex<Vec<Padded>>, "Mutex<alloc::vec::Vec<types::Padded, alloc::alloc::Global>>";
        Option<NonZeroU32>, "Option<core::num::nonzero::NonZero<u32>>";
    }
    member! {
        Generic<u16, 3>, items, "Generic<u16, 3>";
        Generic<u16, 3>, tag, "Generic<u16, 3>";
        Generic<u16, 3>, option, "Generic<u16, 3>";
        Generic<u16, 3>, niche, "Generic<u16, 3>";
        Generic<u16, 3>, tuple, "Generic<u16, 3>";
        Generic<u16, 3>, slice, "Generic<u16, 3>";
        Generic<u16, 3>, shape, "Generic<u16, 3>";
        Plain, b, "Plain";
        Plain, c, "Plain";
        Padded, count, "Padded";
        Packed, b, "Packed";
        Shared, small, "Shared";
        Shared, lock, "Shared";
        Shared, inner, "Shared";
        Shared, last, "Shared";
    }
}

//! Whole numbers and sizes of a description: anything else is refused in a few words, however long
//! it is.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserializer;
use serde::de::{Error, Visitor};

/// A number in a description.
pub(crate) trait Whole: Sized {
    /// The largest value that TOML or the field can hold.
    const MOST: u64;

    /// `None` if it is larger.
    fn from_u64(value: u64) -> Option<Self>;
}

impl Whole for u32 {
    const MOST: u64 = u32::MAX as u64;

    fn from_u64(value: u64) -> Option<Self> {
        value.try_into().ok()
    }
}

impl Whole for u64 {
    const MOST: u64 = i64::MAX as u64;

    fn from_u64(value: u64) -> Option<Self> {
        Some(value)
    }
}

/// Reads a whole number.
pub(crate) fn whole<'de, D: Deserializer<'de>, T: Whole>(from: D) -> Result<T, D::Error> {
    from.deserialize_any(WholeVisitor(PhantomData))
}

/// The same for an optional key.
pub(crate) fn some_whole<'de, D: Deserializer<'de>, T: Whole>(
    from: D,
) -> Result<Option<T>, D::Error> {
    whole(from).map(Some)
}

struct WholeVisitor<T>(PhantomData<T>);

impl<T: Whole> Visitor<'_> for WholeVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        let read = u64::try_from(value).ok().and_then(T::from_u64);
        read.ok_or_else(|| E::custom(format!("{value}: must be 0 to {}", T::MOST)))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<T, E> {
        Err(E::custom(
            "must be a whole number, without a point or exponent",
        ))
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<T, E> {
        Err(E::custom("must be a whole number, without quotes"))
    }
}

/// The size of a cache as written.
#[derive(Debug)]
pub(crate) enum Size {
    /// A number of bytes.
    Bytes(u64),
    /// `48 KiB`.
    Text(String),
}

/// The longest text that is read as a size.
const SIZE_MAX: usize = 32;

impl<'de> serde::Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(SizeVisitor)
    }
}

const SIZE: &str = "must be a number of bytes, \"48 KiB\" or \"2 MiB\"";

struct SizeVisitor;

impl Visitor<'_> for SizeVisitor {
    type Value = Size;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes, \"48 KiB\" or \"2 MiB\"")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Size, E> {
        let bytes = u64::try_from(value).map_err(|_| E::custom(SIZE))?;
        Ok(Size::Bytes(bytes))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Size, E> {
        Err(E::custom(SIZE))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Size, E> {
        match value.len() <= SIZE_MAX {
            true => Ok(Size::Text(value.to_owned())),
            false => Err(E::custom(SIZE)),
        }
    }
}

//! What a recording says about its run, as values.

use std::num::NonZeroU16;

use crate::{Metadata, Problem};

/// The maximum number of CPUs of a recording: the largest `NR_CPUS` of x86-64. The recorder's
/// guests have at most 512.
pub const MAX_CPUS: u16 = 8192;

/// The maximum memory of a recorded guest in bytes: what 40 bits of physical address reach, as on
/// the emulated CPU.
pub const MAX_MEMORY_BYTES: u64 = 1 << 40;

/// What a recording says about its run, read from its [`Metadata`] and checked when it is opened.
/// What the recording does not say is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    pub kernel: Option<String>,
    /// The SHA-256 of the kernel's image, in hexadecimal digits.
    pub kernel_sha256: Option<String>,
    /// The command that ran.
    pub command: Option<String>,
    /// CPUs of the guest, from 1 to [`MAX_CPUS`].
    pub cpus: Option<u16>,
    /// How many consecutive ones are threads of one core, up to [`MAX_CPUS`].
    pub threads: Option<NonZeroU16>,
    /// Bytes of the guest's memory, at most [`MAX_MEMORY_BYTES`].
    pub memory_bytes: Option<u64>,
    /// The seed of the guest's randomness.
    pub seed: Option<u32>,
    /// Whether user-mode accesses were recorded.
    pub user: bool,
    /// Whether the kernel's memory has no names: no types, allocations or images. Recordings that
    /// do not say so have them.
    pub kernel_unnamed: bool,
    /// Instructions after which the recorder ended a CPU's turn; QEMU alone did if absent.
    pub turn: Option<u32>,
}

impl Description {
    /// Reads the known keys; others are ignored.
    ///
    /// # Errors
    /// [`Problem::Description`]: a value that does not have its key's form, or is out of bounds.
    pub(crate) fn read(metadata: &Metadata) -> Result<Self, Problem> {
        let text = |key: &str| metadata.get(key).cloned();
        Ok(Self {
            kernel: text("kernel"),
            kernel_sha256: text("kernel.sha256"),
            command: text("command"),
            cpus: value(metadata, "cpus", "a number from 1 to 8192", |text| {
                let cpus = text.parse().ok()?;
                (1..=MAX_CPUS).contains(&cpus).then_some(cpus)
            })?,
            threads: value(metadata, "threads", "a number from 1 to 8192", |text| {
                let threads: NonZeroU16 = text.parse().ok()?;
                (threads.get() <= MAX_CPUS).then_some(threads)
            })?,
            memory_bytes: value(metadata, "memory_bytes", "a number up to 2^40", |text| {
                text.parse().ok().filter(|bytes| *bytes <= MAX_MEMORY_BYTES)
            })?,
            seed: value(metadata, "seed", "a number below 2^32", |text| {
                text.parse().ok()
            })?,
            user: switch(metadata, "user")?.unwrap_or(false),
            kernel_unnamed: !switch(metadata, "kernel_types")?.unwrap_or(true),
            turn: value(metadata, "turn", "a number from 1 to 2^32 - 1", |text| {
                text.parse().ok().filter(|turn| *turn > 0)
            })?,
        })
    }

    /// The maximum size of the memory images of such a guest: at each of two moments the
    /// `struct page` array (64 bytes, or twice that in kernels that debug it, per page of 4 KiB),
    /// the slab caches with their names, and some variables.
    pub(crate) fn image_bytes_max(&self) -> u64 {
        const MOMENTS: u64 = 2;
        const PAGE_ARRAY: u64 = 32;
        const OTHERS: u64 = 32 << 20;
        MOMENTS * (self.memory_bytes.unwrap_or(0) / PAGE_ARRAY + OTHERS)
    }
}

fn switch(metadata: &Metadata, key: &'static str) -> Result<Option<bool>, Problem> {
    value(metadata, key, "on or off", |text| match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    })
}

fn value<T>(
    metadata: &Metadata,
    key: &'static str,
    expected: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, Problem> {
    let Some(text) = metadata.get(key) else {
        return Ok(None);
    };
    match parse(text) {
        Some(value) => Ok(Some(value)),
        None => Err(Problem::Description {
            key,
            value: text.chars().take(40).collect(),
            expected,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Description, Problem> {
        let pairs = pairs.iter().map(|(k, v)| ((*k).into(), (*v).into()));
        Description::read(&pairs.collect())
    }

    #[test]
    fn what_is_said_is_read() {
        let all = [
            ("kernel", "6.12"),
            ("kernel.sha256", "00ff"),
            ("command", "true"),
            ("cpus", "8192"),
            ("threads", "2"),
            ("memory_bytes", "1099511627776"),
            ("seed", "4294967295"),
            ("user", "on"),
            ("kernel_types", "off"),
            ("turn", "1000"),
            ("colour", "green"),
        ];
        let expected = Description {
            kernel: Some("6.12".into()),
            kernel_sha256: Some("00ff".into()),
            command: Some("true".into()),
            cpus: Some(8192),
            threads: NonZeroU16::new(2),
            memory_bytes: Some(1 << 40),
            seed: Some(u32::MAX),
            user: true,
            kernel_unnamed: true,
            turn: Some(1000),
        };
        assert_eq!(read(&all), Ok(expected));
        let named = read(&[("kernel_types", "on")]);
        assert_eq!(named, Ok(Description::default()));
        assert_eq!(read(&[]), Ok(Description::default()));
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_value() {
        let cases = [
            ("cpus", "0"),
            ("cpus", "8193"),
            ("cpus", "4294967295"),
            ("cpus", "eight"),
            ("threads", "0"),
            ("threads", "8193"),
            ("memory_bytes", "1099511627777"),
            ("memory_bytes", "-1"),
            ("seed", "4294967296"),
            ("user", "yes"),
            ("kernel_types", ""),
            ("turn", "0"),
            ("turn", "4294967296"),
        ];
        for (key, text) in cases {
            let error = read(&[(key, text)]).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{key} is {text:?}, not ")),
                "{error}"
            );
        }
        let long = read(&[("seed", &"9".repeat(1 << 20))]).unwrap_err();
        assert!(long.to_string().len() < 100, "{long}");
    }
}

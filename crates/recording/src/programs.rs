//! The files of the recorded programs, and how their code is identified.
//!
//! A page of code is identified by its contents. The same program may be mapped anywhere, by any
//! number of processes, from whatever frames the page cache has it in: its instructions are the
//! same. So code has addresses of its own: the number of its page, times [`PAGE`], plus the offset
//! in it. Numbers are assigned in the order of the files and their ranges, from [`FIRST_CODE_PAGE`]
//! on; code of no listed file (a JIT compiler's, the vDSO) gets the following numbers as it is
//! first translated.

use std::ops::Range;

use linemate_units::PAGE;
use xxhash_rust::xxh3::xxh3_64;

use crate::Problem;
use crate::cursor::{Cursor, put_varint};
use linemate_units::GuestAddr;

/// The number of the first page of the first file. Code without a number, because there is too much
/// of it, is on page 0.
pub const FIRST_CODE_PAGE: u64 = 1;
/// The maximum number of numbered pages of code: 4 GiB.
pub const MAX_CODE_PAGES: u64 = 1 << 20;
const MAX_FILES: u64 = 1 << 16;
/// The maximum size of one file, and of all together.
const MAX_FILE_BYTES: u64 = 1 << 32;
const MAX_PATH_BYTES: u32 = 4096;

/// Consecutive pages of a file that may be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeRange {
    /// The offset in the file, a multiple of [`PAGE`].
    pub offset: u64,
    /// The contents of each page, by [`code_page_digest`].
    pub digests: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramFile {
    /// Its path in the guest; empty for a file with only debug information, whose path on this
    /// computer is not stored.
    pub path: String,
    /// The file whose debug information it has, if it is not a program or library itself.
    pub debug_of: Option<u32>,
    pub length: u64,
    /// The file's ranges that are mapped executable.
    pub code: Vec<CodeRange>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramFiles {
    files: Vec<ProgramFile>,
    /// For each range in order: its first page's number, the file, the range in it.
    ranges: Vec<(u64, u32, u32)>,
    /// The first number that no file has.
    next: u64,
}

/// The identity of a page of code: XXH3-64 of its bytes. A file's last page is zero beyond the
/// file's end.
#[must_use]
pub fn code_page_digest(page: &[u8]) -> u64 {
    xxh3_64(page)
}

/// The digests of the pages of `file` that hold its bytes `range`.
#[must_use]
pub fn code_range(file: &[u8], range: Range<u64>) -> CodeRange {
    let first = range.start / PAGE;
    let end = range
        .end
        .min(file.len() as u64)
        .div_ceil(PAGE)
        // A range that starts after the file's end has no page.
        .max(first);
    let digest = |page: u64| {
        let start = ((page * PAGE) as usize).min(file.len());
        // As the guest maps it: zeros after the file's end.
        let bytes = &file[start..(start + PAGE as usize).min(file.len())];
        let mut whole = [0; PAGE as usize];
        whole[..bytes.len()].copy_from_slice(bytes);
        code_page_digest(&whole)
    };
    CodeRange {
        offset: first * PAGE,
        digests: (first..end).map(digest).collect(),
    }
}

impl ProgramFiles {
    /// Assigns numbers to the files' code.
    ///
    /// # Errors
    /// More files, code or bytes than a recording can list.
    pub fn new(files: Vec<ProgramFile>) -> Result<Self, Problem> {
        limit("the number of program files", files.len() as u64, MAX_FILES)?;
        let (mut ranges, mut next) = (Vec::new(), FIRST_CODE_PAGE);
        let lengths = files.iter().map(|file| file.length);
        let sum = lengths.fold(0, u64::saturating_add);
        limit("the length of all programs", sum, MAX_FILE_BYTES)?;
        for (file, index) in files.iter().zip(0..) {
            // File 0 exists if any does.
            let of = u64::from(file.debug_of.unwrap_or(0));
            limit(
                "the number of a program",
                of,
                (files.len() as u64).saturating_sub(1),
            )?;
            for (range, place) in file.code.iter().zip(0..) {
                if range.offset % PAGE != 0 {
                    return Err(Problem::Order {
                        what: "a page of code at",
                        value: range.offset,
                    });
                }
                limit(
                    "the place of code in a program",
                    range.offset,
                    MAX_FILE_BYTES,
                )?;
                ranges.push((next, index, place));
                next += range.digests.len() as u64;
                // Bounds the sum of offset and place, which is computed without a check.
                limit("the number of pages of code", next, MAX_CODE_PAGES)?;
            }
        }
        Ok(Self {
            files,
            ranges,
            next,
        })
    }

    #[must_use]
    pub fn files(&self) -> &[ProgramFile] {
        &self.files
    }

    /// The number of the first page of code that belongs to no file.
    #[must_use]
    pub fn unlisted(&self) -> u64 {
        self.next.max(FIRST_CODE_PAGE)
    }

    /// The pages' digests with their numbers. Identical pages get the first one's number.
    pub fn pages(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().flat_map(|(first, file, place)| {
            let range = &self.files[*file as usize].code[*place as usize];
            range.digests.iter().copied().zip(*first..)
        })
    }

    /// The file that the code at this address is from, and the offset in it; `None` for code of no
    /// file.
    #[must_use]
    pub fn place(&self, code: GuestAddr) -> Option<(u32, u64)> {
        let page = code.0 / PAGE;
        // Sorted, because numbers are assigned in order. A range without pages has its successor's
        // number, and the last of equal ones is taken.
        let after = self.ranges.partition_point(|(first, _, _)| *first <= page);
        let (first, file, place) = *self.ranges.get(after.checked_sub(1)?)?;
        let range = self.files[file as usize].code.get(place as usize)?;
        let in_range = page - first;
        (in_range < range.digests.len() as u64)
            .then_some((file, range.offset + in_range * PAGE + code.0 % PAGE))
    }

    /// The code address of `offset` in a file; `None` if it has no code there.
    #[must_use]
    pub fn code_address(&self, file: u32, offset: u64) -> Option<GuestAddr> {
        self.ranges
            .iter()
            .filter(|(_, of, _)| *of == file)
            .find_map(|(first, _, place)| {
                let range = &self.files[file as usize].code[*place as usize];
                let within = offset.checked_sub(range.offset)?;
                (within / PAGE < range.digests.len() as u64)
                    .then_some(GuestAddr(first * PAGE + within))
            })
    }

    pub(crate) fn payload(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.files.len() as u64);
        for file in &self.files {
            put_varint(&mut out, file.path.len() as u64);
            out.extend_from_slice(file.path.as_bytes());
            put_varint(&mut out, file.debug_of.map_or(0, |of| u64::from(of) + 1));
            put_varint(&mut out, file.length);
            put_varint(&mut out, file.code.len() as u64);
            for range in &file.code {
                put_varint(&mut out, range.offset);
                put_varint(&mut out, range.digests.len() as u64);
                for digest in &range.digests {
                    out.extend_from_slice(&digest.to_le_bytes());
                }
            }
        }
        out
    }

    pub(crate) fn read(payload: &[u8]) -> Result<Self, Problem> {
        let mut cursor = Cursor::new(payload, "programs");
        let count = cursor.varint()?;
        limit("the number of program files", count, MAX_FILES)?;
        let files = (0..count)
            .map(|_| read_file(&mut cursor))
            .collect::<Result<_, _>>()?;
        cursor.finish()?;
        Self::new(files)
    }
}

fn read_file(cursor: &mut Cursor<'_>) -> Result<ProgramFile, Problem> {
    let length = cursor.varint_u32()?;
    limit("the length of a path", length.into(), MAX_PATH_BYTES.into())?;
    let path = String::from_utf8(cursor.bytes(length as usize)?.to_vec());
    let path = path.map_err(|error| Problem::Text {
        what: "a program's path",
        reason: error.to_string(),
    })?;
    let debug_of = cursor.varint_u32()?.checked_sub(1);
    let length = cursor.varint()?;
    // No bound of its own: each takes at least two bytes of the chunk.
    let ranges = cursor.varint()?;
    let mut code = Vec::new();
    for _ in 0..ranges {
        let offset = cursor.varint()?;
        let pages = cursor.varint()?;
        // Eight bytes each: the promised number must be present before memory is allocated for it.
        limit(
            "the number of pages of code",
            pages,
            cursor.left() as u64 / 8,
        )?;
        let digests = (0..pages).map(|_| cursor.u64());
        code.push(CodeRange {
            offset,
            digests: digests.collect::<Result<_, _>>()?,
        });
    }
    Ok(ProgramFile {
        path,
        debug_of,
        length,
        code,
    })
}

fn limit(what: &'static str, value: u64, limit: u64) -> Result<(), Problem> {
    if value > limit {
        return Err(Problem::TooLarge { what, value, limit });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, bytes: &[u8], ranges: &[Range<u64>]) -> ProgramFile {
        ProgramFile {
            path: path.into(),
            debug_of: None,
            length: bytes.len() as u64,
            code: ranges
                .iter()
                .map(|r| code_range(bytes, r.clone()))
                .collect(),
        }
    }

    fn two() -> (Vec<u8>, ProgramFiles) {
        let bytes: Vec<u8> = (0..20_000u32).map(|i| (i / 7) as u8).collect();
        let ranges = [4096..8192, 12_288..20_000];
        let files = vec![
            file("/bin/a", &bytes, &ranges),
            file("/bin/b", &bytes, std::slice::from_ref(&(0..100))),
        ];
        (bytes, ProgramFiles::new(files).unwrap())
    }

    #[test]
    fn a_place_and_its_address_are_each_others_inverse() {
        let (_, files) = two();
        for (file, offset) in [(0, 4096), (0, 8191), (0, 12_288), (0, 19_999), (1, 7)] {
            let code = files.code_address(file, offset).unwrap();
            assert_eq!(files.place(code), Some((file, offset)), "{offset}");
        }
        assert_eq!(files.code_address(0, 8192), None);
        assert_eq!(files.code_address(0, 0), None);
        assert_eq!(files.place(GuestAddr(0)), None);
        assert_eq!(files.place(GuestAddr(files.unlisted() * PAGE)), None);
        // 1 page, 2 pages, 1 page.
        assert_eq!(files.unlisted(), FIRST_CODE_PAGE + 4);
    }

    #[test]
    fn the_last_page_is_filled_with_zeros() {
        let (bytes, files) = two();
        let mut last = bytes[16_384..].to_vec();
        last.resize(4096, 0);
        let pages: Vec<_> = files.pages().collect();
        assert_eq!(pages[2], (code_page_digest(&last), FIRST_CODE_PAGE + 2));
    }

    #[test]
    fn what_is_written_is_read() {
        let (_, files) = two();
        assert_eq!(ProgramFiles::read(&files.payload()), Ok(files));
    }

    #[test]
    fn promises_are_held_against_what_is_there() {
        let (_, files) = two();
        let payload = files.payload();
        for length in 0..payload.len() {
            assert!(ProgramFiles::read(&payload[..length]).is_err(), "{length}");
        }
        let endless = [1, 0, 0, 1, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f];
        assert!(ProgramFiles::read(&endless).is_err());
        let unaligned = ProgramFile {
            code: vec![CodeRange {
                offset: 5,
                digests: vec![1],
            }],
            ..file("a", &[], &[])
        };
        assert!(ProgramFiles::new(vec![unaligned]).is_err());
        let orphan = ProgramFile {
            debug_of: Some(1),
            ..file("", &[], &[])
        };
        assert!(ProgramFiles::new(vec![orphan]).is_err());
    }
}

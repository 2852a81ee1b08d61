//! The contents of chunks, to bytes and back.

use std::collections::BTreeMap;

use linemate_units::GuestAddr;

use crate::cursor::{Cursor, put_varint, unzigzag, zigzag};
use crate::encode::{COLUMN_NAMES, COLUMNS, Columns};
use crate::format::{MAX_CHUNK_BYTES, MAX_FUNCTIONS, MAX_INSTRUCTIONS};
use crate::summary::{ChunkSummary, SUMMARY_BYTES, Totals};
use crate::{Function, FunctionTable, MAX_PARAMETERS, Meaning, Parameter, Problem, Register, Role};

/// Keys and values that describe a run: kernel, command, machine, seed, versions. They must not
/// contain anything that differs between two equal runs: wall-clock time, host paths.
pub type Metadata = BTreeMap<String, String>;

/// Level 1 is nearly as small as the others on these columns and keeps up with the guest.
const ZSTD_LEVEL: i32 = 1;

/// The totals at the end of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) totals: Totals,
    /// Chunks before this one.
    pub(crate) chunks: u32,
    /// Over the checksums of the chunks before this one.
    pub(crate) checksum: u64,
}

impl End {
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.totals.write(&mut out);
        out.extend_from_slice(&self.chunks.to_le_bytes());
        out.extend_from_slice(&self.checksum.to_le_bytes());
        out
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Problem> {
        let mut cursor = Cursor::new(bytes, "the totals");
        let totals = Totals::read(&mut cursor)?;
        let end = Self {
            totals,
            chunks: cursor.u32()?,
            checksum: cursor.u64()?,
        };
        cursor.finish()?;
        Ok(end)
    }
}

/// Compresses a payload, unless that makes it larger.
pub(crate) fn compress(raw: Vec<u8>) -> (Vec<u8>, bool) {
    match zstd::bulk::compress(&raw, ZSTD_LEVEL) {
        // A failed compression loses nothing: the uncompressed bytes are readable as well.
        Ok(smaller) if smaller.len() < raw.len() => (smaller, true),
        _ => (raw, false),
    }
}

/// The inverse of [`compress`]: exactly `length` bytes.
pub(crate) fn decompress(
    stored: &[u8],
    length: usize,
    what: &'static str,
) -> Result<Vec<u8>, Problem> {
    let raw = zstd::bulk::decompress(stored, length).map_err(|error| Problem::Compressed {
        what,
        reason: error.to_string(),
    })?;
    if raw.len() != length {
        return Err(Problem::Count {
            what: "decompressed bytes",
            stored: length as u64,
            found: raw.len() as u64,
        });
    }
    Ok(raw)
}

/// The payload of an EVENTS chunk: summary, directory of columns, columns.
pub(crate) fn events_payload(
    compressor: &mut zstd::bulk::Compressor<'_>,
    columns: &Columns,
    summary: &ChunkSummary,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> std::io::Result<()> {
    out.clear();
    summary.write(out);
    let directory = out.len();
    out.resize(directory + COLUMNS * 8, 0);
    for (i, column) in columns.all().into_iter().enumerate() {
        scratch.clear();
        scratch.reserve(zstd::zstd_safe::compress_bound(column.len()));
        // Only if smaller, so that equal lengths mean that a column is not compressed: the
        // directory needs no flag.
        let smaller = compressor.compress_to_buffer(column, scratch)? < column.len();
        let stored: &[u8] = if smaller { scratch } else { column };
        let entry = directory + i * 8;
        out[entry..entry + 4].copy_from_slice(&(column.len() as u32).to_le_bytes());
        out[entry + 4..entry + 8].copy_from_slice(&(stored.len() as u32).to_le_bytes());
        out.extend_from_slice(stored);
    }
    Ok(())
}

/// A compressor for [`events_payload`].
pub(crate) fn compressor() -> std::io::Result<zstd::bulk::Compressor<'static>> {
    zstd::bulk::Compressor::new(ZSTD_LEVEL)
}

/// The inverse of [`events_payload`]; `raw` is the sum of the columns' lengths that the chunk's
/// header promises.
pub(crate) fn read_events(payload: &[u8], raw: u32) -> Result<(Columns, ChunkSummary), Problem> {
    let mut cursor = Cursor::new(payload, "events");
    let summary = ChunkSummary::read(cursor.bytes(SUMMARY_BYTES)?)?;
    let mut lengths = [(0u32, 0u32); COLUMNS];
    let mut sum = 0u64;
    for (raw, stored) in &mut lengths {
        *raw = cursor.u32()?;
        *stored = cursor.u32()?;
        sum += u64::from(*raw);
    }
    // The header's sum is bounded, and with it the unpacked size of all columns: each alone could
    // claim 4 GiB.
    if sum != u64::from(raw) {
        return Err(Problem::Count {
            what: "bytes of columns",
            stored: raw.into(),
            found: sum,
        });
    }
    let mut columns = Columns::default();
    for (i, column) in columns.all_mut().into_iter().enumerate() {
        let (raw, stored) = lengths[i];
        let bytes = cursor.bytes(stored as usize)?;
        *column = if raw == stored {
            bytes.to_vec()
        } else {
            decompress(bytes, raw as usize, COLUMN_NAMES[i])?
        };
    }
    cursor.finish()?;
    Ok((columns, summary))
}

pub(crate) fn metadata_payload(metadata: &Metadata) -> Vec<u8> {
    // A map of strings always has a JSON form; Value's Display cannot fail.
    let object = metadata
        .iter()
        .map(|(k, v)| (k.clone(), v.clone().into()))
        .collect();
    serde_json::Value::Object(object).to_string().into_bytes()
}

pub(crate) fn read_metadata(payload: &[u8]) -> Result<Metadata, Problem> {
    serde_json::from_slice(payload).map_err(|error| Problem::Text {
        what: "the metadata",
        reason: error.to_string(),
    })
}

/// Addresses of instructions `first` and up.
pub(crate) fn instructions_payload(first: u32, addresses: &[GuestAddr]) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + addresses.len() * 2);
    put_varint(&mut out, first.into());
    put_varint(&mut out, addresses.len() as u64);
    let mut last = 0;
    for addr in addresses {
        put_varint(&mut out, zigzag(addr.0.wrapping_sub(last)));
        last = addr.0;
    }
    out
}

/// Appends the addresses of a chunk to those of the previous ones.
pub(crate) fn read_instructions(payload: &[u8], all: &mut Vec<GuestAddr>) -> Result<(), Problem> {
    let mut cursor = Cursor::new(payload, "instructions");
    let first = cursor.varint()?;
    if first != all.len() as u64 {
        return Err(Problem::Order {
            what: "instruction",
            value: first,
        });
    }
    let count = cursor.varint()?;
    // `first` is the current number, which was checked against the limit before.
    let limit = u64::from(MAX_INSTRUCTIONS) - first;
    if count > limit {
        return Err(Problem::TooLarge {
            what: "the number of instructions",
            value: count,
            limit,
        });
    }
    let mut last = 0u64;
    // Nothing is allocated for a number that only the file claims: each address takes at least one
    // byte of it, and the limit was checked.
    for _ in 0..count {
        last = last.wrapping_add(unzigzag(cursor.varint()?));
        all.push(GuestAddr(last));
    }
    cursor.finish()
}

const ROLES: [Role; 12] = [
    Role::Plain,
    Role::HeapAlloc,
    Role::HeapFree,
    Role::PercpuAlloc,
    Role::PercpuFree,
    Role::PageAlloc,
    Role::PageFree,
    Role::VirtualAlloc,
    Role::VirtualFree,
    Role::ContextSwitch,
    Role::Interrupt,
    Role::Event,
];

/// Code 0 is [`Meaning::StructPointer`], which a type follows.
const MEANINGS: [Meaning; 7] = [
    Meaning::Cache,
    Meaning::Size,
    Meaning::Order,
    Meaning::Count,
    Meaning::Object,
    Meaning::ObjectArray,
    Meaning::ObjectSlot,
];

/// The function table; refused if it breaks the rules that [`read_functions`] checks.
pub(crate) fn functions_payload(table: &FunctionTable) -> Result<Vec<u8>, Problem> {
    check_functions(table)?;
    let mut out = Vec::new();
    put_varint(&mut out, table.functions.len() as u64);
    let mut last = 0;
    for function in &table.functions {
        put_varint(&mut out, function.entry.0.wrapping_sub(last));
        last = function.entry.0;
        put_varint(&mut out, function.size.into());
        put_varint(&mut out, function.name.len() as u64);
        out.extend_from_slice(function.name.as_bytes());
        let role = ROLES
            .iter()
            .position(|&role| role == function.role)
            .unwrap_or_default();
        // Every role and meaning is in its table: a failed search would be a variant added without
        // its code.
        out.push(role as u8 | u8::from(function.returns) << 7);
        out.push(function.parameters.len() as u8);
        for parameter in &function.parameters {
            let meaning = match parameter.meaning {
                Meaning::StructPointer(_) => 0,
                other => {
                    1 + MEANINGS
                        .iter()
                        .position(|&m| m == other)
                        .unwrap_or_default() as u8
                }
            };
            out.push(parameter.register as u8 | meaning << 4);
            if let Meaning::StructPointer(of) = parameter.meaning {
                put_varint(&mut out, of.into());
            }
        }
    }
    Ok(out)
}

pub(crate) fn read_functions(payload: &[u8]) -> Result<FunctionTable, Problem> {
    let mut cursor = Cursor::new(payload, "functions");
    let count = cursor.varint()?;
    let mut table = FunctionTable::default();
    let mut entry = 0u64;
    // Nothing is allocated ahead for a number that only the file claims; its limit is checked with
    // the whole table.
    for _ in 0..count {
        entry = entry.wrapping_add(cursor.varint()?);
        let size = cursor.varint_u32()?;
        let length = cursor.varint_u32()? as usize;
        let name =
            String::from_utf8(cursor.bytes(length)?.to_vec()).map_err(|error| Problem::Text {
                what: "a function's name",
                reason: error.to_string(),
            })?;
        let role = cursor.u8()?;
        let parameters = cursor.u8()?;
        let parameters = (0..parameters)
            .map(|_| read_parameter(&mut cursor))
            .collect::<Result<_, _>>()?;
        table.functions.push(Function {
            entry: GuestAddr(entry),
            size,
            name,
            returns: role & 0x80 != 0,
            role: look_up(&ROLES, role & 0x7f, "a function's role")?,
            parameters,
        });
    }
    cursor.finish()?;
    check_functions(&table)?;
    Ok(table)
}

fn read_parameter(cursor: &mut Cursor<'_>) -> Result<Parameter, Problem> {
    let byte = cursor.u8()?;
    let register = look_up(&Register::ALL, byte & 15, "a register")?;
    let meaning = match byte >> 4 {
        0 => Meaning::StructPointer(cursor.varint_u32()?),
        code => look_up(&MEANINGS, code - 1, "a parameter's meaning")?,
    };
    Ok(Parameter { register, meaning })
}

fn look_up<T: Copy>(table: &[T], code: u8, what: &'static str) -> Result<T, Problem> {
    table
        .get(usize::from(code))
        .copied()
        .ok_or(Problem::Unknown {
            what,
            value: code.into(),
        })
}

fn check_functions(table: &FunctionTable) -> Result<(), Problem> {
    let count = table.functions.len() as u64;
    let limit = u64::from(MAX_FUNCTIONS);
    if count > limit {
        return Err(Problem::TooLarge {
            what: "the number of functions",
            value: count,
            limit,
        });
    }
    // Strictly, so that an entry address identifies one function.
    for pair in table.functions.windows(2) {
        if pair[0].entry >= pair[1].entry {
            return Err(Problem::Order {
                what: "the function at",
                value: pair[1].entry.0,
            });
        }
    }
    for function in &table.functions {
        let parameters = function.parameters.len() as u64;
        if parameters > MAX_PARAMETERS as u64 {
            return Err(Problem::TooLarge {
                what: "the number of a function's parameters",
                value: parameters,
                limit: MAX_PARAMETERS as u64,
            });
        }
    }
    Ok(())
}

/// When a memory image was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Moment {
    Start,
    Stop,
}

/// Bytes before an image's contents.
pub(crate) const IMAGE_HEADER_BYTES: usize = 9;

/// The maximum size of memory in one IMAGE chunk; a larger image is split into several.
pub(crate) const IMAGE_PIECE_BYTES: usize = 1 << 24;

pub(crate) fn image_payload(moment: Moment, addr: GuestAddr, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(IMAGE_HEADER_BYTES + bytes.len());
    out.push(moment as u8);
    out.extend_from_slice(&addr.0.to_le_bytes());
    out.extend_from_slice(bytes);
    out
}

pub(crate) fn read_image_header(payload: &[u8]) -> Result<(Moment, GuestAddr), Problem> {
    let mut cursor = Cursor::new(payload, "an image");
    let moment = look_up(
        &[Moment::Start, Moment::Stop],
        cursor.u8()?,
        "an image's moment",
    )?;
    Ok((moment, GuestAddr(cursor.u64()?)))
}

/// Bytes before a piece of a program's file.
pub(crate) const FILE_HEADER_BYTES: usize = 4;

pub(crate) fn file_payload(file: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(FILE_HEADER_BYTES + bytes.len());
    out.extend_from_slice(&file.to_le_bytes());
    out.extend_from_slice(bytes);
    out
}

/// The file that a piece belongs to.
pub(crate) fn read_file_header(payload: &[u8]) -> Result<u32, Problem> {
    Cursor::new(payload, "a piece of a program").u32()
}

/// Refuses what a chunk cannot hold.
pub(crate) fn check_length(what: &'static str, length: usize) -> Result<u32, Problem> {
    u32::try_from(length)
        .ok()
        .filter(|&length| length <= MAX_CHUNK_BYTES)
        .ok_or(Problem::TooLarge {
            what,
            value: length as u64,
            limit: u64::from(MAX_CHUNK_BYTES),
        })
}

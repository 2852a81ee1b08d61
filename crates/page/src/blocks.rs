//! A type's bytes as blocks, each byte in exactly one: what is touched, what is not, holes, padding.
//!
//! `web/src/blocks.ts` does the same for the page.

use std::collections::BTreeMap;

use linemate_report::{FieldMap, FieldPlace};

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// A field with a value.
    Touched,
    /// A field without one.
    Cold,
    /// Bytes between fields.
    Hole,
    /// Bytes after the last field.
    Padding,
}

/// Bytes that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) name: String,
    pub(crate) value: u64,
    pub(crate) kind: BlockKind,
}

/// A field's value.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) name: String,
    pub(crate) value: u64,
}

impl Block {
    fn end(&self) -> u64 {
        self.offset + self.size
    }
}

/// Blocks by offset; none overlaps another.
#[derive(Default)]
struct Blocks(BTreeMap<u64, Block>);

impl Blocks {
    /// The first block that has a byte of `offset..end`.
    fn first_in(&mut self, offset: u64, end: u64) -> Option<&mut Block> {
        let before = self.0.range(..end).next_back()?;
        let mut found = *before.0;
        if before.1.end() <= offset {
            return None;
        }
        // Blocks before it may reach into the range, too.
        for (start, block) in self.0.range(..found).rev() {
            if block.end() <= offset {
                break;
            }
            found = *start;
        }
        self.0.get_mut(&found)
    }

    fn insert(&mut self, block: Block) {
        if block.size > 0 {
            self.0.insert(block.offset, block);
        }
    }

    /// The parts of `offset..end` that no block has.
    fn free(&self, offset: u64, end: u64) -> Vec<(u64, u64)> {
        if offset >= end {
            return Vec::new();
        }
        let mut parts = Vec::new();
        let mut at = offset;
        let before = self.0.range(..offset).next_back();
        if let Some((_, block)) = before {
            at = at.max(block.end());
        }
        for (start, block) in self.0.range(offset..end) {
            if *start > at {
                parts.push((at, *start));
            }
            at = at.max(block.end());
        }
        if at < end {
            parts.push((at, end));
        }
        parts
    }
}

/// The blocks of a type. Of fields that share bytes, the one with the largest value is shown, with the sum.
pub(crate) fn blocks(map: &FieldMap, values: &[Value]) -> Vec<Block> {
    let mut blocks = Blocks::default();
    let mut values: Vec<&Value> = values.iter().filter(|v| v.offset < map.size).collect();
    values.sort_by_key(|v| (std::cmp::Reverse(v.value), v.offset, v.size));
    for value in values {
        let end = value.offset.saturating_add(value.size).min(map.size);
        match blocks.first_in(value.offset, end) {
            Some(block) => block.value += value.value,
            None => blocks.insert(Block {
                offset: value.offset,
                size: end - value.offset,
                name: value.name.clone(),
                value: value.value,
                kind: BlockKind::Touched,
            }),
        }
    }
    for field in &map.fields {
        let (name, end) = extent(field);
        for (start, end) in blocks.free(field.offset, end.min(map.size)) {
            blocks.insert(Block {
                offset: start,
                size: end - start,
                name: name.to_owned(),
                value: 0,
                kind: BlockKind::Cold,
            });
        }
    }
    let last = blocks.0.last_key_value().map_or(0, |(_, b)| b.end());
    for (start, end) in blocks.free(0, map.size) {
        let kind = if start >= last {
            BlockKind::Padding
        } else {
            BlockKind::Hole
        };
        blocks.insert(Block {
            offset: start,
            size: end - start,
            name: String::new(),
            value: 0,
            kind,
        });
    }
    joined(blocks.0.into_values())
}

/// A field's name and the end of its last element; an array goes by the name of the whole.
fn extent(field: &FieldPlace) -> (&str, u64) {
    let name = match field.path.find("[]") {
        Some(at) => &field.path[..at + 2],
        None => &field.path,
    };
    let beyond = |end: u64, array: &linemate_report::ArrayExtent| {
        end.saturating_add(array.stride.saturating_mul(array.count.saturating_sub(1)))
    };
    let end = field
        .arrays
        .iter()
        .fold(field.offset.saturating_add(field.size), beyond);
    // A flexible array has no bytes of the type's.
    let is_flexible = field.arrays.iter().any(|array| array.count == 0);
    (name, if is_flexible { field.offset } else { end })
}

/// Untouched neighbours of one name as one block.
fn joined(blocks: impl Iterator<Item = Block>) -> Vec<Block> {
    let mut out: Vec<Block> = Vec::new();
    for block in blocks {
        match out.last_mut() {
            Some(last)
                if last.kind == BlockKind::Cold
                    && block.kind == BlockKind::Cold
                    && last.name == block.name =>
            {
                last.size += block.size;
            }
            _ => out.push(block),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use linemate_report::ArrayExtent;

    use super::*;

    fn field(path: &str, offset: u64, size: u64, arrays: &[(u64, u64)]) -> FieldPlace {
        FieldPlace {
            path: path.to_owned(),
            type_name: String::new(),
            offset,
            size,
            bits: None,
            arrays: arrays
                .iter()
                .map(|(stride, count)| ArrayExtent {
                    stride: *stride,
                    count: *count,
                })
                .collect(),
        }
    }

    fn value(name: &str, offset: u64, size: u64, value: u64) -> Value {
        Value {
            offset,
            size,
            name: name.to_owned(),
            value,
        }
    }

    fn told(blocks: &[Block]) -> Vec<(u64, u64, &str, u64, BlockKind)> {
        blocks
            .iter()
            .map(|b| (b.offset, b.size, b.name.as_str(), b.value, b.kind))
            .collect()
    }

    #[test]
    fn every_byte_is_in_one_block() {
        use BlockKind::{Cold, Hole, Padding, Touched};
        let map = FieldMap {
            size: 64,
            fields: vec![
                field("a", 0, 4, &[]),
                field("u1", 8, 8, &[]),
                field("u2", 8, 4, &[]),
                field("list[].x", 16, 4, &[(8, 4)]),
                field("list[].y", 20, 4, &[(8, 4)]),
                field("tail[]", 56, 4, &[(4, 0)]),
            ],
        };
        let values = [
            value("u1", 8, 8, 3),
            value("u2", 8, 4, 5),
            value("list[1].x", 24, 4, 2),
        ];
        assert_eq!(
            told(&blocks(&map, &values)),
            [
                (0, 4, "a", 0, Cold),
                (4, 4, "", 0, Hole),
                (8, 4, "u2", 8, Touched),
                (12, 4, "u1", 0, Cold),
                (16, 8, "list[]", 0, Cold),
                (24, 4, "list[1].x", 2, Touched),
                (28, 20, "list[]", 0, Cold),
                (48, 16, "", 0, Padding),
            ]
        );
        assert!(blocks(&FieldMap::default(), &[]).is_empty());
    }

    #[test]
    fn sizes_that_cannot_be_do_no_harm() {
        let map = FieldMap {
            size: 16,
            fields: vec![field("far[]", u64::MAX - 1, 8, &[(u64::MAX, u64::MAX)])],
        };
        let values = [value("wide", 8, u64::MAX, 1), value("beyond", 99, 4, 1)];
        let found = blocks(&map, &values);
        assert_eq!(found.iter().map(|b| b.size).sum::<u64>(), 16);
    }
}

// A type's bytes as blocks, each byte in exactly one.

import type { FieldMap, FieldPlace } from "./documents";
import { extent, type Field } from "./fields";

export type BlockKind = "touched" | "cold" | "hole" | "padding";

export interface Block {
  offset: number;
  size: number;
  name: string;
  kind: BlockKind;
  /** What is known about it: several where fields share bytes. */
  fields: Field[];
  /** Where it is declared. */
  place: FieldPlace | null;
}

/** The blocks of a layout. `fields` have their offsets in it; of those that share bytes, the first is shown. */
export function blocksOf(map: FieldMap, fields: Field[]): Block[] {
  const owner: (Block | undefined)[] = new Array(map.size);
  const blocks: Block[] = [];
  const byPath = new Map(map.fields.map((field) => [field.path, field]));
  for (const field of fields) {
    const end = Math.min(field.offset + field.size, map.size);
    if (field.offset >= end) continue;
    let taken: Block | undefined;
    for (let at = field.offset; at < end && !taken; at += 1) taken = owner[at];
    if (taken) {
      taken.fields.push(field);
      continue;
    }
    const block: Block = {
      offset: field.offset,
      size: end - field.offset,
      name: field.path,
      kind: "touched",
      fields: [field],
      place: byPath.get(field.path.replace(/\[\d+\]/g, "[]")) ?? null,
    };
    blocks.push(block);
    owner.fill(block, block.offset, end);
  }
  for (const place of map.fields) {
    const array = place.path.indexOf("[]");
    const name = array < 0 ? place.path : place.path.slice(0, array + 2);
    addFree(owner, blocks, place.offset, Math.min(extent(place), map.size), name, "cold", place);
  }
  let last = map.size;
  while (last > 0 && !owner[last - 1]) last -= 1;
  addFree(owner, blocks, 0, last, "hole", "hole", null);
  addFree(owner, blocks, last, map.size, "padding", "padding", null);
  return joined(blocks.sort((a, b) => a.offset - b.offset));
}

function addFree(
  owner: (Block | undefined)[], blocks: Block[], from: number, end: number, name: string, kind: BlockKind, place: FieldPlace | null,
): void {
  let at = from;
  while (at < end) {
    if (owner[at]) {
      at += 1;
      continue;
    }
    const start = at;
    while (at < end && !owner[at]) at += 1;
    const block: Block = { offset: start, size: at - start, name, kind, fields: [], place };
    blocks.push(block);
    owner.fill(block, start, at);
  }
}

function joined(blocks: Block[]): Block[] {
  const out: Block[] = [];
  for (const block of blocks) {
    const last = out.at(-1);
    if (last && last.kind === "cold" && block.kind === "cold" && last.name === block.name) last.size += block.size;
    else out.push(block);
  }
  return out;
}

export interface Part {
  block: Block;
  offset: number;
  size: number;
  /** Whether it is where the block begins: figures are shown once. */
  first: boolean;
}

/** The parts of blocks that are in each line. */
export function linesOf(size: number, bytes: number, blocks: Block[]): Part[][] {
  const rows: Part[][] = Array.from({ length: Math.ceil(size / bytes) }, () => []);
  for (const block of blocks) {
    let at = block.offset;
    const end = block.offset + block.size;
    while (at < end) {
      const line = Math.floor(at / bytes);
      const stop = Math.min((line + 1) * bytes, end);
      rows[line]?.push({ block, offset: at, size: stop - at, first: at === block.offset });
      at = stop;
    }
  }
  return rows;
}

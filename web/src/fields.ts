// What is known about each field of a type, gathered from all documents of the page.

import type { CellCost, Cost, FieldColumns, FieldMap, FieldPlace, LayoutChange, Page, Share, PageType } from "./documents";
import { folded, namesOf } from "./text";

export interface Costs {
  cycles: number;
  misses: number;
  hitm: number;
  upgrades: number;
  trueSharing: number;
  falseSharing: number;
}

/** A field where it was touched: array elements apart. */
export interface Field {
  path: string;
  aliases: string[];
  offset: number;
  size: number;
  accesses: number;
  loads: number;
  stores: number;
  rmws: number;
  silent: number;
  remoteShare: number | null;
  readers: number;
  writers: number;
  /** None where the page leaves them out. */
  functions: Share[] | null;
  /** None where nothing was replayed. */
  costs: Costs | null;
  /** Functions with most cycles. */
  costly: string[];
  /** Cycles without and with the edits; none where nothing was edited. */
  before: number | null;
  after: number | null;
}

const NOTHING: Costs = { cycles: 0, misses: 0, hitm: 0, upgrades: 0, trueSharing: 0, falseSharing: 0 };

function untouched(path: string, offset: number, size: number): Field {
  return {
    path, offset, size,
    aliases: [], accesses: 0, loads: 0, stores: 0, rmws: 0, silent: 0, remoteShare: null, readers: 0, writers: 0,
    functions: [], costs: null, costly: [], before: null, after: null,
  };
}

const known = new WeakMap<PageType, Field[]>();

/** The fields of a type that anything is known about, by offset. */
export function fieldsOf(page: Page, view: PageType): Field[] {
  const fields = known.get(view) ?? gathered(page, view);
  known.set(view, fields);
  return fields;
}

function gathered(page: Page, view: PageType): Field[] {
  const fields: Field[] = view.fields.map((row) => ({
    path: row.field,
    aliases: row.aliases,
    offset: row.offset,
    size: row.size,
    accesses: row.accesses,
    loads: row.loads,
    stores: row.stores,
    rmws: row.rmws,
    silent: row.silent,
    remoteShare: row.remote_share,
    readers: row.readers,
    writers: row.writers,
    functions: row.functions,
    costs: page.costs ? { ...NOTHING } : null,
    costly: [],
    before: null,
    after: null,
  }));
  fields.push(...figuresAlone(view.rest, page.costs !== null));
  if (page.costs) addCosts(page, view, fields);
  addEffects(page, view, fields);
  return fields.sort((a, b) => a.offset - b.offset || b.size - a.size);
}

/** The fields of which the page has only figures. */
function figuresAlone(rest: FieldColumns, isReplayed: boolean): Field[] {
  return rest.field.map((path, at): Field => {
    const figure = (column: number[]) => column[at] ?? 0;
    const [loads, stores, rmws] = [figure(rest.loads), figure(rest.stores), figure(rest.rmws)];
    return {
      ...untouched(path, figure(rest.offset), figure(rest.size)),
      accesses: loads + stores + rmws, loads, stores, rmws,
      silent: figure(rest.silent),
      remoteShare: rest.remote_share[at] ?? null,
      readers: figure(rest.readers),
      writers: figure(rest.writers),
      functions: null,
      costs: isReplayed ? { ...NOTHING } : null,
    };
  });
}

/** Each cell of a line goes to the field that has its byte; cells and fields add up to the same. */
function addCosts(page: Page, view: PageType, fields: Field[]): void {
  const costs = page.costs?.costs;
  if (!costs) return;
  const byByte = new Map<number, Field>();
  for (const field of fields) {
    for (let at = field.offset; at < field.offset + field.size; at += 1) {
      if (!byByte.has(at)) byByte.set(at, field);
    }
  }
  const rows = new Map<string, Cost>();
  for (const row of costs.fields) {
    if (!row.name.startsWith(`${view.name}.`)) continue;
    for (const name of namesOf(row.name, view.name)) rows.set(name, row);
  }
  const cells = costs.lines.filter((line) => line.name === view.name).flatMap((line) => line.cells.map((cell) => ({ line, cell })));
  // The costliest first: the functions of a field are named in their order.
  for (const { line, cell } of cells.sort((a, b) => b.cell.cycles - a.cell.cycles)) {
    const field = fieldAt(line.start + cell.offset, cell, view, fields, byByte);
    addCell(field, cell, rows.get(namesOf(cell.field, view.name)[0] ?? ""));
    field.costly = [...new Set([...field.costly, ...cell.functions])].slice(0, 3);
  }
}

function fieldAt(at: number, cell: CellCost, view: PageType, fields: Field[], byByte: Map<number, Field>): Field {
  const names = namesOf(cell.field, view.name);
  const known = byByte.get(at);
  const named = known && [known.path, ...known.aliases].some((path) => names.includes(folded(path)));
  if (known && named) return known;
  // Of fields that share bytes, the one that the cell names.
  const other = fields.find((f) => at >= f.offset && at < f.offset + f.size && names.includes(folded(f.path)));
  if (other) return other;
  if (known) return known;
  const place = view.layout.fields.find((f) => f.path === names[0]);
  const field = { ...untouched(names[0] ?? "", at, place?.size ?? 1), costs: { ...NOTHING } };
  fields.push(field);
  for (let byte = at; byte < at + field.size; byte += 1) byByte.set(byte, field);
  return field;
}

function addCell(field: Field, cell: CellCost, row: Cost | undefined): void {
  const costs = (field.costs ??= { ...NOTHING });
  costs.cycles += cell.cycles;
  costs.misses += cell.loads + cell.stores;
  costs.hitm += cell.hitm;
  costs.upgrades += cell.upgrades;
  if (row && row.cycles > 0) {
    // Reasons are known by field; a field's places have their part of them.
    costs.trueSharing += (row.causes.true_sharing * cell.cycles) / row.cycles;
    costs.falseSharing += (row.causes.false_sharing * cell.cycles) / row.cycles;
  }
}

function addEffects(page: Page, view: PageType, fields: Field[]): void {
  const result = page.whatif?.results[0];
  if (!result || !result.sizes.some((size) => !size.memory && size.name === view.name)) return;
  const byName = new Map<string, Field[]>();
  for (const field of fields) {
    for (const path of new Set([field.path, ...field.aliases].map(folded))) {
      byName.set(path, [...(byName.get(path) ?? []), field]);
    }
  }
  for (const row of result.fields) {
    const several = result.sizes.length > 1;
    if (several && !row.name.startsWith(`${view.name}.`)) continue;
    const name = namesOf(row.name, view.name).find((n) => byName.has(n));
    const found = name === undefined ? [] : (byName.get(name) ?? []);
    // Elements of an array share one row.
    for (const field of found) {
      field.before = (field.before ?? 0) + row.cycles.without / found.length;
      field.after = (field.after ?? 0) + row.cycles.with / found.length;
    }
  }
}

/** Where the byte at `offset` of layout `from` is in layout `to`; none where the field is gone. */
export function moved(offset: number, path: string, from: FieldMap, to: FieldMap): number | null {
  const name = folded(path);
  const source = from.fields.find((f) => f.path === name && offset >= f.offset) ?? containing(from, offset);
  const target = source && to.fields.find((f) => f.path === source.path);
  if (!source || !target) return null;
  let rest = offset - source.offset;
  let at = target.offset;
  const strides = source.arrays ?? [];
  strides.forEach((array, i) => {
    const index = array.stride > 0 ? Math.floor(rest / array.stride) : 0;
    rest -= index * array.stride;
    at += index * (target.arrays?.[i]?.stride ?? array.stride);
  });
  return at + rest;
}

function containing(map: FieldMap, offset: number): FieldPlace | undefined {
  return map.fields.find((f) => offset >= f.offset && offset < extent(f));
}

/** The end of a field's last element. */
export function extent(field: FieldPlace): number {
  const arrays = field.arrays ?? [];
  if (arrays.some((array) => array.count === 0)) return field.offset;
  return arrays.reduce((end, array) => end + array.stride * (array.count - 1), field.offset + field.size);
}

/** The two layouts of a type, where there are two. */
export function changeOf(page: Page, type: string, lineBytes: number): LayoutChange | null {
  const changes = page.layouts.filter((change) => change.type === type);
  return changes.find((change) => change.line_bytes === lineBytes) ?? changes[0] ?? null;
}

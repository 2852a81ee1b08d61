// The lines of a layout as rows, and the way through their fields by keyboard.

import { linesOf, type Block, type Part } from "./blocks";
import type { FieldMap, Page, PageType } from "./documents";
import { h } from "./dom";
import type { Metric, Shade } from "./metric";
import { exact, percent, short } from "./number";
import type { Store } from "./state";

/** A layout drawn: of one, or one of two. */
export interface Drawing {
  title: string;
  map: FieldMap;
  blocks: Block[];
  after: boolean;
}

/** How it is drawn. */
export interface Look {
  most: number;
  shade: (value: number) => Shade;
  /** Bytes side by side: a line is as many tracks, one below the other, as it takes. */
  trackBytes: number;
  show: (block: Block, drawing: Drawing) => void;
}

/** Below that, a field of four bytes has no room for its name and its figure. */
const PIXELS_PER_BYTE = 13;
/** Nor has one of fewer bytes, at any width that is wide enough for others. */
const NAMED_BYTES = 3;

/** How many bytes of a line fit side by side into `width` pixels. */
export function bytesSideBySide(width: number, lineBytes: number): number {
  let bytes = lineBytes;
  while (bytes > 8 && width < bytes * PIXELS_PER_BYTE) bytes /= 2;
  return bytes;
}

export const valueOf = (block: Block, metric: Metric, after: boolean) =>
  block.fields.reduce((sum, field) => sum + metric.value(field, after), 0);

/**
 * What each line has, as the report counts it: where an access begins. Where that is not known, a field counts in its first line: under edits,
 * and for causes, which are known by field.
 */
function totalsOf(rows: Part[][], drawing: Drawing, store: Store): number[] {
  const { page, view, metric, lineBytes } = store.state;
  const isRecorded = view !== null && drawing.title === "";
  if (isRecorded && metric.ofLine && lineBytes % view.line_size === 0) return linesOfReport(rows.length, view, metric.ofLine, lineBytes);
  if (isRecorded && metric.ofCell) return linesOfCosts(rows.length, view, page, metric.ofCell, lineBytes);
  return rows.map((parts) => parts.reduce((sum, p) => sum + (p.first ? valueOf(p.block, metric, drawing.after) : 0), 0));
}

function linesOfReport(rows: number, view: PageType, value: NonNullable<Metric["ofLine"]>, lineBytes: number): number[] {
  const totals = new Array<number>(rows).fill(0);
  const { line, loads, stores, rmws } = view.line_sums;
  line.forEach((number, i) => {
    const at = Math.floor((number * view.line_size) / lineBytes);
    totals[at] = (totals[at] ?? 0) + value({ loads: loads[i] ?? 0, stores: stores[i] ?? 0, rmws: rmws[i] ?? 0 });
  });
  return totals;
}

function linesOfCosts(rows: number, view: PageType, page: Page, value: NonNullable<Metric["ofCell"]>, lineBytes: number): number[] {
  const totals = new Array<number>(rows).fill(0);
  for (const line of page.costs?.costs.lines ?? []) {
    if (line.name !== view.name) continue;
    for (const cell of line.cells) {
      const at = Math.floor((line.start + cell.offset) / lineBytes);
      totals[at] = (totals[at] ?? 0) + value(cell);
    }
  }
  return totals;
}

/** The rows of a layout; what nothing touches is folded. */
export function drawnRows(drawing: Drawing, store: Store, look: Look): HTMLElement {
  const { metric, lineBytes, cold } = store.state;
  const rows = linesOf(drawing.map.size, lineBytes, drawing.blocks);
  const totals = totalsOf(rows, drawing, store);
  const sum = totals.reduce((a, b) => a + b, 0);
  const top = Math.max(...totals, 1);
  const list = h("div", { class: "lines", role: "group", "aria-label": `Lines${drawing.title === "" ? "" : ` ${drawing.title}`}` });
  const blocks = new Map<Element, Block>();
  listen(list, (element) => {
    const block = blocks.get(element);
    if (block) look.show(block, drawing);
  });
  let quiet: number[] = [];
  const flush = () => {
    const [first, last] = [quiet[0], quiet.at(-1)];
    if (first !== undefined && last !== undefined) {
      const which = first === last ? `line ${first}` : `lines ${first} to ${last}`;
      list.append(h("button", { type: "button", class: "fold", click: () => store.set({ cold: true }) }, `${which}: no ${metric.noun}`));
    }
    quiet = [];
  };
  rows.forEach((parts, number) => {
    const total = totals[number] ?? 0;
    if (total === 0 && !cold && sum > 0) {
      quiet.push(number);
      return;
    }
    flush();
    const bar = h("span", { class: "total", title: `${exact(total)} ${metric.noun}` }, h("span", {}, short(total)), h("small", {}, percent(total, sum)));
    bar.style.setProperty("--part", `${(100 * total) / top}%`);
    list.append(h("div", { class: "row" }, numberOf(number, store), tracksOf(parts, drawing, store, look, blocks), bar));
  });
  flush();
  arrows(list);
  return list;
}

/** Calls for each field that is pointed at, tapped, or reached by keyboard. */
function listen(list: HTMLElement, call: (block: Element) => void): void {
  const see = (event: Event) => {
    const element = event.target instanceof Element ? event.target.closest("button.block") : null;
    if (element) call(element);
  };
  for (const event of ["mouseover", "focusin", "click"]) list.addEventListener(event, see);
}

/** A line's number, which leads to what happens inside where that is known. */
function numberOf(number: number, store: Store): HTMLElement {
  const { page, lineBytes } = store.state;
  if (!page.costs) return h("span", { class: "line" }, `${number}`);
  return h("button", {
    type: "button", class: "line", title: `bytes ${number * lineBytes} to ${(number + 1) * lineBytes - 1}: see what happens inside`,
    click: () => {
      store.set({ line: number * lineBytes });
      document.getElementById("line")?.scrollIntoView({ behavior: "instant" });
    },
  }, `${number}`);
}

function tracksOf(parts: Part[], drawing: Drawing, store: Store, look: Look, blocks: Map<Element, Block>): HTMLElement {
  const { lineBytes } = store.state;
  const tracks = Array.from({ length: Math.max(1, lineBytes / look.trackBytes) }, () => h("div", { class: "track" }));
  let before = "";
  for (const part of parts) {
    const name = nameIn(part.block, before);
    for (const piece of pieces(part, look.trackBytes)) {
      const element = drawnPart(piece, drawing, name, store, look);
      blocks.set(element, piece.block);
      tracks[Math.floor((piece.offset % lineBytes) / look.trackBytes)]?.append(element);
    }
    before = part.block.kind === "hole" ? before : part.block.name;
  }
  // The end of a type can leave the last tracks of its last line empty.
  while (tracks.length > 1 && tracks.at(-1)?.childElementCount === 0) tracks.pop();
  return h("div", { class: "tracks" }, ...tracks);
}

/** A part of a line as the parts of its tracks. */
function pieces(part: Part, bytes: number): Part[] {
  const out: Part[] = [];
  const end = part.offset + part.size;
  for (let at = part.offset; at < end;) {
    const stop = Math.min((Math.floor(at / bytes) + 1) * bytes, end);
    out.push({ block: part.block, offset: at, size: stop - at, first: part.first && at === part.offset });
    at = stop;
  }
  return out;
}

/** A name as it is written in its line: after `cfs.avg.load_sum`, `cfs.avg.util_sum` is `.util_sum`. */
function nameIn(block: Block, before: string): string {
  const [parts, known] = [block.name.split("."), before.split(".")];
  let same = 0;
  while (same < Math.min(parts.length, known.length) - 1 && parts[same] === known[same]) same += 1;
  return same === 0 || block.name === before ? block.name : `.${parts.slice(same).join(".")}`;
}

function drawnPart(part: Part, drawing: Drawing, label: string, store: Store, look: Look): HTMLElement {
  const { metric } = store.state;
  const { block } = part;
  const value = valueOf(block, metric, drawing.after);
  const unused = block.kind === "hole" || block.kind === "padding";
  const said = `${block.name}, bytes ${block.offset} to ${block.offset + block.size - 1}${unused ? "" : `, ${exact(value)} ${metric.noun}`}`;
  const element = h(unused ? "span" : "button", {
    type: unused ? null : "button",
    class: `block ${block.kind}${part.first ? "" : " rest"}`,
    "aria-label": unused ? null : said,
    title: said,
    tabindex: unused ? null : -1,
    "data-path": unused ? null : block.name,
    "data-value": unused ? null : exact(value),
    "data-offset": unused ? null : block.offset,
  });
  element.style.left = `${(100 * (part.offset % look.trackBytes)) / look.trackBytes}%`;
  element.style.width = `${(100 * part.size) / look.trackBytes}%`;
  if (unused) return element;
  if (value > 0) {
    const { fill, ink } = look.shade(value);
    element.style.background = fill;
    element.style.color = ink;
  }
  const isNamed = part.size >= NAMED_BYTES;
  if (isNamed) element.append(h("span", { class: "name" }, label));
  // Not by colour alone: the figure, and a bar of its length.
  if (value > 0 && part.first) {
    if (isNamed) element.append(h("span", { class: "value" }, short(value)));
    element.style.setProperty("--part", `${100 * Math.sqrt(value / Math.max(look.most, 1))}%`);
  }
  return element;
}

/** One stop of the tab key for all fields; arrows go from one to the next. */
function arrows(list: HTMLElement): void {
  const blocks = [...list.querySelectorAll<HTMLElement>("button.block")];
  const trackOf = (block: HTMLElement) => block.closest(".track");
  blocks[0]?.setAttribute("tabindex", "0");
  list.addEventListener("focusin", (event) => {
    if (!(event.target instanceof HTMLElement) || !event.target.classList.contains("block")) return;
    for (const block of blocks) block.tabIndex = block === event.target ? 0 : -1;
  });
  list.addEventListener("keydown", (event) => {
    const at = blocks.findIndex((block) => block === document.activeElement);
    const current = blocks[at];
    if (!current) return;
    let next: HTMLElement | undefined;
    if (event.key === "ArrowRight") next = blocks[at + 1];
    else if (event.key === "ArrowLeft") next = blocks[at - 1];
    else if (event.key === "Home") next = blocks[0];
    else if (event.key === "End") next = blocks.at(-1);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const down = event.key === "ArrowDown";
      const candidates = down ? blocks.slice(at + 1) : blocks.slice(0, at).reverse();
      const track = candidates.map(trackOf).find((t) => t !== trackOf(current));
      const left = current.offsetLeft + current.offsetWidth / 2;
      const inTrack = blocks.filter((block) => trackOf(block) === track);
      next = inTrack.find((block) => block.offsetLeft <= left && left <= block.offsetLeft + block.offsetWidth) ?? inTrack[0];
    } else return;
    event.preventDefault();
    next?.focus();
  });
}

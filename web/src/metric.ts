// What colours say, and the scale.

import { scaleSequentialSqrt } from "d3-scale";
import { interpolateMagma } from "d3-scale-chromatic";
import type { CellCost, Page } from "./documents";
import type { Field } from "./fields";

export interface Metric {
  id: string;
  title: string;
  about: string;
  /** What there is none of: `no cycles`. */
  noun: string;
  /** Whether every field that is accessed has some. */
  isEvery?: boolean;
  /** What a line of the report has. */
  ofLine?: (line: { loads: number; stores: number; rmws: number }) => number;
  /** What a place in a line has, of the costs. */
  ofCell?: (cell: CellCost) => number;
  value: (field: Field, after: boolean) => number;
}

const COSTS: Metric[] = [
  { id: "cycles", title: "cycles", about: "cycles of accesses that left their core", noun: "cycles", ofCell: (c) => c.cycles, value: (f) => f.costs?.cycles ?? 0 },
  { id: "hitm", title: "HITM", about: "modified lines fetched from another core", noun: "HITM", ofCell: (c) => c.hitm, value: (f) => f.costs?.hitm ?? 0 },
  { id: "false", title: "false sharing only", about: "cycles because the line is exchanged although no word is", noun: "false sharing", value: (f) => f.costs?.falseSharing ?? 0 },
];
const EFFECTS: Metric[] = [
  {
    id: "effect", title: "cycles", about: "mean cycles of accesses that left their core, without and with the edits", noun: "cycles",
    value: (f, after) => (after ? f.after : f.before) ?? 0,
  },
];
const HEAT: Metric[] = [
  { id: "accesses", title: "accesses", about: "loads, stores and atomics", noun: "accesses", isEvery: true, ofLine: (l) => l.loads + l.stores + l.rmws, value: (f) => f.accesses },
  { id: "loads", title: "loads", about: "accesses that only read", noun: "loads", ofLine: (l) => l.loads, value: (f) => f.loads },
  { id: "stores", title: "stores and atomics", about: "accesses that write", noun: "stores", ofLine: (l) => l.stores + l.rmws, value: (f) => f.stores + f.rmws },
];

/** What can be chosen for this page, the most informative first. */
export function metricsOf(page: Page): Metric[] {
  return [...(page.whatif ? EFFECTS : []), ...(page.costs ? COSTS : []), ...HEAT];
}

const dark = matchMedia("(prefers-color-scheme: dark)");
/** On paper and on a light screen more is darker, on a dark screen more is lighter. */
const LIGHT: [number, number] = [0.97, 0.22];
const DARK: [number, number] = [0.24, 0.97];

export interface Shade {
  fill: string;
  ink: string;
}

/** The colours of values up to `most`, by their square roots: few fields have most of it. */
export function scale(most: number): (value: number) => Shade {
  const [from, to] = dark.matches ? DARK : LIGHT;
  const shade = scaleSequentialSqrt((part: number) => interpolateMagma(from + part * (to - from))).domain([0, Math.max(most, 1)]);
  return (value) => {
    const fill = shade(value);
    return { fill, ink: isLight(fill) ? "#000" : "#fff" };
  };
}

/** Whether dark text is the more readable one on a colour. */
function isLight(colour: string): boolean {
  const parts = colour.startsWith("#")
    ? [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16))
    : (colour.match(/\d+/g) ?? []).map(Number);
  const [r = 0, g = 0, b = 0] = parts.map((part) => {
    const value = part / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  // Where black and white have the same contrast.
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179;
}

/** Calls when the screen changes between light and dark. */
export function onTheme(call: () => void): void {
  dark.addEventListener("change", call);
}

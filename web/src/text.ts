// Names as text, verdicts, and tables in columns.

import type { Measure } from "./documents";
import { SHOWN_SHARE } from "./number";

const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;

/** A name in one line, each character that drives a terminal or turns the direction of writing as `\x1b` or `\u{202e}`. */
export function shown(text: string): string {
  return text.replace(UNSAFE, (c) => {
    const code = c.codePointAt(0) ?? 0;
    if (c === "\n") return "\\n";
    if (c === "\r") return "\\r";
    if (c === "\t") return "\\t";
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
  });
}

/** Of how many interleavings figures are the mean, and of which. */
export function interleavings(count: number, seed: number): string {
  return count <= 1 ? `1 interleaving (seed ${seed})` : `mean of ${count} interleavings (seeds ${seed} to ${seed + count - 1})`;
}

/** Whether a measure of a part of the cost `of` is better or worse than before, by an amount that is shown. */
export function verdict(measure: Measure, of: number): string {
  if (measure.difference === 0 && measure.ci95 === 0) return "unchanged";
  if (!measure.significant) return "not significant";
  if (Math.abs(measure.difference) < SHOWN_SHARE * of) return "negligible";
  return measure.difference < 0 ? "better" : "worse";
}

/** A path without the elements of its arrays: `a[3].b` is `a[].b`. */
export function folded(path: string): string {
  return path.replace(/\[\d+\]/g, "[]");
}

/** The names of a field in a table of costs: without the type, all that share its bytes. */
export function namesOf(field: string, type: string): string[] {
  const plain = field.startsWith(`${type}.`) ? field.slice(type.length + 1) : field;
  return plain.split(" | ");
}

/** Rows as text in columns, figures to the right. */
export function columns(head: string[], rows: string[][], figures: boolean[]): string {
  const all = [head, ...rows];
  const widths = head.map((_, i) => Math.max(...all.map((row) => (row[i] ?? "").length)));
  const line = (row: string[]) =>
    row
      .map((cell, i) => (figures[i] ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0)))
      .join("  ")
      .trimEnd();
  const rule = widths.map((width) => "-".repeat(width)).join("  ");
  return [line(head), rule, ...rows.map(line), ""].join("\n");
}

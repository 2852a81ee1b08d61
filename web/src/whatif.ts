// View 5: what the edits change.

import { axisTop } from "d3-axis";
import { scaleLinear } from "d3-scale";
import { select } from "d3-selection";
import type { Measure, MeasuredRow, WhatIf, WhatIfDocument } from "./documents";
import { h, s, scrolled, section } from "./dom";
import { table } from "./table";
import { change, exact, short, signed, ticks } from "./number";
import { interleavings, shown, verdict } from "./text";

export function whatifView(document: WhatIfDocument): HTMLElement {
  const root = section("whatif", "What the edits change",
    "Cycles of accesses that left their core, by replay with and without the edits; ± is half the width of the 95 % confidence interval.");
  root.append(h("details", { open: document.edits.split("\n").length <= 14 }, h("summary", {}, "The edits"), editsOf(document.edits)));
  for (const result of document.results) root.append(resultOf(result));
  return root;
}

/** Edits as they are written; each line apart, since unsafe characters are escaped. */
export function editsOf(edits: string): HTMLElement {
  const pre = h("pre", { tabindex: 0, "aria-label": "Edits" });
  pre.textContent = edits.trimEnd().split("\n").map((line) => line.split("\t").map(shown).join("\t")).join("\n");
  return pre;
}

function resultOf(result: WhatIf): HTMLElement {
  const names = result.sizes.map((size) => size.name).join(", ");
  const bars: Bar[] = result.ablation.map((ablation) => ({
    name: ablation.last || !ablation.alone ? ablation.edit : `(alone) ${ablation.edit}`,
    measure: ablation.last ?? ablation.alone,
    why: ablation.why_not,
  }));
  const root = h("div", { class: "result" },
    h("h3", {}, `${result.machine}, ${result.cpus} CPUs (${result.recorded_cpus} recorded), ${result.line_bytes}-byte lines, ${interleavings(result.interleavings, result.seed)}`),
    totals(result, names),
    waterfall(result.types, bars));
  if (bars.length > 0) {
    root.append(h("p", { class: "note" }, "An edit's contribution is the effect of all edits minus that of all others; if others need it, its effect alone. Edits that help or hinder each other do not add up: the rest is that."));
  }
  root.append(
    h("h4", {}, "Why accesses left their core, before and after"), pairedBars("Cycles by cause, before and after", result.causes),
    h("h4", {}, "Where they were served from"), pairedBars("Cycles by source, before and after", result.sources.filter((row) => !["l1", "l2"].includes(row.name))),
    measured("Fields", result.fields, result),
    measured("Functions (all accesses)", result.functions, result),
  );
  return root;
}

function totals(result: WhatIf, names: string): HTMLElement {
  interface Row {
    name: string;
    measure: Measure;
  }
  const rows: Row[] = [
    { name: names, measure: result.types },
    { name: "everything", measure: result.whole },
    { name: "duration", measure: result.duration },
    { name: "CPU time", measure: result.time.cycles },
    { name: `LLC misses: ${names}`, measure: result.llc_misses.types },
    { name: "LLC misses: everything", measure: result.llc_misses.whole },
  ];
  return table<Row>({
    label: "Totals",
    columns: [
      { title: "of", value: (row) => row.name },
      { title: "before", value: (row) => row.measure.without, text: (row) => exact(row.measure.without) },
      { title: "after", value: (row) => row.measure.with, text: (row) => exact(row.measure.with) },
      { title: "change", value: (row) => row.measure.difference, text: (row) => change(row.measure.difference, row.measure.ci95, row.measure.without) },
      { title: "verdict", value: (row) => verdict(row.measure, row.measure.without), text: (row) => mark(row.measure, row.measure.without) },
    ],
    rows,
  });
}

/** Better and worse by word and sign, not by colour alone. */
export function mark(measure: Measure, of: number): HTMLElement {
  const word = verdict(measure, of);
  const sign = word === "better" ? "▼ " : word === "worse" ? "▲ " : "";
  return h("span", { class: `verdict ${word.replace(" ", "-")}` }, sign + word);
}

interface Bar {
  name: string;
  measure: Measure | null;
  why: string | null;
}

const cut = (text: string, most: number) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

const ROW = 26;
const LEFT = 300;
const WIDTH = 960;
const RIGHT = 150;

/** From the cost before to the cost after: each edit's contribution with its interval. */
function waterfall(types: Measure, bars: Bar[]): HTMLElement {
  const sum = bars.reduce((total, bar) => total + (bar.measure?.difference ?? 0), 0);
  const rest = types.difference - sum;
  const ends = [types.without, types.with, types.without + sum];
  let at = types.without;
  const steps = bars.map((bar) => {
    const from = at;
    at += bar.measure?.difference ?? 0;
    ends.push(at, at - (bar.measure?.ci95 ?? 0), at + (bar.measure?.ci95 ?? 0));
    return { bar, from, to: at };
  });
  ends.push(types.with - types.ci95, types.with + types.ci95);
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  const margin = Math.max((most - least) * 0.15, most * 0.002, 1);
  // The changes are small against the cost: the axis does not begin at 0, and says so.
  const x = scaleLinear().domain([least - margin, most + margin]).range([LEFT, WIDTH - RIGHT]).nice();
  const rows = bars.length + 2 + (bars.length > 0 ? 1 : 0);
  const height = 40 + rows * ROW;
  const said = `From ${exact(types.without)} to ${exact(types.with)} cycles`;
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "chart waterfall", role: "img", "aria-label": said });
  const axis = s("g", { class: "axis", transform: "translate(0 28)" });
  const labels = ticks(x.ticks(6));
  select(axis).call(axisTop<number | { valueOf(): number }>(x).tickValues(x.ticks(6)).tickFormat((_, i) => labels[i] ?? ""));
  svg.append(axis);
  let row = 0;
  const draw = (name: string, from: number, to: number, kind: string, ci: number, text: string) => {
    const y = 36 + row * ROW;
    row += 1;
    const [left, right] = [Math.min(x(from), x(to)), Math.max(x(from), x(to))];
    svg.append(s("g", { class: `bar ${kind}` },
      s("title", {}, `${name}: ${text}`),
      s("text", { x: LEFT - 8, y: y + 15, "text-anchor": "end" }, cut(name, 38)),
      s("rect", { x: left, y: y + 3, width: Math.max(right - left, 1), height: ROW - 8 }),
      ci > 0 && s("path", { class: "ci", d: `M${x(to - ci)},${y + 8}v8M${x(to - ci)},${y + 12}H${x(to + ci)}M${x(to + ci)},${y + 8}v8` }),
      s("text", { x: Math.max(right, x(to + ci)) + 8, y: y + 15 }, cut(text, 44))));
  };
  const zero = x.domain()[0] ?? 0;
  draw("before", zero, types.without, "whole", 0, short(types.without));
  for (const { bar, from, to } of steps) {
    const { measure } = bar;
    if (measure) draw(bar.name, from, to, verdict(measure, types.without).replace(" ", "-"), measure.ci95, change(measure.difference, measure.ci95, types.without));
    else draw(bar.name, from, from, "none", 0, bar.why ?? "no figure");
  }
  if (bars.length > 0) draw("together", types.without + sum, types.with, "rest", 0, types.without > 0 ? `${signed((100 * rest) / types.without, 2)} %` : "-");
  draw("after", zero, types.with, "whole", types.ci95, `${short(types.with)}, ${change(types.difference, types.ci95, types.without)}`);
  return h("figure", {}, scrolled(said, svg), h("figcaption", {}, "Cycles; the axis does not begin at 0."));
}

/** Before and after, side by side. */
function pairedBars(label: string, rows: MeasuredRow[]): HTMLElement {
  const most = Math.max(1, ...rows.flatMap((row) => [row.cycles.without, row.cycles.with]));
  const bar = (value: number, kind: string) => {
    const element = h("span", { class: `length ${kind}` }, exact(value));
    element.style.setProperty("--part", `${(100 * value) / most}%`);
    return element;
  };
  return scrolled(label, h("table", { class: "paired" },
    h("caption", { class: "hidden" }, label),
    h("thead", {}, h("tr", {}, ...["", "before", "after", "change"].map((t) => h(t === "" ? "td" : "th", t === "" ? {} : { scope: "col" }, t)))),
    h("tbody", {}, ...rows.map((row) => h("tr", {},
      h("th", { scope: "row" }, row.name.replaceAll("_", " ")),
      h("td", {}, bar(row.cycles.without, "before")),
      h("td", {}, bar(row.cycles.with, "after")),
      h("td", { class: "figure" }, change(row.cycles.difference, row.cycles.ci95, row.cycles.without)))))));
}

function measured(label: string, rows: MeasuredRow[], result: WhatIf): HTMLElement {
  const ofIts = result.sizes.some((size) => size.memory) ? "of the data" : "of its type";
  const part = (title: string, of: number) =>
    ({ title, value: (row: MeasuredRow) => row.cycles.difference, text: (row: MeasuredRow) => change(row.cycles.difference, row.cycles.ci95, of) });
  return h("div", {}, h("h4", {}, label), table<MeasuredRow>({
    label,
    columns: [
      { title: "name", value: (row) => row.name },
      { title: "cycles before", value: (row) => row.cycles.without, text: (row) => exact(row.cycles.without) },
      { title: "after", value: (row) => row.cycles.with, text: (row) => exact(row.cycles.with) },
      { title: "change", value: (row) => Math.abs(row.cycles.difference), text: (row) => change(row.cycles.difference, row.cycles.ci95, row.cycles.without) },
      part(ofIts, result.types.without),
      part("of all", result.whole.without),
      { title: "verdict", value: (row) => verdict(row.cycles, result.types.without), text: (row) => mark(row.cycles, result.types.without) },
    ],
    rows,
    search: (row) => row.name,
    sorted: 3,
    top: 10,
    copy: true,
  }));
}

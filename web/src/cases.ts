// View 6: cases: found, predicted, recorded again, published.

import { axisTop } from "d3-axis";
import { scaleLinear } from "d3-scale";
import { select } from "d3-selection";
import type { CaseResults, Spread } from "./documents";
import { h, s, section } from "./dom";
import { table } from "./table";
import { full, percent } from "./text";

interface Point {
  label: string;
  /** Per cent of the cost without the edit. */
  at: number;
  least: number;
  most: number;
  kind: "predicted" | "rerecorded";
}

/** The predictions of a case in per cent, and what the rebuilt kernels show. */
function pointsOf(result: CaseResults): Point[] {
  const predicted = result.predicted.filter((p) => p.types.without > 0).map((p): Point => {
    const part = (value: number) => (100 * value) / p.types.without;
    const { difference, ci95 } = p.types;
    return { label: `${p.edit}, ${p.machine}`, at: part(difference), least: part(difference - ci95), most: part(difference + ci95), kind: "predicted" };
  });
  const rebuilt = result.rebuilt.filter((r) => r.cost.without.mean > 0).map((r): Point => {
    const part = (value: number) => 100 * (value / r.cost.without.mean - 1);
    const spread: Spread = r.cost.rerecorded;
    return { label: `${r.edit}, ${r.machine}`, at: part(spread.mean), least: part(spread.least), most: part(spread.most), kind: "rerecorded" };
  });
  return [...predicted, ...rebuilt];
}

export function casesView(cases: CaseResults[]): HTMLElement {
  const root = section("cases", "Cases", "What the edits change of the cost of their types. Circles: predicted on the unmodified kernel, with the 95 % confidence interval. Squares: the rebuilt kernel recorded again, from the least to the most of its runs.");
  const all = cases.flatMap(pointsOf);
  for (const result of cases) {
    root.append(h("div", { class: "case" },
      h("h3", {}, result.case), h("p", {}, result.summary), chart(result.case, pointsOf(result), all), found(result), published(result)));
  }
  return root;
}

const WIDTH = 960;
const LEFT = 300;
const ROW = 24;

function chart(name: string, points: Point[], all: Point[]): HTMLElement {
  const labels = [...new Set(points.map((point) => point.label))];
  if (labels.length === 0) return h("p", { class: "empty" }, "Nothing was predicted.");
  const [least, most] = [Math.min(0, ...all.map((p) => p.least)), Math.max(0, ...all.map((p) => p.most))];
  // One scale for all cases.
  const x = scaleLinear().domain([least, most]).nice().range([LEFT, WIDTH - 30]);
  const height = 40 + labels.length * ROW;
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "chart", role: "img", "aria-label": `Predicted and recorded changes of ${name}; the tables have the figures` });
  const axis = s("g", { class: "axis", transform: "translate(0 28)" });
  select(axis).call(axisTop<number | { valueOf(): number }>(x).ticks(8).tickFormat((value) => `${Number(value)} %`));
  svg.append(axis, s("line", { class: "zero", x1: x(0), x2: x(0), y1: 28, y2: height }));
  labels.forEach((label, i) => {
    const y = 46 + i * ROW;
    svg.append(s("text", { x: LEFT - 8, y: y + 4, "text-anchor": "end" }, label));
    for (const point of points.filter((p) => p.label === label)) {
      const dy = point.kind === "predicted" ? -3 : 4;
      svg.append(s("g", { class: point.kind },
        s("title", {}, `${point.kind === "predicted" ? "predicted" : "recorded again"}: ${point.at.toFixed(2)} % (${point.least.toFixed(2)} to ${point.most.toFixed(2)})`),
        s("line", { x1: x(point.least), x2: x(point.most), y1: y + dy, y2: y + dy }),
        point.kind === "predicted"
          ? s("circle", { cx: x(point.at), cy: y + dy, r: 4.5 })
          : s("rect", { x: x(point.at) - 4, y: y + dy - 4, width: 8, height: 8 })));
    }
  });
  return h("figure", {}, svg);
}

function found(result: CaseResults): HTMLElement {
  return table({
    label: `${result.case}: found on the unmodified kernel`,
    columns: [
      { title: "found", value: (row) => row.name },
      { title: "bytes", value: (row) => row.bytes },
      { title: "accesses", value: (row) => row.accesses, text: (row) => full(row.accesses) },
      { title: "machine", value: (row) => row.machine },
      { title: "cycles", value: (row) => row.cycles, text: (row) => full(Math.round(row.cycles)) },
      { title: "true sharing", value: (row) => row.true_sharing, text: (row) => percent(row.true_sharing) },
      { title: "false sharing", value: (row) => row.false_sharing, text: (row) => percent(row.false_sharing) },
    ],
    rows: result.found,
  });
}

function published(result: CaseResults): HTMLElement {
  if (result.published.length === 0) return h("p", {}, "Nothing was published about it.");
  return table({
    label: `${result.case}: published`,
    columns: [
      { title: "published", value: (row) => row.key },
      { title: "their figure", value: (row) => row.published },
      { title: "found", value: (row) => row.found ?? "–" },
      { title: "predicted", value: (row) => row.predicted ?? "–" },
      { title: "recorded again", value: (row) => row.rerecorded ?? "–" },
      { title: "source", value: (row) => row.source },
    ],
    rows: result.published,
  });
}

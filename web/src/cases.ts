// View 6: cases: found, predicted, rebuilt and recorded, published.

import { axisTop } from "d3-axis";
import { scaleLinear } from "d3-scale";
import { select } from "d3-selection";
import type { CaseResults, Change, Compared, Figure, Rebuilt } from "./documents";
import { h, s, scrolled, section } from "./dom";
import { table } from "./table";
import { exact, fixed, percent, signed } from "./number";

interface Point {
  label: string;
  /** Per cent of the cost without the edit. */
  at: number;
  least: number;
  most: number;
  kind: "predicted" | "rerecorded";
}

/** What a change is read from: figures for each event where there are any. */
const best = (figure: Figure): Compared => figure.per_event ?? figure.sum;

/** A change with its interval, if there is one. */
function pointOf(label: string, change: Change | null, kind: Point["kind"]): Point[] {
  if (change === null) return [];
  const half = change.ci95 ?? 0;
  return [{ label, at: change.percent, least: change.percent - half, most: change.percent + half, kind }];
}

/** The predictions of a case in per cent, and what the rebuilt kernels show. Where one was rebuilt, both are of kernels that were built. */
function pointsOf(result: CaseResults): Point[] {
  const rebuiltOf = (p: { edit: string; machine: string }) => result.rebuilt.find((r) => r.edit === p.edit && r.machine === p.machine);
  return result.predicted.flatMap((p): Point[] => {
    const label = `${p.edit}, ${p.machine}`;
    const rebuilt = rebuiltOf(p);
    if (rebuilt) {
      const { predicted_change, recorded_change } = best(rebuilt.cost);
      return [...pointOf(label, predicted_change, "predicted"), ...pointOf(label, recorded_change, "rerecorded")];
    }
    const part = (value: number) => (100 * value) / p.types.without;
    const { difference, ci95 } = p.types;
    return p.types.without > 0 ? pointOf(label, { percent: part(difference), ci95: part(ci95) }, "predicted") : [];
  });
}

export function casesView(cases: CaseResults[]): HTMLElement {
  const root = section("cases", "Cases", "Changes of the edited types' cost, with 95 % confidence intervals. Circles: predicted from the unmodified kernel, or from the one built without patches if a patched kernel was built. Squares: rebuilt, recorded in QEMU, costed for the machine. If a case names an event, both are per event.");
  const all = cases.flatMap(pointsOf);
  for (const result of cases) {
    root.append(h("div", { class: "case" },
      h("h3", {}, result.case), h("p", {}, result.summary), chart(result.case, pointsOf(result), all), compared(result), found(result), published(result)));
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
        s("title", {}, `${point.kind === "predicted" ? "predicted" : "rebuilt, recorded in QEMU"}: ${signed(point.at, 1)} % (${signed(point.least, 1)} to ${signed(point.most, 1)})`),
        s("line", { x1: x(point.least), x2: x(point.most), y1: y + dy, y2: y + dy }),
        point.kind === "predicted"
          ? s("circle", { cx: x(point.at), cy: y + dy, r: 4.5 })
          : s("rect", { x: x(point.at) - 4, y: y + dy - 4, width: 8, height: 8 })));
    }
  });
  return h("figure", {}, scrolled(`Changes of ${name}`, svg));
}

/** A change in per cent, as results.md has it. */
function changeText(change: Change | null): string {
  if (change === null) return "-";
  const half = change.ci95 === null ? "" : ` ± ${fixed(change.ci95, 1)}`;
  return `${signed(change.percent, 1)}${half} %`;
}

/** Each figure of the rebuilt kernels, and whether the prediction fits. */
function compared(result: CaseResults): HTMLElement {
  const figuresOf = (r: Rebuilt): [string, Figure][] => [
    [r.types.join(" "), r.cost], ...Object.entries(r.functions).map(([name, figure]): [string, Figure] => [`${name}()`, figure]),
    ["everything", r.whole], ["kernel's LLC misses", r.llc_misses]];
  const rows = result.rebuilt.flatMap((r) => figuresOf(r).map(([of, figure]) => ({ r, of, compared: best(figure) })));
  if (rows.length === 0) return h("p", {}, "No kernel was rebuilt.");
  const event = result.rebuilt.find((r) => r.event !== null)?.event;
  const unit = event ? `for each ${event.name} (call of ${event.function})` : "of whole recordings";
  return table({
    label: `${result.case}: predicted and recorded, ${unit}`,
    columns: [
      { title: "edit", value: (row) => row.r.edit },
      { title: "machine", value: (row) => row.r.machine },
      { title: "of", value: (row) => row.of },
      { title: "runs", value: (row) => row.r.runs },
      { title: "predicted", value: (row) => row.compared.predicted_change?.percent ?? 0, text: (row) => changeText(row.compared.predicted_change) },
      { title: "rebuilt, recorded in QEMU", value: (row) => row.compared.recorded_change?.percent ?? 0, text: (row) => changeText(row.compared.recorded_change) },
      { title: "verdict", value: (row) => row.compared.verdict ?? "-" },
    ],
    rows,
  });
}

function found(result: CaseResults): HTMLElement {
  return table({
    label: `${result.case}: found on the unmodified kernel`,
    columns: [
      { title: "found", value: (row) => row.name },
      { title: "bytes", value: (row) => row.bytes },
      { title: "accesses", value: (row) => row.accesses, text: (row) => exact(row.accesses) },
      { title: "machine", value: (row) => row.machine },
      { title: "cycles", value: (row) => row.cycles, text: (row) => exact(row.cycles) },
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
      { title: "published figure", value: (row) => row.published },
      { title: "found", value: (row) => row.found ?? "-" },
      { title: "predicted", value: (row) => row.predicted ?? "-" },
      { title: "rebuilt, recorded in QEMU", value: (row) => row.rerecorded ?? "-" },
      { title: "source", value: (row) => row.source },
    ],
    rows: result.published,
  });
}

// View 4: accesses and HITM of a field or line over guest time, by CPU.

import { axisBottom } from "d3-axis";
import { scaleLinear } from "d3-scale";
import { select } from "d3-selection";
import type { Page, TimeGrid, PageType } from "./documents";
import { choice, h, replace, s, scrolled, section } from "./dom";
import { onTheme, scale } from "./metric";
import type { Store } from "./state";
import { table } from "./table";
import { exact, percent, short, ticks } from "./number";
import { namesOf } from "./text";

/** Something whose counts over time are known: by row of CPUs, then part of the time. */
interface Series {
  id: string;
  title: string;
  rows: number[][];
  total: number;
}

type Count = "accesses" | "HITM";

export function timeView(store: Store): HTMLElement {
  const { page } = store.state;
  const tools = h("div", { class: "tools" });
  const body = h("div");
  const root = section("time", "Time",
    "A field or a line over the recording's time, in instructions of all CPUs, and by CPU: ticks, bursts and phases.", tools, body);
  let count: Count = "accesses";
  let wanted = "";
  const redraw = () => {
    const { view } = store.state;
    const list = view ? seriesOf(page, view, count) : [];
    const chosen = list.find((series) => series.id === wanted) ?? list[0];
    const counts: [string, string][] = page.costs ? [["accesses", "accesses"], ["HITM", "HITM"]] : [["accesses", "accesses"]];
    replace(tools,
      list.length > 0 && choice("Place", list.map((series) => [series.id, `${series.title}: ${short(series.total)}`]), chosen?.id ?? "", (id) => {
        wanted = id;
        redraw();
      }),
      choice("Count", counts, count, (value) => {
        count = value === "HITM" ? "HITM" : "accesses";
        redraw();
      }));
    const grid = count === "HITM" ? page.costs?.costs.time : view?.times;
    if (!chosen || !grid) {
      body.replaceChildren(h("p", { class: "empty" }, count === "HITM" ? "No modified line was fetched by accesses to this type." : "Nothing of this type was accessed."));
      return;
    }
    body.replaceChildren(chart(chosen, grid, count), sums(chosen, grid, count));
    const missing = view && count === "accesses" ? leftOut(view) : "";
    if (missing !== "") body.append(h("p", { class: "note" }, missing));
    if (count === "HITM") {
      body.append(h("p", { class: "note" }, "Modified lines fetched, by the CPU that fetched, with its copies; when: the round of the replay in which it did."));
    }
  };
  store.on(redraw);
  onTheme(redraw);
  return root;
}

function seriesOf(page: Page, view: PageType, count: Count): Series[] {
  const found: Series[] = [];
  const add = (id: string, title: string, rows: number[][]) => {
    const total = rows.flat().reduce((a, b) => a + b, 0);
    if (total > 0) found.push({ id, title, rows, total });
  };
  if (count === "accesses") {
    for (const { line, accesses } of view.times.lines) add(`line ${line}`, `line ${line}`, accesses);
    for (const { field, offset, accesses } of view.times.fields) add(`${offset} ${field}`, field, accesses);
  } else {
    const fields = new Map<string, number[][]>();
    for (const line of page.costs?.costs.lines ?? []) {
      if (line.name !== view.name) continue;
      add(`from ${line.start}`, `line at byte ${line.start}`, line.cells.reduce<number[][]>((sum, cell) => plus(sum, cell.times ?? []), []));
      for (const cell of line.cells) {
        const name = namesOf(cell.field, line.name).join(" | ");
        fields.set(name, plus(fields.get(name) ?? [], cell.times ?? []));
      }
    }
    for (const [name, rows] of fields) add(name, name, rows);
  }
  // Fields and lines, the most first.
  return found.sort((a, b) => b.total - a.total);
}

/** What the page does not have over time. */
function leftOut(view: PageType): string {
  const parts = [[view.fields_without_times, "fields"], [view.lines_without_times, "lines"]] as const;
  const missing = parts.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`);
  return missing.length === 0 ? "" : `This page has no times of ${missing.join(" and ")} with fewer accesses: report --type ${view.name} --json has them.`;
}

function plus(a: number[][], b: number[][]): number[][] {
  return Array.from({ length: Math.max(a.length, b.length) }, (_, row) => {
    const [x, y] = [a[row] ?? [], b[row] ?? []];
    return Array.from({ length: Math.max(x.length, y.length) }, (_, bin) => (x[bin] ?? 0) + (y[bin] ?? 0));
  });
}

const nameOf = (grid: TimeGrid, row: number) => {
  const first = row * grid.cpus_per_row;
  return grid.cpus_per_row === 1 ? `CPU ${first}` : `CPUs ${first} to ${first + grid.cpus_per_row - 1}`;
};

const WIDTH = 1200;
const LEFT = 110;
const ROW = 26;

/** A strip for each row of CPUs; a bar's height and colour say how much. */
function chart(series: Series, grid: TimeGrid, count: Count): HTMLElement {
  const most = Math.max(1, ...series.rows.flat());
  const shade = scale(most);
  const end = grid.start + grid.bins * grid.step;
  const x = scaleLinear().domain([grid.start, end]).range([LEFT, WIDTH - 10]);
  const height = grid.rows * ROW + 46;
  const said = `${series.title}: ${exact(series.total)} ${count} over time, by CPU; the table below has the sums`;
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "chart time", role: "img", "aria-label": said });
  for (let row = 0; row < grid.rows; row += 1) {
    const base = (row + 1) * ROW;
    svg.append(
      s("text", { x: LEFT - 8, y: base - 6, "text-anchor": "end" }, nameOf(grid, row)),
      s("line", { class: "base", x1: LEFT, x2: WIDTH - 10, y1: base, y2: base }));
    (series.rows[row] ?? []).forEach((value, bin) => {
      if (value === 0) return;
      const from = grid.start + bin * grid.step;
      const tall = 2 + (ROW - 6) * Math.sqrt(value / most);
      svg.append(s("rect", {
        x: x(from), y: base - tall, width: Math.max(1, x(from + grid.step) - x(from) - 0.5), height: tall, fill: shade(value).fill,
        "data-row": row, "data-bin": bin, "data-value": value,
      }, s("title", {}, `${nameOf(grid, row)}, instructions ${exact(from)} to ${exact(from + grid.step)}: ${exact(value)} ${count}`)));
    });
  }
  const axis = s("g", { class: "axis", transform: `translate(0 ${grid.rows * ROW + 4})` });
  const labels = ticks(x.ticks(8));
  select(axis).call(axisBottom<number | { valueOf(): number }>(x).tickValues(x.ticks(8)).tickFormat((_, i) => labels[i] ?? ""));
  svg.append(axis, s("text", { x: WIDTH - 10, y: height - 4, "text-anchor": "end" }, "instructions"));
  return h("figure", {}, scrolled(said, svg),
    h("figcaption", {}, `Each bar: ${exact(grid.step)} instructions. Height and colour by square roots, up to ${exact(most)} ${count}.`));
}

interface RowSum {
  name: string;
  sum: number;
  busy: number;
  most: number;
}

function sums(series: Series, grid: TimeGrid, count: Count): HTMLElement {
  const rows = Array.from({ length: grid.rows }, (_, row): RowSum => {
    const values = series.rows[row] ?? [];
    return {
      name: nameOf(grid, row),
      sum: values.reduce((a, b) => a + b, 0),
      busy: values.filter((value) => value > 0).length,
      most: Math.max(0, ...values),
    };
  });
  return table<RowSum>({
    label: `${series.title} by CPU`,
    columns: [
      { title: "CPU", value: (row) => row.name },
      { title: count, value: (row) => row.sum, text: (row) => exact(row.sum), bar: true },
      { title: "of all", value: (row) => row.sum, text: (row) => percent(row.sum, series.total) },
      { title: "parts with any", help: `of ${grid.bins}`, value: (row) => row.busy },
      { title: "most in a part", value: (row) => row.most, text: (row) => exact(row.most) },
    ],
    rows,
    top: 16,
    copy: true,
  });
}

// View 3: a line under the lens, and which CPU takes modified lines from which.

import type { CellCost, CostsDocument, CpuPlace, LineCost, PageType } from "./documents";
import { choice, h, replace, scrolled, section } from "./dom";
import { onTheme, scale } from "./metric";
import type { Store } from "./state";
import { table } from "./table";
import { exact, percent, short } from "./number";
import { namesOf } from "./text";

export function lineView(store: Store, document: CostsDocument): HTMLElement {
  const tools = h("div", { class: "tools" });
  const body = h("div");
  const root = section("line", "One cache line",
    `Accesses that left their core, by place in the line, over all objects of the type, on ${document.costs.machine}.`, tools, body);
  store.on(() => draw(tools, body, store, document));
  onTheme(() => draw(tools, body, store, document));
  return root;
}

function draw(tools: HTMLElement, body: HTMLElement, store: Store, document: CostsDocument): void {
  const { view, line } = store.state;
  const lines = document.costs.lines.filter((l) => l.name === view?.name);
  const chosen = lines.find((l) => l.start === line) ?? lines[0];
  if (!view || !chosen) {
    tools.replaceChildren();
    body.replaceChildren(h("p", { class: "empty" }, "No access to this type left its core."), wholeMap(document));
    return;
  }
  const options = lines.map((l): [string, string] => [String(l.start), `${l.start}: ${short(l.cycles)} cycles, ${short(l.hitm)} HITM`]);
  replace(tools, choice(`From byte, in ${view.name}`, options, String(chosen.start), (start) => store.set({ line: Number(start) })));
  const missed = line !== null && !lines.some((l) => l.start === line);
  body.replaceChildren(
    missed ? h("p", { class: "note" }, `No access to the line at byte ${line} left its core: another line is shown.`) : "",
    h("p", {}, `${exact(chosen.lines)} such ${chosen.lines === 1 ? "line" : "lines"} moved between cores; ${exact(chosen.misses)} accesses left their core, ` +
      `${exact(chosen.hitm)} fetched a modified line (HITM), ${exact(chosen.cycles)} cycles.`),
    scrolled("The line to scale", strip(chosen, view, document.costs.line_bytes)),
    cells(chosen),
    h("div", { class: "maps" }, lineMap(chosen, document), wholeMap(document)),
  );
}

/** The line to scale: what each byte costs. */
function strip(line: LineCost, view: PageType, bytes: number): HTMLElement {
  const most = Math.max(1, ...line.cells.map((cell) => cell.cycles));
  const shade = scale(most);
  const track = h("div", { class: "track strip", "aria-hidden": "true" });
  const places = [...line.cells].sort((a, b) => a.offset - b.offset);
  places.forEach((cell, i) => {
    const next = places.slice(i + 1).find((other) => other.offset > cell.offset)?.offset ?? bytes;
    const at = line.start + cell.offset;
    const field = view.fields.find((f) => at >= f.offset && at < f.offset + f.size);
    const width = Math.max(1, Math.min(next - cell.offset, field ? field.offset + field.size - at : 8));
    const { fill, ink } = shade(cell.cycles);
    const part = h("span", { class: "block touched" }, h("span", { class: "name" }, namesOf(cell.field, line.name)[0] ?? ""), h("span", { class: "value" }, short(cell.cycles)));
    part.style.left = `${(100 * cell.offset) / bytes}%`;
    part.style.width = `${(100 * width) / bytes}%`;
    part.style.background = fill;
    part.style.color = ink;
    part.style.setProperty("--part", `${100 * Math.sqrt(cell.cycles / most)}%`);
    track.append(part);
  });
  return track;
}

function cells(line: LineCost): HTMLElement {
  interface Row {
    cell: CellCost;
    other: boolean;
  }
  const rows: Row[] = [
    ...line.cells.map((cell) => ({ cell, other: false })),
    ...line.neighbours.map((cell) => ({ cell, other: true })),
  ].sort((a, b) => b.cell.cycles - a.cell.cycles);
  const figure = (title: string, value: (cell: CellCost) => number, help?: string, bar = false) => ({
    title, bar, value: (row: Row) => value(row.cell), text: (row: Row) => exact(value(row.cell)), ...(help === undefined ? {} : { help }),
  });
  const list = table<Row>({
    label: "Places in the line",
    columns: [
      { title: "field", value: ({ cell, other }) => (other ? `+ ${cell.field}` : namesOf(cell.field, line.name).join(" | ")) },
      figure("offset", (cell) => cell.offset, "bytes from the line's start"),
      figure("cycles", (cell) => cell.cycles, "of accesses that left their core", true),
      figure("HITM", (cell) => cell.hitm, "modified lines fetched from another core"),
      figure("load misses", (cell) => cell.loads, "loads that left their core"),
      figure("cycles each", (cell) => cell.cycles_per_load, "of a load that left its core, on average"),
      figure("store misses", (cell) => cell.stores, "stores and atomics that left their core"),
      figure("upgrades", (cell) => cell.upgrades, "write permission requested"),
      { title: "functions", list: true, value: ({ cell }) => cell.functions.join(", ") },
    ],
    rows,
    sorted: 2,
    top: 24,
    copy: true,
  });
  if (line.neighbours.length > 0) list.append(h("p", { class: "note" }, "+ a field of another type on the same lines, counted there; those with less than 1 % of the line's cycles are left out"));
  return list;
}

type By = "cpu" | "domain" | "socket";

interface Group {
  title: string;
  cpus: CpuPlace[];
}

/** What distinguishes transfers: the finest of them of which there are at most 32. */
function groupsOf(cpus: CpuPlace[], wanted: By): { groups: Group[]; what: string } {
  const by = (key: (cpu: CpuPlace) => string): Group[] => {
    const groups = new Map<string, CpuPlace[]>();
    for (const cpu of cpus) groups.set(key(cpu), [...(groups.get(key(cpu)) ?? []), cpu]);
    return [...groups].map(([title, list]) => ({ title, cpus: list }));
  };
  const name = (cpu: CpuPlace) => (cpu.cpu[1] === 0 ? `CPU ${cpu.cpu[0]}` : `CPU ${cpu.cpu[0]}.${cpu.cpu[1]}`);
  if (wanted === "cpu") return { groups: by(name), what: "CPU" };
  if (wanted === "domain") return { groups: by((cpu) => `domain ${cpu.domain}`), what: "LLC domain" };
  return { groups: by((cpu) => `socket ${cpu.socket}`), what: "socket" };
}

interface Transfer {
  /** Numbers of groups. */
  from: number;
  to: number;
  hitm: number;
}

/** Of the whole recording: what is known by CPU is added up by group. */
function wholeMap(document: CostsDocument): HTMLElement {
  const { groups, what } = groupsOf(sorted(document.cpus), document.costs.pairs_by);
  const number = new Map<string, number>();
  groups.forEach((group, i) => group.cpus.forEach((cpu) => number.set(cpu.cpu.join("."), i)));
  const transfers = document.costs.pairs.map((pair): Transfer => ({
    from: number.get(pair.from.join(".")) ?? -1, to: number.get(pair.to.join(".")) ?? -1, hitm: pair.hitm,
  }));
  return mapOf(groups, what, transfers, "whole recording", "whole");
}

/** Of a line of a type: the numbers are those of CPUs, domains or sockets. */
function lineMap(line: LineCost, document: CostsDocument): HTMLElement {
  const by = document.costs.pairs_by;
  const cpus = sorted(document.cpus);
  const { groups, what } = groupsOf(cpus, by);
  const number = new Map<number, number>();
  groups.forEach((group, i) => group.cpus.forEach((cpu) => number.set(by === "cpu" ? document.cpus.indexOf(cpu) : cpu[by], i)));
  const transfers = line.pairs.map(([from, to, hitm]): Transfer => ({ from: number.get(from) ?? -1, to: number.get(to) ?? -1, hitm }));
  return mapOf(groups, what, transfers, `${line.name}, line from byte ${line.start}`, "one");
}

const sorted = (cpus: CpuPlace[]) =>
  [...cpus].sort((a, b) => a.socket - b.socket || a.domain - b.domain || a.cpu[0] - b.cpu[0] || a.cpu[1] - b.cpu[1]);

/** Who takes modified lines from whom, ordered by socket and domain. */
function mapOf(groups: Group[], what: string, transfers: Transfer[], of: string, kind: string): HTMLElement {
  const title = `HITM by ${what}: ${of}`;
  if (transfers.length === 0) return h("div", { class: kind }, h("h3", {}, title), h("p", { class: "empty" }, "No core took a modified line from another."));
  const sums = groups.map(() => groups.map(() => 0));
  for (const { from, to, hitm } of transfers) {
    const row = sums[from];
    if (row && to >= 0) row[to] = (row[to] ?? 0) + hitm;
  }
  const all = sums.flat().reduce((a, b) => a + b, 0);
  const shade = scale(Math.max(...sums.flat()));
  const edge = (i: number) => {
    const [here, before] = [groups[i]?.cpus[0], groups[i - 1]?.cpus[0]];
    if (!here || !before) return "";
    if (here.socket !== before.socket) return "socket";
    return here.domain !== before.domain ? "domain" : "";
  };
  const spans = (key: (cpu: CpuPlace) => string, title: (cpu: CpuPlace) => string) => {
    const cells: HTMLElement[] = [];
    for (let i = 0; i < groups.length; ) {
      const first = groups[i]?.cpus[0];
      if (!first) break;
      const rest = groups.slice(i).findIndex((group) => group.cpus[0] && key(group.cpus[0]) !== key(first));
      const count = rest < 0 ? groups.length - i : rest;
      cells.push(h("th", { scope: "colgroup", colspan: count, class: edge(i) }, title(first)));
      i += count;
    }
    return h("tr", {}, h("td", {}), ...cells);
  };
  const rows = groups.map((group, i) =>
    h("tr", { class: edge(i) }, h("th", { scope: "row" }, group.title),
      ...groups.map((_, j) => {
        const value = sums[i]?.[j] ?? 0;
        const said = `${group.title} wrote, ${groups[j]?.title} took: ${exact(value)} modified lines, ${percent(value, all)}`;
        const cell = h("td", { class: edge(j), title: said }, value === 0 ? "·" : short(value));
        if (value > 0) {
          const { fill, ink } = shade(value);
          cell.style.background = fill;
          cell.style.color = ink;
        }
        return cell;
      })));
  const head = [
    what !== "socket" && spans((cpu) => `${cpu.socket}`, (cpu) => `socket ${cpu.socket}`),
    what === "CPU" && spans((cpu) => `${cpu.socket}.${cpu.domain}`, (cpu) => `domain ${cpu.domain}`),
  ];
  return h("div", { class: kind },
    h("h3", {}, title),
    h("p", { class: "about" }, "Rows wrote last, columns took the modified line. Thick lines separate sockets, thin ones LLC domains."),
    scrolled(title,
      h("table", { class: "map" },
        h("caption", { class: "hidden" }, `Modified lines by the ${what} that wrote last (rows) and the one that took them (columns)`),
        h("thead", {}, ...head, h("tr", {}, h("td", {}), ...groups.map((group, i) => h("th", { scope: "col", class: edge(i) }, group.title.replace("CPU ", ""))))),
        h("tbody", {}, ...rows))));
}

// View 1: the struct as it is in memory.

import { blocksOf, linesOf, type Block, type Part } from "./blocks";
import { detailsOf } from "./details";
import type { FieldMap } from "./documents";
import { choice, h, replace, s, section } from "./dom";
import { changeOf, fieldsOf, moved, type Field } from "./fields";
import { metricsOf, onTheme, scale, type Metric, type Shade } from "./metric";
import type { State, Store } from "./state";
import { full, percent, shown, short } from "./text";

/** A layout drawn: one of one, or one of two. */
interface Drawing {
  title: string;
  map: FieldMap;
  blocks: Block[];
  after: boolean;
}

export function structView(store: Store): HTMLElement {
  const { page } = store.state;
  const tools = h("div", { class: "tools" });
  const grid = h("div", { class: "struct" });
  const details = h("aside", { class: "details", "aria-live": "polite", "aria-label": "The chosen field" });
  const about = page.layouts.length > 0
    ? "One row is one cache line; bytes are to scale. Curves lead from where a field is to where it goes."
    : "One row is one cache line; bytes are to scale. Arrow keys go from field to field.";
  const root = section("struct", "The struct in memory", about, tools, h("div", { class: "columns" }, grid, details));
  store.on(() => {
    drawTools(tools, store);
    draw(grid, details, store);
  });
  onTheme(() => draw(grid, details, store));
  // Curves are drawn between places on the screen: anew whenever these have moved, and not before they are known.
  new ResizeObserver(() => trace(grid, store.state)).observe(grid);
  return root;
}

function drawTools(tools: HTMLElement, store: Store): void {
  const { page, view, metric, lineBytes, cold } = store.state;
  const types = page.types.map((t): [string, string] => [t.name, shown(t.name)]);
  const metrics = metricsOf(page);
  const fold = h("input", { type: "checkbox", id: "choice-cold", checked: cold, change: () => store.set({ cold: fold.checked }) });
  replace(
    tools,
    choice("Type", types, view?.name ?? "", (name) => store.set({ view: page.types.find((t) => t.name === name) ?? null })),
    choice("Colour", metrics.map((m) => [m.id, m.title]), metric.id, (id) =>
      store.set({ metric: metrics.find((m) => m.id === id) ?? metric })),
    choice("Line", [["64", "64 bytes"], ["128", "128 bytes"]], String(lineBytes), (bytes) => store.set({ lineBytes: Number(bytes) })),
    h("span", { class: "choice" }, fold, h("label", { for: "choice-cold" }, "Lines that nothing touches")),
  );
}

function drawingsOf(state: State, fields: Field[]): Drawing[] {
  const { page, view, metric, lineBytes } = state;
  if (!view) return [];
  const ranked = (after: boolean, list: Field[]) => [...list].sort((a, b) => metric.value(b, after) - metric.value(a, after) || b.accesses - a.accesses);
  const change = changeOf(page, view.name, lineBytes);
  if (!change) return [{ title: "", map: view.layout, blocks: blocksOf(view.layout, ranked(false, fields)), after: false }];
  const under = (map: FieldMap) =>
    fields.flatMap((field) => {
      const offset = moved(field.offset, field.path, view.layout, map);
      return offset === null ? [] : [{ ...field, offset }];
    });
  const [first, second] = page.diff ? ["A", "B"] : ["before", "after"];
  return [
    { title: first ?? "", map: change.before, blocks: blocksOf(change.before, ranked(false, under(change.before))), after: false },
    { title: second ?? "", map: change.after, blocks: blocksOf(change.after, ranked(true, under(change.after))), after: true },
  ];
}

const valueOf = (block: Block, metric: Metric, after: boolean) =>
  block.fields.reduce((sum, field) => sum + metric.value(field, after), 0);

function draw(grid: HTMLElement, details: HTMLElement, store: Store): void {
  const { page, view, metric, lineBytes } = store.state;
  if (!view) {
    grid.replaceChildren(h("p", { class: "empty" }, "No type is known in this recording: there is no struct to show."));
    details.replaceChildren();
    return;
  }
  const fields = fieldsOf(page, view);
  const drawings = drawingsOf(store.state, fields);
  const most = Math.max(0, ...drawings.flatMap((d) => d.blocks.map((b) => valueOf(b, metric, d.after))));
  const shade = scale(most);
  const show = (block: Block, drawing: Drawing) => {
    details.replaceChildren(detailsOf(store.state, block, drawing.after));
    for (const other of grid.querySelectorAll(".same")) other.classList.remove("same");
    if (block.fields.length === 0) return;
    for (const other of grid.querySelectorAll(`[data-path="${CSS.escape(shown(block.name))}"]`)) other.classList.add("same");
  };
  const bodies = drawings.map((drawing) => drawn(drawing, store, most, shade, show));
  const head = drawings.map((drawing) => {
    const lines = Math.ceil(drawing.map.size / lineBytes);
    return h("p", { class: "size" }, drawing.title !== "" && h("strong", {}, `${drawing.title}: `),
      `${full(drawing.map.size)} bytes, ${lines} ${lines === 1 ? "line" : "lines"} of ${lineBytes}`);
  });
  grid.classList.toggle("two", drawings.length > 1);
  grid.replaceChildren(
    legend(metric, most, shade, drawings.some((d) => d.blocks.some((b) => b.kind === "hole" || b.kind === "padding"))),
    h("div", { class: "layouts" }, ...bodies.map((body, i) => h("div", { class: "layout" }, head[i], body))),
  );
  if (fields.length === 0) grid.prepend(h("p", { class: "empty" }, "Nothing of this type was accessed."));
  const first = drawings[0];
  const block = first && [...first.blocks].sort((a, b) => valueOf(b, metric, false) - valueOf(a, metric, false))[0];
  if (first && block) show(block, first);
  else details.replaceChildren();
  if (page.costs && lineBytes !== page.costs.costs.line_bytes) {
    grid.append(h("p", { class: "note" }, `Costs are those of lines of ${page.costs.costs.line_bytes} bytes on ${page.costs.costs.machine}.`));
  }
  // The observer does not see that rows have changed places while all of them are as high as before.
  requestAnimationFrame(() => trace(grid, store.state));
}

/** The rows of a layout; what nothing touches is folded. */
function drawn(
  drawing: Drawing, store: Store, most: number, shade: (value: number) => Shade, show: (block: Block, drawing: Drawing) => void,
): HTMLElement {
  const { metric, lineBytes, cold } = store.state;
  const rows = linesOf(drawing.map.size, lineBytes, drawing.blocks);
  const totals = rows.map((parts) => parts.reduce((sum, p) => sum + (p.first ? valueOf(p.block, metric, drawing.after) : 0), 0));
  const sum = totals.reduce((a, b) => a + b, 0);
  const top = Math.max(...totals, 1);
  const list = h("div", { class: "lines", role: "group", "aria-label": `Lines${drawing.title === "" ? "" : ` ${drawing.title}`}` });
  const blocks = new Map<Element, Block>();
  const see = (event: Event) => {
    const element = event.target instanceof Element ? event.target.closest("button.block") : null;
    const block = element && blocks.get(element);
    if (block) show(block, drawing);
  };
  for (const event of ["mouseover", "focusin", "click"]) list.addEventListener(event, see);
  let quiet: number[] = [];
  const flush = () => {
    const [first, last] = [quiet[0], quiet.at(-1)];
    if (first !== undefined && last !== undefined) {
      const which = first === last ? `line ${first}` : `lines ${first} to ${last}`;
      list.append(h("button", { type: "button", class: "fold", click: () => store.set({ cold: true }) }, `${which}: no ${metric.title}`));
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
    const track = h("div", { class: "track" });
    let before = "";
    for (const part of parts) {
      const element = drawnPart(part, drawing, nameIn(part.block, before), metric, lineBytes, most, shade);
      blocks.set(element, part.block);
      track.append(element);
      before = part.block.kind === "hole" ? before : part.block.name;
    }
    const label = h("button", {
      type: "button", class: "line", title: `bytes ${number * lineBytes} to ${(number + 1) * lineBytes - 1}: see what happens inside`,
      click: () => {
        store.set({ line: number * lineBytes });
        document.getElementById("line")?.scrollIntoView({ behavior: "instant" });
      },
    }, `${number}`);
    const bar = h("span", { class: "total", title: `${full(total)} ${metric.title}` }, h("span", {}, `${short(total)}`), h("small", {}, percent(total, sum)));
    bar.style.setProperty("--part", `${(100 * total) / top}%`);
    list.append(h("div", { class: "row" }, store.state.page.costs ? label : h("span", { class: "line" }, `${number}`), track, bar));
  });
  flush();
  arrows(list);
  return list;
}

/** A name as it is written in its line: after `cfs.avg.load_sum`, `cfs.avg.util_sum` is `.util_sum`. */
function nameIn(block: Block, before: string): string {
  const [parts, known] = [block.name.split("."), before.split(".")];
  let same = 0;
  while (same < Math.min(parts.length, known.length) - 1 && parts[same] === known[same]) same += 1;
  return same === 0 || block.name === before ? block.name : `.${parts.slice(same).join(".")}`;
}

function drawnPart(
  part: Part, drawing: Drawing, label: string, metric: Metric, lineBytes: number, most: number,
  shade: (value: number) => Shade,
): HTMLElement {
  const { block } = part;
  const value = valueOf(block, metric, drawing.after);
  const unused = block.kind === "hole" || block.kind === "padding";
  const said = `${block.name}, bytes ${block.offset} to ${block.offset + block.size - 1}${unused ? "" : `, ${full(Math.round(value))} ${metric.title}`}`;
  const element = h(unused ? "span" : "button", {
    type: unused ? null : "button",
    class: `block ${block.kind}${part.first ? "" : " rest"}`,
    "aria-label": unused ? null : said,
    title: unused ? said : null,
    tabindex: unused ? null : -1,
    "data-path": unused ? null : block.name,
    "data-value": unused ? null : Math.round(value),
    "data-offset": unused ? null : block.offset,
  });
  element.style.left = `${(100 * (part.offset % lineBytes)) / lineBytes}%`;
  element.style.width = `${(100 * part.size) / lineBytes}%`;
  if (!unused) {
    if (value > 0) {
      const { fill, ink } = shade(value);
      element.style.background = fill;
      element.style.color = ink;
    }
    element.append(h("span", { class: "name" }, label));
    // Not by colour alone: the figure, and a bar of its length.
    if (value > 0 && part.first) {
      element.append(h("span", { class: "value" }, short(value)));
      element.style.setProperty("--part", `${100 * Math.sqrt(value / Math.max(most, 1))}%`);
    }
  }
  return element;
}

/** One stop of the tab key for all fields; arrows go from one to the next. */
function arrows(list: HTMLElement): void {
  const blocks = [...list.querySelectorAll<HTMLElement>("button.block")];
  const rowOf = (block: HTMLElement) => block.closest(".row");
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
      const row = candidates.map(rowOf).find((r) => r !== rowOf(current));
      const left = current.offsetLeft + current.offsetWidth / 2;
      const inRow = blocks.filter((block) => rowOf(block) === row);
      next = inRow.find((block) => block.offsetLeft <= left && left <= block.offsetLeft + block.offsetWidth) ?? inRow[0];
    } else return;
    event.preventDefault();
    next?.focus();
  });
}

function legend(metric: Metric, most: number, shade: (value: number) => Shade, hatched: boolean): HTMLElement {
  const steps = [0, 0.05, 0.25, 0.5, 1];
  const ticks = steps.filter((part) => part === 1 || most * part >= 1).map((part) => {
    const { fill, ink } = shade(most * part);
    const tick = h("li", {}, short(most * part));
    tick.style.background = fill;
    tick.style.color = ink;
    return tick;
  });
  return h("div", { class: "legend" },
    h("span", {}, `${metric.title} (${metric.about})`),
    most > 0 && h("ul", { "aria-label": "Scale" }, ...ticks),
    h("span", { class: "key cold" }, `accessed, no ${metric.title}`),
    h("span", { class: "key cold quiet" }, "not accessed"),
    hatched && h("span", { class: "key hole" }, "hole or padding"));
}

/** Curves from the fields of the first layout to where they are in the second: those that matter and have moved. */
function trace(grid: HTMLElement, state: State): void {
  const between = grid.querySelector<HTMLElement>(".layouts");
  const [left, right] = grid.querySelectorAll<HTMLElement>(".layout");
  between?.querySelector(".traces")?.remove();
  if (!between || !left || !right) return;
  const frame = between.getBoundingClientRect();
  const edges = [left, right].map((layout) => layout.querySelector(".track")?.getBoundingClientRect());
  const [first, second] = edges;
  if (!first || !second || second.left <= first.right) return;
  const svg = s("svg", { class: "traces", width: frame.width, height: frame.height, "aria-hidden": "true" });
  const middle = (element: HTMLElement) => {
    const box = element.getBoundingClientRect();
    return box.top + box.height / 2 - frame.top;
  };
  const places = new Map<string, number>();
  for (const block of right.querySelectorAll<HTMLElement>("button.block:not(.rest)")) {
    places.set(block.dataset["path"] ?? "", middle(block));
  }
  const start = (left.querySelector(".total")?.getBoundingClientRect().right ?? first.right) - frame.left;
  const end = (right.querySelector(".line")?.getBoundingClientRect().left ?? second.left) - frame.left;
  const change = changeOf(state.page, state.view?.name ?? "", state.lineBytes);
  for (const block of left.querySelectorAll<HTMLElement>("button.block.touched:not(.rest)")) {
    const path = block.dataset["path"] ?? "";
    const y = places.get(path);
    const from = Number(block.dataset["offset"]);
    const stays = change !== null && moved(from, path, change.before, change.after) === from;
    if (y === undefined || stays || block.dataset["value"] === "0") continue;
    const y0 = middle(block);
    const half = (end - start) / 2;
    svg.append(s("path", { class: "trace", "data-path": path, d: `M${start},${y0}C${start + half},${y0} ${end - half},${y} ${end},${y}` }));
  }
  between.append(svg);
}

// View 1: the struct as it is in memory.

import { blocksOf, type Block } from "./blocks";
import { detailsOf } from "./details";
import type { FieldMap, KeptLineStart, Page, PageType } from "./documents";
import { choice, h, replace, section } from "./dom";
import { changeOf, fieldsOf, moved, type Field } from "./fields";
import { metricsOf, onTheme, scale, type Metric, type Shade } from "./metric";
import { exact, short } from "./number";
import { bytesSideBySide, drawnRows, valueOf, type Drawing } from "./rows";
import type { State, Store } from "./state";
import { shown } from "./text";
import { trace } from "./trace";

/** The most places of a type's objects that are named. */
const PLACES = 6;

export function structView(store: Store): HTMLElement {
  const { page } = store.state;
  const tools = h("div", { class: "tools" });
  const grid = h("div", { class: "struct" });
  const details = h("aside", { class: "details", tabindex: 0, "aria-live": "polite", "aria-label": "The chosen field" });
  const about = `One row is one cache line; bytes are to scale. ${aboutLayouts(page)}`;
  const root = section("struct", "The struct in memory", about, tools, h("div", { class: "columns" }, grid, details));
  // What a line is drawn in depends on its width, which is known when it is on the screen.
  let width = Infinity;
  const redraw = () => draw(grid, details, store, width);
  store.on(() => {
    drawTools(tools, store);
    redraw();
  });
  onTheme(redraw);
  new ResizeObserver(() => {
    const { lineBytes } = store.state;
    const before = bytesSideBySide(width, lineBytes);
    width = grid.querySelector(".track")?.clientWidth ?? width;
    if (bytesSideBySide(width, lineBytes) !== before) redraw();
    // Curves are drawn between places on the screen: anew whenever these have moved.
    trace(grid, store.state);
  }).observe(grid);
  return root;
}

function aboutLayouts(page: Page): string {
  if (page.diff) return "Curves connect a field's place in A with its place in B. Accesses are A's in both.";
  if (page.layouts.length > 0) return "Curves connect a field's place before with its place after.";
  return "Arrow keys go from field to field.";
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
    h("span", { class: "choice" }, fold, h("label", { for: "choice-cold" }, "Lines without accesses")),
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

function draw(grid: HTMLElement, details: HTMLElement, store: Store, width: number): void {
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
  const look = { most, shade, show, trackBytes: bytesSideBySide(width, lineBytes) };
  const bodies = drawings.map((drawing) => drawnRows(drawing, store, look));
  const head = drawings.map((drawing) => {
    const lines = Math.ceil(drawing.map.size / lineBytes);
    return h("p", { class: "size" }, drawing.title !== "" && h("strong", {}, `${drawing.title}: `),
      `${drawing.map.size} bytes, ${lines} ${lines === 1 ? "line" : "lines"} of ${lineBytes}`);
  });
  grid.classList.toggle("two", drawings.length > 1);
  grid.replaceChildren(
    legend(metric, most, shade, drawings.some((d) => d.blocks.some((b) => b.kind === "hole" || b.kind === "padding"))),
    h("div", { class: "layouts" }, ...bodies.map((body, i) => h("div", { class: "layout" }, head[i], body))),
  );
  if (view.places.length > 0) grid.prepend(placesOf(view));
  if (fields.length === 0) grid.prepend(h("p", { class: "empty" }, "Nothing of this type was accessed."));
  for (const said of lineStarts(page, view, lineBytes)) grid.append(h("p", { class: "note" }, said));
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

/** Members that the edits leave at the start of a line, or take away from it, where that is a guess. */
function lineStarts(page: Page, view: PageType, lineBytes: number): string[] {
  const starts = changeOf(page, view.name, lineBytes)?.line_starts ?? [];
  const said = (list: KeptLineStart[], what: string, source: string) => list.length === 0 ? [] : [
    `${what}, since BTF does not show which members are aligned: ${list.map((s) => s.member).join(", ")}; where the source ${source}: ` +
      `${list.map((s) => `\`${s.otherwise}\``).join(", ")}.`];
  return [
    ...said(starts.filter((s) => s.kept), "Left at line starts", "does not align one"),
    ...said(starts.filter((s) => !s.kept), "Moved off a line start", "aligns one"),
  ];
}

/** Where the accesses are: a type's row in the list is without those inside other types. */
function placesOf(view: PageType): HTMLElement {
  const places = view.places.slice(0, PLACES).map((place) => `${place.owner} ${exact(place.accesses)}`);
  const more = view.places.length - places.length;
  return h("p", { class: "note" },
    `${exact(view.figures.accesses)} accesses: ${places.join(", ")}${more > 0 ? ` and ${more} more places` : ""}.`);
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
    !metric.isEvery && h("span", { class: "key cold" }, `accessed, no ${metric.noun}`),
    h("span", { class: "key cold quiet" }, "not accessed"),
    hatched && h("span", { class: "key hole" }, "hole or padding"));
}


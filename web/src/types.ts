// View 2: types and their fields, ranked.

import type { Cost, Page } from "./documents";
import { h, section } from "./dom";
import { fieldsOf, type Field } from "./fields";
import type { Store } from "./state";
import { table, type Column } from "./table";
import { exact, percent } from "./number";
import { interleavings } from "./text";

interface Ranked {
  name: string;
  /** None of what is no type: blocks without one, page contents. */
  size: number | null;
  /** None of what the page's part of the report does not have. */
  accesses: number | null;
  /** Accesses to bytes that come from another CPU; none where no order among CPUs is known. */
  shared: number | null;
  cost: Cost | null;
  detailed: boolean;
}

/** Cycles that are not of words that are exchanged; no bound of what a layout saves. */
function otherThanTrue(cost: Cost): number {
  return cost.causes.false_sharing + cost.causes.cold + cost.causes.capacity + cost.causes.unshared;
}

/** Types, by name; with costs also what is no type, since it can be what costs most. */
function rowsOf(page: Page): Ranked[] {
  const rows = new Map<string, Ranked>();
  const detailed = new Set(page.types.map((t) => t.name));
  for (const row of page.report?.types ?? []) {
    const known = rows.get(row.name);
    if (known) {
      known.accesses = (known.accesses ?? 0) + row.accesses;
      known.shared = row.shared == null ? known.shared : (known.shared ?? 0) + row.shared;
      known.size ??= row.size;
    } else {
      rows.set(row.name, {
        name: row.name, size: row.size, accesses: row.accesses, shared: row.shared ?? null, cost: null, detailed: detailed.has(row.name),
      });
    }
  }
  for (const cost of page.costs?.costs.types ?? []) {
    const row = rows.get(cost.name);
    if (row) row.cost = cost;
    else rows.set(cost.name, { name: cost.name, size: null, accesses: null, shared: null, cost, detailed: detailed.has(cost.name) });
  }
  return [...rows.values()].filter((row) => row.size !== null || row.detailed || (row.cost?.cycles ?? 0) > 0);
}

/** What the list is sorted by, and where costs are, if not in it. */
function aboutTypes(page: Page): string {
  if (page.costs) {
    const { machine, seed, interleavings: count } = page.costs.costs;
    return `By cycles on ${machine}, ${interleavings(count ?? 1, seed)}. Nested types count as their outermost type.`;
  }
  const by = rowsOf(page).some((row) => row.shared !== null) ? "shared accesses" : "accesses";
  if (page.whatif) return `By ${by}. What the edits change has the cycles of the edited types; those of all types: linemate report --machine.`;
  if (page.advise) return `By ${by}. The advice has the cycles that were replayed; those of all types: linemate report --machine.`;
  if (page.diff?.machine) return `By ${by}, in A. The fields in two recordings have their cycles.`;
  return `By ${by}; with --machine by what they cost. Nested types count as their outermost type.`;
}

function nameColumn(store: Store): Column<Ranked> {
  const { page } = store.state;
  const choose = (row: Ranked) => {
    store.set({ view: page.types.find((t) => t.name === row.name) ?? null });
    document.getElementById("struct")?.scrollIntoView({ behavior: "instant" });
  };
  const why = (row: Ranked) => row.size === null
    ? "not a type: no fields are known"
    : `its fields are not in this page: linemate report --type ${row.name} --html FILE`;
  return {
    title: "type",
    value: (row) => row.name,
    text: (row) => row.detailed
      ? h("button", { type: "button", class: "link", click: () => choose(row) }, row.name)
      : h("span", { title: why(row) }, row.name),
  };
}

function costColumns(page: Page): Column<Ranked>[] {
  const whole = page.costs?.costs.whole.cycles ?? 0;
  const of = (figure: (cost: Cost) => number) => (row: Ranked) => (row.cost ? figure(row.cost) : 0);
  const figure = (title: string, help: string, value: (cost: Cost) => number, bar = false): Column<Ranked> => ({
    title, help, bar, value: of(value), text: (row) => exact(of(value)(row)),
  });
  return [
    figure("cycles", "of accesses that left their core", (cost) => cost.cycles, true),
    { title: "of all", value: of((c) => c.cycles), text: (row) => percent(of((c) => c.cycles)(row), whole) },
    figure("not true sharing", "cycles of false sharing, cold, capacity and unshared misses", otherThanTrue),
    figure("false sharing", "cycles because the line is exchanged although no word is", (c) => c.causes.false_sharing),
    figure("true sharing", "cycles of words that are exchanged: a layout reduces them only by putting words exchanged together on one line", (c) => c.causes.true_sharing),
    figure("HITM", "modified lines fetched from another core", (c) => c.hitm.reduce((a, b) => a + b, 0)),
  ];
}

export function typesView(store: Store): HTMLElement {
  const { page } = store.state;
  const list = h("div");
  const root = section("types", "Types", aboutTypes(page), list);
  const rows = rowsOf(page);
  const hasOrder = rows.some((row) => row.shared !== null);
  const count = (value: number | null) => (value === null ? "-" : exact(value));
  const shared: Column<Ranked> = {
    title: "shared", help: "accesses to bytes of an object that come from another CPU", bar: !page.costs,
    value: (row) => row.shared ?? -1, text: (row) => count(row.shared),
  };
  list.append(table<Ranked>({
    label: "Types",
    columns: [
      nameColumn(store),
      ...(page.costs ? costColumns(page) : []),
      { title: "bytes", value: (row) => row.size ?? -1, text: (row) => count(row.size) },
      ...(hasOrder ? [shared] : []),
      { title: "accesses", value: (row) => row.accesses ?? -1, text: (row) => count(row.accesses), bar: !page.costs && !hasOrder },
    ],
    rows,
    sorted: page.costs ? 1 : 2,
    search: (row) => row.name,
    marked: (row) => row.name === store.state.view?.name,
    top: 12,
    copy: true,
  }));
  if (page.rows_left_out > 0) {
    list.append(h("p", { class: "note" }, `${page.rows_left_out} more rows are not in this page: report --all --json has them.`));
  }
  store.on(() => {
    for (const row of list.querySelectorAll("tbody tr")) {
      row.classList.toggle("marked", row.querySelector("th")?.textContent === store.state.view?.name);
    }
  });
  return root;
}

/** The fields of the chosen type. */
export function fieldsView(store: Store): HTMLElement {
  const { page } = store.state;
  const list = h("div");
  const root = section("fields", "Fields", "The fields of the chosen type that are accessed.", list);
  let shown: unknown = null;
  store.on(() => {
    const { view } = store.state;
    if (shown === view && view) return;
    shown = view;
    if (!view) {
      list.replaceChildren(h("p", { class: "empty" }, "No type is known in this recording."));
      return;
    }
    const fields = fieldsOf(page, view);
    list.replaceChildren(table({
      label: `Fields of ${view.name}`,
      columns: columnsOf(page, fields),
      rows: fields,
      sorted: page.costs ? 4 : 3,
      search: (field) => [field.path, ...field.aliases, ...(field.functions ?? []).map((f) => f.name), ...field.costly].join(" "),
      top: 20,
      copy: true,
    }));
    const rest = view.rest.field.length;
    if (rest > 0) {
      list.append(h("p", { class: "note" },
        `Of the ${rest} fields with fewest accesses this page leaves out functions and other names: report --type ${view.name} --json has them.`));
    }
  });
  return root;
}

function columnsOf(page: Page, fields: Field[]): Column<Field>[] {
  const figure = (title: string, value: (field: Field) => number, help?: string, bar = false): Column<Field> => ({
    title, value, bar, text: (field) => exact(value(field)), ...(help === undefined ? {} : { help }),
  });
  const whole = fields.reduce((sum, field) => sum + (field.costs?.cycles ?? 0), 0);
  const costs: Column<Field>[] = [
    figure("cycles", (f) => f.costs?.cycles ?? 0, "of accesses that left their core", true),
    { title: "of the type", value: (f) => f.costs?.cycles ?? 0, text: (f) => percent(f.costs?.cycles ?? 0, whole) },
    figure("HITM", (f) => f.costs?.hitm ?? 0, "modified lines fetched from another core"),
    figure("false sharing", (f) => f.costs?.falseSharing ?? 0, "cycles because the line is exchanged although no word is"),
  ];
  return [
    { title: "field", value: (f) => f.path },
    { title: "offset", value: (f) => f.offset },
    { title: "size", value: (f) => f.size },
    figure("accesses", (f) => f.accesses, "loads, stores and atomics", !page.costs),
    ...(page.costs ? costs : []),
    figure("loads", (f) => f.loads),
    figure("stores", (f) => f.stores),
    figure("atomics", (f) => f.rmws),
    figure("silent", (f) => f.silent, "stores that are known to have left memory unchanged"),
    figure("readers", (f) => f.readers, "CPUs that read it"),
    figure("writers", (f) => f.writers, "CPUs that write it"),
    { title: "functions", list: true, value: (f) => f.functions?.map((x) => x.name).join(", ") ?? "not in this page" },
  ];
}

// View 2: types and their fields, ranked.

import type { Cost, Page, TypeRow } from "./documents";
import { h, section } from "./dom";
import { fieldsOf, type Field } from "./fields";
import type { Store } from "./state";
import { table, type Column } from "./table";
import { full, percent, short } from "./text";

interface Ranked {
  name: string;
  size: number | null;
  accesses: number;
  cost: Cost | null;
  detailed: boolean;
}

/** What a layout can change of a cost, at most. */
export function changeable(cost: Cost): number {
  return cost.causes.false_sharing + cost.causes.cold + cost.causes.capacity + cost.causes.unshared;
}

function rowsOf(page: Page): Ranked[] {
  const rows = new Map<string, Ranked>();
  const detailed = new Set(page.types.map((t) => t.name));
  for (const row of page.report?.types ?? []) {
    if (!isTyped(row)) continue;
    const known = rows.get(row.name);
    if (known) known.accesses += row.accesses;
    else rows.set(row.name, { name: row.name, size: row.size, accesses: row.accesses, cost: null, detailed: detailed.has(row.name) });
  }
  for (const cost of page.costs?.costs.types ?? []) {
    const row = rows.get(cost.name);
    if (row) row.cost = cost;
  }
  return [...rows.values()];
}

const isTyped = (row: TypeRow) => row.size !== null;

export function typesView(store: Store): HTMLElement {
  const { page } = store.state;
  const rows = rowsOf(page);
  const whole = page.costs?.costs.whole.cycles ?? 0;
  const about = page.costs
    ? "What a layout can win at most is all of a type's cycles but those of true sharing."
    : "By accesses: what they cost is known with --machine.";
  const root = section("types", "Types", about);
  const name: Column<Ranked> = {
    title: "type",
    value: (row) => row.name,
    text: (row) => row.detailed
      ? h("button", {
          type: "button", class: "link",
          click: () => {
            store.set({ view: page.types.find((t) => t.name === row.name) ?? null });
            document.getElementById("struct")?.scrollIntoView({ behavior: "instant" });
          },
        }, row.name)
      : h("span", { title: `not in this page: linemate report --type ${row.name} --html FILE` }, row.name),
  };
  const plain: Column<Ranked>[] = [
    { title: "bytes", value: (row) => row.size ?? 0, text: (row) => full(row.size ?? 0) },
    { title: "accesses", value: (row) => row.accesses, text: (row) => short(row.accesses), bar: !page.costs },
  ];
  const of = (figure: (cost: Cost) => number) => (row: Ranked) => (row.cost ? figure(row.cost) : 0);
  const figure = (title: string, help: string, value: (cost: Cost) => number, bar = false): Column<Ranked> => ({
    title, help, bar, value: of(value), text: (row) => short(of(value)(row)),
  });
  const costs: Column<Ranked>[] = [
    figure("a layout wins at most", "cycles of false sharing, cold, capacity and unshared misses", changeable, true),
    figure("cycles", "of accesses that left their core", (cost) => cost.cycles, true),
    { title: "of all", value: of((c) => c.cycles), text: (row) => percent(of((c) => c.cycles)(row), whole) },
    figure("false sharing", "cycles because the line is exchanged, though no word is", (c) => c.causes.false_sharing),
    figure("true sharing", "cycles of words that are really exchanged", (c) => c.causes.true_sharing),
    figure("HITM", "modified lines fetched from another core", (c) => c.hitm.reduce((a, b) => a + b, 0)),
  ];
  const list = h("div");
  root.append(list);
  const make = () => table({
    label: "Types",
    columns: [name, ...(page.costs ? costs : []), ...plain],
    rows,
    sorted: page.costs ? 1 : 2,
    search: (row) => row.name,
    marked: (row) => row.name === store.state.view?.name,
    top: 12,
    copy: true,
  });
  list.append(make());
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
      search: (field) => [field.path, ...field.aliases, ...field.functions.map((f) => f.name), ...field.costly].join(" "),
      top: 20,
      copy: true,
    }));
  });
  return root;
}

function columnsOf(page: Page, fields: Field[]): Column<Field>[] {
  const figure = (title: string, value: (field: Field) => number, help?: string, bar = false): Column<Field> => ({
    title, value, bar, text: (field) => full(Math.round(value(field))), ...(help === undefined ? {} : { help }),
  });
  const whole = fields.reduce((sum, field) => sum + (field.costs?.cycles ?? 0), 0);
  const costs: Column<Field>[] = [
    figure("cycles", (f) => f.costs?.cycles ?? 0, "of accesses that left their core", true),
    { title: "of the type", value: (f) => f.costs?.cycles ?? 0, text: (f) => percent(f.costs?.cycles ?? 0, whole) },
    figure("HITM", (f) => f.costs?.hitm ?? 0, "modified lines fetched from another core"),
    figure("false sharing", (f) => f.costs?.falseSharing ?? 0, "cycles because the line is exchanged, though no word is"),
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
    figure("silent", (f) => f.silent, "stores that are known to have left memory as it was"),
    figure("readers", (f) => f.readers, "CPUs that read it"),
    figure("writers", (f) => f.writers, "CPUs that write it"),
    { title: "functions", value: (f) => f.functions.map((x) => x.name).join(", ") },
  ];
}

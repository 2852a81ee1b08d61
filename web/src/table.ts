// Tables that can be sorted, searched and copied.

import { h, fresh, scrolled } from "./dom";
import { columns } from "./text";

export interface Column<R> {
  title: string;
  /** What the column means, for the heading's tooltip. */
  help?: string;
  /** What it is sorted by; a number makes the column one of figures. */
  value: (row: R) => number | string;
  /** What is shown; else the value. */
  text?: (row: R) => string | Node;
  /** A list: it keeps room for several words on a narrow screen. */
  list?: boolean;
  /** A bar behind the figure: the largest value is a full one. */
  bar?: boolean;
}

export interface TableOptions<R> {
  label: string;
  columns: Column<R>[];
  rows: R[];
  /** The column that it is sorted by first, most first; none: the rows' order. */
  sorted?: number;
  /** What the search looks at; no search without it. */
  search?: (row: R) => string;
  /** Whether a row is marked. */
  marked?: (row: R) => boolean;
  /** The most rows that are shown at first. */
  top?: number;
  copy?: boolean;
}

const TOP = 40;

/** Makes the table with its search and buttons. */
export function table<R>(options: TableOptions<R>): HTMLElement {
  let sorted = options.sorted ?? -1;
  let descending = true;
  let wanted = "";
  let top = options.top ?? TOP;
  const first = options.rows[0];
  const figures = options.columns.map((c) => first !== undefined && typeof c.value(first) === "number");
  const most = options.columns.map((c) =>
    c.bar ? Math.max(0, ...options.rows.map((row) => Number(c.value(row)))) : 0,
  );
  const body = h("tbody");
  const heads = options.columns.map((column, index) => {
    const button = h("button", { type: "button", title: column.help ?? null, click: () => sortBy(index) }, column.title);
    return h("th", { scope: "col", class: figures[index] ? "figure" : null }, button);
  });
  const status = h("p", { class: "rows", role: "status" });
  const more = h("button", { type: "button", class: "more", click: () => ((top = Infinity), show()) });

  function sortBy(index: number): void {
    descending = sorted === index ? !descending : figures[index] === true;
    sorted = index;
    show();
  }

  function chosen(): R[] {
    const search = options.search;
    const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
    let rows = options.rows;
    if (search && words.length > 0) {
      rows = rows.filter((row) => words.every((word) => search(row).toLowerCase().includes(word)));
    }
    const column = options.columns[sorted];
    if (!column) return rows;
    const sign = descending ? -1 : 1;
    return [...rows].sort((x, y) => {
      const [a, b] = [column.value(x), column.value(y)];
      if (typeof a === "number" && typeof b === "number") return sign * (a - b);
      return sign * String(a).localeCompare(String(b));
    });
  }

  function cell(column: Column<R>, row: R, index: number): HTMLElement {
    const value = column.value(row);
    const text = column.text?.(row) ?? String(value);
    const cell = h(index === 0 ? "th" : "td", { class: figures[index] ? "figure" : column.list ? "list" : null, scope: index === 0 ? "row" : null }, text);
    if (column.bar && (most[index] ?? 0) > 0) {
      cell.classList.add("bar");
      cell.style.setProperty("--part", `${(100 * Number(value)) / (most[index] ?? 1)}%`);
    }
    return cell;
  }

  function show(): void {
    heads.forEach((head, index) => {
      if (index === sorted) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    const rows = chosen();
    body.replaceChildren(
      ...rows.slice(0, top).map((row) => {
        const cells = options.columns.map((column, index) => cell(column, row, index));
        return h("tr", { class: options.marked?.(row) ? "marked" : null }, ...cells);
      }),
    );
    const left = Math.max(0, rows.length - top);
    more.hidden = left === 0;
    more.textContent = `Show ${left} more`;
    status.textContent = wanted === "" ? "" : `${rows.length} of ${options.rows.length} rows`;
  }

  const plain = (content: string | Node) => (typeof content === "string" ? content : (content.textContent ?? ""));
  function copied(): string {
    const rows = chosen().map((row) => options.columns.map((c) => plain(c.text?.(row) ?? String(c.value(row)))));
    return columns(options.columns.map((c) => c.title), rows, figures);
  }

  const tools = h("div", { class: "tools" });
  if (options.search) {
    const id = fresh("search");
    const input = h("input", {
      type: "search",
      id,
      autocomplete: "off",
      input: () => {
        wanted = input.value.trim();
        show();
      },
    });
    tools.append(h("label", { for: id }, "Search"), input);
  }
  if (options.copy) tools.append(copyButton(copied));
  show();
  return h(
    "div",
    { class: "table" },
    tools.childElementCount > 0 && tools,
    status,
    scrolled(options.label,
      h("table", {}, h("caption", { class: "hidden" }, options.label), h("thead", {}, h("tr", {}, ...heads)), body)),
    more,
  );
}

/** A button that copies text; where the clipboard is closed to pages from disk, it shows the text to be copied by hand. */
function copyButton(text: () => string): HTMLElement {
  const box = h("textarea", { class: "copied", readonly: true, rows: 12, "aria-label": "The table as text", hidden: true });
  const button = h("button", {
    type: "button",
    click: () => {
      box.value = text();
      box.hidden = false;
      box.select();
      navigator.clipboard?.writeText(box.value).then(
        () => (button.textContent = "Copied"),
        () => (button.textContent = "Copy as text"),
      );
    },
  }, "Copy as text");
  return h("div", { class: "copy" }, button, box);
}

// Elements. Text from documents becomes text nodes and attributes, never markup.

import { shown } from "./text";

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: Event) => void)>;

function fill<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") {
      element.addEventListener(name, value);
    } else {
      element.setAttribute(name, value === true ? "" : shown(String(value)));
    }
  }
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === "string" ? shown(child) : child);
  }
  return element;
}

/** An HTML element; attributes that are functions listen to the event of that name. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

let ids = 0;

/** An id that no other element has. */
export function fresh(name: string): string {
  ids += 1;
  return `${name}-${ids}`;
}

/** A labelled choice. */
export function choice(
  label: string,
  options: [value: string, text: string][],
  value: string,
  chosen: (value: string) => void,
): HTMLElement {
  const id = `choice-${label.split(" ")[0]?.toLowerCase()}`;
  const select = h("select", { id, change: () => chosen(select.value) });
  for (const [option, text] of options) {
    select.append(h("option", { value: option, selected: option === value }, text));
  }
  return h("span", { class: "choice" }, h("label", { for: id }, label), select);
}

/** Puts other elements in; the one that has the focus keeps it, by its id. */
export function replace(parent: Element, ...children: Child[]): void {
  const focused = parent.contains(document.activeElement) ? document.activeElement?.id : undefined;
  parent.replaceChildren();
  fill(parent, {}, children);
  if (focused) document.getElementById(focused)?.focus();
}

/** A section of the page with its heading. */
export function section(id: string, title: string, about: string, ...children: Child[]): HTMLElement {
  const heading = `${id}-heading`;
  return h(
    "section",
    { id, "aria-labelledby": heading },
    h("h2", { id: heading }, title),
    about !== "" && h("p", { class: "about" }, about),
    ...children,
  );
}

/** What can be wider than the screen scrolls in a box of its own, by keyboard too. */
export function scrolled(label: string, ...children: Child[]): HTMLElement {
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, ...children);
}

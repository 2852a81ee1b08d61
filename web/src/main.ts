// The page: its head, and a section for each view that it has data for.

import { adviceView, diffView } from "./advise";
import { casesView } from "./cases";
import type { Page } from "./documents";
import { h } from "./dom";
import { ledgerView } from "./ledger";
import { lineView } from "./line";
import { Store } from "./state";
import { structView } from "./struct";
import { shown } from "./text";
import { timeView } from "./time";
import { fieldsView, typesView } from "./types";
import { whatifView } from "./whatif";

function sections(page: Page): HTMLElement[] {
  const store = new Store(page);
  const found: HTMLElement[] = [];
  if (page.cases.length > 0) found.push(casesView(page.cases));
  if (page.advise) found.push(adviceView(page.advise));
  if (page.diff) found.push(diffView(page.diff));
  const isAboutTypes = page.report !== null || page.types.length > 0;
  // If no type was requested, the first question is which.
  const isSurvey = page.type === null;
  if (isAboutTypes && isSurvey) found.push(typesView(store));
  if (isAboutTypes) found.push(structView(store));
  if (page.whatif) found.push(whatifView(page.whatif));
  if (isAboutTypes) {
    if (!isSurvey) found.push(typesView(store));
    found.push(fieldsView(store));
    if (page.costs) found.push(lineView(store, page.costs));
    found.push(timeView(store));
  }
  found.push(ledgerView(page));
  return found;
}

function start(): void {
  const root = document.getElementById("page");
  const data = document.getElementById("data");
  if (!root || !data?.textContent) return;
  const page = JSON.parse(data.textContent) as Page;
  document.title = `${shown(page.title)} – linemate`;
  const list = sections(page);
  const links = list.map((element) =>
    h("li", {}, h("a", { href: `#${element.id}` }, element.querySelector("h2")?.textContent ?? "")));
  root.replaceChildren(
    h("a", { class: "skip", href: "#views" }, "To the views"),
    h("header", {},
      h("h1", {}, page.title),
      h("p", { class: "headline" }, page.headline),
      ...page.prediction_errors.map((sentence) => h("p", { class: "note" }, sentence))),
    h("nav", { "aria-label": "Views" }, h("ul", {}, ...links)),
    h("main", { id: "views", tabindex: -1 }, ...list),
    h("footer", {}, `linemate ${page.tool}. This file holds all that it shows, and loads nothing.`));
  // What a link leads to is there only now.
  if (location.hash !== "") document.querySelector(location.hash.replace(/[^#\w-]/g, ""))?.scrollIntoView();
  dispatchEvent(new Event("resize"));
}

start();

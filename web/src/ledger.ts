// View 7: where the accesses went, and where the figures come from.

import type { Page, Report } from "./documents";
import { h, scrolled, section } from "./dom";
import { exact, percent } from "./number";

export function ledgerView(page: Page): HTMLElement {
  const root = section("about", "Where the figures come from", "");
  if (page.report) root.append(...ledger(page.report), ...provenance(page, page.report));
  else root.append(settings(page));
  root.append(words());
  return root;
}

function ledger(report: Report): HTMLElement[] {
  const { groups, total } = report.ledger;
  const bar = h("div", { class: "ledger", "aria-hidden": "true" });
  groups.forEach((group, i) => {
    if (group.accesses === 0) return;
    const part = h("span", { class: `part part-${i % 4}`, title: `${group.name}: ${percent(group.share)}` }, group.share > 0.06 ? group.name : "");
    part.style.width = `${100 * group.share}%`;
    bar.append(part);
  });
  const rows = groups.flatMap((group) => [
    h("tr", { class: "group" }, h("th", { scope: "row" }, group.name), h("td", { class: "figure" }, exact(group.accesses)), h("td", { class: "figure" }, percent(group.share))),
    ...group.buckets.filter((b) => b.accesses > 0 && group.buckets.length > 1).map((bucket) =>
      h("tr", {}, h("th", { scope: "row", class: "bucket" }, bucket.name), h("td", { class: "figure" }, exact(bucket.accesses)), h("td", { class: "figure" }, percent(bucket.share)))),
  ]);
  return [
    h("h3", {}, "Ledger"),
    h("p", {}, `Every access is in exactly one row. Of ${exact(total)} accesses ${percent(report.ledger.unknown_share)} are unknown; ` +
      `of those to memory that can have a type, the type of ${percent(report.ledger.typed_share)} is known.`),
    bar,
    h("details", {}, h("summary", {}, "All rows"),
      scrolled("Ledger", h("table", { class: "plain" }, h("caption", { class: "hidden" }, "Ledger"),
        h("thead", {}, h("tr", {}, ...["accesses to", "accesses", "share"].map((t) => h("th", { scope: "col" }, t)))),
        h("tbody", {}, ...rows)))),
  ];
}

function provenance(page: Page, report: Report): HTMLElement[] {
  const { inputs } = report;
  const rows: [string, string][] = [
    ["linemate", inputs.tool],
    ["recorded by linemate", inputs.recorded_by],
    ["checksum", inputs.checksum ?? "none: the recording is truncated"],
    ...Object.entries(inputs.recording),
  ];
  const cut = inputs.cut === null ? [] : [h("p", { class: "warning" }, `The recording is ${inputs.cut}. Figures cover what is readable.`)];
  return [
    ...cut,
    h("h3", {}, "Recording"),
    definitions(rows),
    settings(page),
  ];
}

function settings(page: Page): HTMLElement {
  const rows = Object.entries(page.settings);
  return h("div", {}, h("h3", {}, "Settings"),
    rows.length > 0 ? definitions(rows) : h("p", {}, "Nothing was replayed."),
    h("p", {}, "Limits of the figures: docs/model/limits.md; how they are made: docs/model/replay.md and docs/model/attribution.md."));
}

const definitions = (rows: [string, string][]) =>
  h("dl", { class: "provenance" }, ...rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));

const WORDS: [string, string][] = [
  ["access", "A load, a store or an atomic read-modify-write (RMW)."],
  ["left the core", "Neither its L1 nor its L2 could serve it. Hits there cost the same in every layout and are left out."],
  ["cycles", "Core cycles of latency, waiting included, of accesses that left their core, by replay on the described machine."],
  ["HITM", "The line was fetched modified from another core's cache: of the same last-level cache's domain, of the same socket, or of another socket."],
  ["true sharing", "The words themselves are exchanged between cores. A layout changes this only by fetching several of them with one line."],
  ["false sharing", "The line moves between cores although no word that is used is exchanged."],
  ["cold, capacity", "The core never had the line; its caches had no room for it."],
  ["upgrade, unshared", "Write permission was requested; unshared: no other core had the line."],
  ["silent store", "It left memory unchanged."],
  ["readers, writers", "How many CPUs read and write the field. An RMW does both."],
  ["by other CPUs", "Accesses by CPUs other than the object's owner: that of its per-CPU area, or the one whose task it is."],
  ["± and significant", "Half the width of the 95 % confidence interval over interleavings; significant: the interval excludes 0."],
  ["k, M, G, T", "Thousand, million, 1e9 and 1e12, to three digits: in pictures and lists of choices. Tables have every digit."],
];

function words(): HTMLElement {
  return h("div", {}, h("h3", {}, "Words and units"), definitions(WORDS));
}

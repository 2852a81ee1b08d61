// Each view of pages of a small recording: opened, used by keyboard and mouse, compared with --json.

import { expect, test, type Page } from "@playwright/test";
import type * as D from "../src/documents";
import { exact } from "../src/number";
import { blocks, cells, json, expectAccessible, expectQuiet, number, open } from "./common";

const ALL = ["heat", "costs", "ranking", "whatif", "advise", "survey", "diff", "hostile"];

for (const name of ALL) {
  for (const colorScheme of ["light", "dark"] as const) {
    test(`${name} opens without a word, ${colorScheme}`, async ({ page }) => {
      await page.emulateMedia({ colorScheme });
      await open(page, name);
      await expect(page.locator("h1")).not.toBeEmpty();
      await expect(page.locator(".headline")).not.toBeEmpty();
      await expectAccessible(page);
      expectQuiet(page);
    });
  }
}

test("the struct has the accesses that the report has", async ({ page }) => {
  await open(page, "heat");
  await page.getByLabel("Type", { exact: true }).selectOption("rq");
  const { type } = json<{ type: D.PageType }>("rq");
  const expected = Object.fromEntries(type.fields.map((f) => [f.field, f.accesses]));
  expect(await blocks(page.locator(".layout"))).toEqual(expected);
  await page.getByLabel("Colour").selectOption("stores");
  const stores = Object.fromEntries(type.fields.map((f) => [f.field, f.stores + f.rmws]));
  expect(await blocks(page.locator(".layout"))).toEqual(stores);
  expectQuiet(page);
});

test("the struct has the cycles that the costs have", async ({ page }) => {
  await open(page, "costs");
  const { costs } = json<D.CostsDocument>("costs");
  const cycles = Object.fromEntries(costs.fields.filter((f) => f.cycles > 0).map((f) => [f.name.replace("rq.", ""), f.cycles]));
  expect(Object.keys(cycles).length).toBeGreaterThan(2);
  const shown = await blocks(page.locator(".layout"));
  expect(Object.fromEntries(Object.entries(shown).filter(([, value]) => value > 0))).toEqual(cycles);
  await page.getByLabel("Colour").selectOption("hitm");
  const hitm = costs.lines.flatMap((line) => line.cells).reduce((sum, cell) => sum + cell.hitm, 0);
  const all = Object.values(await blocks(page.locator(".layout"))).reduce((a, b) => a + b, 0);
  expect(hitm).toBeGreaterThan(0);
  expect(all).toBe(hitm);
  await page.getByLabel("Colour").selectOption("false");
  const falseSharing = costs.fields.reduce((sum, f) => sum + f.causes.false_sharing, 0);
  const seen = Object.values(await blocks(page.locator(".layout"))).reduce((a, b) => a + b, 0);
  expect(Math.abs(seen - falseSharing)).toBeLessThanOrEqual(costs.fields.length);
  expectQuiet(page);
});

test("the struct is used by keyboard", async ({ page }) => {
  await open(page, "costs");
  await page.getByLabel("Lines without accesses").focus();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  const first = page.locator("button.block").first();
  await expect(first).toBeFocused();
  const details = page.locator(".details h3");
  await expect(details).toHaveText("nr_running");
  await page.keyboard.press("ArrowRight");
  await expect(details).toHaveText("curr");
  await page.keyboard.press("ArrowDown");
  await expect(details).toHaveText("lock");
  await page.keyboard.press("ArrowUp");
  await expect(details).toHaveText("curr");
  await page.keyboard.press("End");
  await expect(page.locator("button.block").last()).toBeFocused();
  expectQuiet(page);
});

test("the struct is used by mouse, and its lines are as long as chosen", async ({ page }) => {
  await open(page, "costs");
  await page.locator('button.block[data-path="lock"]').hover();
  const details = page.locator(".details");
  await expect(details.locator("h3")).toHaveText("lock");
  const { type } = json<{ type: D.PageType }>("rq");
  const lock = type.fields.find((f) => f.field === "lock");
  const told = async (name: string) => number(await details.locator(`dt:text-is("${name}") + dd`).innerText());
  expect(await told("loads")).toBe(lock?.loads);
  expect(await told("atomics (RMW)")).toBe(lock?.rmws);
  await expect(details).toContainText("update_rq");
  await expect(page.locator(".row")).toHaveCount(2);
  await page.getByLabel("Line", { exact: true }).selectOption("128");
  await expect(page.locator(".row")).toHaveCount(1);
  // Holes between `nr_running` and `curr`, after `lock`; the padding.
  await expect(page.locator(".block.hole, .block.padding")).not.toHaveCount(0);
  expectQuiet(page);
});

test("types are ranked, searched, copied, and lead to the struct", async ({ page }) => {
  await open(page, "costs");
  const section = page.locator("#types");
  const { costs } = json<D.CostsDocument>("costs");
  const rq = costs.types.find((t) => t.name === "rq");
  const row = section.locator("tbody tr", { hasText: /^rq/ });
  await expect(row).toHaveClass("marked");
  const share = ((100 * (rq?.cycles ?? 0)) / costs.whole.cycles).toFixed(1);
  await expect(row).toContainText(`${share} %`);
  const heading = section.getByRole("columnheader", { name: "type" });
  await section.getByRole("button", { name: "type", exact: true }).click();
  await expect(heading).toHaveAttribute("aria-sort", "ascending");
  await section.getByRole("button", { name: "type", exact: true }).press("Enter");
  await expect(heading).toHaveAttribute("aria-sort", "descending");
  await section.getByLabel("Search").fill("no such type");
  await expect(section.locator("tbody tr")).toHaveCount(0);
  await section.getByLabel("Search").fill("r q");
  await expect(section.locator("tbody tr")).toHaveCount(1);
  await section.getByRole("button", { name: "Copy as text" }).click();
  const copied = await section.getByLabel("The table as text").inputValue();
  expect(copied.split("\n")).toHaveLength(4);
  expect(copied).toMatch(/^type +cycles +of all +not true sharing/);
  await section.getByLabel("Search").fill("");
  const other = section.locator("tbody button.link", { hasNotText: /^rq$/ }).first();
  const name = await other.innerText();
  await other.click();
  await expect(page.getByLabel("Type", { exact: true })).toHaveValue(name);
  await expect(page.locator("#fields caption")).toHaveText(`Fields of ${name}`);
  expectQuiet(page);
});

test("the fields' table has the report's figures", async ({ page }) => {
  await open(page, "costs");
  const rows = await cells(page.locator("#fields"));
  const { type } = json<{ type: D.PageType }>("rq");
  for (const field of type.fields) {
    const row = rows.find((cells) => cells[0] === field.field);
    expect(row?.slice(1, 4).map(number)).toEqual([field.offset, field.size, field.accesses]);
    expect(row?.slice(8, 13).map(number)).toEqual([field.loads, field.stores, field.rmws, field.silent, field.readers]);
  }
  await page.locator("#fields").getByLabel("Search").fill("update_rq");
  const found = await cells(page.locator("#fields"));
  expect(found.length).toBeGreaterThan(0);
  expect(found.length).toBeLessThan(rows.length);
  expectQuiet(page);
});

test("a line under the lens has the costs' cells, and the map the pairs", async ({ page }) => {
  await open(page, "costs");
  const { costs } = json<D.CostsDocument>("costs");
  await page.locator("button.line").nth(1).click();
  await expect(page.getByLabel("From byte, in rq")).toHaveValue("64");
  for (const line of costs.lines) {
    await page.getByLabel("From byte, in rq").selectOption(String(line.start));
    const rows = await cells(page.locator("#line .table"));
    for (const cell of line.cells) {
      const row = rows.find((cells) => cells[0] === cell.field.replace("rq.", ""));
      expect(row?.slice(1, 5).map(number)).toEqual([cell.offset, cell.cycles, cell.hitm, cell.loads]);
      expect(row?.[8]).toBe(cell.functions.join(", "));
    }
  }
  const map = page.locator(".whole table.map");
  await expect(map.locator("tbody tr")).toHaveCount(costs.cpus);
  const titlesOf = (locator: typeof map) => locator.locator("tbody td").evaluateAll((list) => list.map((td) => (td as HTMLElement).title));
  const titles = await titlesOf(map);
  for (const pair of costs.pairs) {
    expect(titles.some((t) => t.startsWith(`CPU ${pair.from[0]} wrote, CPU ${pair.to[0]} took: ${pair.hitm} `))).toBe(true);
  }
  expectQuiet(page);
});

test("a line has a map of its own", async ({ page }) => {
  await open(page, "costs");
  const { costs } = json<D.CostsDocument>("costs");
  const lines = costs.lines.filter((line) => line.hitm > 0);
  expect(lines.length).toBeGreaterThan(1);
  for (const line of lines) {
    await page.getByLabel("From byte, in rq").selectOption(String(line.start));
    const cells = page.locator(".one table.map tbody td");
    const titles = await cells.evaluateAll((list) => list.map((td) => (td as HTMLElement).title).filter((t) => !t.includes(" took: 0 ")));
    expect(titles.map((t) => t.split(",").slice(0, 2).join()).sort()).toEqual(
      line.pairs.map(([from, to, hitm]) => `CPU ${from} wrote, CPU ${to} took: ${hitm} modified lines`).sort());
    expect(line.pairs.reduce((sum, [, , hitm]) => sum + hitm, 0)).toBe(line.hitm);
  }
  expectQuiet(page);
});

/** The bars of the strip chart: row, part of the time, count. */
const bars = (page: Page) =>
  page.locator("#time rect").evaluateAll((list) =>
    list.map((bar) => ["row", "bin", "value"].map((name) => Number((bar as SVGElement).dataset[name]))));

/** What the chart should have of counts by row and part. */
const barsOf = (rows: number[][]) =>
  rows.flatMap((row, at) => row.flatMap((value, bin) => (value > 0 ? [[at, bin, value]] : [])));

test("time has the report's accesses and the costs' HITM", async ({ page }) => {
  await open(page, "costs");
  const section = page.locator("#time");
  const { times, lines } = json<{ type: Omit<D.PageType, "lines"> & { lines: { line: number; accesses: number }[] } }>("rq").type;
  expect(times.bins).toBeGreaterThan(32);
  for (const field of times.fields) {
    await section.getByLabel("Place").selectOption(`${field.offset} ${field.field}`);
    expect(await bars(page)).toEqual(barsOf(field.accesses));
  }
  for (const { line, accesses } of times.lines) {
    await section.getByLabel("Place").selectOption(`line ${line}`);
    expect(await bars(page)).toEqual(barsOf(accesses));
    const sum = (await cells(section)).reduce((all, row) => all + number(row[1] ?? ""), 0);
    expect(sum).toBe(lines.find((row) => row.line === line)?.accesses);
  }
  const { costs } = json<D.CostsDocument>("costs");
  await section.getByLabel("Count").focus();
  await page.keyboard.press("ArrowDown");
  await expect(section.getByLabel("Count")).toHaveValue("HITM");
  for (const line of costs.lines.filter((l) => l.hitm > 0)) {
    await section.getByLabel("Place").selectOption(`from ${line.start}`);
    const shown = (await bars(page)).reduce((all, bar) => all + (bar[2] ?? 0), 0);
    expect(shown).toBe(line.hitm);
    for (const cell of line.cells.filter((c) => c.hitm > 0)) {
      await section.getByLabel("Place").selectOption(cell.field.replace("rq.", ""));
      expect(await bars(page)).toEqual(barsOf(cell.times ?? []));
    }
  }
  expectQuiet(page);
});

test("a what-if shows both layouts, totals and contributions", async ({ page }) => {
  await open(page, "whatif");
  const { results, layouts } = json<D.WhatIfDocument & { layouts: D.LayoutChange[] }>("whatif");
  const result = results[0]!;
  const [before, after] = [page.locator(".layout").first(), page.locator(".layout").last()];
  await expect(before).toContainText(`before: ${layouts[0]!.before.size} bytes`);
  await expect(after).toContainText(`after: ${layouts[0]!.after.size} bytes`);
  const expected = (of: (m: D.Measure) => number) =>
    Object.fromEntries(result.fields.map((f) => [f.name, Number(exact(of(f.cycles)))]).filter(([, value]) => value !== 0));
  const shown = async (layout: typeof before) =>
    Object.fromEntries(Object.entries(await blocks(layout)).filter(([, value]) => value !== 0));
  expect(await shown(before)).toEqual(expected((m) => m.without));
  expect(await shown(after)).toEqual(expected((m) => m.with));
  // Where `clock` goes: to the front.
  const clock = after.locator('button.block[data-path="clock"]');
  expect(await clock.getAttribute("data-offset")).toBe(String(layouts[0]!.after.fields.find((f) => f.path === "clock")?.offset));
  const place = (map: D.FieldMap, path: string) => map.fields.find((f) => f.path === path)?.offset;
  const went = result.fields
    .filter((f) => f.cycles.without > 0 && place(layouts[0]!.before, f.name) !== place(layouts[0]!.after, f.name))
    .map((f) => f.name);
  expect(went.length).toBeGreaterThan(0);
  const traces = page.locator("path.trace");
  await expect(traces).toHaveCount(went.length);
  expect((await traces.evaluateAll((list) => list.map((t) => (t as SVGElement).dataset["path"]))).sort()).toEqual(went.sort());
  await after.locator(`button.block[data-path="${went[0]}"]`).hover();
  await expect(page.locator(`path.trace[data-path="${went[0]}"]`)).toHaveClass(/same/);
  const totals = await cells(page.locator(".result .table").first());
  expect(totals[0]![1]!).toBe(exact(result.types.without));
  expect(totals[0]![2]!).toBe(exact(result.types.with));
  expect(result.ablation).toHaveLength(2);
  await expect(page.locator(".waterfall g.bar")).toHaveCount(2 + result.ablation.length + 1);
  expectQuiet(page);
});

test("advice, survey and difference have their figures", async ({ page }) => {
  await open(page, "advise");
  const advice = json<D.AdviceDocument>("advise");
  const front = page.getByRole("region", { name: "Moves against gain" });
  if (advice.recommended) await expect(front.locator("tbody tr")).toHaveCount(advice.front.length);
  else await expect(page.locator("#advise .empty")).toContainText(advice.others.length > 0 ? "no gain" : "no layout");
  expectQuiet(page);
  await open(page, "survey");
  const survey = json<D.SurveyDocument>("survey");
  await expect(page.locator("#advise tbody tr")).toHaveCount(survey.types.length);
  expectQuiet(page);
  await open(page, "diff");
  const diff = json<D.DiffDocument>("diff");
  const rows = await cells(page.locator("#diff"));
  for (const [name, figures] of Object.entries(diff.a.fields)) {
    expect(number(rows.find((row) => row[0] === name)?.[1] ?? "")).toBe(figures.loads);
  }
  await expect(page.locator(".layout")).toHaveCount(2);
  expectQuiet(page);
});

test("the ledger and the settings are all there", async ({ page }) => {
  await open(page, "costs");
  const { ledger, inputs } = json<D.Report>("heat");
  const about = page.locator("#about");
  await about.locator("summary").click();
  const rows = await cells(about);
  for (const group of ledger.groups) {
    expect(number(rows.find((row) => row[0] === group.name)?.[1] ?? "")).toBe(group.accesses);
  }
  for (const value of Object.values(inputs.recording)) await expect(about).toContainText(value);
  await expect(about.locator('dt:text-is("machine") + dd')).toHaveText("gnr-2s-480");
  await expect(about).toContainText("HITM");
  expectQuiet(page);
});

test("hostile names are text", async ({ page }) => {
  await open(page, "hostile");
  await expect(page).not.toHaveTitle(/taken/);
  await page.getByLabel("Type", { exact: true }).selectOption("rq");
  const block = page.locator("button.block").first();
  await block.hover();
  await expect(page.locator(".details h3")).toHaveText("<b>&lt;</b");
  await expect(page.locator("main b, main img, main script, main svg[onload]")).toHaveCount(0);
  await expect(page.locator("#about")).toContainText("</script><script>document.title = 'taken'</script>");
  await expect(page.locator("#about")).toContainText("\\u{202e}\\x1b]0;x\\x07");
  await expect(page.locator("#fields")).toContainText("<svg/onload=alert(1)>");
  expectQuiet(page);
});

test("it prints on paper without its tools", async ({ page }) => {
  await open(page, "costs");
  await page.emulateMedia({ media: "print" });
  await expect(page.locator("nav")).toBeHidden();
  await expect(page.locator(".tools").first()).toBeHidden();
  await expect(page.locator("button.block").first()).toBeVisible();
  expect((await page.pdf()).length).toBeGreaterThan(10_000);
});

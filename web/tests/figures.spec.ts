// Figures: as the command writes them, the same in each place, of everything and not of what the page has details of.

import { expect, test } from "@playwright/test";
import type * as D from "../src/documents";
import { change, exact, fixed, percent, short, signed, ticks } from "../src/number";
import { cells, embed, expectQuiet, json, number, open, text } from "./common";

test("figures are written as Rust writes them", () => {
  // What `format!` gives: of two that are equally near the even one.
  const rounded: [number, number, string][] = [
    [2.5, 0, "2"], [3.5, 0, "4"], [0.5, 0, "0"], [6.25, 1, "6.2"], [18.75, 1, "18.8"], [0.15, 1, "0.1"], [0.25, 1, "0.2"], [0.35, 1, "0.3"],
    [1.005, 2, "1.00"], [0.125, 2, "0.12"], [-2.5, 0, "-2"], [90711, 0, "90711"], [4950379.5, 0, "4950380"], [1e15, 0, "1000000000000000"],
  ];
  for (const [value, digits, written] of rounded) expect(fixed(value, digits), `${value}`).toBe(written);
  expect([0, 999, 1000, 9996, -118_153_250, 2.5e9].map(short)).toEqual(["0", "999", "1.00 k", "10.0 k", "-118 M", "2.50 G"]);
  expect([signed(-1, 0), signed(0, 1), signed(3, 2)]).toEqual(["-1", "+0.0", "+3.00"]);
  expect([change(-20, 1, 1000), change(0, 0, 7), change(0.1, 0.1, 1e6), change(1, 1, 0)]).toEqual(["-2.00 ± 0.10 %", "0 %", "< 0.01 %", "-"]);
  expect([percent(1, 16), percent(1, 0)]).toEqual(["6.2 %", "-"]);
  expect(ticks([12_000_000, 12_050_000, 12_100_000])).toEqual(["12.00 M", "12.05 M", "12.10 M"]);
  expect(ticks([0, 500, 1000])).toEqual(["0", "0.5 k", "1.0 k"]);
});

for (const name of ["heat", "costs", "ranking", "whatif", "advise", "survey", "diff"]) {
  test(`${name} has one minus and one form of numbers`, async ({ page }) => {
    await open(page, name);
    await page.locator("#about summary").click();
    const all = await page.locator("body").innerText();
    const titles = await page.locator("[title], svg title").evaluateAll((list) => list.map((e) => e.getAttribute("title") ?? e.textContent ?? ""));
    // A minus of its own, thin spaces or commas between digits, units without a space.
    for (const written of [all, ...titles]) expect(written).not.toMatch(/[\u2212\u2009]|\d,\d{3}|\d[kMGT]\b/u);
    expectQuiet(page);
  });
}

test("the command's text has the page's figures", async ({ page }) => {
  await open(page, "whatif");
  const said = text("whatif");
  const rows = await cells(page.locator(".result .table").first());
  expect(rows.length).toBeGreaterThan(3);
  for (const row of rows.slice(0, 3)) for (const figure of [row[1], row[3]]) expect(said).toContain(figure);
  const fields = await cells(page.getByRole("region", { name: "Fields", exact: true }).first());
  expect(fields.length).toBeGreaterThan(1);
  // The text counts rows without change instead of listing them.
  const changed = fields.filter((row) => row[3] !== "0 %" && row[3] !== "-");
  expect(changed.length).toBeGreaterThan(0);
  for (const [name, before, , , ofType, , verdict] of changed) {
    const line = said.split("\n").find((line) => line.trim().startsWith(`${name} `) && line.includes(` ${before} `));
    expect(line, name).toContain(` ${ofType} `);
    expect(line, name).toContain(verdict!.replace(/^[▼▲] /, ""));
  }
  await open(page, "ranking");
  const ranking = text("ranking");
  expect(ranking).toContain(await page.locator(".headline").innerText());
  const { costs } = json<D.CostsDocument>("ranking");
  const types = await cells(page.locator("#types"));
  for (const [name, cycles, share] of types) {
    const cost = costs.types.find((row) => row.name === name);
    expect(cycles).toBe(exact(cost?.cycles ?? 0));
    if (cost && cost.cycles > 0) expect(ranking).toContain(`${cycles}`);
    expect(share).toBe(percent(cost?.cycles ?? 0, costs.whole.cycles));
  }
});

/** What each row of the struct says: its number, all its digits, its share. */
const lines = (page: import("@playwright/test").Page) =>
  page.locator(".layout .row").evaluateAll((rows) =>
    rows.map((row) => [
      row.querySelector(".line")?.textContent ?? "",
      (row.querySelector(".total") as HTMLElement).title.split(" ")[0] ?? "",
      row.querySelector(".total small")?.textContent ?? "",
    ]));

test("lines have the report's and the costs' sums", async ({ page }) => {
  await open(page, "costs");
  const { type } = json<{ type: { figures: D.Figures; lines: (D.Figures & { line: number })[] } }>("rq");
  await page.getByLabel("Colour").selectOption("accesses");
  const all = type.figures.accesses;
  expect(await lines(page)).toEqual(type.lines.map((l) => [`${l.line}`, `${l.accesses}`, percent(l.accesses, all)]));
  await page.getByLabel("Colour").selectOption("stores");
  expect((await lines(page)).map((row) => row[1])).toEqual(type.lines.map((l) => `${l.stores + l.rmws}`));
  await page.getByLabel("Colour").selectOption("cycles");
  const { costs } = json<D.CostsDocument>("costs");
  const found = costs.lines.filter((l) => l.cycles > 0).sort((a, b) => a.start - b.start);
  expect(await lines(page)).toEqual(found.map((l) => [`${l.start / 64}`, `${l.cycles}`, percent(l.cycles, costs.types.find((t) => t.name === "rq")?.cycles ?? 0)]));
  expectQuiet(page);
});

test("fields whose functions are left out keep their figures, and it is said", async ({ page }) => {
  const size = 8 * 40;
  const names = Array.from({ length: 40 }, (_, i) => `f${i}`);
  const place = (name: string, i: number) => ({ path: name, type: "long", offset: 8 * i, size: 8 });
  const figures = (accesses: number): D.Figures =>
    ({ accesses, loads: accesses, stores: 0, rmws: 0, silent: 0, remote_share: null, readers: 2, writers: 0 });
  const accesses = (i: number) => 1000 + i;
  const known = names.slice(0, 8);
  const others = names.slice(8);
  const sum = (from: number, to: number) => names.slice(from, to).reduce((all, _, i) => all + accesses(from + i), 0);
  const numbers = [0, 1, 2, 3, 4];
  const ofLine = (line: number) => sum(8 * line, 8 * line + 8);
  const zeros = others.map(() => 0);
  const type: D.PageType = {
    name: "wide", size, line_size: 64, figures: figures(sum(0, 40)), places: [], groups: [],
    layout: { size, fields: names.map(place) },
    fields: known.map((name, i) => ({
      ...figures(accesses(i)), type_name: "wide", field: name, aliases: [], offset: 8 * i, size: 8, line: 0, functions: [{ name: "used_in", accesses: 1 }],
    })),
    rest: {
      field: others, offset: others.map((_, i) => 8 * (i + 8)), size: others.map(() => 8), loads: others.map((_, i) => accesses(i + 8)),
      stores: zeros, rmws: zeros, silent: zeros, remote_share: others.map(() => null), readers: others.map(() => 2), writers: zeros,
    },
    lines: [], line_sums: { line: numbers, loads: numbers.map(ofLine), stores: [0, 0, 0, 0, 0], rmws: [0, 0, 0, 0, 0] },
    fields_without_times: 32, lines_without_times: 0,
    times: { start: 0, step: 10, bins: 2, cpus_per_row: 1, rows: 1, lines: [], fields: [{ field: "f0", offset: 0, accesses: [[1000, 0]] }] },
  };
  const report = { ...json<D.Report>("heat"), types: [] };
  embed("wide", {
    schema: "linemate.page/1", tool: "0.1.0", title: "wide", headline: "A type of many fields", prediction_errors: [], type: "wide", settings: {},
    report, rows_left_out: 7, types: [type], costs: null, whatif: null, advise: null, diff: null, layouts: [], cases: [],
  });
  await open(page, "wide");
  expect(await lines(page)).toEqual(numbers.map((line) => [`${line}`, `${ofLine(line)}`, percent(ofLine(line), type.figures.accesses)]));
  await expect(page.locator(".block.cold")).toHaveCount(0);
  await page.locator('button.block[data-path="f39"]').hover();
  const details = page.locator(".details");
  expect(number(await details.locator('dt:text-is("accesses") + dd').innerText())).toBe(accesses(39));
  await expect(details.locator('dt:text-is("functions") + dd')).toContainText("not in this page");
  await expect(page.locator("#fields")).toContainText("Of the 32 fields with fewest accesses this page leaves out functions");
  await expect(page.locator("#types")).toContainText("7 more rows are not in this page");
  await expect(page.locator("#time")).toContainText("This page has no times of 32 fields with fewer accesses");
  await expect(page.locator("#fields tbody tr")).toHaveCount(20);
  await page.locator("#fields").getByRole("button", { name: "Show 20 more" }).click();
  const rows = await cells(page.locator("#fields"));
  expect(rows.reduce((all, row) => all + number(row[3] ?? ""), 0)).toBe(type.figures.accesses);
  expectQuiet(page);
});

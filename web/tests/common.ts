// What the tests share: pages and documents that scripts/test-page.sh made.

import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import AxeBuilder from "@axe-core/playwright";
import { expect, type Locator, type Page } from "@playwright/test";
import type * as D from "../src/documents";

const PAGES = process.env["PAGES"] ?? "";

/** What the same question gives with `--json`. */
export function json<T>(name: string): T {
  return JSON.parse(readFileSync(join(PAGES, `${name}.json`), "utf8")) as T;
}

/** Opens a page and fails on whatever it says on the console, and on whatever it asks for. */
export async function open(page: Page, name: string): Promise<void> {
  const complaints: string[] = [];
  const address = pathToFileURL(join(PAGES, `${name}.html`)).href;
  page.on("console", (message) => complaints.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => complaints.push(`error: ${error.message}`));
  page.on("request", (request) => {
    const isOwn = request.url().split("#")[0] === address || request.url().startsWith("data:");
    if (!isOwn) complaints.push(`request: ${request.url()}`);
  });
  page.on("dialog", (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.goto(address);
  await expect(page.locator("main section").first()).toBeVisible();
  quiet.set(page, complaints);
}

const quiet = new WeakMap<Page, string[]>();

/** To be called last: nothing was complained about on the way. */
export function expectQuiet(page: Page): void {
  expect(quiet.get(page)).toEqual([]);
}

/** axe-core's serious and critical findings: none. */
export async function expectAccessible(page: Page): Promise<void> {
  const { violations } = await new AxeBuilder({ page }).analyze();
  const serious = violations.filter((v) => v.impact === "serious" || v.impact === "critical");
  expect(serious.map((v) => [v.id, v.nodes.slice(0, 3).map((n) => n.html)])).toEqual([]);
}

/** Writes the page of a document that no small recording gives; the command's own code makes it safe. */
export function embed(name: string, page: D.Page): void {
  const program = join(PAGES, "../debug/examples/embed");
  const html = execFileSync(program, { input: JSON.stringify(page), maxBuffer: 1 << 28 });
  writeFileSync(join(PAGES, `${name}.html`), html);
}

/** A table's cells as they are shown. */
export async function cells(table: Locator): Promise<string[][]> {
  return table.locator("tbody tr").evaluateAll((rows) =>
    rows.map((row) => [...row.querySelectorAll("th, td")].map((cell) => cell.textContent ?? "")));
}

/** The values of the struct's blocks, by name. */
export async function blocks(layout: Locator): Promise<Record<string, number>> {
  return layout.locator("button.block.touched:not(.rest)").evaluateAll((list) =>
    Object.fromEntries(list.map((block) => {
      const { path, value } = (block as HTMLElement).dataset;
      return [path ?? "", Number(value)];
    })));
}

/** What the same question prints. */
export function text(name: string): string {
  return readFileSync(join(PAGES, `${name}.txt`), "utf8");
}

/** A figure of the page as a number; what is no figure as the command writes it is none. */
export function number(text: string): number {
  return /^[+-]?\d+(\.\d+)?$/.test(text) ? Number(text) : NaN;
}

// What is where: on a telephone, with two layouts side by side, and first.

import { expect, test } from "@playwright/test";
import { expectAccessible, expectQuiet, open } from "./common";

const ALL = ["heat", "costs", "ranking", "whatif", "advise", "survey", "diff", "hostile"];

for (const name of ALL) {
  test(`${name} fits on 400 pixels`, async ({ page }) => {
    await page.setViewportSize({ width: 400, height: 800 });
    await open(page, name);
    await page.locator("#about summary").click();
    expect(await page.evaluate(() => document.scrollingElement?.scrollWidth)).toBe(400);
    // What is wider scrolls in a box of its own, which is not wider.
    const outside = await page.locator("main table, main svg.chart").evaluateAll((list) =>
      list.filter((e) => !e.closest(".scroll") || (e.closest(".scroll")?.getBoundingClientRect().right ?? 999) > 400).map((e) => e.className));
    expect(outside).toEqual([]);
    await expectAccessible(page);
    expectQuiet(page);
  });
}

test("on 400 pixels the details of a field are next to it", async ({ page }) => {
  await page.setViewportSize({ width: 400, height: 800 });
  await open(page, "whatif");
  const blocks = page.locator("button.block.touched:not(.rest)");
  for (const nth of [0, (await blocks.count()) - 1]) {
    const block = blocks.nth(nth);
    await block.evaluate((element) => element.scrollIntoView({ block: "center" }));
    await block.click();
    const details = page.locator(".details");
    await expect(details.locator("h3")).toHaveText((await block.getAttribute("data-path")) ?? "");
    await expect(details.locator("h3")).toBeInViewport();
    await expect(block).toBeInViewport();
    const [field, sheet] = [await block.boundingBox(), await details.boundingBox()];
    expect(field!.y + field!.height).toBeLessThanOrEqual(sheet!.y);
    expect(sheet!.y + sheet!.height).toBeLessThanOrEqual(801);
  }
});

for (const [name, width] of [["whatif", 1400], ["whatif", 400], ["diff", 1400], ["costs", 400]] as const) {
  test(`no name in ${name} at ${width} pixels is one or two letters of it`, async ({ page }) => {
    await page.setViewportSize({ width, height: 1000 });
    await open(page, name);
    await page.waitForFunction(() => document.querySelector(".tracks")?.childElementCount !== 1);
    const cut = await page.locator(".block .name").evaluateAll((list) => {
      const canvas = document.createElement("canvas").getContext("2d")!;
      return list.flatMap((name) => {
        const style = getComputedStyle(name);
        canvas.font = `${style.fontSize} ${style.fontFamily}`;
        const letters = Math.floor(name.clientWidth / canvas.measureText("m").width);
        return letters >= Math.min(4, name.textContent?.length ?? 0) ? [] : [`${name.textContent}: ${letters}`];
      });
    });
    expect(cut).toEqual([]);
    // What has no name on it is called by it.
    const unnamed = page.locator("button.block:not(:has(.name))");
    for (const label of await unnamed.evaluateAll((list) => list.map((e) => e.getAttribute("title")))) expect(label).toMatch(/, bytes \d+ to \d+/);
  });
}

test("a page without a type begins with the types, one with a type with its struct", async ({ page }) => {
  for (const [name, first] of [["ranking", "types"], ["hostile", "types"], ["heat", "types"], ["costs", "struct"], ["whatif", "struct"], ["survey", "advise"]]) {
    await open(page, name!);
    await expect(page.locator("main section").first()).toHaveAttribute("id", first!);
  }
});

test("what was replayed is not said to need a machine, and what has nothing is called by what it is", async ({ page }) => {
  for (const name of ["whatif", "advise", "survey"]) {
    await open(page, name);
    const about = await page.locator("#types .about").innerText();
    expect(about).toMatch(/^By (shared )?accesses\. (What the edits change|The advice) has the cycles/);
    expect(about).not.toContain("With --machine");
  }
  for (const name of ALL) {
    await open(page, name);
    const colours = page.getByLabel("Colour");
    for (const colour of await colours.locator("option").evaluateAll((list) => list.map((o) => (o as HTMLOptionElement).value))) {
      await colours.selectOption(colour);
      const legend = await page.locator(".legend").innerText();
      expect(legend).not.toContain("no accesses");
      expect(legend).not.toContain("no false sharing only");
      if (colour !== "accesses") expect(legend).toMatch(/accessed, no (cycles|HITM|false sharing|loads|stores)/);
    }
  }
});

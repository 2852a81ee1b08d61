// Builds ../crates/page/asset/page.html: the template with styles and program in it. The same sources give the same bytes.
//
//   node build.mjs            writes the asset
//   node build.mjs --check    says whether the committed asset is what the sources give

import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { build } from "esbuild";

const asset = new URL("../crates/page/asset/page.html", import.meta.url);
const here = (name) => new URL(name, import.meta.url);

async function bundled(entry) {
  const result = await build({
    entryPoints: [here(entry).pathname],
    absWorkingDir: here(".").pathname,
    bundle: true,
    minify: true,
    charset: "utf8",
    format: "iife",
    target: ["es2022"],
    legalComments: "none",
    write: false,
  });
  return result.outputFiles[0].text.trim();
}

const program = await bundled("src/main.ts");
const styles = await bundled("src/style.css");
const template = await readFile(here("src/template.html"), "utf8");
// Only this program runs: a name that became markup after all would not.
const hash = createHash("sha256").update(program).digest("base64");
const page = template
  .replace("/*styles*/", () => styles)
  .replace("/*program*/", () => program)
  .replace("program-hash", () => `sha256-${hash}`);

if (process.argv.includes("--check")) {
  const committed = await readFile(asset, "utf8");
  if (committed !== page) {
    console.error("page: error: crates/page/asset/page.html is not what web/ gives: run `make page`");
    process.exit(1);
  }
  console.log(`page: the asset is what web/ gives (${page.length} characters)`);
} else {
  await writeFile(asset, page);
  console.log(`page: wrote ${page.length} characters`);
}

// What is known about a field, in full.

import type { Block } from "./blocks";
import type { GroupRow } from "./documents";
import { h } from "./dom";
import type { State } from "./state";
import { exact, percent } from "./number";
import { folded } from "./text";

type Entry = [name: string, value: string | null | undefined | false];

function list(entries: Entry[]): HTMLElement {
  const dl = h("dl");
  for (const [name, value] of entries) {
    if (typeof value === "string" && value !== "") dl.append(h("dt", {}, name), h("dd", {}, value));
  }
  return dl;
}

const GROUPS: Record<string, string> = {
  atomic: "atomics: locks and the like",
  "read by others": "read by other CPUs than the owner's",
  shared: "goes from CPU to CPU",
  own: "used by the owner's CPU, or by one CPU",
};

export function detailsOf(state: State, block: Block, after: boolean): HTMLElement {
  const { view, lineBytes } = state;
  const first = Math.floor(block.offset / lineBytes);
  const last = Math.floor((block.offset + block.size - 1) / lineBytes);
  const place: Entry[] = [
    ["type", block.place?.type],
    ["offset", `${block.offset} (0x${block.offset.toString(16)})`],
    ["size", `${block.size} ${block.size === 1 ? "byte" : "bytes"}`],
    ["bits", block.place?.bits ? `${block.place.bits.width} from bit ${block.place.bits.start}` : null],
    ["line", first === last ? `${first}` : `${first} to ${last}`],
  ];
  const root = h("div", {}, h("h3", {}, block.name), list(place));
  if (block.fields.length === 0) root.append(h("p", {}, "Not accessed."));
  for (const field of block.fields) {
    if (block.fields.length > 1) root.append(h("h4", {}, field.path));
    const { costs } = field;
    const wrote = field.stores + field.rmws;
    root.append(list([
      ["also called", field.aliases.join(", ")],
      ["accesses", exact(field.accesses)],
      ["loads", exact(field.loads)],
      ["stores", exact(field.stores)],
      ["atomics (RMW)", field.rmws > 0 && exact(field.rmws)],
      ["silent stores", field.silent > 0 && `${exact(field.silent)} (${percent(field.silent, wrote)})`],
      ["readers, writers", `${field.readers} and ${field.writers} CPUs`],
      ["by other CPUs", field.remoteShare === null ? null : percent(field.remoteShare)],
      ["cycles", costs && exact(costs.cycles)],
      ["left the core", costs && exact(costs.misses)],
      ["HITM", costs && exact(costs.hitm)],
      ["upgrades", costs && exact(costs.upgrades)],
      ["false sharing", costs && costs.cycles > 0 && percent(costs.falseSharing, costs.cycles)],
      ["true sharing", costs && costs.cycles > 0 && percent(costs.trueSharing, costs.cycles)],
      [after ? "cycles before" : "cycles", field.before === null || costs ? null : exact(field.before)],
      ["cycles after", field.after === null ? null : exact(field.after)],
      ["functions", field.functions === null ? "not in this page: report --json has them" :
        field.functions.map((f) => `${f.name} ${percent(f.accesses, field.accesses)}`).join(", ")],
      ["most cycles in", field.costly.join(", ")],
    ]));
  }
  const group = view?.groups.find((g) => isIn(g, block));
  if (group) {
    root.append(list([
      ["group", GROUPS[group.class] ?? group.class],
      ["used with", group.fields.filter((name) => name !== folded(block.name)).slice(0, 8).join(", ")],
    ]));
  }
  return root;
}

function isIn(group: GroupRow, block: Block): boolean {
  const names = [block.name, ...block.fields.flatMap((f) => [f.path, ...f.aliases])].map(folded);
  return group.fields.some((field) => names.includes(field));
}

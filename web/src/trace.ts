// Curves from fields to where an edit puts them.

import { s } from "./dom";
import { changeOf, moved } from "./fields";
import type { State } from "./state";

/** Curves from the fields of the first layout to where they are in the second: those that matter and have moved. */
export function trace(grid: HTMLElement, state: State): void {
  const between = grid.querySelector<HTMLElement>(".layouts");
  const [left, right] = grid.querySelectorAll<HTMLElement>(".layout");
  between?.querySelector(".traces")?.remove();
  if (!between || !left || !right) return;
  const frame = between.getBoundingClientRect();
  const edges = [left, right].map((layout) => layout.querySelector(".track")?.getBoundingClientRect());
  const [first, second] = edges;
  if (!first || !second || second.left <= first.right) return;
  const svg = s("svg", { class: "traces", width: frame.width, height: frame.height, "aria-hidden": "true" });
  const middle = (element: HTMLElement) => {
    const box = element.getBoundingClientRect();
    return box.top + box.height / 2 - frame.top;
  };
  const places = new Map<string, number>();
  for (const block of right.querySelectorAll<HTMLElement>("button.block:not(.rest)")) {
    places.set(block.dataset["path"] ?? "", middle(block));
  }
  const start = (left.querySelector(".total")?.getBoundingClientRect().right ?? first.right) - frame.left;
  const end = (right.querySelector(".line")?.getBoundingClientRect().left ?? second.left) - frame.left;
  const change = changeOf(state.page, state.view?.name ?? "", state.lineBytes);
  for (const block of left.querySelectorAll<HTMLElement>("button.block.touched:not(.rest)")) {
    const path = block.dataset["path"] ?? "";
    const y = places.get(path);
    const from = Number(block.dataset["offset"]);
    const stays = change !== null && moved(from, path, change.before, change.after) === from;
    if (y === undefined || stays || block.dataset["value"] === "0") continue;
    const y0 = middle(block);
    const half = (end - start) / 2;
    svg.append(s("path", { class: "trace", "data-path": path, d: `M${start},${y0}C${start + half},${y0} ${end - half},${y} ${end},${y}` }));
  }
  between.append(svg);
}

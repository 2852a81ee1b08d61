// What the reader has chosen.

import type { Page, PageType } from "./documents";
import { metricsOf, type Metric } from "./metric";

export interface State {
  page: Page;
  view: PageType | null;
  metric: Metric;
  lineBytes: number;
  /** Shows lines that nothing touches. */
  cold: boolean;
  /** The line under the lens: bytes from the type's start to the line's. */
  line: number | null;
}

export class Store {
  readonly state: State;
  readonly #listeners: (() => void)[] = [];

  constructor(page: Page) {
    const metric = metricsOf(page)[0];
    if (!metric) throw new Error("no metric");
    const view = page.types.find((t) => t.name === page.type) ?? page.types[0] ?? null;
    const lineBytes = page.whatif?.results[0]?.line_bytes ?? page.costs?.costs.line_bytes ?? view?.line_size ?? 64;
    this.state = { page, view, metric, lineBytes, cold: false, line: null };
  }

  /** Calls now and after each change. */
  on(listener: () => void): void {
    this.#listeners.push(listener);
    listener();
  }

  set(change: Partial<State>): void {
    if (change.view !== undefined && change.view !== this.state.view) this.state.line = null;
    Object.assign(this.state, change);
    for (const listener of this.#listeners) listener();
  }
}

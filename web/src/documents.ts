// The documents that the page reads: docs/reference/json/page.md and those that it names.

export interface Page {
  schema: string;
  tool: string;
  title: string;
  headline: string;
  type: string | null;
  settings: Record<string, string>;
  report: Report | null;
  /** Rows of types that the report has and the page has not. */
  rows_left_out: number;
  types: TypeView[];
  costs: CostsDocument | null;
  whatif: WhatIfDocument | null;
  advise: Advice | Survey | null;
  diff: Diff | null;
  layouts: LayoutChange[];
  cases: CaseResults[];
}

export interface Figures {
  accesses: number;
  loads: number;
  stores: number;
  rmws: number;
  silent: number;
  remote_share: number | null;
  readers: number;
  writers: number;
}

export interface Share {
  name: string;
  accesses: number;
}

export interface TypeRow extends Figures {
  name: string;
  kind: string;
  place: string;
  size: number | null;
  objects: number | null;
  /** Accesses to bytes that come from another CPU; none where no order among CPUs is known. */
  shared?: number | null;
  functions: Share[];
}

export interface LedgerPart {
  name: string;
  accesses: number;
  share: number;
}

export interface Report {
  schema: string;
  inputs: {
    tool: string;
    recorded_by: string;
    recording: Record<string, string>;
    checksum: string | null;
    cut: string | null;
  };
  ledger: {
    recorded: number;
    total: number;
    typed_share: number;
    unknown_share: number;
    groups: (LedgerPart & { buckets: LedgerPart[] })[];
  };
  types?: TypeRow[];
}

export interface FieldPlace {
  path: string;
  type: string;
  offset: number;
  size: number;
  bits?: { start: number; width: number };
  arrays?: { stride: number; count: number }[];
}

export interface FieldMap {
  size: number;
  fields: FieldPlace[];
}

export interface FieldRow extends Figures {
  type_name: string;
  field: string;
  aliases: string[];
  offset: number;
  size: number;
  line: number;
  functions: Share[];
}

export interface GroupRow extends Figures {
  class: string;
  fields: string[];
  share: number;
  loads_per_store: number | null;
  lines: number[];
}

/** Parts of the recording's time, and rows of CPUs. */
export interface TimeGrid {
  start: number;
  step: number;
  bins: number;
  cpus_per_row: number;
  rows: number;
}

export interface TypeTimes extends TimeGrid {
  fields: { field: string; offset: number; accesses: number[][] }[];
  lines: { line: number; accesses: number[][] }[];
}

/** Lines in columns, by where accesses begin. */
export interface LineColumns {
  line: number[];
  loads: number[];
  stores: number[];
  rmws: number[];
}

/** Fields in columns: the n-th entry of each is of the n-th field. */
export interface FieldColumns {
  field: string[];
  offset: number[];
  size: number[];
  loads: number[];
  stores: number[];
  rmws: number[];
  silent: number[];
  remote_share: (number | null)[];
  readers: number[];
  writers: number[];
}

export interface TypeView {
  name: string;
  size: number;
  line_size: number;
  figures: Figures;
  /** `inside`: the outer type, where it is not an object of its own. */
  places: (Figures & { owner: string; inside?: string })[];
  /** Those with most accesses. */
  fields: FieldRow[];
  /** The others: their figures alone. */
  rest: FieldColumns;
  /** None in pages. */
  lines: never[];
  line_sums: LineColumns;
  fields_without_times: number;
  lines_without_times: number;
  layout: FieldMap;
  groups: GroupRow[];
  times: TypeTimes;
}

export interface Causes {
  cold: number;
  capacity: number;
  true_sharing: number;
  false_sharing: number;
  unshared: number;
}

export interface Cost {
  name: string;
  loads: number;
  stores: number;
  misses: number;
  cycles: number;
  waited: number;
  hitm: [number, number, number];
  upgrades: number;
  llc: number;
  forwards: number;
  dram: number;
  causes: Causes;
}

export interface Cell {
  offset: number;
  field: string;
  hitm: number;
  loads: number;
  cycles_per_load: number;
  stores: number;
  upgrades: number;
  cycles: number;
  functions: string[];
  times?: number[][];
}

export interface LineCost {
  name: string;
  start: number;
  lines: number;
  hitm: number;
  misses: number;
  cycles: number;
  cells: Cell[];
  neighbours: Cell[];
  /** Who wrote last, who took it, how many. */
  pairs: [from: number, to: number, hitm: number][];
}

export interface CpuPlace {
  cpu: [number, number];
  domain: number;
  socket: number;
}

export interface CostsDocument {
  schema: string;
  cpus: CpuPlace[];
  costs: {
    machine: string;
    line_bytes: number;
    cpus: number;
    recorded_cpus: number;
    seed: number;
    interleavings?: number;
    accesses: number;
    device_accesses: number;
    duration: number;
    whole: Cost;
    types: Cost[];
    fields: Cost[];
    functions: Cost[];
    pairs: { from: [number, number]; to: [number, number]; hitm: number; cycles: number }[];
    pairs_by: "cpu" | "domain" | "socket";
    time: TimeGrid;
    lines: LineCost[];
  };
}

export interface Measure {
  without: number;
  with: number;
  difference: number;
  ci95: number;
  significant: boolean;
}

export interface MeasuredRow {
  name: string;
  count: Measure;
  cycles: Measure;
}

export interface WhatIf {
  machine: string;
  line_bytes: number;
  cpus: number;
  recorded_cpus: number;
  seed: number;
  interleavings: number;
  sizes: { name: string; without_bytes: number; with_bytes: number; without_lines: number; with_lines: number }[];
  types: Measure;
  whole: Measure;
  llc_misses: Record<"types" | "whole" | "kernel" | "kernel_loads" | "kernel_stores" | "kernel_rmws" | "user_loads", Measure>;
  duration: Measure;
  causes: MeasuredRow[];
  sources: MeasuredRow[];
  fields: MeasuredRow[];
  functions: MeasuredRow[];
  ablation: { edit: string; alone: Measure | null; last: Measure | null; why_not: string | null }[];
  relocated: number;
  skipped: number;
}

export interface WhatIfDocument {
  schema: string;
  edits: string;
  results: WhatIf[];
}

/** A member that starts a line, though the types do not say whether the source asks for it. */
export interface LineStart {
  member: string;
  /** Whether it does so in the new layout, too. */
  kept: boolean;
  /** The edit that asks for the opposite. */
  otherwise: string;
}

export interface LayoutChange {
  type: string;
  line_bytes: number;
  before: FieldMap;
  after: FieldMap;
  line_starts?: LineStart[];
}

export interface AdvisedGroup {
  name: string;
  sealed: boolean;
  members: { name: string; loads: number; stores: number; rmws: number; readers: number; writers: number }[];
  fills: string[];
  loads_per_write: number | null;
  read_in: string[];
  written_in: string[];
  saves: number;
  kept_from: { name: string; share: number }[];
}

export interface AdvisedLayout {
  edits: string;
  moves: number;
  model: number;
  confirmed: boolean;
  /** Whether its objects start lines, which the recorded layout does not ask for. */
  starts_lines?: boolean;
  effects: { types: Measure; whole: Measure; duration: Measure }[][];
  groups: AdvisedGroup[];
}

export interface Advice {
  schema: string;
  type: string;
  machines: string[];
  found: number;
  front: { moves: number; model: number; replayed: number | null; recommended: boolean }[];
  recommended: AdvisedLayout | null;
  others: AdvisedLayout[];
  with_growth?: { max_growth: number; layout: AdvisedLayout } | null;
  aligned?: { edits: string; advice: string; objects: number; astray: number; effects: AdvisedLayout["effects"] } | null;
}

export interface Survey {
  schema: string;
  machines: string[];
  seed: number;
  interleavings?: number;
  types: {
    name: string;
    cost: number;
    share: number;
    true_sharing: number;
    false_sharing: number;
    other_misses: number;
    estimate: { gain: number; share: number; moves: number } | null;
    why_not: string | null;
  }[];
}

export interface DiffFigures {
  loads: number;
  stores: number;
  misses: number;
  cycles: number;
  sharing_misses: number;
  sharing_cycles: number;
}

export interface DiffSide {
  bytes: number;
  cpus: number;
  accesses: number;
  fields: Record<string, DiffFigures>;
}

export interface Diff {
  schema: string;
  type: string | null;
  machine: string | null;
  a: DiffSide;
  b: DiffSide;
}

export interface Measured {
  without: number;
  with: number;
  difference: number;
  ci95: number;
}

export interface Spread {
  mean: number;
  least: number;
  most: number;
}

/** A change of a mean: in per cent, with half of its 95 % confidence interval. */
export interface Change {
  percent: number;
  ci95: number | null;
}

export interface Compared {
  without: Spread;
  predicted: Spread;
  rerecorded: Spread;
  predicted_change: Change | null;
  recorded_change: Change | null;
  verdict: "agrees" | "differs" | "inconclusive" | null;
}

export interface Figure {
  sum: Compared;
  per_event: Compared | null;
}

export interface EventRuns {
  name: string;
  function: string;
  copies: string[];
  patched_copies: string[];
  without: Spread;
  rerecorded: Spread;
  change: Change | null;
}

export interface Rebuilt {
  edit: string;
  machine: string;
  types: string[];
  runs: number;
  event: EventRuns | null;
  cost: Figure;
  whole: Figure;
  llc_misses: Figure;
  functions: Record<string, Figure>;
}

export interface CaseResults {
  schema: string;
  case: string;
  summary: string;
  mode: string;
  inputs: { recording: Record<string, string>; checksum: string; accesses: number };
  found: { name: string; bytes: number; accesses: number; machine: string; cycles: number; true_sharing: number; false_sharing: number }[];
  predicted: { edit: string; machine: string; cpus: number; types: Measured; whole: Measured }[];
  rebuilt: Rebuilt[];
  published: { key: string; published: string; source: string; found: string | null; predicted: string | null; rerecorded: string | null }[];
}

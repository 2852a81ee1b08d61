// The documents that the page reads, generated from the types in crates/answers:
// `UPDATE=1 cargo test -p linemate-answers` writes this file. What each key means is in
// docs/reference/json. Long because it has all that a page can hold.

export interface Page {
  schema: string;
  tool: string;
  title: string;
  headline: string;
  prediction_errors: string[];
  type: string | null;
  settings: Record<string, string>;
  report: Report | null;
  rows_left_out: number;
  types: PageType[];
  costs: CostsDocument | null;
  whatif: WhatIfDocument | null;
  advise: Advised | null;
  diff: DiffDocument | null;
  layouts: LayoutChange[];
  cases: CaseResults[];
}

export interface Report {
  schema: string;
  inputs: Inputs;
  ledger: LedgerView;
  event?: EventCount;
  types?: TypeRow[];
  fields?: FieldRow[];
  lines?: LineRow[];
  functions?: FunctionRow[];
  sources?: SourceRow[];
  cpus?: CpuRow[];
  type?: TypeView;
}

export interface Inputs {
  tool: string;
  recorded_by: string;
  recording: Record<string, string>;
  checksum: string | null;
  cut: string | null;
}

export interface LedgerView {
  recorded: number;
  total: number;
  typed_share: number;
  programs?: ProgramsShare;
  unknown_share: number;
  groups: LedgerGroup[];
}

export interface ProgramsShare {
  accesses: number;
  typed_share: number;
}

export interface LedgerGroup {
  name: string;
  accesses: number;
  share: number;
  buckets: LedgerBucket[];
}

export interface LedgerBucket {
  name: string;
  accesses: number;
  share: number;
}

export interface EventCount {
  function: string;
  symbols: string[];
  calls: number;
}

export interface TypeRow {
  name: string;
  kind: string;
  place: string;
  places?: TypePlace[];
  size: number | null;
  objects: number | null;
  shared: number | null;
  functions: Share[];
  accesses: number;
  loads: number;
  stores: number;
  rmws: number;
  silent: number;
  remote_share: number | null;
  readers: number;
  writers: number;
}

export interface TypePlace {
  kind: string;
  place: string;
  accesses: number;
}

export interface Share {
  name: string;
  accesses: number;
}

export interface FieldRow {
  type_name: string;
  field: string;
  aliases: string[];
  offset: number;
  size: number;
  line: number;
  functions: Share[];
  accesses: number;
  loads: number;
  stores: number;
  rmws: number;
  silent: number;
  remote_share: number | null;
  readers: number;
  writers: number;
}

export interface LineRow {
  type_name: string;
  line: number;
  fields: Share[];
  members: LineMember[];
  accesses: number;
  loads: number;
  stores: number;
  rmws: number;
  silent: number;
  remote_share: number | null;
  readers: number;
  writers: number;
}

export interface LineMember {
  field: string;
  offset: number;
  size: number;
  accesses: number;
  readers: number;
  writers: number;
}

export interface FunctionRow {
  name: string;
  types: Share[];
  accesses: number;
  loads: number;
  stores: number;
  rmws: number;
  silent: number;
  remote_share: number | null;
  readers: number;
  writers: number;
}

export interface SourceRow {
  name: string;
  file: string | null;
  line: number | null;
  functions: string[];
  types: Share[];
  accesses: number;
  loads: number;
  stores: number;
  rmws: number;
  silent: number;
  remote_share: number | null;
  readers: number;
  writers: number;
}

export interface CpuRow {
  cpu: number;
  last: number;
  accesses: number;
  loads: number;
  stores: number;
  rmws: number;
  remote_share: number | null;
}

export interface TypeView {
  name: string;
  size: number;
  line_size: number;
  figures: Figures;
  places: Place[];
  fields: FieldRow[];
  layout: FieldMap;
  lines: LineRow[];
  groups: GroupRow[];
  times: TypeTimes;
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

export interface Place {
  owner: string;
  inside?: string;
  fields: FieldRow[];
  accesses: number;
  loads: number;
  stores: number;
  rmws: number;
  silent: number;
  remote_share: number | null;
  readers: number;
  writers: number;
}

export interface FieldMap {
  size: number;
  fields: FieldPlace[];
}

export interface FieldPlace {
  path: string;
  type: string;
  offset: number;
  size: number;
  bits?: BitRange;
  arrays?: ArrayExtent[];
}

export interface BitRange {
  start: number;
  width: number;
}

export interface ArrayExtent {
  stride: number;
  count: number;
}

export interface GroupRow {
  class: string;
  fields: string[];
  share: number;
  loads_per_store: number | null;
  lines: number[];
  accesses: number;
  loads: number;
  stores: number;
  rmws: number;
  silent: number;
  remote_share: number | null;
  readers: number;
  writers: number;
}

export interface TypeTimes {
  fields: FieldTimes[];
  lines: LineTimes[];
  start: number;
  step: number;
  bins: number;
  cpus_per_row: number;
  rows: number;
}

export interface FieldTimes {
  field: string;
  offset: number;
  accesses: number[][];
}

export interface LineTimes {
  line: number;
  accesses: number[][];
}

export interface PageType {
  rest: FieldColumns;
  line_sums: LineColumns;
  fields_without_times: number;
  lines_without_times: number;
  name: string;
  size: number;
  line_size: number;
  figures: Figures;
  places: Place[];
  fields: FieldRow[];
  layout: FieldMap;
  lines: LineRow[];
  groups: GroupRow[];
  times: TypeTimes;
}

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

export interface LineColumns {
  line: number[];
  loads: number[];
  stores: number[];
  rmws: number[];
}

export interface CostsDocument {
  schema: string;
  tool: string;
  recording: Record<string, string>;
  checksum: string | null;
  type: string | null;
  cpus: CpuPlace[];
  costs: Costs;
  others?: MachineCosts[];
  event?: EventCount;
}

export interface CpuPlace {
  cpu: [number, number];
  domain: number;
  socket: number;
}

export interface Costs {
  machine: string;
  line_bytes: number;
  cpus: number;
  recorded_cpus: number;
  seed: number;
  interleavings: number;
  accesses: number;
  device_accesses: number;
  warm_up: WarmUp | null;
  mechanisms: string[];
  overlapped: number;
  duration: number;
  potential: Potential;
  whole: Cost;
  hottest?: HotPlace;
  sets: TypeSets | null;
  types: Cost[];
  fields: Cost[];
  places?: Cost[];
  functions: Cost[];
  sources?: Cost[];
  pairs: PairCost[];
  pairs_by: MachinePlaces;
  time: TimeGrid;
  lines: LineCost[];
  lock_waits?: LockCost[];
  groups?: GroupCosts;
  prediction_error?: PredictionError;
  under: UnderCost | null;
}

export interface WarmUp {
  lines: number;
  late: number;
}

export interface Potential {
  cost: number;
  true_sharing: number;
  false_sharing: number;
  cold: number;
  capacity: number;
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

export interface Causes {
  cold: number;
  capacity: number;
  true_sharing: number;
  false_sharing: number;
  unshared: number;
}

export interface HotPlace {
  name: string;
  function: string;
  source?: string;
}

export interface TypeSets {
  cpu: number;
  cpus: number;
  l1: CacheSets;
  l2: CacheSets;
  llc: CacheSets;
}

export interface CacheSets {
  sets: number;
  ways: number;
  most: SetCounts;
  mean: SetMeans;
}

export interface SetCounts {
  lines: number;
  reached: number;
  fullest: number;
  beyond: number;
}

export interface SetMeans {
  lines: number;
  reached: number;
  fullest: number;
  beyond: number;
}

export interface PairCost {
  from: [number, number];
  to: [number, number];
  hitm: number;
  cycles: number;
}

export type MachinePlaces = "cpu" | "domain" | "socket";

export interface TimeGrid {
  start: number;
  step: number;
  bins: number;
  cpus_per_row: number;
  rows: number;
}

export interface LineCost {
  name: string;
  start: number;
  lines: number;
  hitm: number;
  misses: number;
  cycles: number;
  cells: CellCost[];
  neighbours: CellCost[];
  pairs: [number, number, number][];
}

export interface CellCost {
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

export interface LockCost {
  name: string;
  function: string;
  waits: number;
  cycles: number;
}

export interface GroupCosts {
  groups: number;
  mixing: Mixing;
  accesses: number;
  locks: LockCost[];
  circles: number;
  locks_under?: number;
  no_think_time?: boolean;
  unreleased: number;
}

export type Mixing = "groups" | "domains" | "flat";

export interface PredictionError {
  cpus: number;
  recorded_cpus: number;
  copies: number;
  with_series: boolean;
  compared_copies: number;
  compared_cpus: number[];
  percent: [number, number];
}

export interface UnderCost {
  cost: Cost;
  entered: number;
  cycles: CycleSum;
  all_cycles: CycleSum;
  balance: Balance;
}

export interface CycleSum {
  instructions: number;
  stalls: number;
}

export interface Balance {
  calls: number;
  returns: number;
  matched: number;
}

export interface MachineCosts {
  cpus: CpuPlace[];
  costs: Costs;
}

export interface WhatIfDocument {
  schema: string;
  tool: string;
  recording: Record<string, string>;
  checksum: string | null;
  edits: string;
  event: EventCount | null;
  layouts: LayoutChange[];
  results: WhatIf[];
}

export interface LayoutChange {
  type: string;
  line_bytes: number;
  before: FieldMap;
  after: FieldMap;
  line_starts?: KeptLineStart[];
}

export interface KeptLineStart {
  member: string;
  kept: boolean;
  otherwise: string;
}

export interface WhatIf {
  machine: string;
  line_bytes: number;
  cpus: number;
  recorded_cpus: number;
  prediction_error?: PredictionError;
  seed: number;
  interleavings: number;
  interleavings_max: number;
  by_difference: boolean;
  accesses: number;
  potential: Potential;
  sizes: TypeSize[];
  sets: SetsChange[];
  types: Measure;
  whole: Measure;
  llc_misses: LlcMisses;
  llc_share: boolean;
  warm_up: WarmUp | null;
  mechanisms: string[];
  duration: Measure;
  time: WorkTime;
  causes: MeasuredRow[];
  sources: MeasuredRow[];
  fields: MeasuredRow[];
  functions: MeasuredRow[];
  ablation: Ablation[];
  relocated: number;
  in_either_half: number;
  types_accesses: number;
  on_stacks: number;
  paired: Paired[];
  followed: Followed[];
  skipped: number;
  under: UnderChange | null;
}

export interface TypeSize {
  name: string;
  recorded_bytes: number;
  without_bytes: number;
  with_bytes: number;
  without_lines: number;
  with_lines: number;
  memory: boolean;
}

export interface SetsChange {
  name: string;
  without: TypeSets | null;
  with: TypeSets | null;
}

export interface Measure {
  without: number;
  with: number;
  difference: number;
  ci95: number;
  significant: boolean;
}

export interface LlcMisses {
  types: Measure;
  whole: Measure;
  kernel: Measure;
  kernel_loads: Measure;
  kernel_stores: Measure;
  kernel_rmws: Measure;
  user_loads: Measure;
}

export interface WorkTime {
  cpus: number;
  cycles: Measure;
  waiting: Measure;
  bound: Measure;
  busiest: Measure;
  memory: number;
}

export interface MeasuredRow {
  name: string;
  count: Measure;
  cycles: Measure;
}

export interface Ablation {
  edit: string;
  alone: Measure | null;
  last: Measure | null;
  why_not: string | null;
}

export interface Paired {
  pairs: number;
  first_alone: number;
  second_alone: number;
}

export interface Followed {
  pointer: string;
  owners: number;
  arrays: number;
}

export interface UnderChange {
  function: string;
  entered: number;
  cost: Measure;
  llc_misses: Measure;
  cycles: Measure;
  all_cycles: Measure;
}

export type Advised = AdviceDocument | SurveyDocument;

export interface AdviceDocument {
  schema: string;
  tool: string;
  recordings: AdvisedRecording[];
  machines: string[];
  under?: string;
  type: string;
  source?: ProgramSource;
  pins: string[];
  max_growth: number;
  seed: number;
  interleavings: number;
  first_stays: string | null;
  line_starts?: KeptLineStart[];
  events: number[];
  sampled_from: number[];
  cut: boolean;
  found: number;
  front: FrontPoint[];
  recommended: AdvisedLayout | null;
  others: AdvisedLayout[];
  with_growth: GrownLayout | null;
  aligned: AlignedObjects | null;
  remedies: RemedyList;
}

export interface AdvisedRecording {
  description: Record<string, string>;
  checksum: string | null;
  event?: EventCount;
  prediction_error?: PredictionError;
}

export interface ProgramSource {
  language: string;
  declared: string | null;
}

export interface FrontPoint {
  moves: number;
  model: number;
  replayed: number | null;
  recommended: boolean;
}

export interface AdvisedLayout {
  edits: string;
  moves: number;
  model: number;
  confirmed: boolean;
  starts_lines: boolean;
  effects: LayoutEffect[][];
  footprints: FootprintChange[];
  groups: GroupReasons[];
}

export interface LayoutEffect {
  interleavings: number;
  types: Measure;
  whole: Measure;
  duration: Measure;
  under?: Measure;
  in_either_half: number;
}

export interface FootprintChange {
  line_bytes: number;
  before: Footprint;
  after: Footprint;
}

export interface Footprint {
  bytes: number;
  lines: number;
  holes: number;
  hole_bytes: number;
  touched: number;
  alone: number;
}

export interface GroupReasons {
  name: string;
  sealed: boolean;
  members: MemberUse[];
  fills: string[];
  loads_per_write: number | null;
  read_in: string[];
  written_in: string[];
  saves: number;
  kept_from: KeptApart[];
}

export interface MemberUse {
  name: string;
  loads: number;
  stores: number;
  rmws: number;
  readers: number;
  writers: number;
}

export interface KeptApart {
  name: string;
  share: number;
}

export interface GrownLayout {
  max_growth: number;
  layout: AdvisedLayout;
}

export interface AlignedObjects {
  edits: string;
  advice: string;
  objects: number;
  astray: number;
  effects: LayoutEffect[][];
}

export interface RemedyList {
  machine: string;
  line_bytes: number;
  cpus: number;
  recorded_cpus: number;
  seed: number;
  interleavings: number;
  accesses: number;
  whole: Stake;
  remedies: Remedy[];
  left_out: [RemedyKind, number][];
  floor: number;
  below_floor: number;
}

export interface Stake {
  misses: number;
  cycles: number;
}

export interface Remedy {
  kind: RemedyKind;
  subject: string;
  advice: string;
  concerns: string[];
  stake: Stake;
  reasons: Reasons;
  trials: Trial[];
}

export type RemedyKind = "skip_silent_stores" | "reuse_result" | "derive" | "split_per_cpu" | "co_allocate" | "own_line" | "pad_elements" | "allocate_apart" | "spread_over_sets" | "write_less";

export interface Reasons {
  loads: number;
  stores: number;
  silent_stores: number;
  rmws: number;
  readers: number;
  writers: number;
  functions: FunctionUse[];
  notes: string[];
}

export interface FunctionUse {
  name: string;
  accesses: number;
  misses: number;
  cycles: number;
}

export interface Trial {
  edits: string;
  effect: RemedyEffect;
}

export type RemedyEffect = "not_tried" | { refused: { why: string } } | { tried: Gain };

export interface Gain {
  interleavings: number;
  types: Measure;
  misses: Measure;
  whole: Measure;
  skipped: number;
  in_either_half: number;
}

export interface SurveyDocument {
  schema: string;
  tool: string;
  recordings: AdvisedRecording[];
  machines: string[];
  seed: number;
  interleavings: number;
  types: SurveyRow[];
  remedies: RemedyList;
}

export interface SurveyRow {
  name: string;
  cost: number;
  share: number;
  true_sharing: number;
  false_sharing: number;
  other_misses: number;
  capacity: number;
  estimate: Estimate | null;
  inside: string | null;
  why_not: string | null;
}

export interface Estimate {
  gain: number;
  share: number;
  moves: number;
  rated: number;
  sampled_from: number;
}

export interface DiffDocument {
  schema: string;
  tool: string;
  type: string | null;
  machine: string | null;
  seed: number;
  interleavings: number;
  a: DiffSide;
  b: DiffSide;
  others?: MachineDiff[];
  under?: string;
}

export interface DiffSide {
  bytes: number;
  cpus: number;
  prediction_error?: PredictionError;
  accesses: number;
  event: EventCount | null;
  fields: Record<string, DiffFigures>;
}

export interface DiffFigures {
  loads: number;
  stores: number;
  misses: number;
  cycles: number;
  sharing_misses: number;
  sharing_cycles: number;
}

export interface MachineDiff {
  machine: string;
  a: DiffSide;
  b: DiffSide;
}

export interface CaseResults {
  schema: string;
  tool: string;
  case: string;
  summary: string;
  mode: string;
  replay: ReplayedAs;
  inputs: CaseInputs;
  found: FoundType[];
  predicted: Predicted[];
  rebuilt: Rebuilt[];
  checked: Checked[];
  published: PublishedRow[];
}

export interface ReplayedAs {
  cold: boolean;
  mechanisms: string[];
  llc_share: boolean;
  cpus?: number;
}

export interface CaseInputs {
  recording: Record<string, string>;
  checksum: string;
  accesses: number;
}

export interface FoundType {
  name: string;
  bytes: number;
  accesses: number;
  groups: FoundGroup[];
  machine: string;
  cycles: number;
  true_sharing: number;
  false_sharing: number;
  contended: Contended[];
}

export interface FoundGroup {
  class: string;
  fields: string[];
  share: number;
  loads_per_store: number | null;
  lines: number[];
}

export interface Contended {
  field: string;
  cycles: number;
  loads: number;
  stores: number;
  hitm: number;
  cycles_per_load: number | null;
}

export interface Predicted {
  edit: string;
  machine: string;
  cpus: number;
  line_bytes: number;
  sizes: [string, number, number][];
  types: Measured;
  whole: Measured;
  llc_misses: Measured;
  llc_load_misses: Measured;
  functions: Record<string, Measured>;
  skipped: number;
  accesses: number;
}

export interface Measured {
  without: number;
  with: number;
  difference: number;
  ci95: number;
}

export interface Rebuilt {
  edit: string;
  machine: string;
  types: string[];
  runs: number;
  event: EventRuns | null;
  cost: Figure;
  accesses: Figure;
  whole: Figure;
  llc_misses: Figure;
  llc_load_misses: Figure;
  functions: Record<string, Figure>;
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

export interface Spread {
  mean: number;
  least: number;
  most: number;
}

export interface Change {
  percent: number;
  ci95: number | null;
}

export interface Figure {
  sum: Compared;
  per_event: Compared | null;
}

export interface Compared {
  without: Spread;
  predicted: Spread;
  rerecorded: Spread;
  predicted_change: Change | null;
  recorded_change: Change | null;
  verdict: Verdict | null;
}

export type Verdict = "agrees" | "differs" | "inconclusive" | "not comparable";

export interface Checked {
  edit: string;
  check: string;
  config: string[];
  said: string;
}

export interface PublishedRow {
  key: string;
  published: string;
  source: string;
  found: string | null;
  predicted: string | null;
  rerecorded: string | null;
}

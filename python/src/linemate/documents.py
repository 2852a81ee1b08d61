"""The documents of `--json` and the tables of `linemate export`.

Generated from the types in crates/answers: `UPDATE=1 cargo test -p linemate-answers` writes this
file. What each key means is in docs/reference/json, each column in docs/reference/columns.md.
Long because it has all documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NotRequired, TypeAlias, TypedDict


class Report(TypedDict):
    schema: str
    inputs: Inputs
    ledger: LedgerView
    event: NotRequired[EventCount]
    types: NotRequired[list[TypeRow]]
    fields: NotRequired[list[FieldRow]]
    lines: NotRequired[list[LineRow]]
    functions: NotRequired[list[FunctionRow]]
    sources: NotRequired[list[SourceRow]]
    cpus: NotRequired[list[CpuRow]]
    type: NotRequired[TypeView]


class Inputs(TypedDict):
    tool: str
    recorded_by: str
    recording: dict[str, str]
    checksum: str | None
    cut: str | None


class LedgerView(TypedDict):
    recorded: int
    total: int
    typed_share: float
    programs: NotRequired[ProgramsShare]
    unknown_share: float
    groups: list[LedgerGroup]


class ProgramsShare(TypedDict):
    accesses: int
    typed_share: float


class LedgerGroup(TypedDict):
    name: str
    accesses: int
    share: float
    buckets: list[LedgerBucket]


class LedgerBucket(TypedDict):
    name: str
    accesses: int
    share: float


class EventCount(TypedDict):
    function: str
    symbols: list[str]
    calls: int


class TypeRow(TypedDict):
    name: str
    kind: str
    place: str
    places: NotRequired[list[TypePlace]]
    size: int | None
    objects: int | None
    shared: int | None
    functions: list[Share]
    accesses: int
    loads: int
    stores: int
    rmws: int
    silent: int
    remote_share: float | None
    readers: int
    writers: int


class TypePlace(TypedDict):
    kind: str
    place: str
    accesses: int


class Share(TypedDict):
    name: str
    accesses: int


class FieldRow(TypedDict):
    type_name: str
    field: str
    aliases: list[str]
    offset: int
    size: int
    line: int
    functions: list[Share]
    accesses: int
    loads: int
    stores: int
    rmws: int
    silent: int
    remote_share: float | None
    readers: int
    writers: int


class LineRow(TypedDict):
    type_name: str
    line: int
    fields: list[Share]
    members: list[LineMember]
    accesses: int
    loads: int
    stores: int
    rmws: int
    silent: int
    remote_share: float | None
    readers: int
    writers: int


class LineMember(TypedDict):
    field: str
    offset: int
    size: int
    accesses: int
    readers: int
    writers: int


class FunctionRow(TypedDict):
    name: str
    types: list[Share]
    accesses: int
    loads: int
    stores: int
    rmws: int
    silent: int
    remote_share: float | None
    readers: int
    writers: int


class SourceRow(TypedDict):
    name: str
    file: str | None
    line: int | None
    functions: list[str]
    types: list[Share]
    accesses: int
    loads: int
    stores: int
    rmws: int
    silent: int
    remote_share: float | None
    readers: int
    writers: int


class CpuRow(TypedDict):
    cpu: int
    last: int
    accesses: int
    loads: int
    stores: int
    rmws: int
    remote_share: float | None


class TypeView(TypedDict):
    name: str
    size: int
    line_size: int
    figures: Figures
    places: list[Place]
    fields: list[FieldRow]
    layout: FieldMap
    lines: list[LineRow]
    groups: list[GroupRow]
    times: TypeTimes


class Figures(TypedDict):
    accesses: int
    loads: int
    stores: int
    rmws: int
    silent: int
    remote_share: float | None
    readers: int
    writers: int


class Place(TypedDict):
    owner: str
    inside: NotRequired[str]
    fields: list[FieldRow]
    accesses: int
    loads: int
    stores: int
    rmws: int
    silent: int
    remote_share: float | None
    readers: int
    writers: int


class FieldMap(TypedDict):
    size: int
    fields: list[FieldPlace]


class FieldPlace(TypedDict):
    path: str
    type: str
    offset: int
    size: int
    bits: NotRequired[BitRange]
    arrays: NotRequired[list[ArrayExtent]]


class BitRange(TypedDict):
    start: int
    width: int


class ArrayExtent(TypedDict):
    stride: int
    count: int


GroupRow = TypedDict("GroupRow", {
    "class": 'str',
    "fields": 'list[str]',
    "share": 'float',
    "loads_per_store": 'float | None',
    "lines": 'list[int]',
    "accesses": 'int',
    "loads": 'int',
    "stores": 'int',
    "rmws": 'int',
    "silent": 'int',
    "remote_share": 'float | None',
    "readers": 'int',
    "writers": 'int',
})


class TypeTimes(TypedDict):
    fields: list[FieldTimes]
    lines: list[LineTimes]
    start: int
    step: int
    bins: int
    cpus_per_row: int
    rows: int


class FieldTimes(TypedDict):
    field: str
    offset: int
    accesses: list[list[int]]


class LineTimes(TypedDict):
    line: int
    accesses: list[list[int]]


class CostsDocument(TypedDict):
    schema: str
    tool: str
    recording: dict[str, str]
    checksum: str | None
    type: str | None
    cpus: list[CpuPlace]
    costs: Costs
    others: NotRequired[list[MachineCosts]]
    event: NotRequired[EventCount]


class CpuPlace(TypedDict):
    cpu: list[int]
    domain: int
    socket: int


class Costs(TypedDict):
    machine: str
    line_bytes: int
    cpus: int
    recorded_cpus: int
    seed: int
    interleavings: int
    accesses: int
    device_accesses: int
    warm_up: WarmUp | None
    mechanisms: list[str]
    overlapped: int
    duration: int
    potential: Potential
    whole: Cost
    hottest: NotRequired[HotPlace]
    sets: TypeSets | None
    types: list[Cost]
    fields: list[Cost]
    places: NotRequired[list[Cost]]
    functions: list[Cost]
    sources: NotRequired[list[Cost]]
    pairs: list[PairCost]
    pairs_by: MachinePlaces
    time: TimeGrid
    lines: list[LineCost]
    lock_waits: NotRequired[list[LockCost]]
    groups: NotRequired[GroupCosts]
    prediction_error: NotRequired[PredictionError]
    under: UnderCost | None


class WarmUp(TypedDict):
    lines: int
    late: int


class Potential(TypedDict):
    cost: float
    true_sharing: float
    false_sharing: float
    cold: float
    capacity: float
    unshared: float


class Cost(TypedDict):
    name: str
    loads: int
    stores: int
    misses: int
    cycles: int
    waited: int
    hitm: list[int]
    upgrades: int
    llc: int
    forwards: int
    dram: int
    causes: Causes


class Causes(TypedDict):
    cold: int
    capacity: int
    true_sharing: int
    false_sharing: int
    unshared: int


class HotPlace(TypedDict):
    name: str
    function: str
    source: NotRequired[str]


class TypeSets(TypedDict):
    cpu: int
    cpus: int
    l1: CacheSets
    l2: CacheSets
    llc: CacheSets


class CacheSets(TypedDict):
    sets: int
    ways: int
    most: SetCounts
    mean: SetMeans


class SetCounts(TypedDict):
    lines: int
    reached: int
    fullest: int
    beyond: int


class SetMeans(TypedDict):
    lines: float
    reached: float
    fullest: float
    beyond: float


PairCost = TypedDict("PairCost", {
    "from": 'list[int]',
    "to": 'list[int]',
    "hitm": 'int',
    "cycles": 'int',
})

MachinePlaces: TypeAlias = 'Literal["cpu", "domain", "socket"]'


class TimeGrid(TypedDict):
    start: int
    step: int
    bins: int
    cpus_per_row: int
    rows: int


class LineCost(TypedDict):
    name: str
    start: int
    lines: int
    hitm: int
    misses: int
    cycles: int
    cells: list[CellCost]
    neighbours: list[CellCost]
    pairs: list[list[int]]


class CellCost(TypedDict):
    offset: int
    field: str
    hitm: int
    loads: int
    cycles_per_load: float
    stores: int
    upgrades: int
    cycles: int
    functions: list[str]
    times: NotRequired[list[list[int]]]


class LockCost(TypedDict):
    name: str
    function: str
    waits: int
    cycles: int


class GroupCosts(TypedDict):
    groups: int
    mixing: Mixing
    accesses: int
    locks: list[LockCost]
    circles: int
    locks_under: NotRequired[int]
    no_think_time: NotRequired[bool]
    unreleased: int

Mixing: TypeAlias = 'Literal["groups", "domains", "flat"]'


class PredictionError(TypedDict):
    cpus: int
    recorded_cpus: int
    copies: int
    with_series: bool
    compared_copies: int
    compared_cpus: list[int]
    percent: list[float]


class UnderCost(TypedDict):
    cost: Cost
    entered: int
    cycles: CycleSum
    all_cycles: CycleSum
    balance: Balance


class CycleSum(TypedDict):
    instructions: int
    stalls: int


class Balance(TypedDict):
    calls: int
    returns: int
    matched: int


class MachineCosts(TypedDict):
    cpus: list[CpuPlace]
    costs: Costs


class WhatIfDocument(TypedDict):
    schema: str
    tool: str
    recording: dict[str, str]
    checksum: str | None
    edits: str
    event: EventCount | None
    layouts: list[LayoutChange]
    results: list[WhatIf]


class LayoutChange(TypedDict):
    type: str
    line_bytes: int
    before: FieldMap
    after: FieldMap
    line_starts: NotRequired[list[KeptLineStart]]


class KeptLineStart(TypedDict):
    member: str
    kept: bool
    otherwise: str


class WhatIf(TypedDict):
    machine: str
    line_bytes: int
    cpus: int
    recorded_cpus: int
    prediction_error: NotRequired[PredictionError]
    seed: int
    interleavings: int
    interleavings_max: int
    by_difference: bool
    accesses: int
    potential: Potential
    sizes: list[TypeSize]
    sets: list[SetsChange]
    types: Measure
    whole: Measure
    llc_misses: LlcMisses
    llc_share: bool
    warm_up: WarmUp | None
    mechanisms: list[str]
    duration: Measure
    time: WorkTime
    causes: list[MeasuredRow]
    sources: list[MeasuredRow]
    fields: list[MeasuredRow]
    functions: list[MeasuredRow]
    ablation: list[Ablation]
    relocated: int
    in_either_half: int
    types_accesses: int
    on_stacks: int
    paired: list[Paired]
    followed: list[Followed]
    skipped: int
    under: UnderChange | None


class TypeSize(TypedDict):
    name: str
    recorded_bytes: int
    without_bytes: int
    with_bytes: int
    without_lines: int
    with_lines: int
    memory: bool


SetsChange = TypedDict("SetsChange", {
    "name": 'str',
    "without": 'TypeSets | None',
    "with": 'TypeSets | None',
})


Measure = TypedDict("Measure", {
    "without": 'float',
    "with": 'float',
    "difference": 'float',
    "ci95": 'float',
    "significant": 'bool',
})


class LlcMisses(TypedDict):
    types: Measure
    whole: Measure
    kernel: Measure
    kernel_loads: Measure
    kernel_stores: Measure
    kernel_rmws: Measure
    user_loads: Measure


class WorkTime(TypedDict):
    cpus: int
    cycles: Measure
    waiting: Measure
    bound: Measure
    busiest: Measure
    memory: float


class MeasuredRow(TypedDict):
    name: str
    count: Measure
    cycles: Measure


class Ablation(TypedDict):
    edit: str
    alone: Measure | None
    last: Measure | None
    why_not: str | None


class Paired(TypedDict):
    pairs: int
    first_alone: int
    second_alone: int


class Followed(TypedDict):
    pointer: str
    owners: int
    arrays: int


class UnderChange(TypedDict):
    function: str
    entered: int
    cost: Measure
    llc_misses: Measure
    cycles: Measure
    all_cycles: Measure


class CoverageDocument(TypedDict):
    schema: str
    tool: str
    edits: str
    line_bytes: int
    recordings: list[CoveredRecording]
    fields: list[CoveredField]
    pairs: list[NewPair]


class CoveredRecording(TypedDict):
    path: str
    recording: dict[str, str]
    checksum: str | None
    cut: bool
    prediction_error: NotRequired[PredictionError]
    results: list[CoveredChange]


class CoveredChange(TypedDict):
    machine: str
    cpus: int
    types: Measure
    whole: Measure


CoveredField = TypedDict("CoveredField", {
    "type": 'str',
    "field": 'str',
    "changed": 'bool',
    "from": 'LineSpan',
    "to": 'LineSpan | None',
    "joins": 'list[str]',
    "leaves": 'list[str]',
    "functions": 'list[list[FieldFunction]]',
    "unseen": 'list[str]',
})


class LineSpan(TypedDict):
    first: int
    last: int


class FieldFunction(TypedDict):
    name: str
    loads: int
    stores: int
    rmws: int


class NewPair(TypedDict):
    type: str
    first: str
    second: str
    exercised: int
    alone: list[str]
    uses: list[PairUses]


class PairUses(TypedDict):
    first: int
    second: int
    contended: int
    functions: list[PairFunction]


class PairFunction(TypedDict):
    name: str
    first: int
    second: int
    contended: int
    caused: int


class DiffDocument(TypedDict):
    schema: str
    tool: str
    type: str | None
    machine: str | None
    seed: int
    interleavings: int
    a: DiffSide
    b: DiffSide
    others: NotRequired[list[MachineDiff]]
    under: NotRequired[str]


class DiffSide(TypedDict):
    bytes: int
    cpus: int
    prediction_error: NotRequired[PredictionError]
    accesses: int
    event: EventCount | None
    fields: dict[str, DiffFigures]


class DiffFigures(TypedDict):
    loads: int
    stores: int
    misses: int
    cycles: int
    sharing_misses: int
    sharing_cycles: int


class MachineDiff(TypedDict):
    machine: str
    a: DiffSide
    b: DiffSide


class AdviceDocument(TypedDict):
    schema: str
    tool: str
    recordings: list[AdvisedRecording]
    machines: list[str]
    under: NotRequired[str]
    type: str
    source: NotRequired[ProgramSource]
    pins: list[str]
    max_growth: int
    seed: int
    interleavings: int
    first_stays: str | None
    line_starts: NotRequired[list[KeptLineStart]]
    events: list[int]
    sampled_from: list[int]
    cut: bool
    found: int
    front: list[FrontPoint]
    recommended: AdvisedLayout | None
    others: list[AdvisedLayout]
    with_growth: GrownLayout | None
    aligned: AlignedObjects | None
    remedies: RemedyList


class AdvisedRecording(TypedDict):
    description: dict[str, str]
    checksum: str | None
    event: NotRequired[EventCount]
    prediction_error: NotRequired[PredictionError]


class ProgramSource(TypedDict):
    language: str
    declared: str | None


class FrontPoint(TypedDict):
    moves: int
    model: float
    replayed: float | None
    recommended: bool


class AdvisedLayout(TypedDict):
    edits: str
    moves: int
    model: float
    confirmed: bool
    starts_lines: bool
    effects: list[list[LayoutEffect]]
    footprints: list[FootprintChange]
    groups: list[GroupReasons]


class LayoutEffect(TypedDict):
    interleavings: int
    types: Measure
    whole: Measure
    duration: Measure
    under: NotRequired[Measure]
    in_either_half: int


class FootprintChange(TypedDict):
    line_bytes: int
    before: Footprint
    after: Footprint


class Footprint(TypedDict):
    bytes: int
    lines: int
    holes: int
    hole_bytes: int
    touched: int
    alone: int


class GroupReasons(TypedDict):
    name: str
    sealed: bool
    members: list[MemberUse]
    fills: list[str]
    loads_per_write: float | None
    read_in: list[str]
    written_in: list[str]
    saves: float
    kept_from: list[KeptApart]


class MemberUse(TypedDict):
    name: str
    loads: int
    stores: int
    rmws: int
    readers: int
    writers: int


class KeptApart(TypedDict):
    name: str
    share: float


class GrownLayout(TypedDict):
    max_growth: int
    layout: AdvisedLayout


class AlignedObjects(TypedDict):
    edits: str
    advice: str
    objects: int
    astray: int
    effects: list[list[LayoutEffect]]


class RemedyList(TypedDict):
    machine: str
    line_bytes: int
    cpus: int
    recorded_cpus: int
    seed: int
    interleavings: int
    accesses: int
    whole: Stake
    remedies: list[Remedy]
    left_out: list[list[RemedyKind | int]]
    floor: int
    below_floor: int


class Stake(TypedDict):
    misses: int
    cycles: int


class Remedy(TypedDict):
    kind: RemedyKind
    subject: str
    advice: str
    concerns: list[str]
    stake: Stake
    reasons: Reasons
    trials: list[Trial]

RemedyKind: TypeAlias = 'Literal["skip_silent_stores", "reuse_result", "derive", "split_per_cpu", "co_allocate", "own_line", "pad_elements", "allocate_apart", "spread_over_sets", "write_less"]'


class Reasons(TypedDict):
    loads: int
    stores: int
    silent_stores: int
    rmws: int
    readers: int
    writers: int
    functions: list[FunctionUse]
    notes: list[str]


class FunctionUse(TypedDict):
    name: str
    accesses: int
    misses: int
    cycles: int


class Trial(TypedDict):
    edits: str
    effect: RemedyEffect


class RemedyEffectRefusedWhy(TypedDict):
    why: str


class RemedyEffectRefused(TypedDict):
    refused: RemedyEffectRefusedWhy


class RemedyEffectTried(TypedDict):
    tried: Gain

RemedyEffect: TypeAlias = 'Literal["not_tried"] | RemedyEffectRefused | RemedyEffectTried'


class Gain(TypedDict):
    interleavings: int
    types: Measure
    misses: Measure
    whole: Measure
    skipped: int
    in_either_half: int


class SurveyDocument(TypedDict):
    schema: str
    tool: str
    recordings: list[AdvisedRecording]
    machines: list[str]
    seed: int
    interleavings: int
    types: list[SurveyRow]
    remedies: RemedyList


class SurveyRow(TypedDict):
    name: str
    cost: float
    share: float
    true_sharing: float
    false_sharing: float
    other_misses: float
    capacity: float
    estimate: Estimate | None
    inside: str | None
    why_not: str | None


class Estimate(TypedDict):
    gain: float
    share: float
    moves: int
    rated: int
    sampled_from: int


class LayoutDocument(TypedDict):
    schema: str
    type: str
    line: int
    kernels: list[KernelLayout]


class KernelLayout(TypedDict):
    path: str
    release: str | None
    arch: str | None
    layout: TypeLayout | None


class TypeLayout(TypedDict):
    size: int
    lines: int
    holes: int
    hole_bytes: int
    bit_holes: int
    padding: int
    bit_padding: int
    forced_alignment: int
    members: list[MemberEntry]
    fields: list[FieldPlace]


class MemberEntry(TypedDict):
    name: str
    type: str
    offset: int
    size: int
    bits: BitRange | None
    line: int
    hole: int
    bit_hole: int
    forced_alignment: int
    heat: NotRequired[Heat]


class Heat(TypedDict):
    loads: int
    stores: int
    rmws: int


class CheckDocument(TypedDict):
    schema: str
    rules: str
    failing: int
    kernels: list[CheckedKernel]
    mended: list[MendedRule]


class CheckedKernel(TypedDict):
    path: str
    program: bool
    release: str | None
    arch: str | None
    line: int
    compared: int
    findings: list[BrokenRule]
    skipped: list[SkippedRule]


class BrokenRule(TypedDict):
    at: RulePosition
    declared: DeclaredPlace | None
    type: str
    kind: str
    rule: str
    message: str
    reason: str | None
    measure: int
    members: list[str]
    verdict: str | None


class RulePosition(TypedDict):
    line: int
    column: int


class DeclaredPlace(TypedDict):
    file: str
    line: int


class SkippedRule(TypedDict):
    at: RulePosition
    type: str
    rule: str


class MendedRule(TypedDict):
    arch: str
    line: int
    type: str
    rule: str


class BaselineDocument(TypedDict):
    schema: str
    findings: list[BaselineEntry]


class BaselineEntry(TypedDict):
    arch: str
    line: int
    type: str
    rule: str
    measure: int
    members: list[str]


class DeclaredDocument(TypedDict):
    schema: str
    tool: str
    recording: dict[str, str]
    checksum: str | None
    machine: str
    line_bytes: int
    whole_cycles: int | None
    types: list[DeclaredType]
    absent: list[str]
    findings: list[MisplacedMember]
    free: int


class DeclaredType(TypedDict):
    type: str
    size: int
    cycles: int
    set_up: list[str]
    groups: list[GroupUse]


class GroupUse(TypedDict):
    name: str
    offset: int
    bytes: int
    members: int
    loads: int
    writes: int
    cycles: int
    functions: list[Share]


class MisplacedMember(TypedDict):
    type: str
    member: str
    offset: int
    group: str | None
    kind: Misplacement
    loads: int
    writes: int
    silent: int
    readers: int
    writers: int
    cycles: int
    neighbours: int
    functions: list[Share]

Misplacement: TypeAlias = 'Literal["written", "other_direction", "outside"]'


class GrowthDocument(TypedDict):
    schema: str
    tool: str
    kernel: str
    recordings: list[GrowthRecording]
    by: GrowthBy
    cpus: int
    noise: Noise
    stretch: float
    rows: list[GrowthRow]
    against: HeldOutCheck | None


class GrowthRecording(TypedDict):
    cpus: int
    command: str
    accesses: int

GrowthBy: TypeAlias = 'Literal["access", "field", "function"]'


class Noise(TypedDict):
    relative: float
    freedom: float


class GrowthRow(TypedDict):
    function: str
    field: str
    recorded: list[float]
    a: float
    b: float
    c: float
    share: float
    residual: float
    predicted: Prediction
    times: float | None


class Prediction(TypedDict):
    mean: float
    low: float
    high: float


class HeldOutCheck(TypedDict):
    recording: GrowthRecording
    by: GrowthBy
    largest: list[HeldOutShare]
    rows: list[HeldOutRow]


class HeldOutShare(TypedDict):
    rows: int
    accesses: float
    mean_error: float
    largest_error: float
    mean_error_without: float
    covered: float


class HeldOutRow(TypedDict):
    function: str
    field: str
    real: float
    predicted: Prediction
    error: float | None
    covered: bool
    last: float


class CaseResults(TypedDict):
    schema: str
    tool: str
    case: str
    summary: str
    mode: str
    replay: ReplayedAs
    inputs: CaseInputs
    found: list[FoundType]
    predicted: list[Predicted]
    rebuilt: list[Rebuilt]
    checked: list[Checked]
    published: list[PublishedRow]


class ReplayedAs(TypedDict):
    cold: bool
    mechanisms: list[str]
    llc_share: bool
    cpus: NotRequired[int]


class CaseInputs(TypedDict):
    recording: dict[str, str]
    checksum: str
    accesses: int


class FoundType(TypedDict):
    name: str
    bytes: int
    accesses: int
    groups: list[FoundGroup]
    machine: str
    cycles: float
    true_sharing: float
    false_sharing: float
    contended: list[Contended]


FoundGroup = TypedDict("FoundGroup", {
    "class": 'str',
    "fields": 'list[str]',
    "share": 'float',
    "loads_per_store": 'float | None',
    "lines": 'list[int]',
})


class Contended(TypedDict):
    field: str
    cycles: int
    loads: int
    stores: int
    hitm: int
    cycles_per_load: float | None


class Predicted(TypedDict):
    edit: str
    machine: str
    cpus: int
    line_bytes: int
    sizes: list[list[str | int]]
    types: Measured
    whole: Measured
    llc_misses: Measured
    llc_load_misses: Measured
    functions: dict[str, Measured]
    skipped: int
    accesses: int


Measured = TypedDict("Measured", {
    "without": 'float',
    "with": 'float',
    "difference": 'float',
    "ci95": 'float',
})


class Rebuilt(TypedDict):
    edit: str
    machine: str
    types: list[str]
    runs: int
    event: EventRuns | None
    cost: Figure
    accesses: Figure
    whole: Figure
    llc_misses: Figure
    llc_load_misses: Figure
    functions: dict[str, Figure]


class EventRuns(TypedDict):
    name: str
    function: str
    copies: list[str]
    patched_copies: list[str]
    without: Spread
    rerecorded: Spread
    change: Change | None


class Spread(TypedDict):
    mean: float
    least: float
    most: float


class Change(TypedDict):
    percent: float
    ci95: float | None


class Figure(TypedDict):
    sum: Compared
    per_event: Compared | None


class Compared(TypedDict):
    without: Spread
    predicted: Spread
    rerecorded: Spread
    predicted_change: Change | None
    recorded_change: Change | None
    verdict: Verdict | None

Verdict: TypeAlias = 'Literal["agrees", "differs", "inconclusive", "not comparable"]'


class Checked(TypedDict):
    edit: str
    check: str
    config: list[str]
    said: str


class PublishedRow(TypedDict):
    key: str
    published: str
    source: str
    found: str | None
    predicted: str | None
    rerecorded: str | None


class MachinesDocument(TypedDict):
    schema: str
    machines: list[MachineEntry]
    this_is_missing: NotRequired[str]


class MachineEntry(TypedDict):
    name: str
    title: str
    cpus: int
    cores: int
    llc_domains: int
    sockets: int
    line_bytes: int
    adjacent_line_pairs: bool
    frequency_mhz: int
    l1: CacheSize
    l2: CacheSize
    llc: CacheSize
    llc_slices: int
    latency_cycles: LatencyCycles
    l2_streamer: StreamerEntry | None
    l1_stride: StrideEntry | None
    overlap: OverlapEntry | None


class CacheSize(TypedDict):
    bytes: int
    ways: int


class LatencyCycles(TypedDict):
    l1: int
    l2: int
    llc: int
    hitm_same_domain: int
    hitm_same_socket: int
    hitm_other_socket: int
    dram_local: int
    dram_remote: int
    atomic: int
    serve: int


class StreamerEntry(TypedDict):
    streams: int
    train: int
    per_request: int
    ahead: int
    outstanding: int


class StrideEntry(TypedDict):
    entries: int
    train: int
    reach_bytes: int
    outstanding: int


class OverlapEntry(TypedDict):
    window: int
    outstanding: int


class VerifyDocument(TypedDict):
    schema: str
    sound: bool
    findings: list[str]
    more_findings: int
    chunks: int
    accesses: int
    loads: int
    stores: int
    rmws: int
    calls: int
    returns: int
    markers: int
    checksum: str


class DoctorDocument(TypedDict):
    schema: str
    ok: bool
    checks: list[DoctorCheck]


class DoctorCheck(TypedDict):
    name: str
    verb: NotRequired[str]
    ok: bool
    detail: str


class PatchEvidence(TypedDict):
    edit: str | None
    problem: str | None
    kernel: str | None
    workload: str | None
    machine: str | None
    seed: str | None
    groups: list[GroupEvidence]
    effect: list[FigureChange]
    ablation: list[EditEvidence]
    notes: list[str]


class GroupEvidence(TypedDict):
    name: str
    intent: str | None
    read: AccessSummary | None
    written: AccessSummary | None
    reasons: list[str]


class AccessSummary(TypedDict):
    accesses: int
    by: list[str]


class FigureChange(TypedDict):
    metric: str
    before: str
    after: str
    change: str


class EditEvidence(TypedDict):
    part: str
    alone: str
    without: str


class Page(TypedDict):
    schema: str
    tool: str
    title: str
    headline: str
    prediction_errors: list[str]
    type: str | None
    settings: dict[str, str]
    report: Report | None
    rows_left_out: int
    types: list[PageType]
    costs: CostsDocument | None
    whatif: WhatIfDocument | None
    advise: Advised | None
    diff: DiffDocument | None
    layouts: list[LayoutChange]
    cases: list[CaseResults]


class PageType(TypedDict):
    rest: FieldColumns
    line_sums: LineColumns
    fields_without_times: int
    lines_without_times: int
    name: str
    size: int
    line_size: int
    figures: Figures
    places: list[Place]
    fields: list[FieldRow]
    layout: FieldMap
    lines: list[LineRow]
    groups: list[GroupRow]
    times: TypeTimes


class FieldColumns(TypedDict):
    field: list[str]
    offset: list[int]
    size: list[int]
    loads: list[int]
    stores: list[int]
    rmws: list[int]
    silent: list[int]
    remote_share: list[float | None]
    readers: list[int]
    writers: list[int]


class LineColumns(TypedDict):
    line: list[int]
    loads: list[int]
    stores: list[int]
    rmws: list[int]

Advised: TypeAlias = 'AdviceDocument | SurveyDocument'


# Each document's schema, and what writes it.
DOCUMENTS: Final[Mapping[type[Any], tuple[str, str]]] = {
    Report: ("linemate.report/2", "linemate report --json"),
    CostsDocument: ("linemate.costs/5", "linemate report --machine M --json"),
    WhatIfDocument: ("linemate.whatif/2", "linemate whatif --json"),
    CoverageDocument: ("linemate.coverage/1", "linemate whatif --coverage --json"),
    DiffDocument: ("linemate.diff/2", "linemate diff --json"),
    AdviceDocument: ("linemate.advise/2", "linemate advise --type T --json"),
    SurveyDocument: ("linemate.advise-survey/2", "linemate advise --json"),
    LayoutDocument: ("linemate.layout/2", "linemate layout --json"),
    CheckDocument: ("linemate.check/1", "linemate check --json"),
    BaselineDocument: ("linemate.check-baseline/1", "linemate check --baseline"),
    DeclaredDocument: ("linemate.groups/1", "linemate check --recording --json"),
    GrowthDocument: ("linemate.growth/1", "linemate growth --json"),
    CaseResults: ("linemate.case/5", "linemate case run --json"),
    MachinesDocument: ("linemate.machines/1", "linemate machines --json"),
    VerifyDocument: ("linemate.verify/1", "linemate verify --json"),
    DoctorDocument: ("linemate.doctor/1", "linemate doctor --json"),
}

Table: TypeAlias = Literal["runs", "ledger", "types", "fields", "lines", "functions", "costs", "line_costs", "cpu_pairs", "effects"]
Kind: TypeAlias = Literal["text", "integer", "number", "flag"]

# The tables' version.
TABLES_SCHEMA: Final = "linemate.export/2"

# Each table's columns, without those that the folders' names give.
COLUMNS: Final[Mapping[Table, Mapping[str, Kind]]] = {
    "runs": {
        "run": "text",
        "about": "text",
        "reason": "text",
        "recording": "text",
        "command": "text",
        "cpus": "integer",
        "description": "text",
        "recorded_by": "text",
        "tool": "text",
        "accesses": "integer",
        "ledger_total": "integer",
        "typed_share": "number",
        "unknown_share": "number",
        "machine_description": "text",
        "line_bytes": "integer",
        "replayed_cpus": "integer",
        "interleaving": "integer",
        "interleavings": "integer",
        "options": "text",
        "edits": "text",
        "device_accesses": "integer",
        "misses": "integer",
        "cycles": "integer",
        "overlapped_cycles": "integer",
        "duration_cycles": "integer",
    },
    "ledger": {
        "run": "text",
        "ledger_group": "text",
        "bucket": "text",
        "accesses": "integer",
    },
    "types": {
        "run": "text",
        "type": "text",
        "kind": "text",
        "place": "text",
        "size_bytes": "integer",
        "objects": "integer",
        "shared": "integer",
        "accesses": "integer",
        "loads": "integer",
        "stores": "integer",
        "rmws": "integer",
        "silent": "integer",
        "remote_share": "number",
        "readers": "integer",
        "writers": "integer",
        "functions": "text",
    },
    "fields": {
        "run": "text",
        "type": "text",
        "field": "text",
        "aliases": "text",
        "offset_bytes": "integer",
        "size_bytes": "integer",
        "line": "integer",
        "accesses": "integer",
        "loads": "integer",
        "stores": "integer",
        "rmws": "integer",
        "silent": "integer",
        "remote_share": "number",
        "readers": "integer",
        "writers": "integer",
        "functions": "text",
    },
    "lines": {
        "run": "text",
        "type": "text",
        "line": "integer",
        "accesses": "integer",
        "loads": "integer",
        "stores": "integer",
        "rmws": "integer",
        "silent": "integer",
        "remote_share": "number",
        "readers": "integer",
        "writers": "integer",
        "fields": "text",
    },
    "functions": {
        "run": "text",
        "function": "text",
        "accesses": "integer",
        "loads": "integer",
        "stores": "integer",
        "rmws": "integer",
        "silent": "integer",
        "readers": "integer",
        "writers": "integer",
        "types": "text",
    },
    "costs": {
        "run": "text",
        "subject": "text",
        "name": "text",
        "loads": "integer",
        "stores": "integer",
        "misses": "integer",
        "cycles": "integer",
        "waited_cycles": "integer",
        "hitm_domain": "integer",
        "hitm_socket": "integer",
        "hitm_remote": "integer",
        "upgrades": "integer",
        "llc": "integer",
        "forwards": "integer",
        "dram": "integer",
        "cold_cycles": "integer",
        "capacity_cycles": "integer",
        "true_sharing_cycles": "integer",
        "false_sharing_cycles": "integer",
        "unshared_cycles": "integer",
    },
    "line_costs": {
        "run": "text",
        "name": "text",
        "start_bytes": "integer",
        "lines": "integer",
        "hitm": "integer",
        "misses": "integer",
        "cycles": "integer",
    },
    "cpu_pairs": {
        "run": "text",
        "from_cpu": "integer",
        "from_copy": "integer",
        "to_cpu": "integer",
        "to_copy": "integer",
        "hitm": "integer",
        "cycles": "integer",
    },
    "effects": {
        "run": "text",
        "subject": "text",
        "name": "text",
        "unit": "text",
        "without_edits": "number",
        "with_edits": "number",
        "difference": "number",
        "ci95": "number",
        "significant": "flag",
    },
}

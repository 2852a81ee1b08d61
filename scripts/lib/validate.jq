# Turns the JSON of `linemate whatif`, `linemate diff` and `linemate advise` into the tables of evidence/validation.md.

def round2: . * 100 | round / 100;
def signed: round2 | if . > 0 then "+\(.)" else tostring end;
def mega: . / 1e6 * 1000 | round / 1000;
def per_cent(of): if of == 0 then "-" else "\(100 * .difference / of | signed) ± \(100 * .ci95 / of | round2) %" end;
def verdict: if .significant then (if .difference < 0 then "better" else "worse" end) else "not significant" end;
def measure(name): "| \(name) | \(.without | mega) | \(.with | mega) | \(per_cent(.without)) | \(verdict) |";

# The interval of a sum whose parts are not known to vary independently: the sum of theirs.
def total: {without: (map(.without) | add // 0), with: (map(.with) | add // 0),
	difference: (map(.difference) | add // 0), ci95: (map(.ci95) | add // 0)}
	| .significant = ((.difference | fabs) > .ci95);

# Functions that only the load balancer calls, as the compiler left them in Debian's 6.12 kernel.
def balancing: ["sched_balance_rq", "update_sd_lb_stats", "sched_balance_find_src_group", "update_group_capacity", "can_migrate_task"];

def rq_table: .results[] | . as $r
	| "\n`\(.machine)`, \(.cpus) CPUs, lines of \(.line_bytes) bytes, \(.interleavings) interleavings:\n",
	"| cost, million cycles | before | after | change | |", "|---|---|---|---|---|",
	(.types | measure("`rq`")), (.whole | measure("everything")), (.duration | measure("duration of the replay")),
	(balancing[] as $name | .functions[] | select(.name == $name) | .cycles | measure("`\($name)`")),
	([.functions[] | select(.name as $n | balancing | index($n)) | .cycles] | total | measure("sum of these functions")),
	(.functions[] | select(.name == "idle_cpu") | .cycles | measure("`idle_cpu`")),
	([.functions[] | select(.name as $n | (balancing + ["idle_cpu"]) | index($n)) | .cycles] | total | measure("sum with `idle_cpu`"));

# The interval is that of the difference from the recorded layout.
def placement_row(name; published): .results[0]
	| "| \(name) | \(published) | \(.types.with | mega) | ± \(.types.ci95 | mega) |";

def as_recorded_row: .results[0] | "| as in 6.1 | | \(.types.without | mega) | |";

# The 20 fields with the most sharing cost in the real recording ($b), and what the cloned one ($a) has of them.
def scaled_fields: (.a.fields) as $a
	| [.b.fields | to_entries[] | select(.value.sharing_cycles > 0)]
	| sort_by(-.value.sharing_cycles) | .[:20]
	| map(($a[.key] // {cycles: 0, sharing_misses: 0}) as $p | .value as $v
		| {name: .key, predicted: $p.cycles, real: $v.cycles,
			error: (100 * ($p.cycles - $v.cycles) / $v.cycles),
			miss_error: (if $v.sharing_misses == 0 then 0 else 100 * ($p.sharing_misses - $v.sharing_misses) / $v.sharing_misses end)});

def round1: . * 10 | round / 10;
def sign1: round1 | if . > 0 then "+\(.)" else tostring end;
def mean: add / length;
def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;

def scaling_fields:
	"| field | predicted | real | error, cycles | error, misses |", "|---|---|---|---|---|",
	(scaled_fields[] | "| `\(.name | gsub("\\|"; "\\|"))` | \(.predicted | mega) | \(.real | mega) | \(.error | sign1) % | \(.miss_error | sign1) % |");

def scaling_head: "| workload | CPUs | series | error of cycles, mean | median | error of misses, mean | sum of the 20 fields' cycles |",
	"|---|---|---|---|---|---|---|";
def scaling_row($workload; $from; $to; $series): scaled_fields
	| "| \($workload) | \($from) → \($to) | \(if $series == "" then "none" else $series | gsub(" "; ", ") end) | \(map(.error | fabs) | mean | round1) % | \(map(.error | fabs) | median | round1) % | \(map(.miss_error | fabs) | mean | round1) % | \(100 * ((map(.predicted) | add) / (map(.real) | add) - 1) | sign1) % |";

def advised_head: "| struct | recording, machine | moves | cost of the type | of the best replayed | lines added, removed | checkpatch --strict |",
	"|---|---|---|---|---|---|---|";

# The gain of a layout on the first recording and machine.
def gain: .effects[0][0].types | 1 - .with / .without;

def advised_row($type; $recording; $remarks; $added; $removed): .recommended as $r
	| ([$r, .others[]] | map(select(.confirmed)) | max_by(gain)) as $best
	| "| `\($type)` | \($recording), \(.machines[0]) | \($r.moves) | \($r.effects[0][0].types | per_cent(.without)) | \(100 * ($r | gain) / ($best | gain) | . * 10 | round / 10) % of \(-100 * ($best | gain) | round2) % (\($best.moves) moves) | +\($added), −\($removed) | \($remarks) |";

# How far a figure is from the exact one, as a share of that.
def apart(exact): if exact == 0 then (if . == 0 then 0 else 1 end) else (. - exact) / exact | fabs end;

# The measures of what-if results that have a verdict, by name.
def measures: {types, whole, duration}
	+ ([("causes", "sources", "fields", "functions") as $list | .[$list][] | {key: "\($list) \(.name)", value: .cycles}] | from_entries);

# A what-if with the kept stream, beside $exact, the same with --exact.
def exactness($series; $recording; $exact): .edits as $edits | .results[0] as $kept
	| ($kept | measures) as $a | ($exact | measures) as $b
	| {series: $series, recording: $recording, edits: ($edits | rtrimstr("\n") | split("\n") | join("; ")),
		without: $exact.types.without, exact: $exact.types.with, with: $kept.types.with,
		apart: ([("types", "whole", "duration") as $sum | ("without", "with") as $side | $a[$sum][$side] | apart($b[$sum][$side])] | max),
		rows: ($a | length),
		verdicts: ([$a | keys[] | select(($b[.] == null) or ($a[.] | verdict) != ($b[.] | verdict))])};

def exact_table: (map(select(.refused)) | map(.refused)) as $refused | map(select(.refused | not)) as $rows
	| "\($rows | length) edits; largest deviation of a sum: \($rows | map(.apart) | max); verdicts: \($rows | map(.rows) | add), of which differ: \($rows | map(.verdicts | length) | add); no accesses to the type: \($refused | join(", "))", "",
	"| edit | kernel, recording | cycles of the types | with, kept | with, `--exact` | largest deviation of a sum | verdicts that differ |", "|---|---|---|---|---|---|---|",
	($rows | sort_by(-.apart)[] | "| \(.edits) | \(.series), \(.recording) | \(.without | round) | \(.with) | \(.exact) | \(.apart) | \(.verdicts | join(", ")) |");

# One condition of a case: what each edit is predicted to change. Where a published figure is about misses, those are the figure.
def ablation_rows($condition): . as $case
	| (any(.published[]; .key | test("LLC|regression|cgroups"))) as $misses
	| .predicted[] | {case: $case.case, edit, machine, condition: $condition,
		figure: (if $misses then .llc_load_misses else .types end),
		of: (if $misses then "load misses" else "cycles" end)};

def ablation_conditions: ["pairs", "cold", "none", "streamer", "stride", "overlap", "share"];

def ablation_cell: if . == null then "" else .figure
	| "\(per_cent(.without)) of \(if .without < 1e5 then .without | round else .without | mega | tostring + " M" end)" end;

def ablation_table:
	"| case | edit | machine | of | pairs (default) | cold | no mechanism | streamer | stride | overlap | the other share |",
	"|---|---|---|---|---|---|---|---|---|---|---|",
	(group_by([.case, .edit, .machine])[] | INDEX(.condition) as $by | .[0]
		| "| \(.case) | \(.edit) | `\(.machine)` | \(.of) | \([ablation_conditions[] | $by[.] | ablation_cell] | join(" | ")) |");

# How well a series predicts the counts of a recording that it does not have: 20 and 100 rows with most accesses.
def growth_head: "| workload | series | for | rows | mean error, 20 | without growth | in their interval | mean error, 100 | without growth | in their interval |",
	"|---|---|---|---|---|---|---|---|---|---|";

def growth_row($name; $series): .against | .by as $by | .recording.cpus as $to
	| (.largest | map(select(.rows == 20 or .rows == 100)
		| "\(100 * .mean_error | round2) %", "\(100 * .mean_error_without | round2) %", "\(100 * .covered | round2) %")) as $cells
	| "| \($name) | \($series) | \($to) | \($by) | \($cells | join(" | ")) |";

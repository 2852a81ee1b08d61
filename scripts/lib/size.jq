# Turns the JSON of `linemate whatif` and `linemate report` into the tables of "480 recorded CPUs" in evidence/scaling.md.
include "validate";

# `per_cent` of a measure, of what it is without the edits.
def change: per_cent(.without);
def share_of($all): 100 * . / $all * 10 | round / 10 | "\(.) %";

# Work 1.
def rq_rows: .results[0] | .under as $under | .whole.without as $all
	| "| `sched_balance_rq` and what it calls, of all cycles | 15 to 25 % | \($under.cycles.without | share_of($under.all_cycles.without)) |",
	"| its cycles, published order | -4.4 % | \($under.cycles | change) |",
	"| its memory cycles alone | – | \($under.cost | change) |",
	"| cost of `rq` | – | \(.types | change) |",
	"| `rq`, of all memory cycles | – | \(.types.without | share_of($all)) |",
	"| all memory cycles | – | \(.whole | change) |",
	"| CPU time | – | \(.time.cycles | change) |";

# Work 4: the documents of the placements, the original first, and what each is called.
def tg_rows($names): map(.results[0].types) as $types
	| range(length) as $at | $types[$at] as $it
	| "| \($names[$at]) | \($it.with | mega) | \($it | change) | \(100 * ($it.with / $types[0].with - 1) | signed) % |";

# Work 5.
def nohz_row($name): .functions[] | select(.name == $name) | "| `\($name)` | \(.cycles.without | mega) | \(.cycles | change) |";
def nohz_rows: .results[0]
	| "| line of `nohz` | \(.types.without | mega) | \(.types | change) |",
	nohz_row("nohz_balance_exit_idle", "sched_balance_trigger", "nohz_run_idle_balance");

# Work 3: offsets of root_domain's lines, and their remote HITM and cycles per load as published.
def root_published: [
	{line: 128, offset: 0, hitm: 0.6, cycles: 24846}, {line: 128, offset: 24, hitm: 1.4, cycles: 17021},
	{line: 128, offset: 32, hitm: 1.4, cycles: 12918}, {line: 128, offset: 36, hitm: 1.7, cycles: 31887},
	{line: 128, offset: 40, hitm: 0.9, cycles: 31708}, {line: 128, offset: 48, hitm: 38.0, cycles: 26822},
	{line: 128, offset: 56, hitm: 56.1, cycles: 28745}];
def root_cells: .costs.lines as $lines
	| [root_published[] | . as $at
		| ([$lines[] | select(.start == $at.line) | .cells[] | select(.offset == $at.offset)][0]) as $cell | {at: $at, cell: $cell}];
def root_rows: root_cells[] | .cell as $cell
	| "| 2, \(.at.offset) | `\($cell.field)` | \(.at.hitm) % | \($cell.hitm) | \(if $cell.loads > 0 then $cell.cycles_per_load | round else "–" end) | \(.at.cycles) |";

# Ranks of numbers; equal ones share the mean of theirs.
def ranks: . as $all | map(. as $x | (($all | map(select(. < $x)) | length) + ($all | map(select(. <= $x)) | length) + 1) / 2);
def spearman($a; $b): ($a | ranks) as $a | ($b | ranks) as $b | ($a | add / length) as $mean
	| ([range($a | length) | ($a[.] - $mean) * ($b[.] - $mean)] | add) as $both
	| ([$a[] | . - $mean | . * .] | add) as $of_a | ([$b[] | . - $mean | . * .] | add) as $of_b
	| $both / (($of_a * $of_b) | sqrt);
def root_correlation: root_cells
	| spearman(map(.at.hitm); map(.cell.hitm)) * 100 | round / 100
	| "Rank correlation of HITM by offset of line 2 with the published remote HITM: \(.)";
def root_change: .results[0] | "Published order: cost of the type \(.types | change), all memory cycles \(.whole | change), CPU time \(.time.cycles | change)";

# Turns the JSON of `linemate report` and `linemate advise` into the table of evidence/programs.md about workloads/unseen.

def round1: . * 10 | round / 10;
def signed: round1 | if . > 0 then "+\(.)" else tostring end;
def answer: if . then "yes" else "no" end;

def unseen_head: "| case | culprit, rank by cost | report's first line names it | fix offered | confirmed | first in the list | predicted, of all cost | rebuilt with the fix, of all cost | apart |",
	"|---|---|---|---|---|---|---|---|---|";

# Remedies that give something another place, or leave out stores.
def claimed: select(.kind | IN("own_line", "pad_elements", "allocate_apart", "skip_silent_stores"));

# The changes that replay measured of a remedy's edits, of all that the affected types cost.
def tried: .trials[].effect | objects | .tried | objects | .types;
def gains: [tried | select(.significant and .difference < 0)] != [];
def said: ([tried | "\(100 * .difference / .without | signed) %"] | first) // "no edit";

# The change that replay predicts of all cost, in hundredths.
def of_all: [.trials[].effect | objects | .tried | objects | .whole | 100 * .difference / .without] | first;

# The rows by cost, most first: what the kernel does has no names in these recordings.
def by_cost: .costs.types | sort_by(-.cycles) | map(.name);

def is_fix($culprit; $fix): (.subject | test($culprit)) and ([.advice, .trials[].edits] | join(" ") | test($fix));

# All cost, on average over the interleavings: one alone can be several times another.
def mean_cost: map(.costs.whole.cycles) | add / length;

# Of the program and of the one with the fix, a document for each interleaving; and the advice.
def unseen_row: ($report | mean_cost) as $before | ($fixed | mean_cost) as $after
	| $report[0] as $report | $advice[0] as $advice
	| (($report | by_cost) | map(test($culprit)) | index(true)) as $rank
	| ($advice.remedies.remedies // []) as $all
	| ($all | map(is_fix($culprit; $fix)) | index(true)) as $at
	| (100 * ($after - $before) / $before) as $rebuilt
	| (if $at == null then null else $all[$at] | of_all end) as $predicted
	| "| `\($case)` | \(if $rank == null then "**none**; first is `\($report | by_cost | first)`" else "`\(($report | by_cost)[$rank])`, \($rank + 1)" end) | \($headline | test($culprit | ltrimstr("^")) | answer) | \(if $at == null then "no" else "`\($all[$at].advice)`" end) | \(if $at == null then "-" elif ($all[$at] | gains) then $all[$at] | said else "no" end) | \(if $at == null then "-" else $at == 0 | answer end) | \(if $predicted == null then "-" else "\($predicted | signed) %" end) | \($rebuilt | signed) % | \(if $predicted == null then "-" else "\($rebuilt - $predicted | fabs | round1)" end) |";

def control_head: "| control | claims |", "|---|---|";

# A claim is a remedy of such a kind that gains, or has no edit to try.
def claims: [.remedies.remedies // [] | .[] | claimed | select(gains or .trials == []) | "\(.kind) of `\(.subject)`"];

def control_row: "| `\($case)` | \($advice[0] | claims | if . == [] then "none" else join("; ") end) |";

# Turns the JSON of `linemate report`, `linemate whatif` and `linemate advise` into the tables of evidence/programs.md.

def round1: . * 10 | round / 10;
def signed: round1 | if . > 0 then "+\(.)" else tostring end;

def case_head: "| program | | found first | of all cycles | the fix as an edit | gnr-2s-480 | turin-2s | rebuilt, gnr-2s-480 | this computer |",
	"|---|---|---|---|---|---|---|---|---|";

# What costs most in a report, by all that the program and the kernel have.
def costliest: .costs.types | max_by(.cycles);

# The change of everything's cost that an edit is predicted to make on a machine.
def predicted(machine): [.[0].results[] | select(.machine == machine)]
	| if . == [] then "-" else .[0].whole | "\(100 * .difference / .without | signed) ± \(100 * .ci95 / .without | round1) %" end;

def mean: add / length;
def variance: mean as $mean | map(. - $mean | . * .) | add / (length - 1);

# The change from four interleavings of one recording to four of another, with the 95 % interval of the difference of two means: 2.447 is
# Student's t for 6 degrees of freedom.
def rebuilt($before; $after): ($before | map(.costs.whole.cycles)) as $a | ($after | map(.costs.whole.cycles)) as $b
	| ($a | mean) as $mean
	| (2.447 * (($a | variance) / 4 + ($b | variance) / 4 | sqrt)) as $ci95
	| "\(100 * (($b | mean) - $mean) / $mean | signed) ± \(100 * $ci95 / $mean | round1) %";

def case_row: ($before[0] | costliest) as $first
	| "| `\($name)` | \({"c": "C", "cpp": "C++", "rs": "Rust"}[$language]) | \(if $first.name == $found then "`\($found)`" else "**no**: `\($first.name)`" end) | \(100 * $first.cycles / $before[0].costs.whole.cycles | round1) % | \(if $edit == "-" then "none: an array of numbers has no members" else "`\($edit)`" end) | \($whatif | predicted("gnr-2s-480")) | \($whatif | predicted("turin-2s")) | \(rebuilt($before; $after)) | \($real) |";

def control_head: "| control | layout recommended | tried by replay, change of the type's cost |", "|---|---|---|";

# What replay said of a remedy's edit.
def said: .effect.tried.types | "\(100 * .difference / .without | signed) ± \(100 * .ci95 / .without | round1) %, \(if .significant | not then "not significant" elif .difference < 0 then "better" else "worse" end)";

def control_row: "| `\($name)` | \(if .recommended then "**yes**" else "none" end) | \([.remedies.remedies[] | . as $remedy | .trials[] | select(.effect | type == "object" and has("tried")) | "\($remedy.kind): \(said)"] | if . == [] then "nothing" else join("; ") end) |";

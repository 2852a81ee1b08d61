# The rows of evidence/compare.md, of the JSON of `linemate whatif` and `linemate advise`; orders of members.
include "validate";

def list($names): [$names | splits("\n") | select(. != "")];

# The order that padlock suggests. A member without a name is `field_N` there: number N of those that the type has now.
def padlock_order($names): list($names) as $now
	| .structs[0].findings[] | select(.kind == "ReorderSuggestion") | .suggested_order[]
	| if test("^field_[0-9]+$") and ($now | index([.]) | not) then $now[ltrimstr("field_") | tonumber] else . end;

# The names, a line each, by accesses to the members of the layout that they are.
def by_heat($names): .kernels[0].layout.members
	| INDEX(.name) as $members
	| list($names)
	| sort_by(-($members[.].heat | .loads + .stores + .rmws))
	| .[];

def size: .sizes[0] | "\(.without_bytes) → \(.with_bytes) | \(.without_lines) → \(.with_lines)";
def names: {pahole: "`pahole --reorganize`", padlock: "padlock", heat: "most accessed first"};

def other_row($who): .results[0]
	| "| `\(.sizes[0].name)` | \(names[$who]) | \(size) | \(.types | per_cent(.without)) | \(.whole as $w | .types | per_cent($w.without)) | \(.types | verdict) |";

def advise_row: .type as $type | .recommended
	| if . == null then "| `\($type)` | `linemate advise` | | | no gain | | |"
	else .effects[0][0] as $e
		| "| `\($type)` | `linemate advise`, \(.moves) moves | | | \($e.types | per_cent(.without)) | \($e.whole as $w | $e.types | per_cent($w.without)) | \($e.types | verdict) |"
	end;

# The direct members of a struct that pahole prints, in their order, one to a line: of an anonymous struct or union the first name in it,
# which stands for the whole in an edit.
{
	sub(/\/\*.*$/, "")
	gsub(/^[ \t]+|[ \t]+$/, "")
	gsub(/ *__attribute__\(\([^;]*\)\)/, "")
}
/^$/ { next }
/{$/ { depth++; next }
/^}/ {
	depth--
	name = $0
	sub(/^} *;?/, "", name)
	sub(/;.*/, "", name)
	sub(/\[.*/, "", name)
	if (depth == 1) {
		if (name != "")
			first = name
		print first
		first = ""
	}
	next
}
{
	name = $0
	sub(/;.*/, "", name)
	if (match(name, /\(\*+[A-Za-z0-9_]+\)/))
		name = substr(name, RSTART, RLENGTH)
	sub(/(\[|:).*/, "", name)
	gsub(/[()]/, "", name)
	sub(/.*[ *]/, "", name)
	if (depth == 1)
		print name
	else if (first == "")
		first = name
}

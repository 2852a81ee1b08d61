#!/usr/bin/env bash
# This project's own rules, those that no other tool checks. Prints `file:line: error: what`, exits
# 1 if there is any.
#
#   scripts/style.sh [FOLDER]     (default: this checkout)
set -euo pipefail
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "${1:-$scripts/..}"

readonly LINES_MAX=700
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT

# Files of the project by pattern, one a line: tracked ones and new ones, not ignored ones.
files() {
	git ls-files --cached --others --exclude-standard -- "$@" | sort -u | while read -r file; do
		[ ! -f "$file" ] || echo "$file"
	done
}

# Every rule is an awk program over one file; `fail(text)` names the line.
rule() {
	local program=$1
	shift
	# The rules themselves and their test are full of what they forbid.
	files "$@" ':!scripts/*style.sh' | while read -r file; do
		awk -v file="$file" -v max="$LINES_MAX" '
			function fail(text) { print file ":" FNR ": error: " text }
			'"$program" "$file" >>"$errors"
	done
}

# A file that must be long says why in its head: "Long because …".
rule '
	FNR <= 30 && /Long because / { excused = 1 }
	END { if (FNR > max && !excused) fail("the file has " FNR " lines, " max " are the most") }' \
	'*.rs' '*.c' '*.h' '*.sh' '*.ts' '*.py' Makefile

rule '
	/(^|[^A-Za-z_])(TODO|FIXME)([^A-Za-z_]|$)/ && !/(TODO|FIXME)\([^)]+\): ./ {
		fail("unfinished work without a reason: write TODO(why it waits): what, or do it")
	}' '*.rs' '*.c' '*.h' '*.sh' '*.ts' '*.py' '*.toml' Makefile

# The minimum is Rust 1.85, and a newer compiler does not check it: let chains came with 1.88.
# shellcheck disable=SC2016 # awk's $0, not the shell's
rule '
	function chain() { fail("a let chain, which Rust 1.85 does not have: nest the conditions") }
	{ code = $0; while (gsub(/\([^()]*\)/, "", code)) {} }
	code ~ /&& let / || code ~ /(if|while) let .* && / { chain(); next }
	/(if|while) let [^{]*$/ { header = 1; next }
	header && /^ *&& / { chain() }
	/\{ *$|;/ { header = 0 }' '*.rs'

# The lines right above count: comments, attributes, and the lines that belong to the same statement.
# shellcheck disable=SC2016 # awk's $0, not the shell's
safety='
	/SAFETY:/ || /# Safety/ { safe = 1 }
	{
		code = $0
		sub(/\/\/.*/, "", code)
		gsub(/"[^"]*"/, "\"\"", code)
	}
	code ~ /(^|[^A-Za-z_(])unsafe( extern "")? *(\{|impl |fn [A-Za-z_])/ {
		if (!safe) fail("unsafe without a SAFETY: comment above it")
	}
	code ~ /[;{}] *$/ { safe = 0 }'

rule "$safety" '*.rs'

# shellcheck disable=SC2016 # awk's $0, not the shell's
rule '
	/^ +[^ *]/ { fail("indented with spaces: C is indented with tabs here") }
	{ line = $0; gsub(/\t/, "        ", line) }
	length(line) > 100 { fail("the line has " length(line) " columns, 100 are the most") }' \
	'*.c' '*.h'

rule '
	FNR <= 12 && /^ \* [a-z_]+ - / { what = 1 }
	/^ \* Where it is weak:/ { weak = 1 }
	END { if (!what || !weak) fail("the head has to say what the workload does (\"name - …\") and where it is weak") }' \
	'workloads/*.c'

# Package sources and this machine's folders come from its own settings, so that none is in the
# rule.
package_hosts() {
	grep -rhoE 'https?://[^/ "]+' /etc/apt/sources.list /etc/apt/sources.list.d ~/.cargo/config.toml ~/.npmrc /etc/pip.conf \
		~/.config/pip/pip.conf 2>/dev/null | sed -E 's#^https?://([^@]*@)?##' | grep -E '.{5,}' | sort -u
}

# complain WHAT: grep's findings on stdin.
complain() {
	sed -E "s/^([^:]+:[0-9]+):.*/\\1: error: $1/" >>"$errors"
}

hosts=$(package_hosts || true)
[ -z "$hosts" ] || git grep -InF --untracked -f - -- . <<<"$hosts" | complain "the address of a package source" || true

# Not in the middle of a path: target/home/x/ is no home folder. /root/x may be the guest's, /root/.x is not.
# shellcheck disable=SC2001 # a character class is beyond ${variable//}
here=$(sed 's/[][\\.*^$+?(){}|]/\\&/g' <<<"$PWD")
git grep -InE --untracked "(^|[^A-Za-z0-9_.}/-])($here([^A-Za-z0-9_.-]|\$)|/home/[a-z]+/|/root/\\.)" -- . ':!scripts/*style.sh' |
	complain "a path of somebody's machine" || true

# Without a line in README.md nobody finds a verb.
for file in $(files 'crates/linemate/src/verbs/*.rs' | grep -E '/verbs/[^/]+\.rs$' | grep -v '/mod\.rs$' || true); do
	verb=$(basename "$file" .rs | tr _ -)
	grep -qE "linemate $verb( |\`|\$)" README.md 2>/dev/null ||
		echo "$file:1: error: README.md does not say what \`linemate $verb\` does" >>"$errors"
done

{
	# Links, widths, dates and figures of documents.
	"$scripts/docs.py" .
	# What is claimed is what the evidence says.
	"$scripts/evidence.py" --check .
	# What is compared with hardware is what was predicted.
	"$scripts/hardware.py" --check
	# Words that a reader stops at.
	"$scripts/words.py" .
} >>"$errors"

# Cycles of files and of crates, tuples among parameters. A program that fails without saying what
# it found has not looked.
found=$(HOUSE_ROOT=$PWD PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$scripts python3 -m house --check) || [ -n "$found" ]
[ -z "$found" ] || echo "$found" >>"$errors"

# A crate without examples is not given to rustdoc, which takes a second for each; one with an
# example must be.
for manifest in $(files 'crates/*/Cargo.toml'); do
	grep -qx 'doctest = false' "$manifest" || continue
	# shellcheck disable=SC2016 # awk's
	files "${manifest%Cargo.toml}src/*.rs" | xargs awk -v manifest="$manifest" '
		FNR == 1 { inside = 0 }
		!/^ *\/\/[\/!] ```/ { next }
		inside { inside = 0; next }
		{ inside = 1 }
		/``` *(rust|should_panic|no_run)? *$/ { print FILENAME ":" FNR ": error: an example that no test compiles: take `doctest = false` out of " manifest }' \
		>>"$errors"
done

sort -u -t: -k1,1 -k2,2n -k3 "$errors"
if [ -s "$errors" ]; then
	exit 1
fi
echo "style: $(files '*.rs' '*.c' '*.h' '*.sh' | wc -l) files are in order"

#!/usr/bin/env bash
# The cases of false sharing in workloads/unseen: which the report names, and for which the fix is
# advised unasked; markdown on stdout, progress on stderr. They are chosen apart from the rules, so
# no rule or constant is to be fitted to them.
#
# Needs what `make setup` and a build leave (LINEMATE: another command), gcc, g++, rustc and jq.
# Recordings stay in target/unseen and are made again if that folder is removed.
#
# usage: unseen.sh [CASE]...   (default: all)
# shellcheck disable=SC2016 # backquotes are markdown here
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly linemate=${LINEMATE:-target/release/linemate}
readonly work=target/unseen
readonly machine=gnr-2s-480
mkdir -p "$work"

say() {
	echo "unseen: $*" >&2
}

# built SOURCE PROGRAM [fixed]: compiles a source of workloads/unseen.
built() {
	local source=workloads/unseen/$1 program=$2 flags=()
	case $source in
	*.rs)
		[ -z "${3-}" ] || flags=(--cfg fixed)
		rustc --edition 2024 -C opt-level=2 -g "${flags[@]}" -o "$program" "$source"
		;;
	*.cpp)
		[ -z "${3-}" ] || flags=(-DFIXED)
		c++ -std=c++17 -O2 -g -pthread "${flags[@]}" -o "$program" "$source"
		;;
	*)
		[ -z "${3-}" ] || flags=(-DFIXED)
		cc -std=gnu11 -O2 -g -pthread -fopenmp "${flags[@]}" -o "$program" "$source"
		;;
	esac
}

# recorded SOURCE CASE [fixed]: makes $work/CASE[.fixed].data unless it is there.
recorded() {
	local source=$1 case=$2 fixed=${3-} data program
	data=$work/$case${fixed:+.fixed}.data
	program=$work/${source//./-}${fixed:+.fixed}
	[ ! -f "$data" ] || return 0
	built "$source" "$program" "$fixed"
	say "recording $case${fixed:+ with its fix}"
	# Without the kernel's names each row that has one is the program's.
	"$linemate" record --kernel "$(scripts/kernel-image.sh 6.12)" --program --kernel-types no --smp 4 \
		-o "$work/partial.data" -- "$program" "$case" >&2
	mv "$work/partial.data" "$data"
}

# reported DATA: what it costs under each of the interleavings that an edit is replayed under, as JSON
# documents.
reported() {
	local seed
	for seed in 1 2 3 4 5 6 7 8; do
		"$linemate" report -i "$work/$1.data" --machine "$machine" --seed "$seed" --json
	done
}

# case_of SOURCE CASE CULPRIT FIX: a table row.
case_of() {
	local source=$1 case=$2 culprit=$3 fix=$4
	recorded "$source" "$case"
	recorded "$source" "$case" fixed
	say "advising on $case"
	reported "$case" >"$work/report.json"
	reported "$case.fixed" >"$work/fixed.json"
	"$linemate" advise -i "$work/$case.data" --machine "$machine" --json >"$work/advice.json"
	jq -nr -L scripts/lib --arg case "$case" --arg culprit "$culprit" --arg fix "$fix" \
		--arg headline "$("$linemate" report -i "$work/$case.data" --machine "$machine" | head -n 1)" \
		--slurpfile report "$work/report.json" --slurpfile fixed "$work/fixed.json" --slurpfile advice "$work/advice.json" \
		'include "unseen"; unseen_row'
}

# control_of SOURCE CASE: a table row.
control_of() {
	local source=$1 case=$2
	recorded "$source" "$case"
	say "advising on $case"
	"$linemate" advise -i "$work/$case.data" --machine "$machine" --trials 4 --json >"$work/advice.json"
	jq -nr -L scripts/lib --arg case "$case" --slurpfile advice "$work/advice.json" 'include "unseen"; control_row'
}

# wanted CASE NAME…: whether the case was asked for.
wanted() {
	local case=$1 name
	shift
	[ $# -gt 0 ] || return 0
	for name; do
		[ "$name" != "$case" ] || return 0
	done
	return 1
}

# rows KIND [CASE]...: the rows of the cases or of the controls.
rows() {
	local kind=$1 source case culprit fix
	shift
	# On another descriptor, so that no command reads the list.
	while IFS=$'\t' read -r source case culprit fix _ <&3; do
		wanted "$case" "$@" || continue
		case $kind.$culprit in
		controls.-) control_of "$source" "$case" ;;
		controls.* | cases.-) ;;
		*) case_of "$source" "$case" "$culprit" "$fix" ;;
		esac
	done 3< <(grep -v '^#' workloads/unseen/cases.list)
}

jq -nr -L scripts/lib 'include "unseen"; unseen_head'
rows cases "$@"
echo
jq -nr -L scripts/lib 'include "unseen"; control_head'
rows controls "$@"

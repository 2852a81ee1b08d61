#!/usr/bin/env bash
# The figures of evidence/benchmarks.md, measured on this machine: cost of recording, size of a
# recording, the ledger, the report's time and memory, questions with an empty cache and again.
# Markdown on stdout, progress on stderr. `make bench` has built everything by then.
#
# The recorded part's time is a difference of two complete runs, COMMAND and `true`, so that
# start-up and reading the boot snapshot cancel out; `--bare` is the same run without the recorder.
# Each time is the best of RUNS (default 3): anything else on the machine only ever makes it longer.
#
# usage: bench.sh                       all of it
#        bench.sh questions FILE...     the questions alone, about these recordings
#        bench.sh throughput FILE...    how many accesses replays account for in a second, on these recordings
#        bench.sh cloned FILE...        the same with the recorded CPUs cloned to 480
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly linemate=target/release/linemate
readonly runs=${RUNS:-3}
work=target/bench
mkdir -p "$work"
kernel=$(scripts/kernel-image.sh 6.12)
record=("$linemate" record --kernel "$kernel" --smp 8)
cc -O2 -Wall -Wextra -Werror -o "$work/measure" scripts/measure.c

say() {
	echo "bench: $*" >&2
}

# best LABEL COMMAND…: runs it RUNS times; prints "seconds KiB" of the fastest.
best() {
	local label=$1 run
	shift
	: >"$work/times"
	for ((run = 1; run <= runs; run++)); do
		say "$label, run $run of $runs"
		if ! "$work/measure" "$work/time" "$@" >"$work/output" 2>&1; then
			tail -n 5 "$work/output" >&2
			say "error: failed: $*"
			return 1
		fi
		cat "$work/time" >>"$work/times"
	done
	sort -n "$work/times" | sed -n 1p
}

seconds() {
	echo "${1%% *}"
}

# calc DIGITS EXPRESSION
calc() {
	awk "BEGIN { printf \"%.$1f\", $2 }"
}

# A number out of a JSON text: the first value of this key.
json_number() {
	grep -oE "\"$1\" *: *[0-9.]+" "$2" | sed -n '1s/.*: *//p'
}

row() {
	printf '| %s | %s | %s |\n' "$1" "$2" "$3"
}

# Everything about one workload.
workload() {
	local name=$1 file=$work/$1.data
	shift
	local recorded bare report ratio accesses bytes hash again

	recorded=$(best "recording $name" "${record[@]}" -o "$file" -- "$@")
	bare=$(best "running $name bare" "${record[@]}" --bare -- "$@")
	hash=$(sha256sum <"$file")
	say "recording $name once more, to compare"
	"${record[@]}" -o "$work/again.data" -- "$@" >/dev/null 2>&1
	again=$(sha256sum <"$work/again.data")
	report=$(best "report on $name" "$linemate" report --no-cache -i "$file" --json)
	"$linemate" report -i "$file" --json >"$work/$name.json"
	accesses=$(json_number recorded "$work/$name.json")
	bytes=$(stat -c %s "$file")
	ratio=$(calc 2 "($(seconds "$recorded") - $(seconds "$empty")) / ($(seconds "$bare") - $(seconds "$bare_empty"))")

	# shellcheck disable=SC2016 # markdown
	printf '\n### `%s`\n\n| figure | here | asked for |\n|---|---|---|\n' "${*##*/}"
	row "accesses" "$accesses" ""
	row "run time of the recorded part, bare" "$(calc 2 "$(seconds "$bare") - $(seconds "$bare_empty")") s" ""
	row "run time of the recorded part, recorded" "$(calc 2 "$(seconds "$recorded") - $(seconds "$empty")") s" ""
	row "recorded ÷ bare" "$ratio" "≤ 2.5"
	row "bytes per access on disk" "$(calc 2 "$bytes / $accesses")" "≤ 3.0"
	row "two recordings" "$([ "$hash" = "$again" ] && echo identical || echo DIFFERENT)" "identical"
	row "report: time" "$(seconds "$report") s ($(calc 1 "$(seconds "$report") / $accesses * 2e8") s per 200 M accesses)" "≤ 60 s per 200 M"
	row "report: peak memory" "$(calc 2 "${report##* } / 1048576") GiB" "≤ 1.5 GiB"
	printf '\n```\n'
	"$linemate" report -i "$file" --ledger | sed -n '/^ where the accesses went/,/^Typed/p'
	printf '```\n'
	questions "$file"
}

# ask COMMAND…: a question's "seconds KiB", with the bench's own cache.
ask() {
	if ! LINEMATE_CACHE=$PWD/$work/cache "$work/measure" "$work/time" "$linemate" "$@" >"$work/output" 2>&1; then
		tail -n 5 "$work/output" >&2
		say "error: failed: $*"
		return 1
	fi
	cat "$work/time"
}

# Questions about a recording: each with an empty cache, then again.
questions() {
	local file=$1 question words first second
	printf 'type rq\nisolate __lock\n' >"$work/lock.edit"
	printf '\n| question | nothing kept | again |\n|---|---|---|\n'
	for question in "report --type rq" "report --type rq --machine gnr-2s-480" "whatif --edit $work/lock.edit" \
		"advise --type rq" "advise"; do
		read -ra words <<<"$question"
		rm -rf "$work/cache"
		mkdir -p "$work/cache"
		say "$question, nothing kept"
		first=$(ask "${words[@]}" -i "$file")
		say "$question, again"
		second=$(ask "${words[@]}" -i "$file")
		row "\`$question\`" "$(cost "$first")" "$(cost "$second")"
	done
	row "bytes kept; of the recording" "$(du -bc "$work"/cache/questions/* | tail -n 1 | cut -f 1)" "$(stat -c %s "$file")"
}

# A recording too long to make several times, and the questions about it.
large() {
	local file=$work/$1.data
	shift
	say "recording $*"
	"${record[@]}" -o "$file" -- "$@" >"$work/output" 2>&1
	"$linemate" report --no-cache -i "$file" --json >"$work/large.json"
	# shellcheck disable=SC2016 # markdown
	printf '\n### `%s`: %s accesses\n' "$*" "$(json_number recorded "$work/large.json")"
	questions "$file"
}

# replayed FILE CPUS ASKED: accesses that the eight replays of an edit account for in a second, when
# a what-if of another edit has cached the stream and the replays without edits. An access counts
# once for each copy of its CPU.
replayed() {
	local file=$1 cpus=$2 asked=$3 again accesses copies replays rate
	local what_if=(whatif -i "$file" --type rq --cpus "$cpus" --all-interleavings --json)
	rm -rf "$work/cache"
	mkdir -p "$work/cache"
	say "replays of $cpus CPUs, nothing kept"
	ask "${what_if[@]}" -e 'isolate __lock' >/dev/null
	say "replays of $cpus CPUs, another edit"
	again=$(ask "${what_if[@]}" -e 'isolate nr_running')
	accesses=$(json_number accesses "$work/output")
	copies=$(calc 0 "$cpus / $(json_number recorded_cpus "$work/output")")
	replays=$(json_number interleavings "$work/output")
	rate=$(calc 1 "$accesses * $copies * $replays / ${again%% *} / 1e6")
	row "$cpus CPUs, $accesses accesses, $replays replays" "$rate M/s, $(cost "$again")" "$asked"
}

replays_head() {
	printf '\n| replays | accesses accounted for in a second | asked for |\n|---|---|---|\n'
}

# throughput FILE...
throughput() {
	local file
	replays_head
	for file; do
		replayed "$file" 8 "≥ 100 M/s"
	done
}

# cloned FILE...
cloned() {
	local file
	replays_head
	for file; do
		replayed "$file" 480 "≥ 20 M/s"
	done
}

cost() {
	printf '%.1f s, %.0f MiB' "${1%% *}" "$(calc 0 "${1##* } / 1024")"
}

head_lines() {
	printf '## Measured %s\n\n' "$(date -u +%F)"
	printf -- '- machine: %s, %s CPUs, %s GiB\n' "$(sed -nE '/^model name/{s/.*: //p;q}' /proc/cpuinfo)" "$(nproc)" \
		"$(awk '/^MemTotal/ { printf "%.0f", $2 / 1048576 }' /proc/meminfo)"
	printf -- '- linemate %s (%s)\n' "$("$linemate" --version | sed 's/^[^ ]* //')" \
		"$(git describe --always --dirty 2>/dev/null || echo 'not a checkout')"
	printf -- '- %s, %s, guest kernel %s\n' "$(qemu-system-x86_64 --version | sed -n 1p)" "$(cargo --version)" \
		"$(basename "$kernel" | sed 's/^vmlinuz-//')"
}

head_lines
case ${1-all} in
all) ;;
questions | throughput | cloned)
	part=$1
	shift
	for file; do
		# shellcheck disable=SC2016 # markdown
		printf '\n### `%s`\n' "${file##*/}"
		"$part" "$file"
	done
	exit
	;;
*)
	say "error: no such part: $1 (questions, throughput, cloned)"
	exit 2
	;;
esac
empty=$(best "recording nothing" "${record[@]}" -o "$work/empty.data" -- true)
bare_empty=$(best "running nothing bare" "${record[@]}" --bare -- true)
workload hackbench hackbench -g 2 -l 50
workload sleepers target/workloads/sleepers -m 1 -l 6 -c 64
large hundred hackbench -g 2 -l 16
large giga hackbench -g 2 -l 320
"${record[@]}" -o "$work/few.data" -- target/workloads/sleepers -m 1 -l 1 -c 16 >"$work/output" 2>&1
throughput "$work/sleepers.data" "$work/hackbench.data"
cloned "$work/few.data"

printf '\n### Parts\n\n```\n'
for folder in crates/*/benches; do
	[ -d "$folder" ] || continue
	say "cargo bench of ${folder%/benches}"
	cargo bench --quiet --manifest-path "${folder%/benches}/Cargo.toml" --benches 2>"$work/cargo.log" || {
		tail -n 20 "$work/cargo.log" >&2
		exit 1
	}
done
printf '```\n'

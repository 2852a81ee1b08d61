#!/usr/bin/env bash
# Tests of the tables and the sweep, after `make build` and `scripts/setup.sh sweep`.
#
#   scripts/test-sweep.sh [readers|spark|killed]     (default: readers)
#
#   readers   DuckDB, pandas and Polars see the totals of --json, and the queries answer as they should
#   spark     so does Spark; needs Java
#   killed    a small matrix that was killed twice and run again has the bytes of one that was not (minutes: it boots guests)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=target/sweep-venv/bin/python
linemate=$PWD/target/release/linemate
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "test-sweep: error: $*" >&2
	exit 1
}

# A recording in the tables, a replay of it and a what-if; twice, so that nothing is there twice. And the documents.
make_tables() {
	local data=$work/small.data lake=$work/lake kernel before
	kernel=$(scripts/kernel-image.sh debian:6.12)
	"$linemate" record --kernel "$kernel" --smp 2 --memory 512M -o "$data" -- \
		target/workloads/sleepers -m 1 -l 2 -c 4 >"$work/log" 2>&1 || fail "record: $(tail -n 1 "$work/log")"
	export_all "$data" "$lake"
	before=$(tree_digest "$lake")
	export_all "$data" "$lake"
	[ "$(tree_digest "$lake")" = "$before" ] || fail "an export of the same run changes the tables"
	[ "$(find "$lake/runs" -name '*.parquet' | wc -l)" = 3 ] || fail "three exports gave $(find "$lake/runs" -name '*.parquet' | wc -l) runs"
	"$linemate" report "$data" --json --all --top 1000000 >"$work/report.json"
	"$linemate" report "$data" --json --machine spr-w-48 >"$work/costs.json"
}

# export_all RECORDING FOLDER
export_all() {
	local base=("$linemate" export "$1" --parquet "$2" --workload "a name/with=signs %")
	{
		"${base[@]}" --lines &&
			"${base[@]}" --machine spr-w-48 --lines &&
			"${base[@]}" --machine spr-w-48 --type rq -e 'isolate __lock'
	} 2>"$work/log" || fail "export: $(tail -n 1 "$work/log")"
}

# All files of a folder that are not hidden, with their digests.
tree_digest() {
	(cd "$1" && find . -name '.*' ! -name . -prune -o -type f -print0 | sort -z | xargs -0 sha256sum)
}

# wait_for_some FOLDER NUMBER: that many files are in it, or the sweep has ended.
wait_for_some() {
	while kill -0 "$sweep" 2>/dev/null && [ "$(find "$1" -type f 2>/dev/null | wc -l)" -lt "$2" ]; do
		sleep 0.2
	done
}

# In a process group of its own, which is killed with all that it has started.
start_sweep() {
	set -m
	SWEEP_OUT=$1 scripts/sweep.sh run sweep/tests/small.yaml >"$work/log" 2>&1 &
	sweep=$!
	set +m
}

killed() {
	local round recorded
	for round in 2 5; do
		start_sweep "$work/killed"
		wait_for_some "$work/killed/recordings" "$round"
		sleep "0.$((RANDOM % 10))"
		kill -KILL -- "-$sweep" 2>/dev/null || fail "the sweep ended before it was killed: $(tail -n 3 "$work/log")"
		wait "$sweep" 2>/dev/null || true
		recorded=$(stat -c '%n %Y' "$work"/killed/recordings/*.data 2>/dev/null || true)
	done
	SWEEP_OUT=$work/killed scripts/sweep.sh run sweep/tests/small.yaml >"$work/log" 2>&1 || fail "$(tail -n 3 "$work/log")"
	while read -r name time; do
		[ -z "$name" ] || [ "$(stat -c %Y "$name")" = "$time" ] || fail "$name was whole and is made again"
	done <<<"$recorded"
	SWEEP_OUT=$work/whole scripts/sweep.sh run sweep/tests/small.yaml >"$work/log" 2>&1 || fail "$(tail -n 3 "$work/log")"
	[ "$(tree_digest "$work/whole/lake" | wc -l)" -gt 20 ] || fail "there are no tables"
	diff <(tree_digest "$work/killed/lake") <(tree_digest "$work/whole/lake") >"$work/log" || fail "a sweep that was killed differs: $(head -n 3 "$work/log")"
	SWEEP_OUT=$work/whole scripts/sweep.sh report >/dev/null
	grep -q 'no suite of this machine.s Debian archive has a kernel debian:0.1' "$work/whole/report.md" || fail "a kernel that there is not is not told"
	echo "test-sweep: $(tree_digest "$work/whole/lake" | wc -l) files are the same after two kills"
}

case ${1:-readers} in
readers)
	make_tables
	for reader in duckdb pandas polars; do
		"$python" sweep/tests/readers.py "$reader" "$work/lake" "$work/report.json" "$work/costs.json"
	done
	mkdir "$work/made-up"
	"$python" sweep/tests/queries.py "$work/made-up"
	;;
spark)
	if ! command -v java >/dev/null; then
		echo "test-sweep: skipped: Spark needs Java, and there is none: install default-jre-headless and run \`scripts/setup.sh sweep\`"
		exit 0
	fi
	make_tables
	"$python" sweep/tests/readers.py spark "$work/lake" "$work/report.json" "$work/costs.json"
	;;
killed) killed ;;
*) fail "say readers, spark or killed" ;;
esac
echo "test-sweep: passed"

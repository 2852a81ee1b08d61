#!/usr/bin/env bash
# Runs every fuzz target of fuzz/fuzz_targets for FUZZ_SECONDS (default 60), two at a time; stops with an error if one
# finds something, with the path of the input that did it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${FUZZ_SECONDS:-60}
case $seconds in
'' | *[!0-9]* | 0*)
	echo "fuzz: FUZZ_SECONDS='$seconds' is not a positive number" >&2
	exit 2
	;;
esac

targets=()
for file in fuzz/fuzz_targets/*.rs; do
	[ -e "$file" ] || continue
	file=${file##*/}
	targets+=("${file%.rs}")
done
if [ "${#targets[@]}" -eq 0 ]; then
	echo "fuzz: there are no targets in fuzz/fuzz_targets" >&2
	exit 2
fi

if ! cargo fuzz --version >/dev/null 2>&1; then
	echo "fuzz: installing cargo-fuzz"
	# Unoptimised: it starts other programs, and compiles in half the time.
	cargo install --locked --quiet --debug cargo-fuzz
fi

# Stable compilers instrument too, with this option; sanitizers would need a nightly one.
export RUSTC_BOOTSTRAP=1
logs=target/fuzz-logs
mkdir -p "$logs"
for target in "${targets[@]}"; do
	echo "fuzz: building $target"
	cargo fuzz build --sanitizer none "$target"
done

fuzz_one() {
	local corpus=(fuzz/corpus/"$1")
	mkdir -p "${corpus[0]}"
	if [ -d fuzz/seeds/"$1" ]; then
		corpus+=(fuzz/seeds/"$1")
	fi
	if cargo fuzz run "$1" --sanitizer none "${corpus[@]}" -- -max_total_time="$seconds" -rss_limit_mb=4096 \
		-print_final_stats=1 >"$logs/$1.log" 2>&1; then
		echo "fuzz: $1: nothing found in $(sed -nE 's/^stat::number_of_executed_units: *//p' "$logs/$1.log") inputs"
	else
		tail -n 30 "$logs/$1.log" >&2
		echo "fuzz: error: $1 found something: see $logs/$1.log" >&2
		return 1
	fi
}

failed=0
running=()
for target in "${targets[@]}"; do
	fuzz_one "$target" &
	running+=($!)
	if [ "${#running[@]}" -eq 2 ]; then
		wait "${running[0]}" || failed=1
		running=("${running[@]:1}")
	fi
done
for job in "${running[@]}"; do
	wait "$job" || failed=1
done
exit "$failed"

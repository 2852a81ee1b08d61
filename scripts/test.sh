#!/usr/bin/env bash
# All tests of the workspace; `scripts/test.sh build` compiles them and runs none. Unit and documentation tests run in parallel; integration tests two at a time, because many
# of them boot a guest that wants a core and a gigabyte for itself. `make test` has done the set-up by then.
#
# From the environment: TEST_PROFILE (dev): with `release` the tests are of what `make build` builds, optimised and without checks for
# overflow, and most of it is built already after `make demo`. TEST_LEAVE_OUT (none): names of integration tests that are not run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

profile=()
export BUILT=$PWD/target/debug
case ${TEST_PROFILE:-dev} in
dev) ;;
release)
	profile=(--release)
	BUILT=$PWD/target/release
	;;
*)
	echo "test: TEST_PROFILE is $TEST_PROFILE: say dev or release" >&2
	exit 2
	;;
esac

make --no-print-directory workloads
# The tests run the built command and the recorder's plugin, so both must exist.
cargo build --workspace "${profile[@]}"
cargo test --workspace "${profile[@]}" --no-run
[ "${1-}" != build ] || exit 0
# The scripts' tests mostly wait for processes, so they run in parallel with the unit tests.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for test in setup style build-kernel fresh dist install; do
	"scripts/test-$test.sh" || exit 1
done >"$log" 2>&1 &
scripts_job=$!
failed=0
{ cargo test --workspace "${profile[@]}" --lib --bins && cargo test --workspace "${profile[@]}" --doc; } || failed=1
wait "$scripts_job" || failed=1
cat "$log"
[ "$failed" = 0 ] || exit 1
# Two at a time, because a guest keeps one core busy: the longest first, each alone, then all others
# in two halves, so that both cores are busy to the end. All packages are selected every time: for
# some of them cargo would compile dependencies again.
longest=(case found known guest programs next_steps advise growth repeat)
halves=("" "")
while read -r name; do
	if [[ " ${TEST_LEAVE_OUT-} " == *" $name "* ]]; then
		echo "test: left out: $name"
	elif [[ " ${longest[*]} " != *" $name "* ]]; then
		halves[0]+=" --test $name"
		halves=("${halves[1]}" "${halves[0]}")
	fi
done < <(basename -a -s .rs crates/*/tests/*.rs | sort -u)
tests=()
for name in "${longest[@]}"; do
	[[ " ${TEST_LEAVE_OUT-} " == *" $name "* ]] || tests+=(" --test $name")
done
tests+=("${halves[@]}")

# How long a group of integration tests may take: more than three times what the longest one took on
# a busy machine. A group that hangs fails then, and its output ends with the name of the test.
readonly LIMIT=1200

# run_tests OPTIONS: prints when they have ended, so that outputs do not mix.
run_tests() {
	local log status=0 started=$SECONDS
	log=$(mktemp)
	# shellcheck disable=SC2086 # several words
	RUST_TEST_THREADS=1 timeout --kill-after=10 "$LIMIT" cargo test --workspace "${profile[@]}" --no-fail-fast $1 >"$log" 2>&1 || status=$?
	cat "$log"
	# 124: ended by SIGTERM; 137: by SIGKILL.
	[[ " 124 137 " != *" $status "* ]] || echo "test:$1: did not end in $LIMIT s"
	echo "test:$1: $((SECONDS - started)) s"
	rm -f "$log"
	return "$status"
}

running=0
for options in "${tests[@]}"; do
	if [ "$running" = 2 ]; then
		wait -n || failed=1
		running=1
	fi
	run_tests "$options" &
	running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
	wait -n || failed=1
	running=$((running - 1))
done
exit "$failed"

#!/usr/bin/env bash
# All tests of the workspace; `scripts/test.sh build` compiles them and runs none. Unit and documentation tests run in parallel; integration tests two at a time, because many
# of them boot a guest that wants a core and a gigabyte for itself. `make test` has done the set-up by then.
#
# From the environment: TEST_PROFILE (dev): with `release` the tests are of what `make build` builds, optimised and without checks for
# overflow, and most of it is built already after `make demo`.
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
# The tests drive the command and the recorder's plugin as they are built, so both have to be there.
cargo build --workspace "${profile[@]}"
cargo test --workspace "${profile[@]}" --no-run
[ "${1-}" != build ] || exit 0
# The scripts' tests mostly wait for processes, so they run beside the unit tests.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for test in setup style build-kernel fresh install; do
	"scripts/test-$test.sh" || exit 1
done >"$log" 2>&1 &
scripts_job=$!
failed=0
{ cargo test --workspace "${profile[@]}" --lib --bins && cargo test --workspace "${profile[@]}" --doc; } || failed=1
wait "$scripts_job" || failed=1
cat "$log"
[ "$failed" = 0 ] || exit 1
# Two at a time, because a guest keeps one core busy: those called like one of the command's, and all others with the
# two longest of the command's, so that both take about as long. All packages are selected both times: for some of them
# cargo would compile dependencies anew.
here=() others=(--test found --test advise)
while read -r name; do
	if [ "$name" = found ] || [ "$name" = advise ]; then
		continue
	elif [ -e "crates/linemate/tests/$name.rs" ]; then
		here+=(--test "$name")
	else
		others+=(--test "$name")
	fi
done < <(basename -a -s .rs crates/*/tests/*.rs | sort -u)
export RUST_TEST_THREADS=1
cargo test --workspace "${profile[@]}" --no-fail-fast "${others[@]}" >"$log" 2>&1 &
others_job=$!
cargo test --workspace "${profile[@]}" --no-fail-fast "${here[@]}" || failed=1
wait "$others_job" || failed=1
cat "$log"
exit "$failed"

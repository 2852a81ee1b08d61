#!/usr/bin/env bash
# Tests of how scripts/lib/fresh.sh runs and counts steps. They run here; no root is made.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source-path=SCRIPTDIR source=lib/fresh.sh
. scripts/lib/fresh.sh

failures=0
equal() {
	if [ "$2" != "$3" ]; then
		printf 'test-fresh: error: %s\n  expected: %s\n  got:      %s\n' "$1" "$2" "$3" >&2
		failures=$((failures + 1))
	fi
}

# steps STEP…: how it ends, how many tests passed, which steps have a time.
steps() {
	local status=0
	fresh_times=()
	fresh_tests=0
	fresh_steps "$@" >/dev/null || status=$?
	echo "$status, $fresh_tests tests, ${fresh_times[*]%: *}"
}

passed='echo "test result: ok. 12 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.50s"'
failed='echo "test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.50s"; exit 1'
equal "no step" "0, 0 tests, " "$(steps)"
equal "tests of all steps count" "0, 24 tests, $passed true $passed" "$(steps "$passed" true "$passed")"
equal "what goes to standard error counts" "0, 12 tests, { $passed; } >&2" "$(steps "{ $passed; } >&2")"
equal "a step that fails is the last" "1, 16 tests, $passed" "$(steps "$passed" "$failed" "$passed")"
equal "a step ends with its first command that fails" "1, 0 tests, " "$(steps "false; true")"

# until_second N: what becomes of a step a hundred seconds after the start if none begins after N.
until_second() (
	fresh_times=()
	fresh_tests=0
	fresh_until=$1
	SECONDS=100
	fresh_steps "$passed" >/dev/null
	fresh_times[0]=${fresh_times[0]#"$passed: "}
	echo "$fresh_tests tests, ${fresh_times[0]%% [0-9]*}"
)

equal "a step begins while there is time" "12 tests, 0 min" "$(until_second 1000)"
equal "no step begins later" "0 tests, not run:" "$(until_second 100)"

[ "$failures" = 0 ] || exit 1
echo "test-fresh: passed"

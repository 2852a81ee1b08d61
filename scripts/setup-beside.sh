#!/usr/bin/env bash
# Compiles while set-up downloads: scripts/setup-beside.sh GOAL COMMAND…, where COMMAND needs no
# more than `setup.sh build` gets. A failed set-up ends the command; a failed command waits for
# set-up, which may be in the middle of installing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

goal=$1
shift
"$here/setup.sh" build
# In a process group of its own, so that a signal ends it and all that it has started.
set -m
"$@" </dev/null &
job=$!
set +m
trap 'kill -- "-$job" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
status=0
"$here/setup.sh" "$goal" || status=$?
if [ "$status" != 0 ]; then
	kill -- "-$job" 2>/dev/null || true
	wait "$job" || true
	echo "setup: failed: see \`setup: error\` above" >&2
	exit "$status"
fi
wait "$job" || {
	echo "setup: all is set up, but \`$*\` failed: see its errors above" >&2
	exit 1
}

#!/usr/bin/env bash
# Runs make's targets in a fresh clone on a fresh, minimal Debian, in a chroot, and prints how long each takes.
#
#   scripts/fresh.sh SUITE TARGET…     (bookworm or trixie)
#
# On bookworm the machine's Rust is used if rustup put it there, on trixie Debian's. KEEP=1 keeps the root. Needs to be root.
# Exit code: 0 all passed; 1 a target failed; 2 no root could be made.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source-path=SCRIPTDIR source=lib/apt.sh
. scripts/lib/apt.sh
# shellcheck source-path=SCRIPTDIR source=lib/fresh.sh
. scripts/lib/fresh.sh

[ $# -ge 2 ] || {
	echo "usage: scripts/fresh.sh SUITE TARGET…" >&2
	exit 2
}
suite=$1
shift
fault=$(mktemp)
# shellcheck disable=SC2317 # the trap's
finish() {
	rm -f "$fault"
	if [ -n "${KEEP-}" ]; then
		echo "fresh: kept $fresh_root" >&2
	else
		fresh_remove
	fi
}
trap finish EXIT
fresh_make "$suite" >"$fault" || {
	echo "fresh: error: $(cat "$fault")" >&2
	exit 2
}
fresh_times=()
fresh_tests=0
echo "fresh: a minimal Debian ($suite) in $fresh_root, made in $(minutes "$SECONDS")"
failed=0
fresh_steps "${@/#/make }" || failed=1
echo; printf 'fresh: %s\n' "${fresh_times[@]}" "$fresh_tests tests passed"
[ "$failed" = 0 ] || echo "fresh: error: failed: ${*:$((${#fresh_times[@]} + 1)):1}" >&2
exit "$failed"

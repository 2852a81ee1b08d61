#!/usr/bin/env bash
# Records the sleep workload on Debian's unmodified 6.12 kernel with 8 CPUs and reports on struct
# rq; then writes a page about it, linemate.html. `make demo` has built everything by then. The
# recording stays in linemate.data, for the examples of README.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

linemate=target/release/linemate
kernel=$(scripts/kernel-image.sh 6.12)

run() {
	printf '\n$ %s\n' "$*"
	"$@"
}

run "$linemate" record --kernel "$kernel" --smp 8 -o linemate.data -- target/workloads/sleepers -m 1 -l 6 -c 64
run "$linemate" report --type rq --top 20
printf '\n$ %s\n' "$linemate report --type rq --machine gnr-2s-480 --html linemate.html >/dev/null"
"$linemate" report --type rq --machine gnr-2s-480 --html linemate.html >/dev/null

#!/usr/bin/env bash
# Records the sleep workload on Debian's unmodified 6.12 kernel with 8 CPUs and reports on struct rq. `make demo` has built
# everything by then.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

linemate=target/release/linemate
kernel=$(scripts/kernel-image.sh 6.12)

run() {
	printf '\n$ %s\n' "$*"
	"$@"
}

run "$linemate" record --kernel "$kernel" --smp 8 -o target/demo.data -- target/workloads/sleepers -m 1 -l 6 -c 64
run "$linemate" report -i target/demo.data --type rq --top 20

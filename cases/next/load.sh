#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# The workloads that the findings of this folder are of, as threads and as processes, beside each other: opens and unlinks of one file system, signals,
# wakeups, forks and execs, page faults of one process, messages over TCP and UDP, work of io_uring. Run in the guest by scripts/check-findings.sh, below cases/checks.sh. Ends with 0 if all worked.
set -u

failures=0

failed() {
	echo "load: FAILED: $*"
	failures=$((failures + 1))
}

together() {
	files -o churn -d /tmp -w 4 -l 40 -p >/dev/null &
	churn=$!
	files -o same -d /tmp -w 4 -l 100 >/dev/null &
	same=$!
	events -o signals -t 4 -l 200 >/dev/null &
	signals=$!
	talkers -s 2 -c 2 -k 1 -l 50 >/dev/null &
	talk=$!
	births -o fork -w 4 -l 8 >/dev/null &
	forks=$!
	births -o exec -w 4 -l 4 >/dev/null &
	execs=$!
	hammer -o fault -w 4 -l 500 >/dev/null &
	hammering=$!
	faults -w 4 -n 32 -l 3 >/dev/null &
	faulting=$!
	ring -t 4 -l 30 >/dev/null || failed "ring"
	wait "$churn" || failed "files -o churn"
	wait "$same" || failed "files -o same"
	wait "$signals" || failed "events"
	wait "$talk" || failed "talkers"
	wait "$forks" || failed "births -o fork"
	wait "$execs" || failed "births -o exec"
	wait "$hammering" || failed "hammer"
	wait "$faulting" || failed "faults"
	# They share a port, so one after the other.
	talkers -s 2 -c 2 -k 2 -l 10 -n >/dev/null || failed "talkers -n"
	talkers -u -s 2 -c 2 -k 4 -l 50 >/dev/null || failed "talkers -u"
}

for round in 1 2 3; do
	echo "load: round $round"
	together
done
exit "$((failures > 0))"

#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# What a kernel with the patches of this folder has to stand, run in the guest (README.md has the command): the workloads that the findings are of, as
# threads and as processes, together. Ends with 0 if all of them worked and the kernel logged nothing that starts with a warning, a bug or a stall; else prints
# what it logged.
set -u

busybox=/bin/busybox
failures=0

failed() {
	echo "checks: FAILED: $*"
	failures=$((failures + 1))
}

# Beside each other: opens and unlinks of one file system, signals, wakeups, forks, page faults of one process and work of io_uring.
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
	faults -w 4 -n 32 -l 3 >/dev/null &
	faulting=$!
	ring -t 4 -l 30 >/dev/null || failed "ring"
	wait "$churn" || failed "churn"
	wait "$same" || failed "same"
	wait "$signals" || failed "signals"
	wait "$talk" || failed "talkers"
	wait "$forks" || failed "births"
	wait "$faulting" || failed "faults"
}

round=1
while [ "$round" -le "${ROUNDS:-3}" ]; do
	echo "checks: round $round"
	together
	round=$((round + 1))
done

# What lockdep finds begins with WARNING or INFO; its own name is in the messages of a boot.
bad='WARNING|BUG|INFO: |Oops|Kernel panic|stall|hung task|Call Trace|KASAN|general protection|possible .* deadlock'
# KASAN says at boot that it is there.
if $busybox dmesg | $busybox grep -v 'kasan: KernelAddressSanitizer initialized' | $busybox grep -E "$bad" >/dev/null; then
	failed "the kernel's log:"
	$busybox dmesg | $busybox grep -E -A 30 "$bad"
fi
[ "$failures" -eq 0 ] && echo "checks: all passed on $($busybox uname -r)"
exit "$((failures > 0))"

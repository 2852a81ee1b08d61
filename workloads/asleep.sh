#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Starts ten sleepers for each CPU and returns when all of them sleep; a set-up script for `linemate record --setup`, which needs
# `--file target/workloads/sleepers:/bin/sleepers`. What is recorded then has their waking and no start of a process.
#
# The CPUs of a guest share one clock, so each process sleeps as many milliseconds as there are CPUs.
set -eu

busybox=/bin/busybox
cpus=$("$busybox" nproc)
children=$((10 * cpus))

# Tasks of the kernel count, too: several for each CPU.
running=0 all=0
count_tasks() {
	read -r _ _ _ tasks _ </proc/loadavg
	running=${tasks%/*} all=${tasks#*/}
}

count_tasks
wanted=$((all + children))
/bin/sleepers -m "$cpus" -l 20 -c "$children" >/dev/null 2>&1 &
started=$!

# The children wait for the last one to start. Once all exist, and for a second no more than an eighth of the CPUs are busy, they
# have begun to sleep.
calm=0
while [ "$calm" -lt 10 ]; do
	"$busybox" sleep 0.1
	kill -0 "$started" 2>/dev/null || {
		echo "asleep.sh: the sleepers have ended" >&2
		exit 2
	}
	count_tasks
	if [ "$all" -ge "$wanted" ] && [ "$running" -le $((cpus / 8 + 1)) ]; then
		calm=$((calm + 1))
	else
		calm=0
	fi
done

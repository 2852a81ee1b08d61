#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Starts a group of hackbench for each twelve CPUs, 40 processes a group, and returns when they exchange messages; a set-up script
# for `linemate record --setup`, which needs `--file PROGRAM:/bin/hackbench`.
set -eu

busybox=/bin/busybox
cpus=$("$busybox" nproc)
groups=$(((cpus + 11) / 12))

# Tasks of the kernel count, too: several for each CPU.
read -r _ _ _ tasks _ </proc/loadavg
wanted=$((${tasks#*/} + 40 * groups))
/bin/hackbench -g "$groups" -l 100 >/dev/null 2>&1 &
started=$!

# The processes wait for the last one to start; then as many work as there are CPUs.
running=0
while [ "$running" -lt $((cpus / 2)) ]; do
	"$busybox" sleep 0.01
	kill -0 "$started" 2>/dev/null || {
		echo "talking.sh: hackbench has ended" >&2
		exit 2
	}
	read -r _ _ _ tasks _ </proc/loadavg
	[ "${tasks#*/}" -lt "$wanted" ] || running=${tasks%/*}
done

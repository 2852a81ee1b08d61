#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Groups of cgroup v2 with the controllers cpu, memory, io and pids come and go: each of WORKERS shells makes a group, sets limits, enters a
# process that writes a file and reads it, reads the group's statistics, and removes the group, ROUNDS times. Stands for hosts of many short jobs.
#
# Where it is weak: groups are one level deep, and a job is a few system calls long.
set -eu

WORKERS=${1:-8}
ROUNDS=${2:-4}
root=/sys/fs/cgroup

echo "+cpu +memory +io +pids" >"$root/cgroup.subtree_control"
mkdir "$root/jobs"
echo "+cpu +memory +io +pids" >"$root/jobs/cgroup.subtree_control"

job() {
	round=0
	while [ "$round" -lt "$ROUNDS" ]; do
		group=$root/jobs/job.$1.$round
		mkdir "$group"
		echo 64M >"$group/memory.max"
		echo 100 >"$group/pids.max"
		echo "50000 100000" >"$group/cpu.max"
		# shellcheck disable=SC2016 # the inner shell's
		sh -c 'echo $$ >$1/cgroup.procs; dd if=/dev/zero of=/tmp/job.$2 bs=4k count=64 2>/dev/null; cat /tmp/job.$2 >/dev/null; rm /tmp/job.$2' job "$group" "$1"
		cat "$group/memory.stat" "$group/cpu.stat" "$group/io.stat" >/dev/null
		rmdir "$group"
		round=$((round + 1))
	done
}

worker=0
while [ "$worker" -lt "$WORKERS" ]; do
	job "$worker" &
	worker=$((worker + 1))
done
wait

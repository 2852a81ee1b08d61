#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Containers are started and end: each of WORKERS shells starts ROUNDS of them, one after the other, with namespaces of their own for mounts,
# processes, network, IPC, host name and cgroups, a tmpfs, a proc and a cgroup, and runs one program there.
#
# Where it is weak: there is no image to unpack, no bridge and no manager; network namespaces are made far more often than on a host.
set -eu

WORKERS=${1:-8}
ROUNDS=${2:-2}
root=/sys/fs/cgroup

echo "+cpu +memory +pids" >"$root/cgroup.subtree_control"

container() {
	round=0
	while [ "$round" -lt "$ROUNDS" ]; do
		group=$root/container.$1.$round
		mkdir "$group"
		# shellcheck disable=SC2016 # the inner shell's
		unshare -m -p -n -i -u -C -f sh -c 'echo $$ >$1/cgroup.procs
			mount -t tmpfs none /mnt
			mkdir /mnt/proc
			mount -t proc none /mnt/proc
			hostname container
			ip link set lo up
			cat /mnt/proc/self/mounts >/dev/null' container "$group"
		rmdir "$group"
		round=$((round + 1))
	done
}

worker=0
while [ "$worker" -lt "$WORKERS" ]; do
	container "$worker" &
	worker=$((worker + 1))
done
wait

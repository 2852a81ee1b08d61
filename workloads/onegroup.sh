#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Makes one cgroup with the cpu controller and no limits, /cg/one, in the guest; a set-up script for `linemate record --setup`. What runs
# in it enters by itself: sh -c 'echo $$ >/cg/one/cgroup.procs; exec COMMAND'.
#
# All its tasks then update the same task_group: the workload of which tg->load_avg is the hottest line.
set -eu

busybox=/bin/busybox

"$busybox" mkdir -p /cg
"$busybox" mount -t cgroup2 none /cg || {
	echo "onegroup.sh: cannot mount cgroup2 on /cg" >&2
	exit 2
}
echo +cpu >/cg/cgroup.subtree_control
"$busybox" mkdir /cg/one

#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Set-up script for rtpinned: lets CPUs that run out of real-time work ask overloaded ones to push, by an interrupt that is
# passed along (the scheduler feature RT_PUSH_IPI), and lets real-time tasks have the whole CPU.
#
# Newer kernels of the long-term series have that feature off: without this script they never write the fields of
# root_domain that organise the passing on (rto_push_work, rto_lock, rto_cpu, rto_loop, rto_loop_next, rto_loop_start).
set -eu

busybox=/bin/busybox
debug=/sys/kernel/debug
features=$debug/sched/features

[ -e "$features" ] || "$busybox" mount -t debugfs none "$debug"
if [ ! -e "$features" ]; then
	echo "rtpush.sh: this kernel has no $features (CONFIG_SCHED_DEBUG)" >&2
	exit 2
fi
echo RT_PUSH_IPI >"$features"
echo -1 >/proc/sys/kernel/sched_rt_runtime_us

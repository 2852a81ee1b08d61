#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Makes /dev/nullb0, a disk that forgets what is written: two queues of 16 requests each, completed by a timer after 2 microseconds.
#
# Where it is weak: an hrtimer for each request, on the CPU that sent it.
set -eu

for module in /modules/*.ko; do
	case $module in
	*-null_blk.ko) /bin/busybox insmod "$module" queue_mode=2 submit_queues=2 hw_queue_depth=16 irqmode=2 completion_nsec=2000 gb=1 nr_devices=1 ;;
	*) /bin/busybox insmod "$module" ;;
	esac || {
		echo "nullblk.sh: cannot load $module" >&2
		exit 2
	}
done

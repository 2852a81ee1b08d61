#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# An ext4 on a RAM disk with a file of 24 MiB, swap in compressed memory, and a group of cgroup v2 that may have 12 MiB, /sys/fs/cgroup/tight: what runs in
# it enters by itself. Pages of files and of programs are then reclaimed by the CPUs that ask for new ones.
#
# Where it is weak: the limit is the group's, so the kernel's own thread for reclaim has little to do, and swap is as fast as a compressor.
set -eu

/bin/busybox sh /bin/ext4.sh
/bin/busybox dd if=/dev/zero of=/disk/large bs=1M count=24 2>/dev/null
echo 3 >/proc/sys/vm/drop_caches
echo 64M >/sys/block/zram0/disksize
/bin/busybox mkswap /dev/zram0 >/dev/null
/bin/busybox swapon /dev/zram0
echo "+memory +io" >/sys/fs/cgroup/cgroup.subtree_control
/bin/busybox mkdir /sys/fs/cgroup/tight
echo 12M >/sys/fs/cgroup/tight/memory.max

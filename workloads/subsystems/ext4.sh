#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Makes an ext4 on a RAM disk and mounts it at /disk.
#
# Where it is weak: a RAM disk answers at once and in the CPU that asks, so nothing queues in the block layer.
set -eu

/bin/busybox sh /bin/modules.sh
make-ext4 -q -t ext4 /dev/ram0
/bin/busybox mkdir /disk
/bin/busybox mount -t ext4 /dev/ram0 /disk

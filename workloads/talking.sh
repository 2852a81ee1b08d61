#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Starts a group of hackbench for each twelve CPUs, 40 processes a group, and returns while they exchange messages; a set-up
# script for `linemate record --setup`, which needs `--file PROGRAM:/bin/hackbench`.
set -eu

busybox=/bin/busybox
cpus=$("$busybox" nproc)

/bin/hackbench -g $(((cpus + 11) / 12)) -l 100 >/dev/null 2>&1 &
"$busybox" sleep 0.2

#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# The tree that the published work put MySQL servers in: width 4, depth 5, three of four leaves limited to half the machine, the fourth
# without a limit, on as many CPUs as the published machine has. Workers that go through 4 MiB of their own in each round stand in for
# a server; 256 of 1024 leaves have one, of one worker. They have been on several CPUs when recording starts.
set -eu
WIDTH=4 DEPTH=5 QUOTA=2400000 PERIOD=100000 /bin/busybox sh /root/cgtree.sh
for limit in /cg/tree/*/*/*/*/g1/cpu.max; do
	echo max >"$limit"
done
/bin/cgtree -p -w 1 -b 50 -n 1000 -s 2000 -f 4096 /cg/tree/g1
/bin/busybox sleep 0.3

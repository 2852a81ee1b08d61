#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# The tree of ../depth3-width10 without a limit anywhere: every quota is taken away again before a worker runs.
set -eu
WIDTH=10 DEPTH=3 QUOTA=1000 PERIOD=200000 /bin/busybox sh /root/cgtree.sh
for limit in /cg/tree/*/*/*/cpu.max; do
	echo max >"$limit"
done
/bin/cgtree -p -w 1 -b 50 -s 20000 -f 4 /cg/tree
/bin/busybox sleep 0.3

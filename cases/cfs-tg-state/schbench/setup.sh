#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# A tree of depth 3 and width 10 in the guest, in each leaf a worker and the thread that wakes it, and time for all of them to have been on
# several CPUs: what is recorded afterwards is their steady state. Why these figures: ../README.md.
set -eu
WIDTH=10 DEPTH=3 LIMITED=2 QUOTA=1000 PERIOD=15625 /bin/busybox sh /root/cgtree.sh
/bin/cgtree -pm -w 1 -b 50 -n 1000 -s 10000 -f 128 /cg/tree
/bin/busybox sleep 1

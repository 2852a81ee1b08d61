#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# A tree of depth 3 and width 10 in the guest, in each leaf two workers and the thread that wakes them, and time for all of them to have been on
# several CPUs: what is recorded afterwards is their steady state. Why these figures: ../README.md.
set -eu
WIDTH=10 DEPTH=3 LIMITED=2 QUOTA=8000 PERIOD=125000 /bin/busybox sh /root/cgtree.sh
/bin/cgtree -pm -w 2 -b 50 -n 1000 -s 20000 -f 15 /cg/tree
/bin/busybox sleep 1

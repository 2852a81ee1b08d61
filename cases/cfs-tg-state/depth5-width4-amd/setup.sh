#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# A tree of depth 5 and width 4 in the guest, two workers in each leaf, and time for all of them to have been on several CPUs: what is
# recorded afterwards is their steady state. Why these figures: ../README.md.
set -eu
WIDTH=4 DEPTH=5 LIMITED=4 QUOTA=4000 PERIOD=160000 /bin/busybox sh /root/cgtree.sh
/bin/cgtree -p -w 2 -b 50 -n 1000 -s 20000 -f 16 /cg/tree
/bin/busybox sleep 1

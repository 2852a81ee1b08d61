#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Set-up in which writeback throttling ends to watch reads: 160,000 reads by eight threads before the recording starts. With nullblk.sh and blocks in /bin.
set -eu

/bin/busybox sh /bin/nullblk.sh
/bin/blocks -w 8 -l 20000

#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# zstd compresses a program with four threads, in jobs of half a megabyte.
set -eu

zstd -q -3 -T4 -B524288 -o /root/out.zst /root/in
zstd -q -d -o /dev/null /root/out.zst

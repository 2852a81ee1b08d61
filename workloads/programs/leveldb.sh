#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# LevelDB's own benchmark: four threads write, read at random and in order, 300 times each.
set -eu

db_bench --db=/run/db --threads=4 --num=300 --benchmarks=fillrandom,readrandom,readseq

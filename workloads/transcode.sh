#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# A pool of real encoders with real-time threads: INSTANCES copies of FFmpeg, each pinned to CPUS logical CPUs of its own, all of its
# threads SCHED_FIFO 99, each encodes FRAMES frames of a test picture with libx264 and THREADS encoding threads:
#
#     linemate record --smp 16 --setup rtpush.sh --file /usr/bin/ffmpeg --file /usr/bin/chrt -- transcode.sh INSTANCES CPUS THREADS FRAMES
#
# The frames are made by FFmpeg itself and what comes out is thrown away, so no file is needed and no disk takes part.
#
# Where it is weak: the pictures are small and few, for the sake of the recording's size, so starting the programs is a much larger
# share of the kernel's work than in a service that runs for days; nothing is decoded; and nothing comes in or goes out by network.
set -eu

instances=${1:?INSTANCES CPUS THREADS FRAMES}
cpus=${2:?INSTANCES CPUS THREADS FRAMES}
threads=${3:?INSTANCES CPUS THREADS FRAMES}
frames=${4:?INSTANCES CPUS THREADS FRAMES}

jobs=
first=0
while [ "$first" -lt $((instances * cpus)) ]; do
	taskset -c "$first-$((first + cpus - 1))" chrt -f 99 ffmpeg -nostdin -hide_banner -loglevel error \
		-filter_threads 1 -f lavfi -i testsrc2=size=320x180:rate=25 -frames:v "$frames" \
		-c:v libx264 -preset superfast -threads "$threads" -f null - &
	jobs="$jobs $!"
	first=$((first + cpus))
done
for job in $jobs; do
	wait "$job"
done

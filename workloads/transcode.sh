#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# A pool of real encoders with real-time threads; a set-up script for `linemate record --setup`: 3 copies of FFmpeg, each pinned to 5
# logical CPUs of its own, all of its threads SCHED_FIFO 99, encode a test picture with libx264 and 10 encoding threads. They are started
# here and go on encoding, so what is recorded is their steady state while the command runs, on the CPU that is left (15):
#
#     linemate record --smp 16 --setup transcode.sh --file rtpush.sh:/bin/rtpush.sh --file /usr/bin/ffmpeg --file /usr/bin/chrt -- sleep 0.3
#
# The frames are made by FFmpeg itself and what comes out is thrown away, so no file is needed and no disk takes part.
#
# Where it is weak: the pictures are small, so threads hand on work more often than with films; nothing is decoded; and nothing comes in
# or goes out by network.
set -eu

instances=3
cpus=5
threads=10

/bin/busybox sh /bin/rtpush.sh

encoders=
n=0
while [ "$n" -lt "$instances" ]; do
	first=$((n * cpus))
	taskset -c "$first-$((first + cpus - 1))" chrt -f 99 ffmpeg -nostdin -hide_banner -loglevel error \
		-progress "/run/transcode.$n" -stats_period 0.02 -filter_threads 1 \
		-f lavfi -i testsrc2=size=320x180:rate=25 -c:v libx264 -preset superfast -threads "$threads" -f null - &
	encoders="$encoders $!"
	n=$((n + 1))
done

n=0
for encoder in $encoders; do
	until grep -q 'frame=[1-9]' "/run/transcode.$n" 2>/dev/null; do
		kill -0 "$encoder" 2>/dev/null || {
			echo "transcode.sh: an encoder ended before its first frame" >&2
			exit 2
		}
		sleep 0.01
	done
	n=$((n + 1))
done

#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Starts memcached with 4 threads and waits until it answers.
#
# Where it is weak: the server is small and all of it is in memory; what is recorded is a few thousand requests.
set -eu

memcached -u root -t 4 -m 16 -l 127.0.0.1 &
until echo version | /bin/busybox nc -w 1 127.0.0.1 11211 >/dev/null 2>&1; do
	/bin/busybox sleep 0.01
done

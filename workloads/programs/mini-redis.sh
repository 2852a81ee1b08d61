#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# mini-redis, tokio's example of a server; eight connections, 400 SETs and 400 GETs.
set -eu

busybox ifconfig lo 127.0.0.1 up
mini-redis-server --port 6380 &
sleep 0.2
redis-benchmark -h 127.0.0.1 -p 6380 -t set,get -n 400 -c 8 -q
kill $!

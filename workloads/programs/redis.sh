#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Redis with four I/O threads; eight connections, 400 requests of each of six commands.
set -eu

busybox ifconfig lo 127.0.0.1 up
redis-server --port 6379 --bind 127.0.0.1 --save '' --appendonly no --io-threads 4 --loglevel warning &
sleep 0.2
redis-benchmark -h 127.0.0.1 -p 6379 -t set,get,lpush,lpop,sadd,hset -n 400 -c 8 -q
kill $!

#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# memcached with four worker threads; eight clients fill 500 keys and get 60 each.
set -eu

busybox ifconfig lo 127.0.0.1 up
memcached -u root -t 4 -p 11211 -U 0 -l 127.0.0.1 &
sleep 0.2
memcslap --servers=127.0.0.1:11211 --concurrency=8 --execute-number=60 --initial-load=500 --test=get
kill $!

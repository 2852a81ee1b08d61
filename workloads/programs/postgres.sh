#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# PostgreSQL with four clients: 25 transactions that read and ten of pgbench's own from each.
set -eu

busybox ifconfig lo 127.0.0.1 up
export LD_LIBRARY_PATH=/usr/local/pgsql/lib PATH="/usr/local/pgsql/bin:$PATH"
mkdir -p /etc
echo postgres:x:1000:1000::/data:/bin/sh >>/etc/passwd
echo postgres:x:1000: >>/etc/group
busybox chown -R 1000:1000 /data
chmod 700 /data
busybox start-stop-daemon -S -c postgres -x /usr/local/pgsql/bin/postgres -- -D /data -h 127.0.0.1 \
	-k '' -c dynamic_shared_memory_type=mmap &
sleep 3
pgbench -h 127.0.0.1 -U postgres -n -S -c 4 -j 2 -t 25 postgres
pgbench -h 127.0.0.1 -U postgres -n -c 4 -j 2 -t 10 postgres
kill -INT "$(head -n 1 /data/postmaster.pid)"

#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Starts nginx with 4 workers and one small page, and waits until it answers.
#
# Where it is weak: one page, no logs, no TLS.
set -eu

/bin/busybox mkdir -p /run/web /var/log/nginx /var/lib/nginx /etc/nginx
echo "It works." >/run/web/index.html
cat >/run/nginx.conf <<'END'
user root;
pid /run/nginx.pid;
worker_processes 4;
error_log /dev/null;
events { worker_connections 512; }
http {
	access_log off;
	sendfile on;
	keepalive_requests 1000000;
	server { listen 127.0.0.1:8080 reuseport; root /run/web; }
}
END
nginx -c /run/nginx.conf
until /bin/busybox wget -q -O /dev/null http://127.0.0.1:8080/; do
	/bin/busybox sleep 0.01
done

#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# nginx with four worker processes; eight connections get one small file 400 times.
set -eu

busybox ifconfig lo 127.0.0.1 up
mkdir -p /usr/local/nginx/logs /root/www
chmod 755 /root
echo hello >/root/www/index.html
cat >/root/nginx.conf <<'CONF'
worker_processes 4;
daemon off;
pid /run/nginx.pid;
events { worker_connections 64; }
http {
	access_log off;
	client_body_temp_path /run/b;
	proxy_temp_path /run/p;
	fastcgi_temp_path /run/f;
	uwsgi_temp_path /run/u;
	scgi_temp_path /run/s;
	server { listen 127.0.0.1:8080 reuseport; location / { root /root/www; } }
}
CONF
nginx -c /root/nginx.conf -e stderr &
sleep 0.2
ab -q -n 400 -c 8 -k http://127.0.0.1:8080/
kill $!

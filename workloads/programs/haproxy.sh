#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# HAProxy with four threads hands 400 requests of eight connections to a server, which is a frontend
# of its own.
set -eu

busybox ifconfig lo 127.0.0.1 up
cat >/root/haproxy.cfg <<'CONF'
global
	nbthread 4
	maxconn 64
defaults
	mode http
	timeout connect 5s
	timeout client 5s
	timeout server 5s
frontend proxy
	bind 127.0.0.1:8080
	default_backend servers
backend servers
	server one 127.0.0.1:8081
frontend server
	bind 127.0.0.1:8081
	http-request return status 200 content-type text/plain string hello
CONF
haproxy -f /root/haproxy.cfg &
sleep 1
ab -q -n 400 -c 8 -k http://127.0.0.1:8080/
kill $!

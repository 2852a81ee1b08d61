#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# A firewall on the loopback: rules of nf_tables with connection tracking, a set of addresses and counters, as a host's.
#
# Where it is weak: 20 rules, no translation of addresses and no second host.
set -eu

/bin/busybox sh /bin/modules.sh
/bin/busybox ip link set lo up
{
	echo 'table ip filter {'
	echo '	set trusted { type ipv4_addr; elements = { 10.0.0.1, 10.0.0.2, 127.0.0.1 } }'
	echo '	chain input { type filter hook input priority 0; policy accept;'
	echo '		ct state established,related counter accept'
	echo '		ct state invalid counter drop'
	port=1
	while [ "$port" -le 15 ]; do
		echo "		tcp dport $port counter drop"
		port=$((port + 1))
	done
	echo '		ip saddr @trusted counter accept'
	echo '	}'
	echo '	chain output { type filter hook output priority 0; policy accept; ct state new counter accept; }'
	echo '}'
} >/tmp/rules
nft -f /tmp/rules

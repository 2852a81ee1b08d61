#!/usr/bin/env bash
# Measures on hardware what patches/0001-tclassid.patch is about, before and after: each IPv4 packet
# that is received reads tclassid, on the line of the reference count, which each datagram that is
# sent writes. Needs a kernel with CONFIG_IP_ROUTE_CLASSID.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source-path=SCRIPTDIR source=../measure.sh
. ../measure.sh

threads=$((($(nproc) + 1) / 2))
measure dst_entry tclassid ../../../workloads/subsystems/talkers.c -u -s "$threads" -c "$threads" -k 8 -l 20000

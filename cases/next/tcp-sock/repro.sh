#!/usr/bin/env bash
# Measures on hardware what patches/0001-write-rx.patch is about, before and after: each segment that
# is received stores snd_wl1, on the line that sending on the same connection reads. Servers and
# clients have CPUs of their own, so that a socket's packets and its user are on two CPUs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source-path=SCRIPTDIR source=../measure.sh
. ../measure.sh

threads=$((($(nproc) + 1) / 2))
measure tcp_sock snd_wl1 ../../../workloads/subsystems/talkers.c -s "$threads" -c "$threads" -k 16 -l 20000 -p

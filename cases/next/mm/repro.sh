#!/usr/bin/env bash
# Measures on hardware what patches/0001-test.patch is about, before and after: the store to
# lru_gen.bitmap at each switch of tasks takes its line from all CPUs that run threads of the
# process. Needs a kernel with CONFIG_LRU_GEN_WALKS_MMU, and multi-gen LRU on
# (/sys/kernel/mm/lru_gen/enabled).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source-path=SCRIPTDIR source=../measure.sh
. ../measure.sh

threads=$((2 * $(nproc)))
measure mm_struct lru_gen ../../../workloads/subsystems/events.c -o futex -t "$threads" -l 20000

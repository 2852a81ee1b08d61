#!/usr/bin/env bash
# Measures on hardware what patches/0001-halves.patch is about, before and after: each page fault
# writes vm_refcnt, on the line of the high half of the offset, which each fault of an anonymous
# page reads. All threads fault in one mapping.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source-path=SCRIPTDIR source=../measure.sh
. ../measure.sh

measure vm_area_struct __vm_anon_pgoff_hi ../../../workloads/hammer.c -o fault -w "$(nproc)" -l 20000

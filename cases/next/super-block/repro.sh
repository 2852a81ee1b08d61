#!/usr/bin/env bash
# Measures on hardware what patches/0001-apart.patch is about, before and after: each last unlink
# writes s_remove_count, on the line that opening and writing files read. /tmp should be a tmpfs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source-path=SCRIPTDIR source=../measure.sh
. ../measure.sh

measure super_block s_remove_count ../../../workloads/subsystems/files.c -o churn -d /tmp -w "$(nproc)" -l 5000 -p

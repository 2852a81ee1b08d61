#!/usr/bin/env bash
# Measures on hardware what patches/0001-apart.patch is about, before and after: each fork and exit
# writes nr_tasks and the lists of the css_set, on the line of dfl_cgrp, which each switch of tasks
# reads.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source-path=SCRIPTDIR source=../measure.sh
. ../measure.sh

measure css_set dfl_cgrp ../../../workloads/subsystems/births.c -o fork -w "$(nproc)" -l 2000

#!/usr/bin/env bash
# Records the workloads of workloads/subsystems/list, and ranks what linemate would change in the
# kernel over all of them (evidence/findings.md). Resumes after an interruption.
#
#   scripts/survey.sh [OPTION…] [STEP…]     options and steps of sweep/survey.py
#
# From the environment: SURVEY_OUT (target/survey), SWEEP_PROFILE (local, slurm, kubernetes). `scripts/setup.sh sweep` has been run by then.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

make --no-print-directory workloads
out=$(realpath -m "${SURVEY_OUT:-target/survey}")
mkdir -p "$out"
exec 9>"$out/.lock"
flock -n 9 || {
	echo "survey: error: another survey writes into $out: wait for it, or set SURVEY_OUT" >&2
	exit 2
}
exec "${LINEMATE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/linemate}/snakemake/bin/python" sweep/survey.py "$out" "$@"

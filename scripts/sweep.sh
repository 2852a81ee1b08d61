#!/usr/bin/env bash
# Runs a sweep, or renders what one has found (docs/guide/sweep.md).
#
#   scripts/sweep.sh run [MATRIX] [SNAKEMAKE OPTION…]     (default: sweep/sweep.yaml, with the profile `local`)
#   scripts/sweep.sh report [ROWS]                        (ROWS: at most so many of each question in the markdown)
#
# From the environment: SWEEP_OUT (target/sweep), SWEEP_PROFILE (local, slurm, kubernetes). `scripts/setup.sh sweep` has been run by then.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=$(realpath -m "${SWEEP_OUT:-target/sweep}")
profile=${SWEEP_PROFILE:-local}
python=${LINEMATE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/linemate}/snakemake/bin/python
readers=$PWD/target/sweep-venv/bin/python

die() {
	echo "sweep: error: $*" >&2
	exit 2
}

for needed in "$python" "$readers"; do
	[ -x "$needed" ] || die "there is no $needed: run \`scripts/setup.sh sweep\`"
done
case ${1-} in
run)
	matrix=${2:-sweep/sweep.yaml}
	shift "$(($# < 2 ? $# : 2))"
	[ -f "$matrix" ] || die "there is no matrix $matrix"
	[ -d "sweep/profiles/$profile" ] || die "there is no profile $profile"
	mkdir -p "$out"
	# Two sweeps into one folder would record the same cells twice. One that was killed may take a moment to end.
	exec 9>"$out/.lock"
	flock -w 10 9 || die "another sweep writes into $out: wait for it, or set SWEEP_OUT"
	"$python" sweep/cell.py run "$matrix" "$out" "$profile" "$@"
	;;
report)
	[ -f "$out/lake/_schema" ] || die "there are no tables in $out/lake: run \`make sweep\`"
	"$readers" sweep/report.py "$out/lake" "$out/report.md" "$out/report.html" ${2:+"$2"}
	echo "$out/report.md $out/report.html"
	;;
*) die "say run or report" ;;
esac

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
profile=sweep/profiles/${SWEEP_PROFILE:-local}
python=$PWD/target/sweep-venv/bin/python

die() {
	echo "sweep: error: $*" >&2
	exit 2
}

[ -x "$python" ] || die "there is no $python: run \`scripts/setup.sh sweep\`"
case ${1-} in
run)
	matrix=${2:-sweep/sweep.yaml}
	shift "$(($# < 2 ? $# : 2))"
	[ -f "$matrix" ] || die "there is no matrix $matrix"
	[ -d "$profile" ] || die "there is no profile $profile"
	mkdir -p "$out"
	# Two sweeps into one folder would record the same cells twice. One that was killed may take a moment to end.
	exec 9>"$out/.lock"
	flock -w 10 9 || die "another sweep writes into $out: wait for it, or set SWEEP_OUT"
	"$python" sweep/cell.py resolve "$matrix" "$out"
	# Snakemake's own lock is left by a sweep that was killed; the one above is not.
	"$python" -m snakemake --snakefile sweep/Snakefile --profile "$profile" --directory "$out" --nolock --config "out=$out" "$@"
	"$python" sweep/cell.py tidy "$out"
	;;
report)
	[ -f "$out/lake/_schema" ] || die "there are no tables in $out/lake: run \`make sweep\`"
	"$python" sweep/report.py "$out/lake" "$out/report.md" "$out/report.html" ${2:+"$2"}
	echo "$out/report.md $out/report.html"
	;;
*) die "say run or report" ;;
esac

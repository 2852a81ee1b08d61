#!/usr/bin/env bash
# Builds one kernel of 7.3 with the patches of cases/next, lockdep and KASAN, and runs
# cases/next/load.sh on it. Half an hour; resumes after an interruption.
#
#   scripts/check-findings.sh [--races] [PATCH…]      without patches: those that remain
#
# With --races two kernels, without and with the patches, have KCSAN, and what counts are data races
# that only the second one reports. 7.3 has many of its own; which of them a run meets is chance, so
# a race that only one reports is a reason to look, not a proof.
#
# From the environment: LINEMATE (target/release/linemate), CHECK_OUT (target/checks).
#
# Exit code: 0 all passed; 1 a workload failed or the kernel complained, with what it logged, or
# reported a race with the patches alone; 2 no kernel could be built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source-path=SCRIPTDIR source=lib/kernel.sh
. scripts/lib/kernel.sh
# shellcheck source-path=SCRIPTDIR source=lib/source.sh
. scripts/lib/source.sh

die() {
	echo "check-findings: error: $*" >&2
	exit 2
}

races=
if [ "${1-}" = --races ]; then
	races=yes
	shift
fi
linemate=${LINEMATE:-target/release/linemate}
[ -x "$linemate" ] || die "there is no $linemate: run \`make build\`"
out=${CHECK_OUT:-target/checks}
source=$(source_in_cache 7.3) || die "there are no sources of Linux 7.3 in the cache: run \`scripts/setup.sh cases\`"
patches=("$@")
[ $# -gt 0 ] || patches=(cases/next/{vm-area-halves,mm,super-block,css-set,tcp-sock,dst-entry}/patches/*.patch)
programs=()
for program in files events talkers births faults ring hammer; do
	programs+=(--file "target/workloads/$program:/usr/bin/$program")
done

# kernel NAME FRAGMENT… [-- PATCH…]: its image, built if it is not there.
kernel() {
	local name=$1 fragments=()
	shift
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		fragments+=("$1")
		shift
	done
	shift || true
	mkdir -p "$out"
	cat cases/kernel.config cases/next/{subsystems,memory,network}.config "${fragments[@]}" >"$out/$name.config"
	scripts/build-kernel.sh "$source" "$out/$name.config" "$out/$name" "$@" | tail -1
}

# guest IMAGE COMMAND…: under the load of the findings.
guest() {
	local image=$1
	shift
	"$linemate" record --bare --kernel "$image" --smp 4 --memory 3G "${programs[@]}" --file cases/next/load.sh:/usr/bin/findings -- "$@"
}

# The data races that a log reports, one a line: the two functions.
titles() {
	sed -n 's/.*BUG: KCSAN: //p' "$1" | sort -u
}

# In the guest: KCSAN checks more accesses than at boot, which would take too long, until about ten
# races are found.
readonly RACES='echo 200 >/sys/module/kcsan/parameters/skip_watch
for again in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do findings || exit 1; done
exec /bin/busybox dmesg'

check_races() {
	local name image
	image=$(kernel races-without cases/kcsan.config)
	guest "$image" sh -c "$RACES" >"$out/races-without.log"
	image=$(kernel races-with cases/kcsan.config -- "${patches[@]}")
	guest "$image" sh -c "$RACES" >"$out/races-with.log"
	for name in without with; do
		titles "$out/races-$name.log" >"$out/races-$name.txt"
		# No race at all in a kernel that has many: nothing was checked.
		[ -s "$out/races-$name.txt" ] || die "the kernel $name the patches reports no data race: see $out/races-$name.log"
		echo "check-findings: data races reported $name the patches: $(wc -l <"$out/races-$name.txt")"
	done
	comm -13 "$out/races-without.txt" "$out/races-with.txt" >"$out/races-new.txt"
	[ -s "$out/races-new.txt" ] || return 0
	echo "check-findings: only with the patches, from $out/races-with.log:"
	cat "$out/races-new.txt"
	return 1
}

if [ -n "$races" ]; then
	check_races
	exit
fi
image=$(kernel kernel cases/lockdep.config cases/kasan.config -- "${patches[@]}")
guest "$image" cases/checks.sh findings

#!/usr/bin/env bash
# Builds one kernel of 7.3 with the patches of cases/next, lockdep and KASAN, and lets it stand cases/next/load.sh. Half an hour; goes on where it was
# interrupted.
#
#   scripts/check-findings.sh [PATCH…]      without patches: those of each case of cases/next but cred/apart
#
# From the environment: LINEMATE (target/release/linemate), CHECK_OUT (target/checks).
#
# Exit code: 0 all passed; 1 a workload failed or the kernel complained, with what it logged; 2 no kernel could be built.
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

linemate=${LINEMATE:-target/release/linemate}
[ -x "$linemate" ] || die "there is no $linemate: run \`make build\`"
out=${CHECK_OUT:-target/checks}
source=$(source_in_cache 7.3) || die "there are no sources of Linux 7.3 in the cache: run \`scripts/setup.sh cases\`"
patches=("$@")
# cred has two remedies for one problem.
[ $# -gt 0 ] || patches=(cases/next/{super-block,sighand,task,io-worker,vm-area,mm}/patches/*.patch cases/next/cred/patches/0001-test.patch)

mkdir -p "$out"
cat cases/kernel.config cases/next/subsystems.config cases/next/mm/lru-gen.config cases/lockdep.config cases/kasan.config >"$out/config"
image=$(scripts/build-kernel.sh "$source" "$out/config" "$out/kernel" "${patches[@]}" | tail -1)
programs=()
for program in files events talkers births faults ring; do
	programs+=(--file "target/workloads/$program:/usr/bin/$program")
done
exec "$linemate" record --bare --kernel "$image" --smp 4 --memory 3G "${programs[@]}" \
	--file cases/next/load.sh:/usr/bin/findings -- cases/checks.sh findings

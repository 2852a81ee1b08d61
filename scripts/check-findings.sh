#!/usr/bin/env bash
# Builds one kernel of 7.3 with the patches of cases/next, lockdep and KASAN, and lets it stand cases/next/checks.sh. Half an hour; goes on where it was
# interrupted.
#
#   scripts/check-findings.sh [PATCH…]      without patches: those of each case of cases/next but cred/apart
#
# From the environment: LINEMATE (target/release/linemate), CHECK_OUT (target/checks).
#
# Exit code: 0 all passed; 1 a workload failed or the kernel complained, with what it logged; 2 no kernel could be built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

linemate=${LINEMATE:-target/release/linemate}
out=${CHECK_OUT:-target/checks}
source=${XDG_CACHE_HOME:-$HOME/.cache}/linemate/sources/linux-source-7.3
patches=("$@")
# cred has two remedies for one problem.
[ $# -gt 0 ] || patches=(cases/next/{super-block,sighand,task,io-worker,vm-area}/patches/*.patch cases/next/cred/patches/0001-test.patch)

mkdir -p "$out"
cat cases/kernel.config cases/next/subsystems.config cases/lockdep.config cases/kasan.config >"$out/config"
image=$(scripts/build-kernel.sh "$source" "$out/config" "$out/kernel" "${patches[@]}" | tail -1)
programs=()
for program in files events talkers births faults ring; do
	programs+=(--file "target/workloads/$program:/usr/bin/$program")
done
exec "$linemate" record --bare --kernel "$image" --smp 4 --memory 3G "${programs[@]}" -- cases/next/checks.sh

#!/usr/bin/env bash
# Mutation testing: changes one mutant in fifteen of some crates' code, one at a time, and runs the crate's own tests with it. Prints
# each mutant that no test sees. Exits 1 if there is any: evidence/validation.md says which are equivalent.
#
#   scripts/mutants.sh [CRATE...]     (default: attribution session experiment growth study layout replay recording types)
#
# MUTANTS_SHARD=K takes the mutants K, K + 15, K + 30 … of each crate instead of those from 0 on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly SHARDS=15
shard=${MUTANTS_SHARD:-0}
case $shard in
[0-9] | 1[0-4]) ;;
*)
	echo "mutants: MUTANTS_SHARD='$shard' is not a number from 0 to $((SHARDS - 1))" >&2
	exit 2
	;;
esac

crates=("$@")
if [ "${#crates[@]}" -eq 0 ]; then
	crates=(attribution session experiment growth study layout replay recording types)
fi
for crate in "${crates[@]}"; do
	if [ ! -d "crates/$crate" ]; then
		echo "mutants: there is no crate '$crate' in crates/" >&2
		exit 2
	fi
done

if ! cargo mutants --version >/dev/null 2>&1; then
	echo "mutants: installing cargo-mutants"
	cargo install --locked --quiet cargo-mutants
fi

# Only the mutant's crate is compiled for each mutant, so compile fast, not fast code. One directory
# for all copies of the sources.
export CARGO_INCREMENTAL=1
export CARGO_TARGET_DIR=$PWD/target/mutants
logs=target/mutants-logs

# The tests of a crate, without those of layouts that read whole kernels, which take a minute.
tests_of() {
	case $1 in
	layout)
		printf -- '--cargo-test-arg=%s\n' --lib
		for file in crates/layout/tests/*.rs; do
			file=${file##*/}
			[ "$file" = kernel.rs ] || printf -- '--cargo-test-arg=--test=%s\n' "${file%.rs}"
		done
		;;
	*) echo --cargo-test-arg=--tests ;;
	esac
}

# Optimised as far as the tests need it.
level_of() {
	case $1 in
	replay) echo 2 ;;
	recording | types) echo 1 ;;
	*) echo 0 ;;
	esac
}

missed=0
for crate in "${crates[@]}"; do
	mapfile -t tests < <(tests_of "$crate")
	profile=profile.dev.package.linemate-$crate
	mkdir -p "$logs/$crate"
	echo "mutants: $crate"
	cargo mutants --package "linemate-$crate" --shard "$shard/$SHARDS" --sharding round-robin --timeout 60 \
		--output "$logs/$crate" --no-times --colors never \
		--cargo-arg="--config=$profile.opt-level=$(level_of "$crate")" \
		--cargo-arg="--config=$profile.codegen-units=16" "${tests[@]}" || missed=1
done
exit "$missed"

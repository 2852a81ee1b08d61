#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Makes a tree of cgroups with CPU quotas in the guest; a set-up script for `linemate record --setup`. The workers that run
# in its leaves are in cgtree.c, which is given the same folder.
#
# WIDTH children per group, DEPTH levels; every leaf may use QUOTA of each PERIOD (microseconds). Set them in the
# environment or in front of this script; the defaults give 4 x 4 = 16 leaves of half a CPU each.
#
# Where it is weak: every leaf has the same quota, inner groups have none, and nothing but the cpu controller is on.
set -eu

WIDTH=${WIDTH:-4}
DEPTH=${DEPTH:-2}
QUOTA=${QUOTA:-5000}
PERIOD=${PERIOD:-10000}
ROOT=${ROOT:-/cg}

busybox=/bin/busybox

fail() {
	echo "cgtree.sh: $*" >&2
	exit 2
}

for number in "$WIDTH" "$DEPTH" "$QUOTA" "$PERIOD"; do
	case $number in
	'' | *[!0-9]* | 0*) fail "'$number' is not a positive number" ;;
	esac
done

# grow FOLDER LEVELS: in a subshell per level, because sh has no local variables that survive recursion everywhere.
grow() (
	folder=$1
	levels=$2
	if [ "$levels" -eq 0 ]; then
		echo "$QUOTA $PERIOD" >"$folder/cpu.max"
		exit 0
	fi
	echo +cpu >"$folder/cgroup.subtree_control"
	child=1
	while [ "$child" -le "$WIDTH" ]; do
		"$busybox" mkdir "$folder/g$child"
		grow "$folder/g$child" $((levels - 1))
		child=$((child + 1))
	done
)

"$busybox" mkdir -p "$ROOT"
"$busybox" mount -t cgroup2 none "$ROOT" || fail "cannot mount cgroup2 on $ROOT"
echo +cpu >"$ROOT/cgroup.subtree_control"
"$busybox" mkdir "$ROOT/tree"
grow "$ROOT/tree" "$DEPTH"

#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Makes a tree of cgroups with CPU quotas in the guest; a set-up script for `linemate record --setup`. The workers that run
# in its leaves are in cgtree.c, which is given the same folder.
#
# WIDTH children per group, DEPTH levels; every group of level LIMITED (default: the leaves) may use QUOTA of each PERIOD (microseconds). Set them in
# the environment or in front of this script; the defaults give 4 x 4 = 16 leaves of half a CPU each.
#
# Where it is weak: all groups of one level have the same quota and the others none, and nothing but the cpu controller is on.
set -eu

WIDTH=${WIDTH:-4}
DEPTH=${DEPTH:-2}
LIMITED=${LIMITED:-$DEPTH}
QUOTA=${QUOTA:-5000}
PERIOD=${PERIOD:-10000}
ROOT=${ROOT:-/cg}

busybox=/bin/busybox

fail() {
	echo "cgtree.sh: $*" >&2
	exit 2
}

for number in "$WIDTH" "$DEPTH" "$LIMITED" "$QUOTA" "$PERIOD"; do
	case $number in
	'' | *[!0-9]* | 0*) fail "'$number' is not a positive number" ;;
	esac
done

"$busybox" mkdir -p "$ROOT"
"$busybox" mount -t cgroup2 none "$ROOT" || fail "cannot mount cgroup2 on $ROOT"
echo +cpu >"$ROOT/cgroup.subtree_control"
"$busybox" mkdir "$ROOT/tree"

# Level by level, with one call of mkdir for each: a process for each group of a large tree would take longer than what is recorded.
groups=$ROOT/tree
level=0
while [ "$level" -lt "$DEPTH" ]; do
	level=$((level + 1))
	children=
	for group in $groups; do
		echo +cpu >"$group/cgroup.subtree_control"
		child=1
		while [ "$child" -le "$WIDTH" ]; do
			children="$children $group/g$child"
			child=$((child + 1))
		done
	done
	# shellcheck disable=SC2086 # a word for each group
	"$busybox" mkdir $children
	groups=$children
	[ "$level" -eq "$LIMITED" ] || continue
	for group in $groups; do
		echo "$QUOTA $PERIOD" >"$group/cpu.max"
	done
done

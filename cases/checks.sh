#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# What every kernel of the cases has to stand, run in the guest:
#
#   linemate record --bare --kernel IMAGE --smp 8 --file /usr/bin/hackbench -- cases/checks.sh [COMMAND…]
#
# The command, or without one hackbench as processes and as threads; groups made, loaded, throttled, moved between and removed; sessions with an
# autogroup of their own; CPUs taken away and given back under load. Ends with 0 if all of it worked and the kernel logged
# nothing that starts with a warning, a bug or a stall; else prints what it logged.
#
# Where it is weak: minutes of a machine with few CPUs find no rare race.
set -u

busybox=/bin/busybox
root=/sys/fs/cgroup
failures=0

[ -e "$root/cgroup.procs" ] || $busybox mount -t cgroup2 none "$root"

say() {
	echo "checks: $*"
}

failed() {
	say "FAILED: $*"
	failures=$((failures + 1))
}

# put VALUE FILE
put() {
	echo "$1" >"$2" || failed "writing $1 to $2"
}

load() {
	hackbench -g 2 -l "${1:-50}" >/dev/null || failed "hackbench"
}

# A tree of groups with weights and quotas, tasks in its leaves that are moved about, all of it removed again.
storm() {
	round=1
	while [ "$round" -le "$1" ]; do
		top=$root/storm$round
		$busybox mkdir -p "$top"
		put +cpu "$top/cgroup.subtree_control"
		$busybox mkdir "$top/a" "$top/b"
		put +cpu "$top/a/cgroup.subtree_control"
		$busybox mkdir "$top/a/deep"
		put 50 "$top/b/cpu.weight"
		put "2000 5000" "$top/a/deep/cpu.max"
		put "15000 10000" "$top/cpu.max"
		$busybox sh -c "echo \$\$ >$top/a/deep/cgroup.procs; exec hackbench -g 1 -l 30" >/dev/null &
		first=$!
		$busybox sh -c "echo \$\$ >$top/b/cgroup.procs; exec hackbench -T -g 1 -l 30" >/dev/null &
		second=$!
		$busybox usleep 20000
		put "max 5000" "$top/a/deep/cpu.max"
		put 1 "$top/b/cpu.idle"
		# Whoever is still there; a process that ended meanwhile is no failure.
		for pid in $($busybox cat "$top/a/deep/cgroup.procs"); do
			echo "$pid" >"$top/b/cgroup.procs"
		done 2>/dev/null
		put 0 "$top/b/cpu.idle"
		wait "$first" "$second"
		$busybox cat "$top/cpu.stat" "$top/b/cpu.stat" >/dev/null || failed "cpu.stat"
		# The last of the dead leave their group a moment later.
		for folder in "$top/a/deep" "$top/a" "$top/b" "$top"; do
			tries=0
			until $busybox rmdir "$folder" 2>/dev/null; do
				tries=$((tries + 1))
				[ "$tries" -le 100 ] || { failed "removing $folder"; break; }
				$busybox usleep 20000
			done
		done
		round=$((round + 1))
	done
}

autogroups() {
	[ -e /proc/self/autogroup ] || { say "no autogroups in this kernel"; return; }
	for nice in 5 0 -5; do
		# shellcheck disable=SC2016 # the inner shell's
		$busybox setsid $busybox sh -c 'echo "$0" >/proc/self/autogroup; exec hackbench -g 1 -l 30' "$nice" >/dev/null ||
			failed "a session of its own"
	done
}

hotplug() {
	hackbench -g 2 -l 400 >/dev/null &
	running=$!
	$busybox sh -c "echo \$\$ >$root/plug/cgroup.procs; exec hackbench -g 2 -l 200" >/dev/null &
	limited=$!
	for cpu in 1 3 2; do
		file=/sys/devices/system/cpu/cpu$cpu/online
		[ -e "$file" ] || { say "CPU $cpu cannot be taken away"; continue; }
		put 0 "$file"
		$busybox usleep 30000
		put 1 "$file"
	done
	wait "$running" || failed "hackbench beside hotplug"
	wait "$limited" || failed "hackbench under a quota beside hotplug"
}

scheduler() {
	put +cpu "$root/cgroup.subtree_control"
	say "hackbench"
	load 100
	hackbench -T -g 2 -l 50 >/dev/null || failed "hackbench with threads"
	say "groups"
	storm "${ROUNDS:-2}"
	say "autogroups"
	autogroups
	say "hotplug"
	$busybox mkdir -p "$root/plug"
	put "20000 10000" "$root/plug/cpu.max"
	hotplug
	$busybox cat /sys/kernel/debug/sched/debug >/dev/null 2>&1 || true
}

if [ $# -gt 0 ]; then
	"$@" || failed "$*"
else
	scheduler
fi

# What lockdep finds begins with WARNING or INFO; its own name is in the messages of a boot.
bad='WARNING|BUG|INFO: |Oops|Kernel panic|stall|hung task|Call Trace|KASAN|general protection|possible .* deadlock'
if $busybox dmesg | $busybox grep -E "$bad" >/dev/null; then
	failed "the kernel's log:"
	$busybox dmesg | $busybox grep -E -A 30 "$bad"
fi
[ "$failures" -eq 0 ] && say "all passed on $($busybox uname -r)"
exit "$((failures > 0))"

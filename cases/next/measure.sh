# shellcheck shell=bash
# For the repro.sh of a case: measures one struct on the running kernel of a machine with the
# counters that `perf c2c` needs. Needs gcc, perf and pahole; nothing of linemate's but the source of
# the workload.

die() {
	echo "repro: error: $*" >&2
	exit 2
}

# measure TYPE MEMBER SOURCE ARGUMENT…: builds the workload, says where the member lies in this
# kernel, times five runs, and records another with `perf c2c`, into c2c.txt in the folder that the
# script was started in.
measure() {
	local type=$1 member=$2 source=$3 report=$OLDPWD/c2c.txt work program offset run
	shift 3
	[ ! -e "$report" ] || die "$report is there: move it first"
	for program in gcc pahole perf; do
		command -v "$program" >/dev/null || die "there is no $program: install it (Debian: gcc, dwarves, linux-perf)"
	done
	[ -r /sys/kernel/btf/vmlinux ] || die "this kernel has no BTF (CONFIG_DEBUG_INFO_BTF)"
	work=$(mktemp -d)
	# The name is taken now: it is gone when the script ends.
	# shellcheck disable=SC2064
	trap "rm -rf '$work'" EXIT
	gcc -std=gnu11 -O2 -pthread -o "$work/workload" "$source"

	# A member that is a struct without a name has its offset behind the closing brace.
	offset=$(pahole -C "$type" /sys/kernel/btf/vmlinux 2>/dev/null | sed -n "s,.*[ *}] *$member;  */[*] *\([0-9]*\) .*,\1,p" | tail -n 1)
	[ -n "$offset" ] || die "struct $type of $(uname -r) has no member $member: is its option configured?"
	echo "$(uname -r): $type.$member is at offset $offset, in line $((offset / 64)) of 64 bytes at $((offset % 64))"

	echo "seconds of five runs: $*"
	for run in 1 2 3 4 5; do
		TIMEFORMAT=%R
		time "$work/workload" "$@" >/dev/null || die "run $run of the workload failed"
	done
	perf c2c record -a -o "$work/perf.data" -- "$work/workload" "$@" >/dev/null 2>"$work/log" ||
		die "perf c2c record: $(tail -n 1 "$work/log"): it needs a machine with memory sampling (Intel load latency, AMD IBS, Arm SPE), and root"
	perf c2c report -i "$work/perf.data" --stdio -NN --call-graph none 2>/dev/null >"$report"
	echo "$report has the cache lines. Look for accesses at offset $((offset % 64)) of a line, and for who else is on it;"
	echo "then boot the kernel with the patch and do the same again."
}

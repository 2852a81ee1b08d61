#!/usr/bin/env bash
# Finds a cache line that Linux has fixed since, on Debian's 6.12, which is older: threads read one
# file, and `struct file` has its reference count on the line that every read needs. Records it,
# shows where linemate looks first, asks for advice and for the published fix, and writes a page,
# known.html. `make demo-known` has built everything by then. From the environment: CPUS (16).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

linemate=target/release/linemate
kernel=$(scripts/kernel-image.sh 6.12)
cpus=${CPUS:-16}

run() {
	printf '\n$ %s\n' "$*"
	"$@"
}

# The first LINES lines of what a command prints, and the rest in a file.
run_first() {
	local lines=$1 file=$2
	shift 2
	printf '\n$ %s\n' "$*"
	mkdir -p "${file%/*}"
	"$@" >"$file"
	head -n "$lines" "$file"
	echo "(all of it: $file)"
}

run "$linemate" record --kernel "$kernel" --smp "$cpus" -o known.data -- target/workloads/hammer -o pread -w "$cpus" -l 1000
run_first 12 target/demo-known/report.txt "$linemate" report -i known.data --machine gnr-2s-480 --top 5
run_first 14 target/demo-known/advice.txt "$linemate" advise -i known.data --type file --machine gnr-2s-480
# The published fix, commit e249056c91a2: its author measured +1.3 % reads with 16 CPUs, +20.9 % with 128.
run_first 12 target/demo-known/whatif.txt "$linemate" whatif -i known.data --type file -e 'move f_count last' --machine gnr-2s-480
printf '\n$ %s\n' "$linemate report -i known.data --type file --machine gnr-2s-480 --html known.html >/dev/null"
"$linemate" report -i known.data --type file --machine gnr-2s-480 --html known.html >/dev/null

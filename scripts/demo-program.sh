#!/usr/bin/env bash
# Records a small server with the kernel under it, finds which of its fields should not share a
# line, tries the answer by replay, and records the fixed server: the tutorial of
# docs/guide/programs.md. `make demo-program` has built everything by then. The recordings stay in
# kvserver.data and mended.data.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

linemate=target/release/linemate
kernel=$(scripts/kernel-image.sh 6.12)
server=target/demo-program/kvserver

run() {
	printf '\n$ %s\n' "$*"
	"$@"
}

# With a program's usual options, and -g for the names.
cflags=(-std=gnu11 -O2 -g -Wall -Wextra -Werror -pthread)
mkdir -p target/demo-program
run "${CC:-cc}" "${cflags[@]}" -o "$server" workloads/kvserver.c
run "$linemate" record --program --kernel "$kernel" --smp 8 -o kvserver.data -- "$server" -w 4 -n 100
run "$linemate" report -i kvserver.data --top 12
printf '\n$ %s\n' "$linemate advise -i kvserver.data --machine gnr-2s-480 --top 3"
"$linemate" advise -i kvserver.data --machine gnr-2s-480 --top 3 >target/demo-program/advice.txt
sed -n '1,/^2\. /p' target/demo-program/advice.txt | sed '$d'
echo "(more in target/demo-program/advice.txt)"
run "$linemate" report -i kvserver.data --type store --machine gnr-2s-480
# Both mistakes, as the mended server has them mended: each changes how often the other meets.
edit='type store; isolate lookups hits; type worker@kvserver; align requests line'
run "$linemate" whatif -i kvserver.data -e "$edit" --machine gnr-2s-480 --top 5

run "${CC:-cc}" "${cflags[@]}" -DMENDED -o "$server-mended" workloads/kvserver.c
run "$linemate" record --program --kernel "$kernel" --smp 8 -o mended.data -- "$server-mended" -w 4 -n 100
run "$linemate" diff kvserver.data mended.data --type store --machine gnr-2s-480

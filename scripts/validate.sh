#!/usr/bin/env bash
# The replay's figures of evidence/validation.md and evidence/scaling.md, and the patches of advised
# layouts: makes the recordings, replays them, prints markdown on stdout and progress on stderr.
# Counts and cycles of deterministic replays: they are the same on every computer, unless another
# version of linemate made the tables of docs/.
#
# Needs what `make setup`, `make workloads` and a release build leave, and jq; `patches` and
# `others` need what `scripts/setup.sh patches` leaves; `others` also runs padlock if it is there
# (`cargo install padlock-cli`, or PADLOCK=PROGRAM). The first boot of 32 CPUs takes minutes.
# Recordings stay in target/validate and are made again if that folder is removed.
#
# `ablation` replays the recordings of the cases (`linemate case run` caches them, makes what is
# missing, and builds kernels that no distribution has): with all of them it takes hours. CASES="rq
# nohz" selects some.
#
# `known` is evidence/programs.md's: it also runs the programs on this computer, and those times are this computer's.
#
# `size` is evidence/scaling.md's, too: guests of 80 and 480 CPUs.
#
# usage: validate.sh [rq|placements|scaling|growth|patches|exact|others|ablation|known|size]...   (default: all but the last three)
# shellcheck disable=SC2016 # backquotes are markdown here
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly linemate=${LINEMATE:-target/release/linemate}
readonly work=target/validate
readonly edits=scripts/lib/edits
command -v jq >/dev/null || {
	echo "validate: jq is missing (Debian: apt-get install jq)" >&2
	exit 2
}
mkdir -p "$work"

say() {
	echo "validate: $*" >&2
}

# recorded NAME SERIES CPUS ARGUMENT…: makes $work/NAME.data unless it is there; arguments are `record`'s from there on.
recorded() {
	local name=$1 series=$2 cpus=$3
	shift 3
	[ -f "$work/$name.data" ] && return
	say "recording $name: $cpus CPUs, $series"
	"$linemate" record --kernel "$(scripts/kernel-image.sh "$series")" --smp "$cpus" -o "$work/partial.data" "$@" >&2
	mv "$work/partial.data" "$work/$name.data"
}

table() {
	jq -r -L scripts/lib "include \"${3-validate}\"; $1" "$2"
}

rq() {
	recorded sleepers 6.12 8 -- target/workloads/sleepers -m 1 -l 6 -c 64
	say "replaying the published rq layout"
	"$linemate" whatif -i "$work/sleepers.data" --edit "$edits/rq.txt" --machine gnr-2s-480 --machine power11 --json >"$work/rq.json"
	printf '\n## Replay: the published `rq` layout on 6.12\n'
	table rq_table "$work/rq.json"
}

placements() {
	local name
	recorded onegroup 6.1 16 --setup workloads/onegroup.sh --file target/workloads/sleepers:/bin/sleepers \
		-- sh -c 'echo $$ >/cg/one/cgroup.procs; exec /bin/sleepers -m 1 -l 5 -c 192'
	for name in separate common reuse original; do
		say "replaying load_avg: $name"
		"$linemate" whatif -i "$work/onegroup.data" --edit "$edits/load_avg-$name.txt" --machine westmere-4s-80 --json >"$work/$name.json"
	done
	printf '\n## Replay: four placements of `load_avg` on 6.1\n\n'
	printf '| placement | published, %% CPU | cost of `task_group`, million cycles | ±, 95 %% |\n|---|---|---|---|\n'
	table 'placement_row("lines of their own, value reused"; 0.55)' "$work/separate.json"
	table 'placement_row("one common line, value reused"; 1.01)' "$work/common.json"
	table 'placement_row("value reused"; 1.06)' "$work/reuse.json"
	table 'placement_row("as in Linux 3.13"; 1.22)' "$work/original.json"
	table 'as_recorded_row' "$work/original.json"
}

# compare NAME FROM TO GROUPS SERIES…: the recording of NAME with FROM CPUs as TO, with what SERIES show of growth, compared with
# the recording of TO; a table row. GROUPS: as the guests' domains are.
compare() {
	local name=$1 from=$2 to=$3 groups=phases,locks,$4 cpus files=() with=()
	shift 4
	for cpus; do
		files+=("$work/$name-$cpus.data")
	done
	[ $# = 0 ] || with=(--series "$(IFS=,; echo "${files[*]}")")
	say "replaying $from CPUs of $name as $to, series: $*"
	"$linemate" diff "$work/$name-$from.data" "$work/$name-$to.data" --machine gnr-2s-480 --cpus "$to" --groups "$groups" \
		"${with[@]}" --json >"$work/scaling.json"
	table "scaling_row(\"${name%-2s}\"; $from; $to; \"$*\")" "$work/scaling.json"
}

scaling() {
	local name to
	series 4 8 16 32 64
	printf '\n## More CPUs: the 20 fields with the most sharing cost\n\n'
	table scaling_head <(echo 0)
	for to in 32 64; do
		for name in sleepers hackbench rtpinned; do
			compare "$name" 8 "$to" flat 4 8 16
		done
	done
	two_sockets 8 16 32 128
	for name in sleepers-2s hackbench-2s; do
		compare "$name" 8 32 domains
		compare "$name" 32 128 domains
		compare "$name" 8 128 domains
		compare "$name" 32 128 domains 8 16 32
		compare "$name" 8 128 domains 8 16 32
	done
	asleep_2s 3G 24
	asleep_2s 4G 240
	compare sleepers-2s 24 240 domains
	compare sleepers-2s 8 240 domains
	compare sleepers 8 32 flat 4 8 16 >/dev/null
	table 'scaling_fields' "$work/scaling.json"
	compare sleepers-2s 32 128 domains >/dev/null
	table 'scaling_fields' "$work/scaling.json"
}

readonly guest_2s=(--sockets 2 --numa 2 --threads 2 --append numa_balancing=disable)

# two_sockets CPUS…: guests with sockets and NUMA nodes, whose scheduling domains are those of the machine; sleeps are as long as
# the CPUs are many, because these share one clock.
two_sockets() {
	local cpus
	asleep_2s 3G "$@"
	for cpus; do
		recorded "hackbench-2s-$cpus" 6.12 "$cpus" "${guest_2s[@]}" --memory 3G -- hackbench -f 2 -g $((cpus / 4)) -l 20
	done
}

# asleep_2s MEMORY CPUS…: the sleepers of those guests.
asleep_2s() {
	local cpus memory=$1
	shift
	for cpus; do
		recorded "sleepers-2s-$cpus" 6.12 "$cpus" "${guest_2s[@]}" --memory "$memory" -- target/workloads/sleepers -m "$cpus" -l 0 -c $((10 * cpus))
	done
}

# series CPUS…: three workloads that give each CPU the same work.
series() {
	local cpus
	for cpus; do
		recorded "rtpinned-$cpus" 6.12 "$cpus" --setup workloads/rtpush.sh -- target/workloads/rtpinned -g $((cpus / 4)) -p 4 -t 8 -i 20
		recorded "hackbench-$cpus" 6.12 "$cpus" -- hackbench -f 2 -g $((cpus / 4)) -l 50
		[ "$cpus" = 48 ] || recorded "sleepers-$cpus" 6.12 "$cpus" -- target/workloads/sleepers -m 4 -l 5 -c $((4 * cpus))
	done
}

# grown NAME TO CPUS...: what the recordings of NAME with these CPUs predict for the one with TO; table rows.
grown() {
	local name=$1 to=$2 by cpus files=()
	shift 2
	for cpus; do
		files+=("$work/$name-$cpus.data")
	done
	for by in field access; do
		say "$name: fitting $*, predicting $to by $by"
		"$linemate" growth "${files[@]}" --by "$by" --cpus "$to" --against "$work/$name-$to.data" --json >"$work/growth.json"
		table "growth_row(\"$name\"; \"$*\")" "$work/growth.json"
	done
}

growth() {
	local name
	series 4 8 16 32 48 64
	printf '\n## Growth: counts predicted for recordings that the series does not have\n\n'
	table growth_head <(echo 0)
	for name in hackbench rtpinned sleepers; do
		grown "$name" 32 4 8 16
		grown "$name" 64 4 8 16
		grown "$name" 64 4 8 16 32
	done
	for name in hackbench rtpinned; do
		grown "$name" 48 4 8 16 32
	done
}

# cached KIND NAME: the one entry of that name (a glob) in the cache's folder KIND.
cached() {
	local found
	found=$(find "${LINEMATE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/linemate}/$1" -mindepth 1 -maxdepth 1 -name "$2" 2>/dev/null |
		sort -V | tail -n 1)
	[ -n "$found" ] || {
		echo "validate: there is no $1/$2 in the cache folder: run scripts/setup.sh patches" >&2
		exit 2
	}
	echo "$found"
}

# advised TYPE RECORDING MACHINE [OPTION OF patch]...: advises a layout, makes it a patch, runs
# checkpatch.pl on it; a table row.
advised() {
	local type=$1 recording=$2 machine=$3 patch=$work/$1.patch tree remarks
	shift 3
	tree=$(cached sources linux-source-6.12)
	say "advising on $type"
	"$linemate" advise -i "$work/$recording.data" --type "$type" --machine "$machine" --trials 0 -o "$work/$type.edit" --json >"$work/$type.json"
	"$linemate" patch -i "$work/$recording.data" --edit "$work/$type.edit" --source "$tree" \
		--config "$(cached headers 'linux-headers-6.12.*-cloud-amd64')" --config "$(cached headers 'linux-headers-6.12.*-rt-amd64')" \
		--signoff --author 'A U Thor <author@example.org>' "$@" -o "$patch"
	# It leaves a list of names where it is run.
	if remarks=$(cd "$work" && perl "$tree/scripts/checkpatch.pl" --root="$tree" --strict --terse "$type.patch"); then
		remarks=clean
	else
		remarks=$(grep -oE '[0-9]+ errors.*checks' <<<"$remarks")
	fi
	jq -r -L scripts/lib --arg type "$type" --arg recording "$recording" --arg remarks "$remarks" \
		--argjson added "$(body "$patch" | grep -c '^+')" --argjson removed "$(body "$patch" | grep -c '^-')" \
		'include "validate"; advised_row($type; $recording; $remarks; $added; $removed)' "$work/$type.json"
}

# The changed and the unchanged lines of a patch, without the heads of its files.
body() {
	awk '/^diff /, /^-- $/' "$1" | grep -vE '^(\+\+\+|---|-- )'
}

# The recordings in which the four structs are hot.
recorded_for_patches() {
	recorded sleepers 6.12 8 -- target/workloads/sleepers -m 1 -l 6 -c 64
	recorded rtpinned 6.12 16 --setup workloads/rtpush.sh -- target/workloads/rtpinned -g 4 -p 4 -t 8 -i 20
	recorded cgtree 6.12 8 --setup workloads/cgtree.sh -- target/workloads/cgtree -w 1 -i 8 /cg/tree
}

patches() {
	recorded_for_patches
	printf '\n## Patches of advised layouts\n\n'
	table advised_head <(echo 0)
	advised rq sleepers gnr-2s-480 --reword 'Ensure that all clocks are in the same cache line='
	advised cfs_rq sleepers gnr-2s-480
	advised root_domain rtpinned hcc-2s-480
	advised task_group cgtree gnr-2s-480
}

# listed SERIES: the edits of that kernel, each in a file of $work/exact: those of scripts/lib/edits and those of docs/reference/edits.md.
listed() {
	local series=$1 overloaded=overloaded
	awk -v RS= -v to="$work/exact/$series" 'NR > 1 { file = sprintf("%s-%02d.edit", to, NR - 1); print >file; close(file) }' \
		"$edits/linux-$series.txt"
	# 6.1 has another name for the field, and its rq is in the list.
	[ "$series" = 6.12 ] || overloaded=overload
	published root_domain | sed "s/overloaded/$overloaded/" >"$work/exact/$series-root_domain.edit"
	[ "$series" != 6.12 ] || published rq >"$work/exact/$series-rq.edit"
}

# published TYPE: the edit that docs/reference/edits.md has under the type's name.
published() {
	awk -v head="## \`struct $1\`" 'index($0, head) == 1 { found = 1 } found && /^```/ { if (inside) exit; inside = 1; next } inside' docs/reference/edits.md
}

# compared SERIES EDIT: with the cached stream and with --exact, on the first recording that has
# accesses to the type; a row.
compared() {
	local series=$1 edit=$2 name recording
	name=$(basename "$edit" .edit)
	for recording in few chat; do
		local ask=(whatif -i "$work/$recording-$series.data" --edit "$edit" --machine gnr-2s-480 --all-interleavings --json)
		LINEMATE_CACHE=$PWD/$work/cache "$linemate" "${ask[@]}" >"$work/exact/$name.json" 2>"$work/exact/$name.why" || continue
		say "$name on $recording, exactly"
		"$linemate" "${ask[@]}" --exact --no-cache >"$work/exact/exact.json"
		jq -c -L scripts/lib --arg series "$series" --arg recording "$recording" --slurpfile exact "$work/exact/exact.json" \
			'include "validate"; exactness($series; $recording; $exact[0].results[0])' "$work/exact/$name.json" >>"$work/exact/rows"
		return
	done
	say "$name: $(cat "$work/exact/$name.why")"
	printf '{"refused": "%s"}\n' "$name" >>"$work/exact/rows"
}

exact() {
	local series edit
	rm -rf "$work/exact"
	mkdir -p "$work/exact"
	for series in 6.1 6.12; do
		recorded "few-$series" "$series" 8 -- target/workloads/sleepers -m 1 -l 2 -c 16
		recorded "chat-$series" "$series" 8 -- hackbench -g 1 -l 20
		listed "$series"
		for edit in "$work/exact/$series"-*.edit; do
			compared "$series" "$edit"
		done
	done
	printf '\n## Edits with the kept stream and with --exact\n\n'
	jq -r -s -L scripts/lib 'include "validate"; exact_table' "$work/exact/rows"
}

# ordered TYPE: an edit that gives the members of TYPE the order on stdin.
ordered() {
	local type=$1 names
	mapfile -t names
	printf 'type %s\nmove %s first\norder %s\n' "$type" "${names[0]}" "${names[*]}"
}

# members FILE: the members of the struct that pahole has printed into it.
members() {
	awk -f scripts/lib/order.awk "$1"
}

# proposed TYPE WHO RECORDING: the order of TYPE's members that WHO proposes, one to a line; of unions and structs without a name the first
# name in them.
proposed() {
	local type=$1 who=$2 recording=$3
	case $who in
	pahole) pahole -F btf -C "$type" --reorganize "$work/vmlinux" | members /dev/stdin ;;
	padlock) "$padlock" bpf --json -F "^$type\$" "$work/vmlinux" 2>/dev/null |
		jq -r -L scripts/lib --rawfile names "$work/$type.members" 'include "others"; padlock_order($names)' ;;
	heat) "$linemate" layout "$type" -i "$work/$recording.data" --json |
		jq -r -L scripts/lib --rawfile names "$work/$type.members" 'include "others"; by_heat($names)' ;;
	esac
}

# other TYPE RECORDING MACHINE: what each of the others proposes for TYPE, replayed; table rows.
other() {
	local type=$1 recording=$2 machine=$3 who
	pahole -F btf -C "$type" "$work/vmlinux" | members /dev/stdin >"$work/$type.members"
	for who in pahole ${padlock:+padlock} heat; do
		say "replaying the order of $type that $who gives"
		proposed "$type" "$who" "$recording" | ordered "$type" >"$work/$type-$who.edit"
		"$linemate" whatif -i "$work/$recording.data" --edit "$work/$type-$who.edit" --machine "$machine" --json >"$work/$type-$who.json"
		jq -r -L scripts/lib --arg who "$who" 'include "others"; other_row($who)' "$work/$type-$who.json"
	done
	"$linemate" advise -i "$work/$recording.data" --type "$type" --machine "$machine" --trials 0 --json >"$work/$type-advise.json"
	jq -r -L scripts/lib 'include "others"; advise_row' "$work/$type-advise.json"
}

others() {
	local tree
	tree=$(cached sources linux-source-6.12)
	padlock=${PADLOCK:-$(command -v padlock || true)}
	[ -n "$padlock" ] || say "without padlock: cargo install padlock-cli"
	recorded_for_patches
	sh "$tree/scripts/extract-vmlinux" "$(scripts/kernel-image.sh 6.12)" >"$work/vmlinux"
	printf '\n## What others propose\n\n'
	printf '| struct | order | bytes | lines | cost of the type | of everything | |\n|---|---|---|---|---|---|---|\n'
	other rq sleepers gnr-2s-480
	other cfs_rq sleepers gnr-2s-480
	other root_domain rtpinned hcc-2s-480
	other task_group cgtree gnr-2s-480
}

# asked NAME RECORDING MACHINE EDIT [OPTION of whatif]...: $work/NAME.json.
asked() {
	local name=$1 recording=$2 machine=$3 edit=$4
	shift 4
	say "asking $recording about $edit"
	"$linemate" whatif -i "$work/$recording.data" --edit "$edit" --machine "$machine" "$@" --json >"$work/$name.json"
}

# The published works on as many CPUs as were published, each of them recorded. The first guest of 480 CPUs boots for a quarter
# of an hour; the recordings take 400 MB, and the questions half an hour.
size() {
	local name boot=(--memory 6G --sockets 2 --numa 2 --threads 2 --append numa_balancing=disable)
	recorded size-rq 6.12 480 "${boot[@]}" --setup workloads/asleep.sh --file target/workloads/sleepers:/bin/sleepers -- sleep 1
	asked size-rq size-rq gnr-2s-480 cases/rq/edits/published.txt --under sched_balance_rq
	recorded size-tg 6.1 80 --sockets 4 --numa 4 --threads 2 --memory 3G --append 'slab_nomerge numa_balancing=disable' \
		--setup workloads/onegroup.sh --file target/workloads/aimix:/bin/aimix \
		-- sh -c 'echo $$ >/cg/one/cgroup.procs; exec /bin/aimix -u 240 -j 10 -s 40'
	for name in original reuse common separate; do
		asked "size-tg-$name" size-tg westmere-4s-80 "cases/tg-load-avg/edits/$name.txt"
	done
	recorded size-nohz 6.12 480 "${boot[@]}" --setup workloads/talking.sh --file "$(command -v hackbench):/bin/hackbench" -- sleep 0.3
	asked size-nohz size-nohz gnr-2s-480 cases/nohz/edits/no-counter.txt
	recorded size-root 6.12 480 "${boot[@]}" --setup workloads/rtpush.sh -- target/workloads/rtpinned -g 60 -p 8 -t 16 -i 4
	"$linemate" report -i "$work/size-root.data" --type root_domain --machine hcc-2s-480 --json >"$work/size-root-fields.json"
	asked size-root size-root hcc-2s-480 cases/root-domain/edits/published.txt
	size_tables
}

size_tables() {
	local name placements=()
	for name in original reuse common separate; do
		placements+=("$work/size-tg-$name.json")
	done
	printf '\n## Published works at their size\n\n| work 1 | published | 480 recorded |\n|---|---|---|\n'
	table rq_rows "$work/size-rq.json" size
	printf '\n| work 4, placement | cost of the type, million cycles | against 6.1 | against original |\n|---|---|---|---|\n'
	jq -r -s -L scripts/lib 'include "size"; tg_rows(["original", "reuse", "common", "separate"])' "${placements[@]}"
	printf '\n| work 5 | million cycles | change |\n|---|---|---|\n'
	table nohz_rows "$work/size-nohz.json" size
	printf '\n| work 3, line, offset | field | published remote HITM | HITM | cycles per load | published |\n|---|---|---|---|---|---|\n'
	table root_rows "$work/size-root-fields.json" size
	table root_correlation "$work/size-root-fields.json" size
	table root_change "$work/size-root.json" size
}

# ablated CASE CONDITION OPTION…: predictions for a case under these options; rows of
# $work/ablation/rows.
ablated() {
	local case=$1 condition=$2 folder=$work/ablation/${1//\//-}-$2
	shift 2
	say "$case, $condition"
	if ! "$linemate" case run "cases/$case" --predict --output "$folder" "$@" 2>"$work/ablation/log"; then
		# Not every machine has every mechanism.
		grep -q 'none of its machines has them' "$work/ablation/log" || {
			cat "$work/ablation/log" >&2
			exit 2
		}
		return 0
	fi
	jq -c -L scripts/lib --arg condition "$condition" 'include "validate"; ablation_rows($condition)' "$folder/results.json" >>"$work/ablation/rows"
}

ablation() {
	local case share wanted
	mkdir -p "$work/ablation"
	rm -f "$work/ablation/rows"
	read -ra wanted <<<"${CASES:-$(find cases -name case.toml -printf '%P\n' | sed 's,/case.toml$,,' | sort | tr '\n' ' ')}"
	for case in "${wanted[@]}"; do
		share=--llc-share
		! grep -q '^llc_share = true' "cases/$case/case.toml" || share=--llc-share=false
		ablated "$case" pairs
		ablated "$case" cold --cold
		ablated "$case" none --mechanisms none
		ablated "$case" streamer --mechanisms l2_streamer
		ablated "$case" stride --mechanisms l1_stride
		ablated "$case" overlap --mechanisms overlap
		ablated "$case" share "$share"
	done
	printf '\n## Each mechanism alone\n\n'
	jq -r -s -L scripts/lib 'include "validate"; ablation_table' "$work/ablation/rows"
}

# built SOURCE: a program of workloads/known, and with its fix as NAME.fixed, in $work/known.
built() {
	local source=workloads/known/$1 name
	name=$work/known/$(basename "${1%.*}")
	case $source in
	*.rs)
		rustc --edition 2024 -C opt-level=2 -g -o "$name" "$source"
		rustc --edition 2024 -C opt-level=2 -g --cfg fixed -o "$name.fixed" "$source"
		;;
	*.cpp)
		c++ -std=c++17 -O2 -g -pthread -o "$name" "$source"
		c++ -std=c++17 -O2 -g -pthread -DFIXED -o "$name.fixed" "$source"
		;;
	*)
		cc -std=gnu11 -O2 -g -pthread -o "$name" "$source"
		cc -std=gnu11 -O2 -g -pthread -DFIXED -o "$name.fixed" "$source"
		;;
	esac
}

# elapsed PROGRAM ARGUMENT…: microseconds.
elapsed() {
	local start=${EPOCHREALTIME/./}
	"$@" >/dev/null
	echo $((${EPOCHREALTIME/./} - start))
}

# really NAME: with two threads on this computer, the time of the program with the fix as per cent of the one without: of 9 pairs of runs that take turns,
# the median, the least and the most.
really() {
	local program=$work/known/$1 rounds=1000 with without
	while [ "$(elapsed "$program" "$rounds" 2)" -lt 500000 ]; do
		rounds=$((2 * rounds))
	done
	for _ in {1..9}; do
		without=$(elapsed "$program" "$rounds" 2)
		with=$(elapsed "$program.fixed" "$rounds" 2)
		echo $((1000 * with / without))
	done | sort -n | jq -rs '"\(.[4] / 10) % (\(.[0] / 10) to \(.[8] / 10))"'
}

# replayed NAME: what it costs as recorded, under four interleavings, one document for each.
replayed() {
	local seed
	for seed in 1 2 3 4; do
		"$linemate" report -i "$work/$1.data" --machine gnr-2s-480 --seed "$seed" --json
	done
}

# case_of SOURCE FOUND EDIT: a table row.
case_of() {
	local source=$1 found=$2 edit=$3 name type=$2 ask=()
	name=$(basename "${source%.*}")
	built "$source"
	recorded "$name" 6.12 4 --program -- "$work/known/$name"
	recorded "$name.fixed" 6.12 4 --program -- "$work/known/$name.fixed"
	say "replaying $name"
	replayed "$name" >"$work/known/before.json"
	replayed "$name.fixed" >"$work/known/after.json"
	echo '{"results": []}' >"$work/known/whatif.json"
	if [ "$edit" != - ]; then
		# What an Arc counts is inside what the recording finds.
		[[ $type != alloc::sync::ArcInner* ]] || type=${type#*<} type=${type%>}
		[[ $edit == base-align* ]] || ask+=(--type "$type")
		while read -r statement; do
			ask+=(-e "$statement")
		done <<<"${edit//; /$'\n'}"
		"$linemate" whatif -i "$work/$name.data" "${ask[@]}" --machine gnr-2s-480 --machine turin-2s --json >"$work/known/whatif.json"
	fi
	jq -nr -L scripts/lib --arg name "$name" --arg language "${source##*.}" --arg found "$found" --arg edit "$edit" --arg real "$(really "$name")" \
		--slurpfile whatif "$work/known/whatif.json" --slurpfile before "$work/known/before.json" --slurpfile after "$work/known/after.json" \
		'include "known"; case_row'
}

# control_of SOURCE TYPE: a table row.
control_of() {
	local source=$1 type=$2 name
	name=$(basename "${source%.*}")
	built "$source"
	recorded "$name" 6.12 4 --program -- "$work/known/$name"
	say "advising on $name"
	"$linemate" advise -i "$work/$name.data" --type "$type" --machine gnr-2s-480 --trials 4 --json |
		jq -r -L scripts/lib --arg name "$name" 'include "known"; control_row'
}

# listed_in FILE: its lines without comments.
listed_in() {
	grep -v '^#' "workloads/known/$1"
}

known() {
	local source found edit
	mkdir -p "$work/known"
	printf '\n## Known cases of false sharing in programs\n\n'
	table case_head <(echo 0) known
	while IFS=$'\t' read -r source found edit <&3; do
		case_of "$source" "$found" "$edit"
	done 3< <(listed_in cases.list)
	printf '\n## Controls\n\n'
	table control_head <(echo 0) known
	while IFS=$'\t' read -r source found <&3; do
		control_of "$source" "$found"
	done 3< <(listed_in controls.list)
}

[ $# -gt 0 ] || set -- rq placements scaling growth patches exact others
for part; do
	case $part in
	rq | placements | scaling | growth | patches | exact | others | ablation | known | size) "$part" ;;
	*)
		echo "validate: no such part: $part (rq, placements, scaling, growth, patches, exact, others, ablation, known, size)" >&2
		exit 2
		;;
	esac
done

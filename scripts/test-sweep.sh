#!/usr/bin/env bash
# Tests of the tables and the sweep, after `make build` and `scripts/setup.sh sweep`.
#
#   scripts/test-sweep.sh [readers|python|survey|spark|killed|slurm|regression]     (default: readers)
#
#   readers   DuckDB, pandas and Polars see the totals of --json, and the queries answer as they should
#   python    the module in python/ on the same recording and tables: its types by mypy, its tests, its notebook; readers ends with it
#   survey    the workflow with commands of the shell, the survey's ranking on made-up documents, and that two of its workloads are recorded, once (boots a guest)
#   spark     so does Spark; needs Java
#   killed    a small matrix that was killed twice and run again has the bytes of one that was not (minutes: it boots guests)
#   slurm     the same matrix on Slurm, a controller and two node daemons of this machine, has the bytes of one without; needs root, slurm-wlm and munge
#   regression  a kernel with a hot counter beside what is mostly read is built and swept beside one without, and the query finds that
#             alone (an hour, kept in target/; after `scripts/setup.sh cases`, too)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cache=${LINEMATE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/linemate}
readers=target/sweep-venv/bin/python
python=$cache/snakemake/bin/python
linemate=$PWD/target/release/linemate
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "test-sweep: error: $*" >&2
	exit 1
}


# A recording in the tables, a replay of it and a what-if; twice, so that nothing is there twice. And the documents.
make_tables() {
	local data=$work/small.data lake=$work/lake kernel before
	kernel=$(scripts/kernel-image.sh debian:6.12)
	"$linemate" record --kernel "$kernel" --smp 2 --memory 512M -o "$data" -- \
		target/workloads/sleepers -m 1 -l 2 -c 4 >"$work/log" 2>&1 || fail "record: $(tail -n 1 "$work/log")"
	export_all "$data" "$lake"
	before=$(tree_digest "$lake")
	export_all "$data" "$lake"
	[ "$(tree_digest "$lake")" = "$before" ] || fail "an export of the same run changes the tables"
	[ "$(find "$lake/runs" -name '*.parquet' | wc -l)" = 3 ] || fail "three exports gave $(find "$lake/runs" -name '*.parquet' | wc -l) runs"
	"$linemate" report "$data" --json --all --top 1000000 >"$work/report.json"
	"$linemate" report "$data" --json --machine spr-w-48 >"$work/costs.json"
}

# export_all RECORDING FOLDER
export_all() {
	local base=("$linemate" export "$1" --parquet "$2" --workload "a name/with=signs %")
	{
		"${base[@]}" --lines &&
			"${base[@]}" --machine spr-w-48 --lines &&
			"${base[@]}" --machine spr-w-48 --type rq -e 'isolate __lock'
	} 2>"$work/log" || fail "export: $(tail -n 1 "$work/log")"
}

# All files of a folder that are not hidden, with their digests.
tree_digest() {
	(cd "$1" && find . -name '.*' ! -name . -prune -o -type f -print0 | sort -z | xargs -0 sha256sum)
}

# The module in python/ as a user installs it. flit_core is there, so that pip asks no network.
test_python() {
	"$readers" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --force-reinstall ./python ||
		fail "pip cannot install ./python"
	(cd python && "$OLDPWD/$readers" -m mypy src tests) || fail "the types of python/"
	LINEMATE=$linemate RECORDING=$work/small.data LAKE=$work/lake "$readers" -m unittest discover --start-directory python/tests ||
		fail "the tests of python/"
}

# The survey: what it makes of documents, and of two small workloads.
survey() {
	local before
	"$python" sweep/tests/steps.py || fail "the workflow"
	"$python" sweep/tests/survey.py || fail "the survey's ranking"
	printf '%s\n' 'talk | | | 512M | talkers -s 2 -c 2 -k 2 -l 3' 'born | | | 512M | births -o thread -w 2 -l 3' 'never | | | 512M | births -o nothing' >"$work/list"
	survey_small
	[ "$(find "$work/survey/recordings" -name '*.data' | wc -l)" = 2 ] || fail "two workloads gave $(ls "$work/survey/recordings")"
	grep -q '^| never | .*usage: births' "$work/survey/ranking.md" || fail "a workload that fails is not told"
	before=$(tree_digest "$work/survey")
	survey_small
	[ "$(tree_digest "$work/survey")" = "$before" ] || fail "a survey that goes on changes what was there"
	! grep -q 'survey: record' "$work/log" || fail "a recording that is there is made again"
}

survey_small() {
	"$python" sweep/survey.py "$work/survey" record rank --kernel "$(scripts/kernel-image.sh debian:6.12)" --smp 2 --list "$work/list" \
		--linemate "$linemate" 2>"$work/log" || fail "survey: $(tail -n 1 "$work/log")"
}

# wait_for_some FOLDER NUMBER: that many files are in it, or the sweep has ended.
wait_for_some() {
	while kill -0 "$sweep" 2>/dev/null && [ "$(find "$1" -type f 2>/dev/null | wc -l)" -lt "$2" ]; do
		sleep 0.2
	done
}

# In a process group of its own, which is killed with all that it has started.
start_sweep() {
	set -m
	SWEEP_OUT=$1 scripts/sweep.sh run sweep/tests/small.yaml >"$work/log" 2>&1 &
	sweep=$!
	set +m
}

killed() {
	local round recorded
	for round in 2 5; do
		start_sweep "$work/killed"
		wait_for_some "$work/killed/recordings" "$round"
		sleep "0.$((RANDOM % 10))"
		kill -KILL -- "-$sweep" 2>/dev/null || fail "the sweep ended before it was killed: $(tail -n 3 "$work/log")"
		wait "$sweep" 2>/dev/null || true
		recorded=$(stat -c '%n %Y' "$work"/killed/recordings/*.data 2>/dev/null || true)
	done
	SWEEP_OUT=$work/killed scripts/sweep.sh run sweep/tests/small.yaml >"$work/log" 2>&1 || fail "$(tail -n 3 "$work/log")"
	while read -r name time; do
		[ -z "$name" ] || [ "$(stat -c %Y "$name")" = "$time" ] || fail "$name was whole and is made again"
	done <<<"$recorded"
	SWEEP_OUT=$work/whole scripts/sweep.sh run sweep/tests/small.yaml >"$work/log" 2>&1 || fail "$(tail -n 3 "$work/log")"
	[ "$(tree_digest "$work/whole/lake" | wc -l)" -gt 20 ] || fail "there are no tables"
	diff <(tree_digest "$work/killed/lake") <(tree_digest "$work/whole/lake") >"$work/log" || fail "a sweep that was killed differs: $(head -n 3 "$work/log")"
	SWEEP_OUT=$work/whole scripts/sweep.sh report >/dev/null
	grep -q 'no suite of this machine.s Debian archive has a kernel debian:0.1' "$work/whole/report.md" || fail "a kernel that there is not is not told"
	echo "test-sweep: $(tree_digest "$work/whole/lake" | wc -l) files are the same after two kills"
}

# Slurm of two nodes, in namespaces of its own: its configuration is at the default path of jobs,
# and its daemons end with it.
start_slurm() {
	local host folder=$work/slurm
	host=$(hostname -s)
	mkdir -p "$folder"/{state,spool-one,spool-two}
	chmod 755 "$work" "$folder"
	mount -t tmpfs none /etc/slurm
	cat >/etc/slurm/slurm.conf <<-END
		ClusterName=sweep
		SlurmctldHost=$host(127.0.0.1)
		SlurmUser=root
		AuthInfo=socket=$folder/munge.socket
		SlurmctldPort=16817
		StateSaveLocation=$folder/state
		SlurmdSpoolDir=$folder/spool-%n
		SlurmctldPidFile=$folder/slurmctld.pid
		SlurmdPidFile=$folder/slurmd-%n.pid
		SlurmctldLogFile=$folder/slurmctld.log
		SlurmdLogFile=$folder/slurmd-%n.log
		ProctrackType=proctrack/linuxproc
		SelectType=select/cons_tres
		SelectTypeParameters=CR_Core_Memory
		MinJobAge=600
		NodeName=one NodeHostname=$host NodeAddr=127.0.0.1 Port=17001 CPUs=2 RealMemory=4000
		NodeName=two NodeHostname=$host NodeAddr=127.0.0.1 Port=17002 CPUs=2 RealMemory=4000
		PartitionName=all Nodes=one,two Default=YES State=UP
	END
	(umask 077 && head -c 1024 /dev/urandom >"$folder/munge.key")
	munged --force --socket="$folder/munge.socket" --key-file="$folder/munge.key" --pid-file="$folder/munged.pid" \
		--seed-file="$folder/munge.seed" --log-file="$folder/munged.log"
	slurmctld
	slurmd -N one
	slurmd -N two
	for _ in {1..60}; do
		[ "$(sinfo -h -t idle -o %D 2>/dev/null)" != 2 ] || return 0
		sleep 1
	done
	fail "Slurm's nodes do not start: $(tail -n 1 "$folder"/slurmd-one.log)"
}

slurm() {
	start_slurm
	SWEEP_PROFILE=slurm SWEEP_OUT=$work/slurm-sweep scripts/sweep.sh run sweep/tests/small.yaml --slurm-status-command squeue --slurm-no-account \
		--slurm-init-seconds-before-status-checks 5 >"$work/log" 2>&1 || fail "$(tail -n 3 "$work/log")"
	SWEEP_OUT=$work/whole scripts/sweep.sh run sweep/tests/small.yaml >"$work/log" 2>&1 || fail "$(tail -n 3 "$work/log")"
	[ "$(tree_digest "$work/whole/lake" | wc -l)" -gt 20 ] || fail "there are no tables"
	diff <(tree_digest "$work/slurm-sweep/lake") <(tree_digest "$work/whole/lake") >"$work/log" || fail "a sweep on Slurm differs: $(head -n 3 "$work/log")"
	echo "test-sweep: $(tree_digest "$work/whole/lake" | wc -l) files are the same on Slurm"
}

# one_kernel NAME [OPTION…] -- [PATCH…]: an image that is the same as before keeps its time and its place.
one_kernel() {
	local name=$1 options=() image
	shift
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	image=$(scripts/build-kernel.sh "${options[@]}" "$cache/sources/linux-source-6.12" cases/kernel.config \
		"target/sweep-kernels/$name/build" "$@" | tail -n 1)
	[ -s "$image" ] || fail "the kernel $name is not built"
	cmp -s "$image" "target/sweep-kernels/$name/bzImage" || cp "$image" "target/sweep-kernels/$name/bzImage"
}

# The counter's kernel has a version of its own, `localversion-counter` of the patch, so that it is the other one's newer neighbour.
regression() {
	mkdir -p target/sweep-kernels/{plain,with-counter}
	one_kernel plain --
	one_kernel with-counter --from target/sweep-kernels/plain/build -- sweep/tests/counter.patch
	SWEEP_OUT=target/sweep-regression scripts/sweep.sh run sweep/tests/regression.yaml >"$work/log" 2>&1 || fail "$(tail -n 3 "$work/log")"
	"$readers" sweep/tests/regression.py target/sweep-regression/lake
}

case ${1:-readers} in
readers)
	make_tables
	for reader in duckdb pandas polars; do
		"$readers" sweep/tests/readers.py "$reader" "$work/lake" "$work/report.json" "$work/costs.json"
	done
	test_python
	mkdir "$work/made-up"
	"$readers" sweep/tests/queries.py "$work/made-up"
	"$python" sweep/tests/tidy.py "$work/tidy"
	survey
	;;
python)
	make_tables
	test_python
	;;
survey) survey ;;
spark)
	if ! command -v java >/dev/null; then
		echo "test-sweep: skipped: Spark needs Java, and there is none: install default-jre-headless and run \`scripts/setup.sh sweep\`"
		exit 0
	fi
	make_tables
	"$readers" sweep/tests/readers.py spark "$work/lake" "$work/report.json" "$work/costs.json"
	;;
killed) killed ;;
regression) regression ;;
slurm)
	if [ "$(id -u)" != 0 ] || ! command -v slurmctld >/dev/null || ! command -v slurmd >/dev/null || ! command -v munged >/dev/null; then
		echo "test-sweep: skipped: it needs root, and Debian's slurm-wlm and munge: install them and run \`scripts/setup.sh sweep\`"
		exit 0
	fi
	if [ -z "${IN_NAMESPACE-}" ]; then
		trap - EXIT
		rm -rf "$work"
		IN_NAMESPACE=1 exec unshare --mount --pid --fork --kill-child --mount-proc --propagation private "$0" slurm
	fi
	slurm
	;;
*) fail "say readers, python, survey, spark, killed, slurm or regression" ;;
esac
echo "test-sweep: passed"

#!/usr/bin/env bash
# Builds programs from Debian's sources and from crates with -O2 -g, records each for a fraction of a second on 8 CPUs, and prints the table of evidence/programs.md: how much of what they
# access on the heap and in variables has a type. Builds and recordings are kept in target/programs; remove that folder to make them again.
#
# Needs root (it installs what the programs are built with), what `make setup` leaves, a release build and jq. A quarter of an hour, most of it compiling.
#
# Times are of a recording with its boot from the snapshot, and of a report without the cache; a
# first recording also makes the snapshot.
#
# usage: real-programs.sh [PROGRAM]...   (default: all; the names are in `all` below)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

die() {
	echo "real-programs: error: $*" >&2
	exit 2
}

say() {
	echo "real-programs: $*" >&2
}

# shellcheck source-path=SCRIPTDIR source=lib/apt.sh
. scripts/lib/apt.sh

linemate=$PWD/target/release/linemate
work=$PWD/target/programs
scripts=$PWD/workloads/programs
readonly linemate work scripts
# Suites of Debian that have the sources: trixie's are not all in the archive any more.
readonly suites="trixie bookworm"
readonly leveldb=1.23-4 ripgrep=15.1.0 mini_redis=0.4.1 fd=10.2.0
[ "$(id -u)" = 0 ] || die "installing needs root"
command -v jq >/dev/null || die "jq is missing (Debian: apt-get install jq)"
[ -x "$linemate" ] || die "there is no $linemate: run \`make build\`"
mkdir -p "$work/bin"

# source_apt ARGUMENT…: apt-get with the sources of the machine's own archive, and lists of its own.
source_apt() {
	local suite archive keyring
	if [ ! -e "$work/apt/parts/debian.sources" ]; then
		suite=$(os_release VERSION_CODENAME)
		IFS=$'\t' read -r archive keyring < <(apt_archive "$suite") || die "no apt source of this machine has the suite $suite"
		mkdir -p "$work/apt/parts" "$work/apt/lists/partial"
		printf 'Types: deb-src\nURIs: %s\nSuites: %s\nComponents: main\n%s\n' "$archive" "$suites" "${keyring:+Signed-By: $keyring}" >"$work/apt/parts/debian.sources"
		source_apt update
	fi
	apt_run "apt-get $*" apt-get -q -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/apt/parts" -o "Dir::State::lists=$work/apt/lists" "$@"
}

# unpacked PACKAGE[=VERSION|/SUITE]: its source as a folder $work/PACKAGE.
unpacked() {
	local package=${1%%[=/]*}
	[ ! -d "$work/$package" ] || return 0
	mkdir -p "$work/$package.download"
	(cd "$work/$package.download" && source_apt source --download-only "$1" && dpkg-source --no-check -x ./*.dsc source) >&2
	mv "$work/$package.download/source" "$work/$package"
	rm -r "$work/$package.download"
}

# built PROGRAM FUNCTION: calls FUNCTION in a shell of its own unless the program is there.
built() {
	[ ! -e "$work/bin/$1" ] || return 0
	say "building $1"
	local status
	# Not `(…) || die`: in front of `||` a shell does not end with its first command that fails.
	set +e
	(set -e; "$2") >"$work/$1.log" 2>&1
	status=$?
	set -e
	[ "$status" = 0 ] || die "building $1 failed: $work/$1.log"
}

export CFLAGS="-O2 -g"

build_memcached() {
	cd "$work/memcached"
	./configure
	make memcached
	cp memcached "$work/bin"
}

build_redis() {
	make -C "$work/redis/src" MALLOC=libc OPTIMIZATION=-O2 redis-server redis-benchmark
	cp "$work/redis/src/redis-benchmark" "$work/redis/src/redis-server" "$work/bin"
}

build_nginx() {
	cd "$work/nginx"
	./configure --with-cc-opt="$CFLAGS" --without-http_rewrite_module --without-http_gzip_module --with-threads
	make
	cp objs/nginx "$work/bin"
}

build_leveldb() {
	cmake -S "$work/leveldb" -B "$work/leveldb/build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DLEVELDB_BUILD_TESTS=OFF -DLEVELDB_BUILD_BENCHMARKS=OFF \
		-DHAVE_SNAPPY=OFF -DHAVE_CRC32C=OFF -DHAVE_TCMALLOC=OFF
	make -C "$work/leveldb/build" leveldb
	cd "$work/leveldb"
	c++ -O2 -g -std=c++17 -DLEVELDB_PLATFORM_POSIX=1 -DNDEBUG -Ibuild/include -Iinclude -I. benchmarks/db_bench.cc util/testutil.cc util/histogram.cc build/libleveldb.a \
		-lgtest -lpthread -o "$work/bin/db_bench"
}

build_sqlite() {
	mkdir -p "$work/sqlite3/build"
	cd "$work/sqlite3/build"
	../configure --disable-tcl
	make sqlite3.c
	cc -O2 -g -pthread -DSQLITE_THREADSAFE=1 -DSQLITE_OMIT_LOAD_EXTENSION -I. "$scripts/sqlite.c" sqlite3.c -o "$work/bin/sqlite" -lm
}

# crate NAME VERSION PROGRAM: from the registry, with full debug information.
crate() {
	CARGO_PROFILE_RELEASE_DEBUG=2 CARGO_PROFILE_RELEASE_STRIP=none cargo install --locked --root "$work/$1" "$1@$2"
	cp "$work/$1/bin/$3" "$work/bin"
}

build_ripgrep() {
	crate ripgrep "$ripgrep" rg
}

build_mini_redis() {
	crate mini-redis "$mini_redis" mini-redis-server
}

build_fd() {
	crate fd-find "$fd" fd
}

build_jq() {
	cd "$work/jq"
	autoreconf -fi
	./configure --disable-docs --disable-shared --enable-static --with-oniguruma=no
	make
	cp jq "$work/bin"
}

build_zstd() {
	make -C "$work/libzstd/programs" zstd HAVE_ZLIB=0 HAVE_LZMA=0 HAVE_LZ4=0
	cp "$work/libzstd/programs/zstd" "$work/bin"
}

build_haproxy() {
	make -C "$work/haproxy" TARGET=linux-glibc DEBUG_CFLAGS=-g haproxy
	cp "$work/haproxy/haproxy" "$work/bin"
}

# The server refuses root, and its new cluster takes too long in the guest: both are made here.
build_postgres() {
	local prefix=/usr/local/pgsql root=$work/pgsql tools
	cd "$work/postgresql-15"
	./configure --prefix="$prefix" --without-readline --without-icu --without-zlib
	make
	make DESTDIR="$root" install
	tools=$root$prefix/bin
	export LD_LIBRARY_PATH=$root$prefix/lib
	chown -R nobody "$root"
	as_nobody() { setpriv --reuid nobody "$tools/$1" "${@:2}"; }
	as_nobody initdb -U postgres --no-locale --encoding SQL_ASCII -D "$root/data"
	as_nobody pg_ctl -D "$root/data" -o "-h '' -k $root" -l "$root/log" -w start
	as_nobody pgbench -h "$root" -U postgres -q -i -s 1 postgres
	as_nobody pg_ctl -D "$root/data" -w stop
	ln -sf "$tools/postgres" "$work/bin/postgres"
}

# prepared NAME: what is built for a workload.
prepared() {
	case $1 in
	memcached)
		unpacked memcached
		built memcached build_memcached
		;;
	redis)
		unpacked redis
		built redis-server build_redis
		;;
	nginx)
		unpacked nginx
		built nginx build_nginx
		;;
	leveldb)
		unpacked "leveldb=$leveldb"
		built db_bench build_leveldb
		;;
	sqlite)
		unpacked sqlite3
		built sqlite build_sqlite
		;;
	mini-redis)
		unpacked redis
		built redis-server build_redis
		built mini-redis-server build_mini_redis
		;;
	ripgrep)
		unpacked "leveldb=$leveldb"
		built rg build_ripgrep
		;;
	fd)
		unpacked "leveldb=$leveldb"
		built fd build_fd
		;;
	jq)
		unpacked jq/bookworm
		built jq build_jq
		;;
	zstd)
		unpacked libzstd
		built zstd build_zstd
		;;
	haproxy)
		unpacked haproxy/bookworm
		built haproxy build_haproxy
		;;
	postgres)
		unpacked postgresql-15/bookworm
		built postgres build_postgres
		;;
	*) die "there is no program $1: $all" ;;
	esac
}

# recorded NAME FILE…: $work/NAME.data, made unless it is there.
recorded() {
	local name=$1 file options=()
	shift
	[ ! -e "$work/$name.data" ] || return 0
	for file in "$@"; do
		options+=(--file "$file")
	done
	say "recording $name"
	# A wrapper between a program and malloc hides the caller: name it.
	case $name in
	nginx) options+=(--allocator ngx_palloc:2 --allocator ngx_pnalloc:2 --allocator ngx_pcalloc:2) ;;
	redis) options+=(--allocator zmalloc:1 --allocator zcalloc:1) ;;
	sqlite) options+=(--allocator sqlite3Malloc:1) ;;
	postgres)
		local function
		for function in ShmemAllocRaw:1 palloc:1 palloc0:1 MemoryContextAlloc{,Zero,ZeroAligned}:2; do
			options+=(--allocator "$function")
		done
		;;
	esac
	local script=("$scripts/$name.sh:/bin/run.sh") command=(sh /bin/run.sh)
	[ "$name" != sqlite ] || { script=("$work/bin/sqlite:/bin/sqlite") command=(sh -c /bin/sqlite); }
	local start=$EPOCHREALTIME
	(cd "$work" && "$linemate" record --program --kernel "$kernel" --smp 8 --memory 2G -o "$name.partial" --file "${script[0]}" "${options[@]}" -- "${command[@]}") >"$work/$name.run" 2>&1 ||
		die "recording $name failed: $work/$name.run"
	elapsed "$start" >"$work/$name.seconds"
	mv "$work/$name.partial" "$work/$name.data"
}

# elapsed START: seconds since then, with a tenth.
elapsed() {
	awk -v from="$1" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.1f\n", to - from }'
}

# files NAME: what the guest gets, as --file has it.
files() {
	local bin=$work/bin
	case $1 in
	memcached) echo "$bin/memcached:/bin/memcached" /usr/bin/memcslap ;;
	redis) echo "$bin/redis-server:/bin/redis-server $bin/redis-benchmark:/bin/redis-benchmark" ;;
	nginx) echo "$bin/nginx:/bin/nginx" /usr/bin/ab /etc/passwd /etc/group ;;
	leveldb) echo "$bin/db_bench:/bin/db_bench" ;;
	mini-redis) echo "$bin/mini-redis-server:/bin/mini-redis-server $bin/redis-benchmark:/bin/redis-benchmark" ;;
	ripgrep) echo "$bin/rg:/bin/rg $work/leveldb/db:/root/src" ;;
	fd) echo "$bin/fd:/bin/fd $work/leveldb:/root/src" ;;
	jq) echo "$bin/jq:/bin/jq" ;;
	zstd) echo "$bin/zstd:/bin/zstd $bin/zstd:/root/in" ;;
	haproxy) echo "$bin/haproxy:/bin/haproxy" /lib/x86_64-linux-gnu/libgcc_s.so.1 /usr/bin/ab /etc/passwd /etc/group ;;
	postgres)
		local installed=/usr/local/pgsql file
		for file in bin/postgres bin/pgbench lib/libpq.so.5 share; do
			echo "$work/pgsql$installed/$file:$installed/$file"
		done
		echo "$work/pgsql/data:/data"
		;;
	esac
}

readonly all="memcached redis nginx leveldb sqlite mini-redis ripgrep fd jq zstd haproxy postgres"
readonly packages=(gcc g++ make cmake pkgconf dpkg-dev libevent-dev libmemcached-tools apache2-utils libgtest-dev libgmock-dev tcl autoconf automake libtool bison flex perl util-linux)
dpkg -s "${packages[@]}" >/dev/null 2>&1 || {
	say "installing ${packages[*]}"
	apt_install "" "${packages[@]}"
}
kernel=$(scripts/kernel-image.sh 6.12)

chosen=("$@")
[ $# != 0 ] || read -ra chosen <<<"$all"
for name in "${chosen[@]}"; do
	prepared "$name"
done
printf '| program | accesses | to its heap and variables | of those typed | recorded in | report in |\n|---|---|---|---|---|---|\n'
for name in "${chosen[@]}"; do
	read -r -d "" -a taken < <(files "$name") || true
	recorded "$name" "${taken[@]}"
	say "reading $name"
	start=$EPOCHREALTIME
	"$linemate" report -i "$work/$name.data" --json --no-cache >"$work/$name.json"
	jq -r --arg name "$name" --arg record "$(<"$work/$name.seconds")" --arg report "$(elapsed "$start")" \
		'.ledger | "| \($name) | \(.total) | \(.programs.accesses) | \(.programs.typed_share * 1000 | round / 10) % | \($record) s | \($report) s |"' "$work/$name.json"
done

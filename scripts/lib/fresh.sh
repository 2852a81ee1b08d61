# shellcheck shell=bash
# A root with a minimal Debian and this checkout in it, for `make fresh` and CI: a machine that nobody has worked on. Debian comes
# from this machine's own apt sources. What is mounted there is mounted in a namespace that ends with each command, so nothing
# is left mounted, whatever happens. Needs apt.sh.

fresh_root= # the folder, once it is made
readonly fresh_trust=/etc/ssl/machine.crt # there: the certificates that this machine trusts
readonly fresh_checkout=root/linemate # in it; written so that no file holds the path that the checkout has there

# fresh_make SUITE: makes $fresh_root. Where that cannot be, prints why on one line and fails.
fresh_make() {
	local suite=$1 log fault
	[ "$(id -u)" = 0 ] || { echo "a root needs root"; return 1; }
	unshare --mount --pid --fork --kill-child true 2>/dev/null || { echo "no right to mount (unshare fails)"; return 1; }
	if ! command -v mmdebstrap >/dev/null; then
		command -v apt-get >/dev/null || { echo "there is no mmdebstrap, and no apt-get to install it"; return 1; }
		{ fresh_apt install mmdebstrap || { fresh_apt update && fresh_apt install mmdebstrap; }; } ||
			{ echo "mmdebstrap cannot be installed"; return 1; }
	fi
	fresh_sources "$suite" >/dev/null || { echo "no apt source of this machine leads to Debian's archive"; return 1; }
	fresh_root=$(mktemp -d "${TMPDIR:-/var/tmp}/linemate-fresh.XXXXXX") || { echo "no temporary folder"; return 1; }
	log=$fresh_root.log
	chmod 755 "$fresh_root"
	if ! fresh_sources "$suite" | mmdebstrap --mode=root --variant=minbase --include=git,make "$suite" "$fresh_root" - >"$log" 2>&1; then
		fault=$(grep -m 1 '^E:' "$log" || tail -n 1 "$log")
		fresh_remove
		echo "mmdebstrap fails (${fault#E: }): see $log"
		return 1
	fi
	rm -f "$log"
	fresh_fill || { fresh_remove; echo "the checkout cannot be copied there"; return 1; }
	fresh_run true >/dev/null 2>&1 || { fresh_remove; echo "no right to mount or to change the root"; return 1; }
}

fresh_apt() {
	DEBIAN_FRONTEND=noninteractive apt-get "$1" -y -q "${@:2}" </dev/null >/dev/null 2>&1
}

# fresh_sources SUITE: the lines of its sources.list, at the addresses where this machine takes its own release from.
fresh_sources() {
	local own part source
	own=$(os_release VERSION_CODENAME)
	for part in "" -updates -security; do
		source=$(apt_archive_like "$1$part" "$own$part")
		[ -n "$source" ] || [ -n "$part" ] || return 1
		[ -z "$source" ] || apt_line "$1$part" "$source"
	done
}

# What a network needs here, it needs there: names, certificates, proxies; and the checkout, as a clone would have it.
fresh_fill() {
	local file
	for file in /etc/resolv.conf /etc/hosts; do
		[ ! -e "$file" ] || cp -L --remove-destination "$file" "$fresh_root$file"
	done
	if [ -d /etc/ssl/certs ]; then
		mkdir -p "$fresh_root/etc/ssl"
		cp -rL /etc/ssl/certs "$fresh_root/etc/ssl/" 2>/dev/null || true
		# Debian's ca-certificates, once installed there, rewrites the file in that folder, without what
		# only this machine trusts.
		[ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp -L /etc/ssl/certs/ca-certificates.crt "$fresh_root$fresh_trust"
	fi
	apt-config dump 2>/dev/null | grep -E '^Acquire::https?::' >"$fresh_root/etc/apt/apt.conf.d/80-network" || true
	mkdir "$fresh_root/$fresh_checkout"
	git ls-files -z --cached --others --exclude-standard |
		while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
		tar -c --null --no-recursion -T - | tar -x --no-same-owner -C "$fresh_root/$fresh_checkout" || return 1
	chroot "$fresh_root" sh -c "cd /$fresh_checkout && git init -q && git add -A"
}

# fresh_run COMMAND: runs it in the checkout there. All processes that it leaves end with it.
fresh_run() {
	local cargo=${CARGO_HOME:-$HOME/.cargo} rustup=${RUSTUP_HOME:-$HOME/.rustup} path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	local mounts=("rw:$cargo") environment=("HOME=/root" "LANG=C.UTF-8" "CARGO_HOME=$cargo") name
	# Debian 12's own Rust is too old: the machine's, if it has one. cargo's folder has to be written to: downloaded crates, their
	# lock, tools; it is the machine's own, so that nothing is downloaded twice.
	# shellcheck disable=SC1091 # the root's own file
	if [ "$(. "$fresh_root/etc/os-release" && echo "$VERSION_CODENAME")" = bookworm ] && [ -x "$cargo/bin/cargo" ] && [ -d "$rustup" ]; then
		mounts+=("ro:$rustup")
		environment+=("RUSTUP_HOME=$rustup")
		path=$cargo/bin:$path
	fi
	# Node and pip trust certificates of their own, and need these variables to trust the system's.
	[ ! -e "$fresh_root$fresh_trust" ] || environment+=("NODE_EXTRA_CA_CERTS=$fresh_trust" "PIP_CERT=$fresh_trust")
	! command -v npm >/dev/null || environment+=("npm_config_registry=$(npm config get registry)")
	for name in $(compgen -e | grep -E '^(https?_proxy|no_proxy|HTTPS?_PROXY|NO_PROXY|CARGO_(HTTP|NET|REGISTR|SOURCE)[A-Z_]*|PIP_((EXTRA_)?INDEX_URL|PROXY|TRUSTED_HOST|DEFAULT_TIMEOUT)|RUSTUP_TOOLCHAIN|FUZZ_SECONDS|TEST_PROFILE|TEST_LEAVE_OUT|TERM)$'); do
		environment+=("$name=${!name}")
	done
	unshare --mount --pid --fork --kill-child --propagation private bash -euc "$(declare -f fresh_enter); fresh_enter \"\$@\"" \
		fresh "$fresh_root" "${mounts[*]}" env -i "PATH=$path" "${environment[@]}" bash -euc "cd /$fresh_checkout; $1" </dev/null
}

# fresh_enter ROOT "RIGHTS:FOLDER …" COMMAND…: in namespaces of its own.
fresh_enter() {
	local root=$1 folders=$2 item
	shift 2
	mount -t proc proc "$root/proc"
	for item in rw:/sys rw:/dev $folders; do
		[ -d "${item#*:}" ] || continue
		mkdir -p "$root${item#*:}"
		mount --rbind "${item#*:}" "$root${item#*:}"
		[ "${item%%:*}" = rw ] || mount -o remount,bind,ro "$root${item#*:}"
	done
	exec chroot "$root" "$@"
}

# Removes the root, unless something is mounted below it after all.
fresh_remove() {
	[ -n "$fresh_root" ] && [ -d "$fresh_root" ] || return 0
	if grep -qF " $fresh_root/" /proc/self/mountinfo; then
		echo "fresh: something is mounted below $fresh_root: left as it is" >&2
		return 1
	fi
	rm -rf --one-file-system "$fresh_root"
	fresh_root=
}

# minutes SECONDS
minutes() {
	printf '%d min %d s' $(($1 / 60)) $(($1 % 60))
}

# tests_passed FILE: how many of cargo's tests passed, by the closing lines in a step's output.
tests_passed() {
	awk '/^test result: / { passed += $4 } END { print passed + 0 }' "$1"
}

# fresh_steps STEP…: runs each in the root, or here if $fresh_root is empty, and prints how long it
# took; the first that fails ends it. Adds to fresh_times and fresh_tests, which the caller has set.
# None begins when $SECONDS is at $fresh_until, if that is set: fresh_times names it then.
fresh_steps() {
	local step started log status=0
	log=$(mktemp)
	for step in "$@"; do
		started=$SECONDS
		if [ "$started" -ge "${fresh_until:-$((started + 1))}" ]; then
			fresh_times+=("$step: not run: $(minutes "$started") had passed")
			continue
		fi
		printf '\n=== %s\n' "$step"
		if [ -n "$fresh_root" ]; then
			fresh_run "$step" 2>&1 | tee "$log" || status=1
		else
			bash -euc "$step" </dev/null 2>&1 | tee "$log" || status=1
		fi
		fresh_tests=$((fresh_tests + $(tests_passed "$log")))
		[ "$status" = 0 ] || break
		fresh_times+=("$step: $(minutes $((SECONDS - started)))")
		printf '=== %s\n' "${fresh_times[-1]}"
	done
	rm -f "$log"
	return "$status"
}

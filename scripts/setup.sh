#!/usr/bin/env bash
# Brings this machine to the point where `make demo` and `make test` run, and does nothing if
# nothing is missing.
#
#   scripts/setup.sh [build|demo|test|cases|patches|lint|fuzz|page|sweep|deb|image|site|packages [GOAL]]
#
#   build     what compiles this project: a C compiler and cargo
#   demo      (default) tools, QEMU and the 6.12 kernel image
#   test      the same, what kernels are compiled with, Snakemake, the 6.1 kernel image, and images for arm64 and ppc64el to read
#   cases     the same as test, the workloads of the cases, the kernel sources 6.12, 6.1 and 7.3
#   patches   the same as test, those sources, and the generated headers of their configs: for patches of Debian's sources
#   lint      the tools of `make lint` only
#   fuzz      what compiles the fuzz targets: the same as build, and a C++ compiler for libFuzzer
#   page      what builds and tests the page of --html: the same as build, Node, npm and Chromium
#   sweep     what runs a sweep and reads its tables: the same as demo, Snakemake, and Python's packages of sweep/requirements.txt and python/requirements.txt in target/sweep-venv
#   deb       what builds the Debian package: the same as build, debhelper and Python
#   image     what makes and tests the container image: the same as build, podman, mmdebstrap and the 6.12 kernel image
#   site      what makes the site: the same as build, and Python's packages of scripts/lib/site.txt in target/site-venv
#   packages [GOAL]  everything of GOAL (default: test) that needs root and nothing that lands in a home folder
#
# Packages come from this machine's own apt sources. Kernel images are downloaded and unpacked into
# ${LINEMATE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/linemate}/kernels/VERSION/boot, never installed; Snakemake is in `snakemake` there.
set -euo pipefail

readonly QEMU=qemu-system-x86_64
readonly QEMU_MIN=9.2   # plugin API 4: values in memory callbacks, reads of guest memory
readonly CARGO_MIN=1.85 # edition 2024; Debian 13 has it

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here
# shellcheck source-path=SCRIPTDIR source=lib/apt.sh
. "$here/lib/apt.sh"
# shellcheck source-path=SCRIPTDIR source=lib/build-tools.sh
. "$here/lib/build-tools.sh"
# shellcheck source-path=SCRIPTDIR source=lib/kernel.sh
. "$here/lib/kernel.sh"
# shellcheck source-path=SCRIPTDIR source=lib/foreign.sh
. "$here/lib/foreign.sh"
# shellcheck source-path=SCRIPTDIR source=lib/named.sh
. "$here/lib/named.sh"
# shellcheck source-path=SCRIPTDIR source=lib/source.sh
. "$here/lib/source.sh"

# One line: what is wrong, what to do.
die() {
	printf 'setup: error: %s\n' "$*" >&2
	exit 2
}

say() {
	printf 'setup: %s\n' "$*" >&2
}

# at_least HAVE WANT: is version HAVE the same as or newer than WANT?
at_least() {
	[ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | sed -n 1p)" = "$2" ]
}

# First number of the form 1.2 or 1.2.3 in a program's answer to --version; empty when it does not run.
version_of() {
	{ "$1" --version 2>/dev/null || true; } | sed -nE '1s/^[^0-9]*([0-9]+(\.[0-9]+)+).*/\1/p'
}

# --- What is missing: names of packages, found by looking for what they hold ------------------------------------------

# want PACKAGE…: once each.
want() {
	local package
	for package in "$@"; do
		case " ${missing[*]-} " in
		*" $package "*) ;;
		*) missing+=("$package") ;;
		esac
	done
}

want_command() {
	command -v "$1" >/dev/null || want "$2"
}

busybox_is_static() {
	local path
	path=$(command -v busybox) && ! LC_ALL=C ldd "$path" >/dev/null 2>&1
}

find_missing() {
	missing=()
	want_command cc gcc
	want_command ld binutils
	compgen -G '/usr/lib/*/libc.a' >/dev/null || compgen -G '/usr/lib/libc.a' >/dev/null || want libc6-dev
	case $packages_of in
	build) return ;;
	lint)
		want_command shellcheck shellcheck
		want_command python3 python3
		return
		;;
	fuzz)
		want_command c++ g++
		return
		;;
	site)
		want_command python3 python3
		python3 -c 'import ensurepip, venv' 2>/dev/null || want python3-venv
		return
		;;
	image)
		want_command podman podman
		want_command newuidmap uidmap
		want_command mmdebstrap mmdebstrap
		return
		;;
	deb)
		want_command dh debhelper
		want_command python3 python3
		return
		;;
	page)
		want_command node nodejs
		want_command npm npm
		want_command chromium chromium
		return
		;;
	esac
	busybox_is_static || want busybox-static
	want_command hackbench rt-tests
	if [ "$packages_of" != demo ]; then
		# Snakemake is a Python program; and one is recorded with what its interpreter says it needs.
		want_command python3 python3
		python3 -c 'import ensurepip, venv' 2>/dev/null || want python3-venv
	fi
	if [ "$packages_of" != demo ] && [ "$packages_of" != sweep ]; then
		want_command stress-ng stress-ng
		# Programs in C++ are compiled as test subjects, and dwz moves their types elsewhere.
		want_command g++ g++
		want_command dwz dwz
		# It packs split debug information. Debian 13's binutils no longer has it: it is with the linker gold there.
		if ! command -v dwp >/dev/null; then
			want "$(command -v ld >/dev/null && echo binutils-gold || echo binutils)"
		fi
		# shellcheck disable=SC2046 # names of packages
		want $(build_tools_missing)
	fi
	case $packages_of in
	cases | patches) want_command xz xz-utils ;;
	esac
	if [ "$packages_of" = cases ]; then
		want_command ffmpeg ffmpeg
		want_command pi_stress rt-tests
	fi
}

# Installs what is missing. Only with some packages there it shows which others are missing: dwp is in one or the other.
install_missing() {
	local before=
	find_missing
	while [ "${#missing[@]}" -gt 0 ]; do
		[ "${missing[*]}" != "$before" ] || die "still missing after installing them: ${missing[*]}: is PATH complete?"
		before=${missing[*]}
		apt_needed "missing: ${missing[*]}"
		say "installing ${missing[*]}"
		apt_install "" "${missing[@]}"
		find_missing
	done
}

# --- QEMU ---------------------------------------------------------------------------------------------------------------

# Why the QEMU on PATH will not do; empty when it will.
qemu_fault() {
	local version
	if ! command -v "$QEMU" >/dev/null; then
		echo "$QEMU is not installed"
		return
	fi
	version=$(version_of "$QEMU")
	if [ -z "$version" ]; then
		echo "$(command -v "$QEMU") does not run"
	elif ! at_least "$version" "$QEMU_MIN"; then
		echo "$(command -v "$QEMU") is version $version, $QEMU_MIN or newer is needed"
	elif ! "$QEMU" -help 2>/dev/null | grep -- '^-plugin ' >/dev/null; then
		echo "$(command -v "$QEMU") was built without plugins"
	elif ! command -v qemu-img >/dev/null; then
		echo "qemu-img is not installed"
	fi
}

install_qemu() {
	local fault=$1 suite=
	local path
	path=$(command -v "$QEMU" || true)
	if [ -n "$path" ] && command -v dpkg-query >/dev/null && ! owned_by_dpkg "$path"; then
		die "$fault: it is not a package's, so take it off PATH, or build it anew with --enable-plugins"
	fi
	apt_needed "$fault: QEMU $QEMU_MIN or newer with plugin support is needed (packages qemu-system-x86, qemu-utils)"
	if ! apt_has_version qemu-system-x86 "$QEMU_MIN"; then
		apt_refresh
	fi
	if ! apt_has_version qemu-system-x86 "$QEMU_MIN"; then
		apt_add_backports
	fi
	apt_has_version qemu-system-x86 "$QEMU_MIN" ||
		die "$fault, and no apt source of this machine has $QEMU_MIN: build QEMU with --enable-plugins"
	if apt_suite_has "$(os_release VERSION_CODENAME)-backports" qemu-system-x86; then
		suite=$(os_release VERSION_CODENAME)-backports
	fi
	say "installing QEMU ${suite:+from $suite }(several minutes on a slow line)"
	apt_install "$suite" qemu-system-x86 qemu-utils
	fault=$(qemu_fault)
	[ -z "$fault" ] || die "$fault, even after installing qemu-system-x86: look for another QEMU earlier on PATH"
}

# --- Rust ---------------------------------------------------------------------------------------------------------------

# The package that has a new enough cargo; empty if there is none.
cargo_package() {
	local package
	for package in cargo cargo-web; do
		if apt_has_version "$package" "$CARGO_MIN"; then
			echo "$package"
			return
		fi
	done
}

# Debian 12's own cargo is too old; its security suite carries a current one, made for building browsers, as cargo-web.
ensure_cargo() {
	local version package
	version=$(version_of cargo)
	if [ -n "$version" ] && at_least "$version" "$CARGO_MIN"; then
		return
	fi
	local fault="cargo ${version:-is not installed}${version:+ is too old}, $CARGO_MIN or newer is needed"
	if [ -n "$version" ] && command -v rustup >/dev/null; then
		die "$fault: run \`rustup update stable\`"
	fi
	local remedy="install Rust with rustup (rust-lang.org/tools/install)"
	if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
		die "$fault: $remedy"
	fi
	package=$(cargo_package)
	if [ -z "$package" ]; then
		apt_refresh
		package=$(cargo_package)
	fi
	[ -n "$package" ] || die "$fault, and no apt source of this machine has it: $remedy"
	say "installing Rust (package $package)"
	apt_install "" "$package"
	version=$(version_of cargo)
	at_least "${version:-0}" "$CARGO_MIN" || die "$fault, and an older cargo comes first on PATH: remove it, or $remedy"
}

# --- Python's packages ------------------------------------------------------------------------------------------------------

# ensure_venv FOLDER LIST…: the packages of these lists, from sweep/ on, are in a virtual environment there afterwards, from wherever pip takes packages on this machine.
ensure_venv() {
	local venv=$1 list arguments=()
	shift
	for list in "$@"; do
		arguments+=(-r "$here/../sweep/$list")
	done
	if (cd "$here/../sweep" && cat "$@") | cmp -s - "$venv/installed.txt"; then
		return
	fi
	say "installing Python's packages of ${*} (a minute or more on a slow line)"
	# The cache's content is executed: no other user may change it.
	(umask 077 && python3 -m venv "$venv") || die "python3 cannot make $venv: install python3-venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check "${arguments[@]}" </dev/null ||
		die "pip cannot install $*: check the network and pip's settings"
	(cd "$here/../sweep" && cat "$@") >"$venv/installed.txt"
}

# Snakemake, which executes the steps of cases, sweeps and surveys, where `linemate case run`
# searches for it, with the executor for Slurm where there is Slurm; 100 MB, while the tables'
# readers are 500.
ensure_snakemake() {
	local lists=(snakemake.txt)
	! command -v sbatch >/dev/null || lists+=(snakemake-slurm.txt)
	ensure_venv "$(dirname "$(kernel_cache)")/snakemake" "${lists[@]}"
}

# What reads the tables; PySpark where there is a Java to run it.
ensure_readers() {
	local lists=(requirements.txt ../python/requirements.txt)
	! command -v java >/dev/null || lists+=(requirements-spark.txt)
	ensure_venv "$here/../target/sweep-venv" "${lists[@]}"
}

# --- The whole ------------------------------------------------------------------------------------------------------------

# The inputs of a patch's proof: the recorded kernels' configs, and one that differs.
ensure_configs() {
	ensure_headers 6.12
	ensure_headers 6.12 rt-amd64
	ensure_headers 6.1
}

main() {
	goal=${1:-demo}
	# Whose packages are looked for.
	packages_of=$goal
	[ "$goal" != packages ] || packages_of=${2:-test}
	case $goal in
	build | demo | test | cases | patches | lint | fuzz | page | sweep | deb | image | site | packages) ;;
	*) die "unknown goal '$goal': use build, demo, test, cases, patches, lint, fuzz, page, sweep, deb, image, site or packages" ;;
	esac
	case $packages_of in
	build | demo | test | cases | patches | lint | fuzz | page | sweep | deb | image | site) ;;
	*) die "unknown goal '$packages_of' of packages: use build, demo, test, cases, patches, lint, fuzz, page, sweep, deb, image or site" ;;
	esac
	[ "$(uname -s)/$(uname -m)" = Linux/x86_64 ] || die "this is $(uname -s)/$(uname -m): linemate records on Linux/x86_64 only"

	install_missing
	# Under sudo the user's own cargo is not on PATH: `packages` does not search for one.
	[ "$goal" = packages ] || ensure_cargo
	case $packages_of in
	build | lint | fuzz | page | deb) return ;;
	site)
		[ "$goal" = packages ] || ensure_venv "$here/../target/site-venv" ../scripts/lib/site.txt
		return
		;;
	image)
		[ "$goal" = packages ] || ensure_kernel 6.12
		return
		;;
	esac

	local fault
	fault=$(qemu_fault)
	[ -z "$fault" ] || install_qemu "$fault"
	[ "$goal" != packages ] || return 0

	ensure_kernel 6.12
	case $goal in
	demo) return ;;
	esac
	ensure_snakemake
	if [ "$goal" = sweep ]; then
		ensure_readers
		return
	fi
	ensure_kernel 6.1
	case $goal in
	cases | patches)
		ensure_source 6.12
		ensure_source 6.1
		if [ "$goal" = cases ]; then
			ensure_named_source 7.3
		else
			ensure_configs
		fi
		return
		;;
	esac
	ensure_foreign_kernel 6.1-arm64
	ensure_foreign_kernel 6.12-ppc64el
}

main "$@"

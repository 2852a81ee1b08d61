#!/usr/bin/env bash
# Tests of scripts/setup.sh: what it prints on a machine that lacks something, and what it reads out
# of apt's sources. A machine is a PATH with fake commands; nothing is installed and no network is
# used.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

setup=scripts/setup.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
readonly debian_keyring=/usr/share/keyrings/debian-archive-keyring.gpg
failures=0

# A folder of commands like this machine's, without those that a test is about.
machine() {
	rm -rf "${work:?}"/{bin,cache}
	mkdir -p "$work/bin" "$work/cache"
	local tool
	for tool in awk bash cat chmod cmp dirname env find grep head id ldd ls mkdir mktemp mv rm sed sh sort tail tar touch tr \
		uname dpkg dpkg-deb dpkg-query; do
		ln -s "$(command -v "$tool")" "$work/bin/$tool"
	done
	for tool in cc ld hackbench pahole stress-ng g++ dwz dwp apt-get apt-cache qemu-img make patch flex bison bc cpio python3; do
		stand_in "$tool" 'exit 1'
	done
	# It has what makes virtual environments.
	stand_in python3 true
	stand_in gcc true
	stand_in id 'echo 0'
	stand_in cargo 'echo "cargo 1.95.0 (f2d3ce0bd 2026-03-21)"'
	stand_in busybox true
	stand_in ldd 'exit 1'
	stand_in dpkg-query 'exit 0'
	qemu 10.0.2 '-plugin [file=]<file>'
	kernel 6.12.117+deb12-cloud-amd64
	kernel 6.1.0-55-cloud-amd64
	kernel 6.1.0-55-cloud-arm64 foreign-kernels
	kernel 6.12.95+deb12-powerpc64le foreign-kernels
}

stand_in() {
	rm -f "$work/bin/$1"
	printf '#!/bin/bash\n%s\n' "$2" >"$work/bin/$1"
	chmod +x "$work/bin/$1"
}

qemu() {
	stand_in qemu-system-x86_64 "case \$1 in --version) echo 'QEMU emulator version $1 (Debian)' ;; -help) echo '$2' ;; esac"
}

# kernel VERSION [FOLDER]
kernel() {
	local folder=$work/cache/${2:-kernels}/$1/boot
	mkdir -p "$folder"
	echo kernel >"$folder/vmlinuz-$1"
}

without() {
	rm -f "$work/bin/$1"
}

run_setup() {
	# Snakemake is installed, except where a test is about that.
	[ -n "${without_snakemake-}" ] || { mkdir -p "$work/cache/snakemake" && cp sweep/snakemake.txt "$work/cache/snakemake/installed.txt"; }
	env -i PATH="$work/bin" HOME="$work" TMPDIR="$work" LINEMATE_CACHE="$work/cache" LINEMATE_APT_ETC="$work/apt" \
		LINEMATE_OS_RELEASE="$work/os-release" bash "$setup" "$@" 2>&1
}

# expect NAME STATUS OUTPUT [ARGUMENT…]: the folder of the test is @ in OUTPUT.
expect() {
	local name=$1 status=$2 output=$3 got got_status=0
	shift 3
	got=$(run_setup "$@") || got_status=$?
	got=${got//$work/@}
	got=$(sed -E 's/(linemate-setup\.)[A-Za-z0-9]{6}/\1LOG/' <<<"$got")
	if [ "$got_status" != "$status" ] || [ "$got" != "$output" ]; then
		printf '%s: error: %s\n  expected (%s): %s\n  got      (%s): %s\n' "$0" "$name" "$status" "$output" "$got_status" "$got" >&2
		failures=$((failures + 1))
	fi
}

equal() {
	if [ "$2" != "$3" ]; then
		printf '%s: error: %s\n  expected: %s\n  got:      %s\n' "$0" "$1" "$2" "$3" >&2
		failures=$((failures + 1))
	fi
}

# --- Machines -------------------------------------------------------------------------------------------------------------

machine
expect "nothing missing: no word, no apt" 0 "" test
expect "unknown goal" 2 "setup: error: unknown goal 'tset': use build, demo, test, cases, patches, lint, fuzz, page, sweep, deb, image, site or packages" tset

machine
stand_in id 'echo 1000'
without hackbench
without cc
expect "packages missing, not root" 2 \
	"setup: error: missing: gcc rt-tests; installing needs root: run \`sudo scripts/setup.sh packages\`, then repeat as yourself"

machine
stand_in id 'echo 1000'
without flex
# shellcheck disable=SC2016 # the stand-in's
stand_in gcc 'case $(cat) in *libelf*) exit 1 ;; esac'
expect "test: what kernels are compiled with is missing" 2 \
	"setup: error: missing: flex libelf-dev; installing needs root: run \`sudo scripts/setup.sh packages\`, then repeat as yourself" \
	test
expect "demo compiles no kernels" 0 "" demo

# scripts/test-build-kernel.sh is a test: all that scripts/build-kernel.sh needs must come with
# `test`.
machine
stand_in id 'echo 1000'
ln -s "$(command -v realpath)" "$work/bin/realpath"
for tool in gcc make patch flex bison bc cpio pahole; do
	without "$tool"
done
mkdir -p "$work/linux"
touch "$work/linux/Kconfig"
asked=$(PATH="$work/bin" bash scripts/build-kernel.sh "$work/linux" "$work/linux/Kconfig" "$work/out" 2>&1 || true)
equal "scripts/build-kernel.sh asks for packages" "build-kernel: packages are missing; as root: apt-get install " "${asked%%gcc*}"
asked=${asked#*apt-get install }
expect "test: all that scripts/build-kernel.sh asks for" 2 \
	"setup: error: missing: $asked; installing needs root: run \`sudo scripts/setup.sh packages\`, then repeat as yourself" \
	test

machine
stand_in id 'echo 1000'
rm -r "$work/cache"
for tool in hackbench qemu-system-x86_64 pahole; do
	without "$tool"
done
expect "build: a compiler and cargo are enough" 0 "" build
expect "fuzz: libFuzzer is C++" 2 \
	"setup: error: missing: g++; installing needs root: run \`sudo scripts/setup.sh packages fuzz\`, then repeat as yourself" fuzz
expect "lint: shell scripts are checked" 2 \
	"setup: error: missing: shellcheck; installing needs root: run \`sudo scripts/setup.sh packages lint\`, then repeat as yourself" lint
stand_in c++ 'exit 1'
stand_in shellcheck 'exit 1'
expect "fuzz: a compiler for it is enough" 0 "" fuzz
without cc
expect "build: no compiler" 2 \
	"setup: error: missing: gcc; installing needs root: run \`sudo scripts/setup.sh packages build\`, then repeat as yourself" build

# What a refusal names installs what was missing, and no more: here neither QEMU nor pahole.
machine
for tool in qemu-system-x86_64 pahole cargo; do
	without "$tool"
done
stand_in ln "exec $(command -v ln) \"\$@\""
# shellcheck disable=SC2016 # the stand-in's
stand_in apt-cache 'echo " $2 | 1 | archive bookworm/main amd64 Packages"'
stand_in apt-get "case \"\$*\" in
	*'install '*' shellcheck') ln -s true $work/bin/shellcheck; exit ;;
	*'install '*' g++') ln -s true $work/bin/c++; exit ;;
	esac; exit 100"
stand_in true true
expect "packages lint" 0 "setup: installing shellcheck" packages lint
expect "packages fuzz" 0 "setup: installing g++" packages fuzz
expect "packages of nothing" 2 "setup: error: unknown goal 'tset' of packages: use build, demo, test, cases, patches, lint, fuzz, page, sweep, deb, image or site" packages tset

# QEMU from the backports has replaced libelf1 by theirs: libelf-dev and pahole must come from
# there, too.
machine
printf 'ID=debian\nVERSION_CODENAME=bookworm\n' >"$work/os-release"
without pahole
stand_in apt-cache 'echo " dwarves | 1.24 | archive bookworm/main amd64 Packages"'
stand_in ln "exec $(command -v ln) \"\$@\""
stand_in apt-get "case \"\$*\" in *'install '*'-t bookworm-backports dwarves') ln -s true $work/bin/pahole; exit ;; esac
	echo 'E: Unable to correct problems, you have held broken packages.'; exit 100"
stand_in true true
expect "packages that go with the backports" 0 "setup: installing dwarves" test

machine
stand_in id 'echo 1000'
without python3
expect "test: no Python" 2 \
	"setup: error: missing: python3 python3-venv; installing needs root: run \`sudo scripts/setup.sh packages\`, then repeat as yourself" test
expect "demo needs no Python" 0 "" demo

machine
without_snakemake=yes
# python_with_pip STATUS: what it installs exits with that status.
python_with_pip() {
	stand_in python3 "[ \"\$2\" != venv ] || { mkdir -p \"\$3/bin\"; printf '#!/bin/bash\\nexit $1\\n' >\"\$3/bin/pip\"; chmod +x \"\$3/bin/pip\"; }"
}
python_with_pip 1
expect "test: pip finds no package" 2 "setup: installing Python's packages of snakemake.txt (a minute or more on a slow line)
setup: error: pip cannot install snakemake.txt: check the network and pip's settings" test
python_with_pip 0
expect "test: Snakemake is installed" 0 "setup: installing Python's packages of snakemake.txt (a minute or more on a slow line)" test
expect "test: once" 0 "" test
expect "demo needs no Snakemake" 0 "" demo
without_snakemake=

# dwp is in Debian 12's binutils, and in a package of its own in Debian 13.
machine
stand_in id 'echo 1000'
without dwp
expect "test: binutils without dwp" 2 \
	"setup: error: missing: binutils-gold; installing needs root: run \`sudo scripts/setup.sh packages\`, then repeat as yourself" test
expect "demo needs no dwp" 0 "" demo
without ld
expect "test: no binutils" 2 \
	"setup: error: missing: binutils; installing needs root: run \`sudo scripts/setup.sh packages\`, then repeat as yourself" test

# machine_of_debian WHAT-BINUTILS-BRINGS: a machine whose apt installs binutils, and dwp with it or on its own.
machine_of_debian() {
	machine
	without dwp
	without ld
	stand_in ln "exec $(command -v ln) \"\$@\""
	stand_in true true
	# shellcheck disable=SC2016 # the stand-in's
	stand_in apt-cache 'echo " $2 | 1 | archive main amd64 Packages"'
	stand_in apt-get "case \"\$*\" in
		*'install '*' binutils') for tool in $1; do ln -s true $work/bin/\$tool; done; exit ;;
		*'install '*' binutils-gold') ln -s true $work/bin/dwp; exit ;;
		esac; exit 100"
}

machine_of_debian "ld dwp"
expect "binutils with dwp" 0 "setup: installing binutils" test
machine_of_debian "ld"
expect "binutils and dwp" 0 "setup: installing binutils
setup: installing binutils-gold" test
machine_of_debian ""
stand_in apt-get 'exit 0'
expect "packages that do not bring what they should" 2 "setup: installing binutils
setup: error: still missing after installing them: binutils: is PATH complete?" test

# What `cases` needs in addition to `test`.
machine_for_cases() {
	machine
	local tool
	for tool in xz ffmpeg pi_stress; do
		stand_in "$tool" true
	done
	mkdir -p "$work/cache/sources/linux-source-6.12" "$work/cache/sources/linux-source-6.1" "$work/cache/sources/linux-source-7.3"
	touch "$work/cache/sources/linux-source-6.12/Makefile" "$work/cache/sources/linux-source-6.1/Makefile" "$work/cache/sources/linux-source-7.3/Makefile"
}

machine_for_cases
expect "cases: nothing missing" 0 "" cases

machine_for_cases
stand_in id 'echo 1000'
without flex
without pi_stress
expect "cases: packages missing, not root" 2 \
	"setup: error: missing: flex rt-tests; installing needs root: run \`sudo scripts/setup.sh packages cases\`, then repeat as yourself" \
	cases

machine_for_cases
rm "$work/cache/sources/linux-source-6.1/Makefile"
without apt-get
expect "cases: no sources, no apt" 2 \
	"setup: error: there are no kernel sources in @/cache/sources/linux-source-6.1 and no apt-get to fetch them: unpack Debian's package linux-source-6.1 there" \
	cases

machine_for_cases
rm "$work/cache/sources/linux-source-6.12/Makefile"
stand_in id 'echo 1000'
expect "cases: no sources on offer" 2 \
	"setup: error: no apt source of this machine has the package linux-source-6.12: add Debian 12's main and security archive" \
	cases

# What `patches` needs in addition to the sources.
machine_for_patches() {
	machine_for_cases
	without ffmpeg
	without pi_stress
	local release headers
	for release in 6.12.117+deb12-cloud-amd64 6.12.117+deb12-rt-amd64 6.1.0-55-cloud-amd64; do
		headers=$work/cache/headers/linux-headers-$release/include/generated
		mkdir -p "$headers"
		touch "$headers/autoconf.h"
	done
}

machine_for_patches
expect "patches: nothing missing" 0 "" patches

machine_for_patches
rm -r "$work/cache/headers/linux-headers-6.12.117+deb12-rt-amd64"
without apt-get
expect "patches: no headers, no apt" 2 \
	"setup: error: there are no headers in @/cache/headers/linux-headers-6.12.117+deb12-rt-amd64 and no apt-get to fetch them: unpack Debian's package linux-headers-6.12.117+deb12-rt-amd64 there" \
	patches

machine
without apt-get
without pahole
expect "packages missing, no apt" 2 \
	"setup: error: missing: dwarves; there is no apt-get here, so install it with this system's package manager" test
expect "demo needs no pahole" 0 "" demo

machine
stand_in ldd 'exit 0'
stand_in id 'echo 1000'
expect "busybox is there but not static" 2 \
	"setup: error: missing: busybox-static; installing needs root: run \`sudo scripts/setup.sh packages\`, then repeat as yourself"

machine
stand_in id 'echo 1000'
qemu 7.2.18 '-plugin [file=]<file>'
expect "QEMU too old, not root" 2 \
	"setup: error: @/bin/qemu-system-x86_64 is version 7.2.18, 9.2 or newer is needed: QEMU 9.2 or newer with plugin support is needed (packages qemu-system-x86, qemu-utils); installing needs root: run \`sudo scripts/setup.sh packages\`, then repeat as yourself"
qemu 9.2.0 '-plugin [file=]<file>'
expect "the oldest QEMU that will do" 0 ""

machine
without apt-get
without qemu-system-x86_64
expect "no QEMU, no apt" 2 \
	"setup: error: qemu-system-x86_64 is not installed: QEMU 9.2 or newer with plugin support is needed (packages qemu-system-x86, qemu-utils); there is no apt-get here, so install it with this system's package manager"

machine
qemu 10.0.2 '-accel name'
stand_in dpkg-query 'exit 1'
expect "QEMU without plugins, built by hand" 2 \
	"setup: error: @/bin/qemu-system-x86_64 was built without plugins: it is not a package's, so take it off PATH, or build it anew with --enable-plugins"

machine
without hackbench
stand_in apt-cache 'echo " rt-tests | 2.4-1 | archive bookworm/main amd64 Packages"'
stand_in apt-get 'echo "E: Could not resolve the archive"; exit 100'
expect "no network" 2 "setup: installing rt-tests
setup: reading the package lists
setup: error: apt-get update failed (E: Could not resolve the archive): check the network and the apt sources; whole output in @/linemate-setup.LOG"

machine
stand_in id 'echo 1000'
stand_in cargo 'echo "cargo 1.63.0"'
expect "cargo too old, no rustup" 2 \
	"setup: error: cargo 1.63.0 is too old, 1.85 or newer is needed: install Rust with rustup (rust-lang.org/tools/install)"
stand_in rustup true
expect "cargo too old, rustup there" 2 \
	"setup: error: cargo 1.63.0 is too old, 1.85 or newer is needed: run \`rustup update stable\`"
without rustup
without cargo
expect "no cargo" 2 \
	"setup: error: cargo is not installed, 1.85 or newer is needed: install Rust with rustup (rust-lang.org/tools/install)"

machine
rm -r "$work/cache"
without apt-get
expect "no kernel image, no apt" 2 \
	"setup: error: there is no kernel image of 6.12 in @/cache/kernels and no apt-get to fetch one: put Debian's at @/cache/kernels/6.12.117+deb12-cloud-amd64/boot/vmlinuz-6.12.117+deb12-cloud-amd64"
kernel 6.12.200+deb12-cloud-amd64
expect "another version of the series will do" 0 ""

machine
chmod o+w "$work/cache/kernels/6.12.117+deb12-cloud-amd64/boot"
expect "a kernel that others could have put there" 2 \
	"setup: error: @/cache/kernels/6.12.117+deb12-cloud-amd64/boot can be written by others, and kernels from there are booted: remove it, or set LINEMATE_CACHE"
chmod o-w "$work/cache/kernels/6.12.117+deb12-cloud-amd64/boot"

machine
rm -r "$work/cache/foreign-kernels"
expect "demo needs no kernel of another architecture" 0 "" demo
without apt-get
expect "no kernel of another architecture, no apt" 2 \
	"setup: error: there is no kernel image of 6.1-arm64 in @/cache/foreign-kernels and no apt-get to fetch one: put Debian's at @/cache/foreign-kernels/6.1.0-55-cloud-arm64/boot/vmlinuz-6.1.0-55-cloud-arm64" test

# --- Kernel packages ------------------------------------------------------------------------------------------------------

# package NAME DEPENDS [FILE…]
package() {
	local name=$1 depends=$2 file tree=$work/tree
	shift 2
	rm -rf "$tree"
	mkdir -p "$tree/DEBIAN" "$work/archive"
	printf 'Package: %s\nVersion: 1\nArchitecture: all\nMaintainer: nobody\nDescription: test\n' "$name" >"$tree/DEBIAN/control"
	[ -z "$depends" ] || echo "Depends: $depends" >>"$tree/DEBIAN/control"
	for file in "$@"; do
		mkdir -p "$tree/${file%/*}"
		echo "$name" >"$tree/$file"
	done
	chmod -R go-w,a+rX "$tree"
	dpkg-deb -Znone --root-owner-group -b "$tree" "$work/archive/${name}_1_all.deb" >/dev/null
}

# The archive's packages are the files of the folder `archive`.
archive_machine() {
	machine
	rm -rf "$work/cache" "$work/archive"
	stand_in cp "exec $(command -v cp) \"\$@\""
	stand_in apt-get "case \"\$*\" in *download*) cp $work/archive/\"\${@: -1}\"_1_all.deb . ;; esac"
	stand_in apt-cache "case \$1 in
		madison) for f in $work/archive/\"\$2\"_*; do [ ! -e \"\$f\" ] || echo \" \$2 | 1 | archive main\"; done ;;
		search) cd $work/archive && for f in *_1_all.deb; do [[ ! \${f%_1_all.deb} =~ \$3 ]] || echo \"\${f%_1_all.deb} - Linux\"; done ;;
		esac"
}

archive_machine
pin=6.12.117+deb12-cloud-amd64
package "linux-image-$pin" "" "boot/vmlinuz-$pin" "boot/config-$pin" "lib/modules/$pin/kernel/a.ko" \
	"usr/share/doc/linux-image-$pin/copyright" "usr/share/doc/linux-image-$pin/changelog.gz"
expect "the pinned kernel" 0 "setup: downloading the kernel image $pin (about 35 MB)
setup: unpacked to @/cache/kernels/$pin"
equal "image, configuration and licence, no modules, no leftovers" "kernels
kernels/$pin
kernels/$pin/boot
kernels/$pin/boot/config-$pin
kernels/$pin/boot/vmlinuz-$pin
kernels/$pin/usr
kernels/$pin/usr/share
kernels/$pin/usr/share/doc
kernels/$pin/usr/share/doc/linux-image-$pin
kernels/$pin/usr/share/doc/linux-image-$pin/copyright" "$(cd "$work/cache" && find kernels | sort)"
expect "and a second time nothing" 0 ""

archive_machine
package linux-image-6.12.90+deb12-cloud-amd64 "" boot/vmlinuz-6.12.90+deb12-cloud-amd64
package linux-image-6.12.118+deb12-cloud-amd64 "" boot/vmlinuz-6.12.118+deb12-cloud-amd64
package linux-image-6.12-cloud-amd64 linux-image-6.12.118+deb12-cloud-amd64
expect "the pinned kernel is gone: the newest" 0 "setup: reading the package lists
setup: the pinned kernel $pin is no longer on offer: taking 6.12.118+deb12-cloud-amd64, so figures may differ from the documented ones
setup: downloading the kernel image 6.12.118+deb12-cloud-amd64 (about 35 MB)
setup: unpacked to @/cache/kernels/6.12.118+deb12-cloud-amd64"

for place in "boot/vmlinuz-$pin" "usr/lib/modules/$pin/vmlinuz"; do
	archive_machine
	package "linux-image-$pin" "linux-binary-$pin (= 1), kmod" "usr/share/doc/linux-image-$pin/copyright"
	package "linux-binary-$pin" "" "$place"
	expect "an empty image package: $place" 0 "setup: downloading the kernel image $pin (about 35 MB)
setup: unpacked to @/cache/kernels/$pin"
	equal "the kernel comes from the binary package" "linux-binary-$pin" "$(cat "$work/cache/kernels/$pin/boot/vmlinuz-$pin")"
done

archive_machine
package "linux-image-$pin" kmod "usr/share/doc/linux-image-$pin/copyright"
expect "a package without a kernel" 2 "setup: downloading the kernel image $pin (about 35 MB)
setup: error: the package linux-image-$pin holds no kernel image and names no package that does: please report its version"
equal "which leaves nothing behind" "kernels" "$(cd "$work/cache" && find kernels | sort)"

archive_machine
package "linux-image-$pin" "" "boot/vmlinuz-$pin"
stand_in apt-get 'echo "E: Failed to fetch it"; exit 100'
expect "no network for the kernel" 2 "setup: downloading the kernel image $pin (about 35 MB)
setup: error: downloading linux-image-$pin failed (E: Failed to fetch it): check the network and the apt sources; whole output in @/linemate-setup.LOG"
equal "and nothing is left behind" "kernels" "$(cd "$work/cache" && find kernels | sort)"

archive_machine
expect "no kernel on offer" 2 "setup: reading the package lists
setup: error: no apt source of this machine has a cloud kernel image of 6.12: run \`apt-get update\` as root, or add Debian 12's main and security archive to the sources"

# --- Kernels of other architectures ---------------------------------------------------------------------------------------

archive_machine
kernel 6.12.117+deb12-cloud-amd64
kernel 6.1.0-55-cloud-amd64
kernel 6.1.0-55-cloud-arm64 foreign-kernels
mkdir -p "$work/apt" "$work/archive"
printf 'ID=debian\nVERSION_CODENAME=bookworm\n' >"$work/os-release"
cat >"$work/apt/sources.list" <<-'END'
	deb http://archive.example/debian bookworm main
	deb [signed-by=/etc/apt/keyrings/own.asc] http://security.example/debian-security bookworm-security main
END
package linux-image-6.12.96+deb12-powerpc64le "" boot/vmlinux-6.12.96+deb12-powerpc64le
package linux-image-6.12.99+deb12-powerpc64le-64k "" boot/vmlinux-6.12.99+deb12-powerpc64le-64k
package linux-image-6.12.118+deb12-cloud-amd64 "" boot/vmlinuz-6.12.118+deb12-cloud-amd64
stand_in apt-get "case \"\$*\" in
	*update*) cat \"\${APT_CONFIG%/*}/sources.list\" \"\$APT_CONFIG\" >$work/asked; echo 'E: one suite lacks it'; exit 100 ;;
	*download*) cp $work/archive/\"\${@: -1}\"_1_all.deb . ;;
	esac"
expect "one of the series, by an apt of its own" 0 "setup: reading the package lists of ppc64el
setup: the pinned kernel 6.12.95+deb12-powerpc64le is no longer on offer: taking 6.12.96+deb12-powerpc64le
setup: downloading the kernel image 6.12.96+deb12-powerpc64le (about 80 MB)
setup: unpacked to @/cache/foreign-kernels/6.12.96+deb12-powerpc64le" test
equal "an uncompressed kernel gets the name that is looked for" linux-image-6.12.96+deb12-powerpc64le \
	"$(cat "$work/cache/foreign-kernels/6.12.96+deb12-powerpc64le/boot/vmlinuz-6.12.96+deb12-powerpc64le")"
equal "sources" "deb [signed-by=/etc/apt/keyrings/own.asc] http://security.example/debian-security bookworm-security main
deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://archive.example/debian bookworm-backports main
deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://archive.example/debian bookworm main
APT::Architecture \"ppc64el\";" "$(head -n 4 "$work/asked")"
expect "and a second time nothing" 0 "" test
rm -r "$work/cache/foreign-kernels" "$work/archive"
mkdir "$work/archive"
expect "none on offer" 2 "setup: reading the package lists of arm64
setup: error: no apt source of this machine has a kernel image of 6.1-arm64 (E: one suite lacks it): add Debian's archive with its backports to the sources" test

# Debian 13 has no 6.1: it comes from 12, which the archive also has.
archive_machine
kernel 6.12.118+deb13-cloud-amd64
printf 'ID=debian\nVERSION_CODENAME=trixie\n' >"$work/os-release"
cat >"$work/apt/sources.list" <<-'END'
	deb http://archive.example/debian trixie main
	deb http://security.example/debian-security trixie-security main
END
stand_in apt-get "case \"\$*\" in
	*update*) [ -z \"\$APT_CONFIG\" ] || {
		cat \"\${APT_CONFIG%/*}/sources.list\" \"\$APT_CONFIG\" >$work/asked; mv $work/older/* $work/archive; } ;;
	*download*) cp $work/archive/\"\${@: -1}\"_1_all.deb . ;;
	esac"
package linux-image-6.1.0-55-cloud-amd64 "" boot/vmlinuz-6.1.0-55-cloud-amd64
mkdir -p "$work/older"
mv "$work/archive"/* "$work/older"
kernel 6.1.0-55-cloud-arm64 foreign-kernels
kernel 6.12.95+deb12-powerpc64le foreign-kernels
expect "a series of the release before" 0 "setup: reading the package lists
setup: reading the package lists of bookworm
setup: downloading the kernel image 6.1.0-55-cloud-amd64 (about 35 MB)
setup: unpacked to @/cache/kernels/6.1.0-55-cloud-amd64" test
equal "its sources" "deb [signed-by=$debian_keyring] http://security.example/debian-security bookworm-security main
deb [signed-by=$debian_keyring] http://archive.example/debian bookworm-backports main
deb [signed-by=$debian_keyring] http://archive.example/debian bookworm main
deb [signed-by=$debian_keyring] http://security.example/debian-security trixie-security main
deb [signed-by=$debian_keyring] http://archive.example/debian trixie-backports main
deb [signed-by=$debian_keyring] http://archive.example/debian trixie main
APT::Architecture \"amd64\";" "$(head -n 7 "$work/asked")"
equal "and the lists are gone" "" "$(compgen -G "$work/linemate-apt.*" || true)"

# --- Kernels by name --------------------------------------------------------------------------------------------------------

# expect_image NAME STATUS OUTPUT IMAGE: the same of scripts/kernel-image.sh.
expect_image() {
	setup=scripts/kernel-image.sh expect "$@"
}

archive_machine
for tool in cut flock; do
	ln -s "$(command -v "$tool")" "$work/bin/$tool"
done
rm -rf "$work/apt" "$work/os-release"
mkdir -p "$work/apt" "$work/archive"
printf 'ID=debian\nVERSION_CODENAME=bookworm\n' >"$work/os-release"
echo 'deb http://archive.example/debian bookworm main' >"$work/apt/sources.list"
stand_in apt-get "case \"\$*\" in
	*update*) cat \"\${APT_CONFIG%/*}/sources.list\" >$work/asked; echo again >>$work/updates ;;
	*download*) cp $work/archive/\"\${@: -1}\"_1_all.deb . ;;
	esac"
kernel 6.12.117+deb12-cloud-amd64
kernel 6.1.0-55-cloud-arm64 foreign-kernels
package linux-image-7.0.9+deb13-cloud-amd64 "" boot/vmlinuz-7.0.9+deb13-cloud-amd64
package linux-image-7.0.13+deb14-cloud-amd64 "" boot/vmlinuz-7.0.13+deb14-cloud-amd64
package linux-image-7.0-cloud-amd64 linux-image-7.0.13+deb14-cloud-amd64
package linux-image-7.10.1+deb14-cloud-amd64 "" boot/vmlinuz-7.10.1+deb14-cloud-amd64
package linux-image-6.19.2+deb14-cloud-amd64 "" boot/vmlinuz-6.19.2+deb14-cloud-amd64
image=@/cache/kernels/6.12.117+deb12-cloud-amd64/boot/vmlinuz-6.12.117+deb12-cloud-amd64
expect_image "what set-up fetched has a name" 0 "$image" debian:6.12
expect_image "and its version" 0 "$image" debian:6.12.117+deb12
expect_image "of another architecture" 0 "@/cache/foreign-kernels/6.1.0-55-cloud-arm64/boot/vmlinuz-6.1.0-55-cloud-arm64" debian:6.1-arm64
expect_image "no name" 2 "kernel-image: debian:../7: name a series or a version, such as debian:6.12, debian:6.12.117+deb12 or debian:6.12-arm64" debian:../7
image=@/cache/named-kernels/7.0.13+deb14-cloud-amd64/boot/vmlinuz-7.0.13+deb14-cloud-amd64
expect_image "the newest of a series, of whatever suite" 0 "kernel-image: reading the package lists of amd64 (all suites; they count for an hour)
kernel-image: downloading the kernel image 7.0.13+deb14-cloud-amd64 (about 35 MB)
kernel-image: unpacked to @/cache/named-kernels/7.0.13+deb14-cloud-amd64
$image" debian:7.0
expect_image "and a second time nothing" 0 "$image" debian:7.0
expect_image "a version" 0 "kernel-image: downloading the kernel image 7.0.9+deb13-cloud-amd64 (about 35 MB)
kernel-image: unpacked to @/cache/named-kernels/7.0.9+deb13-cloud-amd64
@/cache/named-kernels/7.0.9+deb13-cloud-amd64/boot/vmlinuz-7.0.9+deb13-cloud-amd64" debian:7.0.9+deb13
expect_image "no suite has it: the nearest" 2 "kernel-image: no suite of this computer's Debian archive has a kernel debian:7.3; the nearest: debian:6.19, debian:7.0, debian:7.10" debian:7.3
expect_image "and of an architecture that has none" 2 "kernel-image: reading the package lists of arm64 (all suites; they count for an hour)
kernel-image: no suite of this computer's Debian archive has a kernel debian:7.3-arm64" debian:7.3-arm64
equal "the lists are read once for each architecture" 2 "$(grep -c again "$work/updates")"
equal "suites that this machine has no source for" "deb [signed-by=$debian_keyring] http://archive.example/debian sid main" "$(grep sid "$work/asked")"
without apt-get
expect_image "no apt" 2 "kernel-image: debian:7.10 is not in @/cache/named-kernels, and there is no apt-get to fetch it" debian:7.10

# --- The address of the archive -------------------------------------------------------------------------------------------

# backports SOURCE-FILE-NAME, text on stdin: what setup makes of these apt sources.
backports() {
	machine
	rm -rf "$work/apt"
	mkdir -p "$work/apt/sources.list.d"
	cat >"$work/apt/$1"
	printf 'ID=debian\nVERSION_CODENAME=bookworm\n' >"$work/os-release"
	without qemu-system-x86_64
	stand_in apt-get 'exit 0'
	run_setup >/dev/null || true
	cat "$work/apt/sources.list.d/linemate-backports.sources" 2>/dev/null || echo none
}

expected() {
	printf 'Types: deb\nURIs: %s\nSuites: bookworm-backports\nComponents: main\nSigned-By: %s\n' "$1" "$2"
}

equal "deb822" "$(expected https://archive.example/debian /usr/share/keyrings/own.gpg)" "$(
	backports sources.list.d/debian.sources <<-'END'
		Types: deb
		URIs: https://security.example/debian-security
		Suites: bookworm-security
		Components: main

		# the archive
		Types: deb deb-src
		URIs: https://archive.example/debian https://second.example/debian
		Suites: bookworm bookworm-updates
		Components: main contrib
		Signed-By: /usr/share/keyrings/own.gpg
	END
)"
equal "deb822: disabled stanzas and sources only do not count" "$(expected https://right.example/debian "$debian_keyring")" "$(
	backports sources.list.d/debian.sources <<-'END'
		Enabled: no
		Types: deb
		URIs: https://disabled.example/debian
		Suites: bookworm
		Components: main

		Types: deb-src
		URIs: https://source.example/debian
		Suites: bookworm
		Components: main

		Types: deb
		URIs: https://other.example/debian
		Suites: bookworm
		Components: contrib

		types: deb
		uris:
		 https://right.example/debian
		suites: bookworm
		components: main
		signed-by:
		 -----BEGIN PGP PUBLIC KEY BLOCK-----
		 .
		 mQINBF
	END
)"
equal "one line" "$(expected http://archive.example/debian/ "$debian_keyring")" "$(
	backports sources.list <<-'END'
		# deb http://comment.example/debian bookworm main
		deb-src http://source.example/debian bookworm main
		deb http://security.example/debian-security bookworm-security main
		deb http://archive.example/debian/ bookworm main contrib # ours
	END
)"
equal "one line with options" "$(expected http://archive.example/debian /etc/apt/keyrings/own.asc)" "$(
	backports sources.list.d/own.list <<-'END'
		deb [ arch=amd64 signed-by=/etc/apt/keyrings/own.asc ] http://archive.example/debian bookworm contrib main
	END
)"
equal "none of this release" none "$(
	backports sources.list <<-'END'
		deb http://archive.example/debian trixie main
	END
)"

if [ "$failures" -gt 0 ]; then
	echo "$0: $failures failed" >&2
	exit 1
fi
echo "$0: passed"
